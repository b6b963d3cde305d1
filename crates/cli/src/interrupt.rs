//! Ctrl-C handling. The first Ctrl-C asks a long command to stop between two steps, and the second
//! ends it at once. In a session Ctrl-C stops the command but not the session.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use esker_lab::record::store::pause_writing;
use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;

use crate::failure::{Failure, INTERRUPTED, json_asked, print_line, print_note};

/// Time after which another Ctrl-C in a session ends the session, if the command has not stopped.
const PATIENCE: Duration = Duration::from_secs(2);

static ASKED: AtomicBool = AtomicBool::new(false);

/// Installs the handler: the first Ctrl-C or termination signal sets a flag, the second exits.
pub fn watch() {
    // Without a handler Ctrl-C ends the process by default, and nothing is lost by that.
    let _ = ctrlc::set_handler(|| {
        if ASKED.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(INTERRUPTED));
        }
    });
}

/// Installs the handler of a session: Ctrl-C asks the current command to stop. Other signals end
/// the process by default.
///
/// # Errors
/// The operating system refuses the handler or the thread. Ctrl-C ends the process then.
pub fn watch_session() -> io::Result<()> {
    let mut signals = Signals::new([SIGINT])?;
    let wait = move || {
        let mut first = Instant::now();
        for _ in signals.forever() {
            if !ASKED.swap(true, Ordering::Relaxed) {
                first = Instant::now();
            } else if first.elapsed() >= PATIENCE {
                print_line("esker: interrupted; the command did not stop, so the session ends");
                std::process::exit(i32::from(INTERRUPTED));
            }
        }
    };
    std::thread::Builder::new().name("esker-interrupt".into()).spawn(wait).map(drop)
}

/// Clears a Ctrl-C that was meant for an earlier command.
pub fn begin_command() {
    ASKED.store(false, Ordering::Relaxed);
}

/// Simulates Ctrl-C in a session.
#[cfg(test)]
pub fn press() {
    ASKED.store(true, Ordering::Relaxed);
}

/// Installs a handler: Ctrl-C runs `exit_message`, waits for a record write in progress, and exits.
pub fn exit_after(exit_message: impl Fn() + Send + 'static) {
    let _ = ctrlc::set_handler(move || {
        Failure::interrupted("interrupted").report(json_asked());
        exit_message();
        let _whole = pause_writing();
        std::process::exit(i32::from(INTERRUPTED));
    });
}

/// Installs a handler: the first Ctrl-C sets a flag and says so, and the second does what
/// [`exit_after`] does.
pub fn watch_or_exit(exit_message: impl Fn() + Send + 'static) {
    let _ = ctrlc::set_handler(move || {
        if !ASKED.swap(true, Ordering::Relaxed) {
            let line = "esker: ends after the current run; Ctrl-C again ends at once";
            print_note(json_asked(), line);
            return;
        }
        Failure::interrupted("interrupted").report(json_asked());
        exit_message();
        let _whole = pause_writing();
        std::process::exit(i32::from(INTERRUPTED));
    });
}

/// Returns whether Ctrl-C was pressed since [`watch`], or in a session since [`begin_command`].
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Fails if the command was asked to stop.
pub fn check() -> Result<(), Failure> {
    if asked() { Err(Failure::interrupted("the command was interrupted")) } else { Ok(()) }
}
