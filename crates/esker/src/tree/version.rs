//! A version: all levels at one point in time.
//!
//! A level is stored as guard bounds and file parts. Guards and slices are derived from them.
//! Adding a bound therefore splits existing files without rewriting them.
//!
//! Invariants:
//! 1. By construction: the guards of a level partition the key space.
//! 2. Checked for each new version: the slices of a run are disjoint and in key order. The runs of
//!    a guard are newest first with distinct ages. Level 0 is one guard.

use std::cmp::Ordering;
use std::sync::{Arc, OnceLock};

use super::edit::{AddedFile, AddedSlice, RemovedSlice, VersionEdit};
use super::fragment::{FileMeta, Fragment};
use super::guard::{FilePart, Fragments, Guard, Level, Run, SeekStats};
use super::key_head_index::KeyHeadIndex;
use super::tables::Tables;
use crate::base::order::KeyOrder;
use crate::base::range_delete::RangeDeleteRun;
use crate::base::thresholds::Thresholds;
use crate::error::{Error, ErrorKind, Result};
use crate::metrics::LEVELS;

/// All levels at one point in time.
#[derive(Debug, Clone)]
pub struct Version {
    /// Levels 0 to 7.
    pub levels: Vec<Arc<Level>>,
    /// Mask of the non-empty levels.
    used: LevelMask,
    /// Number of entries in all files.
    entries: u64,
    /// Number of entries that are many.
    many_entries_min: u64,
    /// The bound on space applies to a tree with at least so many bytes of tables.
    space_bytes_min: u64,
    order: KeyOrder,
    with_range_deletes: Vec<Arc<Fragment>>,
    range_delete_runs: OnceLock<Arc<[RangeDeleteRun]>>,
}

/// A level's bounds and file parts while an edit changes them.
type Content = (Vec<Vec<u8>>, Vec<FilePart>);

/// Query of [`Version::older_ranges`].
pub struct OlderThan<'a> {
    /// Level of the job. Slices of upper levels do not count. Slices of deeper levels always count
    /// as older.
    pub level: usize,
    /// Pairs of a level and the number of its newest input run. Only the pair of `level` is used:
    /// newer slices of that level do not count.
    pub newest: &'a [(usize, u64)],
    /// The inputs' files with their level. Slices of these files do not count.
    pub inputs: &'a [(usize, u64)],
    /// Start of the key range.
    pub lo: Option<&'a [u8]>,
    /// End of the key range, exclusive.
    pub hi: Option<&'a [u8]>,
}

impl Version {
    /// Creates an empty version.
    pub fn empty(order: KeyOrder) -> Version {
        let level = Arc::new(build_level(&order, Vec::new(), Vec::new()));
        let (levels, used) = (vec![level; LEVELS], LevelMask::default());
        let with_range_deletes = Vec::new();
        let range_delete_runs = OnceLock::new();
        let Thresholds { many_entries_min, space_bytes_min, .. } = Thresholds::default();
        Version {
            levels,
            used,
            entries: 0,
            many_entries_min,
            space_bytes_min,
            order,
            with_range_deletes,
            range_delete_runs,
        }
    }

    /// Sets the thresholds of this version and of those that follow from it.
    pub fn set_thresholds(&mut self, thresholds: &Thresholds) {
        self.many_entries_min = thresholds.many_entries_min;
        self.space_bytes_min = thresholds.space_bytes_min;
    }

    /// Returns the bytes of tables from which on the space is bounded.
    pub fn space_bytes_min(&self) -> u64 {
        self.space_bytes_min
    }

    /// Returns the key order.
    pub fn order(&self) -> &KeyOrder {
        &self.order
    }

    /// Returns the guard of `level` that holds `key`.
    #[inline]
    pub fn guard_of(&self, level: usize, key: &[u8]) -> &Arc<Guard> {
        let level = &self.levels[level];
        &level.guards[level.index_of(&self.order, key)]
    }

    /// Returns the slices that may hold `key`, with their levels, newest first.
    #[inline]
    pub fn fragments_holding<'v, 'k>(&'v self, key: &'k [u8]) -> CandidateFragments<'v, 'k> {
        CandidateFragments::new(self, self.used, key)
    }

    /// Returns whether the version has so many entries that reads of filters and indexes likely
    /// miss the CPU cache.
    #[inline]
    pub fn has_many_entries(&self) -> bool {
        self.entries >= self.many_entries_min
    }

    /// Returns the guards of `level` that may share a key with `[lo, hi]`. `None` is unbounded.
    pub fn guards_overlapping(
        &self,
        level: usize,
        lo: Option<&[u8]>,
        hi: Option<&[u8]>,
    ) -> &[Arc<Guard>] {
        let level = &self.levels[level];
        let upto = |key: &[u8]| level.index_of(&self.order, key);
        let first = lo.map_or(0, upto);
        let last = hi.map_or(level.guards.len() - 1, upto);
        &level.guards[first..=last.max(first)]
    }

    /// Returns the deepest non-empty level.
    pub fn deepest_nonempty(&self) -> Option<usize> {
        (0..self.levels.len()).rev().find(|l| !self.levels[*l].is_empty())
    }

    /// Returns each file once, sorted by number.
    pub fn files(&self) -> Vec<Arc<FileMeta>> {
        let pieces = self.levels.iter().flat_map(|l| &l.pieces);
        let mut files: Vec<Arc<FileMeta>> = pieces.map(|p| p.file.clone()).collect();
        files.sort_by_key(|f| f.number);
        files.dedup_by_key(|f| f.number);
        files
    }

    /// Returns the range tombstones of all slices, or `None` if there are none. The first call
    /// opens the tables and builds the runs.
    ///
    /// # Errors
    /// Any error of opening a table.
    #[inline]
    pub fn range_delete_runs(&self, tables: &Tables) -> Result<Option<Arc<[RangeDeleteRun]>>> {
        if self.with_range_deletes.is_empty() {
            return Ok(None);
        }
        match self.range_delete_runs.get() {
            Some(runs) => Ok(Some(Arc::clone(runs))),
            None => self.make_range_delete_runs(tables).map(Some),
        }
    }

    fn make_range_delete_runs(&self, tables: &Tables) -> Result<Arc<[RangeDeleteRun]>> {
        let mut shown = Vec::with_capacity(self.with_range_deletes.len());
        for fragment in &self.with_range_deletes {
            let set = tables.get(&fragment.file)?.range_deletes();
            shown.push((set, fragment.lo.as_deref(), fragment.hi.as_deref()));
        }
        let runs = RangeDeleteRun::new_runs(&self.order, shown.into_iter());
        Ok(Arc::clone(self.range_delete_runs.get_or_init(|| runs.into())))
    }

    /// Returns the slices whose files hold range tombstones.
    pub fn fragments_with_range_deletes(&self) -> &[Arc<Fragment>] {
        &self.with_range_deletes
    }

    /// Returns the first and last keys of slices that are older than a job's inputs and may share
    /// keys with them.
    pub fn older_ranges(&self, than: &OlderThan<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut ranges = Vec::new();
        for (number, level) in self.levels.iter().enumerate().skip(than.level) {
            let newest = than.newest.iter().find(|(l, _)| *l == number).map(|(_, order)| *order);
            for (order, fragment) in level.guards.iter().flat_map(|g| g.fragments()) {
                let input = than.inputs.contains(&(number, fragment.file.number));
                let newer = number == than.level && newest.is_some_and(|newest| order > newest);
                let (first, (last, _)) = (fragment.first(&self.order), fragment.last(&self.order));
                let before = than.lo.is_some_and(|lo| self.order.compare(last, lo).is_lt());
                let after = than.hi.is_some_and(|hi| self.order.compare(first, hi).is_ge());
                if !input && !newer && !before && !after {
                    ranges.push((first.to_vec(), last.to_vec()));
                }
            }
        }
        ranges
    }

    /// Returns an edit that turns an empty version into this one.
    pub fn to_edit(&self) -> VersionEdit {
        let mut edit = VersionEdit::default();
        let mut known = Vec::new();
        for (number, level) in self.levels.iter().enumerate() {
            for bound in &level.bounds {
                edit.bounds_added.push((number, bound.clone()));
            }
            for piece in &level.pieces {
                let first_time = !known.contains(&piece.file.number);
                known.push(piece.file.number);
                let (number_of, info) = (piece.file.number, &piece.file.info);
                let file = if first_time {
                    AddedFile::New { number: number_of, info: info.clone() }
                } else {
                    AddedFile::Existing(number_of)
                };
                let (lo, hi) = (piece.lo.clone(), piece.hi.clone());
                edit.added.push(AddedSlice { level: number, order: piece.order, file, lo, hi });
            }
        }
        edit
    }

    /// Applies `edit` and returns the resulting version. `make` creates the handles of new files.
    ///
    /// # Errors
    /// `Corruption` when the edit does not fit this version or the result breaks an invariant.
    pub fn after(
        &self,
        edit: &VersionEdit,
        make: impl Fn(u64, &crate::table::TableInfo) -> FileMeta,
    ) -> Result<Version> {
        let mut files = self.files();
        let mut touched: Vec<Option<Content>> = vec![None; self.levels.len()];
        let levels_touched = edit
            .removed
            .iter()
            .map(|r| r.level)
            .chain(edit.added.iter().map(|a| a.level))
            .chain(edit.bounds_added.iter().map(|b| b.0))
            .chain(edit.bounds_removed.iter().map(|b| b.0));
        for number in levels_touched {
            let level = self.levels.get(number).ok_or_else(|| bad("the level does not exist"))?;
            touched[number].get_or_insert_with(|| (level.bounds.clone(), level.pieces.clone()));
        }
        for removed in &edit.removed {
            if let Some((_, pieces)) = &mut touched[removed.level] {
                subtract(&self.order, pieces, removed)?;
            }
        }
        for added in &edit.added {
            let file = match &added.file {
                AddedFile::New { number, info } => {
                    if files.iter().any(|f| f.number == *number) {
                        return Err(bad("a new file has the number of an existing file"));
                    }
                    let file = Arc::new(make(*number, info));
                    files.push(file.clone());
                    file
                }
                AddedFile::Existing(number) => files
                    .iter()
                    .find(|f| f.number == *number)
                    .cloned()
                    .ok_or_else(|| bad("a fragment belongs to a missing file"))?,
            };
            if let Some((_, pieces)) = &mut touched[added.level] {
                let (lo, hi) = (added.lo.clone(), added.hi.clone());
                pieces.push(FilePart { order: added.order, file, lo, hi });
            }
        }
        self.change_bounds(edit, &mut touched)?;
        let mut next = self.clone();
        for (number, content) in touched.into_iter().enumerate() {
            if let Some((bounds, pieces)) = content {
                next.levels[number] = Arc::new(build_level(&self.order, bounds, pieces));
            }
        }
        next.used = LevelMask::of(&next.levels);
        // A damaged manifest may contain any number.
        next.entries =
            next.files().iter().fold(0, |sum, file| sum.saturating_add(file.info.entries));
        next.check()?;
        let fragments =
            next.levels.iter().flat_map(|l| l.guards.iter()).flat_map(|g| g.fragments());
        next.range_delete_runs = OnceLock::new();
        next.with_range_deletes = fragments
            .filter(|(_, f)| f.file.info.range_deletes > 0)
            .map(|(_, f)| f.clone())
            .collect();
        Ok(next)
    }

    fn change_bounds(&self, edit: &VersionEdit, touched: &mut [Option<Content>]) -> Result<()> {
        for (number, key) in &edit.bounds_removed {
            if let Some((bounds, _)) = &mut touched[*number] {
                bounds.retain(|b| b != key);
            }
        }
        for (number, key) in &edit.bounds_added {
            if *number == 0 {
                return Err(bad("level 0 has a guard bound"));
            }
            if let Some((bounds, _)) = &mut touched[*number] {
                let at = bounds.partition_point(|b| self.order.compare(b, key).is_lt());
                if bounds.get(at).is_none_or(|b| self.order.compare(b, key).is_ne()) {
                    bounds.insert(at, key.clone());
                }
            }
        }
        Ok(())
    }

    /// Checks the invariants.
    fn check(&self) -> Result<()> {
        for (number, level) in self.levels.iter().enumerate() {
            if number == 0 && level.guards.len() != 1 {
                return Err(bad("level 0 has several guards"));
            }
            for guard in &level.guards {
                let ages = guard.runs.windows(2).all(|w| w[0].order > w[1].order);
                if !ages {
                    return Err(bad("the runs of a guard are not ordered from the newest"));
                }
                for run in &guard.runs {
                    let disjoint =
                        run.fragments.windows(2).all(|w| w[0].is_before(&self.order, &w[1]));
                    if !disjoint {
                        return Err(bad("the fragments of a run overlap"));
                    }
                }
            }
        }
        Ok(())
    }
}

fn bad(what: &str) -> Error {
    Error::new(ErrorKind::Corruption, format!("a manifest edit is invalid: {what}"))
}

/// Removes the key range of `removed` from the parts of its file.
pub(super) fn subtract(
    order: &KeyOrder,
    pieces: &mut Vec<FilePart>,
    removed: &RemovedSlice,
) -> Result<()> {
    let mut found = false;
    let mut left = Vec::with_capacity(pieces.len());
    for piece in pieces.drain(..) {
        let before = piece.hi.as_ref().zip(removed.lo.as_ref());
        let after = piece.lo.as_ref().zip(removed.hi.as_ref());
        let apart = before.is_some_and(|(hi, lo)| order.compare(hi, lo).is_le())
            || after.is_some_and(|(lo, hi)| order.compare(lo, hi).is_ge());
        if piece.file.number != removed.file || apart {
            left.push(piece);
            continue;
        }
        found = true;
        if let Some(lo) = &removed.lo
            && piece.lo.as_ref().is_none_or(|from| order.compare(from, lo).is_lt())
        {
            left.push(FilePart { hi: Some(lo.clone()), ..piece.clone() });
        }
        if let Some(hi) = &removed.hi
            && piece.hi.as_ref().is_none_or(|to| order.compare(hi, to).is_lt())
        {
            left.push(FilePart { lo: Some(hi.clone()), ..piece });
        }
    }
    // A part outside the file's own keys is empty.
    left.retain(|p| shows_something(order, p));
    *pieces = left;
    if found { Ok(()) } else { Err(bad("a removed fragment does not exist")) }
}

fn shows_something(order: &KeyOrder, piece: &FilePart) -> bool {
    let info = &piece.file.info;
    piece.lo.as_ref().is_none_or(|lo| order.compare(&info.largest, lo).is_ge())
        && piece.hi.as_ref().is_none_or(|hi| order.compare(&info.smallest, hi).is_lt())
}

/// Divides file parts into guards at the bounds.
fn build_level(order: &KeyOrder, bounds: Vec<Vec<u8>>, pieces: Vec<FilePart>) -> Level {
    let mut slices: Vec<Vec<(u64, Arc<Fragment>)>> = vec![Vec::new(); bounds.len() + 1];
    for piece in &pieces {
        let info = &piece.file.info;
        let first = match piece.lo.as_deref() {
            Some(lo) if order.compare(lo, &info.smallest).is_gt() => lo,
            _ => info.smallest.as_slice(),
        };
        let (last, open) = match piece.hi.as_deref() {
            Some(hi) if order.compare(hi, &info.largest).is_le() => (hi, true),
            _ => (info.largest.as_slice(), false),
        };
        let from = bounds.partition_point(|b| order.compare(b, first).is_le());
        let to = bounds.partition_point(|b| {
            let ahead = order.compare(b, last);
            ahead.is_lt() || (ahead.is_eq() && !open)
        });
        let spanned = slices.iter_mut().enumerate().take(to.max(from) + 1).skip(from);
        for (guard, slices) in spanned {
            let lower = guard.checked_sub(1).map(|i| &bounds[i]);
            let upper = bounds.get(guard);
            let lo = tighter(order, piece.lo.as_ref(), lower, Ordering::Greater);
            let hi = tighter(order, piece.hi.as_ref(), upper, Ordering::Less);
            let share = (to.max(from) - from + 1) as u64;
            let bytes = estimate(&piece.file, lo.as_deref(), hi.as_deref(), share);
            let fragment = Fragment { file: piece.file.clone(), lo, hi, estimated_bytes: bytes };
            slices.push((piece.order, Arc::new(fragment)));
        }
    }
    let mut guards = Vec::with_capacity(slices.len());
    for (number, mut slices) in slices.into_iter().enumerate() {
        slices.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.compare_start(order, &b.1)));
        let runs = slices
            .chunk_by(|a, b| a.0 == b.0)
            .map(|run| {
                let fragments = run.iter().map(|(_, fragment)| fragment.clone()).collect();
                Run { order: run[0].0, fragments: Fragments::new(order, fragments) }
            })
            .collect();
        let lo = number.checked_sub(1).map(|i| bounds[i].clone());
        guards.push(Arc::new(Guard {
            lo,
            hi: bounds.get(number).cloned(),
            runs,
            seek_stats: SeekStats::default(),
        }));
    }
    let bounds_index = KeyHeadIndex::new(order, bounds.iter().map(Vec::as_slice));
    Level { guards, bounds, bounds_index, pieces }
}

/// Returns the bound that `wins` the comparison. A missing bound loses.
fn tighter(
    order: &KeyOrder,
    a: Option<&Vec<u8>>,
    b: Option<&Vec<u8>>,
    wins: Ordering,
) -> Option<Vec<u8>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if order.compare(a, b) == wins { a } else { b }.clone()),
        (a, b) => a.or(b).cloned(),
    }
}

/// Returns the estimated size of a slice in bytes. Uses the index if the table is open, and equal
/// shares otherwise.
pub(crate) fn estimate(file: &FileMeta, lo: Option<&[u8]>, hi: Option<&[u8]>, share: u64) -> u64 {
    match file.opened() {
        _ if lo.is_none() && hi.is_none() => file.info.size_bytes,
        Some(table) => {
            let from = lo.map_or(0, |lo| table.approximate_offset(lo));
            let to = hi.map_or(file.info.size_bytes, |hi| table.approximate_offset(hi));
            to.saturating_sub(from)
        }
        None => file.info.size_bytes / share.max(1),
    }
}

/// Bit mask of the non-empty levels: bit n is level n.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LevelMask(u32);

impl LevelMask {
    /// Builds the mask of `levels`.
    pub fn of(levels: &[Arc<Level>]) -> LevelMask {
        let bit = |(number, level): (usize, &Arc<Level>)| u32::from(!level.is_empty()) << number;
        LevelMask(levels.iter().enumerate().map(bit).sum())
    }
}

/// Iterator over the slices that may hold a key, with their levels, newest first.
pub struct CandidateFragments<'v, 'k> {
    version: &'v Version,
    key: &'k [u8],
    /// Levels not yet searched.
    left: LevelMask,
    /// Level of `runs`.
    level: usize,
    /// Runs of the level's guard that are not yet searched.
    runs: std::slice::Iter<'v, Run>,
}

impl<'v, 'k> CandidateFragments<'v, 'k> {
    /// Creates the iterator over the slices of `version` that may hold `key`. `left` is the mask of
    /// the version's non-empty levels.
    #[inline]
    pub(super) fn new(
        version: &'v Version,
        left: LevelMask,
        key: &'k [u8],
    ) -> CandidateFragments<'v, 'k> {
        CandidateFragments { version, key, left, level: 0, runs: [].iter() }
    }
}

impl<'v> Iterator for CandidateFragments<'v, '_> {
    type Item = (usize, &'v Arc<Fragment>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            for run in &mut self.runs {
                if let Some(fragment) = run.fragments.candidate(self.version.order(), self.key) {
                    return Some((self.level, fragment));
                }
            }
            let LevelMask(left) = self.left;
            if left == 0 {
                return None;
            }
            self.level = left.trailing_zeros() as usize;
            self.left = LevelMask(left & (left - 1));
            self.runs = self.version.guard_of(self.level, self.key).runs.iter();
        }
    }
}
