//! The standard library's locks, for a program whose threads may panic and whose children may open
//! stores.
//!
//! What stays true: a thread that panicked leaves its locks to the others; and a lock is all there
//! is to it, no table of waiters that the whole process shares, so that a child that was forked
//! while other threads waited can wait at locks of its own (`docs/decisions/0024`).

use std::ops::{Deref, DerefMut};
use std::sync::{self, PoisonError, TryLockError};
use std::time::{Duration, Instant};

pub use std::sync::{RwLockReadGuard, RwLockWriteGuard};

/// A lock.
#[derive(Debug, Default)]
pub struct Mutex<T>(sync::Mutex<T>);

/// A held lock; without it only while its holder waits.
#[derive(Debug)]
pub struct MutexGuard<'a, T>(Option<sync::MutexGuard<'a, T>>);

impl<T> Mutex<T> {
    /// A lock around `value`.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(sync::Mutex::new(value))
    }

    /// Waits for the lock.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// The lock, if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(held) => Some(MutexGuard(Some(held))),
            Err(TryLockError::Poisoned(held)) => Some(MutexGuard(Some(held.into_inner()))),
            Err(TryLockError::WouldBlock) => None,
        }
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
    #[inline]
    fn deref(&self) -> &T {
        self.0.as_ref().expect("only a waiter gives its lock away")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("only a waiter gives its lock away")
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

    /// Waits until told, or for no reason.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        if let Some(held) = guard.0.take() {
            guard.0 = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Waits until told, or for `most`, or for no reason.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, most: Duration) {
        if let Some(held) = guard.0.take() {
            let waited = self.0.wait_timeout(held, most).unwrap_or_else(PoisonError::into_inner);
            guard.0 = Some(waited.0);
        }
    }

    /// As [`Condvar::wait_for`], until `end`.
    pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, end: Instant) {
        self.wait_for(guard, end.saturating_duration_since(Instant::now()));
    }

    /// Tells all who wait.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A lock for many readers or one writer.
#[derive(Debug, Default)]
pub struct RwLock<T>(sync::RwLock<T>);

impl<T> RwLock<T> {
    /// A lock around `value`.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(sync::RwLock::new(value))
    }

    /// Waits until nobody writes.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody reads or writes.
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
    fn locks_outlive_a_panic_and_say_when_they_are_taken() {
        let (mutex, shared) = (Mutex::new(1), RwLock::new(1));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _both = (mutex.lock(), shared.write());
            assert!(mutex.try_lock().is_none());
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        *mutex.lock() += 1;
        *shared.write() += 1;
        *mutex.try_lock().unwrap() += 1;
        assert_eq!((*shared.read(), *shared.read(), mutex.into_inner()), (2, 2, 3));
    }

    #[test]
    fn a_waiter_lets_others_in_and_has_the_lock_again() {
        let (mutex, told) = (Mutex::new(0), Condvar::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                *mutex.lock() = 1;
                told.notify_all();
            });
            let mut value = mutex.lock();
            while *value == 0 {
                told.wait(&mut value);
            }
            *value = 2;
        });
        let mut value = mutex.lock();
        told.wait_for(&mut value, Duration::from_millis(1));
        told.wait_until(&mut value, Instant::now());
        assert!(mutex.try_lock().is_none(), "a wait with an end has the lock after it");
        assert_eq!(*value, 2);
    }
}
