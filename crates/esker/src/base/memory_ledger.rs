//! The memory of the memtables of many stores under one limit.
//!
//! Each store has an [`Account`]. When the active memtables of all stores together exceed half of
//! the limit, the store with the largest one is asked to flush it. So no store writes a small table
//! because another one writes much. When all memtables together reach the limit, writers wait until
//! flushes have freed memory. They go on in the order in which they came. While one waits, each
//! other writer waits too once it has written its turn ([`TURN_BYTES`]): else those that run when
//! memory is freed would take it again and again, and the others would wait for ever.
//!
//! Invariants:
//! 1. `total_bytes` and `active_bytes` are the sums over the accounts that count.
//! 2. The memory of a store whose flushes fail does not count: it would not be freed, and the other
//!    stores must go on. Its own writers get the error of its flush when its memtables are full.
//! 3. The store that is asked has the largest active memtable among those that are not asked yet.
//! 4. `waiting` is the length of `queue`. A writer leaves the queue when its wait ends, however it
//!    ends.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use super::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use super::sync::{Condvar, Mutex, MutexGuard};

/// Bytes by which an active memtable grows before its account is updated.
const STEP_BYTES: u64 = 16 << 10;
/// The smallest active memtable that a store is asked to flush, in bytes.
const FLUSHED_BYTES_MIN: u64 = 4 << 10;
/// Bytes that a writer may write after a wait while others wait, up to one step less.
const TURN_BYTES: u64 = 4 * STEP_BYTES;

/// The ledger of the memtables of a runtime.
pub struct MemoryLedger {
    limit_bytes: u64,
    total_bytes: AtomicU64,
    active_bytes: AtomicU64,
    accounts: Mutex<Vec<Weak<Account>>>,
    queue: Mutex<Queue>,
    waiting: AtomicUsize,
    freed: Condvar,
}

/// The writers that wait, by number, in the order in which they came.
#[derive(Default)]
struct Queue {
    numbers: VecDeque<u64>,
    last: u64,
}

/// A place in the queue of a ledger, which ends when it is dropped. A writer that leaves before its
/// turn has come, because its deadline has passed, say, keeps its number for the next wait of its
/// store.
pub struct Turn<'a> {
    account: &'a Account,
    number: u64,
    has_come: Cell<bool>,
}

/// What a store holds, as its account knows it.
#[derive(Debug, Default, Clone, Copy)]
struct Held {
    active_bytes: u64,
    frozen_bytes: u64,
    is_failing: bool,
}

impl Held {
    /// Returns the bytes that count: in total, and of the active memtables.
    fn counted(self) -> (u64, u64) {
        if self.is_failing {
            return (0, 0);
        }
        (self.active_bytes + self.frozen_bytes, self.active_bytes)
    }
}

/// The account of a store.
pub struct Account {
    ledger: Arc<MemoryLedger>,
    held: Mutex<Held>,
    /// The active bytes at the last update.
    reported_bytes: AtomicU64,
    is_flush_wanted: AtomicBool,
    is_closed: AtomicBool,
    /// The size of the active memtable at which the turn of the store's writers ends.
    turn_end_bytes: AtomicU64,
    /// The number of a wait that ended before its turn had come; 0 without one.
    kept_number: AtomicU64,
    /// Called when the store is asked to flush. It may be called under any lock.
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl MemoryLedger {
    /// Creates a ledger for memtables of `limit_bytes` together.
    pub fn new(limit_bytes: u64) -> Arc<MemoryLedger> {
        Arc::new(MemoryLedger {
            limit_bytes,
            total_bytes: AtomicU64::new(0),
            active_bytes: AtomicU64::new(0),
            accounts: Mutex::default(),
            queue: Mutex::default(),
            waiting: AtomicUsize::new(0),
            freed: Condvar::new(),
        })
    }

    /// Returns the limit, in bytes.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Returns the memory of all memtables that count, in bytes.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes.load(Relaxed)
    }

    /// Returns whether the memtables use all of the limit.
    #[inline]
    fn is_full(&self) -> bool {
        self.total_bytes.load(Relaxed) >= self.limit_bytes
    }

    /// Opens an account.
    pub fn open_account(self: &Arc<MemoryLedger>) -> Arc<Account> {
        let account = Arc::new(Account {
            ledger: self.clone(),
            held: Mutex::default(),
            reported_bytes: AtomicU64::new(0),
            is_flush_wanted: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            turn_end_bytes: AtomicU64::new(0),
            kept_number: AtomicU64::new(0),
            wake: OnceLock::new(),
        });
        let mut accounts = self.accounts.lock();
        accounts.retain(|other| other.strong_count() > 0);
        accounts.push(Arc::downgrade(&account));
        account
    }

    /// Asks the stores with the largest active memtables to flush them, until what remains is
    /// within half of the limit.
    pub fn relieve(&self) {
        let soft = self.limit_bytes / 2;
        if self.active_bytes.load(Relaxed) <= soft {
            return;
        }
        let accounts = self.accounts.lock();
        let open: Vec<(u64, Arc<Account>)> = accounts
            .iter()
            .filter_map(Weak::upgrade)
            .map(|account| (account.counted_active_bytes(), account))
            .collect();
        drop(accounts);
        let is_wanted = |account: &Account| account.is_flush_wanted.load(Relaxed);
        let (wanted, mut others): (Vec<_>, Vec<_>) =
            open.into_iter().partition(|(_, account)| is_wanted(account));
        let asked: u64 = wanted.iter().map(|(bytes, _)| bytes).sum();
        let mut left = self.active_bytes.load(Relaxed).saturating_sub(asked);
        others.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        for (bytes, account) in others {
            if left <= soft || bytes < FLUSHED_BYTES_MIN {
                break;
            }
            left = left.saturating_sub(bytes);
            account.is_flush_wanted.store(true, Relaxed);
            account.wake();
        }
    }

    /// Returns the number of writers that may go on at one moment. It reserves nothing: one that has
    /// gone on is replaced by the next before it has written, so each may write a step beyond the
    /// limit.
    fn admitted(&self) -> usize {
        let room = self.limit_bytes.saturating_sub(self.total_bytes());
        room.div_ceil(TURN_BYTES) as usize
    }
}

impl Turn<'_> {
    /// Returns whether the writer may go on: memory is free, and there is enough of it for those
    /// before it in the queue. Then its turn begins.
    pub fn has_come(&self) -> bool {
        if self.is_admitted(&self.account.ledger.queue.lock()) && !self.has_come.replace(true) {
            let end = self.account.reported_bytes.load(Relaxed) + TURN_BYTES;
            self.account.turn_end_bytes.store(end, Relaxed);
        }
        self.has_come.get()
    }

    /// Waits until the writer may be able to go on, or until `end`.
    pub fn wait_until(&self, end: Instant) {
        let ledger = &self.account.ledger;
        let mut queue = ledger.queue.lock();
        if !self.is_admitted(&queue) {
            ledger.freed.wait_until(&mut queue, end);
        }
    }

    fn is_admitted(&self, queue: &Queue) -> bool {
        queue.numbers.iter().take(self.account.ledger.admitted()).any(|n| *n == self.number)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let ledger = &self.account.ledger;
        let mut queue = ledger.queue.lock();
        queue.numbers.retain(|n| *n != self.number);
        ledger.waiting.store(queue.numbers.len(), Relaxed);
        if !self.has_come.get() {
            self.account.kept_number.store(self.number, Relaxed);
        }
        if !queue.numbers.is_empty() && !ledger.is_full() {
            // The next one has moved up.
            ledger.freed.notify_all();
        }
    }
}

impl Account {
    /// Returns the ledger.
    pub fn ledger(&self) -> &Arc<MemoryLedger> {
        &self.ledger
    }

    /// Sets what wakes the store to flush its active memtable.
    pub fn set_wake(&self, wake: Box<dyn Fn() + Send + Sync>) {
        let _ = self.wake.set(wake);
    }

    /// Returns whether a writer whose active memtable has `active_bytes` has to wait: the memory is
    /// used, or others wait and the writer has had its turn.
    #[inline]
    pub fn must_wait(&self, active_bytes: u64) -> bool {
        let ledger = &*self.ledger;
        ledger.is_full()
            || (ledger.waiting.load(Relaxed) > 0
                && active_bytes >= self.turn_end_bytes.load(Relaxed))
    }

    /// Takes a place in the queue: the last one, or that of the store's wait which ended too early.
    pub fn queue_up(&self) -> Turn<'_> {
        let mut queue = self.ledger.queue.lock();
        let kept = self.kept_number.swap(0, Relaxed);
        let number = if kept > 0 { kept } else { queue.last + 1 };
        queue.last = queue.last.max(number);
        let at = queue.numbers.partition_point(|other| *other < number);
        queue.numbers.insert(at, number);
        self.ledger.waiting.store(queue.numbers.len(), Relaxed);
        Turn { account: self, number, has_come: Cell::new(false) }
    }

    fn counted_active_bytes(&self) -> u64 {
        self.held.lock().counted().1
    }

    fn wake(&self) {
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }

    /// Returns whether the store is asked to flush its active memtable.
    #[inline]
    pub fn is_flush_wanted(&self) -> bool {
        self.is_flush_wanted.load(Relaxed)
    }

    /// Records the size of the active memtable, which only the holder of the writer state calls.
    #[inline]
    pub fn set_active(&self, bytes: u64) {
        if bytes.abs_diff(self.reported_bytes.load(Relaxed)) >= STEP_BYTES {
            self.report_active(bytes);
        }
    }

    #[cold]
    fn report_active(&self, bytes: u64) {
        self.reported_bytes.store(bytes, Relaxed);
        self.change(|held| held.active_bytes = bytes);
        self.ledger.relieve();
    }

    /// Records that the active memtable became immutable, and what the immutable ones have now.
    pub fn note_freeze(&self, frozen_bytes: u64) {
        self.is_flush_wanted.store(false, Relaxed);
        let active_bytes = self.reported_bytes.swap(0, Relaxed);
        let left = self.turn_end_bytes.load(Relaxed).saturating_sub(active_bytes);
        self.turn_end_bytes.store(left, Relaxed);
        self.change(|held| {
            held.active_bytes = 0;
            held.frozen_bytes = frozen_bytes;
        });
    }

    /// Records the end of a flush: what the immutable memtables have now, and whether it failed.
    pub fn note_flush(&self, frozen_bytes: u64, is_failing: bool) {
        self.change(|held| {
            held.frozen_bytes = frozen_bytes;
            held.is_failing = is_failing;
        });
    }

    /// Withdraws a request to flush that the store cannot follow.
    pub fn decline_flush(&self) {
        self.is_flush_wanted.store(false, Relaxed);
    }

    /// Returns whether the flushes of the store fail.
    pub fn is_failing(&self) -> bool {
        self.held.lock().is_failing
    }

    /// Closes the account: what the store still holds does not count.
    pub fn close(&self) {
        self.is_closed.store(true, Relaxed);
        self.change(|_| {});
    }

    fn change(&self, change: impl FnOnce(&mut Held)) {
        let mut held: MutexGuard<'_, Held> = self.held.lock();
        let before = held.counted();
        change(&mut held);
        if self.is_closed.load(Relaxed) {
            *held = Held::default();
        }
        let after = held.counted();
        let ledger = &*self.ledger;
        // Modulo 2^64: a difference may be negative.
        ledger.total_bytes.fetch_add(after.0.wrapping_sub(before.0), Relaxed);
        ledger.active_bytes.fetch_add(after.1.wrapping_sub(before.1), Relaxed);
        drop(held);
        if after.0 < before.0 {
            // Under the lock, so that no waiter is between its check and its wait.
            let _queue = ledger.queue.lock();
            ledger.freed.notify_all();
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(all(test, not(esker_shuttle)))]
mod tests {
    use super::*;
    use crate::base::sync::atomic::AtomicUsize;
    use std::time::Duration;

    const KIB: u64 = 1 << 10;

    fn accounts(ledger: &Arc<MemoryLedger>, count: usize) -> (Vec<Arc<Account>>, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let open = |_| {
            let account = ledger.open_account();
            let asked = asked.clone();
            account.set_wake(Box::new(move || {
                asked.fetch_add(1, Relaxed);
            }));
            account
        };
        ((0..count).map(open).collect(), asked)
    }

    #[test]
    fn largest_store_is_asked_and_sums_follow() {
        let ledger = MemoryLedger::new(1024 * KIB);
        let (all, asked) = accounts(&ledger, 3);
        all[0].set_active(100 * KIB);
        all[1].set_active(300 * KIB);
        all[2].set_active(STEP_BYTES - 1);
        assert_eq!((ledger.total_bytes(), asked.load(Relaxed)), (400 * KIB, 0));
        all[0].set_active(250 * KIB);
        assert!(all[1].is_flush_wanted() && !all[0].is_flush_wanted() && !all[2].is_flush_wanted());
        // A store that is asked is not asked again, and the rest is within the bound.
        all[0].set_active(290 * KIB);
        assert_eq!(asked.load(Relaxed), 1);
        all[1].note_freeze(300 * KIB);
        assert!(!all[1].is_flush_wanted());
        assert_eq!(ledger.total_bytes(), 590 * KIB);
        all[0].set_active(800 * KIB);
        assert!(ledger.is_full() && all[0].is_flush_wanted());
        all[1].note_flush(0, false);
        assert!(!ledger.is_full());
        drop(all);
        assert_eq!((ledger.total_bytes(), ledger.active_bytes.load(Relaxed)), (0, 0));
    }

    #[test]
    fn memory_of_failing_and_closed_stores_does_not_count() {
        let ledger = MemoryLedger::new(256 * KIB);
        let (all, _) = accounts(&ledger, 2);
        all[0].set_active(200 * KIB);
        all[0].note_freeze(200 * KIB);
        all[1].set_active(100 * KIB);
        assert!(ledger.is_full() && !all[0].is_failing());
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let turn = all[1].queue_up();
                while !turn.has_come() {
                    turn.wait_until(Instant::now() + Duration::from_secs(100));
                }
            });
            all[0].note_flush(200 * KIB, true);
            waiter.join().unwrap();
        });
        assert!(all[0].is_failing());
        all[0].set_active(150 * KIB);
        assert_eq!(ledger.total_bytes(), 100 * KIB);
        all[0].note_flush(0, false);
        assert_eq!(ledger.total_bytes(), 250 * KIB);
        all[0].close();
        assert_eq!(ledger.total_bytes(), 100 * KIB);
        all[0].note_flush(500 * KIB, false);
        assert_eq!(ledger.total_bytes(), 100 * KIB);
    }

    #[test]
    fn writers_go_on_in_the_order_in_which_they_came() {
        let ledger = MemoryLedger::new(1024 * KIB);
        let (all, _) = accounts(&ledger, 4);
        all[0].set_active(1024 * KIB);
        assert!(all[1].must_wait(0));
        let turns: Vec<_> = all[1..].iter().map(|account| account.queue_up()).collect();
        let come = || turns.iter().map(Turn::has_come).collect::<Vec<_>>();
        assert_eq!(come(), [false; 3]);
        // A writer that leaves too early has had no turn.
        drop(all[0].queue_up());
        // Room for two turns. The store that freed the memory gets none of it: it comes later.
        all[0].set_active(1024 * KIB - 2 * TURN_BYTES);
        assert_eq!(come(), [true, true, false]);
        assert!(!ledger.is_full() && all[0].must_wait(1024 * KIB - 2 * TURN_BYTES));
        let [first, second, third] = turns.try_into().ok().unwrap();
        drop(second);
        assert!(first.has_come() && third.has_come(), "the third has moved up");
        // The second one writes its turn, and then waits again, as long as others do.
        assert!(!all[2].must_wait(TURN_BYTES - 1) && all[2].must_wait(TURN_BYTES));
        all[2].set_active(TURN_BYTES);
        all[2].note_freeze(TURN_BYTES);
        assert!(all[2].must_wait(0), "a new memtable is no new turn");
        // The first store's number is that of its wait which ended too early: before a new one.
        let (late, kept) = (all[2].queue_up(), all[0].queue_up());
        assert!(kept.number < late.number, "{} {}", kept.number, late.number);
        [first, third, late, kept].into_iter().for_each(drop);
        assert!(!all[2].must_wait(TURN_BYTES) && !all[0].must_wait(1024 * KIB));
    }
}
