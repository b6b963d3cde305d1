//! The counts of one thread's calls: they are right, they belong to their thread, and counting
//! changes no answer.

mod common;

use std::sync::Arc;

use common::{Pair, tiny_options};
use esker::fs::MemFs;
use esker::perf::{self, PerfContext};
use esker::{CachePolicy, Compression, Db, FilterPolicy, Options, ReadOptions, WriteOptions};

const KEYS: u32 = 1_000;
const VALUE_BYTES: u64 = 100;

/// Returns options of a store whose flushed tables stay in level 0.
fn options(cache_policy: CachePolicy) -> Options {
    Options {
        background_threads: Some(0),
        auto_compaction: false,
        memtable_size_bytes: Some(8 << 20),
        memory_budget_bytes: Some(64 << 20),
        compression: Compression::None,
        cache_policy,
        log_file: false,
        status_file: false,
        ..Options::default()
    }
}

/// Returns a store with two tables that overlap: the even keys, and then all keys divisible by 4.
fn two_tables(cache_policy: CachePolicy) -> Db {
    let db = Db::open_on(MemFs::new(), "/db", options(cache_policy)).unwrap();
    for step in [2, 4] {
        for i in (0..KEYS).step_by(step) {
            db.put(i.to_be_bytes(), [step as u8; VALUE_BYTES as usize]).unwrap();
        }
        db.flush().unwrap();
    }
    db
}

/// Returns the counts of `call`.
fn counted<R>(call: impl FnOnce() -> R) -> PerfContext {
    perf::enable(true);
    call();
    let counts = PerfContext::take();
    perf::enable(false);
    counts
}

fn get(db: &Db, key: u32) -> PerfContext {
    counted(|| db.get(key.to_be_bytes()).unwrap())
}

#[test]
fn gets_count_memtables_tables_and_filters() {
    let db = two_tables(CachePolicy::S3Fifo);
    // In the newer table.
    let newer = get(&db, 400);
    assert_eq!((newer.gets, newer.tables_searched, newer.memtable_hits), (1, 1, 0));
    assert_eq!((newer.filter_checks, newer.filter_negatives), (1, 0));
    assert_eq!(newer.value_bytes_read, VALUE_BYTES);
    assert_eq!(newer.cache_hits + newer.cache_misses, 1);
    // Only in the older table: the filter of the newer one rules most of these keys out.
    let mut sum = (0, 0, 0);
    let older: Vec<u32> = (2..KEYS - 4).step_by(4).collect();
    for key in &older {
        let counts = get(&db, *key);
        assert_eq!((counts.tables_searched, counts.value_bytes_read), (2, VALUE_BYTES));
        let PerfContext { filter_checks, filter_negatives, cache_hits, .. } = counts;
        sum = (sum.0 + filter_checks, sum.1 + filter_negatives, sum.2 + cache_hits);
    }
    let all = older.len() as u64;
    assert_eq!(sum.0, 2 * all);
    assert!(sum.1 > all * 9 / 10, "{} of {all}", sum.1);
    assert!(sum.2 > all / 2, "{} of {all}", sum.2);
    // In the memtable.
    db.put(400u32.to_be_bytes(), [1; 7]).unwrap();
    let active = get(&db, 400);
    let expected = (1, 1, 0, 7);
    let PerfContext { gets, memtable_hits, tables_searched, value_bytes_read, .. } = active;
    assert_eq!((gets, memtable_hits, tables_searched, value_bytes_read), expected);
    assert_eq!((active.cache_hits, active.cache_misses, active.blocks_read), (0, 0, 0));
    // A tombstone is a hit without a value.
    db.delete(400u32.to_be_bytes()).unwrap();
    let deleted = get(&db, 400);
    assert_eq!((deleted.memtable_hits, deleted.value_bytes_read), (1, 0));
    // Absent everywhere.
    let absent = get(&db, 401);
    assert_eq!((absent.gets, absent.tables_searched, absent.value_bytes_read), (1, 2, 0));
    // Other forms of a get.
    let forms = counted(|| {
        assert!(db.contains_key(2u32.to_be_bytes()).unwrap());
        assert_eq!(db.read(2u32.to_be_bytes(), <[u8]>::len).unwrap(), Some(100));
        let keys: Vec<[u8; 4]> = [2u32, 3, 6].map(u32::to_be_bytes).to_vec();
        let found = db.multi_get(&keys).unwrap();
        let found: Vec<bool> = found.iter().map(Option::is_some).collect();
        assert_eq!(found, [true, false, true]);
        let snapshot = db.snapshot();
        let at = ReadOptions::default().snapshot(Some(&snapshot));
        assert!(db.get_with(6u32.to_be_bytes(), &at).unwrap().is_some());
    });
    assert_eq!((forms.gets, forms.value_bytes_read), (6, 5 * VALUE_BYTES));
}

#[test]
fn blocks_read_from_files_are_counted() {
    let db = two_tables(CachePolicy::None);
    let one = get(&db, 400);
    assert_eq!((one.blocks_read, one.cache_misses, one.cache_hits), (1, 1, 0));
    assert!((VALUE_BYTES..16 << 10).contains(&one.block_bytes_read), "{one:?}");
    let scan = counted(|| assert_eq!(db.iter().unwrap().count(), KEYS as usize / 2));
    let table_bytes = db.metrics().table_bytes;
    assert!(scan.blocks_read > 10 && scan.cache_hits == 0, "{scan:?}");
    assert!(scan.block_bytes_read <= 2 * table_bytes, "{scan:?} of {table_bytes}");
    assert!(scan.block_bytes_read > table_bytes / 2, "{scan:?} of {table_bytes}");
    assert_eq!(scan.gets, 0);
}

#[test]
fn cached_blocks_are_hits_for_every_policy_and_iterator() {
    for policy in CachePolicy::ALL.iter().filter(|policy| **policy != CachePolicy::None) {
        let db = two_tables(*policy);
        // The first scan may read blocks, the second finds them.
        (0..2).for_each(|_| assert_eq!(db.iter().unwrap().count(), KEYS as usize / 2));
        let scan = counted(|| db.iter().unwrap().count());
        assert_eq!((scan.blocks_read, scan.cache_misses), (0, 0), "{policy}");
        assert!(scan.cache_hits > 10, "{policy}: {scan:?}");
        let one = get(&db, 400);
        assert_eq!((one.cache_hits, one.cache_misses, one.blocks_read), (1, 0, 0), "{policy}");
    }
}

#[test]
fn writes_count_log_bytes_and_syncs() {
    let db = Db::open_on(MemFs::new(), "/db", options(CachePolicy::S3Fifo)).unwrap();
    let before = db.metrics();
    let counts = counted(|| {
        db.put("a", [1; 50]).unwrap();
        db.put_with("b", [1; 50], &WriteOptions::SYNC).unwrap();
        db.put_with("c", [1; 50], &WriteOptions::NONE).unwrap();
        db.sync().unwrap();
    });
    let after = db.metrics();
    assert_eq!(counts.wal_bytes, after.log_bytes - before.log_bytes);
    assert_eq!(counts.wal_syncs, after.log_syncs - before.log_syncs);
    assert!(counts.wal_bytes > 100 && counts.wal_syncs == 1, "{counts:?}");
    assert_eq!((counts.gets, counts.stall_ns), (0, 0));
}

/// A filter that takes longer than a memtable takes to fill.
struct SlowFilter;

impl FilterPolicy for SlowFilter {
    fn name(&self) -> &str {
        "test.SlowFilter"
    }

    fn create(&self, _: &[&[u8]]) -> Vec<u8> {
        std::thread::sleep(std::time::Duration::from_millis(20));
        Vec::new()
    }

    fn may_contain(&self, _: &[u8], _: &[u8]) -> bool {
        true
    }
}

#[test]
fn waits_of_writes_are_counted() {
    let options = Options {
        frozen_memtables_max: 1,
        filter_policy: Some(Arc::new(SlowFilter)),
        ..tiny_options()
    };
    let db = Db::open_on(MemFs::new(), "/db", options).unwrap();
    let before = db.metrics();
    let counts = counted(|| {
        (0..1_000u32).for_each(|i| db.put(i.to_be_bytes(), [1; 60]).unwrap());
    });
    let after = db.metrics();
    assert!(counts.stall_ns > 0, "{counts:?}");
    // The metrics are in whole microseconds for each wait.
    let (stalled_us, slowed_us) =
        (after.stalled_us - before.stalled_us, after.slowed_us - before.slowed_us);
    assert!(counts.stall_ns / 1_000 >= stalled_us, "{counts:?} {stalled_us}");
    assert!(counts.throttle_ns / 1_000 >= slowed_us, "{counts:?} {slowed_us}");
    db.close().unwrap();
}

#[test]
fn other_threads_count_for_themselves() {
    let db = two_tables(CachePolicy::S3Fifo);
    perf::enable(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..100u32).for_each(|i| drop(db.get(i.to_be_bytes()).unwrap()));
            assert_eq!(PerfContext::take(), PerfContext::default());
            perf::enable(true);
            db.get(2u32.to_be_bytes()).unwrap();
            assert_eq!(PerfContext::take().gets, 1);
        });
    });
    assert_eq!(PerfContext::take(), PerfContext::default());
    db.get(2u32.to_be_bytes()).unwrap();
    assert_eq!(PerfContext::take().gets, 1);
    assert_eq!(PerfContext::take(), PerfContext::default());
    perf::enable(false);
    db.get(2u32.to_be_bytes()).unwrap();
    assert_eq!(PerfContext::take(), PerfContext::default());
}

#[test]
fn counting_changes_no_answer() {
    perf::enable(true);
    for seed in [5, 6] {
        let mut pair = Pair::new(tiny_options(), seed, 300);
        (0..4_000).for_each(|_| pair.step());
        pair.check_all();
    }
    let counts = PerfContext::take();
    assert!(counts.gets > 500 && counts.memtable_hits > 10 && counts.tables_searched > 100);
    assert!(counts.filter_negatives > 10 && counts.cache_hits > 0 && counts.wal_bytes > 0);
    perf::enable(false);
}
