//! Who adds to the memtable beside others becomes visible in turn.
//!
//! What stays true: what is visible is whole: every operation up to the visible number is in the
//! memtable and its index.

use crate::base::key::SeqNo;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::{Bug, is_seeded};

/// How often who waits for its turn looks before it lets others have the processor.
const LOOKS: u32 = if cfg!(feature = "shuttle") { 1 } else { 128 };

/// The number up to which everything is in the memtable and may be read.
#[derive(Debug)]
#[repr(align(128))]
pub struct Visible(AtomicU64);

impl Visible {
    /// Everything up to `seqno` is visible.
    pub fn new(seqno: SeqNo) -> Visible {
        Visible(AtomicU64::new(seqno))
    }

    /// The last visible number.
    #[inline]
    pub fn seqno(&self) -> SeqNo {
        self.0.load(Ordering::Acquire)
    }

    /// Makes everything up to `seqno` visible to readers.
    #[inline]
    pub(super) fn publish(&self, seqno: SeqNo) {
        self.0.store(seqno, Ordering::Release);
    }

    /// Waits until everything up to `seqno` is visible: those who add it are not to be waited for
    /// longer than a memtable takes an operation.
    #[inline]
    pub(super) fn wait_for(&self, seqno: SeqNo) {
        let mut looks = 0u32;
        while self.seqno() < seqno {
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(LOOKS) {
                crate::base::sync::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

/// The numbers that one thread adds beside others. When it is dropped they become visible, after
/// all before them, also by a panic in the order of keys: who comes after waits for them.
pub(super) struct InTurn<'a> {
    visible: &'a Visible,
    first: SeqNo,
    last: SeqNo,
}

impl InTurn<'_> {
    /// The numbers `first..=last`, which nobody else has.
    pub(super) fn new(visible: &Visible, first: SeqNo, last: SeqNo) -> InTurn<'_> {
        InTurn { visible, first, last }
    }

    /// Waits for its turn and makes the numbers visible; returns the last.
    pub(super) fn end(self) -> SeqNo {
        self.last
    }
}

impl Drop for InTurn<'_> {
    fn drop(&mut self) {
        if !is_seeded(Bug::PublishOutOfTurn) {
            self.visible.wait_for(self.first - 1);
        }
        self.visible.publish(self.last);
    }
}
