//! Executes plans. No other part of compaction reads or writes files.
//!
//! Invariants:
//! 1. A job changes nothing except the files that it writes.
//! 2. The job's edit replaces exactly the slices that the job read.
//! 3. Every entry that is visible to a snapshot or to a current reader is kept.
//! 4. A tombstone is dropped only where no older data lies below it.

use std::sync::Arc;

use super::{OutputOrder, Plan, PlanInput, PlanKind};
use crate::base::cursor::Cursor;
use crate::base::key::Kind;
use crate::base::order::KeyOrder;
use crate::base::range_delete::{RangeDeletes, RangeDeletesBuilder};
use crate::error::{Error, ErrorKind, Result};
use crate::iter::merge::MergeCursor;
use crate::iter::rewrite::{InputEntry, Rewrite, RewriteRules};
use crate::tree::cursor::{BoxedCursor, run_cursor};
use crate::tree::edit::{AddedFile, AddedSlice, RemovedSlice, VersionEdit};
use crate::tree::guard::{Fragments, Run};
use crate::tree::output::{NewFile, Output, OutputConfig};
use crate::tree::tables::Tables;
use crate::tree::version::Version;

/// Placeholder in an edit for the next free order, which the version set assigns later.
pub const ORDER_NEW: u64 = u64::MAX;

/// Number of merged bytes between two calls of [`JobContext::stopped`].
pub const STOP_CHECK_BYTES: usize = 512 << 10;
/// Bytes counted per entry towards [`STOP_CHECK_BYTES`], in addition to its key and value.
const STOP_CHECK_ENTRY_BYTES: usize = 112;

/// The environment of a job.
pub struct JobContext<'a> {
    /// Key order.
    pub order: KeyOrder,
    /// The open tables.
    pub tables: Arc<Tables>,
    /// The snapshots that must stay readable, the keys to keep, and what is applied to them.
    pub rules: RewriteRules<'a>,
    /// The version from which the plan was made, or a later version.
    pub version: Arc<Version>,
    /// Configuration of the output.
    pub output: OutputConfig,
    /// Returns whether the job must stop. Called now and then. A call may block.
    pub stopped: &'a dyn Fn() -> bool,
}

/// Statistics of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobStats {
    /// Estimated size of the slices read, in bytes.
    pub read_bytes: u64,
    /// Size of the tables written, in bytes.
    pub written_bytes: u64,
}

/// Executes `plan` and returns the edit that installs its result.
///
/// # Errors
/// Any read or write error; the files written so far are removed. `Closed` when the job was
/// stopped.
pub fn run(plan: &Plan, context: JobContext<'_>) -> Result<(VersionEdit, JobStats)> {
    let mut edit = VersionEdit::default();
    for input in &plan.inputs {
        edit.removed.push(RemovedSlice {
            level: input.level,
            file: input.fragment.file.number,
            lo: input.fragment.lo.clone(),
            hi: input.fragment.hi.clone(),
        });
    }
    edit.bounds_removed.extend(plan.bounds_removed.iter().cloned());
    edit.bounds_added.extend(plan.bounds_added.iter().map(|b| (plan.output_level, b.clone())));
    let order = match plan.output_order {
        OutputOrder::New => ORDER_NEW,
        OutputOrder::Same(order) => order,
    };
    let mut stats = JobStats::default();
    if matches!(plan.kind, PlanKind::Drop(_) | PlanKind::Expire) {
        return Ok((edit, stats));
    }
    if plan.kind == PlanKind::Move {
        for input in &plan.inputs {
            edit.added.push(AddedSlice {
                level: plan.output_level,
                order,
                file: AddedFile::Existing(input.fragment.file.number),
                lo: input.fragment.lo.clone(),
                hi: input.fragment.hi.clone(),
            });
        }
        return Ok((edit, stats));
    }
    stats.read_bytes = plan.inputs.iter().map(|i| i.fragment.est_bytes()).sum();
    let key_order = context.order.clone();
    let files = merge(plan, context)?;
    add_split_bounds(plan, &key_order, &files, &mut edit);
    for file in files {
        stats.written_bytes += file.info.size_bytes + file.value_bytes;
        let reaches = file.info.range_deletes > 0;
        let hi = file.hi.or_else(|| plan.guard_hi.clone().filter(|_| reaches));
        let (level, lo) = (plan.output_level, None);
        let file = AddedFile::New { number: file.number, info: file.info };
        edit.added.push(AddedSlice { level, order, file, lo, hi });
    }
    Ok((edit, stats))
}

/// Replaces every [`ORDER_NEW`] in `edit` by one number from `next`. Does not call `next` if there
/// is none.
pub fn number_new_orders(edit: &mut VersionEdit, next: impl FnOnce() -> u64) {
    if edit.added.iter().any(|a| a.order == ORDER_NEW) {
        let order = next();
        for slice in edit.added.iter_mut().filter(|a| a.order == ORDER_NEW) {
            slice.order = order;
        }
    }
}

fn merge(plan: &Plan, context: JobContext<'_>) -> Result<Vec<NewFile>> {
    let JobContext { order, tables, rules, version, mut output, stopped } = context;
    if let Some(limit) = plan.split_guard_bytes {
        output.file_size_max_bytes = output.file_size_max_bytes.min(limit);
    }
    let mut cursors: Vec<BoxedCursor> = Vec::new();
    for run in runs_newest_first(&plan.inputs, &order) {
        cursors.push(run_cursor(&tables, &run, false)?);
    }
    let below = OlderRanges::new(plan.older_ranges(&version), &order);
    output.over_others = !below.ranges.is_empty();
    let deletes = Arc::new(input_deletes(plan, &tables, &order)?);
    let seen = deletes.to_tombstones_seen(&order, &rules.seqnos());
    let rewrite = Rewrite::new(order.clone(), rules, deletes.clone());
    let mut kept = Vec::new();
    for delete in seen {
        if rewrite.keep_range_delete(delete.seqno, !below.overlaps(&delete.start, &delete.end)) {
            kept.push(delete);
        }
    }
    let mut output = Output::new(output, plan.cut_bounds.clone(), kept);
    let mut merged = MergeCursor::new(order, cursors);
    let written = write_kept(&mut merged, (rewrite, below), &mut output, stopped);
    match written {
        Ok(()) => output.finish(),
        Err(error) => {
            output.abandon();
            Err(error)
        }
    }
}

fn write_kept(
    merged: &mut MergeCursor,
    (mut rewrite, mut below): (Rewrite<'_>, OlderRanges),
    output: &mut Output,
    stopped: &dyn Fn() -> bool,
) -> Result<()> {
    merged.seek_to_first()?;
    let (mut unchecked_bytes, mut moved_bytes) = (0, 0);
    while merged.valid() {
        let (key, seqno, kind) = (merged.key(), merged.seqno(), merged.kind());
        // If any older data lies below, a put that no filter is asked about does not justify the
        // check of its key.
        let is_put = matches!(kind, Kind::Put | Kind::PutSeparated);
        let is_checked = !is_put || rewrite.has_filter();
        let bottom = below.is_empty() || (is_checked && !below.holds(key));
        let entry = InputEntry { key, seqno, kind, value: merged.value(), bottom };
        rewrite.add(entry, output)?;
        unchecked_bytes += STOP_CHECK_ENTRY_BYTES + merged.key().len() + merged.value().len();
        let moved = output.value_bytes();
        // It begins at 0 again with each table.
        unchecked_bytes += moved.saturating_sub(moved_bytes) as usize;
        moved_bytes = moved;
        if unchecked_bytes >= STOP_CHECK_BYTES {
            unchecked_bytes = 0;
            if stopped() {
                return Err(Error::new(
                    ErrorKind::Closed,
                    "the compaction was stopped: the store is being closed, or other work came first",
                ));
            }
        }
        merged.next()?;
    }
    rewrite.finish(output)
}

/// Returns the inputs as runs, newest first. The fragments of each run are in key order.
fn runs_newest_first(inputs: &[PlanInput], order: &KeyOrder) -> Vec<Run> {
    let mut sorted: Vec<&PlanInput> = inputs.iter().collect();
    sorted.sort_by(|a, b| a.level.cmp(&b.level).then(b.order.cmp(&a.order)));
    sorted
        .chunk_by(|a, b| a.level == b.level && a.order == b.order)
        .map(|run| {
            let mut fragments: Vec<_> = run.iter().map(|input| input.fragment.clone()).collect();
            fragments.sort_by(|a, b| a.compare_start(order, b));
            Run { order: run[0].order, fragments: Fragments::new(order, fragments) }
        })
        .collect()
}

fn input_deletes(plan: &Plan, tables: &Tables, order: &KeyOrder) -> Result<RangeDeletes> {
    let mut all = RangeDeletesBuilder::default();
    for input in plan.inputs.iter().filter(|i| i.fragment.file.info.range_deletes > 0) {
        let (lo, hi) = (input.fragment.lo.as_deref(), input.fragment.hi.as_deref());
        let set = tables.get(&input.fragment.file)?.range_deletes();
        set.iter().filter_map(|t| t.clamp(order, lo, hi)).for_each(|t| all.push(t));
    }
    Ok(all.build(order))
}

/// Adds guard bounds if the plan splits its guard: a file that would exceed the split size starts a
/// new guard.
fn add_split_bounds(plan: &Plan, order: &KeyOrder, files: &[NewFile], edit: &mut VersionEdit) {
    let Some(limit) = plan.split_guard_bytes else { return };
    let mut in_guard = 0;
    let mut cuts = plan.cut_bounds.iter().peekable();
    for file in files {
        while let Some(cut) = cuts.peek()
            && order.compare(cut, &file.info.smallest).is_le()
        {
            cuts.next();
            in_guard = 0;
        }
        if in_guard > 0 && in_guard + file.info.size_bytes > limit {
            edit.bounds_added.push((plan.output_level, file.info.smallest.clone()));
            in_guard = 0;
        }
        in_guard += file.info.size_bytes;
    }
}

/// Key ranges that may hold data older than a plan's inputs. The ranges, pairs of first and last
/// key, are disjoint and in key order.
struct OlderRanges {
    order: KeyOrder,
    ranges: Vec<(Vec<u8>, Vec<u8>)>,
    /// Position in `ranges`. All earlier ranges end before the last key passed to
    /// [`OlderRanges::holds`].
    at: usize,
}

impl OlderRanges {
    fn new(mut ranges: Vec<(Vec<u8>, Vec<u8>)>, order: &KeyOrder) -> OlderRanges {
        ranges.sort_unstable_by(|a, b| order.compare(&a.0, &b.0));
        ranges.dedup_by(|next, kept| {
            let joined = order.compare(&next.0, &kept.1).is_le();
            if joined && order.compare(&next.1, &kept.1).is_gt() {
                kept.1 = std::mem::take(&mut next.1);
            }
            joined
        });
        OlderRanges { order: order.clone(), ranges, at: 0 }
    }

    fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns whether older data may hold `key`. Keys of successive calls must not decrease.
    fn holds(&mut self, key: &[u8]) -> bool {
        while let Some((first, last)) = self.ranges.get(self.at) {
            if self.order.compare(key, last).is_le() {
                return self.order.compare(first, key).is_le();
            }
            self.at += 1;
        }
        false
    }

    /// Returns whether older data may hold a key in `[start, end)`.
    fn overlaps(&self, start: &[u8], end: &[u8]) -> bool {
        let ended = |(_, last): &(Vec<u8>, Vec<u8>)| self.order.compare(last, start).is_lt();
        let next = self.ranges.get(self.ranges.partition_point(ended));
        next.is_some_and(|(first, _)| self.order.compare(first, end).is_lt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn older_data_is_looked_up_by_key_and_range() {
        let range = |first: &[u8], last: &[u8]| (first.to_vec(), last.to_vec());
        let ranges = vec![range(b"m", b"m"), range(b"d", b"f")];
        let mut below = OlderRanges::new(ranges, &KeyOrder::Bytewise);
        assert!(!below.is_empty());
        for (start, end, meets) in [
            ("a", "d", false),
            ("a", "d0", true),
            ("f", "g", true),
            ("f0", "m", false),
            ("f0", "m0", true),
            ("n", "z", false),
        ] {
            assert_eq!(below.overlaps(start.as_bytes(), end.as_bytes()), meets, "{start}..{end}");
        }
        for (key, held) in [("c", false), ("d", true), ("e", true), ("f", true), ("f0", false)] {
            assert_eq!(below.holds(key.as_bytes()), held, "{key}");
        }
        assert!(below.holds(b"m") && below.holds(b"m") && !below.holds(b"n"));
        assert!(OlderRanges::new(Vec::new(), &KeyOrder::Bytewise).is_empty());
    }

    #[test]
    fn overlap_lookup_matches_linear_scan() {
        let ranges = proptest::collection::vec((any::<u8>(), any::<u8>()), 0..12);
        let config = ProptestConfig { failure_persistence: None, ..Default::default() };
        proptest!(config, |(ranges in ranges, reverse in any::<bool>())| {
            let order = if reverse { KeyOrder::Reverse } else { KeyOrder::Bytewise };
            let in_order = |(a, b)| {
                if order.compare(&[a], &[b]).is_le() { (vec![a], vec![b]) } else { (vec![b], vec![a]) }
            };
            let all: Vec<(Vec<u8>, Vec<u8>)> = ranges.into_iter().map(in_order).collect();
            let mut below = OlderRanges::new(all.clone(), &order);
            let mut keys: Vec<u8> = (0..=255).collect();
            keys.sort_by(|&a, &b| order.compare(&[a], &[b]));
            for key in keys {
                let meets = |end: &[u8]| all.iter().any(|(first, last)| {
                    order.compare(first, end).is_lt() && order.compare(&[key], last).is_le()
                });
                let behind = if reverse { Vec::new() } else { vec![key, 0] };
                let held = all.iter().any(|(first, last)| {
                    order.compare(first, &[key]).is_le() && order.compare(&[key], last).is_le()
                });
                prop_assert_eq!(below.holds(&[key]), held, "{}", key);
                for end in [vec![key], vec![key.wrapping_add(9)], behind] {
                    let expected = order.compare(&[key], &end).is_lt() && meets(&end);
                    let found = order.compare(&[key], &end).is_lt() && below.overlaps(&[key], &end);
                    prop_assert_eq!(found, expected, "{}..{:?}", key, end);
                }
            }
        });
    }
}
