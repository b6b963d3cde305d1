//! What two versions share: the parts of their tables that a comparison need not read.
//!
//! Two versions may belong to different stores, such as a fork and its parent, which have common
//! tables under names of their own. After the fork both stores give the same numbers to different
//! tables. A table is therefore the same if its whole description is equal: its random identity,
//! the hash of its content, its length, its counts and its bounds.
//!
//! Invariants: each key range of each table of a version is either in the other version, too, or in
//! the list of that version.

use std::collections::HashMap;
use std::sync::Arc;

use super::edit::RemovedSlice;
use super::fragment::{FileMeta, Fragment};
use super::guard::{FilePart, Fragments, Run};
use super::version::{Version, subtract};
use crate::base::order::KeyOrder;

/// The slices that two versions do not have in common.
#[derive(Debug, Default)]
pub struct Unshared {
    /// Slices that only the first version has.
    pub a: Vec<Arc<Fragment>>,
    /// Slices that only the second version has.
    pub b: Vec<Arc<Fragment>>,
    /// Number of tables that both have.
    pub shared_files: u64,
    /// Length of these tables, in bytes.
    pub shared_bytes: u64,
}

type Parts = HashMap<u64, (Arc<FileMeta>, Vec<FilePart>)>;

/// Compares two versions of the same key order. `is_shareable` says of a table that both have
/// whether a reader of either sees the same in it.
pub fn unshared(a: &Version, b: &Version, is_shareable: impl Fn(&FileMeta) -> bool) -> Unshared {
    let order = a.order();
    let (parts_a, mut parts_b) = (parts_by_identity(a), parts_by_identity(b));
    let mut found = Unshared::default();
    for (id, (file, parts)) in parts_a {
        let is_same = |other: &(Arc<FileMeta>, Vec<FilePart>)| {
            other.0.info == file.info && is_shareable(&file)
        };
        let Some((other, others)) = parts_b.get(&id).filter(|other| is_same(other)).cloned() else {
            found.a.extend(parts.into_iter().map(to_fragment));
            continue;
        };
        parts_b.remove(&id);
        found.shared_files += 1;
        found.shared_bytes += file.info.size_bytes;
        found.a.extend(without(order, &file, &parts, &others).into_iter().map(to_fragment));
        found.b.extend(without(order, &other, &others, &parts).into_iter().map(to_fragment));
    }
    found.b.extend(parts_b.into_values().flat_map(|(_, parts)| parts).map(to_fragment));
    found
}

fn parts_by_identity(version: &Version) -> Parts {
    let mut parts = Parts::new();
    for part in version.levels.iter().flat_map(|level| level.parts()) {
        let entry = parts.entry(part.file.info.table_id);
        entry.or_insert_with(|| (part.file.clone(), Vec::new())).1.push(part.clone());
    }
    parts
}

/// Returns the parts of `file` without those key ranges that `others` have.
fn without(
    order: &KeyOrder,
    file: &FileMeta,
    parts: &[FilePart],
    others: &[FilePart],
) -> Vec<FilePart> {
    let mut left = parts.to_vec();
    for other in others {
        let (lo, hi) = (other.lo.clone(), other.hi.clone());
        // A range that is not there removes nothing, which is an error only in a manifest.
        let _ = subtract(order, &mut left, &RemovedSlice { level: 0, file: file.number, lo, hi });
    }
    left
}

fn to_fragment(part: FilePart) -> Arc<Fragment> {
    let FilePart { file, lo, hi, .. } = part;
    Arc::new(Fragment { file, lo, hi, estimated_bytes: 0 })
}

/// Arranges slices as few runs, so that a cursor over them has few sources.
pub fn to_runs(order: &KeyOrder, mut slices: Vec<Arc<Fragment>>) -> Vec<Run> {
    slices.sort_by(|a, b| a.compare_start(order, b));
    let mut chains: Vec<Vec<Arc<Fragment>>> = Vec::new();
    for slice in slices {
        let fits = |chain: &&mut Vec<Arc<Fragment>>| {
            chain.last().is_some_and(|last| last.is_before(order, &slice))
        };
        match chains.iter_mut().find(fits) {
            Some(chain) => chain.push(slice),
            None => chains.push(vec![slice]),
        }
    }
    let run = |chain| Run { order: 0, fragments: Fragments::new(order, chain) };
    chains.into_iter().map(run).collect()
}
