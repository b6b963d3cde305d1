//! The engine's locks, atomics and threads.
//!
//! A normal build uses `locks` and the standard library. With the feature `shuttle`, a seeded
//! scheduler chooses the thread of each step, so that `tests/schedules.rs` can run thousands of
//! interleavings and reproduce each by its seed. Invariants: both variants have the same interface.
//! Code that the schedule tests explore uses only these types.

#[cfg(not(esker_shuttle))]
pub use super::locks::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(esker_shuttle))]
pub use std::{sync::atomic, thread, thread_local};

#[cfg(esker_shuttle)]
pub use scheduled::*;

/// A seeded bug. The schedule tests must find each one, which shows that they can find bugs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// The arena claims memory by a separate load and store.
    ClaimInTwoSteps,
    /// A write becomes visible before it is in the memtable.
    PublishFirst,
    /// The read state drops a memtable before it includes the memtable's table.
    DropMemtableFirst,
    /// A put becomes visible before it has cut the empty-range hints.
    LateHintUpdate,
    /// The search for an empty-range hint does not watch concurrent puts.
    UnwatchedHintSearch,
    /// A range that a reader found empty becomes a hint although something was committed since.
    StaleEmptyRange,
    /// The epoch collector frees memory immediately, without waiting for pinned threads.
    FreeAtOnce,
    /// A thread that unpins does not check for deferred drops that wait for it.
    UnpinWithoutCheck,
    /// A write is not recorded for the checks of transactions.
    UnrecordedCommit,
    /// A lock is granted although another transaction holds it.
    LockGrantedTwice,
}

/// Returns whether `bug` is seeded: always false outside the schedule tests.
#[cfg(not(esker_shuttle))]
#[inline(always)]
pub const fn is_seeded(_: Bug) -> bool {
    false
}

#[cfg(esker_shuttle)]
mod scheduled {
    //! The interface of `locks`, implemented with the scheduler's locks.

    use std::ops::{Deref, DerefMut};
    use std::sync::PoisonError;
    use std::time::{Duration, Instant};

    use shuttle::sync;
    pub use shuttle::sync::atomic;
    pub use shuttle::{thread, thread_local};

    std::thread_local! {
        /// The seeded bug of this test. All threads of the scheduler run on one system thread, that
        /// of the test.
        static SEEDED: std::cell::Cell<Option<super::Bug>> = const { std::cell::Cell::new(None) };
    }

    /// Returns whether `bug` is seeded in this test.
    pub fn is_seeded(bug: super::Bug) -> bool {
        SEEDED.get() == Some(bug)
    }

    /// Seeds `bug` in the threads of this test, or none.
    pub fn seed(bug: Option<super::Bug>) {
        SEEDED.set(bug);
    }

    /// A mutual exclusion lock.
    #[derive(Debug, Default)]
    pub struct Mutex<T>(sync::Mutex<T>);

    /// A guard of a held lock. The guard is without the lock only during a wait.
    #[derive(Debug)]
    pub struct MutexGuard<'a, T> {
        lock: &'a sync::Mutex<T>,
        held: Option<sync::MutexGuard<'a, T>>,
    }

    impl<T> Mutex<T> {
        /// Creates a lock around `value`.
        pub const fn new(value: T) -> Mutex<T> {
            Mutex(sync::Mutex::new(value))
        }

        /// Acquires the lock, and waits if necessary.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            MutexGuard { lock: &self.0, held: Some(held) }
        }

        /// Acquires the lock if it is free.
        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            let held = self.0.try_lock().ok()?;
            Some(MutexGuard { lock: &self.0, held: Some(held) })
        }

        /// Returns the value. The exclusive borrow makes locking unnecessary.
        pub fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
        }

        /// Consumes the lock and returns the value.
        pub fn into_inner(self) -> T {
            self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;
        fn deref(&self) -> &T {
            self.held.as_ref().expect("the guard holds the lock except during a wait")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.held.as_mut().expect("the guard holds the lock except during a wait")
        }
    }

    /// A condition variable.
    #[derive(Debug, Default)]
    pub struct Condvar(sync::Condvar);

    impl Condvar {
        /// Creates a condition variable without waiters.
        pub const fn new() -> Condvar {
            Condvar(sync::Condvar::new())
        }

        /// Waits for a notification.
        pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let held = guard.held.take().expect("the guard holds the lock before a wait");
            guard.held = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
        }

        /// Waits for one step, because any wait with a timeout may end immediately.
        pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: Duration) {
            wait_a_step(guard);
        }

        /// Waits as [`Condvar::wait_for`] does.
        pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _: Instant) {
            wait_a_step(guard);
        }

        /// Wakes all waiters.
        pub fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// Releases the lock, lets other threads run, and acquires the lock again.
    fn wait_a_step<T>(guard: &mut MutexGuard<'_, T>) {
        let held = guard.held.take().expect("the guard holds the lock before a wait");
        drop(held);
        thread::yield_now();
        guard.held = Some(guard.lock.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// A reader-writer lock.
    #[derive(Debug, Default)]
    pub struct RwLock<T>(sync::RwLock<T>);

    /// A guard of a read lock, or of a write lock after a downgrade.
    pub enum RwLockReadGuard<'a, T> {
        /// A shared read lock.
        Read(sync::RwLockReadGuard<'a, T>),
        /// A downgraded write lock, which still excludes other readers.
        Alone(sync::RwLockWriteGuard<'a, T>),
    }

    /// A guard of a write lock.
    pub struct RwLockWriteGuard<'a, T>(sync::RwLockWriteGuard<'a, T>);

    impl<T> RwLock<T> {
        /// Creates a lock around `value`.
        pub const fn new(value: T) -> RwLock<T> {
            RwLock(sync::RwLock::new(value))
        }

        /// Acquires a read lock, and waits while a writer holds the lock.
        pub fn read(&self) -> RwLockReadGuard<'_, T> {
            RwLockReadGuard::Read(self.0.read().unwrap_or_else(PoisonError::into_inner))
        }

        /// Acquires the write lock, and waits while any reader or writer holds the lock.
        pub fn write(&self) -> RwLockWriteGuard<'_, T> {
            RwLockWriteGuard(self.0.write().unwrap_or_else(PoisonError::into_inner))
        }
    }

    impl<'a, T> RwLockWriteGuard<'a, T> {
        /// Converts a write lock into a read lock. No other write happens in between.
        pub fn downgrade(guard: RwLockWriteGuard<'a, T>) -> RwLockReadGuard<'a, T> {
            RwLockReadGuard::Alone(guard.0)
        }
    }

    impl<T> Deref for RwLockReadGuard<'_, T> {
        type Target = T;
        fn deref(&self) -> &T {
            match self {
                RwLockReadGuard::Read(guard) => guard,
                RwLockReadGuard::Alone(guard) => guard,
            }
        }
    }

    impl<T> Deref for RwLockWriteGuard<'_, T> {
        type Target = T;
        fn deref(&self) -> &T {
            &self.0
        }
    }

    impl<T> DerefMut for RwLockWriteGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            &mut self.0
        }
    }
}
