//! The tuner: finds the options of an engine that are fastest for given workloads, and explains
//! them.
//!
//! `knob` has the search space, and `runner` runs the workloads with a set of options. `driver`
//! decides which sets run, `tuner` runs them in rounds, and `decide` has the decisions as functions
//! of measurements. `trail` keeps every run.
//!
//! Invariants:
//! 1. A set is judged only by its ratio to another set that ran in the same round.
//! 2. The rounds that choose the finalists are not the rounds that judge them.
//! 3. A recommended set is faster than the default set with its whole interval, and on no workload
//!    below [`decide::GUARD`] of it.
//! 4. Every run is in the trail before the next one starts. A resumed tuning repeats no run.
//! 5. The order of the runs follows from the seed and the measurements alone.

pub mod constraint;
pub mod curve;
pub mod decide;
pub mod driver;
mod experiment;
mod explain;
pub mod knob;
pub mod measures;
pub mod named;
pub mod outcome;
pub mod paired;
pub mod runner;
mod schedule;
mod search;
#[cfg(test)]
mod tests;
pub mod trail;
pub mod tuner;
pub mod workload;
