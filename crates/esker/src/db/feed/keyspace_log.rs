//! The keyspaces of a store as its change feed sees them.
//!
//! The manifest has the keyspaces, and the logs have the writes. A reader of logs needs both in one
//! order. So a store with slots repeats each change of its keyspaces as a pair of an internal
//! keyspace ([`FEED_KEYSPACE`]): key `k` and the keyspace's number, value a [`KeyspaceRecord`].
//!
//! Invariants:
//! 1. The creation of a keyspace is logged before the manifest has it, and therefore before any write
//!    to it. A drop and a new name are logged after the manifest has them.
//! 2. After a crash or a failure between the two, the pairs are corrected at the next opening, the
//!    next change or the next subscription ([`DbInner::log_keyspaces`]).
//! 3. While a keyspace is created, renamed or dropped, `Feed::catalog_change` is locked.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::base::coding::{Reader, put_bytes, put_varint};
use crate::base::keyspace::{KeyspaceId, KeyspaceState, stored_bounds};
use crate::db::Db;
use crate::db::keyspace::KeyspaceOptions;
use crate::db::state::DbInner;
use crate::db::tree::{InKeyspace, Tree};
use crate::error::{Error, ErrorKind, Result};
use crate::tree::catalog::{FEED_KEYSPACE, Pairs, is_internal};
use crate::write::batch::Batch;

/// First byte of the keys that describe keyspaces.
const KEYSPACE_KEY: u8 = b'k';

/// What a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordKind {
    /// The keyspace is new.
    Created = 1,
    /// The keyspace has a new name.
    Renamed = 2,
    /// The keyspace was dropped.
    Dropped = 3,
    /// The keyspace existed before its store had a slot.
    Existing = 4,
}

/// A change of a keyspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyspaceRecord {
    pub kind: RecordKind,
    pub name: String,
    /// The name before a [`RecordKind::Renamed`].
    pub old_name: String,
    pub order: String,
    pub options: Pairs,
}

impl KeyspaceRecord {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![self.kind as u8];
        for text in [&self.name, &self.old_name, &self.order] {
            put_bytes(&mut out, text.as_bytes());
        }
        put_varint(&mut out, self.options.len() as u64);
        for text in self.options.iter().flat_map(|(name, value)| [name, value]) {
            put_bytes(&mut out, text.as_bytes());
        }
        out
    }

    /// Decodes a record. Returns `None` for other bytes.
    pub fn decode(bytes: &[u8]) -> Option<KeyspaceRecord> {
        let mut reader = Reader::new(bytes);
        let kind = match reader.u8()? {
            1 => RecordKind::Created,
            2 => RecordKind::Renamed,
            3 => RecordKind::Dropped,
            4 => RecordKind::Existing,
            _ => return None,
        };
        let mut text = || String::from_utf8(reader.bytes()?.to_vec()).ok();
        let (name, old_name, order) = (text()?, text()?, text()?);
        let mut options = Vec::new();
        for _ in 0..reader.varint()? {
            let mut text = || String::from_utf8(reader.bytes()?.to_vec()).ok();
            options.push((text()?, text()?));
        }
        reader.is_empty().then_some(KeyspaceRecord { kind, name, old_name, order, options })
    }
}

/// Returns the number of the keyspace that a key of [`FEED_KEYSPACE`] describes, if it does.
pub(super) fn described_by(key: &[u8]) -> Option<KeyspaceId> {
    let (first, number) = key.split_first()?;
    let number: [u8; 4] = number.try_into().ok()?;
    (*first == KEYSPACE_KEY).then(|| u32::from_be_bytes(number))
}

fn key_of(id: KeyspaceId) -> Vec<u8> {
    [&[KEYSPACE_KEY][..], &id.to_be_bytes()].concat()
}

impl DbInner {
    /// Returns the internal keyspace of the feed and its tree, if it exists.
    pub(super) fn feed_keyspace(&self) -> Option<(Arc<KeyspaceState>, Arc<Tree>)> {
        let keyspace = self.keyspaces.lock().find(FEED_KEYSPACE)?.clone();
        let tree = self.trees().get(keyspace.tree as usize)?.clone();
        Some((keyspace, tree))
    }

    /// Does the same, and creates the keyspace if it does not exist. `catalog_change` is locked.
    pub(super) fn make_feed_keyspace(&self) -> Result<(Arc<KeyspaceState>, Arc<Tree>)> {
        if let Some(found) = self.feed_keyspace() {
            return Ok(found);
        }
        self.create_in_order(FEED_KEYSPACE, &KeyspaceOptions::default())?;
        let found = self.feed_keyspace();
        found.ok_or_else(|| Error::not_found("the keyspace of the feed could not be made"))
    }

    /// Returns the logged keyspaces by number, with the last record of each.
    pub(super) fn logged_keyspaces(&self) -> Result<BTreeMap<KeyspaceId, KeyspaceRecord>> {
        let mut logged = BTreeMap::new();
        let Some((keyspace, tree)) = self.feed_keyspace() else { return Ok(logged) };
        let bounds = stored_bounds(keyspace.id, (Bound::Unbounded, Bound::Unbounded));
        let of = InKeyspace { tree: &tree, rules: &keyspace.rules };
        let mut iter = self.iter_at(Some(of), bounds, None, true)?.in_keyspace(keyspace.id);
        iter.seek_to_first()?;
        while iter.valid() {
            if let Some(id) = described_by(iter.key()) {
                let record = KeyspaceRecord::decode(iter.value()).ok_or_else(|| {
                    let message = "a record of a keyspace for the change feed is invalid";
                    Error::new(ErrorKind::Corruption, message).with_path(&self.dir)
                })?;
                logged.insert(id, record);
            }
            iter.move_next()?;
        }
        Ok(logged)
    }

    /// Returns the keyspaces of users as the manifest has them.
    fn present_keyspaces(&self) -> BTreeMap<KeyspaceId, KeyspaceRecord> {
        let versions = self.versions.lock();
        let catalog = versions.catalog();
        let users = catalog.keyspaces().filter(|keyspace| !is_internal(&keyspace.name));
        let records = users.map(|keyspace| {
            let tree = catalog.trees().iter().find(|tree| tree.id == keyspace.tree);
            let options = tree.map_or(&[][..], |tree| &tree.options);
            let record = KeyspaceRecord {
                kind: RecordKind::Existing,
                name: keyspace.name.clone(),
                old_name: String::new(),
                order: tree.map(|tree| tree.order.clone()).unwrap_or_default(),
                options: [options, &keyspace.settings].concat(),
            };
            (keyspace.id, record)
        });
        records.collect()
    }

    /// Logs how the keyspaces differ from those that were logged. `catalog_change` is locked.
    pub(super) fn log_keyspaces(&self) -> Result<()> {
        let (logged, present) = (self.logged_keyspaces()?, self.present_keyspaces());
        let mut changes: Vec<(KeyspaceId, Option<KeyspaceRecord>)> = Vec::new();
        for (id, record) in &logged {
            let is_present = present.contains_key(id);
            match record.kind {
                RecordKind::Dropped if !is_present => changes.push((*id, None)),
                _ if is_present => {}
                _ => {
                    let dropped = KeyspaceRecord { kind: RecordKind::Dropped, ..record.clone() };
                    changes.push((*id, Some(dropped)));
                }
            }
        }
        for (id, record) in present {
            let known = logged.get(&id).filter(|known| known.kind != RecordKind::Dropped);
            match known {
                Some(known) if known.name == record.name => {}
                Some(known) => {
                    let (kind, old_name) = (RecordKind::Renamed, known.name.clone());
                    changes.push((id, Some(KeyspaceRecord { kind, old_name, ..record })));
                }
                None => changes.push((id, Some(record))),
            }
        }
        if changes.is_empty() { Ok(()) } else { self.write_keyspace_records(&changes) }
    }

    fn write_keyspace_records(
        &self,
        changes: &[(KeyspaceId, Option<KeyspaceRecord>)],
    ) -> Result<()> {
        let (keyspace, _) = self.make_feed_keyspace()?;
        let mut batch = Batch::new();
        for (id, record) in changes {
            match record {
                Some(record) => batch.put_at(Some(&keyspace), &key_of(*id), &record.encode()),
                None => batch.delete_at(Some(&keyspace), &key_of(*id)),
            }
        }
        let (payload, count, user_bytes) = batch.parts()?;
        self.check_writable()?;
        // Not `write`, which calls listeners: `catalog_change` is locked.
        let durability = self.write_params.durability();
        self.committer.commit(payload, count, user_bytes, durability, None, self)?;
        self.feed.wake();
        Ok(())
    }

    /// Creates a keyspace of a user. A store with slots logs it first. `catalog_change` is locked.
    pub(in crate::db) fn create_and_log(
        &self,
        name: &str,
        options: &KeyspaceOptions,
    ) -> Result<()> {
        if !self.feed.has_slots() || self.keyspaces.lock().find(name).is_some() {
            return self.create_in_order(name, options);
        }
        self.check_new_keyspace(options)?;
        self.make_feed_keyspace()?;
        // Corrects what a failure left behind, so that the number below is not described yet.
        self.log_keyspaces()?;
        let id = self.versions.lock().catalog().next_id();
        let record = KeyspaceRecord {
            kind: RecordKind::Created,
            name: name.to_string(),
            old_name: String::new(),
            order: options.key_order.name().to_string(),
            options: options.all_pairs(),
        };
        self.write_keyspace_records(&[(id, Some(record))])?;
        self.create_in_order(name, options).inspect_err(|_| drop(self.log_keyspaces()))
    }

    /// Logs a change of the keyspaces that the manifest has. `catalog_change` is locked.
    pub(in crate::db) fn log_keyspace_change(&self) -> Result<()> {
        if self.feed.has_slots() { self.log_keyspaces() } else { Ok(()) }
    }
}

/// Returns the options of a keyspace that is described like this.
///
/// # Errors
/// `Incompatible` when the store does not know the key order; `InvalidArgument` for an unknown
/// option.
pub(super) fn options_of(db: &Db, order: &str, options: &Pairs) -> Result<KeyspaceOptions> {
    let known = crate::db::tree::known_orders(&db.inner.options.load());
    let key_order = crate::base::order::KeyOrder::by_name(order, &known).ok_or_else(|| {
        let message = format!(
            "the feed creates a keyspace with keys ordered by {order}, and `Options::key_orders` \
             has no order of this name"
        );
        Error::new(ErrorKind::Incompatible, message)
    })?;
    let start = KeyspaceOptions::default().key_order(key_order);
    options.iter().try_fold(start, |made, (name, value)| made.set(name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_round_trips_and_cut_bytes_are_refused() {
        let record = KeyspaceRecord {
            kind: RecordKind::Renamed,
            name: "new".into(),
            old_name: "old".into(),
            order: "bytewise".into(),
            options: vec![("policy".into(), "leveled".into()), ("ttl_ms".into(), "5".into())],
        };
        let bytes = record.encode();
        assert_eq!(KeyspaceRecord::decode(&bytes), Some(record));
        for len in 0..bytes.len() {
            assert_eq!(KeyspaceRecord::decode(&bytes[..len]), None, "{len}");
        }
        assert_eq!(
            (described_by(&key_of(7)), described_by(b"a"), described_by(b"")),
            (Some(7), None, None)
        );
    }
}
