//! Tracks which caller-supplied function a thread is running, to detect re-entrant calls.
//!
//! A store calls its comparator or filter in the middle of another call. The calling thread may
//! hold the store's locks then, so a re-entrant call could wait for its own thread and deadlock.
//!
//! Invariants:
//! 1. Within a comparator or filter, the handle of its store refuses every call.
//! 2. Calls on other stores are allowed. Exception: within nested functions, every store with a
//!    comparator or filter refuses its calls.
//!
//! A function that waits for another thread that uses the store is not detected.

use std::cell::Cell;
use std::sync::Arc;

use esker::{KeyOrder, Options};

/// The thread runs none of the functions.
const NONE: usize = 0;
/// The thread runs several of the functions, nested. Every store with a comparator or filter then
/// refuses its calls.
const SEVERAL: usize = usize::MAX;

thread_local! {
    static FUNCTION: Cell<usize> = const { Cell::new(NONE) };
}

/// Addresses of a store's comparator and filter; 0 for a missing one.
pub type Functions = [usize; 2];

/// Returns the functions of a store opened with `options`.
pub fn functions_of(options: &Options) -> Functions {
    let comparator = match &options.key_order {
        KeyOrder::Custom(comparator) => Arc::as_ptr(comparator).cast::<()>().addr(),
        _ => NONE,
    };
    let filter = options.filter_policy.as_ref();
    [comparator, filter.map_or(NONE, |filter| Arc::as_ptr(filter).cast::<()>().addr())]
}

/// Runs `body`, which calls the caller-supplied function held by `of`.
#[inline]
pub fn within<T, R>(of: &T, body: impl FnOnce() -> R) -> R {
    let function = std::ptr::from_ref(of).addr();
    let before = FUNCTION.get();
    FUNCTION.set(if before == NONE || before == function { function } else { SEVERAL });
    let _back = Back(before);
    body()
}

/// Returns whether this thread runs one of `functions`.
#[inline]
pub fn is_within(functions: &Functions) -> bool {
    if *functions == [NONE; 2] {
        return false;
    }
    let now = FUNCTION.get();
    now != NONE && (now == SEVERAL || functions.contains(&now))
}

struct Back(usize);

impl Drop for Back {
    fn drop(&mut self) {
        FUNCTION.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_functions_are_tracked_per_thread() {
        let (one, other) = (1u64, 2u64);
        let (first, second) =
            ([std::ptr::from_ref(&one).addr(), 0], [0, std::ptr::from_ref(&other).addr()]);
        assert!(!is_within(&first) && !is_within(&[NONE; 2]));
        within(&one, || {
            assert!(is_within(&first) && !is_within(&second) && !is_within(&[NONE; 2]));
            within(&one, || assert!(is_within(&first) && !is_within(&second)));
            within(&other, || assert!(is_within(&first) && is_within(&second)));
            assert!(is_within(&first) && !is_within(&second));
            std::thread::scope(|scope| scope.spawn(|| assert!(!is_within(&first))).join().unwrap());
        });
        let panicked = std::panic::catch_unwind(|| within(&one, || panic!("of the test")));
        assert!(panicked.is_err() && !is_within(&first));
    }
}
