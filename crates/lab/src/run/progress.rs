//! The live line of a run: which engine, which task, how far, how fast, how long still.
//!
//! Nothing is drawn unless asked for; a hidden line costs one branch every few thousand
//! operations.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// Operations between two looks at the line.
pub const TICK_OPERATIONS: usize = 4096;

fn write_rate(state: &ProgressState, out: &mut dyn std::fmt::Write) {
    // The line is only talk: what cannot be written is left out.
    let _ = write!(out, "{:.0}/s", state.per_sec());
}

/// The time left, once some operations say how long one takes.
fn write_left(state: &ProgressState, out: &mut dyn std::fmt::Write) {
    if let Some(text) = left_text(state.pos(), state.eta()) {
        let _ = write!(out, "{text}");
    }
}

/// `3s left`; nothing before the first operation is counted.
fn left_text(done: u64, left: Duration) -> Option<String> {
    (done > 0).then(|| format!("{:#} left", indicatif::HumanDuration(left)))
}

/// The line of one task.
#[derive(Clone, Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// A line for `total` operations, drawn on stderr if `shown`.
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

    /// Adds `operations` done.
    #[inline]
    pub fn add(&self, operations: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(operations);
        }
    }

    /// Takes the line away.
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
    fn no_time_is_left_before_an_operation_is_counted() {
        assert_eq!(left_text(0, Duration::ZERO), None);
        assert_eq!(left_text(4096, Duration::from_secs(75)).as_deref(), Some("75s left"));
    }
}
