//! Errors of the engine as errors of JavaScript.
//!
//! Invariant: the text of an error has four fields, separated by [`SEPARATOR`]: the kind, the number
//! of the operating system's error or nothing, the path or nothing, and the message.
//! `lib/errors.js` makes an `Error` with a `code` of them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use esker::{ErrorKind, internals};
use napi::Status;

/// Separates the fields of an error's text. No message contains it.
const SEPARATOR: char = '\u{1f}';

/// Converts an error of the engine.
fn failure(error: &esker::Error) -> napi::Error {
    let number = error.raw_os_error().map_or(String::new(), |number| number.to_string());
    let path = error.path().map_or(String::new(), |path| path.display().to_string());
    let fields = [error.kind().name().to_string(), number, path, error.to_string()];
    napi::Error::new(Status::GenericFailure, fields.join(&SEPARATOR.to_string()))
}

/// Runs `work` and converts its error. A panic is an error too, because it must not cross into
/// JavaScript.
pub fn caught<R>(work: impl FnOnce() -> esker::Result<R>) -> napi::Result<R> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(|error| failure(&error)),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().copied();
            let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            let message = format!(
                "Esker panicked: {}. This is a defect in Esker; please report it",
                text.unwrap_or("no message")
            );
            let fields = ["internal", "", "", &message];
            Err(napi::Error::new(Status::GenericFailure, fields.join(&SEPARATOR.to_string())))
        }
    }
}

/// Returns an error of the kind `InvalidArgument`.
pub fn invalid(message: impl Into<String>) -> esker::Error {
    internals::error(ErrorKind::InvalidArgument, message, None)
}

/// Returns an error of the kind `Closed`.
pub fn closed(what: &str) -> esker::Error {
    internals::error(ErrorKind::Closed, format!("the {what} is closed"), None)
}
