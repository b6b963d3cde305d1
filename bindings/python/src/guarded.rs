//! One object for one thread at a time, without a deadlock.
//!
//! What stays true: nobody waits for the object while holding the interpreter's lock, so whoever
//! has the object can always get that lock and go on.

use std::sync::{Mutex, MutexGuard, TryLockError};

use pyo3::Python;

/// Something that several threads may reach.
pub struct Guarded<T>(Mutex<T>);

impl<T: Send> Guarded<T> {
    pub fn new(value: T) -> Guarded<T> {
        Guarded(Mutex::new(value))
    }

    /// The object, once no other thread has it.
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
}
