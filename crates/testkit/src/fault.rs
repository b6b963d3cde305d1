//! A file system that fails on command: the N-th operation of selected kinds returns an error,
//! either once or from then on. It also counts every operation.
//!
//! Invariants: without an armed fault it changes nothing. A failed operation has no effect, except
//! that a write may leave part of its bytes, as the kernel's writes may.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker::fs::{DirEntry, FileLock, Fs, ReadableFile, WritableFile};
use parking_lot::Mutex;

/// A kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Op {
    /// `create_new`.
    Create,
    /// `append` and `write_at`.
    Write,
    /// `sync` of a file.
    Sync,
    /// `sync_dir`.
    SyncDir,
    /// `rename`.
    Rename,
    /// `remove`.
    Remove,
    /// `hard_link`.
    Link,
    /// `read` and `read_exact_at`.
    Read,
    /// `open_read` and `open_write`.
    Open,
    /// `list` and `exists`.
    List,
    /// `set_len`.
    SetLen,
    /// `create_dir` and `remove_dir`.
    Dir,
    /// `len_bytes`.
    Len,
    /// `lock`.
    Lock,
}

/// Number of kinds of operations.
const OPS: usize = Op::Lock as usize + 1;

/// A set of [`Op`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpMask(u16);

impl OpMask {
    /// Every operation.
    pub const ALL: OpMask = OpMask((1 << OPS) - 1);
    /// Every operation that changes stored data or makes it durable.
    pub const CHANGES: OpMask = OpMask::of(&[
        Op::Create,
        Op::Write,
        Op::Sync,
        Op::SyncDir,
        Op::Rename,
        Op::Remove,
        Op::Link,
        Op::SetLen,
        Op::Dir,
        Op::Lock,
    ]);
    /// Every operation that needs space on the device.
    pub const GROWTH: OpMask = OpMask::of(&[Op::Create, Op::Write, Op::Link, Op::Dir]);

    /// Returns the set of `ops`.
    pub const fn of(ops: &[Op]) -> OpMask {
        let mut bits = 0;
        let mut index = 0;
        while index < ops.len() {
            bits |= 1 << ops[index] as u16;
            index += 1;
        }
        OpMask(bits)
    }

    /// Returns whether `op` is in the set.
    pub const fn contains(self, op: Op) -> bool {
        self.0 & (1 << op as u16) != 0
    }
}

/// The effect of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// The device is full. A write leaves half of its bytes.
    NoSpace,
    /// The user's quota is used up. A write leaves half of its bytes.
    Quota,
    /// An input/output error. A write leaves nothing.
    Io,
    /// A write leaves all but its last byte and returns an error. Any other operation fails as with
    /// `Io`.
    ShortWrite,
    /// The file is shorter than expected. A write leaves nothing.
    UnexpectedEof,
    /// The process ends: the callback given to [`FaultFs::at_death`] is called and does not return.
    /// A write leaves half of its bytes.
    Death,
}

impl FaultKind {
    fn error(self) -> io::Error {
        let kind = match self {
            FaultKind::NoSpace => io::ErrorKind::StorageFull,
            FaultKind::Quota => io::ErrorKind::QuotaExceeded,
            FaultKind::Io | FaultKind::Death => io::ErrorKind::Other,
            FaultKind::ShortWrite => io::ErrorKind::WriteZero,
            FaultKind::UnexpectedEof => io::ErrorKind::UnexpectedEof,
        };
        io::Error::new(kind, "a fault of the test")
    }

    /// Returns the number of bytes that a failed write of `len` bytes leaves.
    fn written(self, len: usize) -> usize {
        match self {
            FaultKind::NoSpace | FaultKind::Quota | FaultKind::Death => len / 2,
            FaultKind::ShortWrite => len.saturating_sub(1),
            FaultKind::Io | FaultKind::UnexpectedEof => 0,
        }
    }
}

/// The operation that fails, and the kind of failure.
#[derive(Debug, Clone)]
pub struct Fault {
    /// The kinds of operations that count and fail.
    pub ops: OpMask,
    /// Restricts the fault to paths whose file name contains this text; empty for all paths. A
    /// rename or link is matched by its new name.
    pub name_contains: String,
    /// Number of the first failing operation, counted from arming. 1 is the very next operation.
    pub nth: u64,
    /// Whether every later operation fails too.
    pub for_ever: bool,
    /// The kind of failure.
    pub kind: FaultKind,
}

impl Fault {
    /// Returns a fault in which the `nth` operation in `ops` fails once with `kind`.
    pub fn once(ops: OpMask, nth: u64, kind: FaultKind) -> Fault {
        Fault { ops, name_contains: String::new(), nth, for_ever: false, kind }
    }

    /// Returns a fault in which the `nth` operation in `ops` and all later ones fail with `kind`.
    pub fn for_ever(ops: OpMask, nth: u64, kind: FaultKind) -> Fault {
        Fault { for_ever: true, ..Fault::once(ops, nth, kind) }
    }

    /// Restricts the fault to file names that contain `part`.
    pub fn on(mut self, part: &str) -> Fault {
        self.name_contains = part.to_string();
        self
    }
}

/// Callback that ends the process at an operation on a file.
pub type Death = Arc<dyn Fn(Op, &Path) + Send + Sync>;

/// Number of operations of each kind, including failed ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    operations: [u64; OPS],
    /// Bytes of successful writes.
    pub written_bytes: u64,
    /// Bytes of successful reads.
    pub read_bytes: u64,
}

impl Counts {
    /// Returns the number of operations `op`.
    pub fn of(&self, op: Op) -> u64 {
        self.operations[op as usize]
    }

    /// Returns the number of all operations.
    pub fn total(&self) -> u64 {
        self.operations.iter().sum()
    }
}

#[derive(Default)]
struct State {
    counts: Counts,
    fault: Option<Fault>,
    /// Number of operations that matched the armed fault.
    matched: u64,
    hits: u64,
    death: Option<Death>,
}

/// The state shared by a [`FaultFs`] and its files.
#[derive(Clone, Default)]
struct Plan(Arc<Mutex<State>>);

impl Plan {
    /// Counts an operation. Returns the kind of failure if the operation is to fail.
    fn fault(&self, op: Op, path: &Path) -> Option<FaultKind> {
        let state = &mut *self.0.lock();
        state.counts.operations[op as usize] += 1;
        let fault = state.fault.as_ref()?;
        let named = fault.name_contains.is_empty()
            || path.file_name().is_some_and(|n| n.to_string_lossy().contains(&fault.name_contains));
        if !named || !fault.ops.contains(op) {
            return None;
        }
        state.matched += 1;
        let due = state.matched == fault.nth || (fault.for_ever && state.matched > fault.nth);
        state.hits += u64::from(due);
        due.then_some(fault.kind)
    }

    fn step(&self, op: Op, path: &Path) -> io::Result<()> {
        self.fault(op, path).map_or(Ok(()), |kind| Err(self.failed(kind, op, path)))
    }

    /// Returns the caller's error, if the process survives.
    fn failed(&self, kind: FaultKind, op: Op, path: &Path) -> io::Error {
        let death = self.0.lock().death.clone().filter(|_| kind == FaultKind::Death);
        if let Some(death) = death {
            death(op, path);
        }
        kind.error()
    }
}

/// A file system that passes every operation to another one, except for the fault.
pub struct FaultFs {
    inner: Arc<dyn Fs>,
    plan: Plan,
}

impl FaultFs {
    /// Creates a file system over `inner` without a fault.
    pub fn new(inner: Arc<dyn Fs>) -> Arc<FaultFs> {
        Arc::new(FaultFs { inner, plan: Plan::default() })
    }

    /// Arms a fault and replaces the previous one, also for open files. The count to its `nth`
    /// operation starts now.
    pub fn arm(&self, fault: Fault) {
        let mut state = self.plan.0.lock();
        (state.fault, state.matched, state.hits) = (Some(fault), 0, 0);
    }

    /// Sets the callback of [`FaultKind::Death`].
    pub fn at_death(&self, death: Death) {
        self.plan.0.lock().death = Some(death);
    }

    /// Removes the fault. [`FaultFs::hits`] keeps its value.
    pub fn disarm(&self) {
        self.plan.0.lock().fault = None;
    }

    /// Returns the number of operations failed by the last armed fault.
    pub fn hits(&self) -> u64 {
        self.plan.0.lock().hits
    }

    /// Returns the operations and bytes since creation.
    pub fn counts(&self) -> Counts {
        self.plan.0.lock().counts.clone()
    }
}

struct FaultReadable {
    inner: Arc<dyn ReadableFile>,
    plan: Plan,
    path: PathBuf,
}

impl ReadableFile for FaultReadable {
    fn read_exact_at(&self, buf: &mut [u8], offset_bytes: u64) -> io::Result<()> {
        self.plan.step(Op::Read, &self.path)?;
        self.inner.read_exact_at(buf, offset_bytes)?;
        self.plan.0.lock().counts.read_bytes += buf.len() as u64;
        Ok(())
    }

    fn len_bytes(&self) -> io::Result<u64> {
        self.plan.step(Op::Len, &self.path)?;
        self.inner.len_bytes()
    }
}

struct FaultWritable {
    inner: Box<dyn WritableFile>,
    plan: Plan,
    path: PathBuf,
}

impl FaultWritable {
    fn write(
        &mut self,
        bytes: &[u8],
        put: impl FnOnce(&mut dyn WritableFile, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        if let Some(kind) = self.plan.fault(Op::Write, &self.path) {
            let part = kind.written(bytes.len());
            if part > 0 {
                put(&mut *self.inner, &bytes[..part])?;
            }
            return Err(self.plan.failed(kind, Op::Write, &self.path));
        }
        put(&mut *self.inner, bytes)?;
        self.plan.0.lock().counts.written_bytes += bytes.len() as u64;
        Ok(())
    }
}

impl WritableFile for FaultWritable {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write(bytes, |file, bytes| file.append(bytes))
    }

    fn write_at(&mut self, bytes: &[u8], offset_bytes: u64) -> io::Result<()> {
        self.write(bytes, |file, bytes| file.write_at(bytes, offset_bytes))
    }

    fn write_behind_end(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write(bytes, |file, bytes| file.write_behind_end(bytes))
    }

    fn sync(&mut self) -> io::Result<()> {
        self.plan.step(Op::Sync, &self.path)?;
        self.inner.sync()
    }

    fn set_len(&mut self, len_bytes: u64) -> io::Result<()> {
        self.plan.step(Op::SetLen, &self.path)?;
        self.inner.set_len(len_bytes)
    }
}

impl FaultFs {
    fn writable(&self, inner: Box<dyn WritableFile>, path: &Path) -> Box<dyn WritableFile> {
        Box::new(FaultWritable { inner, plan: self.plan.clone(), path: path.to_path_buf() })
    }
}

impl Fs for FaultFs {
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        self.plan.step(Op::Create, path)?;
        Ok(self.writable(self.inner.create_new(path)?, path))
    }

    fn create_mapped(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        self.plan.step(Op::Create, path)?;
        Ok(self.writable(self.inner.create_mapped(path)?, path))
    }

    fn open_write(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        self.plan.step(Op::Open, path)?;
        Ok(self.writable(self.inner.open_write(path)?, path))
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadableFile>> {
        self.plan.step(Op::Open, path)?;
        let inner = self.inner.open_read(path)?;
        Ok(Arc::new(FaultReadable { inner, plan: self.plan.clone(), path: path.to_path_buf() }))
    }

    fn read(&self, path: &Path, len_bytes_max: u64) -> io::Result<Vec<u8>> {
        self.plan.step(Op::Read, path)?;
        let bytes = self.inner.read(path, len_bytes_max)?;
        self.plan.0.lock().counts.read_bytes += bytes.len() as u64;
        Ok(bytes)
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        self.inner.resolve(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.plan.step(Op::Rename, to)?;
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.plan.step(Op::Remove, path)?;
        self.inner.remove(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.plan.step(Op::Link, to)?;
        self.inner.hard_link(from, to)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.plan.step(Op::Dir, path)?;
        self.inner.create_dir(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.plan.step(Op::Dir, path)?;
        self.inner.remove_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.plan.step(Op::List, path)?;
        self.inner.list(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.plan.step(Op::SyncDir, path)?;
        self.inner.sync_dir(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.plan.step(Op::List, path)?;
        self.inner.exists(path)
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<Box<dyn FileLock>> {
        self.plan.step(Op::Lock, path)?;
        self.inner.lock(path, holder)
    }

    fn unique_number(&self) -> u64 {
        self.inner.unique_number()
    }

    fn free_bytes(&self, path: &Path) -> io::Result<Option<u64>> {
        self.inner.free_bytes(path)
    }

    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        self.inner.absolute(path)
    }

    fn pinned(&self, dir: &Path) -> io::Result<Option<Arc<dyn Fs>>> {
        let pinned = self.inner.pinned(dir)?;
        let plan = self.plan.clone();
        Ok(pinned.map(|inner| Arc::new(FaultFs { inner, plan }) as Arc<dyn Fs>))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::fs::MemFs;

    fn file(fs: &FaultFs, name: &str) -> Box<dyn WritableFile> {
        fs.create_new(&Path::new("/").join(name)).unwrap()
    }

    #[test]
    fn nth_operation_fails_once() {
        let fs = FaultFs::new(MemFs::new());
        let mut a = file(&fs, "a");
        fs.arm(Fault::once(OpMask::of(&[Op::Sync]), 2, FaultKind::Io));
        a.append(b"x").unwrap();
        a.sync().unwrap();
        a.append(b"y").unwrap();
        assert!(a.sync().is_err());
        a.sync().unwrap();
        assert_eq!(fs.hits(), 1);
        assert_eq!(fs.counts().of(Op::Sync), 3);
        assert_eq!((fs.counts().of(Op::Write), fs.counts().written_bytes), (2, 2));
        assert_eq!(fs.counts().total(), 6);
    }

    #[test]
    fn permanent_fault_lasts_until_disarmed_and_matches_name() {
        let fs = FaultFs::new(MemFs::new());
        let (mut log, mut table) = (file(&fs, "1.wal"), file(&fs, "2.sst"));
        fs.arm(Fault::for_ever(OpMask::GROWTH, 1, FaultKind::NoSpace).on(".wal"));
        for _ in 0..3 {
            let error = log.append(b"1234").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
            table.append(b"1234").unwrap();
        }
        fs.disarm();
        log.append(b"!").unwrap();
        assert_eq!(fs.hits(), 3);
        assert_eq!(fs.read(Path::new("/1.wal"), 99).unwrap(), b"121212!");
    }

    #[test]
    fn failed_write_leaves_bytes_of_its_kind() {
        for (kind, left) in [
            (FaultKind::NoSpace, "12"),
            (FaultKind::Quota, "12"),
            (FaultKind::Io, ""),
            (FaultKind::ShortWrite, "123"),
            (FaultKind::UnexpectedEof, ""),
        ] {
            let fs = FaultFs::new(MemFs::new());
            let mut a = file(&fs, "a");
            fs.arm(Fault::once(OpMask::of(&[Op::Write]), 1, kind));
            assert!(a.append(b"1234").is_err());
            assert_eq!(fs.read(Path::new("/a"), 99).unwrap(), left.as_bytes(), "{kind:?}");
        }
    }

    #[test]
    fn every_kind_of_operation_can_fail() {
        let path = Path::new("/a");
        let fs = FaultFs::new(MemFs::new());
        let mut a = file(&fs, "a");
        a.append(b"1").unwrap();
        let open = fs.open_read(path).unwrap();
        fs.arm(Fault::for_ever(OpMask::ALL, 1, FaultKind::Io));
        assert!(fs.create_new(Path::new("/b")).is_err() && fs.open_write(path).is_err());
        assert!(fs.open_read(path).is_err() && fs.read(path, 9).is_err());
        assert!(open.read_exact_at(&mut [0], 0).is_err() && open.len_bytes().is_err());
        assert!(fs.rename(path, Path::new("/b")).is_err() && fs.remove(path).is_err());
        assert!(fs.hard_link(path, Path::new("/b")).is_err());
        assert!(fs.create_dir(Path::new("/d")).is_err() && fs.remove_dir(path).is_err());
        assert!(fs.list(Path::new("/")).is_err() && fs.exists(path).is_err());
        assert!(fs.sync_dir(Path::new("/")).is_err() && fs.lock(path, "me").is_err());
        assert!(a.append(b"2").is_err() && a.write_at(b"2", 0).is_err());
        assert!(a.sync().is_err() && a.set_len(0).is_err());
        assert_eq!(fs.hits(), 19);
        fs.disarm();
        assert_eq!(fs.read(path, 9).unwrap(), b"1");
    }
}
