//! An object that can be closed while other threads use it.
//!
//! Invariants:
//! 1. A call that began before the close keeps the object. A call that begins after it finds none.
//! 2. The close waits for the calls that keep it.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwapOption, Guard};
use esker::{ErrorKind, Result, internals};

/// An object, until it is closed.
pub struct Closable<T>(ArcSwapOption<T>);

impl<T> Closable<T> {
    /// Wraps an object.
    pub fn new(object: T) -> Closable<T> {
        Closable(ArcSwapOption::from_pointee(object))
    }

    /// Returns the object, or `Closed` with the message `closed`.
    #[inline]
    pub fn open(&self, closed: &str) -> Result<Opened<T>> {
        let guard = self.0.load();
        if guard.is_none() {
            return Err(internals::error(ErrorKind::Closed, closed, None));
        }
        Ok(Opened(guard))
    }

    /// Returns whether the object was closed.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.0.load().is_none()
    }

    /// Takes the object out, and waits until no running call keeps it. Returns `None` after the first
    /// close.
    pub fn close(&self) -> Option<T> {
        let mut object = self.0.swap(None)?;
        loop {
            match Arc::try_unwrap(object) {
                Ok(object) => return Some(object),
                Err(shared) => object = shared,
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Takes the object out without a wait. Running calls may still keep it.
    pub fn take(&self) -> Option<Arc<T>> {
        self.0.swap(None)
    }

    /// Closes and leaks the object. For the child of a fork, which does not have its threads.
    pub fn abandon(&self) {
        std::mem::forget(self.take());
    }
}

/// A reference that keeps an object open.
pub struct Opened<T>(Guard<Option<Arc<T>>>);

impl<T> std::ops::Deref for Opened<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match &*self.0 {
            Some(object) => object,
            None => unreachable!("it was there when the guard was made"),
        }
    }
}
