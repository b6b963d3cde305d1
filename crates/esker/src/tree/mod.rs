//! Layer 3: which file holds what.
//!
//! A [`version::Version`] never changes; an [`edit::VersionEdit`] makes the next one, and
//! [`set::VersionSet`] writes it to the manifest before anyone sees it. `cursor.rs` and `output.rs`
//! read and write the tables a version is made of.

pub mod current;
pub mod cursor;
pub mod edit;
pub mod fence;
pub mod foreign;
pub mod fragment;
pub mod guard;
pub mod heat;
pub mod holding;
pub mod manifest;
pub mod names;
pub mod output;
pub mod purge;
pub mod set;
pub mod tables;
pub mod version;

#[cfg(test)]
pub(crate) mod tests;
