//! A store in its own process that is killed, cut off from power, and given faults. A record of its
//! acknowledged writes is kept outside the process and is used to judge the remaining store.
//!
//! | module | content |
//! |---|---|
//! | `plan` | the data to write: batch n of a writer is a function of seed, writer and n |
//! | `slots` | attempted and acknowledged batches, in a file that outlives the process |
//! | `victim` | the process that dies: writers, a reader, maintenance, faults |
//! | `judge` | opens the remaining store and compares it |
//! | `kills` | starts victims, ends them and counts; runs of several minutes are the soak |
//! | `temporary` | the keyspace that a victim creates, fills, renames and drops |
//! | `power` | the same on real file systems in image files, which are cut off |
//!
//! Invariants: a batch is recorded as attempted before the store sees it, and as acknowledged after
//! the store returned. A death in between allows both states.

pub mod judge;
pub mod kills;
pub mod plan;
pub mod power;
pub mod slots;
mod temporary;
pub mod victim;
