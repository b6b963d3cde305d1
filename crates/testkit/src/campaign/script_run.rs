//! Runs a script on a store and keeps its ledger.
//!
//! Invariants: a batch is in the ledger before the store receives it, and is acknowledged there
//! only after the store returned `Ok`. A cut in between may leave either state.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker::fs::Fs;
use esker::{Batch, Db, DbIterator, Error, Options, Snapshot, WriteOptions};
use parking_lot::Mutex;

use super::ledger::{CheckpointNote, Digest, Ledger, Op, UNLOGGED_PREFIX};
use super::script::Step;

/// Returns the directory of the stores of all campaigns.
pub fn store_dir() -> &'static Path {
    Path::new("/data/store")
}

/// Behaviour forbidden to a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation(pub String);

/// The outcome of a step.
#[derive(Debug)]
pub enum Outcome {
    /// The step succeeded.
    Done,
    /// The store returned an error.
    Failed(Error),
}

/// The content returned by an iterator.
#[derive(Debug, Clone, Default)]
pub struct Content {
    /// The digest of the logged pairs.
    pub digest: Digest,
    /// All pairs.
    pub pairs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Reads all pairs of `iter`, which must be in ascending order.
///
/// # Errors
/// The iterator's error, or a violation of the order.
pub fn content(iter: esker::Result<DbIterator>) -> Result<Content, ReadError> {
    let mut found = Content::default();
    for pair in iter.map_err(ReadError::Store)? {
        let (key, value) = pair.map_err(ReadError::Store)?;
        let (key, value) = (key.to_vec(), value.to_vec());
        if found.pairs.last().is_some_and(|(last, _)| *last >= key) {
            let message = format!("keys out of order at {}", key.escape_ascii());
            return Err(ReadError::Violation(Violation(message)));
        }
        if !key.starts_with(UNLOGGED_PREFIX) {
            found.digest.add(&key, &value);
        }
        found.pairs.push((key, value));
    }
    Ok(found)
}

/// The reason why a complete read ended early.
#[derive(Debug)]
pub enum ReadError {
    /// The store returned an error.
    Store(Error),
    /// The store's answer was wrong.
    Violation(Violation),
}

/// Runs a script on a store; see the module.
pub struct ScriptRun {
    fs: Arc<dyn Fs>,
    options: Options,
    db: Option<Db>,
    snapshots: Vec<(Snapshot, Digest)>,
    /// The ledger, shared with the observer that takes images.
    pub ledger: Arc<Mutex<Ledger>>,
    checkpoints: u32,
    /// Numbers of flushes and compactions so far, by name.
    pub work: BTreeMap<&'static str, u64>,
}

impl ScriptRun {
    /// Creates a run on `fs` that begins with the content of `ledger`.
    pub fn new(fs: Arc<dyn Fs>, options: Options, ledger: Arc<Mutex<Ledger>>) -> ScriptRun {
        let (snapshots, work) = (Vec::new(), BTreeMap::new());
        ScriptRun { fs, options, db: None, snapshots, ledger, checkpoints: 0, work }
    }

    /// Opens the store, which makes its content durable.
    ///
    /// # Errors
    /// The store's error.
    pub fn open(&mut self) -> esker::Result<()> {
        self.db = Some(Db::open_on(self.fs.clone(), store_dir(), self.options.clone())?);
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
        for (what, more) in
            [("flushes", metrics.flushes), ("merges", metrics.compactions), ("moves", moves)]
        {
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
            Step::Write(ops, synced) => Ok(outcome(self.write(ops, *synced))),
            Step::Read => self.read(),
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
                self.snapshots.push((db.snapshot(), self.ledger.lock().digest()));
                return Ok(());
            }
            _ => return Ok(()),
        }
        // A sync and a flush make everything before them durable.
        self.ledger.lock().all_durable();
        Ok(())
    }

    fn write(&mut self, ops: &[Op], synced: bool) -> esker::Result<()> {
        let Some(db) = &self.db else { return Ok(()) };
        let mut batch = Batch::new();
        for op in ops {
            match op {
                Op::Put(key, value) => batch.put(key, value),
                Op::Delete(key) => batch.delete(key),
                Op::DeleteRange(lo, hi) => batch.delete_range(lo, hi),
            };
        }
        let before = self.ledger.lock().clone();
        self.ledger.lock().attempt(ops);
        let how = if synced { WriteOptions::SYNC } else { WriteOptions::BUFFERED };
        let written = db.write_with(&batch, &how);
        let mut ledger = self.ledger.lock();
        match &written {
            Ok(()) => ledger.acknowledge(synced),
            Err(_) => ledger.fail(&before),
        }
        written
    }

    fn checkpoint(&mut self) -> esker::Result<()> {
        let Some(db) = &self.db else { return Ok(()) };
        self.checkpoints += 1;
        let dir = PathBuf::from(format!("/data/checkpoint{}", self.checkpoints));
        let at = {
            let mut ledger = self.ledger.lock();
            let note =
                CheckpointNote { dir: dir.clone(), index: ledger.bounds.acknowledged, done: false };
            ledger.checkpoints.push(note);
            ledger.bounds.checkpoints.0 += 1;
            ledger.checkpoints.len() - 1
        };
        db.checkpoint(&dir)?;
        let mut ledger = self.ledger.lock();
        ledger.checkpoints[at].done = true;
        ledger.bounds.checkpoints.1 = ledger.checkpoints.iter().filter(|c| c.done).count();
        ledger.all_durable();
        Ok(())
    }

    /// Compares the store and every snapshot with the oracle.
    ///
    /// # Errors
    /// A difference.
    pub fn read(&self) -> Result<Outcome, Violation> {
        let Some(db) = &self.db else { return Ok(Outcome::Done) };
        let now = self.ledger.lock().digest();
        let mut want = vec![(db.iter(), now, "the store")];
        for (snapshot, digest) in &self.snapshots {
            want.push((snapshot.iter(), *digest, "a snapshot"));
        }
        for (iter, digest, what) in want {
            match content(iter) {
                Ok(found) if found.digest == digest => {}
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

fn outcome(result: esker::Result<()>) -> Outcome {
    result.map_or_else(Outcome::Failed, |()| Outcome::Done)
}
