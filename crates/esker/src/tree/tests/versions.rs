//! Versions compared with a model without guards. The model has, for each level, the set of visible
//! (run, file, key) triples and the set of bounds.
//!
//! Failure history behind these tests: an empty remainder of a cut file kept the file alive; a
//! slice reappeared when its bound was removed; a tombstone was dropped above older data.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::base::thresholds::Thresholds;
use crate::error::ErrorKind;
use crate::tree::version::OlderThan;

/// Number of distinct keys.
const KEYS: u8 = 24;
const LEVELS_USED: usize = 4;

/// Returns a key of the test. Keys sort by `number` under `order`. Number 0 is the empty key, if
/// that key sorts first.
fn key(order: &KeyOrder, number: u8) -> Vec<u8> {
    match order {
        KeyOrder::Reverse => vec![255 - number],
        _ if number == 0 => Vec::new(),
        _ => vec![number],
    }
}

fn number(order: &KeyOrder, key: &[u8]) -> u8 {
    match order {
        KeyOrder::Reverse => 255 - key[0],
        _ => key.first().copied().unwrap_or(0),
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
struct ModelLevel {
    bounds: BTreeSet<u8>,
    /// (run, file, key)
    cells: BTreeSet<(u64, u64, u8)>,
}

#[derive(Debug, Clone)]
struct Model {
    order: KeyOrder,
    levels: Vec<ModelLevel>,
    /// First and last key of each file ever created, by number.
    files: Vec<(u8, u8)>,
}

impl Model {
    fn new(order: KeyOrder) -> Model {
        Model { order, levels: vec![ModelLevel::default(); 8], files: Vec::new() }
    }

    fn shown(&self, lo: &Option<Vec<u8>>, hi: &Option<Vec<u8>>, k: u8) -> bool {
        lo.as_ref().is_none_or(|lo| number(&self.order, lo) <= k)
            && hi.as_ref().is_none_or(|hi| k < number(&self.order, hi))
    }

    /// Returns the next model, or `None` when two slices of one run would share a key.
    fn after(&self, edit: &VersionEdit) -> Option<Model> {
        let mut next = self.clone();
        for removed in &edit.removed {
            let cells = &mut next.levels[removed.level].cells;
            cells.retain(|c| c.1 != removed.file || !self.shown(&removed.lo, &removed.hi, c.2));
        }
        for slice in &edit.added {
            let file = match &slice.file {
                AddedFile::New { number: file, info } => {
                    let order = &self.order;
                    next.files.push((number(order, &info.smallest), number(order, &info.largest)));
                    assert_eq!(next.files.len() as u64, *file);
                    *file
                }
                AddedFile::Existing(file) => *file,
            };
            let (first, last) = next.files[file as usize - 1];
            for k in (first..=last).filter(|k| self.shown(&slice.lo, &slice.hi, *k)) {
                let cells = &mut next.levels[slice.level].cells;
                if cells.iter().any(|c| c.0 == slice.order && c.2 == k) {
                    return None;
                }
                cells.insert((slice.order, file, k));
            }
        }
        for (level, bound) in &edit.bounds_removed {
            next.levels[*level].bounds.remove(&number(&self.order, bound));
        }
        for (level, bound) in &edit.bounds_added {
            next.levels[*level].bounds.insert(number(&self.order, bound));
        }
        Some(next)
    }

    fn live(&self) -> BTreeSet<u64> {
        self.levels.iter().flat_map(|l| &l.cells).map(|c| c.1).collect()
    }
}

/// A random step. Its numbers are interpreted against a model.
#[derive(Debug, Clone)]
enum Step {
    New { level: usize, order: u64, ends: (u8, u8), cut: (Option<u8>, Option<u8>) },
    Again { level: usize, order: u64, pick: usize, cut: (Option<u8>, Option<u8>) },
    Remove { pick: usize, cut: (Option<u8>, Option<u8>) },
    Move { pick: usize, down: usize, order: u64 },
    Bound { level: usize, key: u8 },
    Unbound { level: usize, pick: usize },
}

fn cut() -> impl Strategy<Value = (Option<u8>, Option<u8>)> {
    (prop::option::of(0..KEYS), prop::option::of(0..KEYS))
}

fn step() -> impl Strategy<Value = Step> {
    let level = 0..LEVELS_USED;
    let (keys, order) = ((0..KEYS, 0..KEYS), 1..12u64);
    prop_oneof![
        4 => (level.clone(), order.clone(), keys, cut())
            .prop_map(|(level, order, ends, cut)| Step::New { level, order, ends, cut }),
        1 => (level.clone(), order.clone(), any::<usize>(), cut())
            .prop_map(|(level, order, pick, cut)| Step::Again { level, order, pick, cut }),
        2 => (any::<usize>(), cut()).prop_map(|(pick, cut)| Step::Remove { pick, cut }),
        1 => (any::<usize>(), 0..LEVELS_USED, order)
            .prop_map(|(pick, down, order)| Step::Move { pick, down, order }),
        3 => (1..LEVELS_USED, 0..KEYS).prop_map(|(level, key)| Step::Bound { level, key }),
        1 => (level, any::<usize>()).prop_map(|(level, pick)| Step::Unbound { level, pick }),
    ]
}

/// Returns the edit made of those steps that fit the model.
fn edit_of(model: &Model, steps: &[Step]) -> VersionEdit {
    let mut edit = VersionEdit::default();
    let mut files = model.files.clone();
    let k = |n: u8| key(&model.order, n);
    let ordered = |cut: &(Option<u8>, Option<u8>)| match *cut {
        (Some(a), Some(b)) if a >= b => (None, None),
        other => other,
    };
    // A slice must cover some key of its file, and so must the part of the file that a removal
    // leaves.
    let hits = |(first, last): (u8, u8), cut: (Option<u8>, Option<u8>)| {
        cut.0.is_none_or(|lo| lo <= last) && cut.1.is_none_or(|hi| first < hi)
    };
    let cells: Vec<(usize, (u64, u64, u8))> = (model.levels.iter().enumerate())
        .flat_map(|(n, l)| l.cells.iter().map(move |c| (n, *c)))
        .collect();
    for step in steps {
        match step {
            Step::New { level, order, ends, cut } => {
                let (first, last) = (ends.0.min(ends.1), ends.0.max(ends.1));
                let cut = ordered(cut);
                if hits((first, last), cut) {
                    files.push((first, last));
                    let mut slice = added(*level, *order, files.len() as u64, &k(first), &k(last));
                    (slice.lo, slice.hi) = (cut.0.map(k), cut.1.map(k));
                    edit.added.push(slice);
                }
            }
            Step::Again { level, order, pick, cut } if !cells.is_empty() => {
                let file = cells[pick % cells.len()].1.1;
                let cut = ordered(cut);
                if hits(files[file as usize - 1], cut) {
                    let (lo, hi) = (cut.0.map(k), cut.1.map(k));
                    let file = AddedFile::Existing(file);
                    edit.added.push(AddedSlice { level: *level, order: *order, file, lo, hi });
                }
            }
            Step::Remove { pick, cut } if !cells.is_empty() => {
                let (level, (_, file, at)) = cells[pick % cells.len()];
                let cut = ordered(cut);
                let hit = cut.0.is_none_or(|lo| lo <= at) && cut.1.is_none_or(|hi| at < hi);
                let taken = edit.removed.iter().any(|r| (r.level, r.file) == (level, file));
                if hit && !taken {
                    let (lo, hi) = (cut.0.map(k), cut.1.map(k));
                    edit.removed.push(RemovedSlice { level, file, lo, hi });
                }
            }
            Step::Move { pick, down, order } if !cells.is_empty() => {
                let (level, (_, file, _)) = cells[pick % cells.len()];
                if !edit.removed.iter().any(|r| (r.level, r.file) == (level, file)) {
                    edit.removed.push(removed(level, file, None, None));
                    let (level, file) = (*down, AddedFile::Existing(file));
                    let slice = AddedSlice { level, order: *order, file, lo: None, hi: None };
                    edit.added.push(slice);
                }
            }
            Step::Bound { level, key } => edit.bounds_added.push((*level, k(*key))),
            Step::Unbound { level, pick } => {
                let bounds: Vec<u8> = model.levels[*level].bounds.iter().copied().collect();
                if !bounds.is_empty() {
                    edit.bounds_removed.push((*level, k(bounds[pick % bounds.len()])));
                }
            }
            _ => {}
        }
    }
    edit
}

/// Compares every level, guard and slice of `version` with the model.
fn compare(version: &Version, model: &Model) {
    let order = &model.order;
    for (number_of, (level, want)) in version.levels.iter().zip(&model.levels).enumerate() {
        let bounds: Vec<Vec<u8>> = want.bounds.iter().map(|b| key(order, *b)).collect();
        assert_eq!(level.bounds(), bounds, "bounds of level {number_of}");
        let mut edges = vec![None];
        edges.extend(bounds.into_iter().map(Some));
        edges.push(None);
        assert_eq!(level.guards.len() + 1, edges.len());
        for (guard, edge) in level.guards.iter().zip(edges.windows(2)) {
            assert_eq!((&guard.lo, &guard.hi), (&edge[0], &edge[1]), "guards partition the keys");
            assert!(guard.runs.windows(2).all(|w| w[0].order > w[1].order), "newest first");
            for (_, fragment) in guard.fragments() {
                let shows = (0..KEYS).any(|k| fragment.contains(order, &key(order, k)));
                assert!(shows, "a slice of {:?} shows nothing", fragment.file);
            }
        }
        for k in 0..KEYS {
            let bytes = key(order, k);
            let mut cells: Vec<(u64, u64)> =
                want.cells.iter().filter(|c| c.2 == k).map(|c| (c.0, c.1)).collect();
            cells.reverse();
            let mine = version.guard_of(number_of, &bytes);
            for guard in &level.guards {
                let here: Vec<(u64, u64)> = guard
                    .fragments()
                    .filter(|(_, f)| f.contains(order, &bytes))
                    .map(|(age, f)| (age, f.file.number))
                    .collect();
                let expected = if Arc::ptr_eq(guard, mine) { &cells[..] } else { &[] };
                assert_eq!(here, expected, "key {k} in level {number_of}");
            }
        }
    }
    let files: BTreeSet<u64> = version.files().iter().map(|f| f.number).collect();
    assert_eq!(files, model.live(), "a file lives as long as a slice shows it");
    let deepest = model.levels.iter().rposition(|l| !l.cells.is_empty());
    assert_eq!(version.deepest_nonempty(), deepest);
}

/// Checks that [`Version::older_ranges`] covers every key older than the inputs.
fn compare_older(version: &Version, model: &Model, level: usize, newest: u64, input: u64) {
    let order = &model.order;
    let inputs = [(level, input)];
    let ranges = version.older_ranges(&OlderThan {
        level,
        newest: &[(level, newest)],
        inputs: &inputs,
        lo: None,
        hi: None,
    });
    for (number_of, content) in model.levels.iter().enumerate().skip(level) {
        for (age, file, k) in &content.cells {
            let counts = number_of > level || (*age <= newest && *file != input);
            let bytes = key(order, *k);
            let found = ranges.iter().any(|(first, last)| {
                order.compare(first, &bytes).is_le() && order.compare(&bytes, last).is_le()
            });
            assert!(!counts || found, "key {k} of file {file} in level {number_of} is older");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn versions_match_naive_model(
        reverse in any::<bool>(),
        edits in prop::collection::vec(prop::collection::vec(step(), 1..4), 1..25),
        probe in (0..LEVELS_USED, 1..12u64, 1..20u64),
    ) {
        let order = if reverse { KeyOrder::Reverse } else { KeyOrder::Bytewise };
        let (mut version, mut model) = (Version::empty(order.clone()), Model::new(order));
        for steps in &edits {
            let edit = edit_of(&model, steps);
            let edit = VersionEdit::decode(&edit.encode()).expect("an edit reads back");
            match (after(&version, &edit), model.after(&edit)) {
                (Ok(next), Some(want)) => (version, model) = (next, want),
                (Err(error), None) => prop_assert_eq!(error.kind(), ErrorKind::Corruption),
                (Ok(_), None) => prop_assert!(false, "overlapping slices were accepted: {edit:?}"),
                (Err(error), Some(_)) => prop_assert!(false, "{error}: {edit:?}"),
            }
            compare(&version, &model);
            compare_older(&version, &model, probe.0, probe.1, probe.2);
        }
        let again = after(&Version::empty(version.order().clone()), &version.to_edit()).unwrap();
        prop_assert_eq!(picture(&again), picture(&version));
    }
}

#[test]
fn version_and_its_successors_have_threshold_of_many_entries() {
    let add = |number: u64| VersionEdit {
        added: vec![added(1, number, number, &[number as u8], &[number as u8])],
        ..VersionEdit::default()
    };
    let mut small = empty();
    small.set_thresholds(&Thresholds { many_entries_min: 20, ..Thresholds::default() });
    // Each file has ten entries.
    let one = after(&small, &add(1)).unwrap();
    let two = after(&one, &add(2)).unwrap();
    assert!(!one.has_many_entries() && two.has_many_entries());
    let shipped = after(&after(&empty(), &add(1)).unwrap(), &add(2)).unwrap();
    assert!(!shipped.has_many_entries());
}

#[test]
fn guard_bound_splits_file_and_its_removal_joins_it() {
    let mut version = empty();
    let edit = VersionEdit { added: vec![added(1, 5, 1, b"b", b"y")], ..VersionEdit::default() };
    version = after(&version, &edit).unwrap();
    let whole = picture(&version);
    let bounds = vec![(1, b"m".to_vec()), (1, b"z".to_vec())];
    let edit = VersionEdit { bounds_added: bounds.clone(), ..VersionEdit::default() };
    version = after(&version, &edit).unwrap();
    let want = "1 [.. [109])\n  run 5 file 1 [.. [109])\n\
                1 [[109] [122])\n  run 5 file 1 [[109] [122])\n1 [[122] ..)\n";
    assert_eq!(picture(&version), want);
    let edit = VersionEdit { bounds_removed: bounds, ..VersionEdit::default() };
    assert_eq!(picture(&after(&version, &edit).unwrap()), whole);
}

#[test]
fn guards_are_found_by_key_and_range() {
    let bounds = [b"g", b"p"].map(|b| (2, b.to_vec())).to_vec();
    let edit = VersionEdit { bounds_added: bounds, ..VersionEdit::default() };
    let version = after(&empty(), &edit).unwrap();
    let lo_of = |key: &[u8]| version.guard_of(2, key).lo.clone();
    assert_eq!([lo_of(b""), lo_of(b"f"), lo_of(b"g")], [None, None, Some(b"g".to_vec())]);
    let count = |lo: Option<&[u8]>, hi: Option<&[u8]>| version.guards_overlapping(2, lo, hi).len();
    assert_eq!(count(None, None), 3);
    assert_eq!(count(Some(b"a"), Some(b"f")), 1);
    assert_eq!(count(Some(b"a"), Some(b"g")), 2, "the end of the range is part of it");
    assert_eq!(count(Some(b"p"), None), 1);
    assert_eq!(count(Some(b"x"), Some(b"a")), 1, "an empty range must not panic");
}

#[test]
fn invalid_edits_change_nothing_and_name_reason() {
    let base = VersionEdit { added: vec![added(1, 5, 1, b"b", b"d")], ..VersionEdit::default() };
    let version = after(&empty(), &base).unwrap();
    let existing = |file| AddedSlice {
        level: 1,
        order: 6,
        file: AddedFile::Existing(file),
        lo: None,
        hi: None,
    };
    let with = |change: &dyn Fn(&mut VersionEdit)| {
        let mut edit = VersionEdit::default();
        change(&mut edit);
        edit
    };
    let cases = [
        ("overlap in a run", with(&|e| e.added.push(added(1, 5, 2, b"d", b"f")))),
        ("a file number twice", with(&|e| e.added.push(added(2, 7, 1, b"x", b"y")))),
        ("an unknown file", with(&|e| e.added.push(existing(9)))),
        ("no such level", with(&|e| e.added.push(added(8, 7, 2, b"x", b"y")))),
        ("no such level to cut", with(&|e| e.bounds_added.push((99, b"x".to_vec())))),
        ("a bound in level 0", with(&|e| e.bounds_added.push((0, b"x".to_vec())))),
        ("a removal of a missing file", with(&|e| e.removed.push(removed(1, 9, None, None)))),
        ("a removal in another level", with(&|e| e.removed.push(removed(2, 1, None, None)))),
    ];
    let before = picture(&version);
    for (name, edit) in cases {
        let error = after(&version, &edit).expect_err(name);
        assert_eq!(error.kind(), ErrorKind::Corruption, "{name}: {error}");
        assert_eq!(picture(&version), before);
    }
}

#[test]
fn data_older_than_newest_runs_is_oldest_runs_and_levels_below() {
    let added = vec![
        added(0, 9, 1, b"a", b"z"),
        added(1, 8, 2, b"a", b"f"),
        added(1, 7, 3, b"b", b"g"),
        added(1, 6, 4, b"c", b"h"),
        added(2, 5, 5, b"k", b"m"),
    ];
    let version = after(&empty(), &VersionEdit { added, ..VersionEdit::default() }).unwrap();
    let query = |newest, inputs: &[(usize, u64)], lo: Option<&[u8]>, hi: Option<&[u8]>| {
        version.older_ranges(&OlderThan { level: 1, newest: &[(1, newest)], inputs, lo, hi })
    };
    let range = |a: &[u8], b: &[u8]| (a.to_vec(), b.to_vec());
    let below = range(b"k", b"m");
    assert_eq!(query(8, &[(1, 2), (1, 3)], None, None), [range(b"c", b"h"), below.clone()]);
    assert_eq!(query(7, &[(1, 3), (1, 4)], None, None), [below], "file 2 is newer, file 1 above");
    assert_eq!(query(8, &[(1, 2), (1, 3), (1, 4)], None, Some(b"k")), []);
    assert_eq!(query(8, &[(1, 2), (1, 3), (1, 4)], Some(b"n"), None), []);
}

#[test]
fn only_files_with_range_tombstones_are_read_for_them() {
    let mut with = added(1, 5, 2, b"e", b"g");
    if let AddedFile::New { info, .. } = &mut with.file {
        info.range_deletes = 1;
    }
    let added = vec![added(0, 9, 1, b"a", b"z"), with, added(1, 5, 3, b"h", b"m")];
    let edit = VersionEdit { bounds_added: vec![(1, b"f".to_vec())], added, ..Default::default() };
    let version = after(&empty(), &edit).unwrap();
    let files = |version: &Version| -> Vec<u64> {
        version.fragments_with_range_deletes().iter().map(|f| f.file.number).collect()
    };
    assert_eq!(files(&version), [2, 2], "once for each slice");
    let edit = VersionEdit { removed: vec![removed(1, 2, None, None)], ..Default::default() };
    assert_eq!(files(&after(&version, &edit).unwrap()), [0u64; 0]);
}
