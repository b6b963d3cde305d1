//! Failures as C sees them: a number to branch on and a sentence to show.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use esker::{Error, ErrorKind};

/// The call did what it says.
pub const ESKER_OK: i32 = 0;
/// The caller passed something the store cannot take; nothing was changed.
pub const ESKER_INVALID_ARGUMENT: i32 = 1;
/// Bytes on disk are not what was written; they were not served.
pub const ESKER_CORRUPTION: i32 = 2;
/// The operating system refused an operation.
pub const ESKER_IO: i32 = 3;
/// The device or a quota is full; nothing that was acknowledged is lost.
pub const ESKER_NO_SPACE: i32 = 4;
/// Another process or handle has the store open.
pub const ESKER_LOCKED: i32 = 5;
/// The directory is of another format, version or key order, or another program's.
pub const ESKER_INCOMPATIBLE: i32 = 6;
/// The store takes no writes: it was opened so, or a log sync failed earlier.
pub const ESKER_READ_ONLY: i32 = 7;
/// The handle was closed.
pub const ESKER_CLOSED: i32 = 8;
/// A defect in Esker itself; please report the sentence.
pub const ESKER_INTERNAL: i32 = 9;
/// The store or backup that was named is not there; nothing was changed.
pub const ESKER_NOT_FOUND: i32 = 10;

/// A code that is not [`ESKER_OK`], and the sentence.
#[derive(Debug, Clone)]
pub struct Failure {
    /// One of the codes above.
    pub code: i32,
    /// What happened, in a sentence.
    pub message: String,
}

/// What every function here works out before it is turned into C.
pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// The caller's mistake.
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

fn code_of(kind: ErrorKind) -> i32 {
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
        _ => ESKER_INTERNAL,
    }
}

/// Runs `body`; a panic in it becomes a failure instead of unwinding into C.
pub fn attempt<T>(body: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(Failure::of_panic(&*panic)))
}

/// The object behind a handle, or the sentence that there is none.
pub fn there<T>(handle: Option<T>, what: &str) -> Outcome<T> {
    handle.ok_or_else(|| Failure::invalid(format!("the {what} is NULL")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_table_in_the_documentation() {
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
