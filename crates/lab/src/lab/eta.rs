//! The line before each round: its number, the total number of rounds, and the estimated time left.

use std::time::Duration;

use indicatif::HumanDuration;

use crate::experiment::check::Experiment;
use crate::experiment::plan::Point;

/// Counts rounds and estimates the time left from the completed rounds, by their number of pairs.
pub struct Eta {
    rounds: usize,
    begun: usize,
    weight_left: f64,
    weight_done: f64,
    seconds_done: f64,
}

fn weight(point: &Point) -> f64 {
    // A round has a fixed cost besides the cost of its pairs.
    point.entries as f64 * point.threads as f64 + 2000.0
}

impl Eta {
    /// Creates an estimate for all rounds of `points` with available engines.
    pub fn new(points: &[Point], runs: impl Fn(&str) -> bool) -> Eta {
        let mut eta =
            Eta { rounds: 0, begun: 0, weight_left: 0.0, weight_done: 0.0, seconds_done: 0.0 };
        for point in points {
            let rounds = point.engines.iter().filter(|name| runs(name)).count() * point.repetitions;
            eta.rounds += rounds;
            eta.weight_left += rounds as f64 * weight(point);
        }
        eta
    }

    /// Counts a round that was already measured.
    pub fn skip(&mut self, point: &Point) {
        self.begun += 1;
        self.weight_left -= weight(point);
    }

    /// Counts a completed round.
    pub fn done(&mut self, point: &Point, _engine: &str, seconds: f64) {
        self.weight_left -= weight(point);
        self.weight_done += weight(point);
        self.seconds_done += seconds;
    }

    /// Returns the line for the round that starts now.
    pub fn line(
        &mut self,
        experiment: &Experiment,
        point: &Point,
        engine: &str,
        repetition: usize,
    ) -> String {
        self.begun += 1;
        let run = |name: &String, value: &String| {
            let run = point.params_run.iter().find(|(own, _)| own == name);
            run.map_or(value.clone(), |(_, run)| format!("{run} (full size {value})"))
        };
        let params: Vec<String> = point
            .params
            .iter()
            .map(|(name, value)| format!("{name}={}", run(name, value)))
            .collect();
        let left = if self.weight_done > 0.0 {
            let seconds = self.seconds_done / self.weight_done * self.weight_left.max(0.0);
            format!(", about {} left", HumanDuration(Duration::from_secs_f64(seconds)))
        } else {
            String::new()
        };
        format!(
            "round {} of {}{left}: {} {}, {engine}, repetition {}",
            self.begun,
            self.rounds,
            experiment.series(point.series).name,
            params.join(" "),
            repetition + 1
        )
    }
}
