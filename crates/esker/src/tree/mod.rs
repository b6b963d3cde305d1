//! Layer 3: the versioned set of table files and their key ranges.
//!
//! A [`version::Version`] is immutable. An [`edit::VersionEdit`] produces the next version.
//! [`set::VersionSet`] writes the edit to the manifest before it publishes the version. `cursor.rs`
//! reads the tables of a version, and `output.rs` writes them. `value_files.rs` and `value_output.rs` do
//! the same for the values that are not in tables.

pub mod catalog;
pub mod current;
pub mod cursor;
pub mod edit;
pub mod follow;
pub mod foreign;
pub mod forest;
pub mod fragment;
pub mod guard;
pub mod key_head_index;
pub mod lineage;
pub mod manifest;
pub mod names;
pub mod output;
pub mod purge;
pub mod seek_stats;
pub mod set;
pub mod shared;
pub mod tables;
pub mod value_files;
pub mod value_output;
pub mod version;

#[cfg(test)]
pub(crate) mod tests;
