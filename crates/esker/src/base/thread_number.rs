//! Thread numbers: a small number for each live thread, unique among live threads.
//!
//! Invariants:
//! 1. Two live threads have different numbers.
//! 2. The numbers in use are about the lowest possible, because numbers are reused.
//! 3. All writes of a thread are visible to the next thread with the same number.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::AcqRel, Ordering::Relaxed};

/// One bit for each number in use. A bitmap replaces a lock, because a forked child could inherit a
/// lock held by a thread that does not exist in the child.
static IN_USE: [AtomicU64; 1_024] = [const { AtomicU64::new(0) }; 1_024];
/// The next number if all 65,536 bits are taken. These numbers are never reused.
static NEXT_OVERFLOW: AtomicUsize = AtomicUsize::new(IN_USE.len() * BITS);

const BITS: usize = u64::BITS as usize;

/// Ownership of a number, which is released on drop.
struct NumberOwner(usize);

impl NumberOwner {
    fn take() -> NumberOwner {
        let found = IN_USE.iter().enumerate().find_map(|(index, word)| {
            // AcqRel: the writes of the number's last owner are visible from here on.
            let with_one_more = |taken: u64| (taken != u64::MAX).then(|| taken | (taken + 1));
            let before = word.fetch_update(AcqRel, Relaxed, with_one_more).ok()?;
            Some(index * BITS + before.trailing_ones() as usize)
        });
        NumberOwner(found.unwrap_or_else(|| NEXT_OVERFLOW.fetch_add(1, Relaxed)))
    }
}

impl Drop for NumberOwner {
    fn drop(&mut self) {
        // An exiting thread must not use its cached number after this.
        let _ = KNOWN.try_with(|known| known.set(UNKNOWN));
        if let Some(word) = IN_USE.get(self.0 / BITS) {
            word.fetch_and(!(1 << (self.0 % BITS)), AcqRel);
        }
    }
}

/// The value of [`KNOWN`] while the number is not cached and `OWNER` must be read.
const UNKNOWN: usize = usize::MAX;

super::sync::thread_local! {
    static OWNER: NumberOwner = NumberOwner::take();
    /// The cached number, which is faster to read.
    static KNOWN: Cell<usize> = const { Cell::new(UNKNOWN) };
}

/// The number of the current thread.
pub struct ThreadNumber {
    number: usize,
    /// A number owned by this value alone, used after the thread's own number was released at exit.
    temporary: Option<NumberOwner>,
    own: PhantomData<*const ()>,
}

impl ThreadNumber {
    /// Returns this thread's number. It is the same at every call until the thread begins to exit.
    #[inline]
    pub fn mine() -> ThreadNumber {
        match KNOWN.try_with(Cell::get) {
            Ok(number) if number != UNKNOWN => {
                ThreadNumber { number, temporary: None, own: PhantomData }
            }
            _ => ThreadNumber::find(),
        }
    }

    #[cold]
    fn find() -> ThreadNumber {
        let (number, temporary) = match OWNER.try_with(|owner| owner.0) {
            Ok(number) => {
                let _ = KNOWN.try_with(|known| known.set(number));
                (number, None)
            }
            Err(_) => {
                let owner = NumberOwner::take();
                (owner.0, Some(owner))
            }
        };
        ThreadNumber { number, temporary, own: PhantomData }
    }

    /// Returns the number.
    #[inline]
    pub fn get(&self) -> usize {
        debug_assert!(self.temporary.as_ref().is_none_or(|owner| owner.0 == self.number));
        self.number
    }
}

#[cfg(all(test, not(esker_shuttle)))]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::{Barrier, Mutex};

    #[test]
    fn live_threads_have_distinct_numbers_and_release_them() {
        // More threads than bits in a word.
        let count = if cfg!(miri) { 24 } else { 80 };
        for _ in 0..3 {
            let (seen, together) = (Mutex::new(HashSet::new()), Barrier::new(count));
            std::thread::scope(|scope| {
                for _ in 0..count {
                    scope.spawn(|| {
                        let mine = ThreadNumber::mine().get();
                        assert!(
                            seen.lock().unwrap().insert(mine),
                            "two threads have the same number"
                        );
                        together.wait();
                        assert_eq!(ThreadNumber::mine().get(), mine);
                    });
                }
            });
        }
        let number = std::thread::spawn(|| ThreadNumber::mine().get()).join().unwrap();
        assert!(number < 1_000, "numbers of ended threads are not reused");
    }
}
