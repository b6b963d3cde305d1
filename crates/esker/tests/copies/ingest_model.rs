//! Random operations with ingests and bulk loads against a map, and a power cut at every file
//! operation of an ingest.
//!
//! These tests guard against: an ingest that is in the store in part after a crash; a write before
//! an ingest that a crash loses although the ingest is there; a table that compactions, reopenings
//! or snapshots order wrongly.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::common::{Oracle, image, in_order, pairs, tiny_options};
use esker::fs::{Fs, MemFs};
use esker::ingest::{IngestOptions, SortedWriter};
use esker::{BlockLayout, Db, KeyOrder, Options, Policy, ReadOptions, Snapshot, WriteOptions};
use esker_testkit::crash::{CrashFs, CrashModel, Image};
use esker_testkit::rng::SplitMix64;

fn dir() -> &'static Path {
    Path::new("/db")
}

/// Writes `changes` to one to three files. `None` is a delete.
fn write_files(
    fs: &Arc<dyn Fs>,
    options: &Options,
    rng: &mut SplitMix64,
    changes: &[(Vec<u8>, Option<Vec<u8>>)],
) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    let per_file = (changes.len() / (1 + rng.below(3) as usize)).max(1);
    for part in changes.chunks(per_file) {
        let path = PathBuf::from(format!("/out/{:016x}", rng.next_u64()));
        let mut writer = SortedWriter::create_on(fs.clone(), &path, options).unwrap();
        for (key, value) in part {
            match value {
                Some(value) => writer.put(key, value).unwrap(),
                None => writer.delete(key).unwrap(),
            }
        }
        writer.finish().unwrap();
        paths.push(path);
    }
    // The order of the files does not matter.
    if rng.chance(2) {
        paths.reverse();
    }
    paths
}

/// A store in memory and its oracle.
struct Model {
    fs: Arc<MemFs>,
    options: Options,
    db: Db,
    oracle: Oracle,
    snapshots: Vec<(Snapshot, Oracle)>,
    rng: SplitMix64,
    ingests: u64,
}

impl Model {
    fn new(options: Options, seed: u64) -> Model {
        let fs = MemFs::new();
        fs.create_dir(Path::new("/out")).unwrap();
        let db = Db::open_on(fs.clone(), dir(), options.clone()).unwrap();
        let (oracle, snapshots) = (Oracle::new(), Vec::new());
        Model { fs, options, db, oracle, snapshots, rng: SplitMix64::new(seed), ingests: 0 }
    }

    fn key(&mut self) -> Vec<u8> {
        format!("{:03}", self.rng.below(400)).into_bytes()
    }

    fn value(&mut self) -> Vec<u8> {
        let mut value = vec![0; self.rng.below(60) as usize];
        self.rng.fill(&mut value);
        value
    }

    /// Returns new values, or deletes where `None`, of some neighbouring keys, in key order.
    fn changes(&mut self, with_deletes: bool) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let (first, count) = (self.rng.below(400), 1 + self.rng.below(40));
        let mut changes = Vec::new();
        for n in first..first + count {
            if !self.rng.chance(4) {
                let is_delete = with_deletes && self.rng.chance(5);
                let value = (!is_delete).then(|| self.value());
                changes.push((format!("{n:03}").into_bytes(), value));
            }
        }
        let order = self.options.key_order.clone();
        changes.sort_by(|a, b| order.compare(&a.0, &b.0));
        changes
    }

    fn apply(&mut self, changes: &[(Vec<u8>, Option<Vec<u8>>)]) {
        for (key, value) in changes {
            match value {
                Some(value) => drop(self.oracle.insert(key.clone(), value.clone())),
                None => drop(self.oracle.remove(key)),
            }
        }
    }

    fn step(&mut self) {
        match self.rng.below(20) {
            0..=6 => {
                let (key, value) = (self.key(), self.value());
                self.db.put(&key, &value).unwrap();
                self.oracle.insert(key, value);
            }
            7 => {
                let key = self.key();
                self.db.delete(&key).unwrap();
                self.oracle.remove(&key);
            }
            8 => {
                let (a, b) = (self.key(), self.key());
                let (lo, hi) = (a.clone().min(b.clone()), a.max(b));
                let is_reverse = matches!(self.options.key_order, KeyOrder::Reverse);
                // In reverse order the range is (lo, hi].
                let (start, end) = if is_reverse { (&hi, &lo) } else { (&lo, &hi) };
                self.db.delete_range(start, end).unwrap();
                self.oracle.retain(|key, _| match is_reverse {
                    true => *key <= lo || *key > hi,
                    false => *key < lo || *key >= hi,
                });
            }
            9..=11 => {
                let changes = self.changes(true);
                let fs: Arc<dyn Fs> = self.fs.clone();
                let paths = write_files(&fs, &self.options, &mut self.rng, &changes);
                let copy = self.rng.chance(3);
                self.db.ingest(&paths, &IngestOptions::default().copy(copy)).unwrap();
                self.apply(&changes);
                self.ingests += 1;
            }
            12 => {
                let changes = self.changes(false);
                let pairs = changes.iter().map(|(key, value)| (key, value.as_ref().unwrap()));
                self.db.bulk_load(pairs).unwrap();
                self.apply(&changes);
                self.ingests += 1;
            }
            13 => self.db.flush().unwrap(),
            14 => drop((0..3).map(|_| self.db.run_one_job().unwrap()).collect::<Vec<_>>()),
            15 if self.rng.chance(4) => self.db.compact_range(None, None).unwrap(),
            16 => {
                self.snapshots.truncate(2);
                self.snapshots.insert(0, (self.db.snapshot(), self.oracle.clone()));
            }
            17 if self.rng.chance(3) => self.reopen(),
            _ => self.check(),
        }
    }

    /// Closes the store or kills its process, and opens it again.
    fn reopen(&mut self) {
        self.snapshots.clear();
        if self.rng.chance(2) {
            self.db.clone().close().unwrap();
        } else {
            self.fs = image(dir(), &crate::common::files(&*self.fs, dir()));
            self.fs.create_dir(Path::new("/out")).unwrap();
        }
        self.db = Db::open_on(self.fs.clone(), dir(), self.options.clone()).unwrap();
        self.check();
    }

    fn check(&mut self) {
        let order = self.options.key_order.clone();
        let (found, expected) = (pairs(self.db.iter().unwrap()), in_order(&self.oracle, &order));
        assert!(found == expected, "{} pairs, expected {}", found.len(), expected.len());
        let key = self.key();
        assert_eq!(self.db.get(&key).unwrap().as_deref(), self.oracle.get(&key).map(|v| &v[..]));
        for (snapshot, oracle) in &self.snapshots {
            let read = ReadOptions::default().snapshot(snapshot);
            let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
            let found = pairs(self.db.iter_with(&read, all).unwrap());
            assert!(found == in_order(oracle, &order), "a snapshot changed");
        }
    }
}

#[test]
fn random_operations_with_ingests_match_a_map_under_every_policy() {
    for (number, policy) in Policy::ALL.iter().enumerate() {
        for seed in 0..4 {
            let layouts = BlockLayout::ALL;
            let options = Options {
                policy: *policy,
                background_threads: Some(0),
                block_layout: layouts[(seed as usize + number) % layouts.len()],
                key_order: if seed == 3 { KeyOrder::Reverse } else { KeyOrder::Bytewise },
                filter_bits_per_key: if seed % 2 == 0 { 10.0 } else { 0.0 },
                ..tiny_options()
            };
            let mut model = Model::new(options, seed * 100 + number as u64);
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                (0..400).for_each(|_| model.step());
                model.check();
                model.reopen();
                assert!(model.db.verify(&mut |_, _| {}).unwrap().is_whole());
            }));
            assert!(outcome.is_ok(), "policy {policy}, seed {seed}");
            assert!(model.ingests > 20);
        }
    }
}

/// The pairs of a store, its files and the store.
type Recovered = (Vec<(Vec<u8>, Vec<u8>)>, Arc<MemFs>, Db);

/// Opens the store of an image.
fn recovered(image: &Image, options: &Options) -> Recovered {
    let fs = image.to_mem();
    let db = Db::open_on(fs.clone(), dir(), options.clone()).unwrap();
    (pairs(db.iter().unwrap()), fs, db)
}

/// Runs `load` on a store with pairs in tables and in the memtable, and returns the images of every
/// power cut during it, with the content before and after it.
#[allow(clippy::type_complexity)]
fn cuts(
    options: &Options,
    seed: u64,
    prepare: impl FnOnce(&Arc<CrashFs>),
    load: impl FnOnce(&Db),
) -> (Vec<Image>, Oracle, Oracle) {
    let disk = CrashFs::seeded(seed);
    disk.create_dir(Path::new("/out")).unwrap();
    let db = Db::open_on(disk.clone(), dir(), options.clone()).unwrap();
    db.bulk_load((0..60u32).map(|n| (format!("{n:03}"), "table"))).unwrap();
    for n in (0..40).step_by(3) {
        db.put_with(format!("{n:03}"), "synced", &WriteOptions::SYNC).unwrap();
    }
    prepare(&disk);
    disk.sync_everything();
    let content = |db: &Db| pairs(db.iter().unwrap()).into_iter().collect::<Oracle>();
    let before = content(&db);
    let images = Arc::new(Mutex::new(Vec::new()));
    let (taken, mut seen) = (images.clone(), std::collections::HashSet::new());
    let rng = Mutex::new(SplitMix64::new(seed));
    let seen_now = Mutex::new(std::mem::take(&mut seen));
    disk.watch(move |disk| {
        for model in CrashModel::all(rng.lock().unwrap().next_u64()) {
            let image = disk.image(model);
            if seen_now.lock().unwrap().insert(image.digest()) {
                taken.lock().unwrap().push(image);
            }
        }
    });
    load(&db);
    let after = content(&db);
    // Everything is durable when the call returns.
    let last = disk.image(CrashModel::SyncedOnly);
    disk.unwatch();
    let (found, ..) = recovered(&last, options);
    assert_eq!(found.into_iter().collect::<Oracle>(), after);
    let images = std::mem::take(&mut *images.lock().unwrap());
    (images, before, after)
}

fn crash_options() -> Options {
    Options { memtable_size_bytes: Some(1 << 20), background_threads: Some(0), ..tiny_options() }
}

#[test]
fn power_cut_at_every_operation_of_an_ingest_leaves_all_or_nothing() {
    let options = crash_options();
    let paths: Vec<PathBuf> = ["/out/a", "/out/b", "/out/c"].iter().map(PathBuf::from).collect();
    for (seed, copy) in [(1, false), (2, true), (3, false)] {
        let write = |disk: &Arc<CrashFs>| {
            for (path, first) in paths.iter().zip([10, 35, 100]) {
                let mut writer = SortedWriter::create_on(disk.clone(), path, &options).unwrap();
                (first..first + 15).for_each(|n| writer.put(format!("{n:03}"), "new").unwrap());
                writer.finish().unwrap();
            }
        };
        let ingest = |db: &Db| {
            // A buffered write comes before the ingest, so it survives where the ingest does.
            db.put_with("before", "buffered", &WriteOptions::BUFFERED).unwrap();
            db.put_with("012", "buffered", &WriteOptions::BUFFERED).unwrap();
            db.ingest(&paths, &IngestOptions::default().copy(copy)).unwrap();
        };
        let (images, before, after) = cuts(&options, seed, write, ingest);
        let (mut without, mut with) = (0, 0);
        for image in &images {
            let (found, fs, db) = recovered(image, &options);
            let found: Oracle = found.into_iter().collect();
            let kept = |name: &str, value: &str| {
                found.get(name.as_bytes()).is_some_and(|found| found == value.as_bytes())
            };
            if kept("100", "new") {
                with += 1;
                assert_eq!(found, after);
            } else {
                without += 1;
                let mut plain = found.clone();
                plain.remove(&b"before"[..]);
                if kept("012", "buffered") {
                    plain.insert(b"012".to_vec(), before[&b"012"[..]].clone());
                }
                assert_eq!(plain, before);
                // The files are where they were, whatever became of their stamps.
                db.ingest(&paths, &IngestOptions::default()).unwrap();
                let again: Oracle = pairs(db.iter().unwrap()).into_iter().collect();
                assert_eq!(again.iter().filter(|(_, value)| *value == b"new").count(), 45);
            }
            assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
            db.close().unwrap();
            let tables = fs.list(dir()).unwrap();
            let tables = tables.iter().filter(|e| e.name.ends_with(".sst")).count();
            let db = Db::open_on(fs, dir(), options.clone()).unwrap();
            assert_eq!(db.tables().len(), tables, "no table is left behind");
        }
        assert!(without > 20 && with > 5, "{without} {with}");
    }
}

#[test]
fn power_cut_at_every_operation_of_a_bulk_load_leaves_all_or_nothing() {
    let options = Options { file_size_max_bytes: 4 << 10, ..crash_options() };
    let load = |db: &Db| {
        let report = db.bulk_load((20..90u32).map(|n| (format!("{n:03}"), [b'x'; 400]))).unwrap();
        assert!(report.files > 1);
    };
    let (images, before, after) = cuts(&options, 5, |_| {}, load);
    let (mut without, mut with) = (0, 0);
    for image in &images {
        let (found, _, db) = recovered(image, &options);
        let found: Oracle = found.into_iter().collect();
        assert!(found == before || found == after);
        *(if found == after { &mut with } else { &mut without }) += 1;
        assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
    }
    assert!(without > 20 && with > 2, "{without} {with}");
}
