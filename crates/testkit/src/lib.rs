//! Tools for testing Esker: seeded randomness, and a file system that fails on command.

pub mod fault;
pub mod rng;
