//! A block slot: one word that holds a shared cache block. Many threads load it, few replace it.
//!
//! A load writes no shared memory, except for the use count of the first three loads. Readers are
//! protected by the epoch collector instead of a reference count: a block removed from its slot
//! waits in a [`Limbo`], the retire list, until no reader can use it.
//!
//! Invariants:
//! 1. The word is 0 or the address of a cache block. The slot owns one reference to that block.
//! 2. After the word has changed, the slot's reference to the old block goes to the slot's retire
//!    list, which is the same list for all calls.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;

use super::limbo::Limbo;
use crate::base::frame::{Frame, prefetch_frame};
use crate::base::readers::Reading;
use crate::base::sync::atomic::{AtomicUsize, Ordering};

/// A replaceable, optional cache block. The owner must pass the same retire list to each call.
pub(super) struct Place<H> {
    address: AtomicUsize,
    owns: PhantomData<Frame<H>>,
}

impl<H> Default for Place<H> {
    fn default() -> Place<H> {
        Place { address: AtomicUsize::new(0), owns: PhantomData }
    }
}

/// A cached reference: a cache block that an epoch guard keeps alive.
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
    /// Returns a reference to the block in this slot, if it is filled. The reference is valid
    /// during `reading`, which must be a guard of `limbo`'s epoch collector. Counts as a use.
    ///
    /// # Panics
    /// If `reading` belongs to another epoch collector.
    #[inline]
    pub fn see<'s>(&'s self, limbo: &Limbo<H>, reading: &'s Reading<'_>) -> Option<Seen<'s, H>> {
        assert!(reading.is_of(limbo.readers()), "the guard belongs to another cache");
        let address = self.address.load(Ordering::Acquire);
        if address == 0 {
            return None;
        }
        // SAFETY: `set` stored the address. The slot's reference to the block is dropped only after
        // `reading` ends, because `reading` began before the address was loaded.
        let frame = unsafe { Frame::at_address(address) };
        frame.note_use();
        Some(Seen { frame, kept: PhantomData })
    }

    /// Replaces the slot's block by `content` and adds the old block to `limbo`. Resets the use
    /// count of the new block.
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
    /// Returns whether the slot is empty.
    pub fn is_empty(&self) -> bool {
        self.address.load(Ordering::Relaxed) == 0
    }

    /// Prefetches the beginning of the slot's block, if any.
    #[inline]
    pub fn prefetch(&self) {
        let address = self.address.load(Ordering::Relaxed);
        if address != 0 {
            prefetch_frame(address);
        }
    }

    /// Returns the memory address of the block's bytes, or 0 for an empty slot.
    #[inline]
    pub fn bytes_address(&self) -> usize {
        match self.address.load(Ordering::Relaxed) {
            0 => 0,
            head => head + Frame::<H>::HEAD_BYTES,
        }
    }

    /// Returns the reference that a slot owned through `address`, which no slot holds any more.
    fn take(address: usize) -> Option<Frame<H>> {
        if address == 0 {
            return None;
        }
        // SAFETY: the address came from `into_address` in `set`. It was removed from its slot, so
        // no other caller takes the reference.
        Some(unsafe { Frame::from_address(address) })
    }
}

impl<H> Drop for Place<H> {
    fn drop(&mut self) {
        // Cached references borrow the slot, so none is left.
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
                        // A new block, to which only the slot has a reference.
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
