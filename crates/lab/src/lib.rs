//! The lab: workload → run → measure → record, and record → statistics → report.
//!
//! It measures ordered key-value stores behind one trait, [`target::Engine`], and knows none of
//! them by name. What stays true: data is prepared before the clock starts, every read is
//! checked against what was written, one engine is open at a time, and every raw sample is kept
//! in the record. `stats` and `report` never run anything, so a page can be redrawn from a record.

pub mod bench;
pub mod error;
pub mod experiment;
pub mod lab;
pub mod measure;
pub mod mix;
pub mod record;
pub mod reference;
pub mod report;
pub mod run;
pub mod stats;
pub mod target;
pub mod workload;

pub use error::{LabError, LabErrorKind, Result};
pub use run::config::BenchConfig;
