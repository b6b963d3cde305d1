//! A file system in memory with the functions that a table needs.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::locks::{Mutex, RwLock};
use crate::fs::{DirEntry, FileLock, Fs, ReadableFile, WritableFile};

type Bytes = Arc<RwLock<Vec<u8>>>;

/// The files by path.
#[derive(Default)]
pub(super) struct Files(Mutex<BTreeMap<PathBuf, Bytes>>);

impl Files {
    /// Stores a file and replaces an existing one.
    pub(super) fn put(&self, path: &Path, bytes: Vec<u8>) {
        self.0.lock().insert(path.to_path_buf(), Arc::new(RwLock::new(bytes)));
    }

    /// Returns a file's bytes.
    pub(super) fn bytes(&self, path: &Path) -> Vec<u8> {
        self.0.lock().get(path).map(|bytes| bytes.read().clone()).unwrap_or_default()
    }
}

struct Open(Bytes);

impl ReadableFile for Open {
    fn read_exact_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        let bytes = self.0.read();
        let found = bytes.get(offset_bytes as usize..).and_then(|rest| rest.get(..buf.len()));
        buf.copy_from_slice(found.ok_or(Error::from(ErrorKind::UnexpectedEof))?);
        Ok(())
    }

    fn len_bytes(&self) -> Result<u64> {
        Ok(self.0.read().len() as u64)
    }
}

impl WritableFile for Open {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.write().extend_from_slice(bytes);
        Ok(())
    }

    fn write_at(&mut self, _: &[u8], _: u64) -> Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn set_len(&mut self, _: u64) -> Result<()> {
        Err(ErrorKind::Unsupported.into())
    }
}

impl Fs for Files {
    fn create_new(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let mut files = self.0.lock();
        if files.contains_key(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let bytes = Bytes::default();
        files.insert(path.to_path_buf(), Arc::clone(&bytes));
        Ok(Box::new(Open(bytes)))
    }

    fn open_read(&self, path: &Path) -> Result<Arc<dyn ReadableFile>> {
        let files = self.0.lock();
        let bytes = files.get(path).ok_or(Error::from(ErrorKind::NotFound))?;
        Ok(Arc::new(Open(Arc::clone(bytes))))
    }

    fn open_write(&self, _: &Path) -> Result<Box<dyn WritableFile>> {
        Err(ErrorKind::Unsupported.into())
    }

    fn read(&self, _: &Path, _: u64) -> Result<Vec<u8>> {
        Err(ErrorKind::Unsupported.into())
    }

    fn rename(&self, _: &Path, _: &Path) -> Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn remove(&self, _: &Path) -> Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn hard_link(&self, _: &Path, _: &Path) -> Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn create_dir(&self, _: &Path) -> Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn remove_dir(&self, _: &Path) -> Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn list(&self, _: &Path) -> Result<Vec<DirEntry>> {
        Err(ErrorKind::Unsupported.into())
    }

    fn sync_dir(&self, _: &Path) -> Result<()> {
        Ok(())
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        Ok(self.0.lock().contains_key(path))
    }

    fn lock(&self, _: &Path, _: &str) -> Result<Box<dyn FileLock>> {
        Err(ErrorKind::Unsupported.into())
    }

    fn free_bytes(&self, _: &Path) -> Result<Option<u64>> {
        Ok(None)
    }
}
