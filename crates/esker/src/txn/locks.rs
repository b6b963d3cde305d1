//! The lock table: keys and key ranges that transactions have locked, and the waits for them.
//!
//! A lock is shared or exclusive. Locks of keys are in stripes, by the hash of the key, with the
//! exact key. Locks of ranges are one list. A transaction keeps its locks until its end. It may turn
//! a shared lock of a key into an exclusive one.
//!
//! A request that meets a lock of another transaction waits until its time is up, or finds that it
//! closes a cycle of waits ([`super::waits`]). Waiters sleep on one condition variable, which every
//! release signals. They look again after [`RECHECK`], too, because a shared lock that was granted
//! meanwhile changes what they wait for.
//!
//! Invariants:
//! 1. A request for a key holds the list of ranges for reading, and a request for a range holds it
//!    for writing. So a range is compared with all keys of one moment.
//! 2. Two transactions hold locks that exclude each other at no moment.
//! 3. A release changes the table before it signals. A waiter counts itself before it looks at the
//!    table, and sleeps only if no release came after that look.
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
        LockOwner { id, keys: Vec::new(), has_ranges: false }
    }

    /// Returns the number of the transaction.
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
    /// Locks `item` for `owner`: exclusively if it is a write, otherwise shared. Waits for `wait` at
    /// most. `order` is the order of the item's tree. Returns whether `owner` did not hold the lock
    /// before.
    ///
    /// # Errors
    /// `Busy` when the time is up, `Deadlock` when the wait would close a cycle, `Closed`. The owner
    /// keeps the locks that it has.
    pub fn lock(
        &self,
        owner: &mut LockOwner,
        order: &KeyOrder,
        item: &Item<'_>,
        wait: Duration,
    ) -> Result<bool> {
        match self.try_lock(owner, order, item) {
            Attempt::Granted(is_new) => return Ok(is_new),
            Attempt::Blocked(holders) if wait.is_zero() => {
                return Err(self.timed_out(owner.id, item, wait, &holders));
            }
            Attempt::Blocked(_) => {}
        }
        self.waiters_count.fetch_add(1, Ordering::SeqCst);
        let outcome = self.wait_for(owner, order, item, wait.min(WAIT_MAX));
        self.waits.lock().remove(owner.id);
        self.waiters_count.fetch_sub(1, Ordering::SeqCst);
        outcome
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
            let releases = self.waits.lock().releases;
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
            if waits.releases != releases {
                continue;
            }
            waits.add(id, holders);
            if let Some(cycle) = waits.cycle_through(id) {
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
        let excluding = ranges.iter().filter(|lock| lock.holder != id && lock.excludes(order, item));
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
        let excluding = ranges.iter().filter(|lock| lock.holder != id && lock.excludes(order, item));
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
        if self.prepared_count.load(Ordering::SeqCst) > 0
            && self.prepared.lock().remove(&id).is_some()
        {
            self.prepared_count.fetch_sub(1, Ordering::SeqCst);
        }
        if had_locks && self.waiters_count.load(Ordering::SeqCst) > 0 {
            self.waits.lock().releases += 1;
            self.released.notify_all();
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
    pub fn set_prepared(&self, owner: &LockOwner, name: &str) {
        if self.prepared.lock().insert(owner.id, name.to_string()).is_none() {
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
        waits.releases += 1;
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
mod tests {
    use std::ops::Bound;

    use super::*;
    use crate::memtable::{Memtable, Memtables};
    use crate::options::kinds::MemtableKind;

    const ORDER: KeyOrder = KeyOrder::Bytewise;
    const NOW: Duration = Duration::ZERO;

    fn read(key: &[u8]) -> Item<'_> {
        Item::Key { tree: 0, key, is_write: false }
    }

    fn write(key: &[u8]) -> Item<'_> {
        Item::Key { tree: 0, key, is_write: true }
    }

    fn range<'a>(lo: &'a [u8], hi: &'a [u8], is_write: bool) -> Item<'a> {
        let (lo, hi) = (Bound::Included(lo), Bound::Excluded(hi));
        Item::Range { range: RangeRef { tree: 0, lo, hi }, is_write }
    }

    fn kind(outcome: Result<bool>) -> ErrorKind {
        outcome.unwrap_err().kind()
    }

    fn orders() -> Memtables {
        Memtables::new(Arc::new(Memtable::new(MemtableKind::Btree, ORDER)), Vec::new())
    }

    #[test]
    fn shared_locks_admit_each_other_and_exclusive_ones_nobody() {
        let table = LockTable::default();
        let [mut a, mut b] = [LockOwner::new(1), LockOwner::new(2)];
        assert!(table.lock(&mut a, &ORDER, &read(b"k"), NOW).unwrap());
        assert!(!table.lock(&mut a, &ORDER, &read(b"k"), NOW).unwrap());
        assert!(table.lock(&mut b, &ORDER, &read(b"k"), NOW).unwrap());
        assert_eq!(kind(table.lock(&mut a, &ORDER, &write(b"k"), NOW)), ErrorKind::Busy);
        table.release(&mut b);
        assert!(!table.lock(&mut a, &ORDER, &write(b"k"), NOW).unwrap(), "an upgrade");
        assert!(!table.lock(&mut a, &ORDER, &read(b"k"), NOW).unwrap());
        assert_eq!(kind(table.lock(&mut b, &ORDER, &read(b"k"), NOW)), ErrorKind::Busy);
        assert!(table.lock(&mut b, &ORDER, &write(b"l"), NOW).unwrap());
        let other_tree = Item::Key { tree: 1, key: b"k", is_write: true };
        assert!(table.lock(&mut b, &ORDER, &other_tree, NOW).unwrap());
        assert_eq!(table.counts(), (3, 0));
        table.release(&mut a);
        table.release(&mut b);
        assert_eq!(table.counts(), (0, 0));
    }

    #[test]
    fn ranges_exclude_keys_and_ranges_inside_them() {
        let table = LockTable::default();
        let [mut a, mut b] = [LockOwner::new(1), LockOwner::new(2)];
        assert!(table.lock(&mut a, &ORDER, &range(b"c", b"f", false), NOW).unwrap());
        assert!(!table.lock(&mut a, &ORDER, &range(b"c", b"f", false), NOW).unwrap());
        for (item, free) in [
            (write(b"b"), true),
            (write(b"c"), false),
            (read(b"d"), true),
            (write(b"f"), true),
            (range(b"e", b"g", false), true),
            (range(b"a", b"c", true), true),
            (range(b"b", b"d", true), false),
        ] {
            let mut other = LockOwner::new(3);
            assert_eq!(table.lock(&mut other, &ORDER, &item, NOW).is_ok(), free, "{item}");
            table.release(&mut other);
        }
        assert!(table.lock(&mut a, &ORDER, &write(b"d"), NOW).unwrap());
        assert_eq!(kind(table.lock(&mut b, &ORDER, &range(b"a", b"z", false), NOW)), ErrorKind::Busy);
        table.release(&mut a);
        assert!(table.lock(&mut b, &ORDER, &range(b"a", b"z", false), NOW).unwrap());
        assert_eq!(table.counts(), (0, 1));
        table.release(&mut b);
        assert_eq!(table.counts(), (0, 0));
    }

    #[test]
    fn a_waiter_gets_the_lock_when_it_is_released() {
        let table = LockTable::default();
        let mut a = LockOwner::new(1);
        table.lock(&mut a, &ORDER, &write(b"k"), NOW).unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let mut b = LockOwner::new(2);
                let got = table.lock(&mut b, &ORDER, &write(b"k"), WAIT_MAX);
                table.release(&mut b);
                got
            });
            while table.waiters_count.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            table.release(&mut a);
            assert!(waiter.join().unwrap().unwrap());
        });
        assert_eq!(table.counts(), (0, 0));
    }

    #[test]
    fn a_deadlock_is_named_and_a_close_ends_the_waits() {
        let table = LockTable::default();
        let [mut a, mut b] = [LockOwner::new(11), LockOwner::new(12)];
        table.lock(&mut a, &ORDER, &write(b"x"), NOW).unwrap();
        table.lock(&mut b, &ORDER, &write(b"y"), NOW).unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| table.lock(&mut a, &ORDER, &write(b"y"), WAIT_MAX));
            while !table.waits.lock().is_waiting(11) {
                std::thread::yield_now();
            }
            let error = table.lock(&mut b, &ORDER, &write(b"x"), WAIT_MAX).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Deadlock, "{error}");
            for part in ["transaction 12 waits for transaction 11", "the key \"x\""] {
                assert!(error.message().contains(part), "{error}");
            }
            assert!(error.message().contains("transaction 11 waits for transaction 12"));
            table.close();
            assert_eq!(kind(waiter.join().unwrap()), ErrorKind::Closed);
        });
    }

    #[test]
    fn prepared_transactions_stop_others_by_name() {
        let (table, orders) = (LockTable::default(), orders());
        let mut a = LockOwner::new(1);
        table.lock(&mut a, &ORDER, &write(b"w"), NOW).unwrap();
        table.lock(&mut a, &ORDER, &read(b"r"), NOW).unwrap();
        table.lock(&mut a, &ORDER, &range(b"c", b"f", false), NOW).unwrap();
        let refused = |id, item| table.refuse_prepared(id, [item].into_iter(), &orders).err();
        assert!(refused(2, write(b"w")).is_none(), "the transaction is not prepared");
        table.set_prepared(&a, "order 7");
        table.set_prepared(&a, "order 7");
        for (item, free) in [
            (read(b"w"), false),
            (write(b"w"), false),
            (read(b"r"), true),
            (write(b"r"), false),
            (write(b"d"), false),
            (read(b"d"), true),
            (write(b"f"), true),
            (range(b"q", b"s", true), false),
            (range(b"q", b"s", false), true),
        ] {
            let error = refused(2, item);
            assert_eq!(error.is_none(), free, "{item}: {error:?}");
            let named = |error: Error| error.message().contains("\"order 7\"");
            assert!(error.is_none_or(named));
            assert!(refused(1, item).is_none(), "its own locks");
        }
        let mut b = LockOwner::new(2);
        let busy = table.lock(&mut b, &ORDER, &write(b"w"), NOW).unwrap_err();
        assert!(busy.message().contains("the prepared transaction \"order 7\""), "{busy}");
        table.release(&mut a);
        assert!(refused(2, write(b"w")).is_none());
    }
}
