//! Monotonic counters for one thread or many.
//!
//! Invariants: no count is lost, whichever thread adds it. A part of a [`Striped`] that belongs to
//! one thread is written by no other thread until that thread has ended.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::thread_number::ThreadNumber;

/// A monotonic counter.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Adds `n`, as [`Counter::add`] does, where only one thread adds at a time. The caller must
    /// hold a lock that every other adder needs as well. The addition orders no other memory
    /// operations, so no later read waits for earlier stores.
    #[inline]
    pub fn add_alone(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }

    /// Returns the sum so far.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Number of concurrent threads with a part of their own: those with the lowest thread numbers.
const OWNED: usize = 16;
/// Number of parts shared by all other threads.
const SHARED: usize = 16;

/// A [`Counter`] for many threads. Each thread adds to its own part while there are enough parts.
/// No other thread adds to that part, so the addition needs no locked instruction. A locked
/// instruction would delay later reads.
#[derive(Debug, Default)]
pub struct Striped([Stripe; OWNED + SHARED]);

/// A [`Striped`] that takes no memory before the first addition.
#[derive(Debug, Default)]
pub struct LazyStriped(OnceLock<Box<Striped>>);

impl LazyStriped {
    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.get_or_init(Box::default).add(n);
    }

    /// Returns the sum so far.
    pub fn get(&self) -> u64 {
        self.0.get().map_or(0, |parts| parts.get())
    }
}

/// One part, alone on its cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe(AtomicU64);

impl Striped {
    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        let thread = ThreadNumber::mine();
        let number = thread.get();
        if number < OWNED {
            let part = &self.0[number].0;
            part.store(part.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        } else {
            self.0[OWNED + number % SHARED].0.fetch_add(n, Ordering::Relaxed);
        }
    }

    /// Returns the sum so far.
    pub fn get(&self) -> u64 {
        self.0.iter().map(|part| part.0.load(Ordering::Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::{Arc, Barrier};

    #[test]
    fn counts_are_exact_with_more_threads_than_parts() {
        let sum = Striped::default();
        let threads = OWNED + 2 * SHARED;
        let together = Barrier::new(threads);
        let rounds = if cfg!(miri) { 10 } else { 2_000 };
        // In the second round, threads take over the parts of ended threads.
        for round in 1..=2u64 {
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| {
                        together.wait();
                        (0..rounds).for_each(|n| sum.add(n % 3));
                    });
                }
            });
            let each: u64 = (0..rounds).map(|n| n % 3).sum();
            assert_eq!(sum.get(), round * threads as u64 * each);
        }
    }

    #[test]
    fn counts_from_thread_destructors_are_kept() {
        struct Last(Arc<Striped>);
        impl Drop for Last {
            fn drop(&mut self) {
                self.0.add(10);
            }
        }
        thread_local! {
            static LAST: Cell<Option<Last>> = const { Cell::new(None) };
        }
        let sum = Arc::<Striped>::default();
        // The value is created before the thread has a part, or after. It is dropped after the part
        // was given back, or before.
        for early in [true, false] {
            let sum = sum.clone();
            std::thread::spawn(move || {
                if early {
                    LAST.set(Some(Last(sum.clone())));
                }
                sum.add(1);
                LAST.set(Some(Last(sum)));
            })
            .join()
            .unwrap();
        }
        let replaced = 10;
        assert_eq!(sum.get(), 2 * (1 + 10) + replaced);
    }
}
