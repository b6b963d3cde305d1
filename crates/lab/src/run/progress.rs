//! The progress line of a run: engine, task, progress, rate and time left.
//!
//! Nothing is drawn unless requested. A hidden line costs one branch every few thousand operations.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// Number of operations between two updates of the line.
pub const TICK_OPERATIONS: usize = 4096;

fn write_rate(state: &ProgressState, out: &mut dyn std::fmt::Write) {
    // The line is informational, so write errors are ignored.
    let _ = write!(out, "{:.0}/s", state.per_sec());
}

/// Writes the time left, once an estimate is possible.
fn write_left(state: &ProgressState, out: &mut dyn std::fmt::Write) {
    if let Some(text) = left_text(state.pos(), state.eta()) {
        let _ = write!(out, "{text}");
    }
}

/// Formats `3s left`; `None` before the first operation is counted.
fn left_text(done: u64, left: Duration) -> Option<String> {
    (done > 0).then(|| format!("{:#} left", indicatif::HumanDuration(left)))
}

/// Progress line of one task.
#[derive(Clone, Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Creates a line for `total` operations, drawn on stderr if `shown`.
    pub fn new(shown: bool, title: &str, total: u64) -> Progress {
        if !shown {
            return Progress { bar: None };
        }
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(5));
        let template = "{msg} {bar:24} {human_pos}/{human_len}  {rate}  {left}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.with_key("rate", write_rate).with_key("left", write_left));
        }
        bar.set_message(title.to_string());
        bar.enable_steady_tick(Duration::from_millis(500));
        Progress { bar: Some(bar) }
    }

    /// Adds completed operations.
    #[inline]
    pub fn add(&self, operations: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(operations);
        }
    }

    /// Removes the line.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_estimate_before_first_operation() {
        assert_eq!(left_text(0, Duration::ZERO), None);
        assert_eq!(left_text(4096, Duration::from_secs(75)).as_deref(), Some("75s left"));
    }
}
