//! Experiments: TOML files with engines, options, workloads, sizes, threads, repetitions, and the
//! expected results of each workload.
//!
//! `file` defines the text's structure, `check` reports mistakes by line, and `plan` expands an
//! experiment into points. Nothing is run here.

pub mod check;
pub mod claim;
pub mod expect;
pub mod file;
pub mod find;
pub mod mixed;
pub mod plan;
pub mod program;
pub mod reported;

pub use check::{Experiment, Mistake};
pub use plan::{Point, Scale};
