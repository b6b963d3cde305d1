//! Warm state for the next reader: cursors pooled from an earlier iterator, and cached blocks of
//! newly written tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use esker::fs::MemFs;
use esker::{Db, Options, ReadOptions};
use esker_testkit::rng::SplitMix64;

fn open(options: Options) -> Db {
    Db::open_on(MemFs::new(), "db", options).unwrap()
}

fn small() -> Options {
    Options {
        rest_compaction: false,
        memtable_size_bytes: Some(64 << 10),
        file_size_max_bytes: 32 << 10,
        guard_piece_min_bytes: 8 << 10,
        guard_size_max_bytes: 64 << 10,
        background_threads: Some(0),
        ..Options::default()
    }
}

fn key(n: u64) -> Vec<u8> {
    format!("{n:06}").into_bytes()
}

/// Puts `count` unordered pairs and flushes them into tables.
fn put_all(db: &Db, count: u64) {
    for n in 0..count {
        db.put(key(n * 7 % count), [n as u8; 100]).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
}

/// Gets all `count` pairs.
fn get_all(db: &Db, count: u64) {
    for n in 0..count {
        assert_eq!(db.get(key(n * 7 % count)).unwrap().as_deref(), Some(&[n as u8; 100][..]));
    }
}

/// Compares a new iterator, whatever cursors it reuses, with a map.
fn check(db: &Db, map: &BTreeMap<Vec<u8>, Vec<u8>>, from: &[u8], fill_cache: bool) {
    let options = ReadOptions::default().fill_cache(fill_cache);
    let unbounded = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    let mut iter = db.iter_with(&options, unbounded).unwrap();
    assert!(
        !iter.valid() && iter.key().is_empty(),
        "the iterator has a position before the first seek"
    );
    iter.seek(from).unwrap();
    for (key, value) in map.range(from.to_vec()..).take(20) {
        assert_eq!((iter.key(), iter.value()), (&key[..], &value[..]));
        iter.move_next().unwrap();
    }
    iter.seek_for_prev(from).unwrap();
    for (key, value) in map.range(..=from.to_vec()).rev().take(20) {
        assert_eq!((iter.key(), iter.value()), (&key[..], &value[..]));
        iter.move_prev().unwrap();
    }
}

#[test]
fn iterator_with_pooled_cursors_sees_later_writes() {
    let db = open(small());
    let mut map = BTreeMap::new();
    let mut rng = SplitMix64::new(11);
    for step in 0..6_000u64 {
        let n = rng.below(800);
        match rng.below(12) {
            0 => {
                let end = n + rng.below(30);
                db.delete_range(key(n), key(end)).unwrap();
                map.retain(|k, _| !(key(n) <= *k && *k < key(end)));
            }
            1 | 2 => {
                db.delete(key(n)).unwrap();
                map.remove(&key(n));
            }
            _ => {
                let value = vec![step as u8; rng.below(300) as usize];
                db.put(key(n), &value).unwrap();
                map.insert(key(n), value);
            }
        }
        if step % 3 == 0 {
            check(&db, &map, &key(rng.below(810)), step % 7 != 0);
        }
        match rng.below(200) {
            0 => db.flush().unwrap(),
            1 => db.compact_range(None, None).unwrap(),
            2 | 3 => drop(db.run_one_job().unwrap()),
            _ => {}
        }
    }
    assert!(db.metrics().compactions > 10, "{:?}", db.metrics());
}

#[test]
fn iterators_of_many_threads_share_cursors_without_positions() {
    let db = Arc::new(open(Options { background_threads: Some(1), ..small() }));
    for n in 0..3_000 {
        db.put(key(n), key(n)).unwrap();
    }
    std::thread::scope(|scope| {
        for thread in 0..6u64 {
            let db = db.clone();
            scope.spawn(move || {
                for n in 0..400 {
                    let at = (n * 7 + thread * 500) % 2_990;
                    let mut first = db.iter().unwrap();
                    first.seek(key(at)).unwrap();
                    let mut second = db.iter().unwrap();
                    second.seek_for_prev(key(at + 5)).unwrap();
                    assert_eq!((first.key(), second.key()), (&key(at)[..], &key(at + 5)[..]));
                    first.move_next().unwrap();
                    second.move_prev().unwrap();
                    assert_eq!(
                        (first.value(), second.value()),
                        (&key(at + 1)[..], &key(at + 4)[..])
                    );
                    if thread == 0 && n % 50 == 0 {
                        db.put(key(9_000 + n), key(n)).unwrap();
                        db.flush().unwrap();
                    }
                }
            });
        }
    });
}

#[test]
fn pooled_cursors_pin_no_blocks_or_removed_files() {
    let fs = MemFs::new();
    let options = Options { cache_size_bytes: Some(8 << 20), ..small() };
    let db = Db::open_on(fs.clone(), "db", options).unwrap();
    for n in 0..3_000 {
        db.put(key(n), [1; 100]).unwrap();
    }
    db.flush().unwrap();
    assert_eq!(db.iter().unwrap().count(), 3_000);
    db.set_options(&[("cache_size_bytes", "0")]).unwrap();
    let memory = db.metrics().memory;
    assert_eq!((memory.cache_bytes, memory.cache_spare_bytes), (0, 0), "a block is held");
    let tables = || db.tables().len();
    let files = || {
        let names = esker::fs::Fs::list(&*fs, "db".as_ref()).unwrap();
        names.iter().filter(|entry| entry.name.ends_with(".sst")).count()
    };
    assert_eq!(db.iter().unwrap().count(), 3_000);
    db.compact_range(None, None).unwrap();
    assert_eq!(files(), tables(), "files of no version remained");
}

#[test]
fn new_tables_are_read_from_cache_while_it_has_space() {
    let load = |cache_size_bytes: u64, memtable_size_bytes: u64| {
        let options = Options {
            cache_size_bytes: Some(cache_size_bytes),
            rest_compaction: false,
            memtable_size_bytes: Some(memtable_size_bytes),
            memory_budget_bytes: Some(256 << 20),
            ..small()
        };
        let db = open(options);
        put_all(&db, 5_000);
        let after_load = db.metrics();
        get_all(&db, 5_000);
        (after_load, db.metrics())
    };
    let (loaded, read) = load(64 << 20, 64 << 10);
    assert_eq!(read.cache_misses, loaded.cache_misses, "a block was not in the cache");
    assert_eq!(read.cache_evictions, 0);
    // Without enough space, nothing is evicted to make room, and the rest is read from files.
    let (loaded, read) = load(100 << 10, 4 << 20);
    assert_eq!(loaded.cache_evictions, 0);
    let held = loaded.memory.cache_bytes;
    assert!(held <= 100 << 10 && held > 50 << 10, "{held} bytes are held");
    assert!(read.cache_misses > loaded.cache_misses);
}

#[test]
fn cached_data_is_cached_again_after_compaction() {
    for background_threads in [0, 1] {
        let options = Options {
            cache_size_bytes: Some(4 << 20),
            rest_compaction: false,
            memory_budget_bytes: Some(256 << 20),
            background_threads: Some(background_threads),
            merge_on_seeks: false,
            ..small()
        };
        let db = open(options);
        put_all(&db, 8_000);
        assert_eq!(db.iter().unwrap().count(), 8_000);
        let held = db.metrics().memory.cache_bytes;
        // Each of the sixteen shards can hold old and new blocks at once in three quarters of its
        // capacity, however unevenly the file numbers distribute the blocks.
        assert!(held > 850 << 10 && held < 1 << 20, "{held} bytes");
        // All data is merged into new tables while the old ones are still cached.
        db.compact_range(None, None).unwrap();
        let merged = db.metrics();
        get_all(&db, 8_000);
        assert_eq!(db.metrics().cache_misses, merged.cache_misses, "a block was not in the cache");
    }
}
