//! Tools for testing Esker: seeded randomness, a file system that fails on command, one that loses
//! what was not synced, campaigns that use both, processes that are killed and judged, fuzzing of
//! decoders, and a way to copy a directory between file systems.

pub mod campaign;
pub mod copy;
pub mod crash;
pub mod fault;
pub mod fuzz;
pub mod rng;
pub mod torture;
