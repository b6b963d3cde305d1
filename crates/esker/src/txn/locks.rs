//! The lock table: keys and key ranges that transactions have locked, and the waits for them.
//!
//! A lock is shared or exclusive. Locks of keys are in stripes, by the hash of the key, with the
//! exact key. Locks of ranges are one list. A transaction keeps its locks until its end. It may
//! turn a shared lock of a key into an exclusive one.
//!
//! A request that meets a lock of another transaction waits until its time is up, or finds that it
//! closes a cycle of waits ([`super::waits`]). Waiters sleep on one condition variable. Every
//! release signals it, and every new shared lock, which may be one more to wait for. They look
//! again after [`RECHECK`], too: an exclusive lock of a key may be one more to wait for in a range.
//!
//! Invariants:
//! 1. A request for a key holds the list of ranges for reading, and a request for a range holds it
//!    for writing. So a range is compared with all keys of one moment.
//! 2. Two transactions hold locks that exclude each other at no moment.
//! 3. A change of the table comes before its signal. A waiter counts itself before it looks at the
//!    table, and sleeps only if no signal came after that look.
//!
//! Lock order: `prepared`, `ranges`, one stripe. `waits` is taken alone.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::item::{Item, KeyRange, Orders, RangeRef, TransactionId, key_identity};
use super::waits::Waits;
use crate::base::keyspace::TreeId;
use crate::base::order::KeyOrder;
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::base::sync::{Bug, Condvar, Mutex, RwLock, is_seeded};
use crate::error::{Error, ErrorKind, Result};
use crate::iter::same_key;

/// Number of stripes, a power of two.
const STRIPES: usize = if cfg!(esker_shuttle) { 2 } else { 64 };
/// Time after which a waiter looks at the table again without a release.
const RECHECK: Duration = Duration::from_millis(50);
/// Longest wait, about a year.
const WAIT_MAX: Duration = Duration::from_secs(1 << 25);

/// A locked key.
struct KeyLock {
    tree: TreeId,
    key: Arc<[u8]>,
    is_exclusive: bool,
    holders: Vec<TransactionId>,
}

/// A locked range.
struct RangeLock {
    holder: TransactionId,
    range: KeyRange,
    is_exclusive: bool,
}

impl RangeLock {
    /// Returns whether the lock excludes a lock of `item` by another transaction.
    fn excludes(&self, order: &KeyOrder, item: &Item<'_>) -> bool {
        (self.is_exclusive || item.is_write())
            && self.range.tree == item.tree()
            && match item {
                Item::Key { key, .. } => self.range.borrow().contains(order, key),
                Item::Range { range, .. } => self.range.borrow().overlaps(order, range),
            }
    }
}

/// Locks of keys, by the hash of the key.
type Stripe = HashMap<u64, Vec<KeyLock>>;

/// What a transaction holds. [`LockTable::release`] ends it.
#[derive(Debug)]
pub struct LockOwner {
    id: TransactionId,
    keys: Vec<HeldKey>,
    has_ranges: bool,
    is_prepared: bool,
}

#[derive(Debug)]
struct HeldKey {
    identity: u64,
    tree: TreeId,
    key: Arc<[u8]>,
}

impl LockOwner {
    /// Creates the owner of no locks.
    pub fn new(id: TransactionId) -> LockOwner {
        LockOwner { id, keys: Vec::new(), has_ranges: false, is_prepared: false }
    }

    /// Returns the number of the transaction.
    #[cfg(test)]
    pub fn id(&self) -> TransactionId {
        self.id
    }
}

/// The outcome of a look at the table.
enum Attempt {
    /// The lock is held. True if the transaction did not hold it before.
    Granted(bool),
    /// These transactions hold locks that exclude the wanted one.
    Blocked(Vec<TransactionId>),
}

/// The lock table of a store.
pub struct LockTable {
    ranges: RwLock<Vec<RangeLock>>,
    stripes: Vec<Mutex<Stripe>>,
    waits: Mutex<Waits>,
    released: Condvar,
    waiters_count: AtomicUsize,
    /// The names of prepared transactions.
    prepared: Mutex<HashMap<TransactionId, String>>,
    prepared_count: AtomicUsize,
}

impl Default for LockTable {
    fn default() -> LockTable {
        LockTable {
            ranges: RwLock::default(),
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            waits: Mutex::default(),
            released: Condvar::new(),
            waiters_count: AtomicUsize::new(0),
            prepared: Mutex::default(),
            prepared_count: AtomicUsize::new(0),
        }
    }
}

impl LockTable {
    /// Locks `item` for `owner`: exclusively if it is a write, otherwise shared. Waits for `wait`
    /// at most. `order` is the order of the item's tree. Returns whether `owner` did not hold the
    /// lock before.
    ///
    /// # Errors
    /// `Busy` when the time is up, `Deadlock` when the wait would close a cycle, `Closed`. The
    /// owner keeps the locks that it has.
    pub fn lock(
        &self,
        owner: &mut LockOwner,
        order: &KeyOrder,
        item: &Item<'_>,
        wait: Duration,
    ) -> Result<bool> {
        let is_new = match self.try_lock(owner, order, item) {
            Attempt::Granted(is_new) => is_new,
            Attempt::Blocked(holders) if wait.is_zero() => {
                return Err(self.timed_out(owner.id, item, wait, &holders));
            }
            Attempt::Blocked(_) => {
                self.waiters_count.fetch_add(1, Ordering::SeqCst);
                let outcome = self.wait_for(owner, order, item, wait.min(WAIT_MAX));
                self.waits.lock().remove(owner.id);
                self.waiters_count.fetch_sub(1, Ordering::SeqCst);
                outcome?
            }
        };
        if is_new && !item.is_write() {
            // A waiter for the same key waits for one more transaction now.
            self.wake_waiters();
        }
        Ok(is_new)
    }

    /// Makes the waiters look at the table again.
    fn wake_waiters(&self) {
        if self.waiters_count.load(Ordering::SeqCst) > 0 {
            self.waits.lock().changes += 1;
            self.released.notify_all();
        }
    }

    fn wait_for(
        &self,
        owner: &mut LockOwner,
        order: &KeyOrder,
        item: &Item<'_>,
        wait: Duration,
    ) -> Result<bool> {
        let (id, end) = (owner.id, Instant::now() + wait);
        loop {
            let changes = self.waits.lock().changes;
            let holders = match self.try_lock(owner, order, item) {
                Attempt::Granted(is_new) => return Ok(is_new),
                Attempt::Blocked(holders) => holders,
            };
            let now = Instant::now();
            if now >= end {
                return Err(self.timed_out(id, item, wait, &holders));
            }
            let mut waits = self.waits.lock();
            if waits.closed {
                return Err(Error::new(ErrorKind::Closed, "the store was closed"));
            }
            if waits.changes != changes {
                continue;
            }
            waits.add(id, holders);
            if let Some(cycle) = waits.cycle_through(id) {
                // At once, so that the others of the cycle continue to wait.
                waits.remove(id);
                drop(waits);
                return Err(self.deadlock(item, &cycle));
            }
            // The edges stay while this thread looks again. A holder that has released its locks
            // waits for nothing any more, so an old edge closes no cycle.
            self.released.wait_until(&mut waits, end.min(now + RECHECK));
        }
    }

    fn try_lock(&self, owner: &mut LockOwner, order: &KeyOrder, item: &Item<'_>) -> Attempt {
        match item {
            Item::Key { tree, key, .. } => self.try_lock_key(owner, order, item, (*tree, key)),
            Item::Range { range, .. } => self.try_lock_range(owner, order, item, range),
        }
    }

    fn try_lock_key(
        &self,
        owner: &mut LockOwner,
        order: &KeyOrder,
        item: &Item<'_>,
        (tree, key): (TreeId, &[u8]),
    ) -> Attempt {
        let (id, identity) = (owner.id, key_identity(order, tree, key));
        let ranges = self.ranges.read();
        let excluding =
            ranges.iter().filter(|lock| lock.holder != id && lock.excludes(order, item));
        let mut blockers: Vec<TransactionId> = excluding.map(|lock| lock.holder).collect();
        let mut stripe = self.stripe(identity).lock();
        let bucket = stripe.entry(identity).or_default();
        let is_same = |lock: &KeyLock| lock.tree == tree && same_key(order, &lock.key, key);
        let Some(at) = bucket.iter().position(is_same) else {
            if blockers.is_empty() {
                let (key, is_exclusive): (Arc<[u8]>, bool) = (Arc::from(key), item.is_write());
                owner.keys.push(HeldKey { identity, tree, key: key.clone() });
                bucket.push(KeyLock { tree, key, is_exclusive, holders: vec![id] });
                return Attempt::Granted(true);
            }
            if bucket.is_empty() {
                stripe.remove(&identity);
            }
            return Attempt::Blocked(blockers);
        };
        let lock = &mut bucket[at];
        let is_held = lock.holders.contains(&id);
        if is_held && (lock.is_exclusive || !item.is_write()) {
            return Attempt::Granted(false);
        }
        if (lock.is_exclusive || item.is_write()) && !is_seeded(Bug::LockGrantedTwice) {
            blockers.extend(lock.holders.iter().copied().filter(|holder| *holder != id));
        }
        if !blockers.is_empty() {
            return Attempt::Blocked(blockers);
        }
        lock.is_exclusive |= item.is_write();
        if !is_held {
            lock.holders.push(id);
            owner.keys.push(HeldKey { identity, tree, key: lock.key.clone() });
        }
        Attempt::Granted(!is_held)
    }

    fn try_lock_range(
        &self,
        owner: &mut LockOwner,
        order: &KeyOrder,
        item: &Item<'_>,
        range: &RangeRef<'_>,
    ) -> Attempt {
        let (id, is_exclusive) = (owner.id, item.is_write());
        let mut ranges = self.ranges.write();
        let is_held = |lock: &RangeLock| {
            lock.holder == id
                && (lock.is_exclusive || !is_exclusive)
                && lock.range.borrow() == *range
        };
        if ranges.iter().any(is_held) {
            return Attempt::Granted(false);
        }
        let excluding =
            ranges.iter().filter(|lock| lock.holder != id && lock.excludes(order, item));
        let mut blockers: Vec<TransactionId> = excluding.map(|lock| lock.holder).collect();
        self.for_each_key(|lock| {
            if (lock.is_exclusive || is_exclusive)
                && lock.tree == range.tree
                && range.contains(order, &lock.key)
            {
                blockers.extend(lock.holders.iter().copied().filter(|holder| *holder != id));
            }
        });
        if !blockers.is_empty() {
            blockers.sort_unstable();
            blockers.dedup();
            return Attempt::Blocked(blockers);
        }
        let (lo, hi) = (range.lo.map(<[u8]>::to_vec), range.hi.map(<[u8]>::to_vec));
        let range = KeyRange { tree: range.tree, lo, hi };
        ranges.push(RangeLock { holder: id, range, is_exclusive });
        owner.has_ranges = true;
        Attempt::Granted(true)
    }

    fn for_each_key(&self, mut visit: impl FnMut(&KeyLock)) {
        for stripe in &self.stripes {
            stripe.lock().values().flatten().for_each(&mut visit);
        }
    }

    fn stripe(&self, identity: u64) -> &Mutex<Stripe> {
        &self.stripes[(identity >> 16) as usize % STRIPES]
    }

    /// Releases all locks of `owner`.
    pub fn release(&self, owner: &mut LockOwner) {
        let id = owner.id;
        let held = std::mem::take(&mut owner.keys);
        let had_locks = !held.is_empty() || owner.has_ranges;
        for key in &held {
            self.unlock(id, key);
        }
        if std::mem::take(&mut owner.has_ranges) {
            self.ranges.write().retain(|lock| lock.holder != id);
        }
        if std::mem::take(&mut owner.is_prepared) {
            self.prepared.lock().remove(&id);
            self.prepared_count.fetch_sub(1, Ordering::SeqCst);
        }
        if had_locks {
            self.wake_waiters();
        }
    }

    fn unlock(&self, id: TransactionId, held: &HeldKey) {
        let mut stripe = self.stripe(held.identity).lock();
        let Some(bucket) = stripe.get_mut(&held.identity) else { return };
        let is_held = |lock: &KeyLock| lock.tree == held.tree && lock.key == held.key;
        if let Some(at) = bucket.iter().position(is_held) {
            bucket[at].holders.retain(|holder| *holder != id);
            if bucket[at].holders.is_empty() {
                bucket.swap_remove(at);
            }
        }
        if bucket.is_empty() {
            stripe.remove(&held.identity);
        }
    }

    /// Marks `owner` as a prepared transaction: from now on its locks also stop commits of
    /// transactions that take no locks.
    pub fn set_prepared(&self, owner: &mut LockOwner, name: &str) {
        self.prepared.lock().insert(owner.id, name.to_string());
        if !std::mem::replace(&mut owner.is_prepared, true) {
            self.prepared_count.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Returns an error if a prepared transaction other than `id` has locked one of `items`.
    ///
    /// # Errors
    /// `Conflict`, with the name of the prepared transaction.
    pub fn refuse_prepared<'a>(
        &self,
        id: TransactionId,
        items: impl Iterator<Item = Item<'a>>,
        orders: &impl Orders,
    ) -> Result<()> {
        if self.prepared_count.load(Ordering::SeqCst) == 0 {
            return Ok(());
        }
        let prepared = self.prepared.lock();
        for item in items {
            let Some(order) = orders.order_of(item.tree()) else { continue };
            let holders = self.holders_excluding(order, &item);
            let mut others = holders.iter().filter(|holder| **holder != id);
            if let Some(name) = others.find_map(|holder| prepared.get(holder)) {
                return Err(Error::new(
                    ErrorKind::Conflict,
                    format!(
                        "the prepared transaction \"{name}\" has locked {item}; commit it or roll \
                         it back, then run this transaction again"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Returns the transactions whose locks exclude a lock of `item`.
    fn holders_excluding(&self, order: &KeyOrder, item: &Item<'_>) -> Vec<TransactionId> {
        let ranges = self.ranges.read();
        let excluding = ranges.iter().filter(|lock| lock.excludes(order, item));
        let mut holders: Vec<TransactionId> = excluding.map(|lock| lock.holder).collect();
        let mut add = |lock: &KeyLock| {
            if lock.is_exclusive || item.is_write() {
                holders.extend(&lock.holders);
            }
        };
        match item {
            Item::Key { tree, key, .. } => {
                let identity = key_identity(order, *tree, key);
                let stripe = self.stripe(identity).lock();
                let bucket = stripe.get(&identity).into_iter().flatten();
                bucket
                    .filter(|lock| lock.tree == *tree && same_key(order, &lock.key, key))
                    .for_each(&mut add);
            }
            Item::Range { range, .. } => self.for_each_key(|lock| {
                if lock.tree == range.tree && range.contains(order, &lock.key) {
                    add(lock);
                }
            }),
        }
        holders
    }

    /// Returns the number of locked keys and of locked ranges.
    #[cfg(test)]
    pub fn counts(&self) -> (usize, usize) {
        let mut keys = 0;
        self.for_each_key(|_| keys += 1);
        (keys, self.ranges.read().len())
    }

    /// Ends all waits with an error.
    pub fn close(&self) {
        let mut waits = self.waits.lock();
        waits.closed = true;
        waits.changes += 1;
        drop(waits);
        self.released.notify_all();
    }

    /// Returns the name of a transaction in a message.
    fn name_of(&self, id: TransactionId) -> String {
        match self.prepared.lock().get(&id) {
            Some(name) => format!("the prepared transaction \"{name}\""),
            None => format!("transaction {id}"),
        }
    }

    #[cold]
    fn timed_out(
        &self,
        id: TransactionId,
        item: &Item<'_>,
        wait: Duration,
        holders: &[TransactionId],
    ) -> Error {
        let holder = holders.first().map_or_else(String::new, |holder| self.name_of(*holder));
        let waited_ms = wait.as_millis();
        Error::new(
            ErrorKind::Busy,
            format!(
                "transaction {id} waited {waited_ms} ms for a lock of {item}, which {holder} holds"
            ),
        )
    }

    #[cold]
    fn deadlock(&self, item: &Item<'_>, cycle: &[TransactionId]) -> Error {
        let mut message = String::from("a deadlock: ");
        for (at, id) in cycle.iter().enumerate() {
            let next = cycle[(at + 1) % cycle.len()];
            let separator = if at == 0 { "" } else { ", " };
            // Writing to a string does not fail.
            let _ = write!(
                message,
                "{separator}{} waits for {}",
                self.name_of(*id),
                self.name_of(next)
            );
        }
        message += &format!(" (the last wait was for {item}); roll one back and run it again");
        Error::new(ErrorKind::Deadlock, message)
    }
}

#[cfg(all(test, not(esker_shuttle)))]
mod tests;
