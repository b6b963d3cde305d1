//! The reader of a value file.
//!
//! Invariants: every length is checked against the file before memory is taken for it. A record is
//! returned only if its checksum is right, and is the one that its pointer states.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{
    FOOTER_BYTES, FOOTER_MAGIC, HEADER_BYTES, MAGIC, VERSION, VERSION_STREAMED, footer, header,
    record_checksum,
};
use crate::base::checksum::{checksum, location_seed};
use crate::base::coding::{u32_at, u64_at};
use crate::base::key::{STORED_KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::base::separated::{RECORD_HEADER_BYTES, STREAMED, ValueBytes, ValuePointer};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Fs, ReadableFile};

/// What a value file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueFileContent {
    /// Random identity of the file.
    pub id: u64,
    /// Number of records.
    pub records: u64,
    /// Length of the file, in bytes.
    pub size_bytes: u64,
}

/// An open value file.
pub struct ValueFileReader {
    pub(super) file: Arc<dyn ReadableFile>,
    pub(super) path: PathBuf,
    number: u64,
    pub(super) content: ValueFileContent,
    /// Offset behind the last record.
    pub(super) end_bytes: u64,
    /// Whether the file may have streamed records.
    has_streams: bool,
}

impl ValueFileReader {
    /// Opens the value file `path` with the number `number`.
    ///
    /// # Errors
    /// `Corruption` when the header or the footer is not that of a value file, `Incompatible` for a
    /// newer version, `Io`.
    pub fn open(fs: &dyn Fs, path: &Path, number: u64) -> Result<ValueFileReader> {
        let file = fs.open_read(path).map_err(|e| Error::io(path, "open a value file", e))?;
        let bad = |at: u64, what: &str| Error::corruption(path, at, what);
        let failed = |e| Error::io(path, "read a value file", e);
        let size_bytes = file.len_bytes().map_err(failed)?;
        if size_bytes < (HEADER_BYTES + FOOTER_BYTES) as u64 {
            return Err(bad(0, "expected a value file, found fewer bytes than header and footer"));
        }
        let mut head = [0; HEADER_BYTES];
        file.read_exact_at(&mut head, 0).map_err(failed)?;
        if head[..8] != *MAGIC {
            return Err(bad(0, "expected the header of a value file, found other bytes"));
        }
        let version = u32_at(&head, 8);
        let id = u64_at(&head, 16);
        let newest = VERSION_STREAMED;
        if version > newest && u64_at(&head, 24) == checksum(&head[..24], location_seed(id, 0)) {
            let message =
                format!("expected a value file of at most version {newest}, found {version}");
            return Err(Error::new(ErrorKind::Incompatible, message).with_path(path));
        }
        if !(VERSION..=newest).contains(&version) || head != header(id, version) {
            return Err(bad(0, "the header of the value file is damaged"));
        }
        let end_bytes = size_bytes - FOOTER_BYTES as u64;
        let mut tail = [0; FOOTER_BYTES];
        file.read_exact_at(&mut tail, end_bytes).map_err(failed)?;
        let records = u64_at(&tail, 8);
        if tail[24..32] != *FOOTER_MAGIC || tail != footer(id, end_bytes, records) {
            return Err(bad(end_bytes, "the footer of the value file is damaged"));
        }
        let content = ValueFileContent { id, records, size_bytes };
        let (path, has_streams) = (path.to_path_buf(), version == VERSION_STREAMED);
        Ok(ValueFileReader { file, path, number, content, end_bytes, has_streams })
    }

    /// Opens a value file for a repair: one of header and footer suffices. Records are checked when
    /// they are read.
    ///
    /// # Errors
    /// Those of [`ValueFileReader::open`].
    pub fn open_damaged(fs: &dyn Fs, path: &Path, number: u64) -> Result<ValueFileReader> {
        let whole = ValueFileReader::open(fs, path, number);
        let Err(error) = &whole else { return whole };
        if !error.is_corruption() {
            return whole;
        }
        let file = fs.open_read(path).map_err(|e| Error::io(path, "open a value file", e))?;
        let size_bytes = file.len_bytes().map_err(|e| Error::io(path, "read a value file", e))?;
        let (mut head, mut tail) = ([0; HEADER_BYTES], [0; FOOTER_BYTES]);
        let tail_at = size_bytes.saturating_sub(FOOTER_BYTES as u64);
        let has_head = file.read_exact_at(&mut head, 0).is_ok();
        let has_tail = file.read_exact_at(&mut tail, tail_at).is_ok();
        let (id, records) = (u64_at(&tail, 16), u64_at(&tail, 8));
        let (id, end_bytes) = if has_tail && tail == footer(id, tail_at, records) {
            (id, tail_at)
        } else if has_head && head == header(u64_at(&head, 16), u32_at(&head, 8)) {
            (u64_at(&head, 16), size_bytes)
        } else {
            return whole;
        };
        let content = ValueFileContent { id, records: 0, size_bytes };
        // A pointer says whether its record is streamed.
        let (path, has_streams) = (path.to_path_buf(), true);
        Ok(ValueFileReader { file, path, number, content, end_bytes, has_streams })
    }

    /// Returns what the file states of itself.
    pub fn content(&self) -> ValueFileContent {
        self.content
    }

    /// Returns the open file.
    pub fn file(&self) -> &Arc<dyn ReadableFile> {
        &self.file
    }

    /// Returns the number of the file.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns an error for damage at an offset.
    pub(super) fn bad(&self, at: u64, what: impl Into<String>) -> Error {
        Error::corruption(&self.path, at, what)
    }

    /// Reads `bytes` bytes at `at` into memory of their own. The caller has checked that the file
    /// has them.
    fn read_at(&self, at: u64, bytes: usize) -> Result<Arc<[u8]>> {
        let mut record: Arc<[u8]> = std::iter::repeat_n(0, bytes).collect();
        if let Some(place) = Arc::get_mut(&mut record) {
            self.file
                .read_exact_at(place, at)
                .map_err(|e| Error::io(&self.path, "read a value", e))?;
        }
        Ok(record)
    }

    /// Returns the value of the record to which `pointer` points. `key` is the key that the record
    /// must have, if it is known.
    ///
    /// # Errors
    /// `Corruption` when the record is damaged, is another one, or has another key; `Io`.
    pub fn read(&self, key: Option<&[u8]>, pointer: &ValuePointer) -> Result<ValueBytes> {
        let at = pointer.offset_bytes;
        self.check_bounds(pointer)?;
        if pointer.is_streamed {
            return self.read_streamed(key, pointer);
        }
        let record = self.read_at(at, pointer.record_bytes() as usize)?;
        let key_bytes = self.check_record(at, &record)?;
        let start = RECORD_HEADER_BYTES + key_bytes;
        if key_bytes != pointer.key_bytes as usize || u64_at(&record, 0) != pointer.checksum {
            return Err(self.bad(at, "expected the record that the table names, found another"));
        }
        if key.is_some_and(|key| key != &record[RECORD_HEADER_BYTES..start]) {
            return Err(self.bad(at, "expected the value of one key, found that of another"));
        }
        Ok(ValueBytes::new(record, start))
    }

    /// Refuses a pointer to bytes that are not between header and footer, or to a streamed record in a
    /// file that cannot have one.
    pub fn check_bounds(&self, pointer: &ValuePointer) -> Result<()> {
        let at = pointer.offset_bytes;
        let end = at.checked_add(pointer.record_bytes());
        if at < HEADER_BYTES as u64 || end.is_none_or(|end| end > self.end_bytes) {
            let message = format!(
                "a table points to {} bytes here, but the records end at byte {}",
                pointer.record_bytes(),
                self.end_bytes
            );
            return Err(self.bad(at, message));
        }
        if pointer.is_streamed && !self.has_streams {
            return Err(self.bad(at, "a table points to a streamed value in a file without any"));
        }
        Ok(())
    }

    /// Checks the whole record at `at`. Returns the length of its key.
    fn check_record(&self, at: u64, record: &[u8]) -> Result<usize> {
        let (key_bytes, value_bytes) = (u32_at(record, 8) as usize, u32_at(record, 12) as usize);
        let whole = RECORD_HEADER_BYTES + key_bytes + value_bytes == record.len();
        let sum = record_checksum(self.content.id, at, &[&record[8..]]);
        if whole && sum == u64_at(record, 0) {
            return Ok(key_bytes);
        }
        Err(self.bad(at, "the checksum of a value is wrong; the value is damaged"))
    }

    /// Reads every byte of the file and checks it. Calls `pace` with the bytes of each record.
    /// Returns `false` when `pace` stopped the check.
    ///
    /// # Errors
    /// `Corruption` for the first damaged record, `Io`.
    pub fn check(&self, pace: &mut dyn FnMut(u64) -> bool) -> Result<bool> {
        let (mut at, mut records) = (HEADER_BYTES as u64, 0);
        let left = |at: u64| self.end_bytes - at;
        while at < self.end_bytes {
            let mut head = [0; RECORD_HEADER_BYTES];
            if left(at) < RECORD_HEADER_BYTES as u64 {
                return Err(self.bad(at, "expected a record, found fewer bytes than its header"));
            }
            self.file
                .read_exact_at(&mut head, at)
                .map_err(|e| Error::io(&self.path, "read a value", e))?;
            if self.has_streams && u32_at(&head, 8) & STREAMED != 0 {
                let Some(end) = self.check_streamed(at, pace)? else { return Ok(false) };
                (at, records) = (end, records + 1);
                continue;
            }
            let (key_bytes, value_bytes) = (u32_at(&head, 8) as usize, u32_at(&head, 12) as usize);
            let bytes = RECORD_HEADER_BYTES + key_bytes + value_bytes;
            if key_bytes > STORED_KEY_BYTES_MAX
                || value_bytes > VALUE_BYTES_MAX
                || bytes as u64 > left(at)
            {
                return Err(self.bad(at, "the lengths of a record exceed the value file"));
            }
            self.check_record(at, &self.read_at(at, bytes)?)?;
            (at, records) = (at + bytes as u64, records + 1);
            if !pace(bytes as u64) {
                return Ok(false);
            }
        }
        if records != self.content.records {
            let message =
                format!("the footer states {} records, found {records}", self.content.records);
            return Err(self.bad(self.end_bytes, message));
        }
        Ok(true)
    }
}
