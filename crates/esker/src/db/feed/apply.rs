//! Applies a stream of changes to another store.
//!
//! Invariants:
//! 1. A batch and the position behind it are written as one batch of the target. So after a crash of
//!    either end the target knows what it has, and no batch is applied twice or left out.
//! 2. The manifest has a change of a keyspace at once, and a batch is in the log only. So everything
//!    before such a change is durable first, and the change is noted durably before the next one:
//!    after a crash at most one of them may have to be done again.
//! 3. The parts of an ingest become tables of the target, and are visible together. The target notes
//!    durably that it is about to install them, with the number of its last ingest. After a crash a
//!    larger number says that it has installed them.
//! 4. A batch is applied only if it follows what the target has: the positions and the checksums
//!    must fit.

use std::sync::Arc;

use super::change::{Change, ChangeBatch};
use super::keyspace_log::options_of;
use super::stream::StreamItem;
use crate::base::coding::{Reader, put_u64};
use crate::base::key::Kind;
use crate::base::keyspace::{KeyspaceState, Place, StoredKey, prefix_end};
use crate::base::ops;
use crate::db::Db;
use crate::db::ingest::SortedLoad;
use crate::db::keyspace::Keyspace;
use crate::db::tree::InKeyspace;
use crate::error::{Error, ErrorKind, Result};
use crate::tree::catalog::DEFAULT_KEYSPACE;
use crate::write::batch::{check_key, check_value};
use crate::write::commit::LARGE_BYTES;

/// Key of the position in the internal keyspace of the feed.
const APPLIED: &[u8] = b"applied";
const VERSION: u8 = 1;
/// Version of a state with an ingest.
const VERSION_INGEST: u8 = 2;

/// What a store has applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Applied {
    /// Identity of the source.
    source: u64,
    /// Whether the content of the source is being copied.
    is_bootstrapping: bool,
    position: u64,
    /// Checksum of the batch that ends at the position; 0 if it is not known.
    checksum: u64,
    /// Number of changes of the next batch that are done: changes of keyspaces are not atomic.
    done: u64,
    /// An ingest that is being installed.
    ingest: Option<Ingesting>,
}

/// An ingest that the target installs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ingesting {
    /// The number of the last ingest of the target before it.
    before: u64,
    /// The position behind it, and its checksum.
    position: u64,
    checksum: u64,
}

impl Applied {
    fn encode(&self) -> Vec<u8> {
        let version = if self.ingest.is_some() { VERSION_INGEST } else { VERSION };
        let mut out = vec![version, u8::from(self.is_bootstrapping)];
        let ingest = self.ingest.map(|ingest| [ingest.before, ingest.position, ingest.checksum]);
        let own = [self.source, self.position, self.checksum, self.done];
        for number in own.into_iter().chain(ingest.into_iter().flatten()) {
            put_u64(&mut out, number);
        }
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Applied> {
        let mut reader = Reader::new(bytes);
        let (version, is_bootstrapping) = (reader.u8()?, reader.u8()? != 0);
        let (source, position) = (reader.u64()?, reader.u64()?);
        let (checksum, done) = (reader.u64()?, reader.u64()?);
        let mut ingest = None;
        if version == VERSION_INGEST {
            let (before, position) = (reader.u64()?, reader.u64()?);
            ingest = Some(Ingesting { before, position, checksum: reader.u64()? });
        }
        let applied = Applied { source, is_bootstrapping, position, checksum, done, ingest };
        let is_known = [VERSION, VERSION_INGEST].contains(&version);
        (is_known && reader.is_empty()).then_some(applied)
    }
}

/// Applies the changes of one store to another, and keeps the position in the target.
///
/// The target has the changes of one source only. Its own writes are not prevented, and not checked.
/// See [`ChangeWriter`](crate::feed::ChangeWriter) for an example.
pub struct Applier {
    db: Db,
    feed: Arc<KeyspaceState>,
    source: u64,
    state: Option<Applied>,
    /// The parts of an ingest so far.
    load: Option<PartialLoad>,
}

/// An ingest of which some parts have come.
struct PartialLoad {
    load: SortedLoad,
    /// The position behind the ingest.
    sequence: u64,
    next_part: u64,
}

impl std::fmt::Debug for Applier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Applier(to {} at {:?})", self.db.inner.dir.display(), self.position())
    }
}

impl Db {
    /// Returns what this store has applied of another store with an [`Applier`]: the identity of that
    /// store, and the position in its feed. `None` if it has applied nothing, or if a copy of the
    /// content was interrupted.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn applied_position(&self) -> Result<Option<(u64, u64)>> {
        let state = read_applied(self)?.filter(|state| !state.is_bootstrapping);
        Ok(state.map(|state| (state.source, state.position)))
    }
}

fn read_applied(db: &Db) -> Result<Option<Applied>> {
    let inner = &db.inner;
    let Some((keyspace, tree)) = inner.feed_keyspace() else { return Ok(None) };
    let stored = StoredKey::new(keyspace.id, APPLIED);
    let of = InKeyspace { tree: &tree, rules: &keyspace.rules };
    let Some(value) = inner.get_at(Some(of), stored.as_slice(), None, true)? else {
        return Ok(None);
    };
    let state = Applied::decode(&value).ok_or_else(|| {
        let message = "the position of the applied feed is invalid";
        Error::new(ErrorKind::Corruption, message).with_path(&inner.dir)
    })?;
    Ok(Some(state))
}

/// Operations that are written as one batch of the target.
#[derive(Default)]
struct Operations {
    payload: Vec<u8>,
    count: u32,
    user_bytes: u64,
}

impl Applier {
    /// Prepares the application of the changes of the store with the identity `source` to `db`.
    ///
    /// # Errors
    /// `Incompatible` when `db` has applied changes of another store, or is the source itself;
    /// `ReadOnly`, `NoSpace`, `Io`.
    pub fn new(db: &Db, source: u64) -> Result<Applier> {
        let state = read_applied(db)?;
        if let Some(state) = state.filter(|state| state.source != source) {
            let message = format!(
                "the store has applied changes of the store {:016x}, and the stream is of the store \
                 {source:016x}",
                state.source
            );
            return Err(Error::new(ErrorKind::Incompatible, message).with_path(&db.inner.dir));
        }
        if db.store_id() == source {
            let message = "the stream has the changes of this very store";
            return Err(Error::new(ErrorKind::Incompatible, message).with_path(&db.inner.dir));
        }
        let changing = db.inner.feed.catalog_change.lock();
        let (feed, _) = db.inner.make_feed_keyspace()?;
        let mut applier = Applier { db: db.clone(), feed, source, state, load: None };
        drop(changing);
        applier.settle_ingest()?;
        Ok(applier)
    }

    /// Returns the position up to which the changes are applied; `None` before the first one and
    /// while content is copied.
    pub fn position(&self) -> Option<u64> {
        self.state.filter(|state| !state.is_bootstrapping).map(|state| state.position)
    }

    /// States that the target has the content of the source at `position`, because it is a copy of
    /// it.
    ///
    /// # Errors
    /// `InvalidArgument` when the target has applied changes already; as [`Db::write`].
    pub fn start_at(&mut self, position: u64) -> Result<()> {
        if self.state.is_some() {
            let message = "the store has applied changes already, so its position is known";
            return Err(self.error(ErrorKind::InvalidArgument, message));
        }
        self.write(Operations::default(), self.state_at(position, 0))
    }

    /// Applies one item of a stream. A batch that the target has is left out. Returns whether the
    /// target was changed.
    ///
    /// # Errors
    /// * `InvalidArgument` when the item does not follow what the target has: changes are missing, or
    ///   the source has lost batches in a crash that the target has. Bootstrap the target again.
    /// * `InvalidArgument` and `Incompatible` when the target lacks the keyspace, the merge operator
    ///   or the key order that a change needs.
    /// * As [`Db::write`]. The item was not applied then, and can be applied again.
    pub fn apply(&mut self, item: &StreamItem) -> Result<bool> {
        match item {
            StreamItem::Batch(batch) => self.apply_batch(batch),
            StreamItem::BootstrapBegins => self.begin_bootstrap().map(|()| true),
            StreamItem::Content(changes) => {
                let state = self.state.filter(|state| state.is_bootstrapping);
                let state = state.ok_or_else(|| self.out_of_place("content of the source"))?;
                self.apply_changes(changes, state).map(|()| true)
            }
            StreamItem::BootstrapEnds { position } => {
                if !self.state.is_some_and(|state| state.is_bootstrapping) {
                    return Err(self.out_of_place("the end of the content of the source"));
                }
                self.write(Operations::default(), self.state_at(*position, 0))?;
                // The content is not copied again after a crash.
                self.db.sync().map(|()| true)
            }
            StreamItem::Alive { .. } | StreamItem::End { .. } => Ok(false),
        }
    }

    fn apply_batch(&mut self, batch: &ChangeBatch) -> Result<bool> {
        // A write after an installation may have failed.
        self.settle_ingest()?;
        let have = match self.state {
            Some(state) if state.is_bootstrapping => {
                return Err(self.out_of_place("a batch within the content of the source"));
            }
            Some(state) => state,
            None => self.state_at(0, 0),
        };
        let differs = |a: u64, b: u64| a != 0 && b != 0 && a != b;
        if batch.sequence <= have.position {
            if batch.sequence == have.position && differs(batch.checksum, have.checksum) {
                return Err(self.diverged(batch.sequence));
            }
            return Ok(false);
        }
        if batch.previous > have.position {
            let message = format!(
                "the stream begins after position {}, and the store has the changes up to position {}; \
                 start the stream there, or bootstrap the store again",
                batch.previous, have.position
            );
            return Err(self.error(ErrorKind::InvalidArgument, &message));
        }
        // The feed returns a batch that ends at each position that it has ever returned.
        let is_known_boundary = batch.previous == have.position;
        if !is_known_boundary || differs(batch.previous_checksum, have.checksum) {
            return Err(self.diverged(have.position));
        }
        let load = self.load.take();
        if batch.continues || batch.part > 0 {
            return self.apply_part(load, batch).map(|()| true);
        }
        let state = self.state_at(batch.sequence, batch.checksum);
        self.apply_changes(&batch.changes, state).map(|()| true)
    }

    /// Adds a part of an ingest to the tables that are being made, and installs them with the last.
    fn apply_part(&mut self, load: Option<PartialLoad>, batch: &ChangeBatch) -> Result<()> {
        let (sequence, part) = (batch.sequence, batch.part);
        let known = load.filter(|load| (load.sequence, load.next_part) == (sequence, part));
        let mut load = match (known, batch.changes.first()) {
            (Some(known), _) if part > 0 => known.load,
            (_, Some(first)) if part == 0 => SortedLoad::new(&self.keyspace(first.keyspace())?)?,
            _ => return Err(self.out_of_place("this part of an ingest")),
        };
        batch.changes.iter().try_for_each(|change| self.add_to(&mut load, change))?;
        if batch.continues {
            self.load = Some(PartialLoad { load, sequence, next_part: part + 1 });
            return Ok(());
        }
        let have = self.state.unwrap_or_else(|| self.state_at(0, 0));
        let before = self.db.inner.versions.lock().ingested_seqno();
        let (position, checksum) = (sequence, batch.checksum);
        let ingest = Some(Ingesting { before, position, checksum });
        // The installation makes this durable before the manifest has the tables.
        load.install(|| self.write(Operations::default(), Applied { ingest, ..have }))?;
        self.write(Operations::default(), self.state_at(position, checksum))
    }

    fn add_to(&self, load: &mut SortedLoad, change: &Change) -> Result<()> {
        match change {
            Change::Put { key, value, expires_ms: None, .. } => {
                check_value(value)?;
                load.add(key, Kind::Put, value)
            }
            Change::Put { key, value, expires_ms: Some(time_ms), .. } => {
                check_value(value)?;
                self.db.inner.rules.clock.mark_used();
                let timed = [&time_ms.to_be_bytes()[..], value].concat();
                load.add(key, Kind::PutExpiring, &timed)
            }
            Change::Merge { keyspace, key, operand } => {
                check_value(operand)?;
                let found = self.keyspace(keyspace)?;
                let rules = found.state().map_or(&self.db.inner.rules, |state| &state.rules);
                rules.check_merge(keyspace, operand)?;
                load.add(key, Kind::Merge, operand)
            }
            Change::Delete { key, .. } => load.add(key, Kind::Delete, &[]),
            _ => Err(self.out_of_place("a change of this kind in an ingest")),
        }
    }

    /// Finds out whether a crash came before or after the installation of an ingest.
    fn settle_ingest(&mut self) -> Result<()> {
        let Some(state) = self.state else { return Ok(()) };
        let Some(ingest) = state.ingest else { return Ok(()) };
        let is_installed = self.db.inner.versions.lock().ingested_seqno() > ingest.before;
        let settled = match is_installed {
            true => self.state_at(ingest.position, ingest.checksum),
            false => Applied { ingest: None, ..state },
        };
        self.write(Operations::default(), settled)
    }

    fn diverged(&self, position: u64) -> Error {
        let message = format!(
            "the store has a batch at position {position} that its source does not have: a crash of the \
             source lost it; bootstrap the store again"
        );
        self.error(ErrorKind::InvalidArgument, &message)
    }

    fn out_of_place(&self, what: &str) -> Error {
        let message = format!("the stream is out of order: {what} is not expected here");
        self.error(ErrorKind::InvalidArgument, &message)
    }

    fn error(&self, kind: ErrorKind, message: &str) -> Error {
        Error::new(kind, message).with_path(&self.db.inner.dir)
    }

    fn state_at(&self, position: u64, checksum: u64) -> Applied {
        let (source, is_bootstrapping, done, ingest) = (self.source, false, 0, None);
        Applied { source, is_bootstrapping, position, checksum, done, ingest }
    }

    /// Empties the target if a copy of the content was interrupted; otherwise it must be empty.
    fn begin_bootstrap(&mut self) -> Result<()> {
        let is_again = self.state.is_some_and(|state| state.is_bootstrapping);
        let is_empty = || {
            let mut names = self.db.keyspaces().into_iter();
            let has_others = names.any(|name| name != DEFAULT_KEYSPACE);
            Ok::<bool, Error>(!has_others && self.db.iter()?.next().is_none())
        };
        if !is_again && (self.state.is_some() || !is_empty()?) {
            let message = "the stream brings the whole content of its source, and the store is not \
                           empty; give an empty directory";
            return Err(self.error(ErrorKind::InvalidArgument, message));
        }
        if is_again {
            for name in self.db.keyspaces().iter().filter(|name| *name != DEFAULT_KEYSPACE) {
                self.db.drop_keyspace(name)?;
            }
            let mut iter = self.db.iter()?;
            iter.seek_to_first()?;
            if iter.valid() {
                let first = iter.key().to_vec();
                iter.seek_to_last()?;
                let last = iter.key().to_vec();
                self.db.delete_range(&first, &last)?;
                self.db.delete(&last)?;
            }
        }
        let state = Applied { is_bootstrapping: true, ..self.state_at(0, 0) };
        self.write(Operations::default(), state)?;
        // Before the first keyspace is created.
        self.db.sync()
    }

    fn apply_changes(&mut self, changes: &[Change], state: Applied) -> Result<()> {
        let mut operations = Operations::default();
        let mut last: Option<(Arc<str>, Keyspace)> = None;
        let mut has_changed_keyspaces = false;
        for (at, change) in (0..).zip(changes) {
            if is_of_keyspaces(change) {
                last = None;
                has_changed_keyspaces = true;
                self.change_keyspaces(change, at)?;
                continue;
            }
            let name = change.shared_keyspace();
            let keyspace = match &last {
                Some((known, keyspace)) if **known == **name => keyspace.clone(),
                _ => self.keyspace(name)?,
            };
            last = Some((name.clone(), keyspace.clone()));
            self.encode(change, &keyspace, &mut operations)?;
        }
        self.write(operations, state)?;
        if has_changed_keyspaces { self.db.sync() } else { Ok(()) }
    }

    fn keyspace(&self, name: &str) -> Result<Keyspace> {
        let found = self.db.existing_keyspace(name)?;
        found.ok_or_else(|| {
            let message = format!(
                "the stream changes the keyspace \"{name}\", which the store does not have; bootstrap \
                 the store again"
            );
            self.error(ErrorKind::InvalidArgument, &message)
        })
    }

    /// Creates, renames or drops a keyspace, unless that was done before a crash. It is the change
    /// number `at` of its batch.
    fn change_keyspaces(&mut self, change: &Change, at: u64) -> Result<()> {
        let have = self.state.unwrap_or_else(|| self.state_at(0, 0));
        if at < have.done {
            return Ok(());
        }
        self.db.sync()?;
        let exists = |name: &str| Ok::<_, Error>(self.db.existing_keyspace(name)?.is_some());
        match change {
            Change::KeyspaceCreated { keyspace, key_order, options } => {
                let options = options_of(&self.db, key_order, options)?;
                self.db.keyspace(keyspace, &options)?;
            }
            Change::KeyspaceRenamed { keyspace, new_name }
                if exists(keyspace)? || !exists(new_name)? =>
            {
                self.db.rename_keyspace(keyspace, new_name)?;
            }
            Change::KeyspaceDropped { keyspace } if exists(keyspace)? => {
                self.db.drop_keyspace(keyspace)?;
            }
            _ => {}
        }
        if have.is_bootstrapping {
            // A bootstrap that is interrupted begins again.
            return Ok(());
        }
        self.write(Operations::default(), Applied { done: at + 1, ..have })?;
        self.db.sync()
    }

    fn encode(&self, change: &Change, keyspace: &Keyspace, into: &mut Operations) -> Result<()> {
        let place: Option<Place> = keyspace.state().map(|state| state.place());
        let rules = keyspace.state().map_or(&self.db.inner.rules, |state| &state.rules);
        let out = &mut into.payload;
        let bytes = match change {
            Change::Put { key, value, expires_ms, .. } => {
                check_key(key)?;
                check_value(value)?;
                match expires_ms {
                    None => ops::encode_put_at(out, place, key, value),
                    Some(time_ms) => {
                        self.db.inner.rules.clock.mark_used();
                        ops::encode_expiring_at(out, place, key, *time_ms, value);
                    }
                }
                key.len() + value.len()
            }
            Change::Merge { key, operand, .. } => {
                check_key(key)?;
                check_value(operand)?;
                rules.check_merge(&keyspace.name(), operand)?;
                ops::encode_merge_at(out, place, key, operand);
                key.len() + operand.len()
            }
            Change::Delete { key, .. } => {
                check_key(key)?;
                ops::encode_delete_at(out, place, key);
                key.len()
            }
            Change::DeleteRange { start, end, .. } => {
                check_key(start)?;
                check_key(end)?;
                ops::encode_range_delete_at(out, place, start, end);
                start.len() + end.len()
            }
            Change::Clear { .. } => {
                let place = place.ok_or_else(|| self.out_of_place("a cleared default keyspace"))?;
                let (start, end) = (prefix_end(place.keyspace - 1), prefix_end(place.keyspace));
                ops::encode_stored_range_delete(out, place.tree, &start, &end);
                0
            }
            _ => return Ok(()),
        };
        into.count += 1;
        into.user_bytes += bytes as u64;
        Ok(())
    }

    /// Writes operations and the position behind them as one batch.
    fn write(&mut self, operations: Operations, state: Applied) -> Result<()> {
        let Operations { mut payload, count, user_bytes } = operations;
        let inner = &self.db.inner;
        ops::encode_put_at(&mut payload, Some(self.feed.place()), APPLIED, &state.encode());
        if payload.len() >= LARGE_BYTES {
            inner.wait_for_room(payload.len() as u64, None)?;
        }
        inner.write(&payload, count + 1, user_bytes, None)?;
        self.state = Some(state);
        Ok(())
    }
}

/// Returns whether a change creates, renames or drops a keyspace.
fn is_of_keyspaces(change: &Change) -> bool {
    matches!(
        change,
        Change::KeyspaceCreated { .. }
            | Change::KeyspaceRenamed { .. }
            | Change::KeyspaceDropped { .. }
    )
}
