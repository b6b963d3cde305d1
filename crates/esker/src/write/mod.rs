//! Layer 4: how a write becomes durable and visible. `batch.rs` collects operations, `commit.rs`
//! groups writers, logs and applies, `pressure.rs` decides how much a writer is slowed.

pub mod batch;
pub mod commit;
pub mod hints;
pub mod pressure;
