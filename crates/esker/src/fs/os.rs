//! The operating system's file system. Only this module, `mapped` and `pin` access it.
//!
//! Invariants:
//! 1. Directories are created with mode 0700 and files with mode 0600.
//! 2. Only regular files are opened, and a symbolic link in the last component of a path is not
//!    followed.
//! 3. A path at or below a pinned directory ([`Fs::pinned`]) is looked up in that directory.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::retry_on_intr;

use super::direct::{self, DirectReadable};
use super::mapped::{self, MappedFile};
use super::pin::{Lookup, Pin};
use super::{DirEntry, FileLock, Fs, ReadableFile, WritableFile};

const FILE_MODE: Mode = Mode::from_raw_mode(0o600);
const DIR_MODE: Mode = Mode::from_raw_mode(0o700);
/// Flags for opening an existing file.
const EXISTING_FLAGS: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK);
/// Flags for creating a new file.
const NEW: OFlags = OFlags::CREATE.union(OFlags::EXCL);
#[cfg(target_os = "linux")]
const NO_ACCESS_TIME: OFlags = OFlags::NOATIME;
#[cfg(not(target_os = "linux"))]
const NO_ACCESS_TIME: OFlags = OFlags::empty();

/// The operating system's file system.
#[derive(Debug, Clone, Default)]
pub struct OsFs {
    /// Pinned directories.
    pins: Vec<Pin>,
}

impl OsFs {
    /// Returns the shared instance.
    pub fn shared() -> Arc<dyn Fs> {
        static SHARED: LazyLock<Arc<OsFs>> = LazyLock::new(|| Arc::new(OsFs::default()));
        SHARED.clone()
    }

    fn place<'a>(&'a self, path: &'a Path) -> Lookup<'a> {
        Lookup::of(&self.pins, path)
    }

    /// Calls `what` with the lookup directory and name of `path`. Retries interrupted calls.
    fn at<T>(
        &self,
        path: &Path,
        mut what: impl FnMut(&Lookup<'_>) -> rustix::io::Result<T>,
    ) -> io::Result<T> {
        let place = self.place(path);
        retry_on_intr(|| what(&place)).map_err(|error| place.explain(error.into()))
    }

    fn open(&self, path: &Path, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::CLOEXEC;
        let opened =
            self.at(path, |place| rustix::fs::openat(place.dir, place.name, flags, FILE_MODE));
        opened.map(File::from)
    }

    /// Opens a regular file for reading, with more flags.
    fn open_readable(&self, path: &Path, more: OFlags) -> io::Result<File> {
        let flags = EXISTING_FLAGS | OFlags::RDONLY | more;
        // Without this flag, each read checks whether to update the access time. Only the owner of
        // the file may set the flag.
        let file = self.open(path, flags | NO_ACCESS_TIME).or_else(|error| match error.kind() {
            io::ErrorKind::PermissionDenied if !NO_ACCESS_TIME.is_empty() => self.open(path, flags),
            _ => Err(error),
        })?;
        regular(file)
    }
}

struct OsReadable(File);

impl ReadableFile for OsReadable {
    fn read_exact_at(&self, buf: &mut [u8], offset_bytes: u64) -> io::Result<()> {
        self.0.read_exact_at(buf, offset_bytes)
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

struct OsWritable {
    file: File,
    /// Offset of the next append, in bytes.
    end_bytes: u64,
}

impl WritableFile for OsWritable {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_at(bytes, self.end_bytes)
    }

    fn write_at(&mut self, bytes: &[u8], offset_bytes: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset_bytes)?;
        self.end_bytes = self.end_bytes.max(offset_bytes + bytes.len() as u64);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write_behind_end(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.end_bytes)
    }

    fn set_len(&mut self, len_bytes: u64) -> io::Result<()> {
        self.file.set_len(len_bytes)?;
        self.end_bytes = len_bytes;
        Ok(())
    }

    fn forget_cached(&mut self) {
        direct::forget_cached(&self.file);
    }
}

/// A lock on a file and its directory. The directory is locked too, because someone may remove the
/// lock file, and another process may then create a new one.
struct OsLock {
    file: File,
    /// A pinned directory stays open for longer than the lock is held.
    dir: Arc<File>,
    /// The process that holds the lock. A forked child shares the open files and must not unlock
    /// them.
    process: u32,
}

impl FileLock for OsLock {}

impl Drop for OsLock {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // If unlocking fails, closing the files releases the locks.
            let _ = (self.dir.unlock(), self.file.unlock());
        }
    }
}

fn taken() -> io::Error {
    io::Error::new(io::ErrorKind::WouldBlock, "another handle holds the lock")
}

/// Returns `file` if it is a regular file, else an error (for a pipe or device in place of a file).
fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
}

impl Fs for OsFs {
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        let file = self.open(path, NEW | OFlags::WRONLY)?;
        Ok(Box::new(OsWritable { file, end_bytes: 0 }))
    }

    fn create_mapped(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        let file = self.open(path, NEW | OFlags::RDWR)?;
        let mapped = if mapped::is_known(&file) { MappedFile::new(file) } else { Err(file) };
        Ok(match mapped {
            Ok(mapped) => Box::new(mapped),
            Err(file) => Box::new(OsWritable { file, end_bytes: 0 }),
        })
    }

    fn open_write(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        let file = regular(self.open(path, EXISTING_FLAGS | OFlags::WRONLY)?)?;
        let end_bytes = file.metadata()?.len();
        Ok(Box::new(OsWritable { file, end_bytes }))
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadableFile>> {
        Ok(Arc::new(OsReadable(self.open_readable(path, OFlags::empty())?)))
    }

    fn open_read_direct(&self, path: &Path) -> io::Result<Arc<dyn ReadableFile>> {
        match self.open_readable(path, OFlags::DIRECT) {
            Ok(file) => Ok(Arc::new(DirectReadable::new(file))),
            // The file system has no such reads, or this is no file.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => self.open_read(path),
            Err(error) => Err(error),
        }
    }

    fn read(&self, path: &Path, len_bytes_max: u64) -> io::Result<Vec<u8>> {
        let file = regular(self.open(path, EXISTING_FLAGS | OFlags::RDONLY)?)?;
        let mut bytes = Vec::new();
        file.take(len_bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > len_bytes_max {
            let message = format!("expected at most {len_bytes_max} bytes, found more");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let to = self.place(to);
        let renamed =
            self.at(from, |from| rustix::fs::renameat(from.dir, from.name, to.dir, to.name));
        renamed.map_err(|error| to.explain(error))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.at(path, |place| rustix::fs::unlinkat(place.dir, place.name, AtFlags::empty()))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let to = self.place(to);
        let linked = self.at(from, |from| {
            rustix::fs::linkat(from.dir, from.name, to.dir, to.name, AtFlags::empty())
        });
        linked.map_err(|error| to.explain(error))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let made = self.at(path, |place| rustix::fs::mkdirat(place.dir, place.name, DIR_MODE));
        let is_dir = || {
            self.at(path, |place| rustix::fs::statat(place.dir, place.name, AtFlags::empty()))
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir())
        };
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_dir() => Ok(()),
            other => other,
        }
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let place = self.place(path);
        if place.names_pin() {
            // The pinned directory has no name within itself.
            place.pin.map_or(Ok(()), Pin::check_name)?;
            return Ok(rustix::fs::unlinkat(CWD, path, AtFlags::REMOVEDIR)?);
        }
        self.at(path, |place| rustix::fs::unlinkat(place.dir, place.name, AtFlags::REMOVEDIR))
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let dir = Dir::new(self.open(path, OFlags::DIRECTORY | OFlags::RDONLY)?)?;
        // A removed directory looks empty.
        self.place(path).check_exists()?;
        entries(dir)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.place(path).check_exists()?;
        self.open(path, OFlags::RDONLY)?.sync_all()
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let place = self.place(path);
        if place.names_pin() {
            return place.check_exists().map(|()| true);
        }
        let stat = |place: &Lookup<'_>| {
            rustix::fs::statat(place.dir, place.name, AtFlags::SYMLINK_NOFOLLOW)
        };
        match self.at(path, stat) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        match self.place(path) {
            Lookup { pin: Some(pin), name, .. } if !pin.is_unmoved() => {
                let now = pin.path_now();
                Ok(if name == Path::new(".") { now } else { now.join(name) })
            }
            _ => std::fs::canonicalize(path),
        }
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<Box<dyn FileLock>> {
        let dir = match self.place(path).pin_of_file() {
            Some(pin) => pin.dir().clone(),
            None => Arc::new(self.open(&super::parent_of(path), OFlags::RDONLY)?),
        };
        // On a file system that cannot lock directories, only the file is locked.
        match dir.try_lock() {
            Err(std::fs::TryLockError::WouldBlock) => return Err(taken()),
            Ok(()) | Err(std::fs::TryLockError::Error(_)) => {}
        }
        let mut file = regular(self.open(path, EXISTING_FLAGS | OFlags::CREATE | OFlags::RDWR)?)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(taken()),
            Err(std::fs::TryLockError::Error(error)) => return Err(error),
        }
        file.set_len(0)?;
        file.write_all(holder.as_bytes())?;
        Ok(Box::new(OsLock { file, dir, process: std::process::id() }))
    }

    fn free_bytes(&self, path: &Path) -> io::Result<Option<u64>> {
        let place = self.place(path);
        let stat = match place.pin {
            Some(pin) => rustix::fs::fstatvfs(pin.dir())?,
            None => rustix::fs::statvfs(path)?,
        };
        Ok(Some(stat.f_bavail.saturating_mul(stat.f_frsize)))
    }

    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        let path = std::path::absolute(path)?;
        self.place(&path).pin.map_or(Ok(()), Pin::check_name)?;
        Ok(path)
    }

    fn pinned(&self, dir: &Path) -> io::Result<Option<Arc<dyn Fs>>> {
        let mut pins = self.pins.clone();
        pins.push(Pin::new(&self.pins, dir)?);
        Ok(Some(Arc::new(OsFs { pins })))
    }
}

/// Returns the entries of `dir`, sorted by name.
fn entries(dir: Dir) -> io::Result<Vec<DirEntry>> {
    let mut found = Vec::new();
    let mut dir = dir;
    while let Some(entry) = dir.read() {
        let entry = entry?;
        let name = entry.file_name();
        if [c".", c".."].contains(&name) {
            continue;
        }
        let stat = match rustix::fs::statat(dir.fd()?, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            // The entry was removed after the directory was read.
            Err(rustix::io::Errno::NOENT) => continue,
            Err(error) => return Err(error.into()),
        };
        found.push(DirEntry {
            name: name.to_string_lossy().into_owned(),
            is_file: FileType::from_raw_mode(stat.st_mode).is_file(),
            len_bytes: stat.st_size as u64,
        });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn files_are_private_and_only_regular_files_open() {
        let dir = tempfile::tempdir().unwrap();
        let (fs, root) = (OsFs::default(), dir.path().join("d"));
        fs.create_dir(&root).unwrap();
        fs.create_dir(&root).unwrap();
        let path = root.join("f");
        fs.create_new(&path).unwrap().append(b"abc").unwrap();
        let mode = |p: &Path| std::fs::metadata(p).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&root), mode(&path)), (0o700, 0o600));
        assert!(fs.create_new(&path).is_err());
        assert!(fs.open_read(&root).is_err());
        std::os::unix::fs::symlink(&path, root.join("link")).unwrap();
        assert!(fs.open_read(&root.join("link")).is_err());
        assert_eq!(fs.read(&path, 3).unwrap(), b"abc");
        assert_eq!(fs.read(&path, 2).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(fs.free_bytes(&root).unwrap().unwrap() > 0);
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn reads_leave_access_time_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        OsFs::default().create_new(&path).unwrap().append(b"abc").unwrap();
        // An access time so old that each read would update it, unless the file system keeps none.
        let old = std::fs::FileTimes::new().set_accessed(std::time::SystemTime::UNIX_EPOCH);
        File::options().write(true).open(&path).unwrap().set_times(old).unwrap();
        let mut read = [0; 3];
        OsFs::default().open_read(&path).unwrap().read_exact_at(&mut read, 0).unwrap();
        assert_eq!(&read, b"abc");
        let accessed = std::fs::metadata(&path).unwrap().accessed().unwrap();
        assert_eq!(accessed, std::time::SystemTime::UNIX_EPOCH);
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
        assert_eq!(OsFs::default().read(&path, 99).unwrap(), b"Ab\0cdeg");
    }

    #[test]
    fn pinned_directory_follows_rename() {
        let root = tempfile::tempdir().unwrap();
        let (dir, other) = (root.path().join("d"), root.path().join("other"));
        let os = OsFs::default();
        os.create_dir(&dir).unwrap();
        let fs = os.pinned(&dir).unwrap().unwrap();
        fs.create_new(&dir.join("mine")).unwrap().append(b"1").unwrap();
        assert_eq!(fs.absolute(&dir.join("x")).unwrap(), dir.join("x"));
        os.rename(&dir, &other).unwrap();
        os.create_dir(&dir).unwrap();
        os.create_new(&dir.join("theirs")).unwrap();
        let names = |fs: &dyn Fs, dir: &Path| -> Vec<String> {
            fs.list(dir).unwrap().into_iter().map(|entry| entry.name).collect()
        };
        assert_eq!(names(&*fs, &dir), ["mine"]);
        assert_eq!(fs.read(&dir.join("mine"), 9).unwrap(), b"1");
        assert!(!fs.exists(&dir.join("theirs")).unwrap() && fs.exists(&dir).unwrap());
        assert!(fs.remove(&dir.join("theirs")).is_err());
        fs.create_dir(&dir.join("sub")).unwrap();
        fs.hard_link(&dir.join("mine"), &dir.join("sub/link")).unwrap();
        fs.rename(&dir.join("sub/link"), &dir.join("again")).unwrap();
        fs.open_write(&dir.join("again")).unwrap().append(b"2").unwrap();
        fs.remove_dir(&dir.join("sub")).unwrap();
        fs.sync_dir(&dir).unwrap();
        assert!(fs.free_bytes(&dir).unwrap().is_some());
        assert_eq!(names(&os, &other), ["again", "mine"]);
        assert_eq!(os.read(&other.join("mine"), 9).unwrap(), b"12");
        assert_eq!(names(&os, &dir), ["theirs"]);
        // For a caller, that path now refers to another directory.
        for path in [&dir, &dir.join("x")] {
            assert_eq!(fs.absolute(path).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        assert_eq!(fs.remove_dir(&dir).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        // A second pin is not confused with the first.
        let both = fs.pinned(&root.path().join("other/../d")).unwrap().unwrap();
        both.hard_link(&dir.join("mine"), &root.path().join("other/../d/link")).unwrap();
        assert_eq!(names(&os, &dir), ["link", "theirs"]);
    }

    #[test]
    fn removed_directory_is_an_error_and_creates_nothing() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("d");
        let os = OsFs::default();
        os.create_dir(&dir).unwrap();
        let fs = os.pinned(&dir).unwrap().unwrap();
        let path = dir.join("f");
        os.remove_dir(&dir).unwrap();
        os.create_dir(&dir).unwrap();
        os.create_new(&dir.join("g")).unwrap();
        let to = root.path().join("to");
        os.create_new(&to).unwrap();
        let errors = [
            fs.create_new(&path).map(drop),
            fs.create_mapped(&path).map(drop),
            fs.open_write(&path).map(drop),
            fs.open_read(&dir.join("g")).map(drop),
            fs.read(&path, 9).map(drop),
            fs.rename(&path, &to),
            fs.rename(&to, &path),
            fs.hard_link(&to, &path),
            fs.remove(&dir.join("g")),
            fs.create_dir(&path),
            fs.remove_dir(&path),
            fs.list(&dir).map(drop),
            fs.sync_dir(&dir),
            fs.exists(&path).map(drop),
            fs.exists(&dir).map(drop),
            fs.lock(&path, "me").map(drop),
        ];
        for (which, outcome) in errors.into_iter().enumerate() {
            let message = outcome.unwrap_err().to_string();
            assert!(
                message.contains(&format!("{} was removed", dir.display())),
                "{which}: {message}"
            );
        }
        assert_eq!(os.list(&dir).unwrap().len(), 1);
        assert!(fs.remove_dir(&dir).is_err(), "the directory under the path is another one");
    }

    #[test]
    fn pinned_directory_lock_excludes_others_until_dropped() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("LOCK");
        let pinned = || OsFs::default().pinned(root.path()).unwrap().unwrap();
        let (one, two) = (pinned(), pinned());
        let held = one.lock(&path, "1").unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(two.lock(&path, "2").err().unwrap().kind(), io::ErrorKind::WouldBlock);
        drop(held);
        let held = two.lock(&path, "2").unwrap();
        assert_eq!(one.lock(&path, "1").err().unwrap().kind(), io::ErrorKind::WouldBlock);
        drop(held);
    }

    #[test]
    fn lock_is_exclusive_and_names_holder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let held = OsFs::default().lock(&path, "process 1").unwrap();
        let error = OsFs::default().lock(&path, "process 2").err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(OsFs::default().read(&path, 100).unwrap(), b"process 1");
        drop(held);
        OsFs::default().lock(&path, "process 2").unwrap();
    }
}
