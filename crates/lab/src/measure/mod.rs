//! Measures: latency histograms, and what the operating system counts for this process.

pub mod clock;
pub mod counters;
pub mod histogram;
pub mod host;
pub mod idle;
pub mod limit;
pub mod quiet;
pub mod timeline;
