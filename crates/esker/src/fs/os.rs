//! The operating system's file system. The only place that uses `std::fs`.
//!
//! What stays true: directories are made 0700 and files 0600; nothing but regular files is opened,
//! and no symbolic link is followed at the last step of a path.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use super::mapped::{self, MappedFile};
use super::{DirEntry, FileLock, Fs, ReadableFile, WritableFile};

const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;
const NO_FOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
const NON_BLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits() as i32;
#[cfg(target_os = "linux")]
const NO_ACCESS_TIME: i32 = rustix::fs::OFlags::NOATIME.bits() as i32;
#[cfg(not(target_os = "linux"))]
const NO_ACCESS_TIME: i32 = 0;

/// The operating system's files.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsFs;

impl OsFs {
    /// The one instance everybody shares.
    pub fn shared() -> Arc<dyn Fs> {
        static SHARED: LazyLock<Arc<OsFs>> = LazyLock::new(|| Arc::new(OsFs));
        SHARED.clone()
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
    /// Where the next append goes.
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
}

/// The lock's file, and its directory: the file can be removed by hand, and then another made.
struct OsLock(#[allow(dead_code)] [File; 2]);

impl FileLock for OsLock {}

fn taken() -> io::Error {
    io::Error::new(io::ErrorKind::WouldBlock, "another has the lock")
}

/// Refuses what is not a regular file (a pipe or device put in a file's place).
fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
}

impl Fs for OsFs {
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(FILE_MODE).open(path)?;
        Ok(Box::new(OsWritable { file, end_bytes: 0 }))
    }

    fn create_mapped(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(FILE_MODE).open(path)?;
        let mapped = if mapped::is_known(&file) { MappedFile::new(file) } else { Err(file) };
        Ok(match mapped {
            Ok(mapped) => Box::new(mapped),
            Err(file) => Box::new(OsWritable { file, end_bytes: 0 }),
        })
    }

    fn open_write(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        let mut options = OpenOptions::new();
        let file = options.write(true).custom_flags(NO_FOLLOW | NON_BLOCK).open(path)?;
        let file = regular(file)?;
        let end_bytes = file.metadata()?.len();
        Ok(Box::new(OsWritable { file, end_bytes }))
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadableFile>> {
        let open = |flags| OpenOptions::new().read(true).custom_flags(flags).open(path);
        let flags = NO_FOLLOW | NON_BLOCK;
        // Else each read looks whether the time of access is to be written. Only who owns the file may ask
        // for that.
        let file = open(flags | NO_ACCESS_TIME).or_else(|error| match error.kind() {
            io::ErrorKind::PermissionDenied if NO_ACCESS_TIME != 0 => open(flags),
            _ => Err(error),
        })?;
        Ok(Arc::new(OsReadable(regular(file)?)))
    }

    fn read(&self, path: &Path, len_bytes_max: u64) -> io::Result<Vec<u8>> {
        let mut options = OpenOptions::new();
        let file = regular(options.read(true).custom_flags(NO_FOLLOW | NON_BLOCK).open(path)?)?;
        let mut bytes = Vec::new();
        file.take(len_bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > len_bytes_max {
            let message = format!("longer than the {len_bytes_max} bytes it may have");
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
        match std::fs::DirBuilder::new().mode(DIR_MODE).create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            other => other,
        }
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            let metadata = match entry.metadata() {
                Ok(metadata) => metadata,
                // Removed since the directory was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            entries.push(DirEntry {
                name: entry.file_name().to_string_lossy().into_owned(),
                is_file: metadata.is_file(),
                len_bytes: metadata.len(),
            });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
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
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
        let dir = File::open(super::parent_of(path))?;
        // A file system that locks no directories has the file alone.
        match dir.try_lock() {
            Err(std::fs::TryLockError::WouldBlock) => return Err(taken()),
            Ok(()) | Err(std::fs::TryLockError::Error(_)) => {}
        }
        let mut file = regular(options.custom_flags(NO_FOLLOW | NON_BLOCK).open(path)?)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(taken()),
            Err(std::fs::TryLockError::Error(error)) => return Err(error),
        }
        file.set_len(0)?;
        file.write_all(holder.as_bytes())?;
        Ok(Box::new(OsLock([file, dir])))
    }

    fn free_bytes(&self, path: &Path) -> io::Result<Option<u64>> {
        let stat = rustix::fs::statvfs(path)?;
        Ok(Some(stat.f_bavail.saturating_mul(stat.f_frsize)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn files_are_private_and_only_regular_ones_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let (fs, root) = (OsFs, dir.path().join("d"));
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
    fn reading_leaves_the_time_of_access_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        OsFs.create_new(&path).unwrap().append(b"abc").unwrap();
        // So old that each read would change it, but where the file system keeps none.
        let old = std::fs::FileTimes::new().set_accessed(std::time::SystemTime::UNIX_EPOCH);
        File::options().write(true).open(&path).unwrap().set_times(old).unwrap();
        let mut read = [0; 3];
        OsFs.open_read(&path).unwrap().read_exact_at(&mut read, 0).unwrap();
        assert_eq!(&read, b"abc");
        let accessed = std::fs::metadata(&path).unwrap().accessed().unwrap();
        assert_eq!(accessed, std::time::SystemTime::UNIX_EPOCH);
    }

    #[test]
    fn an_append_goes_to_the_end_wherever_a_write_went_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let mut file = OsFs.create_new(&path).unwrap();
        file.append(b"ab").unwrap();
        file.write_at(b"cd", 3).unwrap();
        file.append(b"e").unwrap();
        file.write_at(b"A", 0).unwrap();
        file.append(b"f").unwrap();
        file.set_len(6).unwrap();
        file.append(b"g").unwrap();
        assert_eq!(OsFs.read(&path, 99).unwrap(), b"Ab\0cdeg");
    }

    #[test]
    fn a_lock_is_exclusive_and_names_its_holder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let held = OsFs.lock(&path, "process 1").unwrap();
        let error = OsFs.lock(&path, "process 2").err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(OsFs.read(&path, 100).unwrap(), b"process 1");
        drop(held);
        OsFs.lock(&path, "process 2").unwrap();
    }
}
