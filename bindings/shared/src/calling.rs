//! Which of its caller's functions a thread is in, so that none uses the store that waits for it.
//!
//! A comparator or a filter is called in the middle of a call on its store, by a thread that may
//! hold the store's locks. What stays true: from within it that store's handle refuses every call,
//! where a wait for the caller's own thread would never end. Another store may be used. A function
//! that waits for another thread which uses the store is beyond this.

use std::cell::Cell;
use std::sync::Arc;

use esker::{KeyOrder, Options};

/// In none.
const NONE: usize = 0;
/// In several, one within the other.
const SEVERAL: usize = usize::MAX;

thread_local! {
    static FUNCTION: Cell<usize> = const { Cell::new(NONE) };
}

/// The addresses of a store's comparator and filter; 0 for one it has not.
pub type Functions = [usize; 2];

/// Those of the store that these options open.
pub fn functions_of(options: &Options) -> Functions {
    let comparator = match &options.key_order {
        KeyOrder::Custom(comparator) => Arc::as_ptr(comparator).cast::<()>().addr(),
        _ => NONE,
    };
    let filter = options.filter_policy.as_ref();
    [comparator, filter.map_or(NONE, |filter| Arc::as_ptr(filter).cast::<()>().addr())]
}

/// Runs `body`, which calls the caller's function that `of` holds.
#[inline]
pub fn within<T, R>(of: &T, body: impl FnOnce() -> R) -> R {
    let function = std::ptr::from_ref(of).addr();
    let before = FUNCTION.get();
    FUNCTION.set(if before == NONE || before == function { function } else { SEVERAL });
    let _back = Back(before);
    body()
}

/// Whether this thread is in one of `functions`.
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
    fn a_thread_knows_which_functions_it_is_in() {
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
