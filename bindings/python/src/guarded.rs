//! Mutual exclusion that cannot deadlock with the interpreter's lock.
//!
//! Invariant: no thread waits for the object while it holds the interpreter's lock. So the thread
//! that holds the object can always take the interpreter's lock and continue.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use pyo3::Python;

/// An object shared by several threads.
pub struct Guarded<T>(Mutex<T>);

impl<T: Send> Guarded<T> {
    pub fn new(value: T) -> Guarded<T> {
        Guarded(Mutex::new(value))
    }

    /// Waits until no other thread holds the object, and locks it.
    #[inline]
    pub fn lock(&self, py: Python<'_>) -> MutexGuard<'_, T> {
        loop {
            match self.0.try_lock() {
                Ok(guard) => return guard,
                Err(TryLockError::Poisoned(guard)) => return guard.into_inner(),
                Err(TryLockError::WouldBlock) => py.detach(|| drop(self.0.lock())),
            }
        }
    }

    /// Returns the object, which no other thread can hold.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}
