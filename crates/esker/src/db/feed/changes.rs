//! The change feed: committed batches in order, read from the logs.
//!
//! Invariants:
//! 1. A batch is returned once it is visible, whole, and in the order of the sequence numbers. In a
//!    store opened read-only, which another process may write, it is returned once its record is
//!    whole.
//! 2. Nothing is left out silently. Where a record is missing, the feed ends with an error.
//! 3. A keyspace is called what it was called at that point of the feed.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::change::{Change, ChangeBatch, plain_change};
use super::ingest_parts::IngestParts;
use super::kept_tables::{INGEST_KEY, IngestRecord, kept_in};
use super::keyspace_log::{KeyspaceRecord, RecordKind, described_by};
use super::walk::{Behind, LogWalk};
use crate::base::checksum::checksum;
use crate::base::key::{Kind, SeqNo};
use crate::base::keyspace::{KeyspaceId, PREFIX_BYTES, keyspace_of};
use crate::base::ops::{Op, Ops};
use crate::base::sync::atomic::Ordering;
use crate::db::Db;
use crate::db::state::DbInner;
use crate::error::{Error, Result};
use crate::tree::catalog::{DEFAULT_KEYSPACE, FEED_KEYSPACE, is_internal};
use crate::wal::LogRecord;

/// Time between two looks at the logs of a store that another process writes.
const POLL: Duration = Duration::from_millis(10);

/// The change feed of a store from a position on, from [`Db::changes`] or
/// [`Slot::changes`](crate::feed::Slot::changes).
///
/// The iterator ends at the present, and goes on when it is called again after further writes.
/// [`Changes::wait`] waits for them.
pub struct Changes {
    inner: Arc<DbInner>,
    slot: Option<String>,
    walk: LogWalk,
    names: Names,
    position: SeqNo,
    /// Whether the first batch may contain the position.
    begins_inside: bool,
    checksum: u64,
    /// A batch that was read and is not visible yet.
    held: Option<Decoded>,
    /// The rest of an ingest whose first part was returned.
    parts: Option<IngestParts>,
    /// Position up to which the store is known to have records.
    known: SeqNo,
}

impl Db {
    /// Returns the committed batches after position `from`, the sequence number of the last batch
    /// that the caller has seen; 0 for all of them. The store keeps the logs that the
    /// [slots](Db::subscribe) need. Without a slot a log is removed when its memtable was flushed.
    ///
    /// A batch of a prepared transaction appears when it is committed. Pairs that expire appear as
    /// puts with their time, and vanish at that time without a change. What a compaction filter
    /// removes does not appear. Creations, drops and renames of keyspaces appear while the store has
    /// a slot. The pairs of an [ingest](Db::ingest) or a bulk load appear if the store had a slot then,
    /// in parts: see [`ChangeBatch::continues`].
    ///
    /// In a store opened read-only the feed goes beyond the state of the handle: it reads what
    /// another process writes to the logs, and never blocks that process. Such a feed may show a
    /// batch before its write has returned.
    ///
    /// A batch that is not durable may be lost in a crash of the machine after it was returned; other
    /// batches then get its sequence numbers. [`ChangeBatch::checksum`] tells them apart, and
    /// [`Slot::confirm`](crate::feed::Slot::confirm) makes batches durable before it confirms them.
    ///
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = esker::Db::open(dir.path().join("db"), esker::Options::default())?;
    /// db.put("a", "1")?;
    /// db.delete("b")?;
    /// let mut changes = db.changes(0)?;
    /// let first = changes.next().unwrap()?;
    /// assert_eq!((first.sequence, first.changes.len()), (1, 1));
    /// assert_eq!(changes.next().unwrap()?.previous, 1);
    /// assert!(changes.next().is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NotFound` when the changes after `from` are in no log any more; `InvalidArgument` when
    /// `from` is after the newest write; `Closed`, `Corruption`, `Io`.
    pub fn changes(&self, from: u64) -> Result<Changes> {
        Changes::new(self.inner.clone(), None, from)
    }
}

/// What a record of the log holds.
struct Decoded {
    batch: ChangeBatch,
    /// Whether the batch has nothing for users.
    is_internal: bool,
    /// The ingest into a keyspace of users that the record stands for.
    ingest: Option<(Arc<str>, IngestRecord)>,
}

impl Changes {
    pub(super) fn new(inner: Arc<DbInner>, slot: Option<String>, from: SeqNo) -> Result<Changes> {
        inner.check_open()?;
        inner.check_position(from)?;
        let known = inner.visible_seqno();
        let names = Names::at(&inner, from, known)?;
        let walk = start_walk(&inner, from)?;
        Ok(Changes {
            inner,
            slot,
            walk,
            names,
            position: from,
            begins_inside: false,
            checksum: 0,
            held: None,
            parts: None,
            known,
        })
    }

    /// Returns the feed that begins with the batch that contains `sequence`, or with the first one if
    /// that is 0.
    ///
    /// # Errors
    /// As [`Db::changes`].
    pub(crate) fn with_batch_of(db: &Db, sequence: SeqNo) -> Result<Changes> {
        let changes = Changes::new(db.inner.clone(), None, sequence.saturating_sub(1))?;
        Ok(Changes { begins_inside: true, ..changes })
    }

    /// Returns the position: the sequence number of the last batch that was returned or that had
    /// nothing for the reader.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the next batch, and waits for it for at most `timeout`. Returns `None` after that
    /// time.
    ///
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use std::time::Duration;
    /// let db = esker::Db::open(dir.path().join("db"), esker::Options::default())?;
    /// let mut changes = db.changes(0)?;
    /// let writer = std::thread::spawn({
    ///     let db = db.clone();
    ///     move || db.put("a", "1")
    /// });
    /// while changes.wait(Duration::from_secs(10))?.is_none() {}
    /// writer.join().unwrap()?;
    /// assert!(changes.wait(Duration::ZERO)?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Closed` when the store is closed, also during the wait; `NotFound` when the logs with the next
    /// changes are gone, with the reason if the slot was dropped; `Corruption`, `Io`.
    pub fn wait(&mut self, timeout: Duration) -> Result<Option<ChangeBatch>> {
        let deadline = Instant::now() + timeout.min(Duration::from_secs(86_400 * 365));
        loop {
            if let Some(batch) = self.poll()? {
                return Ok(Some(batch));
            }
            let now = Instant::now();
            if now >= deadline {
                return Ok(None);
            }
            let inner = &self.inner;
            if inner.read_only {
                crate::base::sync::thread::sleep(POLL.min(deadline - now));
            } else {
                let seen = self.held.as_ref();
                let seen = seen.map_or(self.position, |held| held.batch.sequence - 1);
                let seen = seen.max(self.known);
                let is_over =
                    || inner.visible_seqno() > seen || inner.closed.load(Ordering::Acquire);
                inner.feed.wait_until(deadline, is_over);
            }
        }
    }

    /// Returns the next batch, if there is one now.
    fn poll(&mut self) -> Result<Option<ChangeBatch>> {
        let polled = self.poll_logs();
        match (&self.slot, polled) {
            (Some(slot), Err(error)) => Err(self.inner.explained(slot, error)),
            (_, polled) => polled,
        }
    }

    fn poll_logs(&mut self) -> Result<Option<ChangeBatch>> {
        self.inner.check_open()?;
        loop {
            if self.parts.is_some() {
                return self.next_part();
            }
            let end = self.end();
            let next = match self.held.take() {
                Some(held) => held,
                None if self.position >= end => return Ok(None),
                None => match self.read_next()? {
                    Some(decoded) => decoded,
                    None => {
                        self.known = self.known.max(if self.inner.read_only { 0 } else { end });
                        return Ok(None);
                    }
                },
            };
            if next.batch.sequence > end {
                self.held = Some(next);
                return Ok(None);
            }
            if next.ingest.is_some() {
                self.begin_ingest(next)?;
                continue;
            }
            let Decoded { mut batch, is_internal, .. } = next;
            if batch.sequence <= self.position {
                let is_last = batch.sequence == self.position;
                self.checksum = if is_last { batch.checksum } else { self.checksum };
                continue;
            }
            self.check_begin(&batch)?;
            self.position = batch.sequence;
            self.inner.feed.delivered.fetch_max(self.position, Ordering::Relaxed);
            if is_internal {
                continue;
            }
            (batch.previous, batch.previous_checksum) =
                self.names.previous.take((batch.sequence, batch.checksum, self.checksum));
            return Ok(Some(batch));
        }
    }

    /// Begins with the parts of an ingest, unless the reader has a snapshot with it.
    fn begin_ingest(&mut self, decoded: Decoded) -> Result<()> {
        let Decoded { batch, ingest, .. } = &decoded;
        let Some((keyspace, record)) = ingest.clone() else { return Ok(()) };
        if batch.sequence <= self.position || record.seqno <= self.position {
            self.held = Some(Decoded { is_internal: true, ingest: None, ..decoded });
            return Ok(());
        }
        let (sequence, own) = (batch.sequence, batch.checksum);
        match IngestParts::new(&self.inner, keyspace, record, batch.clone()) {
            Ok(mut parts) => {
                (parts.head.previous, parts.head.previous_checksum) =
                    self.names.previous.take((sequence, own, self.checksum));
                self.parts = Some(parts);
                Ok(())
            }
            Err(error) => {
                // The next call meets it again.
                self.held = Some(decoded);
                Err(error)
            }
        }
    }

    fn next_part(&mut self) -> Result<Option<ChangeBatch>> {
        let Some(parts) = &mut self.parts else { return Ok(None) };
        let batch = parts.next(&self.inner)?;
        if !batch.continues {
            self.parts = None;
            self.position = batch.sequence;
            self.inner.feed.delivered.fetch_max(self.position, Ordering::Relaxed);
        }
        Ok(Some(batch))
    }

    /// Returns the position up to which batches may be returned.
    fn end(&self) -> SeqNo {
        if self.inner.read_only { SeqNo::MAX } else { self.inner.visible_seqno() }
    }

    fn check_begin(&mut self, batch: &ChangeBatch) -> Result<()> {
        if std::mem::take(&mut self.begins_inside) || batch.first_sequence > self.position {
            return Ok(());
        }
        let message = format!(
            "position {} is within the batch of the sequence numbers {} to {}; give the last one of a \
             batch",
            self.position, batch.first_sequence, batch.sequence
        );
        Err(Error::invalid(message).with_path(&self.inner.dir))
    }

    fn read_next(&mut self) -> Result<Option<Decoded>> {
        let behind = match self.inner.read_only {
            true if self.position >= self.known => Behind::Maybe,
            _ => Behind::Some,
        };
        let (names, inner) = (&mut self.names, &self.inner);
        self.walk.next(behind, |record| decode(record, names, inner))
    }
}

impl Iterator for Changes {
    type Item = Result<ChangeBatch>;

    /// Returns the next batch, or `None` at the present.
    fn next(&mut self) -> Option<Result<ChangeBatch>> {
        self.poll().transpose()
    }
}

impl std::fmt::Debug for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Changes(at {} of {})", self.position, self.inner.dir.display())
    }
}

/// Starts a walk behind `from`.
fn start_walk(inner: &DbInner, from: SeqNo) -> Result<LogWalk> {
    let mut begin = from;
    loop {
        if let Some(walk) = LogWalk::start(inner.fs.clone(), &inner.dir, begin)? {
            return Ok(walk);
        }
        // No log has the number of an ingest. A crash may have lost the content of the log that began
        // before it, and the next log begins behind it.
        let kept = kept_in(&*inner.fs, &inner.dir)?;
        if !kept.iter().any(|(table, _)| table.seqno == begin + 1) {
            break;
        }
        begin += 1;
    }
    let message = format!(
        "the changes after position {from} are in no log any more; bootstrap again from \
         `snapshot_with_position`"
    );
    Err(Error::not_found(message).with_path(&inner.dir))
}

/// The batch that was returned last, and its checksum.
struct Previous(SeqNo, u64);

impl Previous {
    /// Replaces the batch by the next one. `at_start` is the checksum of the batch at which the feed
    /// began.
    fn take(&mut self, (sequence, checksum, at_start): (SeqNo, u64, u64)) -> (SeqNo, u64) {
        let known = if self.1 == 0 { at_start } else { self.1 };
        let previous = (self.0, known);
        (self.0, self.1) = (sequence, checksum);
        previous
    }
}

/// The names of the keyspaces at the position of the feed.
struct Names {
    known: HashMap<KeyspaceId, Option<Arc<str>>>,
    default: Arc<str>,
    feed: Option<KeyspaceId>,
    /// A keyspace that this handle of a store opened read-only cannot know.
    unknown: Option<KeyspaceId>,
    previous: Previous,
    /// The ingest that the record being decoded stands for.
    ingest: Option<IngestRecord>,
}

impl Names {
    /// Finds the names at position `from`: those of now, without the changes since.
    fn at(inner: &Arc<DbInner>, from: SeqNo, end: SeqNo) -> Result<Names> {
        let mut names = Names {
            known: HashMap::new(),
            default: Arc::from(DEFAULT_KEYSPACE),
            feed: inner.feed_keyspace().map(|(keyspace, _)| keyspace.id),
            unknown: None,
            previous: Previous(from, 0),
            ingest: None,
        };
        let logged = inner.logged_keyspaces()?;
        for (id, record) in &logged {
            let is_live = record.kind != RecordKind::Dropped;
            names.known.insert(*id, is_live.then(|| Arc::from(&*record.name)));
        }
        // Also a keyspace that was dropped, and is not logged any more, may have its changes here.
        if names.feed.is_none() || from >= end {
            return Ok(names);
        }
        for (id, record) in first_records(inner, &names, from, end)? {
            let name: Option<&str> = match record.kind {
                RecordKind::Created => None,
                RecordKind::Renamed => Some(&record.old_name),
                RecordKind::Dropped | RecordKind::Existing => Some(&record.name),
            };
            names.known.insert(id, name.map(Arc::from));
        }
        Ok(names)
    }

    /// Returns the name of a keyspace of users; `None` for an internal or dropped one.
    fn of(&mut self, id: KeyspaceId, inner: &DbInner) -> Option<Arc<str>> {
        if let Some(known) = self.known.get(&id) {
            return known.clone();
        }
        // A store without slots logs no keyspaces.
        let Some(found) = inner.keyspaces.lock().name_of(id) else {
            // With a slot, every keyspace of users is logged, and others are internal.
            self.unknown = Some(id).filter(|_| inner.read_only && self.feed.is_none());
            return None;
        };
        if &*found == FEED_KEYSPACE {
            self.feed = Some(id);
        }
        (!is_internal(&found)).then_some(found)
    }
}

/// Returns the first record of each keyspace in the logs after `from` and up to `end`.
fn first_records(
    inner: &Arc<DbInner>,
    names: &Names,
    from: SeqNo,
    end: SeqNo,
) -> Result<BTreeMap<KeyspaceId, KeyspaceRecord>> {
    let mut first = BTreeMap::new();
    let mut walk = start_walk(inner, from)?;
    let mut last = from;
    while last < end {
        let taken = walk.next(Behind::Some, |record| {
            let mut seqno = record.first_seqno;
            for op in Ops::new(record.payload).flatten() {
                if seqno > from
                    && let Some((id, change)) = described(&op, names.feed)
                {
                    first.entry(id).or_insert(change);
                }
                seqno += 1;
            }
            Ok(seqno - 1)
        });
        match taken? {
            Some(seqno) => last = seqno,
            None => break,
        }
    }
    Ok(first)
}

/// Returns the change of a keyspace that an operation logs.
fn described(op: &Op<'_>, feed: Option<KeyspaceId>) -> Option<(KeyspaceId, KeyspaceRecord)> {
    let is_feed = op.tree != 0 && op.kind == Kind::Put && keyspace_of(op.key) == feed;
    if !is_feed || feed.is_none() {
        return None;
    }
    let id = described_by(op.key.get(PREFIX_BYTES..)?)?;
    Some((id, KeyspaceRecord::decode(op.value)?))
}

/// Decodes a record. A change of a keyspace changes the names.
fn decode(record: &LogRecord<'_>, names: &mut Names, inner: &DbInner) -> Result<Decoded> {
    let (mut changes, mut count) = (Vec::new(), 0);
    for op in Ops::new(record.payload) {
        let op = op.ok_or_else(|| invalid(&inner.dir, record))?;
        count += 1;
        change_of(&op, names, inner, &mut changes).ok_or_else(|| invalid(&inner.dir, record))?;
    }
    if let Some(id) = names.unknown {
        let message = format!(
            "the feed has changes of keyspace {id}, which was created after this handle was opened; \
             open the store again, or make a slot first"
        );
        return Err(Error::not_found(message).with_path(&inner.dir));
    }
    let ingest = names.ingest.take().and_then(|ingest| match ingest.keyspace {
        0 => Some((names.default.clone(), ingest)),
        id => Some((names.of(id, inner)?, ingest)),
    });
    let batch = ChangeBatch {
        first_sequence: record.first_seqno,
        sequence: (record.first_seqno + count).saturating_sub(1),
        checksum: checksum(record.payload, record.first_seqno) | 1,
        previous: 0,
        previous_checksum: 0,
        part: 0,
        continues: false,
        changes,
    };
    let is_internal = batch.changes.is_empty();
    Ok(Decoded { batch, is_internal, ingest })
}

fn invalid(dir: &Path, record: &LogRecord<'_>) -> Error {
    let message = format!("log record {} has no valid operations", record.ordinal);
    Error::corruption(dir, record.offset_bytes, message)
}

/// Adds the changes that an operation makes. Returns `None` for an invalid one.
fn change_of(
    op: &Op<'_>,
    names: &mut Names,
    inner: &DbInner,
    changes: &mut Vec<Change>,
) -> Option<()> {
    if op.tree == 0 {
        let keyspace = names.default.clone();
        changes.push(plain_change(op.kind, keyspace, op.key, op.value));
        return Some(());
    }
    if op.kind == Kind::RangeDelete && op.key.len() == PREFIX_BYTES && keyspace_of(op.key).is_none()
    {
        // From the bound before a keyspace to the bound behind it.
        let end = u32::from_be_bytes(*op.value.first_chunk()?);
        if let Some(keyspace) = names.of(end >> 1, inner) {
            changes.push(Change::Clear { keyspace });
        }
        return Some(());
    }
    let id = keyspace_of(op.key)?;
    let name = names.of(id, inner);
    if names.feed == Some(id) {
        if let Some((id, record)) = described(op, names.feed) {
            keyspace_changes(id, record, names, changes);
        } else if op.kind == Kind::Put && op.key.get(PREFIX_BYTES..) == Some(INGEST_KEY) {
            names.ingest = Some(IngestRecord::decode(op.value)?);
        }
        return Some(());
    }
    let Some(keyspace) = name else { return Some(()) };
    let key = op.key.get(PREFIX_BYTES..)?;
    let value = match op.kind {
        Kind::RangeDelete => op.value.get(PREFIX_BYTES..)?,
        _ => op.value,
    };
    changes.push(plain_change(op.kind, keyspace, key, value));
    Some(())
}

/// Adds what a record of a keyspace means for a reader that knows `names`, and updates these.
fn keyspace_changes(
    id: KeyspaceId,
    record: KeyspaceRecord,
    names: &mut Names,
    changes: &mut Vec<Change>,
) {
    let known = names.known.get(&id).cloned().flatten();
    let new_name: Arc<str> = Arc::from(&*record.name);
    match (record.kind, known) {
        (RecordKind::Dropped, None) => return,
        (RecordKind::Dropped, Some(keyspace)) => {
            changes.push(Change::KeyspaceDropped { keyspace });
            names.known.insert(id, None);
            return;
        }
        (RecordKind::Existing, Some(name)) if name == new_name => {
            // A reader that begins before the first slot is told here.
            let (key_order, options) = (record.order, record.options);
            changes.push(Change::KeyspaceCreated { keyspace: name, key_order, options });
            return;
        }
        (RecordKind::Renamed | RecordKind::Existing, Some(keyspace)) => {
            changes.push(Change::KeyspaceRenamed { keyspace, new_name: new_name.clone() });
        }
        (RecordKind::Created, Some(name)) if name == new_name => return,
        (_, known) => {
            // A keyspace whose creation failed has left its number to this one.
            changes.extend(known.map(|keyspace| Change::KeyspaceDropped { keyspace }));
            changes.push(Change::KeyspaceCreated {
                keyspace: new_name.clone(),
                key_order: record.order,
                options: record.options,
            });
        }
    }
    names.known.insert(id, Some(new_name));
}
