//! A store in a process of its own that is killed, cut off from power, and given faults; what it
//! acknowledged is kept outside of it, and judges what it left.
//!
//! | in | is |
//! |---|---|
//! | `plan` | what is written: batch n of a writer is a function of seed, writer and n |
//! | `slots` | what was tried and acknowledged, in a file that outlives the process |
//! | `victim` | the process that dies: writers, a reader, chores, faults |
//! | `judge` | opens what is left and compares it |
//! | `kills` | the process that starts victims, ends them and counts; for minutes: the soak |
//! | `power` | the same on real file systems in files, which are cut off |
//!
//! What stays true: a batch is noted as tried before the store sees it and as acknowledged after
//! the store returned, so a death in between allows both.

pub mod judge;
pub mod kills;
pub mod plan;
pub mod power;
pub mod slots;
pub mod victim;
