//! Layer 4: how a write becomes durable and visible. `batch.rs` collects operations, `commit.rs`
//! groups writers, `core.rs` logs and applies what a group or one of them brings, `turn.rs` makes
//! visible in turn what several add at once, `rivals.rs` says for how many of them a sync waits,
//! `pressure.rs` decides how much a writer is slowed.

pub mod batch;
pub mod commit;
pub mod core;
pub mod hints;
pub mod pressure;
pub mod rivals;
pub mod turn;
