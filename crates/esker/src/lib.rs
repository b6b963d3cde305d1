//! Esker: an embedded, durable, ordered key-value store.
#![deny(unsafe_code)]

pub mod base;
pub mod error;
pub mod fs;
pub mod options;
