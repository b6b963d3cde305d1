//! Tracks which caller-supplied function a thread is running, to detect re-entrant calls.
//!
//! A store calls its comparator, filter, merge operator, compaction filter, listener or clock in
//! the middle of another call. The calling thread may hold the store's locks then, so a re-entrant call could
//! wait for its own thread and deadlock.
//!
//! Invariants:
//! 1. Within one of these functions, the handle of its store refuses every call.
//! 2. Calls on other stores are allowed. Exception: within nested functions, every store with
//!    such a function refuses its calls.
//!
//! A function that waits for another thread that uses the store is not detected.

use std::cell::Cell;
use std::sync::Arc;

use esker::{KeyOrder, Options};

/// The thread runs none of the functions.
const NONE: usize = 0;
/// The thread runs several of the functions, nested. Every store with such a function then
/// refuses its calls.
const SEVERAL: usize = usize::MAX;

thread_local! {
    static FUNCTION: Cell<usize> = const { Cell::new(NONE) };
}

/// Addresses of a store's comparators, merge operators and compaction filters, also those of its
/// keyspaces, and of its filter, its listeners and its clock.
#[derive(Debug, Clone, Default)]
pub struct Functions(Vec<usize>);

impl Functions {
    /// Returns the functions with one more, which a store calls and which is not in its options: a
    /// source of keys.
    pub fn with<T: ?Sized>(mut self, of: Option<&Arc<T>>) -> Functions {
        self.0.extend(of.map(|of| Arc::as_ptr(of).cast::<()>().addr()));
        self
    }
}

/// Returns the functions of a store opened with `options`.
pub fn functions_of(options: &Options) -> Functions {
    let orders = std::iter::once(&options.key_order).chain(&options.key_orders);
    let comparators = orders.filter_map(|order| match order {
        KeyOrder::Custom(comparator) => Some(Arc::as_ptr(comparator).cast::<()>().addr()),
        _ => None,
    });
    let mut functions: Vec<usize> = comparators.collect();
    let filter = options.filter_policy.as_ref();
    functions.extend(filter.map(|filter| Arc::as_ptr(filter).cast::<()>().addr()));
    let operators = options.merge_operator.iter().chain(&options.merge_operators);
    functions.extend(operators.map(|operator| Arc::as_ptr(operator).cast::<()>().addr()));
    let filters = options.compaction_filter.iter().chain(&options.compaction_filters);
    functions.extend(filters.map(|filter| Arc::as_ptr(filter).cast::<()>().addr()));
    let listeners = options.listeners.iter();
    functions.extend(listeners.map(|listener| Arc::as_ptr(listener).cast::<()>().addr()));
    functions.extend(options.clock.as_ref().map(|clock| Arc::as_ptr(clock).cast::<()>().addr()));
    Functions(functions)
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
    if functions.0.is_empty() {
        return false;
    }
    let now = FUNCTION.get();
    now != NONE && (now == SEVERAL || functions.0.contains(&now))
}

struct Back(usize);

impl Drop for Back {
    fn drop(&mut self) {
        FUNCTION.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use esker::{
        Clock, CompactionFilter, Comparator, EventListener, FilterDecision, MergeOperator,
    };

    use super::*;

    struct Named(String);

    impl Comparator for Named {
        fn name(&self) -> &str {
            &self.0
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            a.cmp(b)
        }
    }

    #[test]
    fn functions_of_a_store_include_the_orders_of_its_keyspaces() {
        let named = |name: &str| Arc::new(Named(name.to_string()));
        let (own, of_keyspaces, foreign) = (named("own"), named("of keyspaces"), named("foreign"));
        let options = Options {
            key_order: KeyOrder::Custom(own.clone()),
            key_orders: vec![KeyOrder::Reverse, KeyOrder::Custom(of_keyspaces.clone())],
            ..Options::default()
        };
        let functions = functions_of(&options);
        for order in [&own, &of_keyspaces] {
            within(&**order, || assert!(is_within(&functions), "{}", order.0));
        }
        within(&*foreign, || assert!(!is_within(&functions)));
        assert!(functions_of(&Options::default()).0.is_empty());
    }

    impl MergeOperator for Named {
        fn name(&self) -> &str {
            &self.0
        }
        fn full_merge(
            &self,
            _key: &[u8],
            _existing: Option<&[u8]>,
            _operands: &[&[u8]],
            _out: &mut Vec<u8>,
        ) -> Result<(), String> {
            Ok(())
        }
    }

    impl CompactionFilter for Named {
        fn name(&self) -> &str {
            &self.0
        }
        fn filter(&self, _level: usize, _key: &[u8], _value: &[u8]) -> FilterDecision {
            FilterDecision::Keep
        }
    }

    impl EventListener for Named {}

    impl Clock for Named {
        fn now_ms(&self) -> u64 {
            0
        }
    }

    #[test]
    fn functions_of_a_store_include_all_that_it_calls() {
        let named = |name: &str| Arc::new(Named(name.to_string()));
        let all = ["operator", "added operator", "filter", "added filter", "listener", "clock"]
            .map(named);
        let options = Options {
            merge_operator: Some(all[0].clone()),
            merge_operators: vec![all[1].clone()],
            compaction_filter: Some(all[2].clone()),
            compaction_filters: vec![all[3].clone()],
            listeners: vec![all[4].clone()],
            clock: Some(all[5].clone()),
            ..Options::default()
        };
        let functions = functions_of(&options);
        for function in &all {
            within(&**function, || assert!(is_within(&functions), "{}", function.0));
        }
        let foreign = named("foreign");
        within(&*foreign, || assert!(!is_within(&functions)));
        let functions = functions.with(None::<&Arc<Named>>).with(Some(&foreign));
        within(&*foreign, || assert!(is_within(&functions)));
    }

    #[test]
    fn running_functions_are_tracked_per_thread() {
        let (one, other) = (1u64, 2u64);
        let functions = |of: &u64| Functions(vec![std::ptr::from_ref(of).addr()]);
        let (first, second, none) = (functions(&one), functions(&other), Functions::default());
        assert!(!is_within(&first) && !is_within(&none));
        within(&one, || {
            assert!(is_within(&first) && !is_within(&second) && !is_within(&none));
            within(&one, || assert!(is_within(&first) && !is_within(&second)));
            within(&other, || assert!(is_within(&first) && is_within(&second)));
            assert!(is_within(&first) && !is_within(&second));
            std::thread::scope(|scope| scope.spawn(|| assert!(!is_within(&first))).join().unwrap());
        });
        let panicked = std::panic::catch_unwind(|| within(&one, || panic!("of the test")));
        assert!(panicked.is_err() && !is_within(&first));
    }
}
