//! Layer 4: how a write becomes durable and visible. `batch.rs` collects operations, `commit.rs`
//! groups writers, `core.rs` logs and applies what a group or one of them brings, `rivals.rs`
//! says for how many of them a sync waits, `pressure.rs` decides how much a writer is slowed.

pub mod batch;
pub mod commit;
pub mod core;
pub mod hints;
pub mod pressure;
pub mod rivals;
