//! The tables that a flush or a compaction made, for the events of the store.

use crate::base::keyspace::TreeId;
use crate::tree::edit::{AddedFile, VersionEdit};

/// A table that a job made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CreatedTable {
    pub tree: TreeId,
    pub level: usize,
    pub number: u64,
    pub size_bytes: u64,
}

/// Returns the new tables of an edit, whose own slices are of `tree`.
pub(super) fn created_tables(tree: TreeId, edit: &VersionEdit) -> Vec<CreatedTable> {
    let own = std::iter::once((tree, edit));
    let all = own.chain(edit.others.iter().map(|(tree, edit)| (*tree, edit)));
    let slices = all.flat_map(|(tree, edit)| edit.added.iter().map(move |slice| (tree, slice)));
    let created = slices.filter_map(|(tree, slice)| match &slice.file {
        AddedFile::New { number, info } => {
            let (level, number, size_bytes) = (slice.level, *number, info.size_bytes);
            Some(CreatedTable { tree, level, number, size_bytes })
        }
        AddedFile::Existing(_) => None,
    });
    created.collect()
}
