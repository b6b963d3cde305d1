//! Experiments: TOML files that say which engines, options, workloads, sizes, threads and
//! repetitions are measured, and what each workload must produce.
//!
//! `file` is the text's shape, `check` explains mistakes by line, `plan` multiplies everything out
//! into points. Nothing is run here.

pub mod check;
pub mod expect;
pub mod file;
pub mod find;
pub mod mixed;
pub mod plan;
pub mod reported;

pub use check::{Experiment, Mistake};
pub use plan::{Point, Scale};
