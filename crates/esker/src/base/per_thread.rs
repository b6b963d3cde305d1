//! Per-thread storage: one slot per thread for one boxed value, accessed without locked
//! instructions.
//!
//! Invariants: only the thread with a slot's number reads and writes that slot, until all slots are
//! dropped together. A slot is empty or owns a boxed value.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr;

use super::sync::atomic::{AtomicPtr, Ordering};
use super::thread_number::ThreadNumber;

/// Number of slots. Threads with a number of 64 or more have no slot.
const PLACES: usize = 64;

/// One slot, alone on its cache line to avoid false sharing.
#[repr(align(64))]
struct ThreadCell<T>(AtomicPtr<T>);

/// Storage with one slot per thread.
pub struct PerThread<T> {
    places: Box<[ThreadCell<T>]>,
    owns: PhantomData<Box<T>>,
}

impl<T> Default for PerThread<T> {
    fn default() -> PerThread<T> {
        let places = (0..PLACES).map(|_| ThreadCell(AtomicPtr::new(ptr::null_mut()))).collect();
        PerThread { places, owns: PhantomData }
    }
}

// SAFETY: no reference to a value is shared. Only the thread of a slot takes and puts its value. A
// value reaches another thread together with the thread number, whose hand-over synchronizes
// (acquire and release), or when the whole storage moves to another thread.
unsafe impl<T: Send> Sync for PerThread<T> {}

impl<T: Send> PerThread<T> {
    /// Takes this thread's value, if any.
    #[inline]
    pub fn take(&self) -> Option<Box<T>> {
        let number = ThreadNumber::mine();
        self.swap(&number, ptr::null_mut())
    }

    /// Stores `value` in this thread's slot and returns the previous value. Returns `value` itself
    /// if the thread has no slot.
    #[inline]
    pub fn put(&self, value: Box<T>) -> Option<Box<T>> {
        let number = ThreadNumber::mine();
        if number.get() >= self.places.len() {
            return Some(value);
        }
        self.swap(&number, Box::into_raw(value))
    }

    /// Stores an address in this thread's slot and returns the previous value.
    #[inline]
    fn swap(&self, number: &ThreadNumber, new: *mut T) -> Option<Box<T>> {
        let place = &self.places.get(number.get())?.0;
        // A separate load and store suffice, because no other thread has this number.
        let old = place.load(Ordering::Relaxed);
        place.store(new, Ordering::Relaxed);
        if old.is_null() {
            return None;
        }
        // SAFETY: `put` made the address from a box, and the slot no longer holds it.
        Some(unsafe { Box::from_raw(old) })
    }
}

impl<T> Drop for PerThread<T> {
    fn drop(&mut self) {
        for place in &self.places {
            let left = place.0.load(Ordering::Relaxed);
            if !left.is_null() {
                // SAFETY: as in `swap`. The slots are not shared any more.
                drop(unsafe { Box::from_raw(left) });
            }
        }
    }
}

#[cfg(all(test, not(esker_shuttle)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::Barrier;

    #[test]
    fn threads_find_their_own_values_and_all_are_dropped() {
        let users = Arc::new(());
        let threads = if cfg!(miri) { 4 } else { PLACES + 8 };
        for _ in 0..2 {
            let places = PerThread::default();
            let together = Barrier::new(threads);
            std::thread::scope(|scope| {
                for n in 0..threads {
                    let (places, together, users) = (&places, &together, &users);
                    scope.spawn(move || {
                        // All threads get their numbers before any number is released.
                        let number = ThreadNumber::mine();
                        together.wait();
                        let before: Option<Box<(usize, Arc<()>)>> = places.take();
                        assert!(before.is_none());
                        let mut held = places.put(Box::new((n, users.clone())));
                        for _ in 0..10 {
                            let Some(mine) = held.take().or_else(|| places.take()) else {
                                panic!("the thread's value is missing");
                            };
                            assert_eq!(mine.0, n);
                            held = places.put(mine);
                        }
                        let second = places.put(Box::new((n, users.clone())));
                        assert_eq!(second.map(|second| second.0), Some(n));
                        drop(number);
                    });
                }
            });
            assert!(Arc::strong_count(&users) > 1);
            drop(places);
            assert_eq!(Arc::strong_count(&users), 1);
        }
    }
}
