//! Checks of the source tree and generated documents, as a library so that tests run them.

pub mod api;
mod document;
pub mod experiments;
pub mod headers;
pub mod metrics;
pub mod options;
pub mod results;
pub mod rocksdb;
pub mod tidy;

use std::path::{Path, PathBuf};

/// Compiles and runs the examples of the cookbook as tests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/cookbook.md")]
pub mod cookbook {}

/// Returns the repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_path_buf()
}
