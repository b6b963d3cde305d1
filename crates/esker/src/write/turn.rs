//! Who adds to the memtable beside others becomes visible in turn.
//!
//! What stays true: what is visible is whole: every operation up to the visible number is in the
//! memtable and its index.

use crate::base::key::SeqNo;
use crate::base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::base::sync::{Bug, Condvar, Mutex, is_seeded};

/// How often who waits for its turn looks before it sleeps: for longer than an operation takes to
/// be added by a thread that is running.
const LOOKS: u32 = if cfg!(feature = "shuttle") { 1 } else { 128 };

/// The number up to which everything is in the memtable and may be read.
#[derive(Debug)]
#[repr(align(128))]
pub struct Visible {
    seqno: AtomicU64,
    sleepers: AtomicUsize,
    /// How often somebody slept.
    slept: AtomicUsize,
    /// Held by who goes to sleep and by who wakes them.
    bed: Mutex<()>,
    woken: Condvar,
}

impl Visible {
    /// Everything up to `seqno` is visible.
    pub fn new(seqno: SeqNo) -> Visible {
        Visible {
            seqno: AtomicU64::new(seqno),
            sleepers: AtomicUsize::new(0),
            slept: AtomicUsize::new(0),
            bed: Mutex::default(),
            woken: Condvar::new(),
        }
    }

    /// The last visible number.
    #[inline]
    pub fn seqno(&self) -> SeqNo {
        self.seqno.load(Ordering::Acquire)
    }

    /// Makes everything up to `seqno` visible to readers, where nobody waits for it.
    #[inline]
    pub(super) fn publish(&self, seqno: SeqNo) {
        self.seqno.store(seqno, Ordering::Release);
    }

    /// [`Visible::publish`], and wakes who waits.
    fn publish_to_all(&self, seqno: SeqNo) {
        // In one order with the looks of who goes to sleep: one of the two sees the other.
        self.seqno.store(seqno, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(self.bed.lock());
            self.woken.notify_all();
        }
    }

    /// Waits until everything up to `seqno` is visible.
    #[inline]
    pub(super) fn wait_for(&self, seqno: SeqNo) {
        for _ in 0..LOOKS {
            if self.seqno() >= seqno {
                return;
            }
            std::hint::spin_loop();
        }
        self.sleep_until(seqno);
    }

    #[cold]
    fn sleep_until(&self, seqno: SeqNo) {
        let mut bed = self.bed.lock();
        self.slept.fetch_add(1, Ordering::Relaxed);
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while self.seqno.load(Ordering::SeqCst) < seqno {
            self.woken.wait(&mut bed);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Whether it pays to add beside others: not where more threads write than run, since whoever is
/// interrupted while it adds is waited for by all who come after.
#[derive(Debug, Default)]
pub struct Company {
    /// Commits of the present window that added beside others, and how often somebody had slept
    /// when it began.
    beside: usize,
    slept: usize,
    /// So many commits more keep the core.
    alone: usize,
}

impl Company {
    const WINDOW: usize = if cfg!(feature = "shuttle") { 4 } else { 1024 };
    const SLEPT_MAX: usize = Self::WINDOW / 32;
    const ALONE: usize = 16 * Self::WINDOW;

    /// Whether the next commit, of several threads', is to add beside others.
    pub(super) fn is_good(&mut self, visible: &Visible) -> bool {
        if self.alone > 0 {
            self.alone -= 1;
            return false;
        }
        self.beside += 1;
        if self.beside == Self::WINDOW {
            let slept = visible.slept.load(Ordering::Relaxed);
            if slept - self.slept > Self::SLEPT_MAX {
                self.alone = Self::ALONE;
            }
            (self.beside, self.slept) = (0, slept);
        }
        true
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
        self.visible.publish_to_all(self.last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sleeps_often_is_alone_for_a_while() {
        let (visible, mut company) = (Visible::new(0), Company::default());
        let mut windows = |sleeps: usize| {
            visible.slept.fetch_add(sleeps, Ordering::Relaxed);
            (0..Company::WINDOW).filter(|_| company.is_good(&visible)).count()
        };
        assert_eq!(windows(Company::SLEPT_MAX), Company::WINDOW);
        assert_eq!(windows(Company::SLEPT_MAX + 1), Company::WINDOW, "it is known at its end");
        for _ in 0..16 {
            assert_eq!(windows(0), 0);
        }
        assert_eq!(windows(0), Company::WINDOW, "and tried again");
    }
}
