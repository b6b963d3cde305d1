//! Layer 4: the write path. `batch.rs` collects operations, `commit.rs` does group commit,
//! `request.rs` has the queue of waiting writers, `writer_state.rs` logs and applies the operations
//! of a group or of a single writer, `group_commit_delay.rs` decides the group commit delay, and
//! `hints.rs` keeps the empty-range hints.

pub mod batch;
pub mod commit;
pub mod group_commit_delay;
pub mod hints;
mod request;
pub mod writer_state;
