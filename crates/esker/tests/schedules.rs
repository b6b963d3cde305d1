//! The engine's threads under thousands of schedules, each repeatable by its seed.
//!
//! Built with `--cfg esker_shuttle` (`make schedules`). Every lock, wait and atomic operation of
//! the memtable, the arena, the group commit, the versions, the cache and the background threads is
//! a step. A seeded scheduler selects the thread of the next step. These tests do not explore weak
//! memory; Miri does that for the arena (`make miri`). `SCHEDULES` sets the number of schedules per
//! test, and `SEED` selects them.
//!
//! These tests guard against past failures: a reader that sees half a batch; a write acknowledged
//! before it is readable; a memtable gone between freeze and flush; a write group that loses a
//! member; a thread that waits forever; memory freed under a reader or never; a transaction that
//! commits over a write that it has not seen; a lock with two holders.
#![cfg(esker_shuttle)]

use std::sync::Arc;

use esker::fs::MemFs;
use esker::internals::CacheBlockBuf;
use esker::internals::Collector;
use esker::internals::Memtable;
use esker::internals::Thresholds;
use esker::internals::{BlockCache, BlockKey, SlotRef};
use esker::internals::{Bug, sync};
use esker::{
    Batch, CachePolicy, Concurrency, Db, ErrorKind, Isolation, KeyOrder, MemtableKind, Options,
    Policy, Transaction, TransactionOptions, WriteOptions,
};
use esker_testkit::rng::SplitMix64;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::thread;
use shuttle::{Config, MaxSteps, Runner};

fn from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs `body` under many schedules: half of them random, half with few thread switches at
/// important places (Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees of
/// Finding Bugs", ASPLOS 2010).
fn explore(share: u64, body: impl Fn() + Send + Sync + 'static) {
    explore_times((from_env("SCHEDULES", 1_000) / share).max(1), body);
}

fn explore_times(count: u64, body: impl Fn() + Send + Sync + 'static) {
    let count = count as usize;
    let seed = from_env("SEED", 1);
    let mut config = Config::new();
    config.stack_size = 1 << 19;
    config.max_steps = MaxSteps::FailAfter(4_000_000);
    let body = Arc::new(body);
    let random = RandomScheduler::new_from_seed(seed, count);
    let again = body.clone();
    Runner::new(random, config.clone()).run(move || again());
    let few = PctScheduler::new_from_seed(seed, 3, count);
    Runner::new(few, config).run(move || body());
}

/// Returns options for a store of tiny parts and small thresholds, with a flush thread and a
/// compaction thread.
fn tiny(policy: Policy, memtable_kind: MemtableKind) -> Options {
    Options {
        memtable_size_bytes: Some(4 << 10),
        memtable_kind,
        policy,
        background_threads: Some(1),
        cache_size_bytes: Some(64 << 10),
        sync_every_ms: 0,
        log_file: false,
        status_file: false,
        thresholds: Thresholds::small(),
        ..Options::default()
    }
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}

#[test]
fn memtable_readers_see_only_complete_entries() {
    for kind in MemtableKind::ALL {
        explore(2, move || {
            let table = Arc::new(Memtable::new(*kind, KeyOrder::Bytewise));
            let added = Arc::new(AtomicU64::new(0));
            let writer = {
                let (table, added) = (table.clone(), added.clone());
                thread::spawn(move || {
                    for seqno in 1..=12u64 {
                        let key = [seqno as u8 % 5; 3];
                        table.add(seqno, esker::internals::Kind::Put, &key, &seqno.to_be_bytes());
                        added.store(seqno, Ordering::Release);
                    }
                })
            };
            let collector: Vec<_> = (0..2)
                .map(|_| {
                    let (table, added) = (table.clone(), added.clone());
                    thread::spawn(move || {
                        for round in 0..4u64 {
                            let seqno = added.load(Ordering::Acquire);
                            let newest = (1..=seqno).rev().find(|s| s % 5 == round % 5);
                            let found = table.get(&[(round % 5) as u8; 3], seqno);
                            let found = found.map(|entry| number(entry.value));
                            assert_eq!(found, newest, "at {seqno}");
                        }
                    })
                })
                .collect();
            writer.join().unwrap();
            collector.into_iter().for_each(|reader| reader.join().unwrap());
        });
    }
}

/// Runs two writers of batches, a reader of snapshots and scans, and the store's own threads.
fn batches_under(policy: Policy, kind: MemtableKind) {
    let db = Arc::new(Db::open_on(MemFs::new(), "/db", tiny(policy, kind)).unwrap());
    let writers: Vec<_> = (0..2u8)
        .map(|writer| {
            let db = db.clone();
            thread::spawn(move || {
                for round in 1..=4u64 {
                    let mut batch = Batch::new();
                    batch.put([writer, 0], round.to_be_bytes());
                    batch.put([writer, 1, round as u8], vec![7; 900]);
                    if round == 4 {
                        batch.delete_range([writer, 1, 1], [writer, 1, 2]);
                    }
                    batch.put([writer, 2], round.to_be_bytes());
                    let options = match round {
                        2 => WriteOptions::SYNC,
                        3 => WriteOptions::NONE,
                        _ => WriteOptions::BUFFERED,
                    };
                    db.write_with(&batch, &options).unwrap();
                    // The writer sees its own write at once.
                    let own = db.get([writer, 2]).unwrap().map(|v| number(&v));
                    assert_eq!(own, Some(round), "an acknowledged write is missing");
                }
            })
        })
        .collect();
    let reader = {
        let db = db.clone();
        thread::spawn(move || {
            let mut before = [0; 2];
            for round in 0..4 {
                if round == 2 {
                    db.flush().unwrap();
                }
                for writer in 0..2u8 {
                    let pair = if round % 2 == 0 {
                        let snapshot = db.snapshot();
                        [0, 2].map(|part| {
                            snapshot.get([writer, part]).unwrap().map_or(0, |v| number(&v))
                        })
                    } else {
                        let all = db.range([writer, 0]..[writer, 3]).unwrap();
                        let all: Vec<_> = all.map(Result::unwrap).collect();
                        [0, 2].map(|part| {
                            let found = all.iter().find(|(key, _)| *key == [writer, part]);
                            found.map_or(0, |(_, value)| number(value))
                        })
                    };
                    assert_eq!(pair[0], pair[1], "a reader saw part of a batch");
                    let last = &mut before[writer as usize];
                    assert!(pair[0] >= *last, "a reader went back in time");
                    *last = pair[0];
                }
            }
        })
    };
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    reader.join().unwrap();
    assert_eq!(db.iter().unwrap().count(), 2 * (2 + 3));
    Arc::into_inner(db).unwrap().close().unwrap();
}

#[test]
fn batches_are_atomic_during_freeze_flush_and_compaction() {
    for (policy, kind) in Policy::ALL.iter().zip(MemtableKind::ALL.iter().cycle()) {
        explore(10, || batches_under(*policy, *kind));
    }
}

#[test]
fn group_commit_members_get_their_own_result() {
    explore(2, || {
        let db = Arc::new(
            Db::open_on(MemFs::new(), "/db", tiny(Policy::Fluid, MemtableKind::Btree)).unwrap(),
        );
        let writers: Vec<_> = (0..4u8)
            .map(|writer| {
                let db = db.clone();
                thread::spawn(move || {
                    for round in 0..3u8 {
                        db.put_with([writer, round], [round], &WriteOptions::SYNC).unwrap();
                        assert_eq!(db.get([writer, round]).unwrap().as_deref(), Some(&[round][..]));
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_eq!(db.iter().unwrap().count(), 12);
    });
}

#[test]
fn cache_stays_within_capacity_and_returns_requested_block() {
    for policy in CachePolicy::ALL {
        explore(4, move || {
            let cache = Arc::new(BlockCache::new(*policy, 300));
            let slots_of_files = [
                Arc::new(cache.block_slots(4, &Arc::default())),
                Arc::new(cache.block_slots(4, &Arc::default())),
            ];
            let users: Vec<_> = (0..3u64)
                .map(|user| {
                    let (cache, slots_of_files) = (cache.clone(), slots_of_files.clone());
                    thread::spawn(move || {
                        let mut rng = SplitMix64::new(user);
                        for _ in 0..6 {
                            let key = BlockKey::new(rng.below(2), rng.below(4) as u32);
                            let (slots, at) =
                                (&slots_of_files[key.file as usize], key.block as usize);
                            let held = cache.get_slot(slots, at).or_else(|| cache.get(&key));
                            let held = held.unwrap_or_else(|| {
                                let block = CacheBlockBuf::zeroed(0, None).freeze(0, key);
                                cache.insert(key, block, 100, SlotRef::new(slots, at))
                            });
                            assert_eq!(*held.header(), key);
                            assert!(cache.used_bytes() <= 300);
                        }
                        match user {
                            0 => cache.remove(blocks_of(1)),
                            1 => cache.set_capacity(200),
                            _ => {}
                        }
                    })
                })
                .collect();
            users.into_iter().for_each(|user| user.join().unwrap());
            assert!(cache.used_bytes() <= 200);
            // A block slot holds a block only while the cache does.
            cache.remove(blocks_of(0).chain(blocks_of(1)));
            assert_eq!(cache.used_bytes(), 0);
            assert_eq!(slots_of_files[0].filled().count() + slots_of_files[1].filled().count(), 0);
        });
    }
}

/// Runs collector of a value that two other threads replace repeatedly. A replaced value is freed
/// after the last reader that may use it has unpinned, and nothing leaks.
fn readers_under() {
    const COUNT: usize = 6;
    struct Freed(Arc<Vec<AtomicU64>>, usize);
    impl Drop for Freed {
        fn drop(&mut self) {
            let before = self.0[self.1].fetch_add(1, Ordering::SeqCst);
            assert_eq!(before, 0, "the value was freed twice");
        }
    }
    let collector = Arc::new(Collector::default());
    let shown = Arc::new(AtomicU64::new(0));
    let freed = Arc::new((0..=COUNT).map(|_| AtomicU64::new(0)).collect::<Vec<_>>());
    let next = Arc::new(AtomicU64::new(1));
    let replacers: Vec<_> = (0..2)
        .map(|_| {
            let (collector, shown, freed) = (collector.clone(), shown.clone(), freed.clone());
            let next = next.clone();
            thread::spawn(move || {
                for _ in 0..COUNT / 2 {
                    let new = next.fetch_add(1, Ordering::SeqCst);
                    let old = shown.swap(new, Ordering::AcqRel);
                    collector.defer_drop(Freed(freed.clone(), old as usize));
                }
            })
        })
        .collect();
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (collector, shown, freed) = (collector.clone(), shown.clone(), freed.clone());
            thread::spawn(move || {
                for round in 0..4 {
                    let pinned = collector.pin();
                    let inner = (round % 2 == 0).then(|| collector.pin());
                    let seen = shown.load(Ordering::Acquire) as usize;
                    drop(inner);
                    thread::yield_now();
                    let freed = freed[seen].load(Ordering::SeqCst);
                    assert_eq!(freed, 0, "the value was freed too early");
                    drop(pinned);
                }
            })
        })
        .collect();
    replacers.into_iter().chain(readers).for_each(|thread| thread.join().unwrap());
    let left = freed.iter().filter(|freed| freed.load(Ordering::SeqCst) == 0).count();
    assert_eq!(left, 1, "a value without readers was not freed");
}

#[test]
fn epoch_garbage_is_freed_after_all_readers() {
    explore(1, readers_under);
}

/// Returns the keys of a file's blocks.
fn blocks_of(file: u64) -> impl Iterator<Item = BlockKey> {
    (0..4).map(move |block| BlockKey::new(file, block))
}

/// Deletes enough keys for an empty-range hint, and puts into its range at every moment of its
/// creation.
fn hints_under(threads: u64) {
    let options = tiny(Policy::Fluid, MemtableKind::Btree);
    let db = Arc::new(Db::open_on(MemFs::new(), "/db", options).unwrap());
    for n in 0..18u8 {
        db.put([n], [0]).unwrap();
    }
    let putters: Vec<_> = (0..threads as u8)
        .map(|own| {
            let db = db.clone();
            thread::spawn(move || {
                for round in 0..2u8 {
                    (0..16u8).filter(|n| n % 2 == own).for_each(|n| db.delete([n]).unwrap());
                    if round == 1 {
                        // In some schedules the hint exists by now.
                        (0..40)
                            .take_while(|_| db.metrics().hints == 0)
                            .for_each(|_| thread::yield_now());
                    }
                    let key = [8 + own];
                    db.put(key, [round]).unwrap();
                    for _ in 0..3 {
                        let mut iter = db.range(key..=key).unwrap();
                        iter.seek_to_first().unwrap();
                        assert_eq!(iter.value(), [round], "a scan missed an acknowledged put");
                        let ahead = db.iter().unwrap().filter(|p| p.as_ref().unwrap().0 == key);
                        assert_eq!(ahead.count(), 1, "a hint skipped an acknowledged put");
                        thread::yield_now();
                    }
                }
            })
        })
        .collect();
    let reader = {
        let db = db.clone();
        thread::spawn(move || {
            for round in 0..8u8 {
                let key = [8 + round % 2];
                // No thread deletes the key after the last put.
                if db.get(key).unwrap().as_deref() != Some(&[1]) {
                    thread::yield_now();
                    continue;
                }
                let iter = db.iter().unwrap().rev();
                let found = iter.filter(|p| p.as_ref().unwrap().0 == key).count();
                assert_eq!(found, 1, "a hint skipped a key that a get finds");
            }
        })
    };
    putters.into_iter().for_each(|putter| putter.join().unwrap());
    reader.join().unwrap();
    assert_eq!(db.iter().unwrap().count() as u64, 2 + threads);
}

/// Puts into the range of an existing empty-range hint, or with `early` during the search for it.
fn a_put_into_a_hint(early: bool) {
    let options = tiny(Policy::Fluid, MemtableKind::Btree);
    let db = Arc::new(Db::open_on(MemFs::new(), "/db", options).unwrap());
    for n in 0..18u8 {
        db.put([n], [0]).unwrap();
    }
    (0..16u8).for_each(|n| db.delete([n]).unwrap());
    let wait = |db: &Db| {
        (0..200).take_while(|_| db.metrics().hints == 0).for_each(|_| thread::yield_now());
    };
    if !early {
        wait(&db);
    }
    let put = db.metrics().last_seqno + 1;
    let reader = {
        let db = db.clone();
        thread::spawn(move || {
            for _ in 0..30 {
                let snapshot = db.snapshot();
                if snapshot.seqno() >= put {
                    let count = snapshot.iter().unwrap().count();
                    assert_eq!(count, 3, "a hint skipped a visible put");
                    return;
                }
                thread::yield_now();
            }
        })
    };
    db.put([5], [1]).unwrap();
    if early {
        wait(&db);
    }
    assert_eq!(db.iter().unwrap().count(), 3, "a hint skipped an acknowledged put");
    reader.join().unwrap();
}

/// Puts into a range of deleted keys while readers find it empty and report it.
fn a_put_during_a_report() {
    let options = tiny(Policy::Fluid, MemtableKind::Btree);
    let db = Arc::new(Db::open_on(MemFs::new(), "/db", options).unwrap());
    for n in 0..18u8 {
        db.put([n], [0]).unwrap();
    }
    (0..16u8).for_each(|n| db.delete([n]).unwrap());
    let reader = {
        let db = db.clone();
        thread::spawn(move || {
            for target in [0, 2] {
                let mut iter = db.iter().unwrap();
                iter.seek([target]).unwrap();
                let found = iter.key()[0];
                assert!(found == 5 || found == 16, "found {found}");
            }
        })
    };
    db.put([5], [1]).unwrap();
    assert_eq!(db.iter().unwrap().count(), 3, "a hint skipped an acknowledged put");
    reader.join().unwrap();
    assert_eq!(db.iter().unwrap().count(), 3, "a hint skipped an acknowledged put");
}

#[test]
fn put_is_visible_despite_concurrent_empty_range_hint() {
    explore(4, a_put_during_a_report);
    explore(8, || hints_under(2));
    explore(4, || a_put_into_a_hint(false));
    explore(4, || a_put_into_a_hint(true));
}

/// Runs two threads of transactions, each of which rewrites `x` as it was and adds one to `n`, and
/// a thread of plain writes, which counts `x` up.
fn transactions_under(isolation: Isolation, concurrency: Concurrency) {
    let options = tiny(Policy::Fluid, MemtableKind::Btree);
    let db = Arc::new(Db::open_on(MemFs::new(), "/db", options).unwrap());
    db.put("x", [0]).unwrap();
    let inside = Arc::new(AtomicU64::new(0));
    let options = TransactionOptions::default().isolation(isolation).concurrency(concurrency);
    let options = options.attempts_max(1).lock_timeout_ms(60_000);
    let counters: Vec<_> = (0..2)
        .map(|_| {
            let (db, inside) = (db.clone(), inside.clone());
            thread::spawn(move || {
                let mut added = 0;
                for _ in 0..2 {
                    let outcome = db.transact(options, |transaction: &Transaction| {
                        let x = transaction.get_for_update("x")?.unwrap();
                        if concurrency == Concurrency::Pessimistic {
                            let before = inside.swap(1, Ordering::SeqCst);
                            assert_eq!(before, 0, "two transactions hold a lock");
                            thread::yield_now();
                            inside.store(0, Ordering::SeqCst);
                        }
                        let n = transaction.get("n")?.map_or(0, |n| n[0]);
                        transaction.put("x", &*x)?;
                        transaction.put("n", [n + 1])
                    });
                    match outcome {
                        Ok(()) => added += 1,
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
                    }
                }
                added
            })
        })
        .collect();
    let writer = {
        let db = db.clone();
        thread::spawn(move || (1..=3u8).for_each(|x| db.put("x", [x]).unwrap()))
    };
    let added: u8 = counters.into_iter().map(|counter| counter.join().unwrap()).sum();
    writer.join().unwrap();
    assert_eq!(db.get("x").unwrap().as_deref(), Some(&[3][..]), "a plain write was lost");
    assert_eq!(db.get("n").unwrap().map_or(0, |n| n[0]), added, "an update was lost");
}

#[test]
fn transactions_lose_no_update_and_locks_have_one_holder() {
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        for concurrency in [Concurrency::Optimistic, Concurrency::Pessimistic] {
            explore(8, move || transactions_under(isolation, concurrency));
        }
    }
}

/// Returns whether exploring `body` with `bug` in the engine fails.
fn finds(bug: Bug, body: fn()) -> bool {
    let outcome = std::panic::catch_unwind(|| {
        sync::seed(Some(bug));
        // The first schedule that fails ends the search.
        explore_times(from_env("SCHEDULES", 1_000).max(2_000), body);
    });
    sync::seed(None);
    outcome.is_err()
}

#[test]
fn seeded_bugs_are_found() {
    let batches: fn() = || batches_under(Policy::Fluid, MemtableKind::Btree);
    assert!(finds(Bug::PublishFirst, batches));
    assert!(finds(Bug::DropMemtableFirst, batches));
    assert!(finds(Bug::FreeAtOnce, readers_under));
    assert!(finds(Bug::UnpinWithoutCheck, readers_under));
    assert!(finds(Bug::LateHintUpdate, || a_put_into_a_hint(false)));
    assert!(finds(Bug::UnwatchedHintSearch, || a_put_into_a_hint(true)));
    assert!(finds(Bug::StaleEmptyRange, a_put_during_a_report));
    assert!(finds(Bug::UnrecordedCommit, || {
        transactions_under(Isolation::Snapshot, Concurrency::Optimistic);
    }));
    assert!(finds(Bug::LockGrantedTwice, || {
        transactions_under(Isolation::Snapshot, Concurrency::Pessimistic);
    }));
}
