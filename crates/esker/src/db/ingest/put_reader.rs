//! Puts of values that come from a reader, and gets that return one.
//!
//! A long value is written to a value file of its own while it is read. Then a table with its one entry,
//! a pointer to that file, is installed as an ingest of one table: so a streamed value is never in the
//! log or in a memtable, and everything that knows tables and value files knows it, too
//! (`docs/decisions/0058-streamed-values.md`).
//!
//! Invariants:
//! 1. No lock is held while the reader is read.
//! 2. The value file and the table are durable before the manifest names them. Until then an error, a
//!    panic of the reader or the next opening removes both.
//! 3. Memory holds the first bytes, up to the length of an ordinary put, and after them one piece and
//!    one buffer of the file.

use std::io::{ErrorKind as IoErrorKind, Read};
use std::path::PathBuf;

use super::bulk_load::TableLoader;
use super::install::Refused;
use super::{Db, Destination, Keyspace};
use crate::base::format_version::FormatFeature;
use crate::base::key::Kind;
use crate::base::keyspace::StoredKey;
use crate::db::state::DbInner;
use crate::error::{Error, Result};
use crate::read::value_reader::ValueReader;
use crate::table::External;
use crate::tree::names;
use crate::values::{StreamedValueWriter, ValueFileReader};
use crate::write::batch::check_key;

/// Bytes that are asked of the reader at once.
const READ_BYTES: usize = 64 << 10;

/// A value file that is removed unless the manifest may name it.
struct NewValueFile<'a> {
    inner: &'a DbInner,
    path: PathBuf,
    is_kept: bool,
}

impl Drop for NewValueFile<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = self.inner.fs.remove(&self.path);
        }
    }
}

impl Destination<'_> {
    /// Returns the first bytes of a value, and whether they are the whole value: it is not longer than
    /// an ordinary put may be.
    fn read_first(&self, reader: &mut dyn Read) -> Result<(Vec<u8>, bool)> {
        let most = self.inner.options.load().thresholds.streamed_put_bytes_max;
        let mut first = Vec::new();
        let read = reader.take(most as u64 + 1).read_to_end(&mut first);
        read.map_err(|error| self.failed_reader(error))?;
        let is_whole = first.len() <= most;
        Ok((first, is_whole))
    }

    /// Puts the value that `reader` returns: a short one with `put`. Returns its length.
    fn put_from(
        &self,
        key: &[u8],
        reader: &mut dyn Read,
        put: impl FnOnce(&[u8]) -> Result<()>,
    ) -> Result<u64> {
        match self.read_first(reader)? {
            (value, true) => put(&value).map(|()| value.len() as u64),
            (first, false) => self.stream(key, first, reader),
        }
    }

    fn failed_reader(&self, error: std::io::Error) -> Error {
        Error::io(&self.inner.dir, "read the value from its reader; nothing was written", error)
    }

    /// Writes the value that begins with `first` and continues with `reader` to a value file, and
    /// installs a table that points to it. Returns the length of the value.
    fn stream(&self, key: &[u8], first: Vec<u8>, reader: &mut dyn Read) -> Result<u64> {
        self.inner.require_format(FormatFeature::StreamedValues)?;
        let mut config = self.output_config(External::default());
        let (number, id) = ((config.next_number)(), (config.next_table_id)());
        let path = names::value_path(&self.inner.dir, number);
        let mut file = NewValueFile { inner: self.inner, path, is_kept: false };
        let stored = self.own.map(|own| StoredKey::new(own.state.id, key));
        let stored = stored.as_ref().map_or(key, StoredKey::as_slice);
        let fs = &*self.inner.fs;
        let mut writer = StreamedValueWriter::create(fs, &file.path, (number, id), stored)?;
        writer.write(&first)?;
        drop(first);
        let mut bytes = vec![0; READ_BYTES];
        loop {
            match reader.read(&mut bytes) {
                Ok(0) => break,
                Ok(read) => writer.write(bytes.get(..read).ok_or_else(too_many)?)?,
                Err(error) if error.kind() == IoErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed_reader(error)),
            }
        }
        drop(bytes);
        let (pointer, file_bytes) = writer.finish()?;
        if config.verify {
            ValueFileReader::open(fs, &file.path, number)?.check(&mut |_| true)?;
        }
        let mut encoded = Vec::new();
        pointer.encode(&mut encoded);
        let mut loader = TableLoader::new(self, External::default());
        loader.add_entry(key, Kind::PutSeparated, &encoded)?;
        let mut files = loader.finish()?;
        files.iter_mut().for_each(|table| table.value_bytes = file_bytes);
        let installed = self.try_install(&self.tree(), files);
        file.is_kept = match &installed {
            Ok(_) => true,
            Err(Refused { is_unchanged, .. }) => !is_unchanged,
        };
        drop(file);
        self.inner.deliver_events();
        installed.map_err(|refused| refused.error)?;
        Ok(u64::from(pointer.value_bytes))
    }
}

/// Returns the error for a reader that states more bytes than it was given room for.
fn too_many() -> Error {
    Error::invalid("the reader of the value states more bytes than it was asked for")
}

impl Db {
    /// Sets `key` to the value that `reader` returns until its end, of at most 1 GiB. Returns the length
    /// of the value in bytes.
    ///
    /// The call needs less than 2 MiB of memory for the value, whatever its length. A value of up to
    /// 512 KiB is read as a whole and written as by [`Db::put`]. A longer one is written to a value file
    /// of its own while it is read, whatever `value_separation_min_bytes` is, and becomes visible at once
    /// when `reader` ends. Other writers do not wait for `reader`. At the end they wait as for a
    /// [`Db::bulk_load`]: the call flushes what was written before, and takes its place in the order of
    /// writes then.
    ///
    /// When the call returns, a value of more than 512 KiB and all earlier writes are durable. A crash
    /// during the call leaves the old value of the key, and the next opening removes the file.
    ///
    /// [`Db::get_reader`] reads the value in bounded memory. [`Db::get`] and iterators work, too; they
    /// allocate the value. So do merges, compaction filters and the change feed.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use std::io::Read;
    /// let db = esker::Db::open(dir.path().join("db"), esker::Options::default())?;
    /// let film = std::io::repeat(7).take(3 << 20);
    /// assert_eq!(db.put_reader("film", film)?, 3 << 20);
    /// assert_eq!(db.get("film")?.unwrap().len(), 3 << 20);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Nothing is changed after an error, except as [`Db::ingest`] says.
    /// * `Io`: `reader` failed. The error of the reader is the source.
    /// * `InvalidArgument`: the key is longer than 1 MiB or the value longer than 1 GiB.
    /// * `Incompatible`: the value is longer than 512 KiB, and the store has format version 1
    ///   ([`Db::upgrade_format`]).
    /// * `NoSpace`, `Io`, `ReadOnly`, `Closed`: as for [`Db::put`].
    pub fn put_reader(&self, key: impl AsRef<[u8]>, mut reader: impl Read) -> Result<u64> {
        let (key, reader): (_, &mut dyn Read) = (key.as_ref(), &mut reader);
        check_key(key)?;
        let destination = Destination::main(self)?;
        destination.put_from(key, reader, |value| self.put(key, value))
    }

    /// Returns a reader of the value of `key`, or `None` when the key does not exist.
    ///
    /// The reader returns the value as it is now, whatever is written later. Of a value that
    /// [`Db::put_reader`] has streamed it holds 64 KiB in memory, and checks each piece of that length
    /// when it reads it. Other values are in memory as a whole, as after [`Db::get`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use std::io::{Read, Seek, SeekFrom};
    /// let db = esker::Db::open(dir.path().join("db"), esker::Options::default())?;
    /// db.put_reader("film", std::io::repeat(7).take(3 << 20))?;
    /// let mut film = db.get_reader("film")?.unwrap();
    /// assert_eq!(film.len_bytes(), 3 << 20);
    /// film.seek(SeekFrom::End(-2))?;
    /// let mut end = Vec::new();
    /// film.read_to_end(&mut end)?;
    /// assert_eq!(end, [7, 7]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Db::get`]. Damage of a piece is an error of the read that meets it.
    pub fn get_reader(&self, key: impl AsRef<[u8]>) -> Result<Option<ValueReader>> {
        self.inner.reader_at(None, key.as_ref())
    }
}

impl Keyspace {
    /// Does the same as [`Db::put_reader`], in this keyspace.
    ///
    /// # Errors
    /// As [`Db::put_reader`]; `NotFound` when the keyspace was dropped; `InvalidArgument` when the
    /// keyspace has a [time to live](crate::KeyspaceOptions::ttl): value files have no pairs that expire.
    pub fn put_reader(&self, key: impl AsRef<[u8]>, mut reader: impl Read) -> Result<u64> {
        let (key, reader): (_, &mut dyn Read) = (key.as_ref(), &mut reader);
        check_key(key)?;
        let destination = Destination::of(self)?;
        if destination.rules().ttl_ms.is_some() {
            return Err(Error::invalid(format!(
                "the keyspace \"{}\" has the option ttl_ms, and a value from a reader cannot expire; \
                 use `put`, or a keyspace without ttl_ms",
                destination.name()
            )));
        }
        destination.put_from(key, reader, |value| self.put(key, value))
    }

    /// Returns a reader of the value of `key`. See [`Db::get_reader`].
    ///
    /// # Errors
    /// As [`Db::get_reader`]; `NotFound` when the keyspace was dropped.
    pub fn get_reader(&self, key: impl AsRef<[u8]>) -> Result<Option<ValueReader>> {
        let Some(own) = self.own()? else { return self.db.get_reader(key) };
        let key = own.key(key.as_ref());
        self.db.inner.reader_at(Some(own.in_keyspace()), key.as_slice())
    }
}
