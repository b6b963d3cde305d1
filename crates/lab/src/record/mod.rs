//! Records: what a run was, on which machine, and every raw sample, one versioned file a run.

pub mod env;
pub mod lab;
pub mod schema;
pub mod store;
