//! Failures as RocksDB's status texts, and refusals of what Esker does not have.
//!
//! Invariants:
//! 1. An error text has RocksDB's format `Kind: message` and is allocated with `malloc`. It replaces
//!    and frees an earlier text in the same place.
//! 2. A refused call that cannot report an error makes the next call of the same thread that can
//!    report one fail with its message. So no refused call passes for a success.
//! 3. No panic unwinds into C.

use std::cell::{Cell, RefCell};
use std::ffi::c_char;

use esker_c::failure::{
    ESKER_BUSY, ESKER_CLOSED, ESKER_CONFLICT, ESKER_CORRUPTION, ESKER_DEADLOCK, ESKER_INCOMPATIBLE,
    ESKER_INVALID_ARGUMENT, ESKER_LOCKED, ESKER_NOT_FOUND, Failure, Outcome, attempt,
};
use esker_c::ffi;

/// Code of a refusal: Esker does not have what was called for. The other codes are those of
/// `esker_c::failure`.
pub const NOT_IMPLEMENTED: i32 = 100;

/// Code of a transaction that was used after its expiration.
pub const EXPIRED: i32 = 101;

/// Code of a read of merge operands without the value that they are merged into.
pub const MERGE_IN_PROGRESS: i32 = 102;

thread_local! {
    static HAS_PENDING: Cell<bool> = const { Cell::new(false) };
    static PENDING: RefCell<Option<Failure>> = const { RefCell::new(None) };
}

/// Returns the failure of a refused function.
pub fn refusal(function: &str, why: &str) -> Failure {
    Failure { code: NOT_IMPLEMENTED, message: format!("{function}: {why}") }
}

/// Returns the failure of a write to a store that was opened read-only.
pub fn read_only() -> Failure {
    Failure {
        code: NOT_IMPLEMENTED,
        message: "Not supported operation in read only mode.".to_string(),
    }
}

/// Keeps a refusal for the next call of this thread that reports errors. The first one is kept.
pub fn pend(failure: Failure) {
    HAS_PENDING.set(true);
    PENDING.with_borrow_mut(|pending| {
        pending.get_or_insert(failure);
    });
}

#[cold]
fn take_pending() -> Option<Failure> {
    HAS_PENDING.set(false);
    PENDING.with_borrow_mut(Option::take)
}

/// Runs `body`, unless an earlier call of this thread was refused: the refusal is then its failure.
/// For calls that report failures elsewhere than in one `errptr`.
#[inline]
pub fn unless_refused<T>(body: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    if HAS_PENDING.get()
        && let Some(failure) = take_pending()
    {
        return Err(failure);
    }
    attempt(body)
}

/// Runs `body` and returns its value, or reports its failure in `errptr`.
///
/// # Safety
/// As for [`ffi::report`].
#[inline]
pub unsafe fn kept<T>(
    errptr: Option<&mut *mut c_char>,
    body: impl FnOnce() -> Outcome<T>,
) -> Option<T> {
    match unless_refused(body) {
        Ok(value) => Some(value),
        Err(failure) => {
            // SAFETY: guaranteed by the caller.
            unsafe { ffi::report(errptr, &text_of(&failure)) };
            None
        }
    }
}

/// Runs `body` of a function that cannot report an error. A failure is kept for the next call that
/// can report it.
pub fn quiet<T>(body: impl FnOnce() -> Outcome<T>) -> Option<T> {
    match attempt(body) {
        Ok(value) => Some(value),
        Err(failure) => {
            pend(failure);
            None
        }
    }
}

/// Returns the failure as the text of a RocksDB status.
pub fn text_of(failure: &Failure) -> String {
    let kind = match failure.code {
        ESKER_CORRUPTION => "Corruption",
        ESKER_INVALID_ARGUMENT | ESKER_INCOMPATIBLE => "Invalid argument",
        ESKER_NOT_FOUND => "NotFound",
        ESKER_CONFLICT | ESKER_DEADLOCK => "Resource busy",
        ESKER_BUSY => "Operation timed out: Timeout waiting to lock key",
        ESKER_LOCKED => {
            let (open, lock) = (": the store is open", "/LOCK: the store is open");
            return format!("IO error: {}", failure.message.replacen(open, lock, 1));
        }
        ESKER_CLOSED => "Shutdown in progress",
        NOT_IMPLEMENTED => "Not implemented",
        EXPIRED => "Operation expired",
        MERGE_IN_PROGRESS => "Merge in progress",
        _ => "IO error",
    };
    format!("{kind}: {}", failure.message)
}

/// Returns `outcome` with a missing store reported as an invalid argument, as RocksDB does.
pub fn missing_is_invalid<T>(outcome: Outcome<T>) -> Outcome<T> {
    outcome.map_err(|failure| match failure.code {
        ESKER_NOT_FOUND => Failure { code: ESKER_INVALID_ARGUMENT, ..failure },
        _ => failure,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pending_refusal_fails_the_next_call_once() {
        pend(refusal("rocksdb_x", "Esker has no x"));
        pend(refusal("rocksdb_y", "Esker has no y"));
        let failed = unless_refused(|| Ok(())).unwrap_err();
        assert_eq!(text_of(&failed), "Not implemented: rocksdb_x: Esker has no x");
        assert!(unless_refused(|| Ok(())).is_ok());
    }

    #[test]
    fn a_panic_is_a_failure() {
        let failed = unless_refused(|| -> Outcome<()> { panic!("of the test") }).unwrap_err();
        assert!(text_of(&failed).starts_with("IO error: a defect in Esker"));
    }

    #[test]
    fn a_quiet_failure_is_reported_later() {
        assert!(quiet(|| Err::<(), _>(Failure::invalid("bad"))).is_none());
        assert_eq!(text_of(&unless_refused(|| Ok(())).unwrap_err()), "Invalid argument: bad");
    }
}
