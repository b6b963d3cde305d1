//! The writer of a value file.
//!
//! Invariants: a file is durable when [`ValueFileWriter::finish`] has returned. Its name is made
//! durable by the caller's sync of the directory. At most [`BUFFER_BYTES`] and one record are held
//! in memory.

use std::path::{Path, PathBuf};

use super::{FOOTER_BYTES, HEADER_BYTES, VERSION, footer, header, lengths, record_checksum};
use crate::base::key::{STORED_KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::base::separated::ValuePointer;
use crate::error::{Error, Result};
use crate::fs::{Fs, WritableFile};

/// Bytes that are collected before they are written.
const BUFFER_BYTES: usize = 256 << 10;

/// Writes a value file.
pub struct ValueFileWriter {
    file: Box<dyn WritableFile>,
    path: PathBuf,
    number: u64,
    id: u64,
    out: Vec<u8>,
    written_bytes: u64,
    records: u64,
}

impl ValueFileWriter {
    /// Creates the file `path` with the number `number` and the random identity `id`.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub fn create(fs: &dyn Fs, path: &Path, number: u64, id: u64) -> Result<ValueFileWriter> {
        ValueFileWriter::create_version(fs, path, (number, id), VERSION)
    }

    /// Creates a file of a version.
    pub(super) fn create_version(
        fs: &dyn Fs,
        path: &Path,
        (number, id): (u64, u64),
        version: u32,
    ) -> Result<ValueFileWriter> {
        let file = fs.create_new(path).map_err(|e| Error::io(path, "create a value file", e))?;
        let out = header(id, version).to_vec();
        debug_assert_eq!(out.len(), HEADER_BYTES);
        let path = path.to_path_buf();
        Ok(ValueFileWriter { file, path, number, id, out, written_bytes: 0, records: 0 })
    }

    /// Returns the number of the file.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the length of the file if it were finished now, in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.offset() + FOOTER_BYTES as u64
    }

    /// Returns the identity of the file.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Returns the offset of what is written next.
    pub(super) fn offset(&self) -> u64 {
        self.written_bytes + self.out.len() as u64
    }

    /// Adds the value of the stored key `key`. Returns the place of its record.
    ///
    /// # Errors
    /// `InvalidArgument` for a key or value that is too long; `Io`, `NoSpace`.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<ValuePointer> {
        if key.len() > STORED_KEY_BYTES_MAX || value.len() > VALUE_BYTES_MAX {
            let message = "the key or the value of a record is too large";
            return Err(Error::invalid(message).with_path(&self.path));
        }
        let (key_bytes, value_bytes) = (key.len() as u32, value.len() as u32);
        let (offset_bytes, lengths) = (self.offset(), lengths(key_bytes, value_bytes));
        let checksum = record_checksum(self.id, offset_bytes, &[&lengths, key, value]);
        self.out.extend_from_slice(&checksum.to_le_bytes());
        self.out.extend_from_slice(&lengths);
        self.out.extend_from_slice(key);
        if value.len() >= BUFFER_BYTES {
            self.write_out()?;
            self.append(value)?;
        } else {
            self.out.extend_from_slice(value);
            if self.out.len() >= BUFFER_BYTES {
                self.write_out()?;
            }
        }
        self.records += 1;
        let (file, is_streamed) = (self.number, false);
        Ok(ValuePointer { file, offset_bytes, key_bytes, value_bytes, checksum, is_streamed })
    }

    /// Adds a part of a streamed record.
    pub(super) fn add_part(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.extend_from_slice(bytes);
        if self.out.len() >= BUFFER_BYTES { self.write_out() } else { Ok(()) }
    }

    /// Counts a record that was added in parts.
    pub(super) fn count_record(&mut self) {
        self.records += 1;
    }

    fn write_out(&mut self) -> Result<()> {
        let out = std::mem::take(&mut self.out);
        self.append(&out)?;
        self.out = out;
        self.out.clear();
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.append(bytes).map_err(|e| Error::io(&self.path, "write a value file", e))?;
        self.written_bytes += bytes.len() as u64;
        Ok(())
    }

    /// Writes the footer and syncs the file. Returns its length in bytes.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub fn finish(mut self) -> Result<u64> {
        let end = footer(self.id, self.offset(), self.records);
        self.out.extend_from_slice(&end);
        self.write_out()?;
        self.file.sync().map_err(|e| Error::io(&self.path, "sync a value file", e))?;
        Ok(self.written_bytes)
    }
}
