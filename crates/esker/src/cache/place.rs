//! A shared frame that many threads look at and few replace, in one word.
//!
//! A look writes nothing that others read but, the first three times, that it happened: what leaves
//! the place waits in a [`Limbo`] for those who look.
//!
//! What stays true: the word is 0, or the address of a frame with one user that stands for this
//! place; that user goes into the place's limbo, always the same, after the word is another.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;

use super::limbo::Limbo;
use crate::base::frame::{Frame, prefetch_frame};
use crate::base::readers::Reading;
use crate::base::sync::atomic::{AtomicUsize, Ordering};

/// A frame, or nothing, that can be replaced. Its owner gives each call the same limbo.
pub(super) struct Place<H> {
    address: AtomicUsize,
    owns: PhantomData<Frame<H>>,
}

impl<H> Default for Place<H> {
    fn default() -> Place<H> {
        Place { address: AtomicUsize::new(0), owns: PhantomData }
    }
}

/// A frame that a reading keeps.
pub struct Seen<'s, H> {
    frame: ManuallyDrop<Frame<H>>,
    kept: PhantomData<&'s Frame<H>>,
}

impl<H> Deref for Seen<'_, H> {
    type Target = Frame<H>;

    #[inline]
    fn deref(&self) -> &Frame<H> {
        &self.frame
    }
}

impl<H: Send + Sync + 'static> Place<H> {
    /// What is here, if anything is, for as long as `reading`, which is one of those of `limbo`, goes
    /// on. Counts as a use.
    #[inline]
    pub fn see<'s>(&'s self, limbo: &Limbo<H>, reading: &'s Reading<'_>) -> Option<Seen<'s, H>> {
        assert!(reading.is_of(limbo.readers()), "a reader of another cache");
        let address = self.address.load(Ordering::Acquire);
        if address == 0 {
            return None;
        }
        // SAFETY: `set` put the address here, and the user it stands for is dropped only after the
        // reading, which began before the address was loaded.
        let frame = unsafe { Frame::at_address(address) };
        frame.note_use();
        Some(Seen { frame, kept: PhantomData })
    }

    /// Puts `content` here, or nothing; what was here goes into `limbo`. It was not used yet.
    pub fn set(&self, limbo: &Limbo<H>, content: Option<Frame<H>>) {
        if let Some(fresh) = &content {
            fresh.take_uses();
        }
        let fresh = content.map_or(0, Frame::into_address);
        if let Some(left) = Self::take(self.address.swap(fresh, Ordering::AcqRel)) {
            limbo.add(left);
        }
    }
}

impl<H> Place<H> {
    /// Whether nothing is here.
    pub fn is_empty(&self) -> bool {
        self.address.load(Ordering::Relaxed) == 0
    }

    /// Asks the processor for the beginning of what is here.
    #[inline]
    pub fn prefetch(&self) {
        let address = self.address.load(Ordering::Relaxed);
        if address != 0 {
            prefetch_frame(address);
        }
    }

    /// Where in memory the bytes of what is here begin; 0 where nothing is.
    #[inline]
    pub fn bytes_address(&self) -> usize {
        match self.address.load(Ordering::Relaxed) {
            0 => 0,
            head => head + Frame::<H>::HEAD_BYTES,
        }
    }

    /// The user that an address which is in no place any more stood for.
    fn take(address: usize) -> Option<Frame<H>> {
        if address == 0 {
            return None;
        }
        // SAFETY: the address came from `into_address` in `set`, and was taken out of its place, so
        // nobody else takes it.
        Some(unsafe { Frame::from_address(address) })
    }
}

impl<H> Drop for Place<H> {
    fn drop(&mut self) {
        // What was seen here borrows the place, and is gone.
        drop(Self::take(self.address.load(Ordering::Relaxed)));
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
    fn what_is_put_is_seen_until_it_is_replaced_and_dropped_once() {
        let (place, limbo) = (Place::default(), Limbo::default());
        let reading = limbo.readers().enter();
        assert!(place.see(&limbo, &reading).is_none());
        let (first, second) = (frame(1u64), frame(2u64));
        place.set(&limbo, Some(first.clone()));
        let seen = place.see(&limbo, &reading).unwrap();
        assert!(seen.is_same(&first));
        assert_eq!(first.users(), 2);
        place.set(&limbo, Some(second.clone()));
        assert_eq!(*place.see(&limbo, &reading).unwrap().header(), 2);
        limbo.flush();
        assert_eq!((*seen.header(), first.users()), (1, 2));
        drop(reading);
        assert_eq!(first.users(), 1);
        place.set(&limbo, None);
        limbo.flush();
        assert!(place.is_empty());
        assert_eq!(second.users(), 1);
        place.set(&limbo, Some(second.clone()));
        drop(place);
        assert_eq!((first.users(), second.users()), (1, 1));
    }

    #[test]
    fn uses_are_counted_up_to_three_and_begin_again() {
        let (place, limbo) = (Place::default(), Limbo::default());
        for uses in [0, 1, 2, 3, 4, 9] {
            let content = frame(5u32);
            content.note_use();
            place.set(&limbo, Some(content.clone()));
            for _ in 0..uses {
                place.prefetch();
                let reading = limbo.readers().enter();
                assert_eq!(*place.see(&limbo, &reading).unwrap().header(), 5);
            }
            assert_eq!((content.take_uses(), content.take_uses()), (uses.min(3), 0));
        }
    }

    #[test]
    fn threads_that_look_and_replace_lose_nothing_and_keep_nothing() {
        let rounds = if cfg!(miri) { 40 } else { 20_000 };
        let (place, limbo) = (Arc::new(Place::default()), Arc::new(Limbo::default()));
        let values: Vec<Frame<(u64, u64)>> = (0..4).map(|n| frame((n, !n))).collect();
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (place, limbo, values) = (&place, &limbo, &values);
                scope.spawn(move || {
                    for round in 0..rounds {
                        // A frame of its own, that only the place knows.
                        let n = (round + thread) as u64;
                        let next = if n.is_multiple_of(3) { Some(frame((n, !n))) } else { None };
                        place.set(limbo, next.or_else(|| values.get(n as usize % 5).cloned()));
                        if n.is_multiple_of(2) {
                            limbo.flush();
                        }
                    }
                });
            }
            for _ in 0..2 {
                let (place, limbo) = (&place, &limbo);
                scope.spawn(move || {
                    for _ in 0..rounds {
                        let reading = limbo.readers().enter();
                        if let Some(seen) = place.see(limbo, &reading) {
                            assert_eq!(seen.header().0, !seen.header().1);
                        }
                    }
                });
            }
        });
        place.set(&limbo, None);
        limbo.flush();
        assert!(values.iter().all(|value| value.users() == 1));
    }
}
