//! Records: settings and machine of a benchmark and all raw samples, one versioned file per
//! benchmark.

pub mod env;
pub mod lab;
pub mod schema;
pub mod store;
