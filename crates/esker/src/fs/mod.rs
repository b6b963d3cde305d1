//! Layer 1: the only way to a file. The operating system's ([`os::OsFs`]), one in memory
//! ([`mem::MemFs`]), and, in the testkit, ones that fail.
//!
//! Names are paths; no implementation follows anything but what it is given. What is durable
//! after a crash: file contents up to the last [`WritableFile::sync`], and names up to the last
//! [`Fs::sync_dir`] of their directory.

pub mod fork;
mod guarded;
mod mapped;
pub mod mem;
pub mod os;
pub mod processor;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};

/// A file open for reading at any position, from many threads.
pub trait ReadableFile: Send + Sync {
    /// Fills `buf` from `offset_bytes`; an error of kind `UnexpectedEof` when the file is shorter.
    fn read_exact_at(&self, buf: &mut [u8], offset_bytes: u64) -> io::Result<()>;
    /// The file's length in bytes.
    fn len_bytes(&self) -> io::Result<u64>;
}

/// A file open for writing by one owner.
pub trait WritableFile: Send {
    /// Writes all of `bytes` at the end. On an error any part may have been written.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Writes all of `bytes` at `offset_bytes`, extending the file if needed.
    fn write_at(&mut self, bytes: &[u8], offset_bytes: u64) -> io::Result<()>;
    /// Makes contents and length durable. After an error nothing may be assumed of unsynced bytes.
    fn sync(&mut self) -> io::Result<()>;
    /// Writes `bytes` behind the end, which stays where it is: the next append goes over them. The
    /// file may be longer by them until it is cut. A file system that has no such writes does nothing.
    fn write_behind_end(&mut self, bytes: &[u8]) -> io::Result<()> {
        let _ = bytes;
        Ok(())
    }
    /// Cuts or extends (with zeros) the file; its end is there.
    fn set_len(&mut self, len_bytes: u64) -> io::Result<()>;
    /// Appended bytes that no write call carried: neither they nor zeros in their place.
    fn mapped_bytes(&self) -> u64 {
        0
    }
}

/// An advisory, exclusive lock; released when dropped or when the process dies.
pub trait FileLock: Send + Sync {}

/// What a directory entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// Its name within the directory.
    pub name: String,
    /// Whether it is a regular file.
    pub is_file: bool,
    /// Its length in bytes.
    pub len_bytes: u64,
}

/// A file system.
pub trait Fs: Send + Sync + 'static {
    /// Creates a new file for writing; fails if the name exists. Mode 0600.
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn WritableFile>>;
    /// As [`Fs::create_new`], for many small appends: where it can, the file system takes them
    /// without a system call, and the file may be longer than what was appended, with zeros.
    fn create_mapped(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        self.create_new(path)
    }
    /// Opens an existing file for writing; `append` goes to its end.
    fn open_write(&self, path: &Path) -> io::Result<Box<dyn WritableFile>>;
    /// Opens an existing regular file for reading.
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadableFile>>;
    /// Reads a whole file of at most `len_bytes_max`; a longer one is `InvalidData`.
    fn read(&self, path: &Path, len_bytes_max: u64) -> io::Result<Vec<u8>>;
    /// Renames a file over another, atomically.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Gives a file a second name.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Creates one directory, mode 0700. It is fine if it exists.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// The entries of a directory, sorted by name.
    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Whether anything has this name.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Where a path that exists leads: absolute, without links, `.` and `..`. A file system that
    /// has none of these returns it as it is.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(path.to_path_buf())
    }
    /// Takes the exclusive lock on a file (created if absent); `WouldBlock` when another has it.
    /// The holder's description is written into the file, for the error another opener gets.
    fn lock(&self, path: &Path, holder: &str) -> io::Result<Box<dyn FileLock>>;
    /// A number that no other call gives, for identities; a simulated disk makes it repeatable.
    fn unique_number(&self) -> u64 {
        use std::hash::{BuildHasher, Hasher};
        let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
        hasher.write_u32(std::process::id());
        hasher.finish()
    }
    /// Free bytes on the device that holds `path`, where it can be told.
    fn free_bytes(&self, path: &Path) -> io::Result<Option<u64>>;
}

/// [`Fs::sync_dir`], with the directory in the error.
pub fn sync_dir(fs: &dyn Fs, dir: &Path) -> Result<()> {
    fs.sync_dir(dir).map_err(|e| Error::io(dir, "sync the directory", e))
}

/// The parent of `path`, with `.` for a bare name.
pub fn parent_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}
