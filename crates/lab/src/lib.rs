//! The lab: workload → run → measure → record, and record → statistics → report.
//!
//! The lab measures ordered key-value stores behind one trait, [`target::Engine`], and knows no
//! engine by name.
//!
//! Invariants:
//! 1. Data is prepared before the clock starts.
//! 2. Every read is checked against the written data.
//! 3. One engine is open at a time.
//! 4. Every raw sample is kept in the record.
//! 5. `stats` and `report` never run a workload, so a page can be redrawn from a record.

pub mod bench;
pub mod error;
pub mod experiment;
pub mod lab;
pub mod measure;
pub mod mix;
pub mod preset;
pub mod record;
pub mod reference;
pub mod report;
pub mod run;
pub mod stats;
pub mod target;
pub mod trace;
pub mod tune;
pub mod workload;

pub use error::{LabError, LabErrorKind, Result};
pub use run::config::BenchConfig;
