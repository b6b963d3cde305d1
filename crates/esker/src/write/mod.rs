//! Layer 4: how a write becomes durable and visible. `batch.rs` collects operations, `commit.rs`
//! groups writers, logs and applies, `rivals.rs` says for how many
//! of them a sync waits, `pressure.rs` decides how much a writer is slowed.

pub mod batch;
pub mod commit;
pub mod hints;
pub mod pressure;
pub mod rivals;
