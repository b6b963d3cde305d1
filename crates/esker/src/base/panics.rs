//! Panics of callbacks and threads as errors.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::panic_text;

/// Runs `work`; a panic becomes an error with the panic's message.
pub fn catch_panic<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    if cfg!(esker_shuttle) {
        // The scheduler must see each panic, and it ends threads by its own panics.
        return Ok(work());
    }
    catch_unwind(AssertUnwindSafe(work)).map_err(|cause| panic_text(&*cause).to_string())
}
