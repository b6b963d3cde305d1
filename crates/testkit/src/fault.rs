//! A file system that fails: the N-th operation that changes or reads something returns an error,
//! once or from then on.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use esker::fs::{DirEntry, FileLock, Fs, ReadableFile, WritableFile};

/// The state shared by a [`FaultFs`] and its files.
#[derive(Default)]
struct Plan {
    operations: AtomicU64,
    fail_at: AtomicU64,
    for_ever: AtomicBool,
    full: AtomicBool,
    hit: AtomicBool,
}

impl Plan {
    /// Counts an operation; an error when it is the one to fail.
    fn step(&self) -> io::Result<()> {
        let number = self.operations.fetch_add(1, Ordering::SeqCst) + 1;
        let at = self.fail_at.load(Ordering::SeqCst);
        let due =
            at != 0 && (number == at || (number > at && self.for_ever.load(Ordering::SeqCst)));
        if !due {
            return Ok(());
        }
        self.hit.store(true, Ordering::SeqCst);
        let full = self.full.load(Ordering::SeqCst);
        let kind = if full { io::ErrorKind::StorageFull } else { io::ErrorKind::Other };
        Err(io::Error::new(kind, "a fault of the test"))
    }
}

/// Passes everything to another file system, except for the fault.
pub struct FaultFs {
    inner: Arc<dyn Fs>,
    plan: Arc<Plan>,
}

impl FaultFs {
    /// A file system over `inner` that does not fail yet.
    pub fn new(inner: Arc<dyn Fs>) -> Arc<FaultFs> {
        Arc::new(FaultFs { inner, plan: Arc::default() })
    }

    /// Fails the `number`-th operation from the beginning (0 for none); `for_ever` also every
    /// later one; `full` with "no space" instead of an input/output error.
    pub fn fail_at(&self, number: u64, for_ever: bool, full: bool) {
        self.plan.for_ever.store(for_ever, Ordering::SeqCst);
        self.plan.full.store(full, Ordering::SeqCst);
        self.plan.fail_at.store(number, Ordering::SeqCst);
    }

    /// Operations so far.
    pub fn operations(&self) -> u64 {
        self.plan.operations.load(Ordering::SeqCst)
    }

    /// Whether the fault was reached.
    pub fn was_hit(&self) -> bool {
        self.plan.hit.load(Ordering::SeqCst)
    }
}

struct FaultReadable(Arc<dyn ReadableFile>, Arc<Plan>);

impl ReadableFile for FaultReadable {
    fn read_exact_at(&self, buf: &mut [u8], offset_bytes: u64) -> io::Result<()> {
        self.1.step()?;
        self.0.read_exact_at(buf, offset_bytes)
    }
    fn len_bytes(&self) -> io::Result<u64> {
        self.0.len_bytes()
    }
}

struct FaultWritable(Box<dyn WritableFile>, Arc<Plan>);

impl WritableFile for FaultWritable {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Err(error) = self.1.step() {
            // A failed write may have written a part.
            self.0.append(&bytes[..bytes.len() / 2])?;
            return Err(error);
        }
        self.0.append(bytes)
    }
    fn write_at(&mut self, bytes: &[u8], offset_bytes: u64) -> io::Result<()> {
        self.1.step()?;
        self.0.write_at(bytes, offset_bytes)
    }
    fn sync(&mut self) -> io::Result<()> {
        self.1.step()?;
        self.0.sync()
    }
    fn set_len(&mut self, len_bytes: u64) -> io::Result<()> {
        self.1.step()?;
        self.0.set_len(len_bytes)
    }
}

impl Fs for FaultFs {
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        self.plan.step()?;
        Ok(Box::new(FaultWritable(self.inner.create_new(path)?, self.plan.clone())))
    }
    fn open_write(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        self.plan.step()?;
        Ok(Box::new(FaultWritable(self.inner.open_write(path)?, self.plan.clone())))
    }
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadableFile>> {
        self.plan.step()?;
        Ok(Arc::new(FaultReadable(self.inner.open_read(path)?, self.plan.clone())))
    }
    fn read(&self, path: &Path, len_bytes_max: u64) -> io::Result<Vec<u8>> {
        self.plan.step()?;
        self.inner.read(path, len_bytes_max)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.plan.step()?;
        self.inner.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.plan.step()?;
        self.inner.remove(path)
    }
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.plan.step()?;
        self.inner.hard_link(from, to)
    }
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.plan.step()?;
        self.inner.create_dir(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.plan.step()?;
        self.inner.remove_dir(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.plan.step()?;
        self.inner.list(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.plan.step()?;
        self.inner.sync_dir(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }
    fn lock(&self, path: &Path, holder: &str) -> io::Result<Box<dyn FileLock>> {
        self.plan.step()?;
        self.inner.lock(path, holder)
    }
    fn free_bytes(&self, path: &Path) -> io::Result<Option<u64>> {
        self.inner.free_bytes(path)
    }
}
