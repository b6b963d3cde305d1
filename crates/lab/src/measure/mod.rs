//! Measurements: latency histograms, and the operating system's counters for this process.

pub mod clock;
pub mod counters;
pub mod histogram;
pub mod host;
pub mod idle;
pub mod limit;
pub mod quiet;
pub mod space;
pub mod timeline;
