//! The pairs of an ingest as batches of the feed, read from its kept tables.
//!
//! Invariants: the parts have the entries of the ingest in key order, each once. Memory holds one part
//! and one open table. A part has a streamed value as a whole, read from its kept value file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::change::{ChangeBatch, plain_change};
use super::kept_tables::IngestRecord;
use crate::base::key::Kind;
use crate::base::keyspace::PREFIX_BYTES;
use crate::base::separated::{ValueBytes, ValuePointer};
use crate::db::state::DbInner;
use crate::error::{Error, Result};
use crate::table::{ReadConfig, Table, TableSource};
use crate::values::ValueFileReader;

/// Bytes of keys and values after which a part ends, at the end of a block.
const PART_BYTES: usize = 1 << 20;

/// The rest of an ingest.
pub(super) struct IngestParts {
    /// The batch without its changes.
    pub head: ChangeBatch,
    keyspace: Arc<str>,
    record: IngestRecord,
    dir: PathBuf,
    config: ReadConfig,
    /// The place of the next block.
    table_at: usize,
    block: usize,
    open: Option<Arc<Table>>,
}

impl IngestParts {
    /// Begins with the first table.
    pub fn new(
        inner: &DbInner,
        keyspace: Arc<str>,
        record: IngestRecord,
        head: ChangeBatch,
    ) -> Result<IngestParts> {
        let trees = inner.trees();
        let tree = trees.get(record.tree as usize).ok_or_else(|| {
            let message = format!(
                "the feed has an ingest into the keyspace \"{keyspace}\", which was created after \
                 this handle was opened; open the store again"
            );
            Error::not_found(message).with_path(&inner.dir)
        })?;
        let config = ReadConfig { keep_open: true, ..tree.tables.config().of_other_file() };
        let dir = inner.dir.clone();
        let (table_at, block, open) = (0, 0, None);
        let mut parts = IngestParts { head, keyspace, record, dir, config, table_at, block, open };
        parts.settle(inner)?;
        Ok(parts)
    }

    /// Opens the table of the next block. Moves over the ends of tables.
    fn settle(&mut self, inner: &DbInner) -> Result<()> {
        while let Some(number) = self.record.tables.get(self.table_at).copied() {
            let table = match &self.open {
                Some(table) => table,
                None => {
                    let table = self.open_table(inner, number)?;
                    self.open.insert(Arc::new(table))
                }
            };
            if self.block < table.block_count() {
                return Ok(());
            }
            (self.table_at, self.block, self.open) = (self.table_at + 1, 0, None);
        }
        Ok(())
    }

    fn open_table(&self, inner: &DbInner, number: u64) -> Result<Table> {
        let path = self.record.path_of(&self.dir, number);
        let opened = Table::identify(&*inner.fs, &path).and_then(|identity| {
            let source = TableSource {
                fs: inner.fs.clone(),
                path: path.clone(),
                file_number: number,
                table_id: identity.table_id,
                size_bytes: identity.size_bytes,
                ingested: Some(self.record.seqno),
            };
            Table::open(source, &self.config)
        });
        opened.map_err(|error| self.if_kept(error, &path))
    }

    /// Replaces the error for a file that is missing.
    fn if_kept(&self, error: Error, path: &Path) -> Error {
        if !error.is_missing_file() {
            return error;
        }
        let message = format!(
            "the tables of the ingest with sequence number {} are not kept any more; bootstrap again \
             from `snapshot_with_position`",
            self.record.seqno
        );
        Error::not_found(message).with_path(path)
    }

    /// Returns the value of the stored key `key`, which the table keeps in a value file.
    fn read_value(&self, inner: &DbInner, key: &[u8], stored: &[u8]) -> Result<ValueBytes> {
        let Some(pointer) = ValuePointer::decode(stored) else {
            let message = "an entry's pointer to its value is malformed";
            return Err(Error::corruption(&self.dir, 0, message));
        };
        let path = self.record.path_of_values(&self.dir, pointer.file);
        let opened = ValueFileReader::open(&*inner.fs, &path, pointer.file);
        opened.map_err(|error| self.if_kept(error, &path))?.read(Some(key), &pointer)
    }

    /// Returns the next part. After an error the same part comes again.
    pub fn next(&mut self, inner: &DbInner) -> Result<ChangeBatch> {
        let (mut changes, mut bytes) = (Vec::new(), 0);
        let begin = (self.table_at, self.block, self.open.clone());
        let prefix_bytes = if self.record.tree == 0 { 0 } else { PREFIX_BYTES };
        let read = loop {
            let Some(table) = self.open.clone().filter(|_| bytes < PART_BYTES) else {
                break Ok(());
            };
            let mut values = Ok(());
            let visited = table.visit_block(self.block, &mut |stored_key, _, kind, stored| {
                let separated = (kind == Kind::PutSeparated && values.is_ok())
                    .then(|| self.read_value(inner, stored_key, stored));
                let value = match &separated {
                    None => stored,
                    Some(Ok(value)) => value,
                    Some(Err(error)) => return values = Err(error.clone()),
                };
                let key = stored_key.get(prefix_bytes..).unwrap_or_default();
                bytes += key.len() + value.len();
                changes.push(plain_change(kind, self.keyspace.clone(), key, value));
            });
            self.block += 1;
            if let Err(error) = visited.and(values).and_then(|()| self.settle(inner)) {
                break Err(error);
            }
        };
        if let Err(error) = read {
            (self.table_at, self.block, self.open) = begin;
            return Err(error);
        }
        let continues = self.open.is_some();
        let batch = ChangeBatch { changes, continues, ..self.head.clone() };
        self.head.part += 1;
        Ok(batch)
    }
}
