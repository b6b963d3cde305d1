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
        let template = "{msg} {bar:24} {human_pos}/{human_len}  {rate}  {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.with_key("rate", write_rate));
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
