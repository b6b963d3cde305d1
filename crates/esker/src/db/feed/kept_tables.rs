//! Ingested tables that readers of the feed have not seen.
//!
//! The logs have no pairs of an ingest. So a store with slots keeps the tables of an ingest as they
//! were, under second names, also after compactions have merged them away, and so their value files:
//! the tables of streamed values have one each. A record in the log says
//! where the ingest is in the feed: a pair of the internal keyspace of the feed, with the key `i`.
//!
//! Invariants:
//! 1. The second names are durable before the manifest has the ingest. The record follows it, and no
//!    write comes between the two, because the writer state is held.
//! 2. After a crash between the two, the opening writes the record, before any other write. It removes
//!    the second names of an ingest that the manifest does not have. Only the last ingest can be
//!    without its record: an ingest syncs the logs first.
//! 3. A table is kept until every active slot is at or behind the number of its ingest. A reader at
//!    that number has a snapshot with the ingest.
//! 4. `Feed::files` is locked while second names are removed.

use std::path::{Path, PathBuf};

use crate::base::coding::{Reader, put_varint};
use crate::base::key::SeqNo;
use crate::base::keyspace::{KeyspaceId, KeyspaceState, StoredKey, TreeId};
use crate::base::ops;
use crate::base::sync::atomic::Ordering;
use crate::db::backup::copy;
use crate::db::dir::list_dir;
use crate::db::state::DbInner;
use crate::db::tree::InKeyspace;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Fs, sync_dir};
use crate::tree::names;
use crate::tree::output::NewFile;
use crate::values::OVERHEAD_BYTES as VALUES_OVERHEAD_BYTES;
use crate::write::writer_state::WriterState;

/// Key of the record in the internal keyspace of the feed.
pub(super) const INGEST_KEY: &[u8] = b"i";
const VERSION: u8 = 1;

/// An ingest as the log has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::db) struct IngestRecord {
    /// The sequence number of its entries.
    pub seqno: SeqNo,
    /// The keyspace; 0 is the default one.
    pub keyspace: KeyspaceId,
    pub tree: TreeId,
    /// The numbers of its tables, in key order.
    pub tables: Vec<u64>,
}

impl IngestRecord {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        let head = [self.seqno, self.keyspace.into(), self.tree.into(), self.tables.len() as u64];
        head.iter().chain(&self.tables).for_each(|number| put_varint(&mut out, *number));
        out
    }

    /// Decodes a record. Returns `None` for other bytes.
    pub fn decode(bytes: &[u8]) -> Option<IngestRecord> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != VERSION {
            return None;
        }
        let (seqno, keyspace, tree) = (reader.varint()?, reader.varint()?, reader.varint()?);
        let (keyspace, tree) = (keyspace.try_into().ok()?, tree.try_into().ok()?);
        let mut tables = Vec::new();
        for _ in 0..reader.varint()? {
            tables.push(reader.varint().filter(|number| *number <= names::NUMBER_MAX)?);
        }
        let record = IngestRecord { seqno, keyspace, tree, tables };
        reader.is_empty().then_some(record)
    }

    /// Returns the path of the second name of a table.
    pub fn path_of(&self, dir: &Path, table: u64) -> PathBuf {
        self.path(dir, table, false)
    }

    /// Returns the path of the second name of a value file.
    pub fn path_of_values(&self, dir: &Path, number: u64) -> PathBuf {
        self.path(dir, number, true)
    }

    fn path(&self, dir: &Path, table: u64, is_values: bool) -> PathBuf {
        let (seqno, keyspace, tree) = (self.seqno, self.keyspace, self.tree);
        let kept = names::KeptTable { seqno, keyspace, tree, table, is_values };
        names::kept_table_path(dir, &kept)
    }
}

/// Returns the kept tables and value files in `dir` with their lengths in bytes, in the order of their
/// ingests and keys.
pub(super) fn kept_in(fs: &dyn Fs, dir: &Path) -> Result<Vec<(names::KeptTable, u64)>> {
    let entries = list_dir(fs, dir)?.entries;
    let of = |entry: &crate::fs::DirEntry| {
        Some((names::parse_kept_table(&entry.name)?, entry.len_bytes))
    };
    let mut kept: Vec<_> = entries.iter().filter_map(of).collect();
    kept.sort_unstable_by_key(|(table, _)| (table.seqno, table.table));
    Ok(kept)
}

/// Removes the kept tables and value files for which `is_wanted` is false.
pub(super) fn remove_kept(fs: &dyn Fs, dir: &Path, is_wanted: impl Fn(SeqNo) -> bool) {
    for (table, _) in kept_in(fs, dir).unwrap_or_default() {
        if !is_wanted(table.seqno) {
            let _ = fs.remove(&names::kept_table_path(dir, &table));
        }
    }
}

impl DbInner {
    /// Gives the tables of an ingest second names, if the store has slots. Returns its record then.
    pub(in crate::db) fn keep_ingested(
        &self,
        seqno: SeqNo,
        tree: TreeId,
        keyspace: Option<&KeyspaceState>,
        files: &[NewFile],
    ) -> Result<Option<IngestRecord>> {
        if !self.has_slots() {
            return Ok(None);
        }
        self.feed.keeps_ingests.store(true, Ordering::Relaxed);
        let keyspace = keyspace.map_or(0, |keyspace| keyspace.id);
        let tables = files.iter().map(|file| file.number).collect();
        let record = IngestRecord { seqno, keyspace, tree, tables };
        let keep = |from: &Path, to: &Path, size_bytes: u64| {
            if self.fs.hard_link(from, to).is_ok() {
                return Ok(());
            }
            // What an earlier attempt with this number left behind.
            let _ = self.fs.remove(to);
            copy(&*self.fs, from, to, size_bytes)
        };
        let linked = files.iter().try_for_each(|file| {
            for values in &file.info.values {
                let from = names::value_path(&self.dir, values.file);
                let to = record.path_of_values(&self.dir, values.file);
                keep(&from, &to, values.bytes + VALUES_OVERHEAD_BYTES)?;
            }
            let from = names::table_path(&self.dir, file.number);
            let to = record.path_of(&self.dir, file.number);
            keep(&from, &to, file.info.size_bytes)
        });
        let linked = linked.and_then(|()| sync_dir(&*self.fs, &self.dir));
        linked.inspect_err(|_| self.forget_ingested(seqno))?;
        Ok(Some(record))
    }

    /// Removes the second names of the tables of an ingest that the manifest does not have.
    pub(in crate::db) fn forget_ingested(&self, seqno: SeqNo) {
        let _files = self.feed.files.lock();
        remove_kept(&*self.fs, &self.dir, |kept| kept != seqno);
    }

    /// Logs an ingest that the manifest has. After an error the writer accepts no writes: they would
    /// come before the ingest in the feed. The next opening logs it.
    pub(in crate::db) fn log_ingest(
        &self,
        writer: &mut WriterState,
        record: &IngestRecord,
    ) -> Result<()> {
        let logged =
            self.ingest_payload(record).and_then(|payload| writer.commit_own(&payload, self));
        logged.inspect_err(|error| {
            writer.poisoned.get_or_insert_with(|| error.clone());
        })
    }

    fn ingest_payload(&self, record: &IngestRecord) -> Result<Vec<u8>> {
        let (keyspace, _) = self.feed_keyspace().ok_or_else(|| {
            let message = "a store with slots lacks the internal keyspace of the feed";
            Error::new(ErrorKind::Corruption, message).with_path(&self.dir)
        })?;
        let mut payload = Vec::new();
        ops::encode_put_at(&mut payload, Some(keyspace.place()), INGEST_KEY, &record.encode());
        Ok(payload)
    }

    /// Returns the number of the last ingest that is in the log, or 0.
    fn last_logged_ingest(&self) -> Result<SeqNo> {
        let Some((keyspace, tree)) = self.feed_keyspace() else { return Ok(0) };
        let stored = StoredKey::new(keyspace.id, INGEST_KEY);
        let of = InKeyspace { tree: &tree, rules: &keyspace.rules };
        let Some(value) = self.get_at(Some(of), stored.as_slice(), None, true)? else {
            return Ok(0);
        };
        let record = IngestRecord::decode(&value).ok_or_else(|| {
            let message = "the record of an ingest for the change feed is invalid";
            Error::new(ErrorKind::Corruption, message).with_path(&self.dir)
        })?;
        Ok(record.seqno)
    }

    /// Completes what a crash has left of an ingest for the feed.
    pub(super) fn settle_ingests(&self) -> Result<()> {
        let kept = kept_in(&*self.fs, &self.dir)?;
        let Some(last) = kept.last().map(|(table, _)| *table) else { return Ok(()) };
        self.feed.keeps_ingests.store(true, Ordering::Relaxed);
        let ingested = self.versions.lock().ingested_seqno();
        let has_slots = self.has_slots();
        {
            let _files = self.feed.files.lock();
            remove_kept(&*self.fs, &self.dir, |seqno| has_slots && seqno <= ingested);
        }
        if !has_slots || last.seqno > ingested || last.seqno <= self.last_logged_ingest()? {
            return Ok(());
        }
        let is_of_last = |table: &names::KeptTable| table.seqno == last.seqno && !table.is_values;
        let of_last = kept.iter().filter(|(table, _)| is_of_last(table));
        let record = IngestRecord {
            seqno: last.seqno,
            keyspace: last.keyspace,
            tree: last.tree,
            tables: of_last.map(|(table, _)| table.table).collect(),
        };
        let mut writer = self.committer.lock();
        self.log_ingest(&mut writer, &record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_round_trips_and_cut_bytes_are_refused() {
        let record = IngestRecord { seqno: 300, keyspace: 7, tree: 1, tables: vec![12, 1 << 40] };
        let bytes = record.encode();
        assert_eq!(IngestRecord::decode(&bytes), Some(record.clone()));
        for len in 0..bytes.len() {
            assert_eq!(IngestRecord::decode(&bytes[..len]), None, "{len}");
        }
        assert_eq!(IngestRecord::decode(&[&bytes[..], &[0]].concat()), None);
        let path = record.path_of(Path::new("/d"), 12);
        let name = path.file_name().unwrap().to_str().unwrap();
        assert_eq!(name, "ingested-300-7-1-12");
        assert!(names::is_store_file(name));
        let values = record.path_of_values(Path::new("/d"), 13);
        let parsed = names::parse_kept_table(values.file_name().unwrap().to_str().unwrap());
        assert!(parsed.is_some_and(|of| of.is_values && of.table == 13 && of.seqno == 300));
        let parsed = names::parse_kept_table(name).unwrap();
        assert!(!parsed.is_values);
        assert_eq!((parsed.seqno, parsed.keyspace, parsed.tree, parsed.table), (300, 7, 1, 12));
        for foreign in [
            "ingested-300-7-1",
            "ingested-300-7-1-12-",
            "ingested-03-7-1-12",
            "ingested--7-1-12.val",
        ] {
            assert_eq!(names::parse_kept_table(foreign), None, "{foreign}");
        }
    }
}
