//! The epoch cell: a shared value for many reads and few replacements. A read writes no shared
//! memory.
//!
//! Invariants: the pointer is that of an `Arc`, and the cell owns one reference to it. After a
//! replacement the cell defers the drop of the old reference through the epoch collector
//! ([`Collector`]).
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::sync::Arc;

use super::epoch::{Collector, EpochGuard};
use super::sync::atomic::{AtomicPtr, Ordering};

/// A cell whose value can be replaced during reads.
pub struct EpochCell<T> {
    value: AtomicPtr<T>,
    collector: Arc<Collector>,
    owns: PhantomData<Arc<T>>,
}

impl<T: Send + Sync + 'static> EpochCell<T> {
    /// Creates a cell with `value`, protected by the epoch collector `readers`.
    pub fn new(value: Arc<T>, readers: Arc<Collector>) -> EpochCell<T> {
        let value = AtomicPtr::new(Arc::into_raw(value).cast_mut());
        EpochCell { value, collector: readers, owns: PhantomData }
    }

    /// Returns the epoch collector.
    #[inline]
    pub fn collector(&self) -> &Collector {
        &self.collector
    }

    /// Loads the current value, borrowed for the lifetime of the guard `reading`.
    ///
    /// # Panics
    /// Panics if the guard does not belong to [`EpochCell::collector`].
    #[inline]
    pub fn load_pinned<'s>(&'s self, reading: &'s EpochGuard<'_>) -> &'s T {
        // SAFETY: the address is that of an `Arc`'s value, which the guard keeps alive.
        unsafe { &*self.address(reading) }
    }

    /// Loads the current value as an `Arc`, which the caller may keep without a guard.
    #[inline]
    pub fn load(&self) -> Arc<T> {
        let reading = self.collector.pin();
        let value = self.address(&reading);
        // SAFETY: the address is that of an `Arc`'s value. The guard keeps it alive while the
        // reference count is incremented.
        unsafe {
            Arc::increment_strong_count(value);
            Arc::from_raw(value)
        }
    }

    /// Returns the address of the `Arc`'s value (from `new` or `replace`). The guard began before
    /// the load of the address, so the cell's reference is dropped only after the guard.
    #[inline]
    fn address(&self, reading: &EpochGuard<'_>) -> *const T {
        assert!(reading.is_of(&self.collector), "the guard belongs to another epoch collector");
        self.value.load(Ordering::Acquire)
    }

    /// Replaces the value. The old value is dropped after all current guards have ended.
    pub fn replace(&self, value: Arc<T>) {
        let new = Arc::into_raw(value).cast_mut();
        let old = self.value.swap(new, Ordering::AcqRel);
        // SAFETY: the address represented the cell's reference, and the cell no longer holds it.
        self.collector.defer_drop(unsafe { Arc::from_raw(old) });
    }
}

impl<T> Drop for EpochCell<T> {
    fn drop(&mut self) {
        // Deferred values may own the collector, which owns them: the flush breaks the cycle.
        self.collector.flush();
        // SAFETY: the cell is not shared any more, and its reference was never dropped.
        drop(unsafe { Arc::from_raw(self.value.load(Ordering::Relaxed)) });
    }
}
