//! A reader of the change feed of a campaign's store, and the check that its copy is the store.
//!
//! The reader has a durable slot, and stands for a program on another machine: a crash of the store
//! takes nothing from it. After a crash, what it has confirmed and what the feed still returns must
//! together make the content of the recovered store.
//!
//! Invariants: the reader has a batch before it confirms it, so it has every batch that the slot in
//! any image has confirmed. The slot is created in an empty store.

use std::path::Path;

use esker::feed::{Applier, ChangeBatch, SlotInfo, SlotOptions, StreamItem};
use esker::fs::{Fs, MemFs};
use esker::{Db, Options};

use super::content::content;
use super::digests::{Digest, Digests};
use super::keyspaces::PREPARED;
use super::tally::{Finding, Verdict, lost};

const SLOT: &str = "reader";

/// A reader of the change feed, with all batches that it has read.
#[derive(Debug, Clone, Default)]
pub struct Reader {
    /// The position at which the slot was created.
    start: u64,
    batches: Vec<ChangeBatch>,
    /// A planted bug: the reader forgets the last change of a batch with several.
    pub forgets: bool,
}

impl Reader {
    /// Creates the slot in a new store.
    ///
    /// # Errors
    /// The store's error.
    pub fn open(&mut self, db: &Db) -> esker::Result<()> {
        let slot = db.subscribe(SLOT, &SlotOptions::default().lag_limit_bytes(None))?;
        if self.batches.is_empty() {
            self.start = slot.position()?;
        }
        Ok(())
    }

    /// Reads the batches after the confirmed position, and confirms them. A batch that was read but
    /// not confirmed may have been lost in a crash since: the feed now decides what was there.
    ///
    /// # Errors
    /// The store's error.
    pub fn read(&mut self, db: &Db) -> esker::Result<()> {
        let slot = db.slot(SLOT)?;
        let position = slot.position()?;
        let mut kept: Vec<ChangeBatch> = self.confirmed(position).cloned().collect();
        for batch in slot.changes()? {
            let mut batch = batch?;
            if self.forgets && batch.changes.len() > 1 {
                batch.changes.pop();
            }
            kept.push(batch);
        }
        self.batches = kept;
        match self.batches.last() {
            Some(last) => slot.confirm(last.sequence),
            None => Ok(()),
        }
    }

    fn confirmed(&self, position: u64) -> impl Iterator<Item = &ChangeBatch> {
        self.batches.iter().take_while(move |batch| batch.sequence <= position)
    }

    /// Checks a recovered store with this content and these options: applies what the slot has confirmed, and then the
    /// rest of the feed, to an empty store, and compares the two.
    ///
    /// # Errors
    /// A missing slot, a position that was never confirmed, a gap in the feed, or a difference.
    pub fn check(&self, db: &Db, found: &Digests, options: &Options) -> Result<(), Finding> {
        let slots = db.slots().map_err(lost("list the slots"))?;
        let Some(slot) = slots.into_iter().find(|slot| slot.name == SLOT) else {
            // The crash was before the creation of the slot, and nothing was written.
            return match *found == Digests::default() {
                true => Ok(()),
                false => Err((Verdict::Lost, "the slot is missing".into())),
            };
        };
        if let Some(problem) = slot.problem {
            return Err((Verdict::Lost, format!("the slot cannot be used: {problem}")));
        }
        let copy = self.replay(db, &slot, options)?;
        let mut own = content(&copy, None).map_err(|error| error.finding("read the copy"))?.digests;
        // A prepared transaction is in the feed once it is committed.
        if found.of(PREPARED) != Digest::default() {
            own.set(PREPARED, found.of(PREPARED));
        }
        match own == *found {
            true => Ok(()),
            false => Err((
                Verdict::Wrong,
                format!(
                    "a reader of the change feed that confirmed position {} has other content than \
                     the store",
                    slot.position
                ),
            )),
        }
    }

    fn replay(&self, db: &Db, slot: &SlotInfo, options: &Options) -> Result<Db, Finding> {
        let fs = MemFs::new();
        let dir = Path::new("/copy");
        let made = fs.create_dir(dir);
        made.map_err(|error| (Verdict::Lost, format!("create {}: {error}", dir.display())))?;
        let options = Options {
            memory_budget_bytes: Some(16 << 20),
            background_threads: Some(0),
            log_file: false,
            status_file: false,
            // The copy must have the rules and the time of the store.
            clock: options.clock.clone(),
            merge_operator: options.merge_operator.clone(),
            compaction_filters: options.compaction_filters.clone(),
            ..Options::default()
        };
        let copy = Db::open_on(fs, dir.join("store"), options).map_err(lost("open a copy"))?;
        let mut applier = Applier::new(&copy, db.store_id()).map_err(lost("begin a copy"))?;
        applier.start_at(self.start).map_err(lost("begin a copy"))?;
        let mut apply = |batch: &ChangeBatch| {
            applier.apply(&StreamItem::Batch(batch.clone())).map_err(lost("apply a batch"))
        };
        let mut position = self.start;
        for batch in self.confirmed(slot.position) {
            apply(batch)?;
            position = batch.sequence;
        }
        if position != slot.position {
            let message =
                format!("the slot is at position {}, which was never confirmed", slot.position);
            return Err((Verdict::Wrong, message));
        }
        let changes = db.changes(slot.position).map_err(lost("read the feed"))?;
        for batch in changes {
            apply(&batch.map_err(lost("read the feed"))?)?;
        }
        Ok(copy)
    }

    /// Returns the number of changes that were read.
    pub fn changes(&self) -> u64 {
        self.batches.iter().map(|batch| batch.changes.len() as u64).sum()
    }
}
