//! Panics of callbacks and threads as errors.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work`; a panic becomes an error with the panic's message.
pub fn catch_panic<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    if cfg!(esker_shuttle) {
        // The scheduler must see each panic, and it ends threads by its own panics.
        return Ok(work());
    }
    let message = |cause: Box<dyn Any + Send>| {
        let text = cause.downcast_ref::<&str>().copied();
        let text = text.or_else(|| cause.downcast_ref::<String>().map(String::as_str));
        text.unwrap_or("the panic has no message").to_string()
    };
    catch_unwind(AssertUnwindSafe(work)).map_err(message)
}
