//! The counts of this thread's calls (`esker::perf`), for languages in which a part of a program that
//! counts calls another one that does so, too.
//!
//! Invariants:
//! 1. Each part gets the counts of what happened since it began or last took its counts, also of what
//!    happened within inner parts, whatever these took.
//! 2. The engine counts while there is a part.

use std::cell::RefCell;

use esker::internals::add_perf_context;
use esker::perf::{self, PerfContext};

thread_local! {
    /// The counts that each part has not taken yet, the innermost last, but not those that the engine
    /// still has.
    static PARTS: RefCell<Vec<PerfContext>> = const { RefCell::new(Vec::new()) };
}

/// Moves the counts that the engine has to all parts.
fn share(parts: &mut [PerfContext]) {
    let new = PerfContext::take();
    parts.iter_mut().for_each(|part| add_perf_context(part, &new));
}

/// Passes the parts of this thread to a function. Returns the default at the end of the thread, when its
/// parts have been freed: C's destructors of the thread may call later.
fn with_parts<R: Default>(body: impl FnOnce(&mut Vec<PerfContext>) -> R) -> R {
    PARTS.try_with(|parts| body(&mut parts.borrow_mut())).unwrap_or_default()
}

/// Begins a part, with counts of 0.
pub fn begin() {
    with_parts(|parts| {
        match parts.is_empty() {
            true => perf::enable(true),
            false => share(parts),
        }
        parts.push(PerfContext::default());
    });
}

/// Ends the innermost part. Does nothing if there is none.
pub fn end() {
    with_parts(|parts| {
        share(parts);
        if parts.pop().is_some() && parts.is_empty() {
            perf::enable(false);
        }
    });
}

/// Returns the counts of the innermost part, and sets them to 0. All are 0 if there is none.
pub fn take() -> PerfContext {
    with_parts(|parts| {
        share(parts);
        parts.last_mut().map(std::mem::take).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use esker::fs::MemFs;
    use esker::{Db, Options};

    use super::*;

    #[test]
    fn inner_parts_take_no_counts_from_outer_ones() {
        let db = Db::open_on(MemFs::new(), "/db", Options::default()).unwrap();
        let gets = |count| (0..count).for_each(|_| assert!(db.get("none").unwrap().is_none()));
        end();
        gets(1);
        assert_eq!(take().gets, 0);
        begin();
        gets(2);
        begin();
        gets(4);
        assert_eq!(take().gets, 4);
        begin();
        gets(8);
        assert_eq!((take().gets, take().gets), (8, 0));
        gets(16);
        end();
        assert_eq!(take().gets, 24);
        gets(32);
        end();
        gets(64);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                gets(1);
                assert_eq!(take().gets, 0);
            });
        });
        assert_eq!((take().gets, take().gets), (126, 0));
        end();
        gets(1);
        assert_eq!(take().gets, 0);
    }
}
