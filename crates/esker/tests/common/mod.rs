//! A store with an oracle: random operations on both, with every answer compared.
#![allow(dead_code)]

pub mod gate;
pub mod processes;
pub mod sorted_files;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};

use esker::fs::Fs;
use esker::fs::MemFs;
use esker::internals::Thresholds;
use esker::{
    Batch, Clock, Comparator, Db, Durability, KeyOrder, Options, ReadOptions, Runtime,
    RuntimeOptions, Snapshot, ValueSeparation, WriteOptions,
};
use esker_testkit::crash::{CrashFs, CrashModel};
use esker_testkit::fault::{Fault, FaultFs, FaultKind, Op, OpMask};
use esker_testkit::rng::SplitMix64;

/// Pairs in bytewise key order.
pub type Oracle = BTreeMap<Vec<u8>, Vec<u8>>;

/// Returns options with small sizes and thresholds: a few thousand operations reach every level and
/// every mechanism.
pub fn tiny_options() -> Options {
    Options {
        memory_budget_bytes: Some(64 << 20),
        memtable_size_bytes: Some(4 << 10),
        block_size_bytes: 256,
        file_size_max_bytes: 4 << 10,
        guard_size_max_bytes: 8 << 10,
        guard_piece_min_bytes: 1 << 10,
        cache_size_bytes: Some(8 << 10),
        fan_out: 3,
        l0_runs_max: 2,
        runs_max: 3,
        last_runs_max: 3,
        background_threads: Some(1),
        // `rest.rs` tests it.
        rest_compaction: false,
        // `space_bound.rs` tests it, and models and crashes of stores with it.
        space_amplification_max: None,
        // `info_log.rs` tests them.
        log_file: false,
        status_file: false,
        thresholds: Thresholds::small(),
        runtime: runtime_by_variable(),
        value_separation_min_bytes: separation_by_variable(),
        ..Options::default()
    }
}

/// Returns the same options with a bound on space, which merges much.
pub fn bounded_options() -> Options {
    Options { space_amplification_max: Some(1.3), ..tiny_options() }
}

/// Returns the length in the variable `ESKER_VALUES_FROM` from which values are separated, if it is
/// set. So a suite can be run again with values in value files.
fn separation_by_variable() -> ValueSeparation {
    let from = std::env::var("ESKER_VALUES_FROM").ok();
    from.map_or(ValueSeparation::Off, |bytes| ValueSeparation::From(bytes.parse().unwrap()))
}

/// Returns one runtime for all stores of the process, if the variable `ESKER_WITH_RUNTIME` is set.
/// So a suite can be run again with shared workers.
fn runtime_by_variable() -> Option<Runtime> {
    static SHARED: LazyLock<Option<Runtime>> = LazyLock::new(|| {
        std::env::var_os("ESKER_WITH_RUNTIME")?;
        let memory_budget_bytes = Some(64 << 20);
        Some(Runtime::new(RuntimeOptions { memory_budget_bytes, ..Default::default() }).unwrap())
    });
    SHARED.clone()
}

/// Calls `check` with the files of a store in which one file, the one at `at`, is damaged: with a bit of
/// each byte flipped, cut to each of `cuts` bytes, and missing. Also with what was done.
pub fn with_damage(
    all: &[(String, Vec<u8>)],
    at: usize,
    cuts: &[usize],
    check: impl Fn(&[(String, Vec<u8>)], &str),
) {
    for byte in 0..all[at].1.len() {
        let mut bad = all.to_vec();
        bad[at].1[byte] ^= 1 << (byte % 8);
        check(&bad, &format!("byte {byte}"));
    }
    for cut in cuts {
        let mut bad = all.to_vec();
        bad[at].1.truncate(*cut);
        check(&bad, &format!("{cut} bytes"));
    }
    let mut missing = all.to_vec();
    missing.remove(at);
    check(&missing, "no file");
}

/// A clock that a test turns, in milliseconds.
pub struct Turning(pub AtomicU64);

impl Clock for Turning {
    fn now_ms(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A store, its oracle, and snapshots with the oracle's state at each.
pub struct Pair {
    pub fs: Arc<dyn Fs>,
    pub path: PathBuf,
    pub options: Options,
    pub db: Option<Db>,
    pub oracle: Oracle,
    pub snapshots: Vec<(Snapshot, Oracle)>,
    pub rng: SplitMix64,
    pub key_space: u64,
}

impl Pair {
    /// Creates an empty store in memory.
    pub fn new(options: Options, seed: u64, key_space: u64) -> Pair {
        let fs: Arc<dyn Fs> = MemFs::new();
        let path = PathBuf::from("/db");
        let db = Db::open_on(fs.clone(), &path, options.clone()).unwrap();
        Pair {
            fs,
            path,
            options,
            db: Some(db),
            oracle: Oracle::new(),
            snapshots: Vec::new(),
            rng: SplitMix64::new(seed),
            key_space,
        }
    }

    pub fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    /// Returns a random key: often short, sometimes empty, with shared prefixes and zero bytes.
    pub fn key(&mut self) -> Vec<u8> {
        let n = self.rng.next_u64() % self.key_space;
        match n % 7 {
            0 => format!("{n:016}").into_bytes(),
            1 => format!("user{n}").into_bytes(),
            2 => vec![0; (n % 5) as usize],
            3 => [b"p/".as_slice(), &(n as u16).to_be_bytes()].concat(),
            4 => vec![0xff; (n % 4) as usize + 1],
            _ => (n as u32).to_be_bytes().to_vec(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let len = match self.rng.next_u64() % 20 {
            0 => 0,
            1 => 1500,
            n => n as usize * 5,
        };
        (0..len).map(|i| (self.rng.next_u64() >> (i % 3)) as u8 & 0x3f).collect()
    }

    /// Applies one random operation to the store and the oracle.
    pub fn step(&mut self) {
        match self.rng.next_u64() % 100 {
            0..=49 => {
                let (key, value) = (self.key(), self.value());
                self.db().put(&key, &value).unwrap();
                self.oracle.insert(key, value);
            }
            50..=64 => {
                let key = self.key();
                if self.rng.next_u64().is_multiple_of(2) {
                    self.db().delete(&key).unwrap();
                    self.oracle.remove(&key);
                } else {
                    let was = self.oracle.remove(&key).is_some();
                    assert_eq!(self.db().remove(&key).unwrap(), was, "remove {key:?}");
                }
            }
            65..=72 => self.write_batch(),
            73..=75 => {
                let (a, b) = (self.key(), self.key());
                self.db().delete_range(&a, &b).unwrap();
                self.oracle_delete_range(&a, &b);
            }
            76..=88 => {
                let key = self.key();
                self.check_get(&key);
            }
            89..=91 => self.check_seeks(),
            92..=93 => self.take_snapshot(),
            94 => {
                self.snapshots.pop();
            }
            95 => self.db().flush().unwrap(),
            96 => self.check_some_snapshot(),
            97 if self.rng.next_u64().is_multiple_of(4) => self.compact(),
            98 if self.rng.next_u64().is_multiple_of(6) => self.reopen(),
            _ => self.check_multi_get(),
        }
    }

    fn oracle_delete_range(&mut self, a: &[u8], b: &[u8]) {
        let order = self.options.key_order.clone();
        let less = |x: &[u8], y: &[u8]| order.compare(x, y).is_lt();
        self.oracle.retain(|k, _| less(k, a) || !less(k, b));
    }

    fn write_batch(&mut self) {
        let mut batch = Batch::new();
        for _ in 0..self.rng.next_u64() % 12 {
            let key = self.key();
            match self.rng.next_u64() % 10 {
                0 => {
                    let end = self.key();
                    batch.delete_range(&key, &end);
                    self.oracle_delete_range(&key, &end);
                }
                1..=3 => {
                    batch.delete(&key);
                    self.oracle.remove(&key);
                }
                _ => {
                    let value = self.value();
                    batch.put(&key, &value);
                    self.oracle.insert(key, value);
                }
            }
        }
        let durability =
            [Durability::Buffered, Durability::Sync][(self.rng.next_u64() % 2) as usize];
        self.db()
            .write_with(&batch, &WriteOptions::default().durability(Some(durability)))
            .unwrap();
    }

    fn check_get(&self, key: &[u8]) {
        let found = self.db().get(key).unwrap();
        assert_eq!(found.as_deref(), self.oracle.get(key).map(Vec::as_slice), "get {key:?}");
        let read = self.db().read(key, <[u8]>::to_vec).unwrap();
        assert_eq!(read.as_deref(), found.as_deref());
    }

    fn check_multi_get(&mut self) {
        let keys: Vec<Vec<u8>> = (0..5).map(|_| self.key()).collect();
        let found = self.db().multi_get(&keys).unwrap();
        for (key, value) in keys.iter().zip(found) {
            assert_eq!(value.as_deref(), self.oracle.get(key).map(Vec::as_slice));
        }
        if let Some((snapshot, oracle)) = self.snapshots.first() {
            let found = snapshot.multi_get(&keys).unwrap();
            for (key, value) in keys.iter().zip(found) {
                assert_eq!(value.as_deref(), oracle.get(key).map(Vec::as_slice));
            }
        }
    }

    fn take_snapshot(&mut self) {
        if self.snapshots.len() < 4 {
            self.snapshots.push((self.db().snapshot(), self.oracle.clone()));
        }
    }

    fn check_some_snapshot(&mut self) {
        let key = self.key();
        if let Some((snapshot, oracle)) = self.snapshots.first() {
            let want = oracle.get(&key).map(Vec::as_slice);
            assert_eq!(snapshot.get(&key).unwrap().as_deref(), want);
            let options = ReadOptions::default().snapshot(Some(snapshot)).fill_cache(false);
            assert_eq!(self.db().get_with(&key, &options).unwrap().as_deref(), want);
            assert_eq!(pairs(snapshot.iter().unwrap()), in_order(oracle, &self.options.key_order));
        }
    }

    /// Seeks to random keys, takes a few steps in random directions, and checks range scans.
    fn check_seeks(&mut self) {
        let sorted = in_order(&self.oracle, &self.options.key_order);
        let order = self.options.key_order.clone();
        let mut iter = self.db().iter().unwrap();
        for _ in 0..4 {
            let target = self.key();
            let mut at: isize = if self.rng.next_u64().is_multiple_of(2) {
                iter.seek(&target).unwrap();
                sorted.partition_point(|(k, _)| order.compare(k, &target).is_lt()) as isize
            } else {
                iter.seek_for_prev(&target).unwrap();
                sorted.partition_point(|(k, _)| order.compare(k, &target).is_le()) as isize - 1
            };
            for _ in 0..8 {
                let want = usize::try_from(at).ok().and_then(|i| sorted.get(i));
                assert_eq!(iter.valid(), want.is_some(), "at {at} of {}", sorted.len());
                let Some((key, value)) = want else { break };
                assert_eq!((iter.key(), iter.value()), (key.as_slice(), value.as_slice()));
                if self.rng.next_u64().is_multiple_of(3) {
                    iter.move_prev().unwrap();
                    at -= 1;
                } else {
                    iter.move_next().unwrap();
                    at += 1;
                }
            }
        }
        let (a, b) = (self.key(), self.key());
        let want: Vec<_> = sorted
            .iter()
            .filter(|(k, _)| order.compare(k, &a).is_ge() && order.compare(k, &b).is_lt())
            .cloned()
            .collect();
        let bounds = (Bound::Included(a), Bound::Excluded(b));
        let range = |reverse: bool| {
            let iter = self.db().iter_with(&ReadOptions::default(), bounds.clone()).unwrap();
            if reverse { iter.rev().map(|p| p.unwrap()).collect::<Vec<_>>() } else { pairs(iter) }
        };
        assert_eq!(range(false), want);
        assert_eq!(range(true), want.iter().rev().cloned().collect::<Vec<_>>());
        self.check_shows(bounds, &want);
    }

    /// Checks the for-each scans between bounds: interrupted once and resumed, in both directions.
    fn check_shows(
        &mut self,
        bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>),
        want: &[(Vec<u8>, Vec<u8>)],
    ) {
        let stop = self.rng.next_u64() as usize % (want.len() + 1);
        for forward in [true, false] {
            let mut iter = self.db().iter_with(&ReadOptions::default(), bounds.clone()).unwrap();
            let mut seen = Vec::new();
            let mut visit = |key: &[u8], value: &[u8], stop: usize| {
                if seen.len() == stop {
                    return ControlFlow::Break(());
                }
                seen.push((key.to_vec(), value.to_vec()));
                ControlFlow::Continue(())
            };
            if forward {
                iter.seek_to_first().unwrap();
                iter.for_each_forward(|key, value| visit(key, value, stop)).unwrap();
                assert_eq!(iter.valid(), stop < want.len());
                iter.for_each_forward(|key, value| visit(key, value, usize::MAX)).unwrap();
            } else {
                iter.seek_to_last().unwrap();
                iter.for_each_backward(|key, value| visit(key, value, stop)).unwrap();
                assert_eq!(iter.valid(), stop < want.len());
                iter.for_each_backward(|key, value| visit(key, value, usize::MAX)).unwrap();
                seen.reverse();
            }
            assert!(!iter.valid());
            assert_eq!(seen, want);
        }
    }

    fn compact(&mut self) {
        let (a, b) = (self.key(), self.key());
        match self.rng.next_u64() % 3 {
            0 => self.db().compact_range(None, None).unwrap(),
            1 => self.db().compact_range(Some(&a), None).unwrap(),
            _ => self
                .db()
                .compact_range(Some(a.as_slice().min(&b)), Some(a.as_slice().max(&b)))
                .unwrap(),
        }
    }

    /// Closes and reopens the store, and checks that every pair is present.
    pub fn reopen(&mut self) {
        self.snapshots.clear();
        if self.rng.next_u64().is_multiple_of(2) {
            self.db.take().unwrap().close().unwrap();
        } else {
            drop(self.db.take());
        }
        let db = Db::open_on(self.fs.clone(), &self.path, self.options.clone()).unwrap();
        self.db = Some(db);
        self.check_all();
    }

    /// Compares every pair in both directions, and every snapshot.
    pub fn check_all(&self) {
        let want = in_order(&self.oracle, &self.options.key_order);
        assert_eq!(pairs(self.db().iter().unwrap()), want);
        let back: Vec<_> = self.db().iter().unwrap().rev().map(|p| p.unwrap()).collect();
        assert_eq!(back, want.into_iter().rev().collect::<Vec<_>>());
        for (snapshot, oracle) in &self.snapshots {
            assert_eq!(pairs(snapshot.iter().unwrap()), in_order(oracle, &self.options.key_order));
        }
    }
}

/// Returns the oracle's pairs in the store's key order.
pub fn in_order(oracle: &Oracle, order: &KeyOrder) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all: Vec<_> = oracle.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    all.sort_by(|a, b| order.compare(&a.0, &b.0));
    all
}

/// Returns all pairs of an iterator.
pub fn pairs(iter: esker::DbIterator) -> Vec<(Vec<u8>, Vec<u8>)> {
    iter.map(|pair| pair.unwrap()).collect()
}

/// Returns every file in `dir` with its content.
pub fn files(fs: &dyn Fs, dir: &Path) -> Vec<(String, Vec<u8>)> {
    let read = |name: &str| fs.read(&dir.join(name), u64::MAX).unwrap();
    let entries = fs.list(dir).unwrap();
    entries.iter().filter(|e| e.is_file).map(|e| (e.name.clone(), read(&e.name))).collect()
}

/// Returns a file system in memory with these files in `dir`.
pub fn image(dir: &Path, files: &[(String, Vec<u8>)]) -> Arc<MemFs> {
    let fs = MemFs::new();
    fs.create_dir(dir).unwrap();
    for (name, bytes) in files {
        let mut file = fs.create_new(&dir.join(name)).unwrap();
        file.append(bytes).unwrap();
        file.sync().unwrap();
    }
    fs.sync_dir(dir).unwrap();
    fs
}

/// A key order that can be reversed under the same name.
pub struct Reversible(pub bool);

impl Comparator for Reversible {
    fn name(&self) -> &str {
        "test.turned"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        if self.0 { b.cmp(a) } else { a.cmp(b) }
    }
}

/// Returns the files of a killed store with several logs, because no table could be written. The
/// files are as the store left them, whether synced or not.
pub fn several_logs(dir: &Path, written: &WriteOptions) -> Vec<(String, Vec<u8>)> {
    let disk = CrashFs::new();
    let fs = FaultFs::new(disk.clone());
    let options = Options { frozen_memtables_max: 8, ..tiny_options() };
    let db = Db::open_on(fs.clone(), dir, options).unwrap();
    fs.arm(Fault::for_ever(OpMask::of(&[Op::Create]), 1, FaultKind::NoSpace).on(".sst"));
    for i in 0..400u32 {
        if db.put_with(i.to_be_bytes(), [7; 90], written).is_err() {
            break;
        }
    }
    let left = files(&*disk.crash_image(CrashModel::Everything), dir);
    assert!(left.iter().filter(|(name, _)| name.ends_with(".wal")).count() >= 3);
    left
}

/// A key order that ignores ASCII case.
pub struct NoCase;

impl Comparator for NoCase {
    fn name(&self) -> &str {
        "test.no_case"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
    }
}
