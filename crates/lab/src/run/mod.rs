//! Execution: the settings, one engine's run, the timed loops, and the order of the runs.

pub mod config;
pub mod crc;
pub mod engine_dir;
pub mod interleave;
pub mod mixgraph;
pub mod program;
pub mod progress;
pub mod queue;
pub mod reads;
pub mod session;
pub mod subprocess;
pub mod threads;
pub mod transactions;
pub mod unclosed;
pub mod work;
