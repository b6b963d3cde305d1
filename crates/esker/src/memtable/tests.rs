//! One test suite for all three indexes: random operations against a `BTreeMap`, under every order,
//! and readers concurrent with a writer. Miri also runs the tests (`make miri`), with fewer
//! entries.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use proptest::prelude::*;

use super::*;
use crate::base::cursor::Cursor;
use crate::base::key::SEQNO_MAX;
use crate::base::order::Comparator;

/// Returns the number of entries of a test: `all`, or `few` under Miri.
const fn count(all: u64, few: u64) -> u64 {
    if cfg!(miri) { few } else { all }
}

/// Shorter keys first, then bytewise.
struct ByLength;

impl Comparator for ByLength {
    fn name(&self) -> &str {
        "test.by-length"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len()).then_with(|| a.cmp(b))
    }
}

fn orders() -> Vec<KeyOrder> {
    let mut orders = vec![KeyOrder::Bytewise, KeyOrder::Custom(Arc::new(ByLength))];
    if !cfg!(miri) {
        orders.push(KeyOrder::Reverse);
    }
    orders
}

/// A key in internal order, for the model.
#[derive(Clone)]
struct ModelKey(KeyOrder, Vec<u8>, SeqNo);

impl Ord for ModelKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.compare(&self.1, &other.1).then(other.2.cmp(&self.2))
    }
}
impl PartialOrd for ModelKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for ModelKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for ModelKey {}

type Model = BTreeMap<ModelKey, (Kind, Vec<u8>)>;

fn value_of(key: &[u8], seqno: SeqNo) -> Vec<u8> {
    let mut value = seqno.to_le_bytes().to_vec();
    value.extend_from_slice(key);
    value
}

/// Returns a memtable of `keys` with the sequence numbers `numbers`, and its model.
fn fill(
    kind: MemtableKind,
    order: &KeyOrder,
    keys: &[Vec<u8>],
    numbers: &[SeqNo],
) -> (Arc<Memtable>, Model) {
    let table = Arc::new(Memtable::new(kind, order.clone()));
    let mut model = Model::new();
    for (i, (key, &seqno)) in keys.iter().zip(numbers).enumerate() {
        let (what, value) = match i % 5 {
            4 => (Kind::Delete, Vec::new()),
            _ => (Kind::Put, value_of(key, seqno)),
        };
        table.add(seqno, what, key, &value);
        model.insert(ModelKey(order.clone(), key.clone(), seqno), (what, value));
        if i % 97 == 0 {
            let same = keys[..=i].iter().zip(numbers).filter(|(other, _)| *other == key);
            let newest = same.map(|(_, number)| *number).max();
            assert_eq!(table.get(key, SEQNO_MAX).map(|e| e.seqno), newest);
        }
    }
    assert_eq!(table.len(), keys.len());
    (table, model)
}

fn here(cursor: &MemCursor) -> Option<(Vec<u8>, SeqNo, Kind, Vec<u8>)> {
    cursor
        .valid()
        .then(|| (cursor.key().to_vec(), cursor.seqno(), cursor.kind(), cursor.value().to_vec()))
}

fn row(entry: Option<(&ModelKey, &(Kind, Vec<u8>))>) -> Option<(Vec<u8>, SeqNo, Kind, Vec<u8>)> {
    entry.map(|(k, (kind, value))| (k.1.clone(), k.2, *kind, value.clone()))
}

/// Compares every read operation with the model.
fn check(table: &Arc<Memtable>, model: &Model, order: &KeyOrder, probes: &[(Vec<u8>, SeqNo)]) {
    let mut cursor = table.cursor();
    assert!(!cursor.valid());
    cursor.seek_to_first().unwrap();
    for entry in model {
        assert_eq!(here(&cursor), row(Some(entry)));
        cursor.next().unwrap();
    }
    assert!(!cursor.valid());
    cursor.seek_to_last().unwrap();
    for entry in model.iter().rev() {
        assert_eq!(here(&cursor), row(Some(entry)));
        cursor.prev().unwrap();
    }
    assert!(!cursor.valid());
    for (key, seqno) in probes {
        let at = ModelKey(order.clone(), key.clone(), *seqno);
        let found = model.range(at.clone()..).next();
        let want = found.filter(|(k, _)| order.compare(&k.1, key).is_eq());
        let got = table.get(key, *seqno).map(|e| (e.seqno, e.kind, e.value.to_vec()));
        assert_eq!(got, want.map(|(k, (kind, value))| (k.2, *kind, value.clone())));
        let slice = table.get_slice(key, *seqno).map(|(s, k, v)| (s, k, v.to_vec()));
        assert_eq!(slice, got);
        cursor.seek(key, *seqno).unwrap();
        assert_eq!(here(&cursor), row(found));
        if cursor.valid() {
            cursor.prev().unwrap();
            assert_eq!(here(&cursor), row(model.range(..at.clone()).next_back()));
        }
        cursor.seek_before(key, *seqno).unwrap();
        assert_eq!(here(&cursor), row(model.range(..at.clone()).next_back()));
        if cursor.valid() {
            cursor.next().unwrap();
            assert_eq!(here(&cursor), row(found));
        }
    }
}

fn check_everywhere(keys: &[Vec<u8>], probes: &[(Vec<u8>, SeqNo)]) {
    let ascending: Vec<SeqNo> = (0..keys.len() as SeqNo).collect();
    check_numbered(keys, &ascending, probes);
}

fn check_numbered(keys: &[Vec<u8>], numbers: &[SeqNo], probes: &[(Vec<u8>, SeqNo)]) {
    for &kind in MemtableKind::ALL {
        for order in orders() {
            let (table, model) = fill(kind, &order, keys, numbers);
            check(&table, &model, &order, probes);
        }
    }
}

/// Short keys with many shared prefixes, zeros and repeats.
fn any_key() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0u8), Just(1), Just(b'a'), Just(b'b'), Just(255)];
    prop_oneof![
        3 => proptest::collection::vec(byte, 0..6),
        2 => (0u32..3000).prop_map(|n| format!("user{n:012}").into_bytes()),
        1 => (0u32..500).prop_map(|n| format!("user{n:012}/and/a/long/tail{n}").into_bytes()),
    ]
}

proptest! {
    // Miri allows no access to the file system, where a failing case would be stored.
    #![proptest_config(ProptestConfig {
        failure_persistence: if cfg!(miri) { None } else { ProptestConfig::default().failure_persistence },
        ..ProptestConfig::with_cases(count(24, 2) as u32)
    })]

    #[test]
    fn random_entries_match_map(
        keys in proptest::collection::vec(any_key(), 0..count(900, 40) as usize),
        probes in proptest::collection::vec((any_key(), 0u64..1000), 0..count(60, 10) as usize),
    ) {
        check_everywhere(&keys, &probes);
        // An older version may come after a newer one.
        check_numbered(&keys, &shuffled(keys.len() as u64), &probes);
    }
}

/// Returns the numbers 0..count in a fixed random order.
fn shuffled(count: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..count).collect();
    let mut state = 88_172_645_463_325_252u64;
    for i in (1..numbers.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        numbers.swap(i, (state % (i as u64 + 1)) as usize);
    }
    numbers
}

#[test]
fn ascending_descending_and_shuffled_keys_sort() {
    let count = count(6000, 66);
    let named = |n: u64| format!("{n:016}").into_bytes();
    let probes: Vec<_> = (0..count + 50)
        .step_by(37)
        .map(|n| (named(n), if n % 2 == 0 { SEQNO_MAX } else { n }))
        .collect();
    let ascending: Vec<_> = (0..count).map(named).collect();
    let descending: Vec<_> = (0..count).rev().map(named).collect();
    let random: Vec<_> = shuffled(count).into_iter().map(named).collect();
    for keys in [ascending, descending, random] {
        check_everywhere(&keys, &probes);
    }
}

#[test]
fn interleaved_prefixes_and_late_keys_sort() {
    let mut keys = Vec::new();
    let unrelated = [700, 900, 1000, 1200].map(|n| n / count(1, 60));
    for n in 0..count(1500, 24) {
        for stream in ["alpha/of/a/long/name/", "beta/", "gamma/of/a/long/name/"] {
            keys.push(format!("common/{stream}{n:020}").into_bytes());
        }
        match unrelated.iter().position(|at| *at == n) {
            Some(0) => keys.push(b"zzz".to_vec()),
            Some(1) => keys.push(b"common/".to_vec()),
            Some(2) => keys.push(Vec::new()),
            Some(_) => keys.push(vec![255; 300]),
            None => (),
        }
    }
    let mut probes: Vec<_> = keys.iter().step_by(41).map(|k| (k.clone(), SEQNO_MAX)).collect();
    for key in ["", "a", "common", "common/", "common/beta/", "common/b", "d", "zzz", "zzzz"] {
        probes.push((key.as_bytes().to_vec(), SEQNO_MAX));
        probes.push((key.as_bytes().to_vec(), 0));
    }
    check_everywhere(&keys, &probes);
}

#[test]
fn many_versions_of_few_keys_sort() {
    let keys: Vec<_> = (0..count(2000, 70)).map(|n| vec![b'k'; (n % 3) as usize + 7]).collect();
    let probes: Vec<_> =
        (0..count(2100, 80)).step_by(13).map(|s| (vec![b'k'; (s % 5) as usize + 6], s)).collect();
    check_everywhere(&keys, &probes);
}

#[test]
fn large_values_have_own_allocation_and_outlive_memtable() {
    let table = Arc::new(Memtable::new(MemtableKind::Btree, KeyOrder::Bytewise));
    let sizes = [0, 1, 255 << 10, 257 << 10, (1 << 20) - 16, 1 << 20, (3 << 20) + 5, 7];
    let mut total = 0;
    let mut slices = Vec::new();
    for (i, &size) in sizes.iter().cycle().take(count(24, 8) as usize).enumerate() {
        let key = format!("key{i}");
        table.add(i as SeqNo, Kind::Put, key.as_bytes(), &vec![i as u8; size]);
        total += size;
        slices.push((i, size, table.get_slice(key.as_bytes(), SEQNO_MAX).unwrap().2));
    }
    assert!(table.memory_bytes() >= total);
    assert!(table.memory_bytes() < total + total / 4 + 65536);
    drop(table);
    for (i, size, slice) in slices {
        assert_eq!(slice.len(), size);
        assert!(*slice == vec![i as u8; size]);
    }
}

#[test]
fn empty_memtable_is_empty() {
    for &kind in MemtableKind::ALL {
        for order in orders() {
            let table = Arc::new(Memtable::new(kind, order.clone()));
            assert!(table.is_empty());
            assert_eq!((table.len(), table.seqno_range()), (0, None));
            check(&table, &Model::new(), &order, &[(vec![], 0), (b"a".to_vec(), SEQNO_MAX)]);
            assert!(table.range_deletes().is_empty());
        }
    }
}

#[test]
fn range_tombstones_are_visible_immediately() {
    let table = Memtable::new(MemtableKind::Btree, KeyOrder::Bytewise);
    table.add_range_delete(b"b", b"d", 4);
    assert!(!table.is_empty());
    assert_eq!(table.len(), 0);
    assert_eq!(table.covering(b"c", SEQNO_MAX), Some(4));
    table.add(9, Kind::RangeDelete, b"c", b"z");
    assert_eq!(table.covering(b"c", SEQNO_MAX), Some(9));
    assert_eq!(table.covering(b"c", 8), Some(4));
    assert_eq!(table.covering(b"a", SEQNO_MAX), None);
    assert_eq!(table.range_delete_sets().len(), 1, "two of one size are one");
    assert_eq!(table.range_deletes().len(), 2);
    assert!(Arc::ptr_eq(&table.range_deletes(), &table.range_deletes()));
    assert_eq!(table.seqno_range(), Some((4, 9)));
}

#[test]
fn dropped_memtable_returns_chunks_for_reuse() {
    let pool = Arc::new(ChunkPool::new(4 << 20));
    let filled = || {
        let pool = Arc::clone(&pool);
        let table = Memtable::with_pool(MemtableKind::Btree, KeyOrder::Bytewise, pool, 0);
        for i in 0..50u64 {
            table.add(i, Kind::Put, &i.to_be_bytes(), &[7; 100_000]);
        }
        table
    };
    drop(filled());
    assert_eq!(pool.free_bytes(), 4 << 20);
    let table = filled();
    assert_eq!(pool.free_bytes(), 0);
    assert_eq!(table.get(&7u64.to_be_bytes(), SEQNO_MAX).unwrap().value, &[7; 100_000]);
    drop(table);
    pool.set_capacity(3 << 20);
    assert_eq!(pool.free_bytes(), 2 << 20);
}

/// Scans the whole table and checks order and content. Returns the number of entries seen.
fn walk(table: &Arc<Memtable>, back: bool) -> usize {
    let mut cursor = table.cursor();
    if back {
        cursor.seek_to_last().unwrap()
    } else {
        cursor.seek_to_first().unwrap()
    }
    let mut before: Option<(Vec<u8>, SeqNo)> = None;
    let mut seen = 0;
    while cursor.valid() {
        assert_eq!(cursor.value(), value_of(cursor.key(), cursor.seqno()));
        if let Some((key, seqno)) = &before {
            let order = key.as_slice().cmp(cursor.key()).then(cursor.seqno().cmp(seqno));
            assert_eq!(order, if back { Ordering::Greater } else { Ordering::Less });
        }
        before = Some((cursor.key().to_vec(), cursor.seqno()));
        seen += 1;
        if back { cursor.prev().unwrap() } else { cursor.next().unwrap() }
    }
    seen
}

#[test]
fn readers_see_complete_ordered_entries_during_writes() {
    for (&kind, writers) in MemtableKind::ALL.iter().flat_map(|kind| [(kind, 1), (kind, 2)]) {
        let table = Arc::new(Memtable::new(kind, KeyOrder::Bytewise));
        let numbers = shuffled(count(8000, 80));
        let key = |n: u64| format!("{:016}", n / 2).into_bytes();
        let written = AtomicU64::new(0);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 0..writers {
                let (table, written, done, numbers) = (&table, &written, &done, &numbers);
                scope.spawn(move || {
                    for (i, &n) in numbers.iter().enumerate().skip(writer).step_by(writers) {
                        let key = key(n);
                        let value = value_of(&key, i as SeqNo);
                        table.add(i as SeqNo, Kind::Put, &key, &value);
                        while written.load(Atomic::Acquire) < i as u64 {
                            std::thread::yield_now();
                        }
                        written.store(i as u64 + 1, Atomic::Release);
                    }
                    let all = written.load(Atomic::Acquire) == numbers.len() as u64;
                    done.fetch_or(all, Atomic::AcqRel);
                });
            }
            for reader in 0..2usize {
                let (table, written, done, numbers) = (&table, &written, &done, &numbers);
                scope.spawn(move || {
                    let mut round = reader;
                    while !done.load(Atomic::Acquire) {
                        let floor = written.load(Atomic::Acquire);
                        assert!(walk(table, round % 2 == 0) as u64 >= floor);
                        for i in (0..floor as usize).step_by(53) {
                            let key = key(numbers[i]);
                            let found = table.get(&key, i as SeqNo).unwrap();
                            assert_eq!(found.seqno, i as SeqNo);
                            assert_eq!(found.value, value_of(&key, i as SeqNo));
                        }
                        round += 1;
                    }
                });
            }
        });
        assert_eq!(walk(&table, false), numbers.len());
        assert_eq!(table.seqno_range(), Some((0, numbers.len() as u64 - 1)));
    }
}
