//! What the store knows of its slots, and which logs they keep.
//!
//! Invariants:
//! 1. A log is removed only if the store does not need it and every active slot has confirmed all
//!    of its records. The files of the slots are read again before that: other processes confirm.
//!    Where one cannot be read, nothing is removed. A damaged slot keeps no logs.
//! 2. While the store has a slot, the records of a log are durable before the manifest says that
//!    the log is not needed. So a crash loses no record that a table has kept.
//! 3. `Feed::files` is locked while a slot's file is changed and while logs are removed.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::kept_tables::{kept_in, remove_kept};
use super::slot_file::{SlotFate, SlotFile};
use super::walk::{logs_in, open_log};
use crate::base::key::SeqNo;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::base::sync::{Condvar, Mutex};
use crate::db::dir::list_dir;
use crate::db::state::DbInner;
use crate::error::{Error, Result};
use crate::observe::Event;
use crate::tree::names::{self, KeptTable};

/// The slots of an open store.
#[derive(Default)]
pub(crate) struct Feed {
    /// Whether the store has a slot that keeps logs.
    has_slots: AtomicBool,
    /// Whether a sync of a log for a slot has failed. The store then refuses writes.
    sync_failed: AtomicBool,
    /// Whether ingested tables may be kept for slots.
    pub(super) keeps_ingests: AtomicBool,
    /// Held while a keyspace is created, renamed or dropped.
    pub(in crate::db) catalog_change: Mutex<()>,
    pub(super) files: Mutex<LogFiles>,
    /// The last position that a reader of this handle was given.
    pub(super) delivered: AtomicU64,
    /// Number of readers that wait for a write.
    waiting: AtomicUsize,
    wait: Mutex<()>,
    woken: Condvar,
}

/// What was read from the logs.
#[derive(Default)]
pub(super) struct LogFiles {
    /// The first sequence number of logs, by number.
    starts: HashMap<u64, SeqNo>,
    /// Logs with a smaller number are durable.
    synced_below: u64,
}

impl Feed {
    /// Returns whether the store has a slot that keeps logs.
    #[inline]
    pub fn has_slots(&self) -> bool {
        self.has_slots.load(Ordering::Relaxed)
    }

    /// Returns whether a sync of a log for a slot has failed.
    #[inline]
    pub fn has_failed_sync(&self) -> bool {
        self.sync_failed.load(Ordering::Acquire)
    }

    /// Records that a slot was created.
    pub(super) fn note_slot(&self) {
        self.has_slots.store(true, Ordering::Relaxed);
    }

    /// Wakes the readers that wait for a write.
    #[inline]
    pub fn wake(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.wake_all();
        }
    }

    /// Wakes all readers that wait.
    #[cold]
    pub fn wake_all(&self) {
        drop(self.wait.lock());
        self.woken.notify_all();
    }

    /// Waits until `is_over` returns true, at most until `deadline`.
    pub(super) fn wait_until(&self, deadline: Instant, is_over: impl Fn() -> bool) {
        /// A wakeup may be missed: writers read `waiting` without a barrier.
        const LOOK_AGAIN: Duration = Duration::from_millis(20);
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut guard = self.wait.lock();
        while !is_over() {
            let now = Instant::now();
            if now >= deadline {
                break;
            }
            self.woken.wait_until(&mut guard, deadline.min(now + LOOK_AGAIN));
        }
        drop(guard);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl DbInner {
    /// Returns whether a slot of the store keeps logs. Data that reaches the store without its log
    /// would be missing in the feed.
    pub(crate) fn has_slots(&self) -> bool {
        self.feed.has_slots()
    }

    /// Returns the identity that the files of the slots name.
    pub(super) fn slot_store_id(&self) -> u64 {
        self.versions.lock().store_id()
    }

    /// Returns the slots in the order of their names, each with its file or the error of reading it.
    pub(super) fn read_slots(&self) -> Result<Vec<(String, Result<SlotFile>)>> {
        let id = self.slot_store_id();
        let entries = list_dir(&*self.fs, &self.dir)?.entries;
        let found = entries.iter().filter_map(|entry| names::parse_slot(&entry.name));
        let read = |name: &str| (name.to_string(), SlotFile::read(&*self.fs, &self.dir, name, id));
        let gone = |slot: &Result<SlotFile>| {
            slot.as_ref().is_err_and(|e| e.kind() == crate::ErrorKind::NotFound)
        };
        Ok(found.map(read).filter(|(_, slot)| !gone(slot)).collect())
    }

    /// Returns the active slots with their files.
    ///
    /// # Errors
    /// `Io`, also for a file of a slot that cannot be read now. A damaged one is left out.
    fn active_slots(&self) -> Result<Vec<(String, SlotFile)>> {
        let mut active = Vec::new();
        for (name, slot) in self.read_slots()? {
            match slot {
                Ok(slot) if slot.fate == SlotFate::Active => active.push((name, slot)),
                Err(error) if error.kind() == crate::ErrorKind::Io => return Err(error),
                _ => {}
            }
        }
        Ok(active)
    }

    /// Returns the file of the slot `name`.
    pub(super) fn read_slot(&self, name: &str) -> Result<SlotFile> {
        SlotFile::read(&*self.fs, &self.dir, name, self.slot_store_id())
    }

    /// Returns why the slot `name` has no logs any more, or `error` if it should have them.
    pub(super) fn explained(&self, name: &str, error: Error) -> Error {
        if error.kind() != crate::ErrorKind::NotFound {
            return error;
        }
        let slot = self.read_slot(name);
        slot.and_then(|slot| slot.check_active(name, &self.dir)).err().unwrap_or(error)
    }

    /// Returns an error for a position after the newest write that this handle knows.
    pub(super) fn check_position(&self, position: SeqNo) -> Result<()> {
        let delivered = self.feed.delivered.load(Ordering::Relaxed);
        let newest = self.visible_seqno().max(delivered);
        if position <= newest {
            return Ok(());
        }
        let message = format!(
            "position {position} is in the future: the newest write of the store has sequence \
             number {newest}"
        );
        Err(Error::invalid(message).with_path(&self.dir))
    }

    /// Recomputes whether a slot keeps logs.
    pub(super) fn note_slots(&self) -> Result<()> {
        let any = !self.active_slots()?.is_empty();
        self.feed.has_slots.store(any, Ordering::Relaxed);
        Ok(())
    }

    /// Takes over the slots of an opened store. A slot whose position a crash has lost is marked.
    ///
    /// # Errors
    /// `Io`, also when the file of one slot cannot be read: the store must know which logs to keep.
    pub(in crate::db) fn open_slots(&self) -> Result<()> {
        let (last, slots) = (self.visible_seqno(), self.read_slots()?);
        if slots.is_empty() {
            return Ok(());
        }
        for (name, slot) in slots {
            match slot {
                Ok(slot) if slot.fate == SlotFate::Active && slot.position > last => {
                    let marked = SlotFile { fate: SlotFate::Ahead, ..slot };
                    marked.write(&*self.fs, &self.dir, &name)?;
                    let position = slot.position;
                    self.emit(|| Event::SlotDropped {
                        name,
                        cause: format!("a crash lost writes before its position {position}"),
                    });
                }
                Ok(_) => {}
                Err(error) if error.kind() == crate::ErrorKind::Io => return Err(error),
                Err(error) => self.note_error("slots", &error),
            }
        }
        self.note_slots()?;
        self.committer.lock().logs_all = self.has_slots();
        Ok(())
    }

    /// Logs what a crash may have kept from the logs: an ingest, changes of keyspaces.
    pub(in crate::db) fn open_feed(&self) -> Result<()> {
        self.settle_ingests()?;
        if !self.has_slots() {
            return Ok(());
        }
        let _changing = self.feed.catalog_change.lock();
        self.log_keyspaces()
    }

    /// Makes the logs below `number` durable, if the store has slots.
    pub(in crate::db) fn sync_kept_logs(&self, number: u64) -> Result<()> {
        if !self.has_slots() {
            return Ok(());
        }
        self.sync_logs_below(number, true)
    }

    /// Makes the logs below `number` durable. `are_complete` says that they do not grow any more.
    ///
    /// # Errors
    /// `Io`. After a failed sync the kernel may have dropped the bytes, and a second one would
    /// succeed without them. So the store then refuses writes and syncs no log again: later calls
    /// return `ReadOnly`.
    pub(super) fn sync_logs_below(&self, number: u64, are_complete: bool) -> Result<()> {
        self.check_unbroken()?;
        let synced = self.try_sync_logs_below(number, are_complete)?;
        if let Err(error) = &synced {
            let message = format!(
                "the store refuses writes because a sync of a log failed; what was not synced \
                 before may be lost in a power failure; close the store and open it again: {error}"
            );
            let refused = Error::new(crate::ErrorKind::ReadOnly, message).with_path(&self.dir);
            self.refuse_writes("slots", refused);
            self.feed.sync_failed.store(true, Ordering::Release);
            self.wake_for_listeners();
        }
        synced
    }

    /// Returns the error of a sync as a value, so that others, which lose nothing, are not taken for
    /// it.
    fn try_sync_logs_below(&self, number: u64, are_complete: bool) -> Result<Result<()>> {
        let mut files = self.feed.files.lock();
        for (log, _) in logs_in(&*self.fs, &self.dir)? {
            if !(files.synced_below..number).contains(&log) {
                continue;
            }
            let path = names::log_path(&self.dir, log);
            let mut file = match self.fs.open_write(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                opened => opened.map_err(|e| Error::io(&path, "open a log for slots", e))?,
            };
            if let Err(error) = file.sync() {
                return Ok(Err(Error::io(&path, "sync a log for slots", error)));
            }
        }
        if are_complete {
            files.synced_below = files.synced_below.max(number);
        }
        Ok(Ok(()))
    }

    /// Removes the logs below `number` that no slot needs. Drops slots that lag too far.
    pub(in crate::db) fn remove_unneeded_logs(&self, number: u64) {
        let mut files = self.feed.files.lock();
        let Ok(logs) = logs_in(&*self.fs, &self.dir) else { return };
        let (mut keep_from, mut confirmed) = (number, SeqNo::MAX);
        if self.has_slots() {
            match self.kept_from(&mut files, &logs, number) {
                Ok(kept) => (keep_from, confirmed) = kept,
                // Nothing is removed until it can be read.
                Err(error) => return self.note_error("slots", &error),
            }
        }
        if self.feed.keeps_ingests.load(Ordering::Relaxed) {
            remove_kept(&*self.fs, &self.dir, |ingest| ingest > confirmed);
        }
        files.starts.retain(|log, _| *log >= keep_from);
        for (log, _) in logs.iter().filter(|(log, _)| *log < keep_from) {
            let _ = self.fs.remove(&names::log_path(&self.dir, *log));
        }
    }

    /// Returns the number below which no slot needs a log, at most `number`, and the position that
    /// every slot has confirmed.
    fn kept_from(
        &self,
        files: &mut LogFiles,
        logs: &[(u64, u64)],
        number: u64,
    ) -> Result<(u64, SeqNo)> {
        let (mut keep_from, mut confirmed, mut any) = (number, SeqNo::MAX, false);
        let kept = kept_in(&*self.fs, &self.dir)?;
        for (name, slot) in self.active_slots()? {
            let from = self.first_needed(files, logs, slot.position)?;
            let lag_bytes = lag_bytes(logs, from, number) + ingests_behind(&kept, slot.position);
            if slot.lag_limit_bytes.is_some_and(|limit| lag_bytes > limit) {
                let dropped = SlotFile { fate: SlotFate::Dropped { lag_bytes }, ..slot };
                dropped.write(&*self.fs, &self.dir, &name)?;
                let limit_bytes = slot.lag_limit_bytes.unwrap_or(0);
                self.emit(|| Event::SlotDropped {
                    name,
                    cause: format!("it lagged {lag_bytes} bytes, its limit is {limit_bytes}"),
                });
                continue;
            }
            any = true;
            (keep_from, confirmed) = (keep_from.min(from), confirmed.min(slot.position));
        }
        self.feed.has_slots.store(any, Ordering::Relaxed);
        Ok((keep_from, confirmed))
    }

    /// Returns the number of the log that holds the record behind `position`.
    fn first_needed(
        &self,
        files: &mut LogFiles,
        logs: &[(u64, u64)],
        position: SeqNo,
    ) -> Result<u64> {
        for (number, _) in logs.iter().rev() {
            let start = match files.starts.get(number) {
                Some(start) => *start,
                None => {
                    let reader = open_log(&*self.fs, &self.dir, *number)?;
                    let Some(start) = reader.and_then(|reader| reader.start()) else { continue };
                    files.starts.insert(*number, start.first_seqno);
                    start.first_seqno
                }
            };
            if start <= position + 1 {
                return Ok(*number);
            }
        }
        Ok(0)
    }

    /// Returns the bytes of logs and of ingested tables that are kept only for a slot at `position`.
    pub(super) fn lag_of(&self, position: SeqNo) -> Result<u64> {
        let below = self.unneeded_below();
        let mut files = self.feed.files.lock();
        let logs = logs_in(&*self.fs, &self.dir)?;
        let from = self.first_needed(&mut files, &logs, position)?;
        let kept = kept_in(&*self.fs, &self.dir)?;
        Ok(lag_bytes(&logs, from, below) + ingests_behind(&kept, position))
    }

    /// Returns the number below which the store itself needs no log.
    pub(super) fn unneeded_below(&self) -> u64 {
        let least = self.versions.lock().min_wal();
        least.max(self.flushed_below.load(Ordering::Acquire))
    }
}

/// Returns the bytes of the logs from `from` on and below `below`.
fn lag_bytes(logs: &[(u64, u64)], from: u64, below: u64) -> u64 {
    logs.iter().filter(|(log, _)| (from..below).contains(log)).map(|(_, bytes)| bytes).sum()
}

/// Returns the bytes of the kept tables that a slot at `position` needs.
fn ingests_behind(kept: &[(KeptTable, u64)], position: SeqNo) -> u64 {
    kept.iter().filter(|(table, _)| table.seqno > position).map(|(_, bytes)| bytes).sum()
}
