//! A small number for each thread that no other has while it lives.
//!
//! What stays true: two threads that are both alive have different numbers, and the numbers in use
//! are about the lowest there are; what a thread did is seen by the next that has its number.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};

/// The numbers nobody has: `free`, and all from `next` on.
struct Numbers {
    next: usize,
    free: BinaryHeap<Reverse<usize>>,
}

static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers { next: 0, free: BinaryHeap::new() });

/// A number that is given back when this is dropped.
struct Lease(usize);

impl Lease {
    fn take() -> Lease {
        let mut numbers = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
        let again = numbers.free.pop();
        Lease(again.map_or_else(
            || {
                numbers.next += 1;
                numbers.next - 1
            },
            |Reverse(number)| number,
        ))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // A thread that is ending has its number no more.
        let _ = KNOWN.try_with(|known| known.set(UNKNOWN));
        NUMBERS.lock().unwrap_or_else(PoisonError::into_inner).free.push(Reverse(self.0));
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
    use std::sync::Barrier;

    #[test]
    fn threads_that_are_alive_have_different_numbers_and_give_them_back() {
        let count = 24;
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
        let numbers = NUMBERS.lock().unwrap();
        assert!(numbers.next < 1_000, "numbers are not taken again");
    }
}
