//! A file system in memory that knows what a power failure would leave.
//!
//! Each file keeps the bytes of its last sync and the changes since; each directory keeps the names
//! of its last sync and the changes since. What stays true: a running program sees every change at
//! once; [`CrashFs::crash_image`] is one moment of the whole file system, also while other threads
//! write; a sync of a file says nothing of its name, and a sync of a directory nothing of what is
//! in its files.
//!
//! The models of what survives follow Pillai et al., "All File Systems Are Not Created Equal",
//! OSDI 2014: they are what POSIX allows, not what one file system does.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker::fs::mem::MemFs;
use esker::fs::{DirEntry, FileLock, Fs, ReadableFile, WritableFile, parent_of};
use parking_lot::Mutex;

use crate::rng::SplitMix64;

/// Bytes a device writes whole or not at all.
const SECTOR_BYTES: usize = 512;

/// What of the unsynced changes a crash leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashModel {
    /// Nothing: only synced bytes under synced names.
    SyncedOnly,
    /// Everything: the process died, the machine did not.
    Everything,
    /// Of each file and of each directory the first few changes, as the seed has it; the last
    /// change of a file may be there in part.
    Prefix {
        /// Chooses how much.
        seed: u64,
    },
    /// Any of the changes, sector by sector and name by name, in no order. Where a file grew and
    /// a sector did not reach the device there are zeros.
    Scattered {
        /// Chooses which.
        seed: u64,
    },
}

#[derive(Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    SetLen(usize),
}

#[derive(Default)]
struct Inode {
    now: Vec<u8>,
    synced: Vec<u8>,
    changes: Vec<Change>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Node {
    File(usize),
    Dir,
}

type Names = BTreeMap<OsString, Node>;

/// One change of names; a rename is one change, so it is never seen by half.
#[derive(Clone)]
struct Renaming {
    gone: Option<OsString>,
    set: Option<(OsString, Node)>,
}

#[derive(Default)]
struct Dir {
    now: Names,
    synced: Names,
    changes: Vec<Renaming>,
}

#[derive(Default)]
struct State {
    inodes: Vec<Inode>,
    dirs: BTreeMap<PathBuf, Dir>,
    /// Who holds which lock; a lock freed by force is not freed again by its old holder.
    locks: BTreeMap<PathBuf, u64>,
    lock_count: u64,
}

fn error(kind: io::ErrorKind, message: &str) -> io::Error {
    io::Error::new(kind, message)
}

fn not_found() -> io::Error {
    error(io::ErrorKind::NotFound, "no such file or directory")
}

fn write(bytes: &mut Vec<u8>, offset: usize, new: &[u8]) {
    let end = offset + new.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(new);
}

impl Inode {
    fn change(&mut self, change: Change) {
        apply(&mut self.now, &change);
        self.changes.push(change);
    }

    fn sync(&mut self) {
        for change in self.changes.drain(..) {
            apply(&mut self.synced, &change);
        }
    }

    fn after_crash(&self, model: CrashModel, rng: &mut SplitMix64) -> Vec<u8> {
        match model {
            CrashModel::SyncedOnly => self.synced.clone(),
            CrashModel::Everything => self.now.clone(),
            CrashModel::Prefix { .. } => self.prefix(rng),
            CrashModel::Scattered { .. } => self.scattered(rng),
        }
    }

    fn prefix(&self, rng: &mut SplitMix64) -> Vec<u8> {
        let mut bytes = self.synced.clone();
        let whole = rng.below(self.changes.len() as u64 + 1) as usize;
        for change in &self.changes[..whole] {
            apply(&mut bytes, change);
        }
        if let Some(Change::Write { offset, bytes: new }) = self.changes.get(whole) {
            let part = rng.below(new.len() as u64 + 1) as usize;
            if part > 0 {
                write(&mut bytes, *offset, &new[..part]);
            }
        }
        bytes
    }

    fn scattered(&self, rng: &mut SplitMix64) -> Vec<u8> {
        let mut bytes = self.synced.clone();
        for change in &self.changes {
            let Change::Write { offset, bytes: new } = change else {
                if rng.chance(2) {
                    apply(&mut bytes, change);
                }
                continue;
            };
            let end = offset + new.len();
            let mut at = *offset;
            while at < end {
                let next = end.min((at / SECTOR_BYTES + 1) * SECTOR_BYTES);
                match rng.below(4) {
                    0 => {}
                    // The file grew, the data did not come.
                    1 if bytes.len() < next => bytes.resize(next, 0),
                    _ => write(&mut bytes, at, &new[at - offset..next - offset]),
                }
                at = next;
            }
        }
        bytes
    }
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { offset, bytes: new } => write(bytes, *offset, new),
        Change::SetLen(len) => bytes.resize(*len, 0),
    }
}

fn apply_names(names: &mut Names, change: &Renaming) {
    if let Some(gone) = &change.gone {
        names.remove(gone);
    }
    if let Some((name, node)) = &change.set {
        names.insert(name.clone(), *node);
    }
}

impl Dir {
    fn change(&mut self, gone: Option<OsString>, set: Option<(OsString, Node)>) {
        let change = Renaming { gone, set };
        apply_names(&mut self.now, &change);
        self.changes.push(change);
    }

    fn sync(&mut self) {
        self.changes.clear();
        self.synced = self.now.clone();
    }

    fn after_crash(&self, model: CrashModel, rng: &mut SplitMix64) -> Names {
        let mut names = self.synced.clone();
        match model {
            CrashModel::SyncedOnly => {}
            CrashModel::Everything => names = self.now.clone(),
            CrashModel::Prefix { .. } => {
                let kept = rng.below(self.changes.len() as u64 + 1) as usize;
                self.changes[..kept].iter().for_each(|c| apply_names(&mut names, c));
            }
            CrashModel::Scattered { .. } => {
                let kept = self.changes.iter().filter(|_| rng.chance(2));
                kept.for_each(|c| apply_names(&mut names, c));
            }
        }
        names
    }
}

fn name_of(path: &Path) -> io::Result<OsString> {
    let name = path.file_name().ok_or_else(|| error(io::ErrorKind::InvalidInput, "no name"))?;
    Ok(name.to_os_string())
}

impl State {
    fn dir(&mut self, path: &Path) -> io::Result<&mut Dir> {
        self.dirs.get_mut(path).ok_or_else(not_found)
    }

    fn node(&self, path: &Path) -> Option<Node> {
        if self.dirs.contains_key(path) {
            return Some(Node::Dir);
        }
        self.dirs.get(&parent_of(path))?.now.get(path.file_name()?).copied()
    }

    fn file(&self, path: &Path) -> io::Result<usize> {
        match self.node(path) {
            Some(Node::File(inode)) => Ok(inode),
            Some(Node::Dir) => Err(error(io::ErrorKind::IsADirectory, "is a directory")),
            None => Err(not_found()),
        }
    }

    fn create(&mut self, path: &Path) -> io::Result<usize> {
        if self.node(path).is_some() {
            return Err(error(io::ErrorKind::AlreadyExists, "the file exists"));
        }
        let (inode, name) = (self.inodes.len(), name_of(path)?);
        self.dir(&parent_of(path))?.change(None, Some((name, Node::File(inode))));
        self.inodes.push(Inode::default());
        Ok(inode)
    }
}

/// Files in memory that remember what was synced. The root `/` and the directory `.` are there,
/// durably, from the beginning.
pub struct CrashFs {
    state: Arc<Mutex<State>>,
}

impl CrashFs {
    /// An empty file system.
    pub fn new() -> Arc<CrashFs> {
        let mut state = State::default();
        for root in ["/", "."] {
            state.dirs.insert(PathBuf::from(root), Dir::default());
        }
        Arc::new(CrashFs { state: Arc::new(Mutex::new(state)) })
    }

    /// The files a crash at this moment would leave. This file system is not changed and goes on.
    pub fn crash_image(&self, model: CrashModel) -> Arc<MemFs> {
        let seed = match model {
            CrashModel::Prefix { seed } | CrashModel::Scattered { seed } => seed,
            CrashModel::SyncedOnly | CrashModel::Everything => 0,
        };
        let state = self.state.lock();
        let mut rng = SplitMix64::new(seed);
        // Two names of one file see the same bytes, so each file's fate is drawn once.
        let files: Vec<Vec<u8>> =
            state.inodes.iter().map(|inode| inode.after_crash(model, &mut rng)).collect();
        let image = MemFs::new();
        let mut first_names: BTreeMap<usize, PathBuf> = BTreeMap::new();
        let mut alive: BTreeSet<PathBuf> = [PathBuf::from("/"), PathBuf::from(".")].into();
        // Parents come before what they hold.
        for (path, dir) in &state.dirs {
            let names = dir.after_crash(model, &mut rng);
            if !alive.contains(path) {
                continue;
            }
            for (name, node) in names {
                let child = if path == Path::new(".") { name.into() } else { path.join(name) };
                let made = match node {
                    Node::Dir if state.dirs.contains_key(&child) => {
                        alive.insert(child.clone());
                        image.create_dir(&child)
                    }
                    Node::Dir => Ok(()),
                    Node::File(inode) => match first_names.get(&inode) {
                        Some(first) => image.hard_link(first, &child),
                        None => {
                            first_names.insert(inode, child.clone());
                            image.create_new(&child).and_then(|mut f| f.append(&files[inode]))
                        }
                    },
                };
                made.unwrap_or_else(|e| panic!("crash image of {}: {e}", child.display()));
            }
        }
        image
    }

    /// Bytes of all files that are not synced yet, counted per change.
    pub fn unsynced_bytes(&self) -> u64 {
        let state = self.state.lock();
        let changes = state.inodes.iter().flat_map(|inode| &inode.changes);
        changes
            .map(|change| match change {
                Change::Write { bytes, .. } => bytes.len() as u64,
                Change::SetLen(_) => 0,
            })
            .sum()
    }

    /// Frees all locks, as the death of the process that holds them does.
    pub fn drop_locks(&self) {
        self.state.lock().locks.clear();
    }
}

struct CrashFile {
    state: Arc<Mutex<State>>,
    inode: usize,
}

impl ReadableFile for CrashFile {
    fn read_exact_at(&self, buf: &mut [u8], offset_bytes: u64) -> io::Result<()> {
        let state = self.state.lock();
        let bytes = &state.inodes[self.inode].now;
        let start = usize::try_from(offset_bytes).unwrap_or(usize::MAX);
        let found = start.checked_add(buf.len()).and_then(|end| bytes.get(start..end));
        let short = || error(io::ErrorKind::UnexpectedEof, "the file is shorter");
        buf.copy_from_slice(found.ok_or_else(short)?);
        Ok(())
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.state.lock().inodes[self.inode].now.len() as u64)
    }
}

impl WritableFile for CrashFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let inode = &mut self.state.lock().inodes[self.inode];
        inode.change(Change::Write { offset: inode.now.len(), bytes: bytes.to_vec() });
        Ok(())
    }

    fn write_at(&mut self, bytes: &[u8], offset_bytes: u64) -> io::Result<()> {
        let inode = &mut self.state.lock().inodes[self.inode];
        inode.change(Change::Write { offset: offset_bytes as usize, bytes: bytes.to_vec() });
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.state.lock().inodes[self.inode].sync();
        Ok(())
    }

    fn set_len(&mut self, len_bytes: u64) -> io::Result<()> {
        self.state.lock().inodes[self.inode].change(Change::SetLen(len_bytes as usize));
        Ok(())
    }
}

struct CrashLock {
    state: Arc<Mutex<State>>,
    path: PathBuf,
    ticket: u64,
}

impl FileLock for CrashLock {}

impl Drop for CrashLock {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        if state.locks.get(&self.path) == Some(&self.ticket) {
            state.locks.remove(&self.path);
        }
    }
}

impl CrashFs {
    fn open(&self, inode: usize) -> CrashFile {
        CrashFile { state: self.state.clone(), inode }
    }
}

impl Fs for CrashFs {
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        let inode = self.state.lock().create(path)?;
        Ok(Box::new(self.open(inode)))
    }

    fn open_write(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        let inode = self.state.lock().file(path)?;
        Ok(Box::new(self.open(inode)))
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadableFile>> {
        let inode = self.state.lock().file(path)?;
        Ok(Arc::new(self.open(inode)))
    }

    fn read(&self, path: &Path, len_bytes_max: u64) -> io::Result<Vec<u8>> {
        let state = self.state.lock();
        let bytes = &state.inodes[state.file(path)?].now;
        if bytes.len() as u64 > len_bytes_max {
            return Err(error(io::ErrorKind::InvalidData, "the file is too long"));
        }
        Ok(bytes.clone())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let inode = state.file(from)?;
        if state.node(to) == Some(Node::Dir) {
            return Err(error(io::ErrorKind::IsADirectory, "is a directory"));
        }
        let (old, new) = (name_of(from)?, name_of(to)?);
        if parent_of(from) != parent_of(to) {
            return Err(error(io::ErrorKind::Unsupported, "a rename to another directory"));
        }
        if old != new {
            state.dir(&parent_of(to))?.change(Some(old), Some((new, Node::File(inode))));
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.file(path)?;
        let name = name_of(path)?;
        state.dir(&parent_of(path))?.change(Some(name), None);
        Ok(())
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let inode = state.file(from)?;
        if state.node(to).is_some() {
            return Err(error(io::ErrorKind::AlreadyExists, "the file exists"));
        }
        let name = name_of(to)?;
        state.dir(&parent_of(to))?.change(None, Some((name, Node::File(inode))));
        Ok(())
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        match state.node(path) {
            Some(Node::Dir) => return Ok(()),
            Some(Node::File(_)) => {
                return Err(error(io::ErrorKind::AlreadyExists, "a file has this name"));
            }
            None => {}
        }
        let name = name_of(path)?;
        state.dir(&parent_of(path))?.change(None, Some((name, Node::Dir)));
        state.dirs.insert(path.to_path_buf(), Dir::default());
        Ok(())
    }

    /// The contents of a removed directory are gone at once, in every model.
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        if !state.dir(path)?.now.is_empty() {
            return Err(error(io::ErrorKind::DirectoryNotEmpty, "not empty"));
        }
        let name = name_of(path)?;
        state.dirs.remove(path);
        state.dir(&parent_of(path))?.change(Some(name), None);
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let state = self.state.lock();
        let dir = state.dirs.get(path).ok_or_else(not_found)?;
        let entry = |(name, node): (&OsString, &Node)| DirEntry {
            name: name.to_string_lossy().into_owned(),
            is_file: *node != Node::Dir,
            len_bytes: match node {
                Node::File(inode) => state.inodes[*inode].now.len() as u64,
                Node::Dir => 0,
            },
        };
        Ok(dir.now.iter().map(entry).collect())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.state.lock().dir(path)?.sync();
        Ok(())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.state.lock().node(path).is_some())
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<Box<dyn FileLock>> {
        let mut state = self.state.lock();
        if state.locks.contains_key(path) {
            return Err(error(io::ErrorKind::WouldBlock, "another has the lock"));
        }
        let inode = match state.node(path) {
            None => state.create(path)?,
            Some(_) => state.file(path)?,
        };
        let inode = &mut state.inodes[inode];
        inode.change(Change::SetLen(0));
        inode.change(Change::Write { offset: 0, bytes: holder.as_bytes().to_vec() });
        state.lock_count += 1;
        let ticket = state.lock_count;
        state.locks.insert(path.to_path_buf(), ticket);
        Ok(Box::new(CrashLock { state: self.state.clone(), path: path.to_path_buf(), ticket }))
    }

    fn free_bytes(&self, _path: &Path) -> io::Result<Option<u64>> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
