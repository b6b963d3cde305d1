//! Cursors over slices, concatenations and guards, compared with a sorted list of the expected
//! entries.
//!
//! Files hold several versions of each key. They are divided into slices at keys that they contain,
//! so that every seek target is the start or the end of a slice in some run.

use crate::tree::guard::SeekStats;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::key::{Kind, SEQNO_MAX, SeqNo};
use crate::base::order::KeyOrder;
use crate::fs::Fs;
use crate::fs::MemFs;
use crate::table::{FilterConfig, ReadConfig, TableOptions, TableWriter};
use crate::tree::cursor::{BoxedCursor, ConcatCursor, guard_cursor, run_cursor};
use crate::tree::fragment::{FileMeta, Fragment};
use crate::tree::guard::{Fragments, Guard, Level, Run};
use crate::tree::key_head_index::KeyHeadIndex;
use crate::tree::names;
use crate::tree::tables::Tables;

/// A key and a sequence number, which compare in internal order.
pub(super) type Entry = (Vec<u8>, std::cmp::Reverse<SeqNo>);

/// Number of distinct keys.
pub(super) const KEYS: u64 = 40;

pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % below
    }
}

pub(super) fn key(number: u64) -> Vec<u8> {
    format!("key{number:03}").into_bytes()
}

/// Returns a table opener with small blocks and no cache.
pub(super) fn tables(fs: &Arc<dyn Fs>) -> Arc<Tables> {
    let config = ReadConfig::without_cache(KeyOrder::Bytewise);
    Arc::new(Tables::new(fs.clone(), PathBuf::from("/"), config, 100))
}

/// Returns the kind of a version. Every eleventh one is a delete.
pub(super) fn kind(seqno: SeqNo) -> Kind {
    if seqno.is_multiple_of(11) { Kind::Delete } else { Kind::Put }
}

/// Creates a table with versions of the keys `from..to` and returns its entries. One key in `more`
/// has an additional version.
fn file(
    fs: &Arc<dyn Fs>,
    number: u64,
    keys: std::ops::Range<u64>,
    more: u64,
    random: &mut Random,
) -> (Arc<FileMeta>, Vec<Entry>) {
    let options = TableOptions {
        block_size_bytes: 128,
        filter: FilterConfig::None,
        ..TableOptions::default()
    };
    let path = names::table_path(Path::new("/"), number);
    let mut writer = TableWriter::create(&**fs, &path, number | 1 << 40, &options).unwrap();
    let mut entries = Vec::new();
    for k in keys.clone() {
        // The first and the last key are always present.
        if k != keys.start && k + 1 != keys.end && random.below(4) == 0 {
            continue;
        }
        for seqno in
            (1..=3).rev().filter(|s| *s == 2 || random.below(more) == 0).collect::<Vec<_>>()
        {
            let seqno = number * 10 + seqno;
            let value = if kind(seqno) == Kind::Put { seqno.to_string() } else { String::new() };
            writer.add(&key(k), seqno, kind(seqno), value.as_bytes()).unwrap();
            entries.push((key(k), std::cmp::Reverse(seqno)));
        }
    }
    let info = writer.finish().unwrap();
    (Arc::new(FileMeta::new(number, info, None)), entries)
}

/// Creates a run over all keys. Files are divided into slices at random keys, and some slices are
/// left out. See [`file`] for `more`.
pub(super) fn run(
    fs: &Arc<dyn Fs>,
    order: u64,
    more: u64,
    random: &mut Random,
) -> (Run, Vec<Entry>) {
    let (mut fragments, mut shown) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < KEYS {
        let end = (at + 2 + random.below(KEYS / 2)).min(KEYS);
        let (meta, entries) = file(fs, order * 100 + at, at..end, more, random);
        let mut cuts: Vec<u64> =
            (0..random.below(4)).map(|_| at + random.below(end - at)).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let mut los: Vec<Option<Vec<u8>>> = cuts.iter().map(|c| Some(key(*c))).collect();
        los.insert(0, None);
        for (i, lo) in los.iter().enumerate() {
            let hi = los.get(i + 1).cloned().flatten();
            if lo.is_some() && random.below(4) == 0 {
                continue;
            }
            let inside = |k: &Vec<u8>| {
                lo.as_ref().is_none_or(|lo| k >= lo) && hi.as_ref().is_none_or(|hi| k < hi)
            };
            // A slice before the file's first key would be empty.
            if hi.as_ref().is_some_and(|hi| *hi <= meta.info.smallest) {
                continue;
            }
            shown.extend(entries.iter().filter(|e| inside(&e.0)).cloned());
            let (file, lo) = (meta.clone(), lo.clone());
            fragments.push(Arc::new(Fragment { file, lo, hi, estimated_bytes: 0 }));
        }
        at = end;
    }
    (Run { order, fragments: Fragments::new(&KeyOrder::Bytewise, fragments) }, shown)
}

fn here(cursor: &BoxedCursor) -> Option<Entry> {
    cursor.valid().then(|| (cursor.key().to_vec(), std::cmp::Reverse(cursor.seqno())))
}

/// Tries every seek, each followed by moves in changing directions.
fn compare(cursor: &mut BoxedCursor, shown: &[Entry], random: &mut Random) {
    let entry = |at: Option<usize>| at.and_then(|at| shown.get(at)).cloned();
    let seqnos = [0, 1, 12, 102, 202, SEQNO_MAX];
    for k in 0..KEYS {
        for seqno in seqnos {
            let target = (key(k), std::cmp::Reverse(seqno));
            let after = shown.partition_point(|e| *e < target);
            let mut at = if random.below(2) == 0 {
                cursor.seek(&target.0, seqno).unwrap();
                Some(after)
            } else {
                cursor.seek_before(&target.0, seqno).unwrap();
                after.checked_sub(1)
            };
            for _ in 0..random.below(12) {
                assert_eq!(here(cursor), entry(at), "at {k} {seqno}");
                if !cursor.valid() {
                    break;
                }
                if random.below(3) == 0 {
                    cursor.next().unwrap();
                    at = at.map(|at| at + 1);
                } else {
                    cursor.prev().unwrap();
                    at = at.and_then(|at| at.checked_sub(1));
                }
            }
        }
    }
    cursor.seek_to_first().unwrap();
    assert_eq!(here(cursor), shown.first().cloned());
    cursor.seek_to_last().unwrap();
    assert_eq!(here(cursor), shown.last().cloned());
    assert_eq!(cursor.valid(), !shown.is_empty());
}

#[test]
fn run_cursor_shows_exactly_its_fragments() {
    for seed in 0..60 {
        let fs: Arc<dyn Fs> = MemFs::new();
        let mut random = Random(seed);
        let (run, shown) = run(&fs, 1, 2, &mut random);
        let mut cursor = run_cursor(&tables(&fs), &run, false).unwrap();
        compare(&mut cursor, &shown, &mut random);
    }
}

#[test]
fn concatenated_guards_show_every_fragment() {
    for seed in 100..140 {
        let fs: Arc<dyn Fs> = MemFs::new();
        let mut random = Random(seed);
        let (newer, mut shown) = run(&fs, 2, 2, &mut random);
        let (older, more) = run(&fs, 1, 2, &mut random);
        shown.extend(more);
        shown.sort();
        let runs = vec![newer, older];
        let whole =
            Guard { lo: None, hi: None, runs: runs.clone(), seek_stats: SeekStats::default() };
        let mut cursor = guard_cursor(&tables(&fs), &whole, false).unwrap();
        compare(&mut cursor, &shown, &mut random);

        let middle = Some(key(KEYS / 2));
        let half = |lo: &Option<Vec<u8>>, hi: &Option<Vec<u8>>| {
            let runs = runs.iter().map(|run| cut(run, lo, hi)).collect();
            Arc::new(Guard {
                lo: lo.clone(),
                hi: hi.clone(),
                runs,
                seek_stats: SeekStats::default(),
            })
        };
        let guards = vec![half(&None, &middle), half(&middle, &None)];
        let bounds: Vec<Vec<u8>> = middle.into_iter().collect();
        let bounds_index = KeyHeadIndex::new(&KeyOrder::Bytewise, bounds.iter().map(Vec::as_slice));
        let level = Arc::new(Level { guards, bounds, bounds_index, pieces: Vec::new() });
        let mut cursor: BoxedCursor = Box::new(ConcatCursor::new(tables(&fs), level, false));
        compare(&mut cursor, &shown, &mut random);
    }
}

/// Returns the part of a run within `[lo, hi)`. One of the bounds is infinite.
fn cut(run: &Run, lo: &Option<Vec<u8>>, hi: &Option<Vec<u8>>) -> Run {
    let mut fragments = Vec::new();
    for f in &run.fragments {
        let lo = f.lo.clone().max(lo.clone());
        let hi = [f.hi.clone(), hi.clone()].into_iter().flatten().min();
        let info = &f.file.info;
        let outside = lo.as_ref().is_some_and(|lo| *lo > info.largest)
            || hi.as_ref().is_some_and(|hi| *hi <= info.smallest)
            || lo.as_ref().zip(hi.as_ref()).is_some_and(|(lo, hi)| lo >= hi);
        if !outside {
            let file = f.file.clone();
            fragments.push(Arc::new(Fragment { file, lo, hi, estimated_bytes: 0 }));
        }
    }
    Run { order: run.order, fragments: Fragments::new(&KeyOrder::Bytewise, fragments) }
}

#[test]
fn open_files_stay_within_limit_and_replace_closed_ones() {
    let fs: Arc<dyn Fs> = MemFs::new();
    let config = tables(&fs).config().clone();
    let tables = Tables::new(fs, PathBuf::from("/"), config, 4);
    for _ in 0..3 {
        let (first, second) = (tables.permit_unread(), tables.permit_unread());
        assert!(first.is_some() && second.is_some() && tables.permit_unread().is_none());
        drop(first);
        let third = tables.permit_unread();
        assert!(third.is_some() && tables.permit_unread().is_none());
    }
}
