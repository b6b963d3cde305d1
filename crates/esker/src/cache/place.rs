//! A shared frame that many threads take copies of and few replace, in one word.
//!
//! A place is locked by the lowest bit of its word for as long as it takes to count one more user of
//! what it holds. `ArcSwap` has no such lock, but every store of its pays a visit to each thread's
//! list of debts, and a cache that misses stores twice for each block. The next two bits count the
//! uses of the frame since that was last asked, up to three.
//!
//! What stays true: the word is 0, or the address of a frame with one user that stands for this
//! place, with the lowest bit set while somebody has the lock; whoever has it neither waits nor runs
//! anybody's code.
#![allow(unsafe_code)]

use std::marker::PhantomData;

use crate::base::frame::{Frame, prefetch_frame};
use crate::base::sync::atomic::{AtomicUsize, Ordering};

const LOCKED: usize = 1;
/// One use.
const USE: usize = 2;
/// The bits of the count of uses.
const USES: usize = 3 * USE;
/// The bits that are not of the address.
const MARKS: usize = LOCKED | USES;

/// A frame, or nothing, that can be replaced.
pub struct Place<H> {
    word: AtomicUsize,
    owns: PhantomData<Frame<H>>,
}

impl<H> Default for Place<H> {
    fn default() -> Place<H> {
        Place { word: AtomicUsize::new(0), owns: PhantomData }
    }
}

impl<H> Place<H> {
    /// What is here, if anything is. Counts as a use.
    #[inline]
    pub fn get(&self) -> Option<Frame<H>> {
        let seen = self.lock()?;
        // SAFETY: the word holds an address that `into_address` gave (`set`), and the lock keeps the
        // user it stands for while another is added.
        let found = unsafe { Frame::another(seen & !MARKS) };
        let used = if seen & USES == USES { seen } else { seen + USE };
        self.word.store(used, Ordering::Release);
        Some(found)
    }

    /// Whether nothing is here.
    pub fn is_empty(&self) -> bool {
        self.word.load(Ordering::Relaxed) == 0
    }

    /// Asks the processor for the beginning of what is here.
    #[inline]
    pub fn prefetch(&self) {
        let seen = self.word.load(Ordering::Relaxed);
        if seen != 0 {
            prefetch_frame(seen & !MARKS);
        }
    }

    /// Puts `content` here, or nothing; it was not used yet.
    pub fn set(&self, content: Option<Frame<H>>) {
        let fresh = content.map_or(0, Frame::into_address);
        drop(Self::take(self.replace(|_| fresh)));
    }

    /// How often what is here was used since this was last asked, at most three times.
    pub fn take_uses(&self) -> u8 {
        ((self.replace(|seen| seen & !USES) & USES) / USE) as u8
    }

    /// Puts another word in place of an unlocked one, and returns that.
    fn replace(&self, word: impl Fn(usize) -> usize) -> usize {
        loop {
            let seen = self.word.load(Ordering::Relaxed);
            if seen & LOCKED == 0
                && self
                    .word
                    .compare_exchange_weak(seen, word(seen), Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
            {
                return seen;
            }
            pause();
        }
    }

    /// Locks the place and returns the word in it; `None`, unlocked, when it is empty.
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

    /// The user that a word which is in no place any more stood for.
    fn take(word: usize) -> Option<Frame<H>> {
        if word == 0 {
            return None;
        }
        // SAFETY: the address came from `into_address` in `set`, and its word was taken out of its
        // place unlocked, so nobody else takes it, and nobody is counting on it.
        Some(unsafe { Frame::from_address(word & !MARKS) })
    }
}

impl<H> Drop for Place<H> {
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
    use crate::base::frame::FrameBuf;
    use std::sync::Arc;

    fn frame<H>(header: H) -> Frame<H> {
        FrameBuf::zeroed(8, None).freeze(8, header)
    }

    #[test]
    fn what_is_put_is_found_until_it_is_replaced_and_dropped_once() {
        let place = Place::default();
        assert!(place.get().is_none());
        let (first, second) = (frame(1u64), frame(2u64));
        place.set(Some(first.clone()));
        let copy = place.get().unwrap();
        assert!(copy.is_same(&first));
        assert_eq!(first.users(), 3);
        place.set(Some(second.clone()));
        assert_eq!(first.users(), 2);
        assert_eq!(*place.get().unwrap().header(), 2);
        place.set(None);
        assert!(place.get().is_none());
        assert_eq!(second.users(), 1);
        place.set(Some(second.clone()));
        drop(place);
        assert_eq!((first.users(), second.users()), (2, 1));
    }

    #[test]
    fn uses_are_counted_up_to_three_and_begin_again() {
        let place = Place::default();
        assert_eq!(place.take_uses(), 0);
        for uses in [0, 1, 2, 3, 4, 9] {
            place.set(Some(frame(5u32)));
            for _ in 0..uses {
                place.prefetch();
                assert_eq!(*place.get().unwrap().header(), 5);
            }
            assert_eq!((place.take_uses(), place.take_uses()), (uses.min(3), 0));
            assert!(place.get().is_some());
        }
    }

    #[test]
    fn threads_that_take_and_replace_lose_nothing_and_keep_nothing() {
        let rounds = if cfg!(miri) { 40 } else { 20_000 };
        let place = Arc::new(Place::default());
        let values: Vec<Frame<(u64, u64)>> = (0..4).map(|n| frame((n, !n))).collect();
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (place, values) = (place.clone(), values.clone());
                scope.spawn(move || {
                    for round in 0..rounds {
                        let next = values.get((round + thread) % 5).cloned();
                        place.set(next);
                        place.take_uses();
                    }
                });
            }
            for _ in 0..2 {
                let place = place.clone();
                scope.spawn(move || {
                    for _ in 0..rounds {
                        if let Some(found) = place.get() {
                            assert_eq!(found.header().0, !found.header().1);
                        }
                    }
                });
            }
        });
        drop(place);
        assert!(values.iter().all(|value| value.users() == 1));
    }
}
