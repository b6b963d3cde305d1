//! A place for each thread, in which it leaves something and finds it again without a locked
//! instruction.
//!
//! What stays true: a place is read and written by the one thread whose number it has, until all of
//! them are dropped together; it is empty, or owns a boxed value.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr;

use super::sync::atomic::{AtomicPtr, Ordering};
use super::thread_number::ThreadNumber;

/// Threads with a greater number have none.
const PLACES: usize = 64;

/// One place, alone on its cache line.
#[repr(align(64))]
struct OwnPlace<T>(AtomicPtr<T>);

/// The places.
pub struct OwnPlaces<T> {
    places: Box<[OwnPlace<T>]>,
    owns: PhantomData<Box<T>>,
}

impl<T> Default for OwnPlaces<T> {
    fn default() -> OwnPlaces<T> {
        let places = (0..PLACES).map(|_| OwnPlace(AtomicPtr::new(ptr::null_mut()))).collect();
        OwnPlaces { places, owns: PhantomData }
    }
}

// SAFETY: a value is never lent, only taken out and put in by the one thread of its place. It goes to
// another with that thread's number, which passes through a lock, or with all the places.
unsafe impl<T: Send> Sync for OwnPlaces<T> {}

impl<T: Send> OwnPlaces<T> {
    /// What this thread has left here, if anything.
    #[inline]
    pub fn take(&self) -> Option<Box<T>> {
        let number = ThreadNumber::mine();
        self.swap(&number, ptr::null_mut())
    }

    /// Leaves `value` here. What was here comes back, or `value` itself where there is no place.
    #[inline]
    pub fn put(&self, value: Box<T>) -> Option<Box<T>> {
        let number = ThreadNumber::mine();
        if number.get() >= self.places.len() {
            return Some(value);
        }
        self.swap(&number, Box::into_raw(value))
    }

    /// Puts an address in this thread's place, and makes a box of what was there.
    #[inline]
    fn swap(&self, number: &ThreadNumber, new: *mut T) -> Option<Box<T>> {
        let place = &self.places.get(number.get())?.0;
        // Two steps: nobody comes between, since no other thread has the number.
        let old = place.load(Ordering::Relaxed);
        place.store(new, Ordering::Relaxed);
        if old.is_null() {
            return None;
        }
        // SAFETY: `put` made the address of a box, and it is in no place any more.
        Some(unsafe { Box::from_raw(old) })
    }
}

impl<T> Drop for OwnPlaces<T> {
    fn drop(&mut self) {
        for place in &self.places {
            let left = place.0.load(Ordering::Relaxed);
            if !left.is_null() {
                // SAFETY: as in `swap`; nobody else knows the places any more.
                drop(unsafe { Box::from_raw(left) });
            }
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::Barrier;

    #[test]
    fn each_thread_finds_what_it_left_and_all_is_dropped() {
        let users = Arc::new(());
        let threads = if cfg!(miri) { 4 } else { PLACES + 8 };
        for _ in 0..2 {
            let places = OwnPlaces::default();
            let together = Barrier::new(threads);
            std::thread::scope(|scope| {
                for n in 0..threads {
                    let (places, together, users) = (&places, &together, &users);
                    scope.spawn(move || {
                        // All have their numbers before one gives its back.
                        let number = ThreadNumber::mine();
                        together.wait();
                        let before: Option<Box<(usize, Arc<()>)>> = places.take();
                        assert!(before.is_none());
                        let mut held = places.put(Box::new((n, users.clone())));
                        for _ in 0..10 {
                            let Some(mine) = held.take().or_else(|| places.take()) else {
                                panic!("what was left is gone");
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
