//! The process that dies: it opens a store, writes, reads, runs maintenance tasks, closes the store
//! and starts again, until it is ended.
//!
//! Invariants: every answer of the store is in the slots before the next step. Without faults, any
//! error ends the process with a message and a nonzero exit code.

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use esker::fs::{Fs, OsFs};
use esker::ingest::IngestOptions;
use esker::{
    Db, Durability, Error, ErrorKind, KeyOrder, Keyspace, Options, ReadOptions, WriteOptions,
};

use super::plan;
use super::slots::{FileKind, Phase, Slot, Slots, Task};
use super::temporary;
use crate::campaign::keyspaces::SLOTS;
use crate::campaign::{ops, sorted_files};
use crate::fault::{Fault, FaultFs, FaultKind, Op, OpMask};
use crate::rng::SplitMix64;

/// How a victim ends, and whether it meets faults before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndMode {
    /// It is ended from outside.
    Outside,
    /// It ends itself at a file operation.
    Inside,
    /// It is ended from outside, and operations fail occasionally before.
    Faults,
}

impl EndMode {
    /// Every way to end.
    pub const ALL: [EndMode; 3] = [EndMode::Outside, EndMode::Inside, EndMode::Faults];

    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            EndMode::Outside => "outside",
            EndMode::Inside => "inside",
            EndMode::Faults => "faults",
        }
    }
}

/// The parameters of a victim.
pub struct VictimParams {
    /// The directory of the store, its checkpoint and its backups.
    pub base: PathBuf,
    /// The file of the slots.
    pub slots: PathBuf,
    /// The seed of the written data.
    pub seed: u64,
    /// The round, which determines the options.
    pub round: u64,
    /// How the victim ends.
    pub end_mode: EndMode,
}

/// Returns the directory of the checkpoint with this number.
pub fn copy_path(base: &Path, number: u64) -> PathBuf {
    base.join(format!("copy-{number}"))
}

/// Ends the process by SIGKILL, whatever its threads are doing. What it has written to files is in
/// the page cache, which survives the process.
pub(crate) fn die() {
    let me = rustix::process::getpid();
    rustix::process::kill_process(me, rustix::process::Signal::KILL)
        .expect("cannot kill the own process");
    std::thread::sleep(Duration::from_secs(60));
}

/// Returns the operation at which a victim ends itself: of any file and kind, or of one.
pub(crate) fn kill_point(rng: &mut SplitMix64) -> Fault {
    let part = ["", "", ".wal", ".sst", ".sst", "manifest-", "CURRENT"][rng.below(7) as usize];
    let ops = match rng.below(6) {
        0 => OpMask::of(&[Op::Sync, Op::SyncDir]),
        1 => OpMask::of(&[Op::Create, Op::Rename, Op::Remove, Op::Link, Op::SetLen]),
        2 => OpMask::of(&[Op::Write]),
        _ => OpMask::CHANGES,
    };
    // `CURRENT` changes only at an opening; tables change thousands of times.
    let most = [3, 20, 150, 1000][rng.below(4) as usize];
    Fault::once(ops, 1 + rng.below(most), FaultKind::Death).on(part)
}

/// Runs one background job if the store leaves the work to its caller, else waits for all pending
/// work.
fn background_work(db: &Db) -> esker::Result<()> {
    match db.option("background_threads").as_deref() {
        Some("0") => db.run_one_job().map(|_| ()),
        _ => db.wait_idle(),
    }
}

/// Returns a fault that lasts until it is disarmed, or occurs once.
fn fault(rng: &mut SplitMix64) -> Fault {
    let (ops, kind) = match rng.below(6) {
        0 => (OpMask::GROWTH, FaultKind::NoSpace),
        1 => (OpMask::GROWTH, FaultKind::Quota),
        2 => (OpMask::of(&[Op::Write]), FaultKind::ShortWrite),
        3 => (OpMask::of(&[Op::Sync, Op::SyncDir]), FaultKind::Io),
        4 => (OpMask::of(&[Op::Read, Op::Open]), FaultKind::Io),
        _ => (OpMask::ALL, FaultKind::Io),
    };
    let nth = 1 + rng.below(200);
    let fault =
        if rng.chance(3) { Fault::for_ever(ops, nth, kind) } else { Fault::once(ops, nth, kind) };
    fault.on(["", "", ".wal", ".sst", "manifest-"][rng.below(5) as usize])
}

/// A store and its keyspaces, by slot.
type Store<'a> = (&'a Db, &'a [Keyspace]);

/// Returns whether a transaction failed over another one. It then runs again.
fn is_contention(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Deadlock | ErrorKind::Busy)
}

struct Victim {
    params: VictimParams,
    fs: Arc<FaultFs>,
    /// The file system of the store, over `fs`.
    store_fs: Arc<dyn Fs>,
    slots: Slots,
    writers: usize,
}

/// Ends the process because of a broken promise.
fn broken(message: &str) -> ! {
    eprintln!("{message}");
    std::process::exit(3);
}

/// Runs by `params` until killed.
pub fn run(params: VictimParams) -> ! {
    let slots = Slots::open(&params.slots).expect("open the slots");
    let fs = FaultFs::new(OsFs::shared());
    if params.end_mode == EndMode::Inside {
        let slots_at_death = Slots::open(&params.slots).expect("open the slots");
        fs.at_death(Arc::new(move |op, path| {
            slots_at_death.set(Slot::DeathOp, op as u64 + 1);
            slots_at_death.set(Slot::DeathFile, FileKind::of(path) as u64);
            die();
        }));
        fs.arm(kill_point(&mut plan::rng_at(params.seed, 92, params.round)));
    }
    let writers = plan::writers(params.seed);
    let store_fs = plan::store_fs(params.seed, fs.clone());
    let victim = Victim { params, fs, store_fs, slots, writers };
    for session in 0.. {
        victim.run_session(session);
    }
    unreachable!("the loop never ends")
}

impl Victim {
    fn faulty(&self) -> bool {
        self.params.end_mode == EndMode::Faults
    }

    /// Opens the store, works on it and closes it.
    fn run_session(&self, session: u64) {
        self.slots.set(Slot::Phase, Phase::Opening as u64);
        let (db, keyspaces) = self.open(session);
        self.slots.bump(Slot::Opened);
        for writer in 0..self.writers {
            self.begin(&db, writer);
        }
        self.slots.set(Slot::Phase, Phase::Serving as u64);
        let stop = AtomicBool::new(false);
        let working = AtomicU64::new(self.writers as u64);
        let over = || working.load(Ordering::Acquire) == 0;
        std::thread::scope(|scope| {
            for writer in 0..self.writers {
                let (store, stop, working) = ((&db, &keyspaces[..]), &stop, &working);
                scope.spawn(move || {
                    self.write(store, writer, session, stop);
                    working.fetch_sub(1, Ordering::Release);
                });
            }
            scope.spawn(|| self.read(&db, &keyspaces, session, &over));
            self.run_tasks(&db, session, &over);
        });
        self.slots.set(Slot::Phase, Phase::Closing as u64);
        drop(keyspaces);
        let closed = db.close();
        self.expect_no_error(closed.err(), "close");
        self.count_faults();
    }

    /// Opens the store and its keyspaces.
    fn open(&self, session: u64) -> (Db, Vec<Keyspace>) {
        let options = plan::options_of(self.params.seed, self.params.round, session);
        let path = self.params.base.join("db");
        let mut tries = 0;
        loop {
            let opened = Db::open_on(self.store_fs.clone(), &path, options.clone());
            match opened.and_then(|db| Ok((plan::open_keyspaces(&db)?, db))) {
                Ok((keyspaces, db)) => return (db, keyspaces),
                Err(error) if self.faulty() && tries < 3 => drop(error),
                Err(error) => broken(&format!("open: {error}")),
            }
            self.fs.disarm();
            tries += 1;
        }
    }

    /// Treats an error as a broken promise if there are no faults.
    fn expect_no_error(&self, error: Option<Error>, doing: &str) {
        match error {
            Some(error) if !self.faulty() => broken(&format!("{doing}: {error}")),
            _ => {}
        }
    }

    fn count_faults(&self) {
        self.slots.set(Slot::Faults, self.slots.get(Slot::Faults) + self.fs.hits());
    }

    /// Checks that a writer's counter is not less than its acknowledged batches.
    fn begin(&self, db: &Db, writer: usize) {
        let found = loop {
            match db.get(plan::counter_key(writer)) {
                Ok(found) => break found,
                Err(error) => self.expect_no_error(Some(error), "read a counter"),
            }
            self.fs.disarm();
        };
        let last = found.map_or(0, |v| plan::number_in(&v).expect("a counter"));
        let acknowledged = self.slots.get(Slot::Acknowledged(writer));
        if last < acknowledged {
            broken(&format!(
                "writer {writer}: found batch {last}, but batch {acknowledged} was acknowledged"
            ));
        }
        let round_from = Slot::RoundFrom(writer, self.params.round);
        if !(1..=last).contains(&self.slots.get(round_from)) {
            self.slots.set(round_from, last + 1);
        }
        self.slots.set(Slot::Durable(writer), last);
        self.slots.set(Slot::Acknowledged(writer), last);
        self.slots.set(Slot::Tried(writer), last);
    }

    fn write(&self, store: Store<'_>, writer: usize, session: u64, stop: &AtomicBool) {
        let mut rng =
            plan::rng_at(self.params.seed ^ self.params.round, 93 + writer as u64, session);
        let from = self.slots.get(Slot::Acknowledged(writer)) + 1;
        let most = [20, 200, 2_000, 20_000][rng.below(4) as usize];
        for n in from..=from + rng.below(most) {
            if !self.write_one(store, writer, n) || stop.load(Ordering::Relaxed) {
                stop.store(true, Ordering::Relaxed);
                return;
            }
            if rng.chance(20) {
                let key = format!("weak/{writer}/{}", rng.below(40));
                let value = [&n.to_be_bytes()[..], b"weak"].concat();
                self.expect_no_error(
                    store.0.put_with(key, value, &WriteOptions::NONE).err(),
                    "unlogged write",
                );
            }
            self.slots.count(1);
        }
    }

    /// Writes a batch until it is acknowledged. Returns `false` when the store refuses all
    /// attempts.
    fn write_one(&self, store: Store<'_>, writer: usize, n: u64) -> bool {
        let (ops, durability) = plan::batch(self.params.seed, writer, n);
        self.slots.set(Slot::Tried(writer), n);
        let mut failures = 0;
        while failures < 4 {
            match self.commit(store, writer, n, (&ops, durability)) {
                Ok(()) => {
                    self.slots.set(Slot::Acknowledged(writer), n);
                    if durability == Durability::Sync {
                        self.slots.set(Slot::Durable(writer), n);
                    }
                    return true;
                }
                Err(error) if is_contention(&error) => continue,
                Err(error) => self.expect_no_error(Some(error), "write"),
            }
            failures += 1;
            self.fs.disarm();
        }
        false
    }

    /// Writes batch `n` of a writer, as a batch, as a transaction or as an ingest.
    fn commit(
        &self,
        (db, keyspaces): Store<'_>,
        writer: usize,
        n: u64,
        (ops, durability): (&[ops::Op], Durability),
    ) -> esker::Result<()> {
        match plan::transaction(self.params.seed, writer, n) {
            None if plan::is_ingest(self.params.seed, writer, n) => {
                self.ingest(&keyspaces[0], writer, ops)
            }
            None => {
                let how = WriteOptions::default().durability(Some(durability));
                db.write_with(&plan::to_batch(keyspaces, ops), &how)
            }
            Some(options) => db.transact(options.durability(durability), |transaction| {
                plan::make_in(transaction, keyspaces, ops)
            }),
        }
    }

    /// Writes the operations to two files and ingests these.
    fn ingest(&self, keyspace: &Keyspace, writer: usize, ops: &[ops::Op]) -> esker::Result<()> {
        let options = Options { key_order: keyspace.key_order().clone(), ..Options::default() };
        let path_of = |part| self.params.base.join(format!("ingest-{writer}-{part}"));
        let (fs, each): (Arc<dyn Fs>, _) = (self.fs.clone(), ops.len().div_ceil(2));
        let paths = sorted_files::write(&fs, &options, (ops, each), path_of)?;
        keyspace.ingest(&paths, &IngestOptions::default()).map(drop)
    }

    /// Reads keys, ranges and snapshots. Every value must be the one written by its batch.
    fn read(&self, db: &Db, keyspaces: &[Keyspace], session: u64, over: &dyn Fn() -> bool) {
        let mut rng = plan::rng_at(self.params.seed ^ self.params.round, 97, session);
        while !over() {
            let writer = rng.below(self.writers as u64) as usize;
            let read = if rng.chance(8) {
                self.read_range(db, keyspaces, writer)
            } else {
                let slot = rng.below(u64::from(SLOTS)) as u8;
                let key = format!("w{writer}/{:04}", rng.below(plan::KEYS + 20)).into_bytes();
                keyspaces[usize::from(slot)].get(&key).map(|value| {
                    if let Some(value) = value {
                        self.check(writer, (slot, &key), &value, u64::MAX);
                    }
                })
            };
            self.expect_no_error(read.err(), "read");
            self.slots.count(1);
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    fn check(&self, writer: usize, (slot, key): (u8, &[u8]), value: &[u8], most: u64) {
        let n = plan::number_in(value).unwrap_or(u64::MAX);
        let tried = self.slots.get(Slot::Tried(writer));
        if n > tried.min(most) || !plan::wrote(self.params.seed, writer, slot, key, value) {
            broken(&format!(
                "{} has a value of batch {n}, but only {tried} batches were tried",
                key.escape_ascii()
            ));
        }
    }

    /// Reads all of a writer's keys in all keyspaces at one moment. None may be newer than its
    /// counter.
    fn read_range(&self, db: &Db, keyspaces: &[Keyspace], writer: usize) -> esker::Result<()> {
        let snapshot = db.snapshot();
        let counter = snapshot.get(plan::counter_key(writer))?;
        let counter = counter.map_or(0, |v| plan::number_in(&v).expect("a counter"));
        // The keys with the prefix `w{writer}/`; the byte after `/` is `0`.
        let lower = format!("w{writer}/").into_bytes();
        let upper = format!("w{writer}0").into_bytes();
        for (slot, keyspace) in (0..).zip(keyspaces) {
            let order = keyspace.key_order();
            let mut before: Option<Vec<u8>> = None;
            let options = ReadOptions::default().snapshot(&snapshot);
            let bounds = match order {
                KeyOrder::Reverse => {
                    (Bound::Excluded(upper.clone()), Bound::Included(lower.clone()))
                }
                _ => (Bound::Included(lower.clone()), Bound::Excluded(upper.clone())),
            };
            for pair in keyspace.iter_with(&options, bounds)? {
                let (key, value) = pair?;
                if before.is_some_and(|before| order.compare(&before, &key).is_ge()) {
                    broken(&format!("{} is out of order", key.escape_ascii()));
                }
                self.check(writer, (slot, &key), &value, counter);
                before = Some(key);
            }
        }
        Ok(())
    }

    fn run_tasks(&self, db: &Db, session: u64, over: &dyn Fn() -> bool) {
        let mut rng = plan::rng_at(self.params.seed ^ self.params.round, 98, session);
        while !over() {
            if self.faulty() && rng.chance(4) {
                self.count_faults();
                self.fs.arm(fault(&mut rng));
            }
            let (task, done) = self.run_task(db, &mut rng);
            self.expect_no_error(done.err(), task);
            self.slots.set(Slot::Task, Task::None as u64);
            self.slots.count(1);
            std::thread::sleep(Duration::from_micros(rng.below(1_500)));
        }
    }

    fn run_task(&self, db: &Db, rng: &mut SplitMix64) -> (&'static str, esker::Result<()>) {
        let at = |task: Task| self.slots.set(Slot::Task, task as u64);
        match rng.below(24) {
            0..4 => {
                at(Task::Flush);
                ("flush", db.flush())
            }
            4..6 => {
                at(Task::Compact);
                ("compact a range", db.compact_range(None, None))
            }
            6..12 => {
                at(Task::Compact);
                ("one background job", background_work(db))
            }
            12..14 => {
                at(Task::Checkpoint);
                ("checkpoint", self.checkpoint(db))
            }
            14 => {
                at(Task::Backup);
                ("backup", self.backup(db))
            }
            15..18 => {
                at(Task::Option);
                ("set an option", self.set_option(db, rng))
            }
            18 => {
                at(Task::Verify);
                ("verify", self.verify(db))
            }
            19 => {
                at(Task::Sync);
                ("sync", db.sync())
            }
            20..22 => {
                at(Task::Keyspace);
                ("change a keyspace", temporary::change(db, rng))
            }
            _ => ("wait", Ok(())),
        }
    }

    fn verify(&self, db: &Db) -> esker::Result<()> {
        let report = db.verify(&mut |_, _| {})?;
        match report.problems.into_iter().next() {
            Some(problem) => Err(problem),
            None => Ok(()),
        }
    }

    fn note(&self, context: fn(usize) -> Slot) {
        for writer in 0..self.writers {
            self.slots.set(context(writer), self.slots.get(Slot::Acknowledged(writer)));
        }
    }

    fn checkpoint(&self, db: &Db) -> esker::Result<()> {
        let number = self.slots.get(Slot::CopyBegun) + 1;
        self.note(Slot::CopyFrom);
        self.slots.set(Slot::CopyBegun, number);
        for old in [number - 1, number] {
            // A missing directory needs no removal.
            let _ = std::fs::remove_dir_all(copy_path(&self.params.base, old));
        }
        let path = copy_path(&self.params.base, number);
        // A fork has the same content, and shares the files.
        match number.is_multiple_of(2) {
            true => db.fork(path).map(drop)?,
            false => db.checkpoint(path).map(drop)?,
        }
        self.slots.set(Slot::CopyDone, number);
        Ok(())
    }

    fn backup(&self, db: &Db) -> esker::Result<()> {
        self.note(Slot::BackupFrom);
        self.slots.bump(Slot::BackupBegun);
        db.backup(self.params.base.join("backups"))?;
        self.slots.set(Slot::BackupDone, self.slots.get(Slot::BackupBegun));
        Ok(())
    }

    fn set_option(&self, db: &Db, rng: &mut SplitMix64) -> esker::Result<()> {
        let all = [
            ("policy", ["leveled", "tiered", "fragmented", "fluid"]),
            ("wal_io", ["mmap", "write", "mmap", "write"]),
            ("memtable_kind", ["btree", "skiplist", "vector", "btree"]),
            ("memtable_size_bytes", ["4096", "16384", "65536", "1048576"]),
            ("block_layout", ["delta", "columnar", "delta", "columnar"]),
            ("compression", ["lz4", "zstd", "none", "snappy"]),
            ("file_size_max_bytes", ["4096", "8192", "65536", "16384"]),
            ("verify_tables", ["true", "false", "true", "false"]),
            ("value_separation_min_bytes", ["off", "0", "100", "2000"]),
        ];
        let (name, values) = all[rng.below(all.len() as u64) as usize];
        db.set_options(&[(name, values[rng.below(4) as usize])])
    }
}
