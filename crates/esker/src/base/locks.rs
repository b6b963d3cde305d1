//! The standard library's locks without poisoning, for programs whose threads may panic and whose
//! forked children may open stores.
//!
//! Invariants: a panic releases the thread's locks, and other threads can acquire them. A lock has
//! no state outside itself, in particular no process-wide table of waiters. A child forked while
//! other threads waited can therefore wait at its own locks (`docs/decisions/0024`).

use std::ops::{Deref, DerefMut};
use std::sync::{self, PoisonError, TryLockError};
use std::time::{Duration, Instant};

pub use std::sync::{RwLockReadGuard, RwLockWriteGuard};

/// A mutual exclusion lock.
#[derive(Debug, Default)]
pub struct Mutex<T>(sync::Mutex<T>);

/// A guard of a held lock. The guard is without the lock only during a wait.
#[derive(Debug)]
pub struct MutexGuard<'a, T>(Option<sync::MutexGuard<'a, T>>);

impl<T> Mutex<T> {
    /// Creates a lock around `value`.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(sync::Mutex::new(value))
    }

    /// Acquires the lock, and waits if necessary.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Acquires the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(held) => Some(MutexGuard(Some(held))),
            Err(TryLockError::Poisoned(held)) => Some(MutexGuard(Some(held.into_inner()))),
            Err(TryLockError::WouldBlock) => None,
        }
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
    #[inline]
    fn deref(&self) -> &T {
        self.0.as_ref().expect("the guard holds the lock except during a wait")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("the guard holds the lock except during a wait")
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

    /// Waits for a notification. Spurious wakeups are possible.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        if let Some(held) = guard.0.take() {
            guard.0 = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Waits for a notification, at most for `most`. Spurious wakeups are possible.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, most: Duration) {
        if let Some(held) = guard.0.take() {
            let waited = self.0.wait_timeout(held, most).unwrap_or_else(PoisonError::into_inner);
            guard.0 = Some(waited.0);
        }
    }

    /// Waits as [`Condvar::wait_for`] does, at most until `end`.
    pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, end: Instant) {
        self.wait_for(guard, end.saturating_duration_since(Instant::now()));
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A reader-writer lock.
#[derive(Debug, Default)]
pub struct RwLock<T>(sync::RwLock<T>);

impl<T> RwLock<T> {
    /// Creates a lock around `value`.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(sync::RwLock::new(value))
    }

    /// Acquires a read lock, and waits while a writer holds the lock.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acquires the write lock, and waits while any reader or writer holds the lock.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn locks_survive_panic_and_try_lock_fails_while_held() {
        let (mutex, shared) = (Mutex::new(1), RwLock::new(1));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _both = (mutex.lock(), shared.write());
            assert!(mutex.try_lock().is_none());
            panic!("deliberate panic");
        }));
        assert!(panicked.is_err());
        *mutex.lock() += 1;
        *shared.write() += 1;
        *mutex.try_lock().unwrap() += 1;
        assert_eq!((*shared.read(), *shared.read(), mutex.into_inner()), (2, 2, 3));
    }

    #[test]
    fn condvar_wait_releases_and_reacquires_lock() {
        let (mutex, condvar) = (Mutex::new(0), Condvar::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                *mutex.lock() = 1;
                condvar.notify_all();
            });
            let mut value = mutex.lock();
            while *value == 0 {
                condvar.wait(&mut value);
            }
            *value = 2;
        });
        let mut value = mutex.lock();
        condvar.wait_for(&mut value, Duration::from_millis(1));
        condvar.wait_until(&mut value, Instant::now());
        assert!(mutex.try_lock().is_none(), "the guard has no lock after a wait with a timeout");
        assert_eq!(*value, 2);
    }
}
