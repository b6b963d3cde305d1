//! What a follower knows of a store that another process writes: its versions, and memtables made of
//! its logs.
//!
//! The manifest is read before the logs. So the logs have everything that the tables of its versions
//! lack, except what an ingest or unlogged writes have brought in between. Their sequence numbers are
//! missing in the logs. Where a number is missing, the manifest is read again before the record
//! behind it is applied: the writer changes the manifest before it writes that record.
//!
//! Invariants:
//! 1. A view is a prefix of the writes: every operation up to its position, and no later one is
//!    visible in it.
//! 2. An operation is in a memtable or in tables of the current versions, never in both.
//! 3. The writer's memtables begin with a log, and so do those of a follower. When tables replace a
//!    part of a memtable, because an opening has divided a log, the logs are read again.
//! 4. A view keeps its memtables, tables and open files. Memtables only grow, behind its position.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::base::expiry::StoreClock;
use crate::base::key::SeqNo;
use crate::base::keyspace_rules::KeyspaceRules;
use crate::base::ops;
use crate::base::sync::atomic::AtomicU64;
use crate::db::Db;
use crate::db::feed::walk::{Behind, LogWalk};
use crate::db::lifecycle::{OpenHandle, sizes_here};
use crate::db::open::{assemble, open_tables, tables_of};
use crate::db::replay::{Replayed, count_operations};
use crate::db::rules::{default_rules, note_kind};
use crate::db::runtime::StoreMemory;
use crate::db::tree::{Tree, fresh_memtables, known_orders, trees_of};
use crate::error::{Error, Result};
use crate::fs::Fs;
use crate::memtable::Memtables;
use crate::options::Options;
use crate::options::validate::Sizes;
use crate::tree::names;
use crate::tree::set::VersionSet;
use crate::wal::LogRecord;
use crate::write::writer_state::apply;

/// Number of attempts to read files that the writer replaces or removes meanwhile.
const ATTEMPTS: usize = 50;
/// Number of attempts before there is a wait between them.
const ATTEMPTS_AT_ONCE: usize = 10;
const WAIT: Duration = Duration::from_millis(2);
/// Time after which a catch-up looks for its end.
const LONG_CATCH_UP: Duration = Duration::from_millis(100);

/// The state of a follower.
pub(super) struct Following {
    pub fs: Arc<dyn Fs>,
    pub dir: PathBuf,
    /// The options of the views.
    options: Options,
    sizes: Sizes,
    memory: StoreMemory,
    clock: Arc<StoreClock>,
    rules: Arc<KeyspaceRules>,
    trees: Vec<Arc<Tree>>,
    versions: VersionSet,
    /// Whether trees, rules, tables and runs are those of `versions`.
    is_adopted: bool,
    /// Where the logs are read. `None` before the first log has begun.
    walk: Option<LogWalk>,
    /// The memtables, oldest first.
    runs: Vec<Run>,
    /// The sequence number that the next record of the logs has, unless something was not logged.
    next_seqno: SeqNo,
    /// A record that was read, and is applied after the manifest was read again.
    held: Option<Held>,
    /// The largest sequence number of the records and tables.
    position: SeqNo,
    /// Whether there is more than the last view shows.
    is_changed: bool,
}

/// Where a catch-up ends at the latest, so that a fast writer does not keep it for ever.
struct Bound {
    began: Instant,
    /// The newest sequence number of a moment after the begin, if the catch-up takes long.
    until: Option<SeqNo>,
}

/// What a log has brought.
struct Run {
    log: u64,
    first: SeqNo,
    last: SeqNo,
    memtables: Memtables,
}

/// A record.
struct Held {
    log: u64,
    first_seqno: SeqNo,
    offset_bytes: u64,
    payload: Vec<u8>,
}

/// Calls `attempt` again after an error that the writer may have caused by replacing files.
pub(super) fn patiently<R>(mut attempt: impl FnMut() -> Result<R>) -> Result<R> {
    let mut tried = 1;
    loop {
        match attempt() {
            Err(error)
                if tried < ATTEMPTS && (error.is_missing_file() || error.is_corruption()) =>
            {
                if tried >= ATTEMPTS_AT_ONCE {
                    crate::base::sync::thread::sleep(WAIT);
                }
                tried += 1;
            }
            other => return other,
        }
    }
}

impl Following {
    /// Starts to follow the store in `dir`, which is pinned.
    pub fn begin(fs: Arc<dyn Fs>, dir: PathBuf, options: &Options) -> Result<Following> {
        let sizes = sizes_here(options);
        let memory = StoreMemory::of(options, &sizes);
        // A view has no background work, and does not take the blocks of the others with it.
        let options = Options { runtime: None, ..options.clone() };
        let orders = known_orders(&options);
        let mut versions = patiently(|| VersionSet::follow(fs.clone(), &dir, orders.clone()))?;
        versions.set_thresholds(&options.thresholds);
        let tables = tables_of(&fs, &dir, &options, &memory, (true, versions.values()));
        let trees = trees_of(versions.catalog(), &options, &tables);
        let clock = Arc::new(StoreClock::new(options.clock.clone()));
        let rules = default_rules(versions.catalog(), &options, &clock);
        Ok(Following {
            rules: rules.map_err(|e| e.with_path(&dir))?,
            fs,
            dir,
            options,
            sizes,
            memory,
            clock,
            trees,
            versions,
            is_adopted: false,
            walk: None,
            runs: Vec::new(),
            next_seqno: 0,
            held: None,
            position: 0,
            is_changed: true,
        })
    }

    /// Reads what the writer has added. Returns a new view if that was anything.
    pub fn catch_up(&mut self) -> Result<Option<Db>> {
        patiently(|| self.read_all())?;
        if !self.is_changed {
            return Ok(None);
        }
        let view = self.view()?;
        self.is_changed = false;
        Ok(Some(view))
    }

    /// Returns the identity of the store.
    pub fn store_id(&self) -> u64 {
        self.versions.store_id()
    }

    /// Returns the largest sequence number that the store has now, in records and tables. Takes
    /// nothing over.
    pub fn newest(&self) -> Result<SeqNo> {
        patiently(|| {
            let mut versions = self.versions.copy_for_reading();
            versions.catch_up()?;
            let in_tables = versions.last_seqno().max(versions.newest_in_tables());
            Ok(in_tables.max(self.newest_behind(self.walk.clone())?))
        })
    }

    /// Returns the largest sequence number of the records behind `walk`, at least the position.
    fn newest_behind(&self, walk: Option<LogWalk>) -> Result<SeqNo> {
        let mut newest = self.position;
        let Some(mut walk) = walk else { return Ok(newest) };
        let last = |record: &LogRecord<'_>| {
            let count = count_operations(record.payload, usize::MAX).unwrap_or(0);
            Ok(record.first_seqno.saturating_add(count).saturating_sub(1))
        };
        while let Some(last) = walk.next(Behind::Maybe, last)? {
            newest = newest.max(last);
        }
        Ok(newest)
    }

    fn read_all(&mut self) -> Result<()> {
        self.read_manifest()?;
        let mut bound = Bound { began: Instant::now(), until: None };
        loop {
            if self.read_logs(&mut bound)? {
                return Ok(());
            }
            if self.held.is_some() {
                self.read_manifest()?;
                self.apply_held()?;
            } else if !self.move_on()? {
                return Ok(());
            }
        }
    }

    /// Takes over what was added to the manifest.
    fn read_manifest(&mut self) -> Result<()> {
        if self.versions.catch_up()? {
            self.is_adopted = false;
        }
        if self.is_adopted {
            return Ok(());
        }
        let catalog = self.versions.catalog();
        if catalog.trees().len() >= self.trees.len() {
            let all = trees_of(catalog, &self.options, &self.trees[0].tables);
            self.trees.extend(all.into_iter().skip(self.trees.len()));
            // Each run has memtables of its own.
            let fresh: Vec<_> = self.runs.iter().map(|_| self.fresh_memtables()).collect();
            for (run, fresh) in self.runs.iter_mut().zip(&fresh) {
                let has = run.memtables.others().len();
                for memtable in &fresh.others()[has..] {
                    run.memtables = run.memtables.with_another(memtable.clone());
                }
            }
        }
        let rules = default_rules(self.versions.catalog(), &self.options, &self.clock);
        self.rules = rules.map_err(|e| e.with_path(&self.dir))?;
        open_tables(&self.trees, &self.versions.current())?;
        let flushed = self.versions.last_seqno();
        self.position = self.position.max(flushed).max(self.versions.newest_in_tables());
        let min_wal = self.versions.min_wal();
        self.runs.retain(|run| run.log >= min_wal && run.last > flushed);
        if self.runs.iter().any(|run| run.first <= flushed) {
            self.read_logs_again();
        }
        (self.is_adopted, self.is_changed) = (true, true);
        Ok(())
    }

    fn read_logs_again(&mut self) {
        (self.walk, self.held, self.next_seqno) = (None, None, 0);
        self.runs.clear();
    }

    fn fresh_memtables(&self) -> Memtables {
        let bytes = self.sizes.memtable_bytes as usize;
        let fresh = fresh_memtables(&self.trees, &self.options, bytes, &self.memory.pool);
        fresh.iter().for_each(|memtable| memtable.merged.turn_off());
        fresh
    }

    /// Reads to the present, or to a record that must wait for the manifest. Returns whether it has
    /// reached the bound.
    fn read_logs(&mut self, bound: &mut Bound) -> Result<bool> {
        let walk = match self.walk.take() {
            Some(walk) => Some(walk),
            None => {
                self.runs.clear();
                self.walk_from_first()?
            }
        };
        let Some(mut walk) = walk else { return Ok(false) };
        let (mut read, mut is_reached) = (Ok(Some(())), false);
        while let Ok(Some(())) = read {
            read = walk.next(Behind::Maybe, |record| self.take(record));
            is_reached = bound.until.is_some_and(|until| self.position >= until);
            if self.held.is_some() || is_reached {
                break;
            }
            if bound.until.is_none() && bound.began.elapsed() > LONG_CATCH_UP {
                bound.until = Some(self.newest_behind(Some(walk.clone()))?);
            }
        }
        self.walk = Some(walk);
        read.map(|_| is_reached && self.held.is_none())
    }

    /// Starts at the first log that the writer needs, if it has begun.
    fn walk_from_first(&mut self) -> Result<Option<LogWalk>> {
        let (number, ordinal) = (self.versions.min_wal(), self.versions.min_wal_ordinal());
        let walk = LogWalk::at(self.fs.clone(), &self.dir, number, ordinal)?;
        self.next_seqno = walk.as_ref().map_or(0, LogWalk::first_seqno);
        Ok(walk)
    }

    /// Leaves a log that the writer needs no more. The logs after it may be gone, and what they had is
    /// in the tables of a newer manifest. Returns whether there is more to read.
    fn move_on(&mut self) -> Result<bool> {
        let (before, was_walking) = (self.versions.min_wal(), self.walk.is_some());
        self.read_manifest()?;
        let min_wal = self.versions.min_wal();
        match &self.walk {
            // Where the walk ended just now, the logs are to be read again.
            None => return Ok(was_walking || min_wal > before),
            Some(walk) if walk.number() >= min_wal => return Ok(false),
            Some(_) => {}
        }
        let (number, ordinal) = (min_wal, self.versions.min_wal_ordinal());
        if let Some(walk) = LogWalk::at(self.fs.clone(), &self.dir, number, ordinal)? {
            self.next_seqno = walk.first_seqno();
            self.walk = Some(walk);
            return Ok(true);
        }
        // The next log has not begun, or the writer needs that one no more, either.
        self.read_manifest()?;
        Ok(self.versions.min_wal() > min_wal)
    }

    fn take(&mut self, record: &LogRecord<'_>) -> Result<()> {
        let count = count_operations(record.payload, self.trees.len());
        match count {
            Some(count) if record.first_seqno <= self.next_seqno => {
                self.apply(record.log, record.first_seqno, count, record.payload);
            }
            _ => {
                self.held = Some(Held {
                    log: record.log,
                    first_seqno: record.first_seqno,
                    offset_bytes: record.offset_bytes,
                    payload: record.payload.to_vec(),
                });
            }
        }
        Ok(())
    }

    /// Applies the record that has waited for the manifest, unless the logs are read again.
    fn apply_held(&mut self) -> Result<()> {
        let Some(held) = self.held.take() else { return Ok(()) };
        match count_operations(&held.payload, self.trees.len()) {
            Some(count) => {
                self.apply(held.log, held.first_seqno, count, &held.payload);
                Ok(())
            }
            None => {
                // Read again by the next attempt.
                self.read_logs_again();
                let message = "a log record with a valid checksum holds no valid operations";
                let path = names::log_path(&self.dir, held.log);
                Err(Error::corruption(&path, held.offset_bytes, message))
            }
        }
    }

    /// Adds the `count` operations of a record to the memtables of its log.
    fn apply(&mut self, log: u64, first: SeqNo, count: u64, payload: &[u8]) {
        let last = first.saturating_add(count).saturating_sub(1);
        self.next_seqno = last + 1;
        if last <= self.versions.last_seqno() {
            return;
        }
        if self.runs.last().is_none_or(|run| run.log != log) {
            let memtables = self.fresh_memtables();
            self.runs.push(Run { log, first, last, memtables });
        }
        if let Some(run) = self.runs.last_mut() {
            let rules = &*self.rules;
            apply(&run.memtables, payload, first, |op: &ops::Op<'_>| note_kind(rules, op.kind));
            run.last = last;
        }
        self.position = self.position.max(last);
        self.is_changed = true;
    }

    /// Returns a store that is open read-only and shows everything up to the position.
    fn view(&self) -> Result<Db> {
        let mut full: Vec<Memtables> = self.runs.iter().map(|run| run.memtables.clone()).collect();
        let none = || fresh_memtables(&self.trees, &self.options, 0, &self.memory.pool);
        let replayed = Replayed {
            memtables: full.pop().unwrap_or_else(none),
            full,
            pool: self.memory.pool.clone(),
            last_seqno: self.position,
            next_ordinal: 0,
            numbers: Arc::new(AtomicU64::new(self.versions.next_file_number())),
            closed: false,
            continued_in: None,
            gap: None,
            unused: Vec::new(),
            logs: 0,
            notes: Vec::new(),
        };
        let options = (self.options.clone(), self.sizes);
        let with = (self.trees.clone(), self.rules.clone());
        let versions = self.versions.copy_for_reading();
        let fs = self.fs.clone();
        let inner =
            assemble(fs, &self.dir, options, None, self.memory.clone(), with, versions, &replayed);
        inner.note_expiring_tables();
        inner.load_prepared()?;
        let open = Arc::new(OpenHandle::new(inner.clone()));
        Ok(Db { inner, open })
    }
}
