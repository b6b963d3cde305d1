//! Mixed workloads: YCSB's, and phases made of the same parts.
//!
//! A phase is operations in given shares over records chosen by a distribution. What is done is
//! drawn before the clock starts, eight bytes an operation; keys and values are written out a stretch
//! at a time, while the clock stands. Every read is checked: a record must hold the value it had before the
//! phase or the one the phase writes.

pub mod draw;
pub mod generators;
pub mod hash;
pub mod phase;
pub mod prepared;
pub mod session;
pub mod space;
pub mod state;
pub mod work;
pub mod ycsb;
