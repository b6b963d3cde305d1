//! Mixed workloads: YCSB's workloads, and phases with the same elements.
//!
//! A phase consists of operations in given shares, over records chosen by a distribution. The
//! operations are drawn before the clock starts, with eight bytes per operation. Keys and values
//! are generated one batch at a time, while the clock is stopped. Every read is checked: a record
//! must have its value from before the phase, or the value written by the phase.

pub mod draw;
pub mod generators;
pub mod hash;
pub mod mixgraph;
pub mod phase;
pub mod prepared;
pub mod session;
pub mod space;
pub mod state;
pub mod work;
pub mod ycsb;
