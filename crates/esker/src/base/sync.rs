//! Locks, atomics and threads, as the engine uses them.
//!
//! Built for use they are those of `locks` and the standard library's. With the feature `shuttle`
//! they are ones whose every step is chosen by a seeded scheduler, so that `tests/schedules.rs` can
//! run thousands of orders of steps and repeat each. What stays true: both have the same interface,
//! and code that takes part in what the schedules explore takes these and no others.

#[cfg(not(feature = "shuttle"))]
pub use super::locks::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(feature = "shuttle"))]
pub use std::{sync::atomic, thread, thread_local};

#[cfg(feature = "shuttle")]
pub use explored::*;

/// A mistake that the schedules must find, or they find nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// Memory is claimed by a load and a store.
    ClaimInTwoSteps,
    /// A write is visible before it is in the memtable.
    PublishFirst,
    /// A memtable leaves the view before its table is in it.
    ForgetFirst,
    /// A put is visible before it has cut the skip hints.
    CutLate,
    /// Puts are not watched while a skip hint is looked for.
    WalkUnwatched,
    /// What readers may look at is freed at once.
    FreeAtOnce,
    /// A reader that comes out does not look whether something waits for it.
    LeaveUnasked,
}

/// Whether this mistake is being made on purpose: never, outside the schedules' own test.
#[cfg(not(feature = "shuttle"))]
#[inline(always)]
pub const fn is_seeded(_: Bug) -> bool {
    false
}

#[cfg(feature = "shuttle")]
mod explored {
    //! The interface of `locks` over the scheduler's locks.

    use std::ops::{Deref, DerefMut};
    use std::sync::PoisonError;
    use std::time::{Duration, Instant};

    use shuttle::sync;
    pub use shuttle::sync::atomic;
    pub use shuttle::{thread, thread_local};

    std::thread_local! {
        /// The scheduler's threads are all one of the system's: that of the test.
        static SEEDED: std::cell::Cell<Option<super::Bug>> = const { std::cell::Cell::new(None) };
    }

    /// Whether this mistake is being made on purpose.
    pub fn is_seeded(bug: super::Bug) -> bool {
        SEEDED.get() == Some(bug)
    }

    /// From now on the test's threads make this mistake.
    pub fn seed(bug: Option<super::Bug>) {
        SEEDED.set(bug);
    }

    /// A lock.
    #[derive(Debug, Default)]
    pub struct Mutex<T>(sync::Mutex<T>);

    /// A held lock; without it only while its holder waits.
    #[derive(Debug)]
    pub struct MutexGuard<'a, T> {
        lock: &'a sync::Mutex<T>,
        held: Option<sync::MutexGuard<'a, T>>,
    }

    impl<T> Mutex<T> {
        /// A lock around `value`.
        pub const fn new(value: T) -> Mutex<T> {
            Mutex(sync::Mutex::new(value))
        }

        /// Waits for the lock.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            MutexGuard { lock: &self.0, held: Some(held) }
        }

        /// The lock, if it is free.
        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            let held = self.0.try_lock().ok()?;
            Some(MutexGuard { lock: &self.0, held: Some(held) })
        }

        /// The value, which nobody else can have.
        pub fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
        }

        /// The value itself.
        pub fn into_inner(self) -> T {
            self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;
        fn deref(&self) -> &T {
            self.held.as_ref().expect("only a waiter gives its lock away")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.held.as_mut().expect("only a waiter gives its lock away")
        }
    }

    /// A place to wait at.
    #[derive(Debug, Default)]
    pub struct Condvar(sync::Condvar);

    impl Condvar {
        /// A place nobody waits at.
        pub const fn new() -> Condvar {
            Condvar(sync::Condvar::new())
        }

        /// Waits until told.
        pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let held = guard.held.take().expect("a waiter holds the lock");
            guard.held = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
        }

        /// Waits for a moment: every wait with an end may end at once.
        pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: Duration) {
            wait_a_step(guard);
        }

        /// As [`Condvar::wait_for`].
        pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _: Instant) {
            wait_a_step(guard);
        }

        /// Tells all who wait.
        pub fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// Lets the lock go and takes it again, with others' steps between.
    fn wait_a_step<T>(guard: &mut MutexGuard<'_, T>) {
        let held = guard.held.take().expect("a waiter holds the lock");
        drop(held);
        thread::yield_now();
        guard.held = Some(guard.lock.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// A lock for many readers or one writer.
    #[derive(Debug, Default)]
    pub struct RwLock<T>(sync::RwLock<T>);

    /// A reader's lock, or what a writer keeps of its own after a downgrade.
    pub enum RwLockReadGuard<'a, T> {
        /// One of many.
        Read(sync::RwLockReadGuard<'a, T>),
        /// Alone still.
        Alone(sync::RwLockWriteGuard<'a, T>),
    }

    /// A writer's lock.
    pub struct RwLockWriteGuard<'a, T>(sync::RwLockWriteGuard<'a, T>);

    impl<T> RwLock<T> {
        /// A lock around `value`.
        pub const fn new(value: T) -> RwLock<T> {
            RwLock(sync::RwLock::new(value))
        }

        /// Waits until nobody writes.
        pub fn read(&self) -> RwLockReadGuard<'_, T> {
            RwLockReadGuard::Read(self.0.read().unwrap_or_else(PoisonError::into_inner))
        }

        /// Waits until nobody reads or writes.
        pub fn write(&self) -> RwLockWriteGuard<'_, T> {
            RwLockWriteGuard(self.0.write().unwrap_or_else(PoisonError::into_inner))
        }
    }

    impl<'a, T> RwLockWriteGuard<'a, T> {
        /// A reader's lock, without anyone's write in between.
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
