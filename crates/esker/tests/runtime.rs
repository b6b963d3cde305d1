//! Several stores with one runtime: memory, failures, closes and background work. The tests that
//! count threads or fork are in `runtime_processes.rs`.

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::gate::{Gate, GatePolicy, OpenAtEnd};
use common::processes::{LONG, wait_until};
use common::{Pair, tiny_options};
use esker::fs::MemFs;
use esker::{
    Db, ErrorKind, Event, EventListener, FilterPolicy, Options, Runtime, RuntimeOptions,
    WriteOptions,
};
use esker_testkit::crash::CrashFs;
use esker_testkit::fault::{Fault, FaultFs, FaultKind, Op, OpMask};

const DIR: &str = "/db";

fn runtime_of(budget_bytes: u64) -> Runtime {
    let memory_budget_bytes = Some(budget_bytes);
    Runtime::new(RuntimeOptions { memory_budget_bytes, ..RuntimeOptions::default() }).unwrap()
}

/// Returns options of a tiny store that uses `runtime`.
fn tiny(runtime: &Runtime) -> Options {
    Options { runtime: Some(runtime.clone()), ..tiny_options() }
}

fn key(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

#[test]
fn stores_at_rest_merge_their_runs() {
    let runtime = runtime_of(4 << 20);
    let options = || Options { rest_compaction: true, ..tiny(&runtime) };
    let open = |_| Db::open_on(MemFs::new(), DIR, options()).unwrap();
    let stores: Vec<Db> = (0..3).map(open).collect();
    for (round, db) in (0..4_u8).flat_map(|round| stores.iter().map(move |db| (round, db))) {
        (0..3_000).for_each(|n| db.put(key(n), [round; 20]).unwrap());
    }
    for db in &stores {
        // The merges of full levels may leave nothing to a rest. Then more is written.
        let began = Instant::now();
        while db.metrics().rest_compactions == 0 {
            assert!(began.elapsed() < LONG, "a merge at rest did not happen: {:?}", db.tables());
            (0..3_000).for_each(|n| db.put(key(n), [3; 20]).unwrap());
            let written = Instant::now();
            while db.metrics().rest_compactions == 0 && written.elapsed().as_secs() < 1 {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        (0..3_000).for_each(|n| {
            assert_eq!(db.get(key(n)).unwrap().as_deref(), Some(&[3; 20][..]));
        });
        assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
    }
}

#[test]
fn workers_find_expired_tables_without_a_call() {
    let runtime = runtime_of(4 << 20);
    let db = Db::open_on(MemFs::new(), DIR, tiny(&runtime)).unwrap();
    let ttl = Duration::from_millis(50);
    (0..100).for_each(|n| db.put_with_ttl(key(n), [7; 100], ttl).unwrap());
    db.flush().unwrap();
    wait_until("the removal of the expired table", || db.tables().is_empty());
    assert_eq!(db.iter().unwrap().count(), 0);
}

#[test]
fn workers_flush_what_an_opening_recovered() {
    let (runtime, disk) = (runtime_of(4 << 20), CrashFs::seeded(7));
    let manual = Options {
        runtime: None,
        background_threads: Some(0),
        memtable_size_bytes: Some(1 << 20),
        ..tiny_options()
    };
    let db = Db::open_on(disk.clone(), DIR, manual).unwrap();
    (0..2_000).for_each(|n| db.put(key(n), [5; 50]).unwrap());
    std::mem::forget(db);
    let db = Db::open_on(disk.next_process(), DIR, tiny(&runtime)).unwrap();
    // It waits for the tables.
    db.sync().unwrap();
    assert!(!db.tables().is_empty());
    (0..2_000).for_each(|n| assert!(db.get(key(n)).unwrap().is_some()));
    db.close().unwrap();
}

#[test]
fn stores_written_at_once_have_all_their_data() {
    let (runtime, stores, keys) = (runtime_of(4 << 20), 24, 1500_u64);
    let open = |fs: &Arc<MemFs>| {
        Db::open_on(
            fs.clone(),
            DIR,
            Options { memtable_size_bytes: Some(1 << 20), ..tiny(&runtime) },
        )
    };
    let disks: Vec<_> = (0..stores).map(|_| Arc::new(MemFs::default())).collect();
    let all: Vec<Db> = disks.iter().map(|fs| open(fs).unwrap()).collect();
    let most = AtomicUsize::new(0);
    let all_ref = &all;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (all, most, runtime) = (all_ref, &most, &runtime);
            scope.spawn(move || {
                for n in (thread..keys).step_by(4) {
                    for (store, db) in all.iter().enumerate() {
                        db.put(key(n), [store as u8; 200]).unwrap();
                        if n % 5 == 0 {
                            db.delete(key(n)).unwrap();
                        }
                    }
                    most.fetch_max(runtime.metrics().memtable_bytes as usize, SeqCst);
                }
            });
        }
    });
    let limit = runtime.metrics().memtable_limit_bytes as usize;
    // A store counts its memory in steps of 32 KiB.
    let most = most.into_inner();
    assert!(most <= limit + stores * (32 << 10) && most > limit / 4, "{most} of {limit}");
    let check = |store: usize, db: &Db| {
        for n in 0..keys {
            let expected = (n % 5 != 0).then(|| vec![store as u8; 200]);
            assert_eq!(
                db.get(key(n)).unwrap().map(|value| value.to_vec()),
                expected,
                "{store} {n}"
            );
        }
        assert_eq!(db.iter().unwrap().count() as u64, keys - keys.div_ceil(5));
    };
    all.iter().enumerate().for_each(|(store, db)| check(store, db));
    for db in &all {
        db.flush().unwrap();
        db.wait_idle().unwrap();
    }
    let metrics = runtime.metrics();
    assert!(metrics.background_bytes > 0 && metrics.stores == stores as u64);
    // In another order than that of the openings.
    all.into_iter().rev().for_each(|db| db.close().unwrap());
    assert_eq!((runtime.metrics().stores, runtime.metrics().memtable_bytes), (0, 0));
    assert_eq!((runtime.metrics().tables_bytes, runtime.metrics().cache_bytes), (0, 0));
    for (store, fs) in disks.iter().enumerate().step_by(5) {
        let db = open(fs).unwrap();
        check(store, &db);
        assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
    }
}

#[test]
fn random_operations_on_several_stores_match_their_oracles() {
    let runtime = runtime_of(8 << 20);
    let new = |seed| Pair::new(Options { sync_every_ms: 1, ..tiny(&runtime) }, seed, 300);
    let mut pairs: Vec<Pair> = (0..6).map(new).collect();
    for round in 0..1200 {
        for pair in &mut pairs {
            pair.step();
        }
        if round % 400 == 399 {
            for pair in &mut pairs {
                let db = pair.db.take().unwrap();
                pair.snapshots.clear();
                db.close().unwrap();
                let opened = Db::open_on(pair.fs.clone(), &pair.path, pair.options.clone());
                pair.db = Some(opened.unwrap());
            }
        }
    }
    for pair in &pairs {
        let found: Vec<_> = pair.db().iter().unwrap().map(Result::unwrap).collect();
        let found = found.iter().map(|(key, value)| (key.to_vec(), value.to_vec()));
        assert!(found.eq(pair.oracle.iter().map(|(key, value)| (key.clone(), value.clone()))));
    }
}

#[test]
fn store_is_closed_and_dropped_while_others_work() {
    let runtime = runtime_of(16 << 20);
    let is_done = AtomicBool::new(false);
    let steady = Db::open_on(MemFs::new(), DIR, tiny(&runtime)).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut written = 0;
            while !is_done.load(SeqCst) {
                steady.put(key(written), [3; 100]).unwrap();
                written += 1;
            }
            written
        });
        let churn = |thread: u64| {
            let runtime = &runtime;
            move || {
                for round in 0..30_u64 {
                    let db = Db::open_on(MemFs::new(), DIR, tiny(runtime)).unwrap();
                    (0..300).for_each(|n| db.put(key(n), [round as u8; 100]).unwrap());
                    let iter = db.iter().unwrap();
                    match (round + thread) % 3 {
                        0 => db.close().unwrap(),
                        1 => drop(db),
                        _ => {
                            db.wait_idle().unwrap();
                            drop(db);
                        }
                    }
                    drop(iter);
                }
            }
        };
        let churns: Vec<_> = (0..3).map(|thread| scope.spawn(churn(thread))).collect();
        churns.into_iter().for_each(|churn| churn.join().unwrap());
        is_done.store(true, SeqCst);
        let written = writer.join().unwrap();
        assert_eq!(steady.iter().unwrap().count() as u64, written);
    });
    assert_eq!(runtime.metrics().stores, 1);
    steady.wait_idle().unwrap();
    steady.close().unwrap();
}

#[test]
fn failing_store_does_not_stop_the_others() {
    let runtime = runtime_of(1 << 20);
    let fs = FaultFs::new(MemFs::new());
    let options = || Options { memtable_size_bytes: Some(64 << 10), ..tiny(&runtime) };
    let failing = Db::open_on(fs.clone(), DIR, options()).unwrap();
    fs.arm(Fault::for_ever(OpMask::of(&[Op::Create]), 1, FaultKind::NoSpace).on(".sst"));
    let mut kept = 0;
    let error = loop {
        match failing.put(key(kept), [1; 1000]) {
            Ok(()) => kept += 1,
            Err(error) => break error,
        }
        assert!(kept < 100_000, "no write failed");
    };
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    // Its memtables alone exceed a third of the memory for memtables.
    let others: Vec<Db> =
        (0..5).map(|_| Db::open_on(MemFs::new(), DIR, options()).unwrap()).collect();
    for n in 0..2000 {
        for db in &others {
            db.put(key(n), [2; 500]).unwrap();
        }
    }
    for db in &others {
        db.flush().unwrap();
        db.wait_idle().unwrap();
        assert_eq!(db.iter().unwrap().count(), 2000);
    }
    assert_eq!(failing.iter().unwrap().count() as u64, kept);
    fs.disarm();
    failing.flush().unwrap();
    failing.put("after", "1").unwrap();
    assert_eq!(failing.iter().unwrap().count() as u64, kept + 1);
    failing.close().unwrap();
}

#[test]
fn writes_wait_for_memory_of_the_runtime_and_say_so() {
    #[derive(Default)]
    struct Recorder(Mutex<Vec<Event>>);
    impl EventListener for Recorder {
        fn on_event(&self, event: &Event) {
            self.0.lock().unwrap().push(event.clone());
        }
    }
    let (runtime, gate) = (runtime_of(1 << 20), Arc::new(Gate::default()));
    let _open = OpenAtEnd(gate.clone());
    let recorder = Arc::new(Recorder::default());
    let options = || Options {
        memtable_size_bytes: Some(256 << 10),
        frozen_memtables_max: 8,
        memory_budget_bytes: None,
        filter_policy: Some(Arc::new(GatePolicy(gate.clone()))),
        listeners: vec![recorder.clone()],
        ..tiny(&runtime)
    };
    let all: Vec<Db> = (0..3).map(|_| Db::open_on(MemFs::new(), DIR, options()).unwrap()).collect();
    gate.set(true);
    let briefly = || WriteOptions::default().deadline(Instant::now() + Duration::from_millis(20));
    let mut kept = [0; 3];
    let mut refused = Vec::new();
    for n in 0..30_000_u64 {
        let store = n as usize % 3;
        match all[store].put_with(key(kept[store]), [9; 1000], &briefly()) {
            Ok(()) => kept[store] += 1,
            Err(error) => refused.push(error),
        }
        if refused.len() > 5 {
            break;
        }
    }
    assert!(refused.len() > 5, "no write had to wait");
    for error in &refused {
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        assert!(error.to_string().contains("memory budget"), "{error}");
    }
    let metrics = runtime.metrics();
    assert!(metrics.memtable_bytes >= metrics.memtable_limit_bytes);
    assert!(metrics.memtable_bytes <= metrics.memtable_limit_bytes + 4 * (32 << 10));
    std::thread::scope(|scope| {
        // The scope waits for its threads, also when an assertion fails.
        let _open = OpenAtEnd(gate.clone());
        let patient = scope.spawn(|| all[1].put("patient", "1"));
        wait_until("a stall", || all[1].stall().is_some_and(|stall| stall.is_stopped));
        let stall = all[1].stall().unwrap();
        assert!(stall.cause.contains("memory budget") && stall.bytes > 0, "{stall}");
        assert!(!patient.is_finished());
        gate.set(false);
        patient.join().unwrap().unwrap();
    });
    for (db, kept) in all.iter().zip(kept) {
        db.flush().unwrap();
        let more = usize::from(db.get("patient").unwrap().is_some());
        assert_eq!(db.iter().unwrap().count(), kept as usize + more);
        assert!(db.stall().is_none());
    }
    drop(all);
    let events = recorder.0.lock().unwrap();
    let of_memory = |cause: &String| cause.contains("memory budget");
    let began =
        |event: &Event| matches!(event, Event::StallBegan { cause, .. } if of_memory(cause));
    let ended =
        |event: &Event| matches!(event, Event::StallEnded { cause, .. } if of_memory(cause));
    let count = |is: &dyn Fn(&Event) -> bool| events.iter().filter(|event| is(event)).count();
    assert!(count(&began) > 0 && count(&began) == count(&ended));
}

#[test]
fn largest_memtable_is_flushed_when_memory_is_short() {
    let runtime = runtime_of(4 << 20);
    let options = || Options { memtable_size_bytes: Some(1 << 20), ..tiny(&runtime) };
    let small: Vec<Db> =
        (0..8).map(|_| Db::open_on(MemFs::new(), DIR, options()).unwrap()).collect();
    for db in &small {
        (0..60).for_each(|n| db.put(key(n), [1; 1000]).unwrap());
    }
    let large = Db::open_on(MemFs::new(), DIR, options()).unwrap();
    (0..4000).for_each(|n| large.put(key(n), [2; 1000]).unwrap());
    large.wait_idle().unwrap();
    assert!(large.metrics().flushes > 3, "{}", large.metrics().flushes);
    for db in &small {
        assert_eq!(db.metrics().flushes, 0, "a store flushed a small memtable");
        assert_eq!(db.iter().unwrap().count(), 60);
    }
}

#[test]
fn panic_in_the_code_of_one_store_ends_only_its_writes() {
    struct Panics;
    impl FilterPolicy for Panics {
        fn name(&self) -> &str {
            "test.Panics"
        }

        fn create(&self, _: &[&[u8]]) -> Vec<u8> {
            panic!("deliberate panic");
        }

        fn may_contain(&self, _: &[u8], _: &[u8]) -> bool {
            true
        }
    }
    let runtime = runtime_of(16 << 20);
    let options = Options { filter_policy: Some(Arc::new(Panics)), ..tiny(&runtime) };
    let broken = Db::open_on(MemFs::new(), DIR, options).unwrap();
    let sound = Db::open_on(MemFs::new(), DIR, tiny(&runtime)).unwrap();
    broken.put("a", "1").unwrap();
    assert_eq!(broken.flush().unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(broken.put("b", "1").unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(broken.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    for n in 0..2000 {
        sound.put(key(n), [5; 100]).unwrap();
    }
    sound.flush().unwrap();
    sound.wait_idle().unwrap();
    assert_eq!(sound.iter().unwrap().count(), 2000);
    let _ = broken.close();
    sound.close().unwrap();
}

#[test]
fn background_work_of_every_kind_is_done_by_the_workers() {
    let runtime = Runtime::new(RuntimeOptions {
        memory_budget_bytes: Some(32 << 20),
        background_bytes_per_second: 64 << 20,
        threads_max: Some(3),
        ..RuntimeOptions::default()
    })
    .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        sync_every_ms: 1,
        scrub_bytes_per_second: 64 << 20,
        status_file: true,
        log_file: true,
        ..tiny(&runtime)
    };
    let db = Db::open(dir.path().join("db"), options).unwrap();
    for n in 0..5000_u64 {
        db.put(n.to_be_bytes(), [1; 100]).unwrap();
    }
    for n in 100..4900_u64 {
        db.delete(n.to_be_bytes()).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert_eq!(db.iter().unwrap().count(), 200);
    let syncs = db.metrics().log_syncs;
    wait_until("a sync of the log", || {
        db.put("more", "1").unwrap();
        db.metrics().log_syncs > syncs
    });
    wait_until("two rounds of the scrub", || db.metrics().scrub_rounds >= 2);
    assert_eq!(db.metrics().scrub_problems, 0);
    wait_until("the status", || Db::live_status(db.path()).is_ok());
    assert!(runtime.metrics().background_bytes > 100_000);
    assert!(runtime.metrics().threads <= 3);
    let log = std::fs::read_to_string(db.path().join("LOG")).unwrap();
    assert!(log.contains("flush"), "{log}");
    db.set_options(&[("scrub_bytes_per_second", "0"), ("sync_every_ms", "0")]).unwrap();
    db.close().unwrap();
}

#[test]
fn stores_do_not_see_each_others_blocks() {
    let runtime = runtime_of(32 << 20);
    // The files of these stores have the same numbers.
    let all: Vec<Db> =
        (0..4).map(|_| Db::open_on(MemFs::new(), DIR, tiny(&runtime)).unwrap()).collect();
    for n in 0..500 {
        for (store, db) in all.iter().enumerate() {
            db.put(key(n), [store as u8; 50]).unwrap();
        }
    }
    for db in &all {
        db.flush().unwrap();
        db.wait_idle().unwrap();
    }
    for _ in 0..3 {
        for n in 0..500 {
            for (store, db) in all.iter().enumerate() {
                assert_eq!(db.get(key(n)).unwrap().as_deref(), Some(&[store as u8; 50][..]));
            }
        }
    }
    assert!(runtime.metrics().cache_bytes > 0);
    drop(all);
    assert_eq!(runtime.metrics().cache_bytes, 0);
}

#[test]
fn stores_without_threads_and_readers_share_the_cache_only() {
    let (runtime, fs) = (runtime_of(32 << 20), MemFs::new());
    let manual = Options { background_threads: Some(0), ..tiny(&runtime) };
    let db = Db::open_on(fs.clone(), DIR, manual).unwrap();
    (0..500).for_each(|n| db.put(key(n), [1; 100]).unwrap());
    db.flush().unwrap();
    while db.run_one_job().unwrap() {}
    assert_eq!((runtime.metrics().stores, runtime.metrics().threads), (0, 0));
    let reader = Db::open_read_only_on(fs, DIR, tiny(&runtime)).unwrap();
    assert_eq!(reader.iter().unwrap().count(), 500);
    assert_eq!(runtime.metrics().stores, 0);
    drop(reader);
    db.close().unwrap();
}

#[test]
fn values_out_of_range_are_refused_by_name() {
    let wrong = |change: fn(&mut RuntimeOptions)| {
        let mut options = RuntimeOptions::default();
        change(&mut options);
        let error = Runtime::new(options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        error.to_string()
    };
    assert!(wrong(|o| o.memory_budget_bytes = Some(1)).contains("memory_budget_bytes"));
    assert!(wrong(|o| o.threads_max = Some(2)).contains("3 to 256"));
    assert!(wrong(|o| o.background_bytes_per_second = 5).contains("background_bytes_per_second"));
    let small = |o: &mut RuntimeOptions| {
        (o.memory_budget_bytes, o.cache_size_bytes) = (Some(1 << 20), Some(2 << 20));
    };
    assert!(wrong(small).contains("cache_size_bytes"));
    let automatic = Runtime::new(RuntimeOptions::default()).unwrap().metrics();
    assert!((4 << 20..=1 << 30).contains(&automatic.budget_bytes));
    assert_eq!((automatic.stores, automatic.threads), (0, 0));
}
