//! Progress bar on stderr with rate and time left, shown only on a terminal and after a second.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

const PATIENCE: Duration = Duration::from_secs(1);
const BYTES: &str = "{msg} [{bar:30}] {binary_bytes}/{binary_total_bytes} \
                     {binary_bytes_per_sec}{left}";
const BYTES_OPEN_END: &str = "{msg} {spinner} {binary_bytes} {binary_bytes_per_sec}";
const ITEMS_OPEN_END: &str = "{msg} {spinner} {human_pos} pairs, {per_sec}";

/// Writes the time left, if any progress allows an estimate.
fn write_left(state: &ProgressState, out: &mut dyn std::fmt::Write) {
    if state.pos() > 0 {
        // The bar is informational, so write errors are ignored.
        let _ = write!(out, ", {:#} left", HumanDuration(state.eta()));
    }
}

/// Unit of a bar's numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// Bytes.
    Bytes,
    /// Pairs.
    Pairs,
}

/// Progress bar, possibly never shown.
pub struct Progress {
    bar: Option<ProgressBar>,
    started: Instant,
    shown: bool,
}

impl Progress {
    /// Creates a bar labeled `what`, up to `total` if known.
    pub fn new(what: &'static str, total: Option<u64>, count: Count) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = match total {
                Some(total) => ProgressBar::new(total),
                None => ProgressBar::no_length(),
            };
            let template = match (total, count) {
                (_, Count::Pairs) => ITEMS_OPEN_END,
                (Some(_), Count::Bytes) => BYTES,
                (None, Count::Bytes) => BYTES_OPEN_END,
            };
            bar.set_draw_target(ProgressDrawTarget::hidden());
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style.progress_chars("=> ").with_key("left", write_left));
            }
            bar.set_message(what);
            bar
        });
        Progress { bar, started: Instant::now(), shown: false }
    }

    /// Moves the bar to `done`.
    pub fn set(&mut self, done: u64) {
        let Some(bar) = &self.bar else { return };
        if !self.shown && self.started.elapsed() >= PATIENCE {
            bar.set_draw_target(ProgressDrawTarget::stderr());
            self.shown = true;
        }
        bar.set_position(done);
    }

    /// Moves the bar to `done` of `total`.
    pub fn set_of(&mut self, done: u64, total: u64) {
        if let Some(bar) = &self.bar {
            bar.set_length(total);
        }
        self.set(done);
    }

    /// Runs `write`, which writes to stderr, with the bar suspended.
    pub fn suspended(&self, write: impl FnOnce()) {
        match &self.bar {
            Some(bar) if self.shown => bar.suspend(write),
            _ => write(),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
