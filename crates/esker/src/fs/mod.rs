//! Layer 1: the file system interface, through which all file access goes. Implementations: the
//! operating system's file system ([`OsFs`]), one in memory ([`MemFs`]), and, in the
//! testkit, failing ones. [`OsFs`] has two implementations: `os` for Linux, and `portable`, which
//! uses only the standard library, for other systems and for `--cfg esker_portable`.
//!
//! Names are paths. No implementation accesses any path other than the given one. A store holds its
//! directory open and looks up its names in that directory ([`Fs::pinned`]), so that a rename of
//! the directory, or a new directory under the old path, does not redirect the store.
//!
//! Durable after a crash: file contents up to the last [`WritableFile::sync`], and names up to the
//! last [`Fs::sync_dir`] of their directory. A crash may lose later changes.

#[cfg(all(target_os = "linux", not(esker_portable)))]
mod direct;
#[cfg(feature = "encryption")]
pub(crate) mod encrypted;
#[cfg(all(target_os = "linux", not(esker_portable)))]
pub(crate) mod fork;
#[cfg(all(target_os = "linux", not(esker_portable)))]
mod guarded;
#[cfg(all(target_os = "linux", not(esker_portable)))]
mod mapped;
mod mem;
#[cfg(all(target_os = "linux", not(esker_portable)))]
pub(crate) mod memory;
#[cfg(all(target_os = "linux", not(esker_portable)))]
mod os;
#[cfg(all(target_os = "linux", not(esker_portable)))]
mod pin;
#[cfg(not(all(target_os = "linux", not(esker_portable))))]
mod portable;
#[cfg(all(target_os = "linux", not(esker_portable)))]
pub(crate) mod processor;

pub use mem::MemFs;
#[cfg(all(target_os = "linux", not(esker_portable)))]
pub use os::OsFs;
#[cfg(not(all(target_os = "linux", not(esker_portable))))]
pub use portable::OsFs;
#[cfg(not(all(target_os = "linux", not(esker_portable))))]
pub(crate) use portable::{fork, memory, processor};

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};

/// The wrapped data keys of an encrypted directory.
pub(crate) const KEYS: &str = "KEYS";
/// Temporary name of [`KEYS`] before its rename.
pub(crate) const KEYS_NEW: &str = "KEYS.new";

/// A file open for positional reads. It may be read by many threads concurrently.
pub trait ReadableFile: Send + Sync {
    /// Fills `buf` with the bytes at `offset_bytes`.
    ///
    /// # Errors
    /// `UnexpectedEof` when the file is shorter; any read error.
    fn read_exact_at(&self, buf: &mut [u8], offset_bytes: u64) -> io::Result<()>;
    /// Returns the file's length, in bytes.
    fn len_bytes(&self) -> io::Result<u64>;
}

/// A file open for writing, with one owner.
pub trait WritableFile: Send {
    /// Writes all of `bytes` at the end. After an error, any part of them may have been written.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Writes all of `bytes` at `offset_bytes`. Extends the file if needed.
    fn write_at(&mut self, bytes: &[u8], offset_bytes: u64) -> io::Result<()>;
    /// Makes the contents and the length durable. After an error, the state of all unsynced bytes
    /// is undefined.
    fn sync(&mut self) -> io::Result<()>;
    /// Writes `bytes` behind the end without moving the end: the next append overwrites them. The
    /// file may be longer by `bytes` until it is truncated. The default, for file systems without
    /// such writes, does nothing.
    #[doc(hidden)]
    fn write_behind_end(&mut self, bytes: &[u8]) -> io::Result<()> {
        let _ = bytes;
        Ok(())
    }
    /// Truncates the file, or extends it with zeros. The next append goes to the new end.
    fn set_len(&mut self, len_bytes: u64) -> io::Result<()>;
    /// Returns the number of appended bytes that were written only through a memory map: neither
    /// they nor zeros in their place were passed to a write call.
    #[doc(hidden)]
    fn mapped_bytes(&self) -> u64 {
        0
    }
    /// Removes the synced content from the cache of the system, if it has one. The default does
    /// nothing.
    #[doc(hidden)]
    fn forget_cached(&mut self) {}
}

/// An advisory, exclusive lock. Released when dropped or when the process exits.
pub trait FileLock: Send + Sync {}

/// A directory entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// Name within the directory.
    pub name: String,
    /// Whether the entry is a regular file.
    pub is_file: bool,
    /// Length, in bytes.
    pub len_bytes: u64,
}

/// A file system.
pub trait Fs: Send + Sync + 'static {
    /// Creates a new file for writing, with mode 0600. Fails if the name exists.
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn WritableFile>>;
    /// As [`Fs::create_new`], for many small appends. If possible, the file system performs them
    /// without a system call. The file may then be longer than the appended bytes, padded with
    /// zeros.
    fn create_mapped(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        self.create_new(path)
    }
    /// Opens an existing file for writing. Appends go to its end.
    fn open_write(&self, path: &Path) -> io::Result<Box<dyn WritableFile>>;
    /// Opens an existing regular file for reading.
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadableFile>>;
    /// As [`Fs::open_read`], past the cache of the system, if it has one. The default does the same as
    /// `open_read`.
    #[doc(hidden)]
    fn open_read_direct(&self, path: &Path) -> io::Result<Arc<dyn ReadableFile>> {
        self.open_read(path)
    }
    /// Reads a whole file of at most `len_bytes_max`. A longer file is an error of kind
    /// `InvalidData`.
    fn read(&self, path: &Path, len_bytes_max: u64) -> io::Result<Vec<u8>>;
    /// Renames a file atomically. Replaces an existing file `to`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Creates a hard link `to` to the file `from`.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Creates one directory, with mode 0700. Succeeds if the directory exists.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Returns the entries of a directory, sorted by name.
    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Returns whether a file, directory or other object of this name exists.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Returns the canonical form of an existing path: absolute, without links, `.` and `..`. The
    /// default, for file systems without these, returns the path unchanged.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(path.to_path_buf())
    }
    /// Takes the exclusive lock on a file, which is created if absent. Writes the description
    /// `holder` into the file, for the error message of another opener.
    ///
    /// # Errors
    /// `WouldBlock` when the lock is held already.
    fn lock(&self, path: &Path, holder: &str) -> io::Result<Box<dyn FileLock>>;
    /// Returns a number that differs in every call, for identities. A simulated disk returns
    /// reproducible numbers.
    fn unique_number(&self) -> u64 {
        use std::hash::{BuildHasher, Hasher};
        let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
        hasher.write_u32(std::process::id());
        hasher.finish()
    }
    /// Returns the free bytes on the device that holds `path`, or `None` if unknown.
    fn free_bytes(&self, path: &Path) -> io::Result<Option<u64>>;
    /// Returns a path that is independent of the working directory. The operating system's file
    /// system returns an absolute path. The default returns `path` itself.
    ///
    /// # Errors
    /// `InvalidInput` when this path, or a directory above, was [pinned](Fs::pinned) and the pinned
    /// directory is no longer at its path. Any error of reading the working directory.
    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(path.to_path_buf())
    }
    /// Returns this file system with the directory `dir` pinned, that is held open. Paths at or
    /// below `dir` then refer to that directory, even after it is moved or another directory gets
    /// its name. After the directory was removed, creating, listing or syncing anything in it is an
    /// error that says so. The default returns `None`, for file systems in which nobody else can
    /// change the meaning of a path.
    ///
    /// # Errors
    /// Any error of opening `dir`.
    fn pinned(&self, _dir: &Path) -> io::Result<Option<Arc<dyn Fs>>> {
        Ok(None)
    }
    /// Returns whether this file system encrypts the files of stores.
    #[doc(hidden)]
    fn encrypts(&self) -> bool {
        false
    }
    /// Prepares the new directory `to` of a store, before its first file: an encrypting file system
    /// gives it keys, and those of the directory `from`, whose files may be linked into it.
    #[doc(hidden)]
    fn share_keys(&self, _from: Option<&Path>, _to: &Path) -> Result<()> {
        Ok(())
    }
    /// Returns an error if an encrypting file system does not have the key of the directory.
    #[doc(hidden)]
    fn check_keys(&self, _dir: &Path) -> Result<()> {
        Ok(())
    }
}

/// Calls [`Fs::absolute`] and adds the path to the error.
pub(crate) fn absolute(fs: &dyn Fs, path: &Path) -> Result<PathBuf> {
    fs.absolute(path).map_err(|e| match e.kind() {
        io::ErrorKind::InvalidInput => Error::invalid(e.to_string()).with_path(path),
        _ => Error::io(path, "make the path absolute", e),
    })
}

/// Calls [`Fs::pinned`]. Returns the file system itself if it does not support pinning.
pub(crate) fn pinned(fs: &Arc<dyn Fs>, dir: &Path) -> Result<Arc<dyn Fs>> {
    let pinned = fs.pinned(dir).map_err(|e| Error::io(dir, "open the directory", e))?;
    Ok(pinned.unwrap_or_else(|| fs.clone()))
}

/// Calls [`Fs::sync_dir`] and adds the directory to the error.
pub(crate) fn sync_dir(fs: &dyn Fs, dir: &Path) -> Result<()> {
    fs.sync_dir(dir).map_err(|e| Error::io(dir, "sync the directory", e))
}

/// Returns the parent directory of `path`, or `.` for a bare name.
pub(crate) fn parent_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// Fills `buf`, with zeros behind the end of the file. A writer that ends its log meanwhile cuts off
/// what it has allocated ahead, and that is zeros.
pub fn read_or_zeros(file: &dyn ReadableFile, buf: &mut [u8], start: u64) -> io::Result<()> {
    match file.read_exact_at(buf, start) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            let left = file.len_bytes()?.saturating_sub(start).min(buf.len() as u64);
            let (there, cut) = buf.split_at_mut(left as usize);
            cut.fill(0);
            file.read_exact_at(there, start)
        }
        read => read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parent_of_bare_name_is_current_directory() {
        assert_eq!(parent_of(Path::new("a/b")), Path::new("a"));
        assert_eq!(parent_of(Path::new("b")), Path::new("."));
        assert_eq!(parent_of(Path::new("/b")), Path::new("/"));
    }
}
