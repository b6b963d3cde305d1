//! The process that dies: it opens a store, writes, reads and does chores on it, closes it and
//! begins again, until something ends it.
//!
//! What stays true: what it was told is in the slots before it goes on; without faults any error
//! ends it with a message and a code that is not 0.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use esker::fs::os::OsFs;
use esker::{Db, Durability, Error, WriteOptions};

use super::plan;
use super::slots::{Chore, FileKind, Phase, Slot, Slots};
use crate::fault::{Fault, FaultFs, FaultKind, Op, OpMask};
use crate::rng::SplitMix64;

/// How a victim meets its end, or what it meets before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Somebody else ends it.
    Outside,
    /// It ends itself at an operation on a file.
    Inside,
    /// Somebody else ends it; until then operations fail now and then.
    Faults,
}

impl Way {
    /// Every way.
    pub const ALL: [Way; 3] = [Way::Outside, Way::Inside, Way::Faults];

    /// Its word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Way::Outside => "outside",
            Way::Inside => "inside",
            Way::Faults => "faults",
        }
    }
}

/// What a victim is told.
pub struct Orders {
    /// The directory of the store, its checkpoint and its backups.
    pub base: PathBuf,
    /// The file of the slots.
    pub slots: PathBuf,
    /// What is written.
    pub seed: u64,
    /// With which options.
    pub round: u64,
    /// See [`Way`].
    pub way: Way,
}

/// The checkpoint of this number.
pub fn copy_path(base: &Path, number: u64) -> PathBuf {
    base.join(format!("copy-{number}"))
}

/// Ends the process as SIGKILL does, wherever its threads are.
fn die() {
    // The slots are in the page cache, which is not the process's.
    let me = rustix::process::getpid();
    rustix::process::kill_process(me, rustix::process::Signal::KILL).expect("kill oneself");
    std::thread::sleep(Duration::from_secs(60));
}

/// At which operation a victim ends itself: of any file and kind, or of one.
fn fate(rng: &mut SplitMix64) -> Fault {
    let part = ["", "", ".wal", ".sst", ".sst", "manifest-", "CURRENT"][rng.below(7) as usize];
    let ops = match rng.below(6) {
        0 => OpMask::of(&[Op::Sync, Op::SyncDir]),
        1 => OpMask::of(&[Op::Create, Op::Rename, Op::Remove, Op::Link, Op::SetLen]),
        2 => OpMask::of(&[Op::Write]),
        _ => OpMask::CHANGES,
    };
    // `CURRENT` changes at opening only, tables thousands of times.
    let most = [3, 20, 150, 1000][rng.below(4) as usize];
    Fault::once(ops, 1 + rng.below(most), FaultKind::Death).on(part)
}

/// What is due: a piece of it where the store leaves that to its caller, else all.
fn piece_of_work(db: &Db) -> esker::Result<()> {
    match db.option("background_threads").as_deref() {
        Some("0") => db.run_one_job().map(|_| ()),
        _ => db.wait_idle(),
    }
}

/// A fault that lasts until it is disarmed, or once.
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

struct Victim {
    orders: Orders,
    fs: Arc<FaultFs>,
    slots: Slots,
    writers: usize,
}

/// Ends the process because a promise was broken.
fn broken(message: &str) -> ! {
    eprintln!("{message}");
    std::process::exit(3);
}

/// Lives by `orders` until killed.
pub fn run(orders: Orders) -> ! {
    let slots = Slots::open(&orders.slots).expect("open the slots");
    let fs = FaultFs::new(OsFs::shared());
    if orders.way == Way::Inside {
        let told = Slots::open(&orders.slots).expect("open the slots");
        fs.at_death(Arc::new(move |op, path| {
            told.set(Slot::DeathOp, op as u64 + 1);
            told.set(Slot::DeathFile, FileKind::of(path) as u64);
            die();
        }));
        fs.arm(fate(&mut plan::rng_at(orders.seed, 92, orders.round)));
    }
    let writers = plan::writers(orders.seed);
    let victim = Victim { orders, fs, slots, writers };
    for life in 0.. {
        victim.live(life);
    }
    unreachable!("the lives have no end")
}

impl Victim {
    fn faulty(&self) -> bool {
        self.orders.way == Way::Faults
    }

    /// Opens, works, closes.
    fn live(&self, life: u64) {
        self.slots.set(Slot::Phase, Phase::Opening as u64);
        let db = self.open(life);
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
                let (db, stop, working) = (&db, &stop, &working);
                scope.spawn(move || {
                    self.write(db, writer, life, stop);
                    working.fetch_sub(1, Ordering::Release);
                });
            }
            scope.spawn(|| self.read(&db, life, &over));
            self.chores(&db, life, &over);
        });
        self.slots.set(Slot::Phase, Phase::Closing as u64);
        let closed = db.close();
        self.met(closed.err(), "close");
        self.count_faults();
    }

    fn open(&self, life: u64) -> Db {
        let options = plan::options_of(self.orders.seed, self.orders.round * 1000 + life);
        let path = self.orders.base.join("db");
        let mut tries = 0;
        loop {
            match Db::open_on(self.fs.clone(), &path, options.clone()) {
                Ok(db) => return db,
                Err(error) if self.faulty() && tries < 3 => drop(error),
                Err(error) => broken(&format!("open: {error}")),
            }
            self.fs.disarm();
            tries += 1;
        }
    }

    /// Without faults an error breaks a promise.
    fn met(&self, error: Option<Error>, doing: &str) {
        match error {
            Some(error) if !self.faulty() => broken(&format!("{doing}: {error}")),
            _ => {}
        }
    }

    fn count_faults(&self) {
        self.slots.set(Slot::Faults, self.slots.get(Slot::Faults) + self.fs.hits());
    }

    /// What a writer finds of its own must not be less than what was acknowledged.
    fn begin(&self, db: &Db, writer: usize) {
        let found = loop {
            match db.get(plan::counter_key(writer)) {
                Ok(found) => break found,
                Err(error) => self.met(Some(error), "read a counter"),
            }
            self.fs.disarm();
        };
        let last = found.map_or(0, |v| plan::number_in(&v).expect("a counter"));
        let acknowledged = self.slots.get(Slot::Acknowledged(writer));
        if last < acknowledged {
            broken(&format!("writer {writer}: {last} is there, {acknowledged} was acknowledged"));
        }
        self.slots.set(Slot::Durable(writer), last);
        self.slots.set(Slot::Acknowledged(writer), last);
        self.slots.set(Slot::Tried(writer), last);
    }

    fn write(&self, db: &Db, writer: usize, life: u64, stop: &AtomicBool) {
        let mut rng = plan::rng_at(self.orders.seed ^ self.orders.round, 93 + writer as u64, life);
        let from = self.slots.get(Slot::Acknowledged(writer)) + 1;
        let most = [20, 200, 2_000, 20_000][rng.below(4) as usize];
        for n in from..=from + rng.below(most) {
            if !self.write_one(db, writer, n) || stop.load(Ordering::Relaxed) {
                stop.store(true, Ordering::Relaxed);
                return;
            }
            if rng.chance(20) {
                let key = format!("weak/{writer}/{}", rng.below(40));
                let value = [&n.to_be_bytes()[..], b"weak"].concat();
                self.met(db.put_with(key, value, &WriteOptions::NONE).err(), "an unlogged write");
            }
            self.slots.count(1);
        }
    }

    /// Writes a batch until it is acknowledged; `false` when the store takes no more.
    fn write_one(&self, db: &Db, writer: usize, n: u64) -> bool {
        let (ops, durability) = plan::batch(self.orders.seed, writer, n);
        let batch = plan::to_batch(&ops);
        self.slots.set(Slot::Tried(writer), n);
        for _ in 0..4 {
            match db.write_with(&batch, &WriteOptions { durability: Some(durability) }) {
                Ok(()) => {
                    self.slots.set(Slot::Acknowledged(writer), n);
                    if durability == Durability::Sync {
                        self.slots.set(Slot::Durable(writer), n);
                    }
                    return true;
                }
                Err(error) => self.met(Some(error), "write"),
            }
            self.fs.disarm();
        }
        false
    }

    /// Reads keys, ranges and snapshots; every value must be the one its batch wrote.
    fn read(&self, db: &Db, life: u64, over: &dyn Fn() -> bool) {
        let mut rng = plan::rng_at(self.orders.seed ^ self.orders.round, 97, life);
        while !over() {
            let writer = rng.below(self.writers as u64) as usize;
            let read = if rng.chance(8) {
                self.read_range(db, writer)
            } else {
                let key = format!("w{writer}/{:04}", rng.below(300)).into_bytes();
                db.get(&key).map(|value| {
                    if let Some(value) = value {
                        self.check(writer, &key, &value, u64::MAX);
                    }
                })
            };
            self.met(read.err(), "read");
            self.slots.count(1);
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    fn check(&self, writer: usize, key: &[u8], value: &[u8], most: u64) {
        let n = plan::number_in(value).unwrap_or(u64::MAX);
        let tried = self.slots.get(Slot::Tried(writer));
        if n > tried.min(most) || !plan::wrote(self.orders.seed, writer, key, value) {
            broken(&format!("{} has a value of batch {n}, {tried} tried", key.escape_ascii()));
        }
    }

    /// All of a writer's keys at one moment: none is newer than its counter says.
    fn read_range(&self, db: &Db, writer: usize) -> esker::Result<()> {
        let snapshot = db.snapshot();
        let counter = snapshot.get(plan::counter_key(writer))?;
        let counter = counter.map_or(0, |v| plan::number_in(&v).expect("a counter"));
        let mut before = Vec::new();
        for pair in snapshot.prefix(format!("w{writer}/"))? {
            let (key, value) = pair?;
            if before >= key.to_vec() {
                broken(&format!("{} is out of order", key.escape_ascii()));
            }
            self.check(writer, &key, &value, counter);
            before = key.to_vec();
        }
        Ok(())
    }

    fn chores(&self, db: &Db, life: u64, over: &dyn Fn() -> bool) {
        let mut rng = plan::rng_at(self.orders.seed ^ self.orders.round, 98, life);
        while !over() {
            if self.faulty() && rng.chance(4) {
                self.count_faults();
                self.fs.arm(fault(&mut rng));
            }
            let (chore, done) = self.chore(db, &mut rng);
            self.met(done.err(), chore);
            self.slots.set(Slot::Chore, Chore::None as u64);
            self.slots.count(1);
            std::thread::sleep(Duration::from_micros(rng.below(1_500)));
        }
    }

    fn chore(&self, db: &Db, rng: &mut SplitMix64) -> (&'static str, esker::Result<()>) {
        let at = |chore: Chore| self.slots.set(Slot::Chore, chore as u64);
        match rng.below(24) {
            0..4 => {
                at(Chore::Flush);
                ("flush", db.flush())
            }
            4..6 => {
                at(Chore::Compact);
                ("compact a range", db.compact_range(None, None))
            }
            6..12 => {
                at(Chore::Compact);
                ("a piece of work", piece_of_work(db))
            }
            12..14 => {
                at(Chore::Checkpoint);
                ("checkpoint", self.checkpoint(db))
            }
            14 => {
                at(Chore::Backup);
                ("backup", self.backup(db))
            }
            15..18 => {
                at(Chore::Option);
                ("set an option", self.set_option(db, rng))
            }
            18 => {
                at(Chore::Verify);
                ("verify", self.verify(db))
            }
            19 => {
                at(Chore::Sync);
                ("sync", db.sync())
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

    fn note(&self, place: fn(usize) -> Slot) {
        for writer in 0..self.writers {
            self.slots.set(place(writer), self.slots.get(Slot::Acknowledged(writer)));
        }
    }

    fn checkpoint(&self, db: &Db) -> esker::Result<()> {
        let number = self.slots.get(Slot::CopyBegun) + 1;
        self.note(Slot::CopyFrom);
        self.slots.set(Slot::CopyBegun, number);
        for old in [number - 1, number] {
            // What is not there need not be removed.
            let _ = std::fs::remove_dir_all(copy_path(&self.orders.base, old));
        }
        db.checkpoint(copy_path(&self.orders.base, number))?;
        self.slots.set(Slot::CopyDone, number);
        Ok(())
    }

    fn backup(&self, db: &Db) -> esker::Result<()> {
        self.note(Slot::BackupFrom);
        self.slots.bump(Slot::BackupBegun);
        db.backup(self.orders.base.join("backups"))?;
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
        ];
        let (name, values) = all[rng.below(all.len() as u64) as usize];
        db.set_option(name, values[rng.below(4) as usize])
    }
}
