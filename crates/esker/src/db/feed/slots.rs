//! Slots: durable positions of readers of the change feed.

use std::sync::Arc;

use super::changes::Changes;
use super::slot_file::{SlotFate, SlotFile};
use crate::db::Db;
use crate::db::snapshot::Snapshot;
use crate::db::state::DbInner;
use crate::error::{Error, Result};
use crate::fs::sync_dir;
use crate::tree::names;

/// Options of a slot.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct SlotOptions {
    /// Maximum bytes of logs, and of ingested tables, that are kept for slots. A slot that would need more when a log is
    /// removed, is dropped: an event says so, and its next use is an error. `None`: no limit, so a
    /// reader that does not come back fills the device. Default: 16 GiB.
    pub lag_limit_bytes: Option<u64>,
}

impl Default for SlotOptions {
    fn default() -> SlotOptions {
        SlotOptions { lag_limit_bytes: Some(16 << 30) }
    }
}

impl SlotOptions {
    /// Sets the maximum bytes that are kept for slots, or `None` for no limit.
    pub fn lag_limit_bytes(mut self, bytes: impl Into<Option<u64>>) -> SlotOptions {
        self.lag_limit_bytes = bytes.into();
        self
    }
}

/// State of a slot, from [`Db::slots`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlotInfo {
    /// Name of the slot.
    pub name: String,
    /// The position that its reader has confirmed; 0 if the slot is damaged.
    pub position: u64,
    /// Bytes of logs that are kept only for this slot and for slots that lag less, and of ingested
    /// tables that this slot needs.
    pub lag_bytes: u64,
    /// Maximum of these bytes; `None` for no limit.
    pub lag_limit_bytes: Option<u64>,
    /// Why the slot keeps no logs any more, as a sentence; `None` if it does.
    pub problem: Option<String>,
}

/// A slot: a durable position in the change feed of a store. The store keeps the logs with the
/// changes that the reader of the slot has not confirmed, also while it is closed.
///
/// A slot costs the space of these logs, up to [`SlotOptions::lag_limit_bytes`]. A write does no more
/// work for it, but a log that is kept is not used again for later writes, so a writer at full speed
/// pays for the pages of new logs. A slot is no part of the content of a store: checkpoints, backups
/// and repaired stores have none.
///
/// ```
/// # fn main() -> esker::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use esker::feed::{Change, SlotOptions};
/// use esker::{Db, Options};
/// let db = Db::open(dir.path().join("db"), Options::default())?;
/// let slot = db.subscribe("search", &SlotOptions::default())?;
/// db.put("apple", "red")?;
/// for batch in slot.changes()? {
///     let batch = batch?;
///     for change in &batch.changes {
///         if let Change::Put { key, .. } = change {
///             assert_eq!(key, b"apple");
///         }
///     }
///     // After the batch was processed: the slot does not return it again. An ingest has parts.
///     if !batch.continues {
///         slot.confirm(batch.sequence)?;
///     }
/// }
/// assert!(slot.changes()?.next().is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Slot {
    inner: Arc<DbInner>,
    name: String,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Slot({} of {})", self.name, self.inner.dir.display())
    }
}

impl Db {
    /// Returns the slot with this name. Creates it with `options` at the present position if it does
    /// not exist: its first batch is the first one after this call. The slot exists until
    /// [`Db::drop_slot`], and is durable when this returns.
    ///
    /// While a store has a slot, writes with [`Durability::None`](crate::Durability) are logged as
    /// `Buffered` ones, because the feed is read from the logs.
    ///
    /// # Errors
    /// * `InvalidArgument` for a name that has not 1 to 64 letters, digits, `-` and `_`.
    /// * `NotFound` when the slot exists and was dropped because it lagged too far.
    /// * `Corruption` for a damaged slot; `ReadOnly`, `NoSpace`, `Io` when it must be created.
    pub fn subscribe(&self, name: &str, options: &SlotOptions) -> Result<Slot> {
        check_slot_name(name)?;
        let inner = &self.inner;
        inner.check_open()?;
        let changing = inner.feed.catalog_change.lock();
        match inner.read_slot(name) {
            Err(error) if error.kind() == crate::ErrorKind::NotFound => {}
            found => {
                found?.check_active(name, &inner.dir)?;
                return self.slot(name);
            }
        }
        inner.check_writable()?;
        // From here on the feed is complete.
        inner.make_feed_keyspace()?;
        inner.log_keyspaces()?;
        let store_id = inner.slot_store_id();
        {
            // No writer is between its log and the visible number.
            let mut writer = inner.committer.lock();
            let _files = inner.feed.files.lock();
            let position = writer.next_seqno - 1;
            let lag_limit_bytes = options.lag_limit_bytes;
            let slot = SlotFile { store_id, position, lag_limit_bytes, fate: SlotFate::Active };
            slot.write(&*inner.fs, &inner.dir, name)?;
            inner.feed.note_slot();
            writer.logs_all = true;
        }
        drop(changing);
        inner.deliver_events();
        self.slot(name)
    }

    /// Returns the slot with this name.
    ///
    /// # Errors
    /// `NotFound` when there is none; `Closed`; `Io`.
    pub fn slot(&self, name: &str) -> Result<Slot> {
        check_slot_name(name)?;
        self.inner.check_open()?;
        match self.inner.read_slot(name) {
            Err(error) if error.kind() == crate::ErrorKind::NotFound => Err(error),
            // Other problems are reported by the use of the slot.
            _ => Ok(Slot { inner: self.inner.clone(), name: name.to_string() }),
        }
    }

    /// Returns the slots of the store, in alphabetical order.
    ///
    /// # Errors
    /// `Closed`, `Io`.
    pub fn slots(&self) -> Result<Vec<SlotInfo>> {
        let inner = &self.inner;
        inner.check_open()?;
        let mut infos = Vec::new();
        for (name, slot) in inner.read_slots()? {
            let info = match slot {
                Ok(slot) => {
                    let problem = slot.check_active(&name, &inner.dir).err();
                    let lag_bytes = match slot.fate {
                        SlotFate::Active => inner.lag_of(slot.position)?,
                        SlotFate::Dropped { lag_bytes } => lag_bytes,
                        SlotFate::Ahead => 0,
                    };
                    SlotInfo {
                        position: slot.position,
                        lag_bytes,
                        lag_limit_bytes: slot.lag_limit_bytes,
                        problem: problem.map(|error| error.message().to_string()),
                        name,
                    }
                }
                Err(error) => SlotInfo {
                    position: 0,
                    lag_bytes: 0,
                    lag_limit_bytes: None,
                    problem: Some(error.message().to_string()),
                    name,
                },
            };
            infos.push(info);
        }
        Ok(infos)
    }

    /// Removes a slot, also a damaged one, and the logs that only it needed. A store that is open
    /// elsewhere removes these logs with its next flush.
    ///
    /// # Errors
    /// `NotFound` when there is no such slot; `Closed`, `Io`.
    pub fn drop_slot(&self, name: &str) -> Result<()> {
        check_slot_name(name)?;
        let inner = &self.inner;
        inner.check_open()?;
        let path = names::slot_path(&inner.dir, name);
        {
            let _files = inner.feed.files.lock();
            match inner.fs.remove(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    let message = format!("there is no slot \"{name}\"");
                    return Err(Error::not_found(message).with_path(&inner.dir));
                }
                removed => removed.map_err(|e| Error::io(&path, "remove the slot", e))?,
            }
            sync_dir(&*inner.fs, &inner.dir)?;
        }
        inner.note_slots()?;
        if !inner.read_only {
            inner.remove_unneeded_logs(inner.unneeded_below());
        }
        Ok(())
    }

    /// Returns a snapshot, and its position in the change feed: the snapshot has every batch up to
    /// the position, and no later one. A reader that copies the snapshot and then applies the
    /// [changes](Db::changes) from the position has no gap and no batch twice. A slot must exist
    /// before this call, so that these changes are kept.
    ///
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use esker::feed::SlotOptions;
    /// use esker::{Db, Options};
    /// let db = Db::open(dir.path().join("db"), Options::default())?;
    /// db.put("old", "1")?;
    /// let slot = db.subscribe("copy", &SlotOptions::default())?;
    /// let (snapshot, position) = db.snapshot_with_position();
    /// db.put("new", "2")?;
    /// assert_eq!(snapshot.iter()?.count(), 1);
    /// slot.confirm(position)?;
    /// assert_eq!(slot.changes()?.count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn snapshot_with_position(&self) -> (Snapshot, u64) {
        let snapshot = self.snapshot();
        let position = snapshot.seqno();
        (snapshot, position)
    }
}

impl Slot {
    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the position that was confirmed last, or that the slot began with.
    ///
    /// # Errors
    /// `NotFound` when the slot was dropped, by `drop_slot` or because it lagged too far or because
    /// a crash lost what its reader had confirmed; `Corruption` for a damaged slot; `Closed`, `Io`.
    pub fn position(&self) -> Result<u64> {
        self.inner.check_open()?;
        let slot = self.inner.read_slot(&self.name)?;
        slot.check_active(&self.name, &self.inner.dir)?;
        Ok(slot.position)
    }

    /// Returns the changes after the confirmed position.
    ///
    /// # Errors
    /// As [`Slot::position`] and [`Db::changes`].
    pub fn changes(&self) -> Result<Changes> {
        let position = self.position()?;
        let name = Some(self.name.clone());
        let changes = Changes::new(self.inner.clone(), name, position);
        changes.map_err(|error| self.inner.explained(&self.name, error))
    }

    /// Confirms every batch up to `position`, durably: the slot does not return them again, and
    /// their logs may be removed. A position at or before the confirmed one changes nothing. Also a
    /// handle of a store opened read-only confirms, while the store is open elsewhere: the file of
    /// the slot is all that this handle ever writes.
    ///
    /// The call syncs the logs first, so a crash does not lose what the reader has confirmed.
    ///
    /// Confirm an ingest after its last part, which has no
    /// [`ChangeBatch::continues`](crate::feed::ChangeBatch::continues); [`Changes::position`] moves
    /// only then. A position names a whole batch, and the slot does not know which parts its reader
    /// has applied. A position confirmed after an earlier part skips the parts that follow it.
    ///
    /// # Errors
    /// `InvalidArgument` for a position after the newest write; as [`Slot::position`]; `NoSpace`,
    /// `Io`; `ReadOnly` after a failed sync of a log.
    pub fn confirm(&self, position: u64) -> Result<()> {
        let inner = &self.inner;
        inner.check_open()?;
        inner.read_slot(&self.name)?.check_active(&self.name, &inner.dir)?;
        inner.check_position(position)?;
        inner.sync_logs_below(u64::MAX, false)?;
        {
            let _files = inner.feed.files.lock();
            let slot = inner.read_slot(&self.name)?;
            slot.check_active(&self.name, &inner.dir)?;
            if position <= slot.position {
                return Ok(());
            }
            SlotFile { position, ..slot }.write(&*inner.fs, &inner.dir, &self.name)?;
        }
        if !inner.read_only {
            inner.remove_unneeded_logs(inner.unneeded_below());
            inner.deliver_events();
        }
        Ok(())
    }
}

fn check_slot_name(name: &str) -> Result<()> {
    if names::is_slot_name(name) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the name of a slot has 1 to {} letters, digits, \"-\" and \"_\", found \"{}\"",
        names::SLOT_NAME_BYTES_MAX,
        name.escape_debug()
    )))
}
