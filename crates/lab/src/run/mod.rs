//! Running: the settings, one engine's turn, the timed loops, and who goes when.

pub mod apart;
pub mod config;
pub mod crc;
pub mod interleave;
pub mod place;
pub mod progress;
pub mod session;
pub mod work;
