//! A multi-get returns the same values as separate gets, wherever the versions are stored.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::common::NoCase;
use esker::fs::MemFs;
use esker::{Db, ErrorKind, FilterPolicy, KeyOrder, Options, Snapshot};
use esker_testkit::rng::SplitMix64;

const KEYS: u64 = 400;

fn key(id: u64) -> Vec<u8> {
    format!("key-{id:05}").into_bytes()
}

/// Looks up existing, deleted and unknown keys, some of them twice, in groups of sizes around the
/// internal group size.
fn check(
    db: &Db,
    snapshot: Option<&Snapshot>,
    model: &BTreeMap<Vec<u8>, Vec<u8>>,
    rng: &mut SplitMix64,
) {
    for length in [0, 1, 2, 15, 16, 17, 33, 100] {
        let keys: Vec<Vec<u8>> =
            (0..length).map(|_| key(rng.next_u64() % (KEYS + KEYS / 4))).collect();
        let found = match snapshot {
            Some(snapshot) => snapshot.multi_get(&keys),
            None => db.multi_get(&keys),
        }
        .unwrap();
        assert_eq!(found.len(), keys.len());
        for (key, value) in keys.iter().zip(&found) {
            let expected = model.get(key).map(Vec::as_slice);
            assert_eq!(value.as_deref(), expected, "{} of {length}", key.escape_ascii());
        }
    }
}

/// Builds `runs` tables over the same keys, each with different values and deletions, and a
/// memtable above them.
fn check_store(options: Options, runs: u64, range: bool, seed: u64) {
    let mut rng = SplitMix64::new(seed);
    let db = Db::open_on(MemFs::new(), "/db", options).unwrap();
    let mut model = BTreeMap::new();
    let mut snapshots = Vec::new();
    for run in 0..=runs {
        // Every second run has only the lower half, so the keys of a group are in few tables and in
        // many.
        let span = if run % 2 == 0 { KEYS } else { KEYS / 2 };
        for _ in 0..KEYS / 3 {
            let key = key(rng.next_u64() % span);
            if rng.next_u64().is_multiple_of(4) {
                db.delete(&key).unwrap();
                model.remove(&key);
            } else {
                let value = format!("{run}/{}", "v".repeat((rng.next_u64() % 90) as usize));
                db.put(&key, &value).unwrap();
                model.insert(key, value.into_bytes());
            }
        }
        if range && run == runs / 2 {
            let (start, end) = (key(KEYS / 4), key(KEYS / 2));
            db.delete_range(&start, &end).unwrap();
            model.retain(|key, _| *key < start || *key >= end);
        }
        snapshots.push((db.snapshot(), model.clone()));
        if run < runs {
            db.flush().unwrap();
        }
    }
    check(&db, None, &model, &mut rng);
    for (snapshot, model) in &snapshots {
        check(&db, Some(snapshot), model, &mut rng);
    }
    db.compact_range(None, None).unwrap();
    check(&db, None, &model, &mut rng);
    for (snapshot, model) in &snapshots {
        check(&db, Some(snapshot), model, &mut rng);
    }
}

fn options(pairs: &[(&str, &str)]) -> Options {
    let mut options = Options::default();
    let fixed = [("auto_compaction", "false"), ("block_size_bytes", "256")];
    for (name, value) in fixed.iter().chain(pairs) {
        options.set(name, value).unwrap();
    }
    options
}

#[test]
fn multi_get_matches_single_gets() {
    // One table, several, and more than one lookup group takes. The filters work, often give false
    // positives, or are absent.
    for (seed, runs) in [1, 3, 7, 8, 9, 12, 20].into_iter().enumerate() {
        for bits in ["10", "1", "0"] {
            for range in [false, true] {
                let bits = [("filter_bits_per_key", bits)];
                check_store(options(&bits), runs, range, seed as u64);
            }
        }
    }
}

#[test]
fn multi_get_matches_single_gets_without_cache_and_with_other_indexes() {
    for pairs in [
        [("cache_size_bytes", "0"), ("index_search", "binary")],
        [("cache_size_bytes", "20000"), ("index_search", "interpolation")],
        [("memtable", "skiplist"), ("block_layout", "delta")],
    ] {
        check_store(options(&pairs), 4, false, 7);
    }
}

/// A custom filter policy over the last letters of keys. It counts passed and denied keys.
#[derive(Default)]
struct LastLetters {
    passed: AtomicU64,
    denied: AtomicU64,
}

impl FilterPolicy for LastLetters {
    fn name(&self) -> &str {
        "test.last-letters"
    }
    fn create(&self, keys: &[&[u8]]) -> Vec<u8> {
        keys.iter().flat_map(|key| key.last_chunk::<2>().copied().unwrap_or_default()).collect()
    }
    fn may_contain(&self, key: &[u8], filter: &[u8]) -> bool {
        let last = key.last_chunk::<2>().copied().unwrap_or_default();
        let passes = filter.chunks_exact(2).any(|two| two == last);
        if passes { &self.passed } else { &self.denied }.fetch_add(1, Relaxed);
        passes
    }
}

#[test]
fn multi_get_matches_single_gets_with_custom_filter() {
    let policy = Arc::new(LastLetters::default());
    let options = || Options {
        filter_policy: Some(policy.clone()),
        // A value in a value file costs its filters a second question.
        value_separation_min_bytes: esker::ValueSeparation::Off,
        ..options(&[])
    };
    for runs in [1, 3, 9] {
        check_store(options(), runs, false, 3);
    }
    // Endings that no key has: the filters alone answer the whole group.
    let db = Db::open_on(MemFs::new(), "/db", options()).unwrap();
    for run in 0..3 {
        (0..20).for_each(|id| db.put(key(10 * id), format!("{run}")).unwrap());
        db.flush().unwrap();
    }
    let (passed, denied) = (policy.passed.load(Relaxed), policy.denied.load(Relaxed));
    let absent: Vec<Vec<u8>> = (0..19).map(|id| key(10 * id + 1)).collect();
    assert!(db.multi_get(&absent).unwrap().iter().all(Option::is_none));
    assert_eq!(policy.passed.load(Relaxed), passed, "a filter let an absent key pass");
    assert_eq!(policy.denied.load(Relaxed), denied + 3 * 19, "each key is checked once per table");
    let present: Vec<Vec<u8>> = (0..20).map(|id| key(10 * id)).collect();
    let found = db.multi_get(&present).unwrap();
    assert!(found.iter().all(|value| value.as_deref() == Some(b"2")));
    assert_eq!(policy.passed.load(Relaxed), passed + 20, "the newest table answers");
}

#[test]
fn keys_that_compare_equal_are_one_key() {
    let order = KeyOrder::Custom(Arc::new(NoCase));
    let db =
        Db::open_on(MemFs::new(), "/db", Options { key_order: order, ..options(&[]) }).unwrap();
    for run in 0..3 {
        for id in 0..20 {
            let key = if run % 2 == 0 { format!("Key{id}") } else { format!("kEY{id}") };
            db.put(key, format!("{run}")).unwrap();
        }
        db.flush().unwrap();
        let keys: Vec<String> = (0..25).map(|id| format!("KEY{id}")).collect();
        for (id, value) in db.multi_get(&keys).unwrap().iter().enumerate() {
            let expected = (id < 20).then(|| format!("{run}").into_bytes());
            assert_eq!(value.as_deref(), expected.as_deref(), "{id} in run {run}");
        }
    }
}

#[test]
fn multi_get_reports_damaged_block_and_reads_others() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let fill = || -> esker::Result<()> {
        let db = Db::open(&path, options(&[]))?;
        (0..KEYS).try_for_each(|id| db.put(key(id), "a value of some length"))?;
        db.flush()?;
        db.close()
    };
    fill().unwrap();
    let files = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
    let tables = files.filter(|path| path.extension().is_some_and(|end| end == "sst"));
    let table = tables.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    let middle = bytes.len() / 3;
    bytes[middle] ^= 1;
    std::fs::write(&table, bytes).unwrap();
    let db = Db::open(&path, options(&[])).unwrap();
    let keys: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
    assert_eq!(db.multi_get(&keys).unwrap_err().kind(), ErrorKind::Corruption);
    let lost = keys.iter().filter(|key| db.get(key).is_err()).count();
    assert!((1..20).contains(&lost), "one block has {lost} keys");
    let whole: Vec<_> = keys.iter().filter(|key| db.get(key).is_ok()).collect();
    let found = db.multi_get(&whole).unwrap();
    assert!(found.iter().all(|value| value.as_deref() == Some(b"a value of some length")));
}
