//! Ctrl-C: the first asks a long command to stop between two steps, the second ends it at once; in
//! a session it stops the command and not the session.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use esker_lab::record::store::pause_writing;
use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;

use crate::failure::{Failure, INTERRUPTED, json_asked, say};

/// In a session a command that has not stopped for this long is ended by another Ctrl-C, with the
/// session.
const PATIENCE: Duration = Duration::from_secs(2);

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

/// From here on Ctrl-C asks the command of a session to stop. Other signals end the process as they
/// do by default.
///
/// # Errors
/// Where the operating system does not allow it: Ctrl-C ends the process then.
pub fn watch_session() -> io::Result<()> {
    let mut signals = Signals::new([SIGINT])?;
    let wait = move || {
        let mut first = Instant::now();
        for _ in signals.forever() {
            if !ASKED.swap(true, Ordering::Relaxed) {
                first = Instant::now();
            } else if first.elapsed() >= PATIENCE {
                say("esker: interrupted; the command did not stop, so the session ends");
                std::process::exit(i32::from(INTERRUPTED));
            }
        }
    };
    std::thread::Builder::new().name("esker-interrupt".into()).spawn(wait).map(drop)
}

/// Forgets a Ctrl-C that was meant for an earlier command.
pub fn begin_command() {
    ASKED.store(false, Ordering::Relaxed);
}

/// As if Ctrl-C were pressed in a session.
#[cfg(test)]
pub fn press() {
    ASKED.store(true, Ordering::Relaxed);
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

/// Whether Ctrl-C was pressed since [`watch`], or in a session since [`begin_command`].
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// The failure of a command that was asked to stop; nothing otherwise.
pub fn check() -> Result<(), Failure> {
    if asked() { Err(Failure::interrupted("the command was interrupted")) } else { Ok(()) }
}
