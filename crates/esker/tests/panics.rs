//! Panics in key orders and filter policies supplied by the caller.
//!
//! Required behaviour: no call waits forever. A panic in a thread of the store makes writes fail
//! with an error that names the thread. A panic in the middle of a write does the same, since the
//! log may contain operations that the memtable lacks. Reads continue, also while other reads
//! panic. The store can be closed and dropped. Every acknowledged write is present after reopening.
//!
//! These tests guard against past failures: writers that wait for a flush whose thread is gone; a
//! manual compaction that unwinds while all other compactions are stopped; a sort that loses its
//! references; a drop that panics.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use esker::internals::Thresholds;
use esker::{
    Comparator, Db, ErrorKind, FilterPolicy, KeyOrder, MemtableKind, Options, Policy, Result,
    WriteOptions,
};
use esker_testkit::rng::SplitMix64;

/// Controls where a comparison panics.
#[derive(Default)]
struct PanicInjector {
    armed: AtomicBool,
    /// Prefix of the names of affected threads. Empty means all threads.
    thread: &'static str,
    /// Number of comparisons per panic.
    every: u64,
    compared: AtomicU64,
}

impl PanicInjector {
    fn new(thread: &'static str, every: u64) -> Arc<PanicInjector> {
        Arc::new(PanicInjector { thread, every, ..PanicInjector::default() })
    }

    fn step(&self) {
        if !self.armed.load(SeqCst) {
            return;
        }
        let here = std::thread::current().name().unwrap_or_default().starts_with(self.thread);
        if here && self.compared.fetch_add(1, SeqCst) % self.every == self.every - 1 {
            panic!("an injected panic");
        }
    }
}

struct InjectedPolicy(Arc<PanicInjector>);

impl Comparator for InjectedPolicy {
    fn name(&self) -> &str {
        "test.trapped"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.0.step();
        a.cmp(b)
    }
}

impl FilterPolicy for InjectedPolicy {
    fn name(&self) -> &str {
        "test.trapped"
    }

    fn create(&self, _: &[&[u8]]) -> Vec<u8> {
        self.0.step();
        Vec::new()
    }

    fn may_contain(&self, _: &[u8], _: &[u8]) -> bool {
        true
    }
}

/// Returns options with small sizes and thresholds, for early flushes, compactions and searches.
fn options(injector: &Arc<PanicInjector>) -> Options {
    Options {
        key_order: KeyOrder::Custom(Arc::new(InjectedPolicy(injector.clone()))),
        memtable_size_bytes: Some(64 << 10),
        file_size_max_bytes: 32 << 10,
        guard_piece_min_bytes: 16 << 10,
        guard_size_max_bytes: 64 << 10,
        background_threads: Some(2),
        compression: esker::Compression::None,
        thresholds: Thresholds::small(),
        ..Options::default()
    }
}

fn key(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

/// Runs `work` on its own thread, and fails after 300 seconds.
fn without_hanging<R: Send + 'static>(what: &str, work: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, waits) = mpsc::channel();
    let thread = std::thread::Builder::new().name("caller".into());
    let thread = thread.spawn(move || done.send(catch_unwind(AssertUnwindSafe(work)))).unwrap();
    let outcome = waits.recv_timeout(Duration::from_secs(300));
    let outcome = outcome.unwrap_or_else(|_| panic!("{what} hangs"));
    thread.join().unwrap().unwrap();
    outcome.unwrap_or_else(|cause| std::panic::resume_unwind(cause))
}

/// Writes on four threads until each write is refused. Returns each thread's number of acknowledged
/// keys and its error.
fn write_until_refused(db: &Arc<Db>) -> Vec<(u64, esker::Error)> {
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let db = db.clone();
            std::thread::spawn(move || {
                for n in 0.. {
                    let options =
                        if n % 64 == 0 { WriteOptions::SYNC } else { WriteOptions::BUFFERED };
                    if n % 16 == 0 && n > 0 {
                        // Deletes give the hint thread work.
                        if let Err(error) = db.delete_with(key(4 * (n - 1) + writer), &options) {
                            return (n, error);
                        }
                    }
                    if let Err(error) = db.put_with(key(4 * n + writer), [7; 500], &options) {
                        return (n, error);
                    }
                    assert!(n < 4_000_000, "no writer was refused");
                }
                unreachable!()
            })
        })
        .collect();
    writers.into_iter().map(|writer| writer.join().unwrap()).collect()
}

/// Returns whether key `n` of a writer with `acknowledged` keys is present.
fn is_there(n: u64, acknowledged: u64) -> bool {
    // The next key's step deletes this key.
    !(n + 1).is_multiple_of(16) || n + 1 >= acknowledged
}

fn check_all(db: &Db, written: &[(u64, esker::Error)]) {
    for (writer, (count, _)) in written.iter().enumerate() {
        for n in 0..*count {
            // The last key may be deleted, by an acknowledged or a refused delete.
            if n + 1 == *count {
                continue;
            }
            let found = db.get(key(4 * n + writer as u64)).unwrap();
            assert_eq!(found.is_some(), is_there(n, *count), "writer {writer}, key {n} of {count}");
        }
    }
}

/// Checks a store whose thread `thread` panics: it refuses writes, serves reads, closes, and keeps
/// all data.
fn thread_panics(thread: &'static str, by_filter: bool) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let injector = PanicInjector::new(thread, if by_filter { 3 } else { 200 });
    let mut with_panics = options(&injector);
    if by_filter {
        with_panics.key_order = KeyOrder::Bytewise;
        with_panics.filter_policy = Some(Arc::new(InjectedPolicy(injector.clone())));
    }
    let after = with_panics.clone();
    injector.armed.store(true, SeqCst);
    let opened = path.clone();
    let written = without_hanging(thread, move || {
        let db = Arc::new(Db::open(&opened, with_panics).unwrap());
        let written = write_until_refused(&db);
        for (_, error) in &written {
            assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
            let message = error.to_string();
            let parts = [thread, "panicked", "an injected panic", "open it again", "db"];
            // The search for hints holds the write lock at times. Between its panic there and the
            // end of its thread, a writer gets the error of the lock and not of the thread.
            let by_lock = message.contains("panicked while it held the write lock");
            let named = parts.iter().all(|part| message.contains(part));
            assert!(named || (by_lock && thread == "esker-hints"), "{message}");
        }
        check_all(&db, &written);
        let count = db.iter().unwrap().map(Result::unwrap).count();
        assert!(count > 0);
        // Every call that would wait for the thread is refused without waiting.
        let refused = |result: Result<()>| result.unwrap_err().kind() == ErrorKind::ReadOnly;
        assert!(refused(db.flush()) && refused(db.wait_idle()) && refused(db.delete("a")));
        assert!(refused(db.compact_range(None, None)) && refused(db.sync()));
        assert!(refused(db.put("a", "b")));
        let snapshot = db.snapshot();
        assert_eq!(snapshot.iter().unwrap().map(Result::unwrap).count(), count);
        drop(snapshot);
        // The close may report memtables that are in no table. Their content is in logs.
        let _ = Arc::into_inner(db).unwrap().close();
        written
    });
    injector.armed.store(false, SeqCst);
    let db = Db::open(&path, after).unwrap();
    check_all(&db, &written);
    db.put("a", "b").unwrap();
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    check_all(&db, &written);
    assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
    db.close().unwrap();
}

#[test]
fn comparator_panic_in_compaction_refuses_writes_and_wakes_waiters() {
    thread_panics("esker-compact", false);
}

#[test]
fn comparator_panic_in_flush_refuses_writes_and_wakes_waiters() {
    thread_panics("esker-flush", false);
}

#[test]
fn comparator_panic_in_hint_search_refuses_writes_and_wakes_waiters() {
    thread_panics("esker-hints", false);
}

#[test]
fn filter_policy_panic_refuses_writes_and_wakes_waiters() {
    thread_panics("esker-flush", true);
    thread_panics("esker-compact", true);
}

/// A put panics while it holds the writer state's lock. Later writes are refused. All acknowledged
/// writes are present, now and after reopening. The batch that panicked is present completely or
/// not at all.
#[test]
fn comparator_panic_in_write_refuses_next_write_and_loses_nothing() {
    // The vector index makes no comparison in this insertion.
    for kind in [MemtableKind::Btree, MemtableKind::Skiplist] {
        for round in 0..12 {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("db");
            let injector = PanicInjector::new("comparator_panic", 1 + round);
            let options = || Options { memtable_kind: kind, ..options(&injector) };
            let db = Arc::new(Db::open(&path, options()).unwrap());
            for n in 0..200 {
                db.put(key(n), [1; 100]).unwrap();
            }
            injector.armed.store(true, SeqCst);
            let mut batch = esker::Batch::new();
            for n in 150..210 {
                batch.put(key(n), [2; 100]);
            }
            let panicked = catch_unwind(AssertUnwindSafe(|| db.write(&batch)));
            injector.armed.store(false, SeqCst);
            assert!(panicked.is_err(), "{kind:?}: the comparator was not called");
            let others = db.clone();
            let refused = without_hanging("a write after a panic", move || others.put("a", "b"));
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ReadOnly, "{refused}");
            assert!(refused.to_string().contains("panicked"), "{refused}");
            for n in 0..200 {
                let found = db.get(key(n)).unwrap();
                assert_eq!(found.as_deref(), Some(&[1; 100][..]), "{kind:?}, {n}");
            }
            assert_eq!(db.iter().unwrap().map(Result::unwrap).count(), 200);
            without_hanging("a close", move || drop(db));
            let db = Db::open(&path, options()).unwrap();
            let newer = (150..210).filter(|n| db.get(key(*n)).unwrap().is_some_and(|v| v[0] == 2));
            assert!([0, 60].contains(&newer.count()), "{kind:?}: part of a batch is visible");
            assert!((0..150).all(|n| db.get(key(n)).unwrap().is_some_and(|v| v[0] == 1)));
            db.put("a", "b").unwrap();
            db.close().unwrap();
        }
    }
}

/// One reader whose comparisons occasionally panic, beside a writer whose comparisons never do.
#[test]
fn panics_in_reads_release_locks_and_lose_nothing() {
    for (kind, policy) in
        MemtableKind::ALL.iter().zip([Policy::Fluid, Policy::Tiered, Policy::Leveled])
    {
        let dir = tempfile::tempdir().unwrap();
        let injector = PanicInjector::new("reader", 97);
        let options = Options { memtable_kind: *kind, policy, ..options(&injector) };
        let db = Arc::new(Db::open(dir.path().join("db"), options).unwrap());
        (0..2_000).for_each(|n| db.put(key(n), [1; 100]).unwrap());
        injector.armed.store(true, SeqCst);
        let panicked = Arc::new(AtomicU64::new(0));
        let reader = {
            let (db, panicked) = (db.clone(), panicked.clone());
            std::thread::Builder::new().name("reader".into()).spawn(move || {
                let mut rng = SplitMix64::new(7);
                for _ in 0..3_000 {
                    let n = rng.below(2_000);
                    let read = catch_unwind(AssertUnwindSafe(|| match rng.below(5) {
                        0 => db.iter().unwrap().take(30).map(Result::unwrap).count(),
                        1 => db.range(key(n)..).unwrap().rev().take(30).count(),
                        2 => db.multi_get(&[key(n), key(n + 1), key(n + 2)]).unwrap().len(),
                        3 => db.read(key(n), <[u8]>::len).unwrap().unwrap_or(0),
                        _ => db.get(key(n)).unwrap().map_or(0, |value| value.len()),
                    }));
                    panicked.fetch_add(u64::from(read.is_err()), SeqCst);
                }
            })
        };
        let writer = {
            let db = db.clone();
            move || {
                for n in 2_000..6_000 {
                    db.put(key(n), [2; 100]).unwrap();
                }
                db.flush().unwrap();
            }
        };
        without_hanging("a writer beside reads that panic", writer);
        let reader = reader.unwrap();
        without_hanging("a reader", move || reader.join().unwrap());
        assert!(panicked.load(SeqCst) > 100, "{panicked:?} reads panicked");
        let db = Arc::into_inner(db).unwrap();
        let found: BTreeMap<Vec<u8>, Vec<u8>> = db.iter().unwrap().map(Result::unwrap).collect();
        assert_eq!(found.len(), 6_000);
        assert!((0..6_000).all(|n| db.get(key(n)).unwrap().is_some()), "{kind:?}");
        db.close().unwrap();
    }
}

#[test]
fn range_deletes_survive_panic_in_read() {
    // The injector is limited to readers: a panic in the hint thread refuses writes and `close`.
    without_hanging("a read that panics", || (1..40).for_each(reads_that_panic));
}

fn reads_that_panic(every: u64) {
    let dir = tempfile::tempdir().unwrap();
    let injector = PanicInjector::new("caller", every);
    let db = Db::open(dir.path().join("db"), options(&injector)).unwrap();
    (0..100u8).for_each(|n| db.put([n], "value").unwrap());
    (0..20u8).for_each(|n| db.delete_range([4 * n], [4 * n + 2]).unwrap());
    for _ in 0..3 {
        injector.armed.store(true, SeqCst);
        let _ = catch_unwind(AssertUnwindSafe(|| db.iter().unwrap().count()));
        let _ = catch_unwind(AssertUnwindSafe(|| db.get([41]).unwrap()));
        injector.armed.store(false, SeqCst);
        assert_eq!(db.iter().unwrap().count(), 60, "{every}");
        (0..80u8).for_each(|n| assert_eq!(db.get([n]).unwrap().is_none(), n % 4 < 2, "{n}"));
    }
    db.close().unwrap();
}

#[test]
fn panic_in_manual_compaction_does_not_block_others() {
    let dir = tempfile::tempdir().unwrap();
    let injector = PanicInjector::new("caller", 5_000);
    let db = Arc::new(Db::open(dir.path().join("db"), options(&injector)).unwrap());
    (0..4_000).for_each(|n| db.put(key(n), [1; 100]).unwrap());
    db.flush().unwrap();
    injector.armed.store(true, SeqCst);
    let by_hand = db.clone();
    let panicked = without_hanging("a merge that panics", move || {
        catch_unwind(AssertUnwindSafe(|| by_hand.compact_range(None, None))).is_err()
    });
    assert!(panicked);
    injector.armed.store(false, SeqCst);
    let others = db.clone();
    without_hanging("merges after one that panicked", move || {
        (4_000..12_000).for_each(|n| others.put(key(n), [1; 100]).unwrap());
        others.wait_idle().unwrap();
        others.compact_range(None, None).unwrap();
    });
    assert_eq!(db.iter().unwrap().map(Result::unwrap).count(), 12_000);
    Arc::into_inner(db).unwrap().close().unwrap();
}

/// Without threads a close flushes by itself. It may run in a drop during another panic.
#[test]
fn comparator_panic_in_drop_does_not_abort() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let injector = PanicInjector::new("", 10);
    let options = || Options { background_threads: Some(0), ..options(&injector) };
    let db = Db::open(&path, options()).unwrap();
    (0..100).for_each(|n| db.put_with(key(n), [1; 100], &WriteOptions::NONE).unwrap());
    injector.armed.store(true, SeqCst);
    let caught = catch_unwind(AssertUnwindSafe(move || {
        let _db = db;
        panic!("while the store is open");
    }));
    assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"while the store is open"));
    injector.armed.store(false, SeqCst);
    let db = Db::open(&path, options()).unwrap();
    db.put("a", "b").unwrap();
    injector.armed.store(true, SeqCst);
    db.put_with("b", "c", &WriteOptions::NONE).unwrap_or_default();
    injector.armed.store(false, SeqCst);
    db.close().unwrap();
}
