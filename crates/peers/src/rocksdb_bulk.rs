//! RocksDB's bulk load: sorted files made by its `SstFileWriter`, which the store ingests.
//!
//! The files are made beside the store's directory, on its file system, and moved into the store.

use std::ffi::{CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use esker_lab::error::{LabError, Result};
use esker_lab::target::{SortedPairs, StoreOptions};

use crate::c_functions::{Bytes, Common, ErrorText, Handle, Owned};
use crate::library::functions;

functions! {
    /// RocksDB's functions for sorted files.
    BulkApi {
        envoptions_create: fn() -> Handle,
        envoptions_destroy: fn(Handle),
        sstfilewriter_create: fn(Handle, Handle) -> Handle,
        sstfilewriter_destroy: fn(Handle),
        sstfilewriter_open: fn(Handle, *const c_char, ErrorText),
        sstfilewriter_put: fn(Handle, Bytes, usize, Bytes, usize, ErrorText),
        sstfilewriter_finish: fn(Handle, ErrorText),
        ingestexternalfileoptions_create: fn() -> Handle,
        ingestexternalfileoptions_destroy: fn(Handle),
        ingestexternalfileoptions_set_move_files: fn(Handle, u8),
        ingest_external_file: fn(Handle, *const *const c_char, usize, Handle, ErrorText),
    }
}

/// Least bytes of keys and values of a file, so that small files of the store's settings do not
/// slow down a load: each file is synced.
const FILE_BYTES_MIN: u64 = 64 << 20;

/// The bulk load of one store.
pub struct BulkLoader {
    api: BulkApi,
    /// Path of a file, without its number.
    file: PathBuf,
    file_bytes: u64,
    next_file: AtomicU64,
}

impl BulkLoader {
    /// Creates the bulk load of the store in `dir`.
    pub fn new(api: BulkApi, dir: &Path, options: &StoreOptions) -> BulkLoader {
        let file_bytes = options.file_max_bytes.max(FILE_BYTES_MIN);
        let next_file = AtomicU64::new(0);
        BulkLoader { api, file: dir.with_extension("ingest"), file_bytes, next_file }
    }

    /// Loads the pairs into the store `db`, which was opened with `options`.
    pub fn load(
        &self,
        (common, engine): (&Common, &str),
        (db, options): (Handle, &Owned),
        pairs: SortedPairs<'_, '_>,
    ) -> Result<()> {
        let api = self.api;
        // SAFETY: a new object.
        let env = unsafe { (api.envoptions_create)() };
        let env = Owned { handle: env, destroy: api.envoptions_destroy };
        // SAFETY: both objects live as long as the writer, which is dropped first.
        let writer = unsafe { (api.sstfilewriter_create)(env.handle, options.handle) };
        let writer = Owned { handle: writer, destroy: api.sstfilewriter_destroy };
        let mut files: Vec<CString> = Vec::new();
        let mut pairs = pairs.peekable();
        while pairs.peek().is_some() {
            files.push(self.next_path()?);
            let (mut error, mut bytes) = (std::ptr::null_mut(), 0);
            let path = files.last().map_or(std::ptr::null(), |path| path.as_ptr());
            // SAFETY: the path lives through the call, and no file is open.
            unsafe { (api.sstfilewriter_open)(writer.handle, path, &raw mut error) };
            common.check(engine, error)?;
            while let Some((key, value)) = pairs.next_if(|_| bytes < self.file_bytes) {
                bytes += (key.len() + value.len()) as u64;
                // SAFETY: key and value live through the call, which copies them.
                unsafe {
                    (api.sstfilewriter_put)(
                        writer.handle,
                        key.as_ptr(),
                        key.len(),
                        value.as_ptr(),
                        value.len(),
                        &raw mut error,
                    );
                }
                common.check(engine, error)?;
            }
            // SAFETY: a file is open.
            unsafe { (api.sstfilewriter_finish)(writer.handle, &raw mut error) };
            common.check(engine, error)?;
        }
        drop(writer);
        if files.is_empty() { Ok(()) } else { self.ingest((common, engine), db, &files) }
    }

    /// Returns the path of a file that does not exist yet.
    fn next_path(&self) -> Result<CString> {
        let number = self.next_file.fetch_add(1, Ordering::Relaxed);
        let path = self.file.with_extension(format!("ingest-{number}.sst"));
        // A file can be left by a run that was killed.
        let _ = std::fs::remove_file(&path);
        CString::new(path.as_os_str().as_bytes())
            .map_err(|_| LabError::engine("the path holds a zero byte"))
    }

    fn ingest(
        &self,
        (common, engine): (&Common, &str),
        db: Handle,
        files: &[CString],
    ) -> Result<()> {
        let api = self.api;
        // SAFETY: a new object, configured before any other use.
        let options = unsafe {
            let handle = (api.ingestexternalfileoptions_create)();
            (api.ingestexternalfileoptions_set_move_files)(handle, 1);
            Owned { handle, destroy: api.ingestexternalfileoptions_destroy }
        };
        let paths: Vec<*const c_char> = files.iter().map(|path| path.as_ptr()).collect();
        let mut error = std::ptr::null_mut();
        // SAFETY: store, options and paths live through the call.
        unsafe {
            let (paths, count) = (paths.as_ptr(), paths.len());
            (api.ingest_external_file)(db, paths, count, options.handle, &raw mut error);
        }
        common.check(engine, error)
    }
}
