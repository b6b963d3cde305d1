//! Ctrl-C: the first asks a long command to stop between two steps, the second ends it at once.

use std::sync::atomic::{AtomicBool, Ordering};

use esker_lab::record::store::pause_writing;

use crate::failure::{Failure, INTERRUPTED, json_asked};

static ASKED: AtomicBool = AtomicBool::new(false);

/// From here on Ctrl-C (or a termination signal) only sets a flag; a second one exits.
pub fn watch() {
    // Without a handler Ctrl-C ends the process as it does by default: nothing is lost by that.
    let _ = ctrlc::set_handler(|| {
        if ASKED.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(INTERRUPTED));
        }
    });
}

/// From here on Ctrl-C runs `farewell` and exits, when a record that is being written is whole.
pub fn exit_after(farewell: impl Fn() + Send + 'static) {
    let _ = ctrlc::set_handler(move || {
        Failure::interrupted("interrupted").report(json_asked());
        farewell();
        let _whole = pause_writing();
        std::process::exit(i32::from(INTERRUPTED));
    });
}

/// Whether Ctrl-C was pressed since [`watch`].
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
