//! The operating system's file system and its surroundings, with the standard library alone. For
//! every system but Linux, and for Linux with `--cfg esker_portable`.
//!
//! Differences from `os`, `fork`, `memory` and `processor`, the modules for Linux:
//! * No file is memory-mapped: [`Fs::create_mapped`] is the default.
//! * No directory is pinned: [`Fs::pinned`] returns `None`. A store whose directory is renamed
//!   while it is open continues under the old path.
//! * The free space, the machine's memory and a thread's waits for a processor are unknown.
//!
//! Invariants:
//! 1. On Unix, directories are created with mode 0700 and files with mode 0600.
//! 2. Only regular files are opened, and a symbolic link in the last component of a path is not
//!    followed. The name is examined before the opening. On Unix, a file that replaced the
//!    examined one in between is refused; elsewhere it is opened if it is a regular file.
//! 3. A read at an offset does not disturb a concurrent read of the same file.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use super::{DirEntry, FileLock, Fs, ReadableFile, WritableFile};

#[cfg(unix)]
use by_offset::Positional;
#[cfg(not(unix))]
use by_seek::Positional;

/// The operating system's file system.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct OsFs {}

impl OsFs {
    /// Returns the shared instance.
    pub fn shared() -> Arc<dyn Fs> {
        static SHARED: LazyLock<Arc<OsFs>> = LazyLock::new(|| Arc::new(OsFs::default()));
        SHARED.clone()
    }
}

/// Positional access by the operating system's calls.
#[cfg(unix)]
mod by_offset {
    use std::fs::File;
    use std::io;
    use std::os::unix::fs::FileExt;

    pub(super) struct Positional(File);

    impl Positional {
        pub fn new(file: File) -> Positional {
            Positional(file)
        }

        pub fn file(&self) -> &File {
            &self.0
        }

        pub fn read_exact_at(&self, buf: &mut [u8], offset_bytes: u64) -> io::Result<()> {
            self.0.read_exact_at(buf, offset_bytes)
        }

        pub fn write_all_at(&self, bytes: &[u8], offset_bytes: u64) -> io::Result<()> {
            self.0.write_all_at(bytes, offset_bytes)
        }
    }
}

/// Positional access by moving the file's position under a lock. Compiled for the tests, too.
#[cfg(any(not(unix), test))]
mod by_seek {
    use std::fs::File;
    use std::io::{self, Read, Seek, SeekFrom, Write};
    use std::ops::Deref;

    use crate::base::locks::Mutex;

    pub(super) struct Positional(Mutex<File>);

    impl Positional {
        pub fn new(file: File) -> Positional {
            Positional(Mutex::new(file))
        }

        pub fn file(&self) -> impl Deref<Target = File> + '_ {
            self.0.lock()
        }

        pub fn read_exact_at(&self, buf: &mut [u8], offset_bytes: u64) -> io::Result<()> {
            let mut file = self.0.lock();
            file.seek(SeekFrom::Start(offset_bytes))?;
            file.read_exact(buf)
        }

        pub fn write_all_at(&self, bytes: &[u8], offset_bytes: u64) -> io::Result<()> {
            let mut file = self.0.lock();
            file.seek(SeekFrom::Start(offset_bytes))?;
            file.write_all(bytes)
        }
    }
}

struct PortableReadable(Positional);

impl ReadableFile for PortableReadable {
    fn read_exact_at(&self, buf: &mut [u8], offset_bytes: u64) -> io::Result<()> {
        self.0.read_exact_at(buf, offset_bytes)
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.0.file().metadata()?.len())
    }
}

struct PortableWritable {
    file: Positional,
    /// Offset of the next append, in bytes.
    end_bytes: u64,
}

impl WritableFile for PortableWritable {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_at(bytes, self.end_bytes)
    }

    fn write_at(&mut self, bytes: &[u8], offset_bytes: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset_bytes)?;
        self.end_bytes = self.end_bytes.max(offset_bytes + bytes.len() as u64);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.file().sync_data()
    }

    fn write_behind_end(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.end_bytes)
    }

    fn set_len(&mut self, len_bytes: u64) -> io::Result<()> {
        self.file.file().set_len(len_bytes)?;
        self.end_bytes = len_bytes;
        Ok(())
    }
}

/// A lock on a file and, on Unix, on its directory. The directory is locked too, because someone
/// may remove the lock file, and another process may then create a new one.
struct PortableLock {
    file: File,
    dir: Option<File>,
    /// The process that holds the lock. A forked child shares the open files and must not unlock
    /// them.
    process: u32,
}

impl FileLock for PortableLock {}

impl Drop for PortableLock {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // If unlocking fails, closing the files releases the locks.
            let _ = (self.dir.as_ref().map(File::unlock), self.file.unlock());
        }
    }
}

/// Takes the lock on a directory. Returns `None` if the system cannot lock directories.
#[cfg(unix)]
fn lock_dir(path: &Path) -> io::Result<Option<File>> {
    let dir = File::open(path)?;
    match dir.try_lock() {
        Ok(()) => Ok(Some(dir)),
        Err(TryLockError::WouldBlock) => Err(taken()),
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

/// Returns `None`: directories are not locked.
#[cfg(not(unix))]
fn lock_dir(_: &Path) -> io::Result<Option<File>> {
    Ok(None)
}

fn taken() -> io::Error {
    io::Error::new(io::ErrorKind::WouldBlock, "another handle holds the lock")
}

/// Returns an error unless `found` is a regular file (but a link, a pipe or a device).
fn check_regular(found: &Metadata) -> io::Result<()> {
    if found.is_file() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
}

/// Returns options for creating a new file and writing to it. Its mode is 0600 where files have
/// modes.
fn new_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Opens an existing regular file.
fn open(path: &Path, options: &OpenOptions) -> io::Result<File> {
    let named = std::fs::symlink_metadata(path)?;
    // Before the opening, because the opening of a pipe waits.
    check_regular(&named)?;
    let file = options.open(path)?;
    let opened = file.metadata()?;
    check_regular(&opened)?;
    if !is_same(&named, &opened) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "replaced while it was opened"));
    }
    Ok(file)
}

/// Returns whether the two are of one file.
#[cfg(unix)]
fn is_same(named: &Metadata, opened: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (named.dev(), named.ino()) == (opened.dev(), opened.ino())
}

/// Returns true: files have no stable identity in the standard library here.
#[cfg(not(unix))]
fn is_same(_: &Metadata, _: &Metadata) -> bool {
    true
}

impl Fs for OsFs {
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        let file = Positional::new(new_file().open(path)?);
        Ok(Box::new(PortableWritable { file, end_bytes: 0 }))
    }

    fn open_write(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        let file = open(path, OpenOptions::new().write(true))?;
        let end_bytes = file.metadata()?.len();
        Ok(Box::new(PortableWritable { file: Positional::new(file), end_bytes }))
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadableFile>> {
        let file = open(path, OpenOptions::new().read(true))?;
        Ok(Arc::new(PortableReadable(Positional::new(file))))
    }

    fn read(&self, path: &Path, len_bytes_max: u64) -> io::Result<Vec<u8>> {
        let file = open(path, OpenOptions::new().read(true))?;
        let mut bytes = Vec::new();
        file.take(len_bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > len_bytes_max {
            let message = format!("expected at most {len_bytes_max} bytes, found more");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::hard_link(from, to)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        #[allow(unused_mut, reason = "directories have modes on Unix alone")]
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        match builder.create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            other => other,
        }
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            // Does not follow a symbolic link.
            let metadata = match entry.metadata() {
                Ok(metadata) => metadata,
                // The entry was removed after the directory was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            found.push(DirEntry {
                name: entry.file_name().to_string_lossy().into_owned(),
                is_file: metadata.is_file(),
                len_bytes: metadata.len(),
            });
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// On Unix, syncs the directory. Elsewhere it only checks that the directory exists: the
    /// standard library cannot open one, and the file system's journal orders changes of names.
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        if cfg!(unix) {
            return File::open(path)?.sync_all();
        }
        std::fs::read_dir(path).map(drop)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        match std::fs::symlink_metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        std::fs::canonicalize(path)
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<Box<dyn FileLock>> {
        let dir = lock_dir(&super::parent_of(path))?;
        let created = new_file().open(path);
        let mut file = match created {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                open(path, OpenOptions::new().write(true))?
            }
            other => other?,
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(taken()),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        file.set_len(0)?;
        file.write_all(holder.as_bytes())?;
        Ok(Box::new(PortableLock { file, dir, process: std::process::id() }))
    }

    fn free_bytes(&self, path: &Path) -> io::Result<Option<u64>> {
        std::fs::metadata(path).map(|_| None)
    }

    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        std::path::absolute(path)
    }
}

/// Fork detection by process ids.
///
/// Invariant: as in the module for Linux, with one exception. A descendant may have the id of an
/// ancestor that has ended. Where processes cannot fork, both numbers are the process's id.
pub(crate) mod fork {
    /// Returns the number of this process.
    pub fn process() -> u64 {
        now()
    }

    /// Returns the number of this process.
    #[inline]
    pub fn now() -> u64 {
        std::process::id().into()
    }
}

/// The memory available to this process.
pub(crate) mod memory {
    /// Assumed memory, in bytes. `memory_budget_bytes=auto` is then 256 MiB.
    const ASSUMED_BYTES: u64 = 1 << 30;

    /// Returns an assumed number: the standard library cannot find the memory of the machine.
    pub fn available_bytes() -> u64 {
        ASSUMED_BYTES
    }
}

/// The time that a thread waited for a processor, which is unknown.
pub(crate) mod processor {
    use std::time::Duration;

    /// Statistics of a thread, without content.
    pub struct ProcessorWait;

    impl ProcessorWait {
        /// Returns the statistics of the calling thread.
        pub fn of_this_thread() -> ProcessorWait {
            ProcessorWait
        }

        /// Returns `None`.
        pub fn waited(&self) -> Option<Duration> {
            None
        }
    }

    /// Returns 0: the standard library does not tell how busy the machine is.
    pub fn pressure_percent(_dir: &str, _resources: &[&str]) -> u32 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn files_are_private_and_only_regular_files_open() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let (fs, root) = (OsFs::default(), dir.path().join("d"));
        fs.create_dir(&root).unwrap();
        fs.create_dir(&root).unwrap();
        let path = root.join("f");
        fs.create_new(&path).unwrap().append(b"abc").unwrap();
        drop(fs.lock(&root.join("LOCK"), "me").unwrap());
        let mode = |p: &Path| std::fs::metadata(p).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&root), mode(&path)), (0o700, 0o600));
        assert_eq!(mode(&root.join("LOCK")), 0o600);
        assert!(fs.create_new(&path).is_err());
        assert!(fs.create_dir(&path).is_err());
        assert!(fs.open_read(&root).is_err());
        let link = root.join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(fs.open_read(&link).is_err() && fs.open_write(&link).is_err());
        assert!(fs.create_new(&link).is_err() && fs.lock(&link, "me").is_err());
        assert!(fs.exists(&link).unwrap() && !fs.exists(&root.join("g")).unwrap());
        assert_eq!(fs.resolve(&link).unwrap(), fs.resolve(&path).unwrap());
        assert_eq!(fs.read(&path, 3).unwrap(), b"abc");
        assert_eq!(fs.read(&path, 2).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(fs.free_bytes(&root).unwrap(), None);
        let listed = fs.list(&root).unwrap();
        let listed =
            listed.iter().map(|e| (e.name.as_str(), e.is_file, e.is_file as u64 * e.len_bytes));
        assert_eq!(
            listed.collect::<Vec<_>>(),
            [("LOCK", true, 2), ("f", true, 3), ("link", false, 0)]
        );
    }

    #[test]
    fn append_after_positioned_write_goes_to_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let mut file = OsFs::default().create_new(&path).unwrap();
        file.append(b"ab").unwrap();
        file.write_at(b"cd", 3).unwrap();
        file.append(b"e").unwrap();
        file.write_at(b"A", 0).unwrap();
        file.append(b"f").unwrap();
        file.set_len(6).unwrap();
        file.append(b"g").unwrap();
        file.write_behind_end(b"zz").unwrap();
        file.append(b"h").unwrap();
        assert_eq!(OsFs::default().read(&path, 99).unwrap(), b"Ab\0cdeghz");
    }

    #[test]
    fn seek_based_io_matches_positioned_io() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let all: Vec<u8> = (0..40_000u32).flat_map(u32::to_le_bytes).collect();
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        let file = by_seek::Positional::new(file);
        let (first, second) = all.split_at(70_000);
        file.write_all_at(second, 70_000).unwrap();
        file.write_all_at(first, 0).unwrap();
        assert_eq!(file.file().metadata().unwrap().len(), all.len() as u64);
        let other = OsFs::default().open_read(&path).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (file, other, all) = (&file, &other, &all);
                scope.spawn(move || {
                    let (mut read, mut same) = ([0; 1000], [0; 1000]);
                    for round in 0..200 {
                        let at = (round * 7919 + thread * 31_337) % (all.len() - read.len());
                        file.read_exact_at(&mut read, at as u64).unwrap();
                        other.read_exact_at(&mut same, at as u64).unwrap();
                        assert_eq!((&read[..], &same[..]), (&all[at..at + 1000], &read[..]));
                    }
                });
            }
        });
        let mut read = [0; 2];
        let error = file.read_exact_at(&mut read, all.len() as u64 - 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn lock_is_exclusive_and_names_holder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let held = OsFs::default().lock(&path, "process 1").unwrap();
        let error = OsFs::default().lock(&path, "process 2").err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(OsFs::default().read(&path, 100).unwrap(), b"process 1");
        #[cfg(unix)]
        {
            std::fs::remove_file(&path).unwrap();
            let error = OsFs::default().lock(&path, "process 2").err().unwrap();
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "the directory is locked, too");
        }
        drop(held);
        OsFs::default().lock(&path, "process 2").unwrap();
    }
}
