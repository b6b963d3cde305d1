//! A tuning in progress: its fixed parts, its runs, and the rounds of runs.
//!
//! Every run goes through `Tuner::round`. It does not repeat a run whose result is in the trail.
//! Time is the sum of the runs' times, so that a resumed tuning counts the same time.

use std::io::Write;
use std::time::Duration;

use indicatif::HumanDuration;

use super::decide::{ROUNDS_MIN, Rounds, Terms};
use super::knob::{KnobTable, Setting};
use super::measures::{RunMeasures, Runner};
use super::trail::{Place, Trail};
use crate::bench::print_message;
use crate::error::{LabError, Result};

/// Largest number of rounds of the same sets.
const ROUNDS_MAX: usize = 12;

/// Fixed parts of a tuning.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Objective and constraints.
    pub terms: Terms,
    /// Largest number of sets that the search tries.
    pub trials: usize,
    /// Largest sum of the runs' times, in seconds.
    pub budget_seconds: f64,
    /// Seed of the search and of the operations.
    pub seed: u64,
    /// Share of writes in the workloads, from 0 to 1.
    pub write_share: f64,
    /// Named sets to measure in the same rounds as the finalists.
    pub beside: Vec<(String, Setting)>,
    /// Whether the search is a Latin hypercube of `trials` sets.
    pub sweep: bool,
}

/// A tuning in progress.
pub struct Tuner<'a> {
    /// The engine's knobs.
    pub table: &'a KnobTable,
    /// Fixed parts.
    pub plan: &'a Plan,
    /// Runs the workloads.
    pub runner: &'a mut dyn Runner,
    /// Known runs, and the place of new ones.
    pub trail: &'a mut Trail,
    /// Returns whether the tuning shall end after the current run.
    pub stop: &'a dyn Fn() -> bool,
    /// Receives progress.
    pub messages: &'a mut dyn Write,
    /// Sum of the runs' times so far, in seconds.
    pub seconds: f64,
    /// Number of runs so far.
    pub runs: usize,
    /// Whether `stop` ended the tuning.
    pub interrupted: bool,
}

impl Tuner<'_> {
    /// Runs each set once, in an order that rotates from round to round. Returns `None` if the
    /// tuning shall end.
    pub(super) fn round(
        &mut self,
        (stage, round): (&str, usize),
        sets: &[Setting],
        share: f64,
    ) -> Option<Vec<RunMeasures>> {
        let mut runs: Vec<RunMeasures> = vec![RunMeasures::default(); sets.len()];
        for step in 0..sets.len() {
            let set = (step + round) % sets.len();
            let setting = &sets[set];
            let place = Place { stage: stage.into(), round, set };
            let run = match self.trail.known(&place, setting, share) {
                Some(run) => run.clone(),
                None => {
                    if (self.stop)() {
                        self.interrupted = true;
                        return None;
                    }
                    self.announce(stage, round, setting);
                    let run = self.runner.run(setting, share, round);
                    if let Some(message) = self.trail.add(place, setting, share, &run) {
                        print_message(self.messages, &message);
                    }
                    run
                }
            };
            self.seconds += run.seconds;
            self.runs += 1;
            if let Some(error) = &run.error {
                print_message(self.messages, &format!("{setting}: {error}"));
            }
            runs[set] = run;
        }
        Some(runs)
    }

    fn announce(&mut self, stage: &str, round: usize, setting: &Setting) {
        let text = |seconds: f64| HumanDuration(Duration::from_secs_f64(seconds.max(0.0)));
        let left = self.plan.budget_seconds - self.seconds;
        let line = format!(
            "{stage} {}, {} used, at most {} left: {setting}",
            round + 1,
            text(self.seconds),
            text(left)
        );
        print_message(self.messages, &line);
    }

    /// Returns an error if the default set's run failed.
    pub(super) fn default_ran(&self, run: &RunMeasures) -> Result<()> {
        let Some(error) = &run.error else { return Ok(()) };
        let kept = match self.trail.path() {
            Some(path) => format!("; the runs so far are in {}", path.display()),
            None => String::new(),
        };
        Err(LabError::engine(format!("the default set fails: {error}{kept}")))
    }

    /// Adds rounds until every interval is narrow, or until `end`, but at least as many as a
    /// recommendation needs.
    pub(super) fn rounds(
        &mut self,
        stage: &str,
        rounds: &mut Rounds,
        share: f64,
        end: f64,
    ) -> Result<()> {
        let sets = rounds.sets.clone();
        for round in 0..ROUNDS_MAX {
            let is_needed = round < ROUNDS_MIN;
            if !is_needed && (self.seconds >= end || rounds.is_precise(&self.plan.terms)) {
                break;
            }
            let Some(runs) = self.round((stage, round), &sets, share) else { break };
            if sets[0].is_default() {
                self.default_ran(&runs[0])?;
            }
            rounds.push(runs);
        }
        Ok(())
    }
}
