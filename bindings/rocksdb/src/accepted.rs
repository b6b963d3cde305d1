//! The accepted functions that this process has called, for the `LOG` of its stores.
//!
//! An accepted function sets something that Esker does not need. No call of one fails, so a program
//! cannot learn from its errors that it has no effect: the `LOG` says it, and `esker rocksdb-report`
//! shows it.
//!
//! Invariants:
//! 1. Each function is in the list once, in the order of the first calls.
//! 2. After its first call a function costs one relaxed load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

static CALLED: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// Number of functions in a line of the `LOG`, whose length is limited.
const LINE_FUNCTIONS_MAX: usize = 40;

/// Notes that `function` was called. `seen` is its own.
#[inline]
pub(crate) fn note(seen: &AtomicBool, function: &'static str) {
    if !seen.load(Ordering::Relaxed) {
        first(seen, function);
    }
}

#[cold]
fn first(seen: &AtomicBool, function: &'static str) {
    if !seen.swap(true, Ordering::Relaxed) {
        CALLED.lock().unwrap_or_else(PoisonError::into_inner).push(function);
    }
}

/// Returns the lines for the functions from position `from` of the list on, and the position after
/// them.
pub(crate) fn lines_from(from: usize) -> (Vec<String>, usize) {
    let called = CALLED.lock().unwrap_or_else(PoisonError::into_inner);
    let new = called.get(from..).unwrap_or_default();
    let lines = new
        .chunks(LINE_FUNCTIONS_MAX)
        .map(|part| format!("rocksdb: accepted without effect: {}", part.join(", ")));
    (lines.collect(), called.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_listed_at_its_first_call() {
        let (_, from) = lines_from(0);
        let (a, b) = (AtomicBool::new(false), AtomicBool::new(false));
        note(&a, "rocksdb_a_of_the_test");
        note(&b, "rocksdb_b_of_the_test");
        note(&a, "rocksdb_a_of_the_test");
        // Other tests of this process may call accepted functions between them.
        let text = lines_from(from).0.join("\n");
        assert!(text.starts_with("rocksdb: accepted without effect: "), "{text}");
        assert_eq!(text.matches("rocksdb_a_of_the_test").count(), 1, "{text}");
        assert!(text.find("rocksdb_a_of").unwrap() < text.find("rocksdb_b_of").unwrap(), "{text}");
    }

    #[test]
    fn a_line_of_the_longest_names_fits_the_log() {
        let table = include_str!("../functions.tsv");
        let accepted = table.lines().filter(|line| line.contains("\taccepted\t"));
        let longest = accepted.filter_map(|line| line.split('\t').next()).map(str::len).max();
        // The LOG cuts lines at 4 KiB, with the time before them.
        assert!(LINE_FUNCTIONS_MAX * (longest.unwrap() + 2) < 4000, "{longest:?}");
    }
}
