//! A shared pointer that many threads take copies of and few replace, in one word.
//!
//! A place is locked by the lowest bit of its word for as long as it takes to count one more user of
//! what it holds. `ArcSwap` has no such lock, but every store of its pays a visit to each thread's
//! list of debts, and a cache that misses stores twice for each block.
//!
//! What stays true: the word is 0, or the address of an `Arc`'s content whose count this place is
//! one of, with the lowest bit set while somebody has the lock; whoever has it neither waits nor
//! runs anybody's code.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::sync::Arc;

use crate::base::sync::atomic::{AtomicUsize, Ordering};

const LOCKED: usize = 1;

/// An `Arc`, or nothing, that can be replaced.
pub struct Place<V> {
    word: AtomicUsize,
    owns: PhantomData<Arc<V>>,
}

impl<V> Default for Place<V> {
    fn default() -> Place<V> {
        // An address with its lowest bit set is no address of a `V`.
        const { assert!(align_of::<V>() > 1, "the content needs an even address") };
        Place { word: AtomicUsize::new(0), owns: PhantomData }
    }
}

impl<V> Place<V> {
    /// What is here, if anything is.
    #[inline]
    pub fn get(&self) -> Option<Arc<V>> {
        let address = self.lock()?;
        let held = std::ptr::with_exposed_provenance::<V>(address);
        // SAFETY: the word holds what `Arc::into_raw` gave (`set`), with the provenance it exposed,
        // and the lock keeps the place's own count alive while another is added.
        let found = unsafe {
            Arc::increment_strong_count(held);
            Arc::from_raw(held)
        };
        self.word.store(address, Ordering::Release);
        Some(found)
    }

    /// Puts `content` here, or nothing.
    pub fn set(&self, content: Option<Arc<V>>) {
        let fresh = content.map_or(0, |arc| Arc::into_raw(arc).expose_provenance());
        let old = loop {
            let seen = self.word.load(Ordering::Relaxed);
            if seen & LOCKED == 0
                && self
                    .word
                    .compare_exchange_weak(seen, fresh, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
            {
                break seen;
            }
            pause();
        };
        drop(Self::take(old));
    }

    /// Locks the place and returns the address in it; `None`, unlocked, when it is empty.
    #[inline]
    fn lock(&self) -> Option<usize> {
        loop {
            let seen = self.word.load(Ordering::Relaxed);
            if seen == 0 {
                return None;
            }
            if seen & LOCKED == 0
                && self
                    .word
                    .compare_exchange_weak(
                        seen,
                        seen | LOCKED,
                        Ordering::Acquire,
                        Ordering::Relaxed,
                    )
                    .is_ok()
            {
                return Some(seen);
            }
            pause();
        }
    }

    /// The `Arc` that a word which is in no place any more stood for.
    fn take(word: usize) -> Option<Arc<V>> {
        if word == 0 {
            return None;
        }
        // SAFETY: the word came from `Arc::into_raw` in `set` and was taken out of its place
        // unlocked, so nobody else takes it, and nobody is counting on it.
        Some(unsafe { Arc::from_raw(std::ptr::with_exposed_provenance::<V>(word)) })
    }
}

impl<V> Drop for Place<V> {
    fn drop(&mut self) {
        drop(Self::take(self.word.load(Ordering::Relaxed)));
    }
}

/// Lets whoever has the lock go on.
#[inline]
fn pause() {
    if cfg!(any(feature = "shuttle", miri)) {
        crate::base::sync::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_found_until_it_is_replaced_and_dropped_once() {
        let place = Place::default();
        assert!(place.get().is_none());
        let (first, second) = (Arc::new(1u64), Arc::new(2u64));
        place.set(Some(first.clone()));
        let copy = place.get().unwrap();
        assert!(Arc::ptr_eq(&copy, &first));
        assert_eq!(Arc::strong_count(&first), 3);
        place.set(Some(second.clone()));
        assert_eq!(Arc::strong_count(&first), 2);
        assert_eq!(*place.get().unwrap(), 2);
        place.set(None);
        assert!(place.get().is_none());
        assert_eq!(Arc::strong_count(&second), 1);
        place.set(Some(second.clone()));
        drop(place);
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (2, 1));
    }

    #[test]
    fn threads_that_take_and_replace_lose_nothing_and_keep_nothing() {
        let rounds = if cfg!(miri) { 40 } else { 20_000 };
        let place = Arc::new(Place::default());
        let values: Vec<Arc<(u64, u64)>> = (0..4).map(|n| Arc::new((n, !n))).collect();
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (place, values) = (place.clone(), values.clone());
                scope.spawn(move || {
                    for round in 0..rounds {
                        let next = values.get((round + thread) % 5).cloned();
                        place.set(next);
                    }
                });
            }
            for _ in 0..2 {
                let place = place.clone();
                scope.spawn(move || {
                    for _ in 0..rounds {
                        if let Some(found) = place.get() {
                            assert_eq!(found.0, !found.1);
                        }
                    }
                });
            }
        });
        drop(place);
        assert!(values.iter().all(|value| Arc::strong_count(value) == 1));
    }
}
