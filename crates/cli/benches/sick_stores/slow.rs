//! A file system whose device writes slowly: each write to a file from `create_new`, such as a table or
//! the manifest, sleeps as long as a device of [`BYTES_PER_S`] needs. Writes of the mapped log stay in
//! memory, as with a page cache. Files from `open_write`, which are opened again, are not slow.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use esker::fs::{DirEntry, FileLock, Fs, OsFs, ReadableFile, WritableFile};

/// Speed of the device.
const BYTES_PER_S: f64 = 20e6;

/// The moment until which the device is busy.
#[derive(Clone)]
struct Device(Arc<Mutex<Instant>>);

impl Device {
    /// Waits until the device has written `bytes` more.
    fn write(&self, bytes: usize) {
        let until = {
            let mut busy = self.0.lock().expect("no panic while it is held");
            *busy = (*busy).max(Instant::now());
            *busy += Duration::from_secs_f64(bytes as f64 / BYTES_PER_S);
            *busy
        };
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
    }
}

/// The slow file system.
pub struct SlowFs {
    inner: Arc<dyn Fs>,
    device: Device,
}

impl SlowFs {
    /// Returns one over the operating system's.
    pub fn shared() -> Arc<dyn Fs> {
        let device = Device(Arc::new(Mutex::new(Instant::now())));
        Arc::new(SlowFs { inner: OsFs::shared(), device })
    }
}

struct SlowFile {
    inner: Box<dyn WritableFile>,
    device: Device,
}

impl WritableFile for SlowFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.device.write(bytes.len());
        self.inner.append(bytes)
    }

    fn write_at(&mut self, bytes: &[u8], offset_bytes: u64) -> io::Result<()> {
        self.device.write(bytes.len());
        self.inner.write_at(bytes, offset_bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.inner.sync()
    }

    fn set_len(&mut self, len_bytes: u64) -> io::Result<()> {
        self.inner.set_len(len_bytes)
    }
}

impl Fs for SlowFs {
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        let inner = self.inner.create_new(path)?;
        Ok(Box::new(SlowFile { inner, device: self.device.clone() }))
    }

    fn create_mapped(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        self.inner.create_mapped(path)
    }

    fn open_write(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        self.inner.open_write(path)
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadableFile>> {
        self.inner.open_read(path)
    }

    fn read(&self, path: &Path, len_bytes_max: u64) -> io::Result<Vec<u8>> {
        self.inner.read(path, len_bytes_max)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.hard_link(from, to)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.inner.create_dir(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.inner.remove_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.inner.list(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.inner.sync_dir(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        self.inner.resolve(path)
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<Box<dyn FileLock>> {
        self.inner.lock(path, holder)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<Option<u64>> {
        self.inner.free_bytes(path)
    }

    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        self.inner.absolute(path)
    }
}
