//! A small number for each thread that no other has while it lives.
//!
//! What stays true: two threads that are both alive have different numbers, and the numbers in use
//! are about the lowest there are; what a thread did is seen by the next that has its number.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::AcqRel, Ordering::Relaxed};

/// A bit for each number that somebody has: no lock, which a child that was forked could find taken
/// by a thread that it has not.
static TAKEN: [AtomicU64; 1_024] = [const { AtomicU64::new(0) }; 1_024];
/// Where so many threads live at once that no bit is left, numbers are given once.
static BEYOND: AtomicUsize = AtomicUsize::new(TAKEN.len() * BITS);

const BITS: usize = u64::BITS as usize;

/// A number that is given back when this is dropped.
struct Lease(usize);

impl Lease {
    fn take() -> Lease {
        let found = TAKEN.iter().enumerate().find_map(|(index, word)| {
            // Both orders: what the last who had the number did is seen from here on.
            let with_one_more = |taken: u64| (taken != u64::MAX).then(|| taken | (taken + 1));
            let before = word.fetch_update(AcqRel, Relaxed, with_one_more).ok()?;
            Some(index * BITS + before.trailing_ones() as usize)
        });
        Lease(found.unwrap_or_else(|| BEYOND.fetch_add(1, Relaxed)))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // A thread that is ending has its number no more.
        let _ = KNOWN.try_with(|known| known.set(UNKNOWN));
        if let Some(word) = TAKEN.get(self.0 / BITS) {
            word.fetch_and(!(1 << (self.0 % BITS)), AcqRel);
        }
    }
}

/// What [`KNOWN`] is where `MINE` must be asked.
const UNKNOWN: usize = usize::MAX;

super::sync::thread_local! {
    static MINE: Lease = Lease::take();
    /// The same number, where it is found sooner.
    static KNOWN: Cell<usize> = const { Cell::new(UNKNOWN) };
}

/// The number of the thread that asked for it.
pub struct ThreadNumber {
    number: usize,
    /// While a thread ends, each has a number of its own.
    lent: Option<Lease>,
    own: PhantomData<*const ()>,
}

impl ThreadNumber {
    /// This thread's number, the same at every call until it ends.
    #[inline]
    pub fn mine() -> ThreadNumber {
        match KNOWN.try_with(Cell::get) {
            Ok(number) if number != UNKNOWN => {
                ThreadNumber { number, lent: None, own: PhantomData }
            }
            _ => ThreadNumber::find(),
        }
    }

    #[cold]
    fn find() -> ThreadNumber {
        let (number, lent) = match MINE.try_with(|lease| lease.0) {
            Ok(number) => {
                let _ = KNOWN.try_with(|known| known.set(number));
                (number, None)
            }
            Err(_) => {
                let lease = Lease::take();
                (lease.0, Some(lease))
            }
        };
        ThreadNumber { number, lent, own: PhantomData }
    }

    /// The number.
    #[inline]
    pub fn get(&self) -> usize {
        debug_assert!(self.lent.as_ref().is_none_or(|lease| lease.0 == self.number));
        self.number
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::{Barrier, Mutex};

    #[test]
    fn threads_that_are_alive_have_different_numbers_and_give_them_back() {
        // More than a word has bits.
        let count = if cfg!(miri) { 24 } else { 80 };
        for _ in 0..3 {
            let (seen, together) = (Mutex::new(HashSet::new()), Barrier::new(count));
            std::thread::scope(|scope| {
                for _ in 0..count {
                    scope.spawn(|| {
                        let mine = ThreadNumber::mine().get();
                        assert!(seen.lock().unwrap().insert(mine), "two have the same");
                        together.wait();
                        assert_eq!(ThreadNumber::mine().get(), mine);
                    });
                }
            });
        }
        let number = std::thread::spawn(|| ThreadNumber::mine().get()).join().unwrap();
        assert!(number < 1_000, "numbers are not taken again");
    }
}
