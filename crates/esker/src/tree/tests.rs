//! Tests of the tree: cursors over slices and versions against naive models, encoded edits, damaged
//! manifests.

mod cursors;
mod edits;
mod hot_guards;
mod manifest;
mod row_batches;
mod versions;

use super::edit::{AddedFile, AddedSlice, RemovedSlice, VersionEdit};
use super::fragment::FileMeta;
use super::version::Version;
use crate::base::order::KeyOrder;
use crate::error::Result;
use crate::table::TableInfo;

/// Returns the description of a table with keys from `smallest` to `largest`.
pub(crate) fn info(number: u64, smallest: &[u8], largest: &[u8]) -> TableInfo {
    TableInfo {
        table_id: number | 1 << 40,
        size_bytes: 1000,
        entries: 10,
        seqno_max: number,
        smallest: smallest.to_vec(),
        largest: largest.to_vec(),
        ..TableInfo::default()
    }
}

/// Returns a slice of a new file.
pub(crate) fn added(
    level: usize,
    order: u64,
    number: u64,
    smallest: &[u8],
    largest: &[u8],
) -> AddedSlice {
    let file = AddedFile::New { number, info: info(number, smallest, largest) };
    AddedSlice { level, order, file, lo: None, hi: None }
}

/// Returns the removal of a key range of a file.
fn removed(level: usize, file: u64, lo: Option<&[u8]>, hi: Option<&[u8]>) -> RemovedSlice {
    RemovedSlice { level, file, lo: lo.map(<[u8]>::to_vec), hi: hi.map(<[u8]>::to_vec) }
}

/// Returns the version after `edit`, with files that are never removed.
pub(crate) fn after(version: &Version, edit: &VersionEdit) -> Result<Version> {
    version.after(edit, |number, info| FileMeta::new(number, info.clone(), None))
}

/// Formats every guard and slice of a version as text, one per line.
fn picture(version: &Version) -> String {
    let mut out = String::new();
    let key = |k: &Option<Vec<u8>>| match k {
        Some(k) if k.len() > 16 => format!("{:?}+{}", &k[..4], k.len()),
        Some(k) => format!("{k:?}"),
        None => "..".to_string(),
    };
    for (number, level) in version.levels.iter().enumerate() {
        if level.is_empty() && level.bounds().is_empty() {
            continue;
        }
        for guard in &level.guards {
            out += &format!("{number} [{} {})\n", key(&guard.lo), key(&guard.hi));
            for (order, f) in guard.fragments() {
                let (file, lo, hi) = (f.file.number, key(&f.lo), key(&f.hi));
                out += &format!("  run {order} file {file} [{lo} {hi})\n");
            }
        }
    }
    out
}

/// Returns an empty version in bytewise order.
pub(crate) fn empty() -> Version {
    Version::empty(KeyOrder::Bytewise)
}
