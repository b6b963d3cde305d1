//! The writer of a table file outside of a store.
//!
//! Invariants:
//! 1. Keys are strictly ascending. An entry that is refused is not written, and the next one can be.
//! 2. A file that was not finished is not a table, and no ingest accepts it. A writer that is dropped
//!    removes its file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::not_ascending;
use crate::base::checksum::checksum;
use crate::base::expiry::{self, StoreClock};
use crate::base::key::Kind;
use crate::base::merge_operator::NamedOperator;
use crate::base::order::KeyOrder;
use crate::db::table_output::table_options;
use crate::error::{Error, Result};
use crate::fs::{Fs, OsFs, absolute, parent_of, sync_dir};
use crate::metrics::LEVELS;
use crate::options::Options;
use crate::table::{External, TableWriter};
use crate::write::batch::{check_key, check_value};

/// Seed of the identities of tables that are made outside of a store.
const ID_SEED: u64 = 0x736f_7274_6564;

/// Writes a table file outside of a store, for [`Db::ingest`](crate::Db::ingest).
///
/// The writer needs no store: it can run in another process or on another machine, and several can
/// run at the same time. The file has the key order, compression, block size, block layout and filter
/// of the given options. Only the key order must be the one of the store.
///
/// The file is durable when [`SortedWriter::finish`] returns. After a crash before that, no ingest
/// accepts the file. A writer that is dropped without `finish` removes its file.
///
/// ```
/// # fn main() -> esker::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use esker::ingest::SortedWriter;
/// use esker::Options;
/// let mut writer = SortedWriter::create(dir.path().join("fruit.sst"), &Options::default())?;
/// writer.put("apple", "red")?;
/// writer.delete("apricot")?;
/// assert!(writer.put("apple", "green").is_err());
/// let file = writer.finish()?;
/// assert_eq!((file.entries, &file.largest[..]), (2, &b"apricot"[..]));
/// # Ok(())
/// # }
/// ```
pub struct SortedWriter {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    /// `None` after `finish`.
    writer: Option<TableWriter>,
    order: KeyOrder,
    operator: Option<NamedOperator>,
    clock: StoreClock,
    entries: u64,
    last_key: Vec<u8>,
    /// Time and value of a pair that expires.
    timed: Vec<u8>,
}

/// A finished file of a [`SortedWriter`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SortedFile {
    /// Absolute path of the file.
    pub path: PathBuf,
    /// Number of entries.
    pub entries: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Smallest key; empty without entries.
    pub smallest: Vec<u8>,
    /// Largest key; empty without entries.
    pub largest: Vec<u8>,
}

impl SortedWriter {
    /// Creates the file `path`, which must not exist, with mode 0600.
    ///
    /// # Errors
    /// `InvalidArgument` for options out of range; `Io` when the file exists or cannot be created.
    pub fn create(path: impl AsRef<Path>, options: &Options) -> Result<SortedWriter> {
        SortedWriter::create_on(OsFs::shared(), path, options)
    }

    /// Does the same as [`SortedWriter::create`], on the given file system.
    pub fn create_on(
        fs: Arc<dyn Fs>,
        path: impl AsRef<Path>,
        options: &Options,
    ) -> Result<SortedWriter> {
        options.validate()?;
        let path = absolute(&*fs, path.as_ref())?;
        let operator = options.merge_operator.clone().map(NamedOperator::new);
        let mut table = table_options(options, 0, LEVELS - 1);
        table.external = Some(External::default());
        let id = checksum(&fs.unique_number().to_le_bytes(), ID_SEED) | 1;
        let writer = TableWriter::create(&*fs, &path, id, &table)?;
        Ok(SortedWriter {
            fs,
            path,
            writer: Some(writer),
            order: options.key_order.clone(),
            operator,
            clock: StoreClock::new(options.clock.clone()),
            entries: 0,
            last_key: Vec::new(),
            timed: Vec::new(),
        })
    }

    /// Adds a pair. Its key must be after all keys so far.
    ///
    /// # Errors
    /// `InvalidArgument` for a key that is not after the last one; the message names both. Also for a
    /// key of more than 1 MiB or a value of more than 1 GiB. `Io`, `NoSpace`.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        check_value(value.as_ref()).map_err(|error| error.with_path(&self.path))?;
        self.add(key.as_ref(), Kind::Put, value.as_ref())
    }

    /// Adds a pair that expires after `ttl`, from now on by the clock of the options.
    ///
    /// # Errors
    /// As [`SortedWriter::put`].
    pub fn put_with_ttl(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        let Some(ttl_ms) = expiry::ttl_ms(ttl) else { return self.put(key, value) };
        check_value(value.as_ref()).map_err(|error| error.with_path(&self.path))?;
        let time_ms = expiry::time_ms(self.clock.now_ms(), ttl_ms);
        let mut timed = std::mem::take(&mut self.timed);
        timed.clear();
        timed.extend_from_slice(&time_ms.to_be_bytes());
        timed.extend_from_slice(value.as_ref());
        let added = self.add(key.as_ref(), Kind::PutExpiring, &timed);
        self.timed = timed;
        added
    }

    /// Adds a delete: the ingest deletes `key` from the store.
    ///
    /// # Errors
    /// As [`SortedWriter::put`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.add(key.as_ref(), Kind::Delete, &[])
    }

    /// Adds an operand, which the ingest merges into the value of `key`. The keyspace must have the
    /// [merge operator](crate::Options::merge_operator) of the writer's options.
    ///
    /// # Errors
    /// As [`SortedWriter::put`]; `InvalidArgument` when the options have no merge operator, or when it
    /// refuses the operand.
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        let Some(operator) = &self.operator else {
            let message = "the options of this SortedWriter have no merge operator; set \
                           `Options::merge_operator`";
            return Err(Error::invalid(message).with_path(&self.path));
        };
        let checked = check_value(operand.as_ref());
        let checked = checked.and_then(|()| operator.check_operand(operand.as_ref()));
        checked.map_err(|error| error.with_path(&self.path))?;
        if let Some(writer) = &mut self.writer {
            writer.set_external(External { merge_operator: operator.name().to_string() });
        }
        self.add(key.as_ref(), Kind::Merge, operand.as_ref())
    }

    fn add(&mut self, key: &[u8], kind: Kind, value: &[u8]) -> Result<()> {
        let add = |this: &mut SortedWriter| {
            check_key(key)?;
            if this.entries > 0 && this.order.compare(&this.last_key, key).is_ge() {
                return Err(not_ascending(this.order.name(), &this.last_key, key));
            }
            let Some(writer) = &mut this.writer else { return Ok(()) };
            writer.add(key, 0, kind, value)
        };
        add(self).map_err(|error| error.with_path(&self.path))?;
        self.entries += 1;
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        Ok(())
    }

    /// Returns the number of entries so far.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Returns the approximate length of the file in bytes if it were finished now.
    pub fn estimated_bytes(&self) -> u64 {
        self.writer.as_ref().map_or(0, TableWriter::estimated_bytes)
    }

    /// Completes the file and makes it durable, with its name.
    ///
    /// # Errors
    /// `Io`, `NoSpace`. The file is removed then.
    pub fn finish(mut self) -> Result<SortedFile> {
        let finished = match self.writer.take() {
            Some(writer) => writer.finish(),
            None => Err(Error::invalid("the file is finished already").with_path(&self.path)),
        };
        let durable = finished.and_then(|info| {
            sync_dir(&*self.fs, &parent_of(&self.path))?;
            Ok(info)
        });
        let info = durable.inspect_err(|_| drop(self.fs.remove(&self.path)))?;
        Ok(SortedFile {
            path: self.path.clone(),
            entries: info.entries,
            bytes: info.size_bytes,
            smallest: info.smallest,
            largest: info.largest,
        })
    }
}

impl Drop for SortedWriter {
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.abandon();
            let _ = self.fs.remove(&self.path);
        }
    }
}

impl std::fmt::Debug for SortedWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SortedWriter({}, {} entries)", self.path.display(), self.entries)
    }
}
