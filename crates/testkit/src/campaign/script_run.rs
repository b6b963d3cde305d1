//! Runs a script on a store and keeps its ledger.
//!
//! Invariants: a batch is in the ledger before the store receives it, and is acknowledged there
//! only after the store returned `Ok`. A cut in between may leave either state.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker::fs::Fs;
use esker::ingest::IngestOptions;
use esker::{Batch, Db, Error, Keyspace, Options, Snapshot, WriteOptions, built_in_merge_operator};
use parking_lot::Mutex;

use super::clock::ScriptClock;
use super::content::{ReadError, Violation, content};
use super::digests::State;
use super::encrypted::view;
use super::keyspaces::{self, MERGE_OPERATOR};
use super::ledger::{CheckpointNote, Ledger};
use super::ops::{Change, NamedChange, Op};
use super::reader::Reader;
use super::script::{Script, Step};
use super::sorted_files;

/// Returns the directory of the stores of all campaigns.
pub fn store_dir() -> &'static Path {
    Path::new("/data/store")
}

/// The outcome of a step.
#[derive(Debug)]
pub enum Outcome {
    /// The step succeeded.
    Done,
    /// The store returned an error.
    Failed(Error),
}

/// A deliberate error between the script and the store, which a campaign must detect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PlantedBug {
    /// No error.
    #[default]
    None,
    /// A batch over several keyspaces is written as one batch for each of them.
    TornBatch,
    /// A transaction whose commit finds a conflict is written all the same.
    LostUpdate,
    /// The reader of the change feed forgets the last change of a batch with several.
    ForgottenChange,
    /// A put that expires never does.
    ForgottenExpiry,
    /// An operand is merged twice.
    RepeatedOperand,
    /// An ingest of several files is made as one ingest for each of them.
    TornIngest,
    /// A fork lacks a pair of its parent.
    ShortFork,
}

/// Runs a script on a store; see the module.
pub struct ScriptRun {
    fs: Arc<dyn Fs>,
    options: Options,
    db: Option<Db>,
    /// The snapshots, with the state of each and its time.
    snapshots: Vec<(Snapshot, State, u64)>,
    clock: Arc<ScriptClock>,
    /// The ledger, shared with the observer that takes images.
    pub ledger: Arc<Mutex<Ledger>>,
    checkpoints: u32,
    /// Numbers of flushes, compactions, transactions and so on so far, by name.
    pub work: BTreeMap<&'static str, u64>,
    /// The planted bug.
    pub bug: PlantedBug,
    /// Whether the store is encrypted.
    pub encrypted: bool,
    /// The reader of the change feed, if the store has one.
    pub reader: Option<Reader>,
}

impl ScriptRun {
    /// Creates a run on `fs` that begins with the content and the time of `ledger`.
    pub fn new(fs: Arc<dyn Fs>, options: Options, ledger: Arc<Mutex<Ledger>>) -> ScriptRun {
        let clock = ScriptClock::new(ledger.lock().bounds.now_ms);
        ScriptRun {
            fs,
            options: Options { clock: Some(clock.clone()), ..options },
            db: None,
            snapshots: Vec::new(),
            clock,
            ledger,
            checkpoints: 0,
            work: BTreeMap::new(),
            bug: PlantedBug::None,
            encrypted: false,
            reader: None,
        }
    }

    /// Creates the run of a script on `fs`, with an empty ledger.
    pub fn of(fs: Arc<dyn Fs>, script: &Script) -> ScriptRun {
        let run = ScriptRun::new(fs, script.options.clone(), Arc::default());
        let reader = script.has_reader.then(Reader::default);
        ScriptRun { encrypted: script.encrypted, reader, ..run }
    }

    /// Opens the store, which makes its content durable.
    ///
    /// # Errors
    /// The store's error.
    pub fn open(&mut self) -> esker::Result<()> {
        let fs = view(self.encrypted, self.fs.clone());
        let db = Db::open_on(fs, store_dir(), self.options.clone())?;
        if let Some(reader) = &mut self.reader {
            reader.forgets = self.bug == PlantedBug::ForgottenChange;
            reader.open(&db)?;
        }
        self.db = Some(db);
        self.ledger.lock().all_durable();
        Ok(())
    }

    /// Returns the open store.
    pub fn db(&self) -> Option<&Db> {
        self.db.as_ref()
    }

    /// Dies without closing. `fs` is the next process's view. Later operations of the old process
    /// fail.
    pub fn kill(&mut self, fs: Arc<dyn Fs>) {
        self.fs = fs;
        self.count_work();
        self.snapshots.clear();
        self.db = None;
    }

    /// Adds the open store's flushes and compactions to the totals.
    fn count_work(&mut self) {
        let Some(db) = &self.db else { return };
        let metrics = db.metrics();
        let moves = metrics.levels.iter().map(|level| level.moves).sum();
        for (what, more) in [
            ("flushes", metrics.flushes),
            ("merges", metrics.compactions),
            ("moves", moves),
            ("expired pairs", metrics.expired),
            ("filtered pairs", metrics.filtered),
        ] {
            *self.work.entry(what).or_insert(0) += more;
        }
    }

    /// Closes the store.
    ///
    /// # Errors
    /// The store's error.
    pub fn close(&mut self) -> esker::Result<()> {
        self.count_work();
        self.snapshots.clear();
        self.db.take().map_or(Ok(()), Db::close)
    }

    /// Executes one step. The caller handles [`Step::Kill`].
    ///
    /// # Errors
    /// Behaviour forbidden to a store.
    pub fn step(&mut self, step: &Step) -> Result<Outcome, Violation> {
        if matches!(step, Step::Reopen) {
            let closed = self.close();
            return Ok(outcome(closed.and_then(|()| self.open())));
        }
        if self.db.is_none() {
            return Ok(outcome(self.open()));
        }
        match step {
            Step::Write(ops, synced) => self.write(ops, *synced),
            Step::Transact(transaction) => self.transact(transaction),
            Step::Resolve(commits) => Ok(outcome(self.resolve(*commits))),
            Step::Change(change) => self.change(*change),
            Step::Ingest(ops) => self.ingest(ops),
            Step::Read => self.read(),
            Step::Follow => Ok(outcome(self.follow())),
            Step::Checkpoint => Ok(outcome(self.checkpoint())),
            other => Ok(outcome(self.simple(other))),
        }
    }

    fn simple(&mut self, step: &Step) -> esker::Result<()> {
        let Some(db) = &self.db else { return Ok(()) };
        match step {
            Step::Unlogged(key, value) => {
                self.ledger.lock().unlogged(key, value);
                return db.put_with(key, value, &WriteOptions::NONE);
            }
            Step::Sync => db.sync()?,
            Step::Flush => db.flush()?,
            Step::Turn(by_ms) => {
                self.clock.turn(self.ledger.lock().turn(*by_ms));
                return Ok(());
            }
            Step::Jobs(count) => {
                for _ in 0..*count {
                    if !db.run_one_job()? {
                        break;
                    }
                }
                return Ok(());
            }
            Step::Compact(lo, hi) => db.compact_range(lo.as_deref(), hi.as_deref())?,
            Step::Set(name, value) => return db.set_options(&[(name, value)]),
            Step::Snapshot => {
                if self.snapshots.len() >= 3 {
                    self.snapshots.remove(0);
                }
                let ledger = self.ledger.lock();
                self.snapshots.push((db.snapshot(), ledger.snapshot(), ledger.bounds.now_ms));
                return Ok(());
            }
            _ => return Ok(()),
        }
        // A sync and a flush make everything before them durable.
        self.ledger.lock().all_durable();
        Ok(())
    }

    /// Adds to a number of [`ScriptRun::work`].
    pub(super) fn count(&mut self, what: &'static str) {
        *self.work.entry(what).or_insert(0) += 1;
    }

    /// Counts merges and puts that expire.
    pub(super) fn count_rules(&mut self, ops: &[Op]) {
        for op in ops {
            match op {
                Op::Merge(..) => self.count("merged operands"),
                Op::PutExpiring(..) => self.count("puts that expire"),
                _ => {}
            }
        }
    }

    /// Returns the keyspace that operations on a slot reach.
    ///
    /// # Errors
    /// The store has no such keyspace, or returned an error.
    pub(super) fn keyspace(&self, db: &Db, slot: u8) -> Result<Keyspace, Violation> {
        let name = self.ledger.lock().keyspace_of(slot);
        keyspaces::find(db, name).map_err(|error| Violation(error.to_string()))
    }

    /// Returns the batches for the store: one, unless a bug is planted.
    fn batches(&self, db: &Db, ops: &[Op]) -> Result<Vec<Batch>, Violation> {
        let mut batches: Vec<(u32, Batch)> = Vec::new();
        for op in ops {
            let keyspace = self.keyspace(db, op.slot())?;
            let place = if self.bug == PlantedBug::TornBatch { keyspace.id() } else { 0 };
            let at = batches.iter().position(|(other, _)| *other == place);
            let at = at.unwrap_or_else(|| {
                batches.push((place, Batch::new()));
                batches.len() - 1
            });
            let batch = &mut batches[at].1;
            match op {
                Op::PutExpiring(_, key, value, _) if self.bug == PlantedBug::ForgottenExpiry => {
                    batch.put_in(&keyspace, key, value);
                }
                Op::Merge(..) if self.bug == PlantedBug::RepeatedOperand => {
                    op.add_to(batch, &keyspace);
                    op.add_to(batch, &keyspace);
                }
                op => op.add_to(batch, &keyspace),
            }
        }
        Ok(batches.into_iter().map(|(_, batch)| batch).collect())
    }

    pub(super) fn write(&mut self, ops: &[Op], synced: bool) -> Result<Outcome, Violation> {
        let Some(db) = self.db.clone() else { return Ok(Outcome::Done) };
        if let [Op::Clear(slot)] = ops {
            let keyspace = self.keyspace(&db, *slot)?;
            // The default keyspace cannot be cleared.
            if keyspace.id() == 0 {
                return Ok(Outcome::Done);
            }
            self.ledger.lock().attempt(ops);
            let cleared = keyspace.clear();
            return Ok(self.end_batch(cleared, false));
        }
        let batches = self.batches(&db, ops)?;
        let touched = ops.iter().map(|op| self.ledger.lock().keyspace_of(op.slot()));
        if touched.collect::<std::collections::BTreeSet<_>>().len() > 1 {
            self.count("batches over several keyspaces");
        }
        self.count_rules(ops);
        self.ledger.lock().attempt(ops);
        let how = if synced { WriteOptions::SYNC } else { WriteOptions::BUFFERED };
        let written = batches.iter().try_for_each(|batch| db.write_with(batch, &how));
        Ok(self.end_batch(written, synced))
    }

    /// Writes the operations to one or two files, and ingests these.
    fn ingest(&mut self, ops: &[Op]) -> Result<Outcome, Violation> {
        let Some(db) = self.db.clone() else { return Ok(Outcome::Done) };
        let Some(slot) = ops.first().map(Op::slot) else { return Ok(Outcome::Done) };
        let keyspace = self.keyspace(&db, slot)?;
        let merges = ops.iter().any(|op| matches!(op, Op::Merge(..)));
        let merge_operator = built_in_merge_operator(MERGE_OPERATOR).filter(|_| merges);
        let key_order = keyspace.key_order().clone();
        let options = Options { key_order, merge_operator, ..self.options.clone() };
        let path_of = |number| PathBuf::from(format!("/data/ingest{number}"));
        let paths = match sorted_files::write(&self.fs, &options, (ops, 7), path_of) {
            Ok(paths) => paths,
            Err(error) => return Ok(Outcome::Failed(error)),
        };
        self.count("ingests");
        self.count_rules(ops);
        self.ledger.lock().attempt(ops);
        let files_at_once = if self.bug == PlantedBug::TornIngest { 1 } else { paths.len().max(1) };
        let mut parts = paths.chunks(files_at_once);
        let ingested =
            parts.try_for_each(|part| keyspace.ingest(part, &IngestOptions::default()).map(drop));
        Ok(self.end_batch(ingested, true))
    }

    /// Records the outcome of the last attempted batch.
    pub(super) fn end_batch(&self, written: esker::Result<()>, synced: bool) -> Outcome {
        let mut ledger = self.ledger.lock();
        match &written {
            Ok(()) => ledger.acknowledge(synced),
            Err(_) => ledger.fail(),
        }
        outcome(written)
    }

    /// Creates, renames or drops a keyspace.
    fn change(&mut self, change: Change) -> Result<Outcome, Violation> {
        let Some(db) = self.db.clone() else { return Ok(Outcome::Done) };
        let Some(named) = self.ledger.lock().attempt_change(change) else {
            return Ok(Outcome::Done);
        };
        let changed = match &named {
            NamedChange::Create(slot, name) => {
                let keyspace = db.keyspace(name, &keyspaces::options(*slot));
                keyspace.and_then(|keyspace| keyspace.iter()).map(drop)
            }
            NamedChange::Rename(from, to) => db.rename_keyspace(from, to),
            NamedChange::Drop(name) => {
                let handle = keyspaces::find(&db, name).map_err(|e| Violation(e.to_string()))?;
                let dropped = db.drop_keyspace(name);
                if dropped.is_ok() && handle.get("any").is_ok() {
                    return Err(Violation(format!("the dropped keyspace {name} can be read")));
                }
                dropped
            }
        };
        let mut ledger = self.ledger.lock();
        match &changed {
            Ok(()) => ledger.acknowledge_change(),
            Err(_) => ledger.fail_change(),
        }
        drop(ledger);
        self.count("changes of keyspaces");
        Ok(outcome(changed))
    }

    /// Lets the reader of the change feed read to its end.
    fn follow(&mut self) -> esker::Result<()> {
        let (Some(db), Some(reader)) = (&self.db, &mut self.reader) else { return Ok(()) };
        reader.read(db)?;
        // A confirmation makes everything before it durable.
        self.ledger.lock().all_durable();
        self.count("readings of the feed");
        Ok(())
    }

    fn checkpoint(&mut self) -> esker::Result<()> {
        let Some(db) = &self.db else { return Ok(()) };
        self.checkpoints += 1;
        let dir = PathBuf::from(format!("/data/checkpoint{}", self.checkpoints));
        let at = {
            let mut ledger = self.ledger.lock();
            let note = CheckpointNote {
                dir: dir.clone(),
                index: ledger.bounds.acknowledged,
                changes: ledger.bounds.changes.0,
                done: false,
            };
            ledger.checkpoints.push(note);
            ledger.bounds.checkpoints.0 += 1;
            ledger.checkpoints.len() - 1
        };
        // A fork has the same content, and is a store that shares the files of its parent.
        if self.checkpoints.is_multiple_of(2) {
            db.fork(&dir)?;
            *self.work.entry("forks").or_insert(0) += 1;
            if self.bug == PlantedBug::ShortFork {
                self.shorten(&dir)?;
            }
        } else {
            db.checkpoint(&dir)?;
        }
        let mut ledger = self.ledger.lock();
        ledger.checkpoints[at].done = true;
        ledger.bounds.checkpoints.1 = ledger.checkpoints.iter().filter(|c| c.done).count();
        ledger.all_durable();
        Ok(())
    }

    /// Deletes the first pair of the store in `dir`.
    fn shorten(&self, dir: &Path) -> esker::Result<()> {
        let fs = view(self.encrypted, self.fs.clone());
        let fork = Db::open_on(fs, dir, self.options.clone())?;
        if let Some(first) = fork.iter()?.next() {
            fork.delete_with(first?.0, &WriteOptions::SYNC)?;
        }
        fork.close()
    }

    /// Compares the store and every snapshot with the oracle.
    ///
    /// # Errors
    /// A difference.
    pub fn read(&self) -> Result<Outcome, Violation> {
        let Some(db) = &self.db else { return Ok(Outcome::Done) };
        let mut want = vec![(None, self.ledger.lock().digests(), "the store")];
        for (snapshot, state, at_ms) in &self.snapshots {
            let digests = self.ledger.lock().digests_at(state, *at_ms);
            want.push((Some(snapshot), digests, "a snapshot"));
        }
        for (snapshot, digests, what) in want {
            match content(db, snapshot) {
                Ok(found) if found.digests == digests => {}
                Ok(found) => {
                    return Err(Violation(format!("{what} differs: {} pairs", found.pairs.len())));
                }
                Err(ReadError::Store(error)) => return Ok(Outcome::Failed(error)),
                Err(ReadError::Violation(violation)) => return Err(violation),
            }
        }
        Ok(Outcome::Done)
    }
}

/// Makes a result of the store an outcome.
pub(super) fn outcome(result: esker::Result<()>) -> Outcome {
    result.map_or_else(Outcome::Failed, |()| Outcome::Done)
}
