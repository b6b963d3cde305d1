//! Compares tables with a sorted map: every way to write one, every way to read it, and damage.

mod damage;
mod dictionary;
mod files;
mod partitions;
mod sketches;

use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

use crate::base::cursor::{Cursor, PrefetchStep};
use crate::base::key::{Kind, SEQNO_MAX, SeqNo};
use crate::base::order::{Comparator, KeyOrder};
use crate::base::range_delete::RangeDelete;
use crate::cache::BlockCache;
use crate::error::{ErrorKind, Result};
use crate::options::kinds::{BlockLayout, CachePolicy, Compression, IndexSearch};

use super::*;
use files::Files;

const TABLE_ID: u64 = 0x1234_5678_9ABC_DEF0;

/// An entry: key, sequence number, kind, value.
type Entry = (Vec<u8>, SeqNo, Kind, Vec<u8>);

/// Shorter keys first, then bytewise. An order without heads that is not its own reverse.
struct ByLength;

impl Comparator for ByLength {
    fn name(&self) -> &str {
        "test.by_length"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len()).then(a.cmp(b))
    }
}

/// A filter of one byte per possible first byte of a key.
struct FirstByte;

impl FilterPolicy for FirstByte {
    fn name(&self) -> &str {
        "test.first_byte"
    }

    fn create(&self, keys: &[&[u8]]) -> Vec<u8> {
        let mut filter = vec![0; 257];
        keys.iter().for_each(|key| filter[key.first().map_or(256, |&b| b.into())] = 1);
        filter
    }

    fn may_contain(&self, key: &[u8], filter: &[u8]) -> bool {
        filter.get(key.first().map_or(256, |&b| b.into())) != Some(&0)
    }
}

/// A small random number generator. The seed is part of every test.
struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        (self.0 >> 33) % below
    }

    fn bytes(&mut self, len: u64, alphabet: u64) -> Vec<u8> {
        (0..len).map(|_| self.below(alphabet) as u8 + b'a').collect()
    }
}

fn internal(order: &KeyOrder, a: &Entry, b: &Entry) -> Ordering {
    order.compare(&a.0, &b.0).then(b.1.cmp(&a.1))
}

/// Generates sorted keys of many shapes, with up to five versions each and some deletes.
fn entries(seed: u64, count: usize, order: &KeyOrder) -> Vec<Entry> {
    let mut random = Random(seed);
    let mut list = vec![(Vec::new(), 3, Kind::Put, b"empty key".to_vec())];
    while list.len() < count {
        let key = match random.below(5) {
            0 => {
                let len = random.below(5);
                random.bytes(len, 3)
            }
            1 => format!("user{:012}", random.below(1000)).into_bytes(),
            2 => format!("{:016}", random.below(1000)).into_bytes(),
            3 => {
                let mut key = random.bytes(2, 2);
                key.resize(2 + random.below(12) as usize, 0);
                key
            }
            _ => {
                let len = random.below(40);
                random.bytes(len, 26)
            }
        };
        for _ in 0..=random.below(12).saturating_sub(7) {
            let kind = if random.below(6) == 0 { Kind::Delete } else { Kind::Put };
            let len = if kind == Kind::Delete { 0 } else { random.below(60) };
            let value = random.bytes(len, 26);
            list.push((key.clone(), random.below(500), kind, value));
        }
    }
    list.sort_by(|a, b| internal(order, a, b));
    list.dedup_by(|a, b| a.0 == b.0 && a.1 == b.1);
    list
}

fn options(order: &KeyOrder) -> TableOptions {
    TableOptions { order: order.clone(), block_size_bytes: 512, ..TableOptions::default() }
}

fn write(
    files: &Files,
    options: &TableOptions,
    entries: &[Entry],
    tombstones: &[RangeDelete],
) -> Result<TableInfo> {
    let mut writer = TableWriter::create(files, Path::new("t"), TABLE_ID, options)?;
    for (key, seqno, kind, value) in entries {
        writer.add(key, *seqno, *kind, value)?;
    }
    for tombstone in tombstones {
        writer.add_range_delete(tombstone)?;
    }
    writer.finish()
}

fn config(order: &KeyOrder, cache_bytes: u64) -> ReadConfig {
    ReadConfig {
        index_search: IndexSearch::Btree,
        cache: Arc::new(BlockCache::new(CachePolicy::Lru, cache_bytes)),
        filter_policy: Some(Arc::new(FirstByte)),
        ..ReadConfig::without_cache(order.clone())
    }
}

fn source(files: &Arc<Files>, size_bytes: u64) -> TableSource {
    TableSource {
        fs: files.clone(),
        path: "t".into(),
        file_number: 7,
        table_id: TABLE_ID,
        size_bytes,
        ingested: None,
    }
}

/// Writes a table and opens it.
fn table(
    options: &TableOptions,
    config: &ReadConfig,
    entries: &[Entry],
    tombstones: &[RangeDelete],
) -> Arc<Table> {
    let files = Arc::new(Files::default());
    let info = write(&files, options, entries, tombstones).unwrap();
    let table = Table::open(source(&files, info.size_bytes), config).unwrap();
    assert_eq!(*table.info(), info);
    assert_eq!(info.size_bytes, files.bytes(Path::new("t")).len() as u64);
    Arc::new(table)
}

fn here(cursor: &TableCursor) -> Option<Entry> {
    cursor
        .valid()
        .then(|| (cursor.key().to_vec(), cursor.seqno(), cursor.kind(), cursor.value().to_vec()))
}

/// Returns all entries by a forward scan.
fn forward(table: &Arc<Table>, fill_cache: bool) -> Result<Vec<Entry>> {
    let mut cursor = table.cursor(fill_cache);
    let mut list = Vec::new();
    cursor.seek_to_first()?;
    while let Some(entry) = here(&cursor) {
        list.push(entry);
        cursor.next()?;
    }
    Ok(list)
}

/// Returns all entries by a backward scan.
fn backward(table: &Arc<Table>) -> Result<Vec<Entry>> {
    let mut cursor = table.cursor(true);
    let mut list = Vec::new();
    cursor.seek_to_last()?;
    while let Some(entry) = here(&cursor) {
        list.push(entry);
        cursor.prev()?;
    }
    Ok(list)
}

/// Returns the entry that a read at `(key, seqno)` must find.
fn newest<'a>(order: &KeyOrder, list: &'a [Entry], key: &[u8], seqno: SeqNo) -> Option<&'a Entry> {
    let at = lower_bound(order, list, key, seqno);
    list.get(at).filter(|entry| entry.0 == key)
}

fn lower_bound(order: &KeyOrder, list: &[Entry], key: &[u8], seqno: SeqNo) -> usize {
    list.partition_point(|e| order.compare(&e.0, key).then(seqno.cmp(&e.1)).is_lt())
}

/// Checks gets, and seeks and steps in both directions, at and around many keys.
fn compare_points(table: &Arc<Table>, order: &KeyOrder, list: &[Entry], seed: u64, rounds: usize) {
    let mut random = Random(seed);
    let mut cursor = table.cursor(true);
    for round in 0..rounds {
        let mut key = match list.len() {
            0 => Vec::new(),
            len => list[random.below(len as u64) as usize].0.clone(),
        };
        match round % 4 {
            0 => key.push(0),
            1 => {
                key.pop();
            }
            _ => {}
        }
        let seqno = [SEQNO_MAX, random.below(500), 0][round % 3];
        let want = newest(order, list, &key, seqno);
        let got = table.get(&key, key_hash(&key), seqno, true).unwrap();
        assert_eq!(
            got.map(|hit| (hit.seqno, hit.kind, hit.value.to_vec())),
            want.map(|e| (e.1, e.2, e.3.clone())),
            "get {key:?} at {seqno}"
        );
        let at = lower_bound(order, list, &key, seqno);
        cursor.seek(&key, seqno).unwrap();
        assert_eq!(here(&cursor).as_ref(), list.get(at), "seek {key:?} at {seqno}");
        if cursor.valid() {
            cursor.next().unwrap();
            assert_eq!(here(&cursor).as_ref(), list.get(at + 1));
            if cursor.valid() {
                cursor.prev().unwrap();
                assert_eq!(here(&cursor).as_ref(), list.get(at));
                cursor.prev().unwrap();
                assert_eq!(here(&cursor).as_ref(), at.checked_sub(1).map(|i| &list[i]));
            }
        }
        // Announces a seek that never comes, as when another cursor fails first.
        if let Some(other) = list.get(at * 7 % list.len().max(1)) {
            cursor.prefetch_seek(&other.0, PrefetchStep::Block, true);
        }
        cursor.seek_before(&key, seqno).unwrap();
        let before = at.checked_sub(1).map(|i| &list[i]);
        assert_eq!(here(&cursor).as_ref(), before, "seek_before {key:?} at {seqno}");
        if cursor.valid() {
            cursor.next().unwrap();
            assert_eq!(here(&cursor).as_ref(), list.get(at));
        }
    }
}

fn compare_all(table: &Arc<Table>, order: &KeyOrder, list: &[Entry]) {
    assert_eq!(forward(table, true).unwrap(), list);
    assert_eq!(forward(table, false).unwrap(), list);
    let reversed: Vec<Entry> = list.iter().rev().cloned().collect();
    assert_eq!(backward(table).unwrap(), reversed);
    compare_points(table, order, list, 11, 200);
    assert_eq!(table.check().unwrap(), *table.info());
}

fn orders() -> [KeyOrder; 3] {
    [KeyOrder::Bytewise, KeyOrder::Reverse, KeyOrder::Custom(Arc::new(ByLength))]
}

#[test]
fn every_layout_and_search_matches_sorted_list() {
    let filters = [
        FilterConfig::None,
        FilterConfig::Bloom { bits_per_key: 10.0 },
        FilterConfig::Custom(Arc::new(FirstByte)),
    ];
    for order in orders() {
        let list = entries(1, 700, &order);
        let mut hashes = Vec::new();
        for &layout in BlockLayout::ALL {
            for &compression in Compression::ALL {
                for filter in &filters {
                    let options = TableOptions {
                        layout,
                        compression,
                        filter: filter.clone(),
                        restart_interval: [16, 1, 3][hashes.len() % 3],
                        ..options(&order)
                    };
                    for (i, &index_search) in IndexSearch::ALL.iter().enumerate() {
                        let config = ReadConfig {
                            index_search,
                            index_fanout: [2, 16, 5][i],
                            keep_open: i != 1,
                            ..config(&order, [0, 4 << 10, 64 << 20][i])
                        };
                        let table = table(&options, &config, &list, &[]);
                        compare_all(&table, &order, &list);
                        hashes.push(table.info().content_hash);
                    }
                }
            }
        }
        hashes.dedup();
        assert_eq!(hashes.len(), 1, "the content hash depends on the content only");
    }
}

#[test]
fn tables_of_many_shapes_match_sorted_list() {
    for seed in 0..40 {
        let order = &orders()[seed as usize % 3];
        let count = [0, 1, 2, 10, 300, 2000][seed as usize % 6];
        let list = if count == 0 { Vec::new() } else { entries(seed, count, order) };
        let options = TableOptions {
            block_size_bytes: [1, 64, 300, 4096, 1 << 20][seed as usize % 5],
            layout: BlockLayout::ALL[seed as usize % 2],
            ..options(order)
        };
        let table = table(&options, &config(order, 1 << 20), &list, &[]);
        compare_all(&table, order, &list);
    }
}

#[test]
fn sequential_fixed_length_keys_match_sorted_list() {
    let order = KeyOrder::Bytewise;
    for (seqno, key_bytes) in [(0, 16), (5, 16), (1 << 40, 24), (0, 3)] {
        let list: Vec<Entry> = (0..900u64)
            .map(|i| {
                let key = format!("{i:0key_bytes$}").into_bytes();
                (key, seqno + i % 2 * (seqno / 2), Kind::Put, vec![b'v'; 100])
            })
            .collect();
        let table = table(&options(&order), &config(&order, 1 << 20), &list, &[]);
        compare_all(&table, &order, &list);
    }
}

#[test]
fn many_versions_of_one_key_cross_blocks() {
    for order in orders() {
        for layout in BlockLayout::ALL {
            let mut list = vec![(b"a".to_vec(), 9, Kind::Put, b"first".to_vec())];
            list.extend((0..300).map(|i| (b"kk".to_vec(), 2 * i, Kind::Put, vec![b'x'; 30])));
            list.push((b"zzz".to_vec(), 1, Kind::Put, b"last".to_vec()));
            list.sort_by(|a, b| internal(&order, a, b));
            let options = TableOptions { layout: *layout, ..options(&order) };
            let table = table(&options, &config(&order, 1 << 20), &list, &[]);
            compare_all(&table, &order, &list);
            for seqno in 0..610 {
                let want = newest(&order, &list, b"kk", seqno).map(|e| e.1);
                let got =
                    table.get(b"kk", key_hash(b"kk"), seqno, true).unwrap().map(|hit| hit.seqno);
                assert_eq!(got, want);
            }
        }
    }
}

#[test]
fn large_entries_get_their_own_block() {
    let order = KeyOrder::Bytewise;
    let mut list: Vec<Entry> = vec![
        (b"a".to_vec(), 1, Kind::Put, vec![1; 3 << 20]),
        (vec![b'b'; KEY_BYTES_LIMIT], 1, Kind::Put, b"small".to_vec()),
        (b"c".to_vec(), 1, Kind::Put, vec![]),
        (b"d".to_vec(), 1, Kind::Put, vec![2; 70_000]),
    ];
    list.push(([vec![b'b'; KEY_BYTES_LIMIT - 1], vec![b'c']].concat(), 1, Kind::Put, vec![3; 9]));
    list.sort_by(|a, b| internal(&order, a, b));
    for &layout in BlockLayout::ALL {
        for &compression in Compression::ALL {
            for block_size_bytes in [512, 8 << 20] {
                let options =
                    TableOptions { layout, compression, block_size_bytes, ..options(&order) };
                let table = table(&options, &config(&order, 64 << 20), &list, &[]);
                compare_all(&table, &order, &list);
            }
        }
    }
}

const KEY_BYTES_LIMIT: usize = crate::base::key::STORED_KEY_BYTES_MAX;

#[test]
fn table_with_only_range_tombstones_keeps_them() {
    for order in orders() {
        let tombstone = |start: &str, end: &str, seqno| RangeDelete {
            start: start.into(),
            end: end.into(),
            seqno,
        };
        let list = [
            tombstone("b", "f", 8),
            tombstone("f", "b", 9),
            tombstone("d", "k", 3),
            tombstone("k", "d", 4),
            tombstone("x", "x", 5),
        ];
        let table = table(&options(&order), &config(&order, 0), &[], &list);
        let info = table.info();
        assert_eq!((info.entries, info.range_deletes), (0, 2));
        assert_eq!((info.seqno_min, info.seqno_max), {
            let forward = order.compare(b"b", b"f").is_lt();
            if forward { (3, 8) } else { (4, 9) }
        });
        assert!(order.compare(&info.smallest, &info.largest).is_lt());
        assert!(order.compare(&info.smallest, b"e").is_lt());
        assert_eq!(table.range_deletes().covering(&order, b"e", 100), Some(info.seqno_max));
        assert!(table.get(b"e", key_hash(b"e"), SEQNO_MAX, true).unwrap().is_none());
        compare_all(&table, &order, &[]);
        assert_eq!(table.approximate_offset(b"e"), 0);
    }
}

#[test]
fn properties_match_content() {
    let order = KeyOrder::Bytewise;
    let list = entries(5, 400, &order);
    let tombstone = RangeDelete { start: b"m".to_vec(), end: b"~~".to_vec(), seqno: 900 };
    let table = table(&options(&order), &config(&order, 0), &list, &[tombstone]);
    let info = table.info();
    assert_eq!(info.entries, list.len() as u64);
    assert_eq!(info.deletes, list.iter().filter(|e| e.2 == Kind::Delete).count() as u64);
    assert_eq!(info.raw_bytes, list.iter().map(|e| (e.0.len() + e.3.len()) as u64).sum::<u64>());
    assert_eq!((info.smallest.as_slice(), info.largest.as_slice()), (&b""[..], &b"~~"[..]));
    assert_eq!(info.seqno_max, 900);
    assert_eq!(Some(info.seqno_min), list.iter().map(|e| e.1).min());
    assert!(table.memory_bytes() > 1000);
    let offsets: Vec<u64> = list.iter().map(|e| table.approximate_offset(&e.0)).collect();
    assert!(offsets.is_sorted() && offsets[0] == 0);
    assert!(table.approximate_offset(b"~") > *offsets.last().unwrap());
}

#[test]
fn writer_refuses_unordered_and_oversized_entries() {
    let order = KeyOrder::Bytewise;
    let files = Files::default();
    let mut writer =
        TableWriter::create(&files, Path::new("t"), TABLE_ID, &options(&order)).unwrap();
    writer.add(b"b", 5, Kind::Put, b"x").unwrap();
    let long = vec![0; KEY_BYTES_LIMIT + 1];
    for refused in [
        writer.add(b"a", 9, Kind::Put, b""),
        writer.add(b"b", 5, Kind::Put, b""),
        writer.add(b"b", 6, Kind::Delete, b""),
        writer.add(&long, 1, Kind::Put, b""),
        writer.add(b"c", SEQNO_MAX + 1, Kind::Put, b""),
        writer.add(b"c", 1, Kind::RangeDelete, b"d"),
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    writer.add(b"b", 4, Kind::Delete, b"").unwrap();
    assert_eq!(writer.entries(), 2);
    assert!(writer.estimated_bytes() > 0);
    assert_eq!(writer.finish().unwrap().entries, 2);
    assert!(TableWriter::create(&files, Path::new("t"), 1, &options(&order)).is_err());
}

#[test]
fn size_estimate_is_close() {
    let order = KeyOrder::Bytewise;
    let files = Files::default();
    let mut writer =
        TableWriter::create(&files, Path::new("t"), TABLE_ID, &options(&order)).unwrap();
    for i in 0..20_000u64 {
        writer.add(format!("{i:016}").as_bytes(), i, Kind::Put, &[b'v'; 100]).unwrap();
    }
    let estimate = writer.estimated_bytes() as f64;
    let actual = writer.finish().unwrap().size_bytes as f64;
    assert!((estimate / actual - 1.0).abs() < 0.02, "{estimate} {actual}");
}

#[test]
fn custom_filter_without_policy_is_ignored() {
    let order = KeyOrder::Bytewise;
    let list = entries(9, 100, &order);
    let options =
        TableOptions { filter: FilterConfig::Custom(Arc::new(FirstByte)), ..options(&order) };
    let with = table(&options, &config(&order, 0), &list, &[]);
    let config = ReadConfig { filter_policy: None, ..config(&order, 0) };
    let without = table(&options, &config, &list, &[]);
    let hash = key_hash(b"\x01");
    assert!(!with.may_contain(b"\x01", hash) && without.may_contain(b"\x01", hash));
    compare_all(&without, &order, &list);
}

#[test]
fn pinned_value_and_cursor_outlive_cache() {
    let order = KeyOrder::Bytewise;
    let list = entries(3, 300, &order);
    let config = config(&order, 2 << 10);
    let table = table(&options(&order), &config, &list, &[]);
    let entry = list.iter().find(|e| !e.3.is_empty()).unwrap();
    let hit = table.get(&entry.0, key_hash(&entry.0), entry.1, true).unwrap().unwrap();
    let mut cursor = table.cursor(true);
    cursor.seek(&entry.0, entry.1).unwrap();
    config.cache.set_capacity(0);
    drop(table);
    assert_eq!(*hit.value, entry.3);
    assert_eq!(here(&cursor).as_ref(), Some(entry));
    std::thread::spawn(move || assert!(hit.value.clone().len() + cursor.key().len() > 0))
        .join()
        .unwrap();
}
