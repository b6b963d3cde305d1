//! Failures in the C interface: a code for programs and a message for people.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use esker::{Error, ErrorKind};

/// Success.
pub const ESKER_OK: i32 = 0;
/// An argument is invalid; nothing was changed.
pub const ESKER_INVALID_ARGUMENT: i32 = 1;
/// Bytes on disk differ from the bytes written; they were not returned.
pub const ESKER_CORRUPTION: i32 = 2;
/// The operating system refused an operation.
pub const ESKER_IO: i32 = 3;
/// The device or a quota is full; no acknowledged write is lost.
pub const ESKER_NO_SPACE: i32 = 4;
/// Another process or handle has the store open.
pub const ESKER_LOCKED: i32 = 5;
/// The directory has another format, version or key order, or belongs to another program.
pub const ESKER_INCOMPATIBLE: i32 = 6;
/// The store accepts no writes: it was opened read-only, or an earlier WAL sync failed.
pub const ESKER_READ_ONLY: i32 = 7;
/// The handle was closed.
pub const ESKER_CLOSED: i32 = 8;
/// A defect in Esker; please report the message.
pub const ESKER_INTERNAL: i32 = 9;
/// The named store, keyspace or backup does not exist; nothing was changed.
pub const ESKER_NOT_FOUND: i32 = 10;
/// A transaction conflicts with another commit; nothing was written. Run the transaction again.
pub const ESKER_CONFLICT: i32 = 11;
/// A wait for a lock, or of a write for memory, ended at its deadline; nothing was written.
pub const ESKER_BUSY: i32 = 12;
/// Transactions wait for each other's locks; nothing was written. Run the transaction again.
pub const ESKER_DEADLOCK: i32 = 13;

/// A code other than [`ESKER_OK`], and its message.
#[derive(Debug, Clone)]
pub struct Failure {
    /// One of the codes above.
    pub code: i32,
    /// Description of the failure, in one sentence.
    pub message: String,
}

/// Result of a function before its conversion to C.
pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// Creates a failure for an invalid argument.
    pub fn invalid(message: impl Into<String>) -> Failure {
        Failure { code: ESKER_INVALID_ARGUMENT, message: message.into() }
    }

    fn of_panic(panic: &(dyn Any + Send)) -> Failure {
        let text = panic
            .downcast_ref::<&str>()
            .map(ToString::to_string)
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        Failure { code: ESKER_INTERNAL, message: format!("a defect in Esker: {text}") }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { code: code_of(error.kind()), message: error.to_string() }
    }
}

pub(crate) fn code_of(kind: ErrorKind) -> i32 {
    match kind {
        ErrorKind::InvalidArgument => ESKER_INVALID_ARGUMENT,
        ErrorKind::NotFound => ESKER_NOT_FOUND,
        ErrorKind::Corruption => ESKER_CORRUPTION,
        ErrorKind::Io => ESKER_IO,
        ErrorKind::NoSpace => ESKER_NO_SPACE,
        ErrorKind::Locked => ESKER_LOCKED,
        ErrorKind::Incompatible => ESKER_INCOMPATIBLE,
        ErrorKind::ReadOnly => ESKER_READ_ONLY,
        ErrorKind::Closed => ESKER_CLOSED,
        ErrorKind::Conflict => ESKER_CONFLICT,
        ErrorKind::Busy => ESKER_BUSY,
        ErrorKind::Deadlock => ESKER_DEADLOCK,
        _ => ESKER_INTERNAL,
    }
}

/// Runs `body`. Converts a panic to a failure, so that it does not unwind into C.
pub fn attempt<T>(body: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(Failure::of_panic(&*panic)))
}

/// Returns the object of a handle, or a failure if the handle is null.
pub fn there<T>(handle: Option<T>, what: &str) -> Outcome<T> {
    handle.ok_or_else(|| Failure::invalid(format!("the {what} is NULL")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_codes_match_documentation() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md");
        let page = std::fs::read_to_string(page).unwrap();
        let row = |name: &str, code: i32| {
            let constant = format!("ESKER_{} {code}", name.to_uppercase().replace([' ', '-'], "_"));
            let constant = constant.replace("I/O", "IO");
            let row = page.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
            let row = row.unwrap_or_else(|| panic!("docs/errors.md has no row for {name}"));
            assert!(row.contains(&format!("`{constant}`")), "{row} lacks {constant}");
        };
        for kind in ErrorKind::ALL {
            assert_ne!(code_of(*kind), ESKER_INTERNAL, "{kind:?} has no code");
            row(kind.name(), code_of(*kind));
        }
        row("internal", ESKER_INTERNAL);
    }
}
