//! Many threads on one store, and many stores at once.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::bounded_options;
use esker::fs::MemFs;
use esker::{Batch, Db, Durability, MemtableKind, Options, Policy, WalIo, WriteOptions};
use esker_testkit::fault::{Fault, FaultFs, FaultKind, Op, OpMask};
use esker_testkit::rng::SplitMix64;

const ACCOUNTS: u64 = 50;
const TOTAL: u64 = ACCOUNTS * 100;

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}

/// Writers move money between accounts in batches. Readers must always see the same sum.
fn transfers(options: Options) {
    let db = Arc::new(Db::open_on(MemFs::new(), "/db", options).unwrap());
    for account in 0..ACCOUNTS {
        db.put(account.to_be_bytes(), 100u64.to_be_bytes()).unwrap();
    }
    let stop = AtomicBool::new(false);
    let pass = parking_lot::Mutex::new(());
    let scans = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (db, pass, stop) = (&db, &pass, &stop);
            scope.spawn(move || {
                let mut rng = SplitMix64::new(seed);
                for step in 0..3_000 {
                    // Reading and writing back is one step. The lock belongs to the test, not to
                    // the store.
                    let _pass = pass.lock();
                    let (from, to) = (rng.next_u64() % ACCOUNTS, rng.next_u64() % ACCOUNTS);
                    let balance = |a: u64| number(&db.get(a.to_be_bytes()).unwrap().unwrap());
                    let amount = rng.next_u64() % (balance(from) + 1);
                    if from == to {
                        continue;
                    }
                    let mut batch = Batch::new();
                    batch.put(from.to_be_bytes(), (balance(from) - amount).to_be_bytes());
                    batch.put(to.to_be_bytes(), (balance(to) + amount).to_be_bytes());
                    let durability =
                        if step % 50 == 0 { Durability::Sync } else { Durability::Buffered };
                    db.write_with(&batch, &WriteOptions::default().durability(Some(durability)))
                        .unwrap();
                }
                stop.store(true, Ordering::Relaxed);
            });
        }
        for seed in 10..12 {
            let (db, stop, scans) = (&db, &stop, &scans);
            scope.spawn(move || {
                let mut rng = SplitMix64::new(seed);
                while !stop.load(Ordering::Relaxed) {
                    let sum: u64 = if rng.next_u64().is_multiple_of(2) {
                        db.iter().unwrap().map(|pair| number(&pair.unwrap().1)).sum()
                    } else {
                        let snapshot = db.snapshot();
                        (0..ACCOUNTS)
                            .map(|a| number(&snapshot.get(a.to_be_bytes()).unwrap().unwrap()))
                            .sum()
                    };
                    assert_eq!(sum, TOTAL, "a reader saw half a batch");
                    scans.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert!(scans.load(Ordering::Relaxed) > 0);
    db.wait_idle().unwrap();
    assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
}

#[test]
fn readers_never_see_partial_batch() {
    for &memtable_kind in MemtableKind::ALL {
        for policy in [Policy::Fluid, Policy::Leveled] {
            transfers(Options { memtable_kind, policy, ..bounded_options() });
        }
    }
}

#[test]
fn threads_read_their_own_writes_during_background_work() {
    let options = Options { background_threads: Some(2), ..bounded_options() };
    let db = Db::open_on(MemFs::new(), "/db", options).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let db = &db;
            scope.spawn(move || {
                let mut rng = SplitMix64::new(thread);
                let mut mine = std::collections::BTreeMap::new();
                for step in 0..4_000u64 {
                    let key = [thread.to_be_bytes(), (rng.next_u64() % 200).to_be_bytes()].concat();
                    if rng.next_u64().is_multiple_of(5) {
                        db.delete(&key).unwrap();
                        mine.remove(&key);
                    } else {
                        db.put(&key, step.to_be_bytes()).unwrap();
                        mine.insert(key, step);
                    }
                    let probe =
                        [thread.to_be_bytes(), (rng.next_u64() % 200).to_be_bytes()].concat();
                    let found = db.get(&probe).unwrap().map(|v| number(&v));
                    assert_eq!(found, mine.get(&probe).copied());
                }
                let all: Vec<_> = db
                    .prefix(thread.to_be_bytes())
                    .unwrap()
                    .map(|p| p.unwrap())
                    .map(|(k, v)| (k, number(&v)))
                    .collect();
                assert_eq!(all, mine.into_iter().collect::<Vec<_>>());
            });
        }
        for _ in 0..30 {
            db.flush().unwrap();
            db.compact_range(None, None).unwrap();
        }
    });
}

#[test]
fn sync_writers_share_syncs() {
    let db = Db::open_on(MemFs::new(), "/db", bounded_options()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let db = &db;
            scope.spawn(move || {
                for step in 0..200u64 {
                    let key = [thread.to_be_bytes(), step.to_be_bytes()].concat();
                    db.put_with(key, "v", &WriteOptions::SYNC).unwrap();
                }
            });
        }
    });
    assert_eq!(db.iter().unwrap().count(), 1600);
    assert!(db.metrics().log_syncs <= 1600 + db.metrics().flushes);
}

#[test]
fn stores_in_one_process_are_independent() {
    let fs = MemFs::new();
    let open = |name: &str| Db::open_on(fs.clone(), name, bounded_options()).unwrap();
    let (a, b) = (open("/a"), open("/b"));
    for i in 0..2_000u32 {
        a.put(i.to_be_bytes(), "a").unwrap();
        b.put(i.to_be_bytes(), "b").unwrap();
    }
    a.compact_range(None, None).unwrap();
    assert!(a.iter().unwrap().all(|p| p.unwrap().1 == b"a"));
    assert!(b.iter().unwrap().all(|p| p.unwrap().1 == b"b"));
    a.close().unwrap();
    assert_eq!(b.iter().unwrap().count(), 2_000);
}

#[test]
fn cache_size_and_policy_change_during_reads() {
    let db = Db::open_on(MemFs::new(), "/db", bounded_options()).unwrap();
    for i in 0..5_000u32 {
        db.put(i.to_be_bytes(), [i as u8; 30]).unwrap();
    }
    db.flush().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut rng = SplitMix64::new(3);
            while !stop.load(Ordering::Relaxed) {
                let i = (rng.next_u64() % 5_000) as u32;
                assert_eq!(db.get(i.to_be_bytes()).unwrap().unwrap(), [i as u8; 30]);
            }
        });
        for round in 0..60 {
            let policy = ["lru", "clock", "sieve", "s3fifo", "none"][round % 5];
            let size = ["1KiB", "1MiB", "0", "64KiB"][round % 4];
            db.set_options(&[("cache_policy", policy), ("cache_size_bytes", size)]).unwrap();
            let memory = db.metrics().memory;
            assert!(memory.cache_bytes <= memory.cache_capacity_bytes, "{memory:?}");
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// Checks one reader's view during concurrent changes: a value contains its key, and keys ascend.
fn look_around(db: &Db, rng: &mut SplitMix64) {
    let key = rng.below(800).to_be_bytes();
    if let Some(value) = db.get(key).unwrap() {
        assert_eq!(value[..8], key);
    }
    let snapshot = db.snapshot();
    let mut before = None;
    for pair in snapshot.range(key.as_slice()..).unwrap().take(30) {
        let (key, value) = pair.unwrap();
        assert!(before.as_deref() < Some(&key[..]) && value[..8] == key[..]);
        before = Some(key.to_vec());
    }
    if rng.chance(20) {
        assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
    }
}

/// Runs writers, readers, flushes, compactions, checkpoints, option changes and a scrub together,
/// on the operating system's files.
fn everything_at_once(options: Options) {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), options).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|seed| {
                let db = &db;
                scope.spawn(move || {
                    let mut rng = SplitMix64::new(seed);
                    for step in 0..1_500u64 {
                        let key = rng.below(800).to_be_bytes();
                        let value = [&key[..], &step.to_be_bytes()].concat();
                        let durability = [Durability::Sync, Durability::Buffered];
                        let durability = Some(durability[usize::from(step % 40 != 0)]);
                        db.put_with(key, value, &WriteOptions::default().durability(durability))
                            .unwrap();
                        if rng.chance(9) {
                            db.delete(rng.below(800).to_be_bytes()).unwrap();
                        }
                    }
                })
            })
            .collect();
        for seed in 20..22 {
            let (db, stop) = (&db, &stop);
            scope.spawn(move || {
                let mut rng = SplitMix64::new(seed);
                while !stop.load(Ordering::Relaxed) {
                    look_around(db, &mut rng);
                }
            });
        }
        for round in 0.. {
            if writers.iter().all(|writer| writer.is_finished()) {
                break;
            }
            db.flush().unwrap();
            match round % 4 {
                0 => db.compact_range(None, None).unwrap(),
                1 => db.checkpoint(dir.path().join(format!("copy-{round}"))).unwrap(),
                2 => db
                    .set_options(&[("cache_size_bytes", ["4KiB", "1MiB"][round / 4 % 2])])
                    .unwrap(),
                _ => db.sync().unwrap(),
            }
            assert!(db.metrics().memory.cache_bytes < 2 << 20);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
    db.close().unwrap();
}

#[test]
fn concurrent_mixed_operations_on_real_files() {
    for (wal_io, memtable_kind) in
        [(WalIo::Mmap, MemtableKind::Btree), (WalIo::Write, MemtableKind::Skiplist)]
    {
        everything_at_once(Options {
            wal_io,
            memtable_kind,
            background_threads: Some(2),
            sync_every_ms: 2,
            scrub_bytes_per_second: 1 << 20,
            ..bounded_options()
        });
    }
}

/// A store without threads whose callers concurrently flush it, compact it and write to it. This
/// test guards against a past failure: two callers flushed the same memtable, and the next memtable
/// was taken for flushed too.
#[test]
fn callers_of_store_without_threads_run_one_job_at_a_time() {
    for round in 0..8u64 {
        let fs = MemFs::new();
        let options = Options { background_threads: Some(0), ..bounded_options() };
        let db = Db::open_on(fs.clone(), "/db", options.clone()).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let db = &db;
                scope.spawn(move || {
                    for step in 0..600u64 {
                        let key = [thread.to_be_bytes(), step.to_be_bytes()].concat();
                        db.put(key, [step as u8; 40]).unwrap();
                        match (step + thread * 7) % 40 {
                            0 => db.flush().unwrap(),
                            10 => drop(db.run_one_job().unwrap()),
                            20 => db.wait_idle().unwrap(),
                            30 => db.compact_range(None, None).unwrap(),
                            _ => {}
                        }
                    }
                });
            }
        });
        db.close().unwrap();
        let db = Db::open_on(fs, "/db", options).unwrap();
        assert_eq!(db.iter().unwrap().count(), 2_400, "round {round}");
        assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
    }
}

#[test]
fn full_memtable_refuses_writes_of_every_thread() {
    const MEMTABLE_BYTES: u64 = 8 << 20;
    let fs = FaultFs::new(MemFs::new());
    let options = Options { memtable_size_bytes: Some(MEMTABLE_BYTES), ..bounded_options() };
    let db = Db::open_on(fs.clone(), "/db", options).unwrap();
    fs.arm(Fault::for_ever(OpMask::of(&[Op::Create]), 1, FaultKind::NoSpace).on(".sst"));
    let put = |key: u32| db.put(key.to_be_bytes(), [7; 100]);
    let together = std::sync::Barrier::new(3);
    std::thread::scope(|scope| {
        for thread in 0..3u32 {
            let (put, together) = (&put, &together);
            scope.spawn(move || {
                together.wait();
                (0..).find(|n| put(thread << 24 | n).is_err())
            });
        }
    });
    let full = db.metrics().memory.active_memtable_bytes;
    for key in 0..2_000 {
        assert!(put(key).is_err(), "no space is left for {key}");
    }
    assert_eq!(db.metrics().memory.active_memtable_bytes, full);
    assert!(full < MEMTABLE_BYTES * 5 / 4, "{full}");
}

/// Returns the names of a store's tables, and the number of its removed files that this process has
/// open.
#[cfg(target_os = "linux")]
fn tables_and_removed(dir: &std::path::Path) -> (Vec<String>, usize) {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let tables = names.filter_map(|name| name.into_string().ok()).filter(|n| n.ends_with(".sst"));
    let open = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| {
        let target = std::fs::read_link(fd.ok()?.path()).ok()?;
        target.to_str().filter(|path| path.ends_with(" (deleted)")).map(str::to_owned)
    });
    let ours = open.filter(|path| path.starts_with(dir.to_str().unwrap())).count();
    (tables.collect(), ours)
}

/// A reader that is the last user of removed files leaves their closing to a thread of the store.
/// After the store is closed these files are closed. A reader that outlives the store closes its
/// own files.
#[cfg(target_os = "linux")]
#[test]
fn files_released_last_by_reader_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().canonicalize().unwrap().join("db");
    for outlives in [false, true] {
        let db = Db::open(&place, bounded_options()).unwrap();
        let fill = |value: u8| {
            (0..3_000u32).for_each(|key| db.put(key.to_be_bytes(), [value; 50]).unwrap());
            db.compact_range(None, None).unwrap();
        };
        fill(1);
        let mut iter = db.iter().unwrap();
        iter.seek_to_first().unwrap();
        let (before, _) = tables_and_removed(&place);
        assert!(!before.is_empty());
        fill(2);
        let (now, _) = tables_and_removed(&place);
        assert!(before.iter().all(|table| now.contains(table)), "the reader still needs the files");
        let open = (!outlives).then_some(db);
        assert_eq!(iter.value(), [1; 50]);
        drop(iter);
        // A thread of the store may hold the old version at this moment.
        let are_there = || {
            let (after, _) = tables_and_removed(&place);
            before.iter().any(|table| after.contains(table))
        };
        let checks = (0..30_000).take_while(|_| are_there());
        checks.for_each(|_| std::thread::sleep(std::time::Duration::from_millis(10)));
        assert!(!are_there(), "files without a reader remained");
        if let Some(db) = open {
            db.close().unwrap();
        }
        assert_eq!(tables_and_removed(&place).1, 0, "the files are still open");
    }
}
