//! The value files of an open store.
//!
//! A table holds the value files with its values. The references are in the description of the
//! table, so the manifest states no more of a value file than its tables do.
//!
//! Invariants:
//! 1. A value file is obsolete once the last table of the current version that has values in it is
//!    obsolete. It is removed when the last reader of such a table is gone.
//! 2. No table begins to reference a value file that no current table references: an output takes
//!    pointers only from its inputs, which stay current until it is installed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};

use super::names;
use super::purge::Purger;
use crate::base::separated::{ReadValues, ValueBytes, ValuePointer};
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::error::{Error, Result};
use crate::fs::Fs;
use crate::table::OpenPermit;
use crate::values::ValueFileReader;

/// Where the value files of a store are, and how many stay open.
struct Place {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    purger: Option<Arc<Purger>>,
    kept_open: Arc<AtomicU64>,
    open_files_max: AtomicU64,
}

/// A value file that tables reference.
pub struct ValueFile {
    number: u64,
    place: Arc<Place>,
    /// The open file, if it stays open.
    reader: OnceLock<(Arc<ValueFileReader>, OpenPermit)>,
    size_bytes: OnceLock<u64>,
    /// Number of tables that hold the file and are not obsolete.
    tables: AtomicU64,
    obsolete: AtomicBool,
    /// Whether a read met damage since the opening.
    damaged: AtomicBool,
}

impl ValueFile {
    /// Returns the number of the file.
    pub fn number(&self) -> u64 {
        self.number
    }

    fn path(&self) -> PathBuf {
        names::value_path(&self.place.dir, self.number)
    }

    /// Returns the open file. It stays open if few enough files do.
    ///
    /// # Errors
    /// `Corruption` when the file is missing or damaged, `Incompatible`, `Io`.
    pub fn reader(&self) -> Result<Arc<ValueFileReader>> {
        if let Some((reader, _)) = self.reader.get() {
            return Ok(reader.clone());
        }
        let reader = ValueFileReader::open(&*self.place.fs, &self.path(), self.number)
            .map_err(|e| e.missing_as_corruption("a table"))?;
        let reader = Arc::new(reader);
        let most = self.place.open_files_max.load(Ordering::Relaxed);
        let more = |kept| (kept < most).then_some(kept + 1);
        let counted = self.place.kept_open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        if counted.is_ok() {
            let permit = OpenPermit::new(&self.place.kept_open);
            let _ = self.reader.set((reader.clone(), permit));
        }
        Ok(reader)
    }

    /// Returns the length of the file in bytes.
    ///
    /// # Errors
    /// Those of [`ValueFile::reader`].
    pub fn size_bytes(&self) -> Result<u64> {
        if let Some(bytes) = self.size_bytes.get() {
            return Ok(*bytes);
        }
        let bytes = self.reader()?.content().size_bytes;
        Ok(*self.size_bytes.get_or_init(|| bytes))
    }

    /// Returns whether a read met damage since the opening. No values are moved out of such a file.
    pub fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    fn read(&self, key: Option<&[u8]>, pointer: &ValuePointer) -> Result<ValueBytes> {
        let read = self.reader().and_then(|reader| reader.read(key, pointer));
        if read.as_ref().is_err_and(Error::is_corruption) {
            self.damaged.store(true, Ordering::Relaxed);
        }
        read
    }

    /// Reads piece `number` of a streamed value into `out`.
    fn read_piece(
        &self,
        reader: &ValueFileReader,
        pointer: &ValuePointer,
        number: u64,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let read = reader.read_piece(pointer, number, out);
        if read.as_ref().is_err_and(Error::is_corruption) {
            self.damaged.store(true, Ordering::Relaxed);
        }
        read
    }

    /// Takes back the hold of one table. `is_obsolete` says that no version needs the table.
    pub(super) fn release_table(&self, is_obsolete: bool) {
        let before = self.tables.fetch_sub(1, Ordering::AcqRel);
        if is_obsolete && before == 1 {
            self.obsolete.store(true, Ordering::Release);
        }
    }
}

impl Drop for ValueFile {
    fn drop(&mut self) {
        if self.obsolete.load(Ordering::Acquire)
            && let Some(purger) = &self.place.purger
        {
            let open: Option<Box<dyn Send>> =
                self.reader.take().map(|open| Box::new(open) as Box<dyn Send>);
            purger.remove_value_file(self.number, open);
        }
    }
}

impl std::fmt::Debug for ValueFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "value file {}", self.number)
    }
}

/// A streamed value, whose pieces are read one by one. Holds its file open.
pub struct StreamedValue {
    file: Arc<ValueFile>,
    reader: Arc<ValueFileReader>,
    pointer: ValuePointer,
}

impl StreamedValue {
    /// Returns the length of the value, in bytes.
    pub fn len_bytes(&self) -> u64 {
        u64::from(self.pointer.value_bytes)
    }

    /// Replaces the content of `out` by piece `number` of the value.
    ///
    /// # Errors
    /// `Corruption` when the piece is damaged, `Io`. `out` is empty then.
    pub fn read_piece(&self, number: u64, out: &mut Vec<u8>) -> Result<()> {
        self.file.read_piece(&self.reader, &self.pointer, number, out)
    }
}

/// The value files of a store, by number.
pub struct ValueFiles {
    place: Arc<Place>,
    files: Mutex<HashMap<u64, Weak<ValueFile>>>,
    /// Whether a table ever had a separated value.
    used: AtomicBool,
}

impl ValueFiles {
    /// Creates the list of the store in `dir`. Without a purger no file is removed.
    pub fn new(fs: Arc<dyn Fs>, dir: &Path, purger: Option<Arc<Purger>>) -> ValueFiles {
        let (kept_open, open_files_max) = (Arc::default(), AtomicU64::new(u64::MAX));
        let place = Place { fs, dir: dir.to_path_buf(), purger, kept_open, open_files_max };
        ValueFiles { place: Arc::new(place), files: Mutex::default(), used: AtomicBool::new(false) }
    }

    /// Limits the number of value files that stay open between reads.
    pub fn limit_open(&self, open_files_max: u64) {
        self.place.open_files_max.store(open_files_max, Ordering::Relaxed);
    }

    /// Returns whether a table of the store has, or had, separated values.
    #[inline]
    pub fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns the file for a table that holds it from now on.
    pub fn take(&self, number: u64) -> Arc<ValueFile> {
        self.used.store(true, Ordering::Relaxed);
        let mut files = self.files.lock();
        if files.len() == files.capacity() {
            files.retain(|_, file| file.strong_count() > 0);
        }
        let known = files.get(&number).and_then(Weak::upgrade);
        let file = known.unwrap_or_else(|| {
            let file = Arc::new(ValueFile {
                number,
                place: self.place.clone(),
                reader: OnceLock::new(),
                size_bytes: OnceLock::new(),
                tables: AtomicU64::new(0),
                obsolete: AtomicBool::new(false),
                damaged: AtomicBool::new(false),
            });
            files.insert(number, Arc::downgrade(&file));
            file
        });
        file.tables.fetch_add(1, Ordering::AcqRel);
        file
    }

    /// Returns the file, if a table holds it.
    pub fn get(&self, number: u64) -> Option<Arc<ValueFile>> {
        self.files.lock().get(&number).and_then(Weak::upgrade)
    }

    /// Opens the streamed value to which an encoded pointer points. Returns `None` if the value is not
    /// streamed. `key` is that of [`ReadValues::read_value`].
    ///
    /// # Errors
    /// As [`ReadValues::read_value`].
    pub fn open_streamed(
        &self,
        key: Option<&[u8]>,
        pointer: &[u8],
    ) -> Result<Option<StreamedValue>> {
        let (file, pointer) = self.locate(pointer)?;
        if !pointer.is_streamed {
            return Ok(None);
        }
        let opened = file.reader().and_then(|reader| {
            reader.check_bounds(&pointer)?;
            reader.check_head(key, &pointer)?;
            Ok(reader)
        });
        if opened.as_ref().is_err_and(Error::is_corruption) {
            file.damaged.store(true, Ordering::Relaxed);
        }
        Ok(Some(StreamedValue { reader: opened?, file, pointer }))
    }

    /// Returns the file to which an encoded pointer points, and the pointer.
    fn locate(&self, pointer: &[u8]) -> Result<(Arc<ValueFile>, ValuePointer)> {
        let Some(pointer) = ValuePointer::decode(pointer) else {
            let message = "an entry's pointer to its value is malformed";
            return Err(Error::corruption(&self.place.dir, 0, message));
        };
        let Some(file) = self.get(pointer.file) else {
            let path = names::value_path(&self.place.dir, pointer.file);
            let message = "an entry points to this value file, but its table does not name it";
            return Err(Error::corruption(&path, pointer.offset_bytes, message));
        };
        Ok((file, pointer))
    }
}

impl ReadValues for ValueFiles {
    fn read_value(&self, key: Option<&[u8]>, pointer: &[u8]) -> Result<ValueBytes> {
        let (file, pointer) = self.locate(pointer)?;
        file.read(key, &pointer)
    }
}
