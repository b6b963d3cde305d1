//! Tools for testing Esker: seeded randomness, a file system that fails on command, a file system
//! that loses unsynced data, campaigns that use both, processes that are killed and then judged,
//! fuzzing of decoders, histories that outside judges check, and a copy of directories between file systems.

pub mod campaign;
pub mod copy;
pub mod crash;
pub mod fault;
pub mod fuzz;
pub mod proof;
pub mod rng;
pub mod torture;
