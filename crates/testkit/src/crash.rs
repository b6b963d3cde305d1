//! A file system in memory that computes the state after a power failure.
//!
//! Each file keeps the bytes of its last sync and the changes since. Each directory keeps the names
//! of its last sync and the changes since.
//!
//! Invariants:
//! 1. A running program sees every change at once.
//! 2. [`CrashFs::crash_image`] is one moment of the whole file system, also while other threads
//!    write.
//! 3. A sync of a file does not make its name durable, and a sync of a directory does not make the
//!    content of its files durable.
//!
//! A [`CrashFs`] is one process's view of the disk. After [`CrashFs::next_process`] the old view
//! and every file opened through it return errors, and their locks are released.

mod image;
mod model;
mod names;
mod nodes;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker::fs::MemFs;
use esker::fs::{DirEntry, FileLock, Fs, ReadableFile, WritableFile};
use parking_lot::{Mutex, MutexGuard};

pub use image::Image;
pub use model::CrashModel;

use names::{Dir, Names, Node};
use nodes::{Change, Inode};

use crate::rng::SplitMix64;

/// Step, in bytes, in which the length of a memory-mapped file grows ahead of the appended data.
const WINDOW_BYTES: usize = 4096;

/// Deliberate errors of the disk, which a test of the tests has to detect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flaws {
    /// A sync of a file does nothing and reports success.
    pub sync_ignored: bool,
    /// A sync of a directory does nothing and reports success.
    pub dir_sync_ignored: bool,
    /// A truncation of a file does nothing and reports success.
    pub cut_ignored: bool,
    /// As `sync_ignored`, for files that are created with this extension or with this name.
    pub sync_ignored_of: Option<&'static str>,
}

#[derive(Default)]
struct State {
    inodes: Vec<Inode>,
    /// All directories ever created: a crash may restore a removed one.
    dirs: Vec<Dir>,
    /// The existing directories.
    paths: BTreeMap<PathBuf, usize>,
    name_changes: u64,
    /// The ticket of each lock's holder. The old holder of a forcibly released lock does not
    /// release it again.
    locks: BTreeMap<PathBuf, u64>,
    lock_count: u64,
    /// Number of the live process. Views of earlier processes are dead.
    process: u64,
    unique: SplitMix64,
    flaws: Flaws,
    /// Number of file syncs until one fails, and whether all later ones fail too. A failed sync
    /// drops the changes that it should have made durable.
    failing_sync: Option<(u64, bool)>,
    failed_syncs: u64,
}

fn error(kind: io::ErrorKind, message: &str) -> io::Error {
    io::Error::new(kind, message)
}

fn not_found() -> io::Error {
    error(io::ErrorKind::NotFound, "no such file or directory")
}

/// Returns the parent directory of `path`.
fn parent_of(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

fn name_of(path: &Path) -> io::Result<OsString> {
    let name = path.file_name().ok_or_else(|| error(io::ErrorKind::InvalidInput, "no name"))?;
    Ok(name.to_os_string())
}

impl State {
    fn dir(&self, path: &Path) -> io::Result<usize> {
        self.paths.get(path).copied().ok_or_else(not_found)
    }

    fn add_dir(&mut self, path: &Path) -> Node {
        self.paths.insert(path.to_path_buf(), self.dirs.len());
        self.dirs.push(Dir::default());
        Node::Dir(self.dirs.len() - 1)
    }

    /// Returns the directory of a path, and the name in it.
    fn place(&self, path: &Path) -> io::Result<(usize, OsString)> {
        Ok((self.dir(parent_of(path))?, name_of(path)?))
    }

    fn set_name(&mut self, path: &Path, node: Node) -> io::Result<()> {
        let (dir, name) = self.place(path)?;
        self.change_names(dir, None, Some((name, node)), BTreeSet::new());
        Ok(())
    }

    fn node(&self, path: &Path) -> Option<Node> {
        if let Some(dir) = self.paths.get(path) {
            return Some(Node::Dir(*dir));
        }
        let above = self.dir(parent_of(path)).ok()?;
        self.dirs[above].now.get(path.file_name()?).copied()
    }

    fn file(&self, path: &Path) -> io::Result<usize> {
        match self.node(path) {
            Some(Node::File(inode)) => Ok(inode),
            Some(Node::Dir(_)) => Err(error(io::ErrorKind::IsADirectory, "is a directory")),
            None => Err(not_found()),
        }
    }

    fn create(&mut self, path: &Path) -> io::Result<usize> {
        if self.node(path).is_some() {
            return Err(error(io::ErrorKind::AlreadyExists, "the file exists"));
        }
        let inode = self.inodes.len();
        self.set_name(path, Node::File(inode))?;
        let ignored = self.flaws.sync_ignored_of.map(std::ffi::OsStr::new);
        let is_named = ignored == path.extension() || ignored == path.file_name();
        let sync_ignored = ignored.is_some() && is_named;
        self.inodes.push(Inode { sync_ignored, ..Inode::default() });
        Ok(inode)
    }
}

type Watcher = Arc<dyn Fn(&CrashFs) + Send + Sync>;

#[derive(Default)]
struct Disk {
    state: Mutex<State>,
    watcher: Mutex<Option<Watcher>>,
}

/// Files in memory with a record of synced data. The root `/` and the directory `.` exist, durably,
/// from the beginning.
#[derive(Clone)]
pub struct CrashFs {
    disk: Arc<Disk>,
    process: u64,
}

impl CrashFs {
    /// Creates an empty file system.
    pub fn new() -> Arc<CrashFs> {
        CrashFs::seeded(0)
    }

    /// Creates an empty file system whose [`Fs::unique_number`]s follow from the seed.
    pub fn seeded(seed: u64) -> Arc<CrashFs> {
        let disk = Disk::default();
        {
            let mut state = disk.state.lock();
            state.unique = SplitMix64::new(seed);
            for root in ["/", "."] {
                state.add_dir(Path::new(root));
            }
        }
        Arc::new(CrashFs { disk: Arc::new(disk), process: 0 })
    }

    /// Calls `watcher` after every operation that changes data or makes it durable, and replaces
    /// the previous watcher. The watcher must not write to this file system.
    pub fn watch(&self, watcher: impl Fn(&CrashFs) + Send + Sync + 'static) {
        *self.disk.watcher.lock() = Some(Arc::new(watcher));
    }

    /// Removes the watcher.
    pub fn unwatch(&self) {
        *self.disk.watcher.lock() = None;
    }

    /// Sets the disk's deliberate errors.
    pub fn set_flaws(&self, flaws: Flaws) {
        self.disk.state.lock().flaws = flaws;
    }

    /// Makes the `nth` file sync from now fail and drop the changes that it should have made
    /// durable. With `for_ever`, all later syncs fail too.
    pub fn fail_sync(&self, nth: u64, for_ever: bool) {
        self.disk.state.lock().failing_sync = Some((nth, for_ever));
    }

    /// Makes syncs succeed again.
    pub fn heal_syncs(&self) {
        self.disk.state.lock().failing_sync = None;
    }

    /// Returns the number of failed syncs.
    pub fn failed_syncs(&self) -> u64 {
        self.disk.state.lock().failed_syncs
    }

    /// Ends the process and starts another. Files opened through this view return errors from now
    /// on, and locks are released.
    pub fn next_process(&self) -> Arc<CrashFs> {
        let mut state = self.disk.state.lock();
        state.process += 1;
        state.locks.clear();
        Arc::new(CrashFs { disk: self.disk.clone(), process: state.process })
    }

    /// Returns the files after a crash at this moment. This file system does not change and
    /// continues.
    pub fn crash_image(&self, model: CrashModel) -> Arc<MemFs> {
        self.image(model).to_mem()
    }

    /// Returns [`CrashFs::crash_image`] as a value.
    pub fn image(&self, model: CrashModel) -> Image {
        let state = self.disk.state.lock();
        let mut rng = SplitMix64::new(model.seed());
        // Two names of one file see the same bytes, so each file's outcome is drawn once.
        let contents = model::contents(&state.inodes, model, &mut rng);
        let names = state.names_after(model, &mut rng);
        let mut image = Image { contents, ..Image::default() };
        // Parents come before their content.
        let roots = ["/", "."].map(PathBuf::from);
        let mut reached: VecDeque<(PathBuf, usize)> = roots.into_iter().zip(0..).collect();
        while let Some((path, dir)) = reached.pop_front() {
            for (name, node) in &names[dir] {
                let child = if path == Path::new(".") { name.into() } else { path.join(name) };
                match *node {
                    Node::Dir(dir) => {
                        image.dirs.push(child.clone());
                        reached.push_back((child, dir));
                    }
                    Node::File(inode) => {
                        image.files.insert(child, inode);
                    }
                }
            }
        }
        image
    }

    /// Returns the unsynced bytes of all files, counted per change.
    pub fn unsynced_bytes(&self) -> u64 {
        let state = self.disk.state.lock();
        let changes = state.inodes.iter().flat_map(|inode| &inode.changes);
        changes
            .map(|change| match change {
                Change::Write { bytes, .. } => bytes.len() as u64,
                Change::SetLen(_) => 0,
            })
            .sum()
    }

    /// Makes all changes durable.
    pub fn sync_everything(&self) {
        let mut state = self.disk.state.lock();
        state.inodes.iter_mut().for_each(Inode::sync);
        state.dirs.iter_mut().for_each(Dir::sync);
    }

    /// Releases all locks, as the death of their process does.
    pub fn drop_locks(&self) {
        self.disk.state.lock().locks.clear();
    }

    /// Returns the state, or an error if this view's process is dead.
    fn state(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.disk.state.lock();
        if state.process == self.process {
            return Ok(state);
        }
        Err(error(io::ErrorKind::Other, "this process is dead"))
    }

    /// Calls the watcher. The state's lock must be free.
    fn changed(&self) {
        let watcher = self.disk.watcher.lock().clone();
        if let Some(watcher) = watcher {
            watcher(self);
        }
    }

    /// Applies a change, and calls the watcher if the change succeeds.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let made = change(&mut *self.state()?)?;
        self.changed();
        Ok(made)
    }

    fn open(&self, inode: usize) -> CrashFile {
        CrashFile { fs: self.clone(), inode }
    }
}

struct CrashFile {
    fs: CrashFs,
    inode: usize,
}

impl ReadableFile for CrashFile {
    fn read_exact_at(&self, buf: &mut [u8], offset_bytes: u64) -> io::Result<()> {
        let state = self.fs.state()?;
        let bytes = &state.inodes[self.inode].now;
        let start = usize::try_from(offset_bytes).unwrap_or(usize::MAX);
        let found = start.checked_add(buf.len()).and_then(|end| bytes.get(start..end));
        let short =
            || error(io::ErrorKind::UnexpectedEof, "the file is shorter than the requested range");
        buf.copy_from_slice(found.ok_or_else(short)?);
        Ok(())
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.fs.state()?.inodes[self.inode].now.len() as u64)
    }
}

impl WritableFile for CrashFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.fs.change(|state| {
            state.inodes[self.inode].append(bytes);
            Ok(())
        })
    }

    fn write_at(&mut self, bytes: &[u8], offset_bytes: u64) -> io::Result<()> {
        self.fs.change(|state| {
            let change = Change::Write { offset: offset_bytes as usize, bytes: bytes.to_vec() };
            state.inodes[self.inode].change(change);
            Ok(())
        })
    }

    fn write_behind_end(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.fs.change(|state| {
            state.inodes[self.inode].write_behind_end(bytes);
            Ok(())
        })
    }

    fn sync(&mut self) -> io::Result<()> {
        self.fs.change(|state| {
            if let Some((left, for_ever)) = &mut state.failing_sync {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    if !*for_ever {
                        state.failing_sync = None;
                    }
                    state.failed_syncs += 1;
                    state.inodes[self.inode].drop_changes();
                    return Err(error(io::ErrorKind::Other, "a failed sync of the test"));
                }
            }
            if !state.flaws.sync_ignored && !state.inodes[self.inode].sync_ignored {
                state.inodes[self.inode].sync();
            }
            Ok(())
        })
    }

    fn set_len(&mut self, len_bytes: u64) -> io::Result<()> {
        self.fs.change(|state| {
            if !state.flaws.cut_ignored {
                state.inodes[self.inode].set_len(len_bytes as usize);
            }
            Ok(())
        })
    }
}

struct CrashLock {
    disk: Arc<Disk>,
    path: PathBuf,
    ticket: u64,
}

impl FileLock for CrashLock {}

impl Drop for CrashLock {
    fn drop(&mut self) {
        let mut state = self.disk.state.lock();
        if state.locks.get(&self.path) == Some(&self.ticket) {
            state.locks.remove(&self.path);
        }
    }
}

impl Fs for CrashFs {
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        let inode = self.change(|state| state.create(path))?;
        Ok(Box::new(self.open(inode)))
    }

    fn create_mapped(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        let inode = self.change(|state| {
            let inode = state.create(path)?;
            state.inodes[inode].mapped = true;
            state.inodes[inode].end = Some(0);
            Ok(inode)
        })?;
        Ok(Box::new(self.open(inode)))
    }

    fn open_write(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        let inode = self.state()?.file(path)?;
        Ok(Box::new(self.open(inode)))
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadableFile>> {
        let inode = self.state()?.file(path)?;
        Ok(Arc::new(self.open(inode)))
    }

    fn read(&self, path: &Path, len_bytes_max: u64) -> io::Result<Vec<u8>> {
        let state = self.state()?;
        let bytes = &state.inodes[state.file(path)?].now;
        if bytes.len() as u64 > len_bytes_max {
            return Err(error(io::ErrorKind::InvalidData, "the file is too long"));
        }
        Ok(bytes.to_vec())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(|state| {
            let inode = state.file(from)?;
            let there = state.node(to);
            if matches!(there, Some(Node::Dir(_))) {
                return Err(error(io::ErrorKind::IsADirectory, "is a directory"));
            }
            let (old, new) = (state.place(from)?, state.place(to)?);
            // POSIX: a rename between two names of one file keeps both.
            if there != Some(Node::File(inode)) {
                state.move_name(old, new, Node::File(inode));
            }
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change(|state| {
            state.file(path)?;
            let (dir, name) = state.place(path)?;
            state.change_names(dir, Some(name), None, BTreeSet::new());
            Ok(())
        })
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(|state| {
            let inode = state.file(from)?;
            if state.node(to).is_some() {
                return Err(error(io::ErrorKind::AlreadyExists, "the file exists"));
            }
            state.set_name(to, Node::File(inode))
        })
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.change(|state| {
            match state.node(path) {
                Some(Node::Dir(_)) => return Ok(()),
                Some(Node::File(_)) => {
                    return Err(error(
                        io::ErrorKind::AlreadyExists,
                        "a file with this name exists",
                    ));
                }
                None => {}
            }
            let (above, name) = state.place(path)?;
            let node = state.add_dir(path);
            state.change_names(above, None, Some((name, node)), BTreeSet::new());
            Ok(())
        })
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.change(|state| {
            let dir = state.dir(path)?;
            if !state.dirs[dir].now.is_empty() {
                return Err(error(io::ErrorKind::DirectoryNotEmpty, "not empty"));
            }
            let (above, name) = state.place(path)?;
            state.paths.remove(path);
            state.remove_name_of_dir(above, name, dir);
            Ok(())
        })
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let state = self.state()?;
        let names: &Names = &state.dirs[state.dir(path)?].now;
        let entry = |(name, node): (&OsString, &Node)| DirEntry {
            name: name.to_string_lossy().into_owned(),
            is_file: matches!(node, Node::File(_)),
            len_bytes: match node {
                Node::File(inode) => state.inodes[*inode].now.len() as u64,
                Node::Dir(_) => 0,
            },
        };
        Ok(names.iter().map(entry).collect())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.change(|state| {
            let dir = state.dir(path)?;
            if !state.flaws.dir_sync_ignored {
                state.sync_names(dir);
            }
            Ok(())
        })
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.state()?.node(path).is_some())
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<Box<dyn FileLock>> {
        let ticket = self.change(|state| {
            if state.locks.contains_key(path) {
                return Err(error(io::ErrorKind::WouldBlock, "another handle holds the lock"));
            }
            let inode = match state.node(path) {
                None => state.create(path)?,
                Some(_) => state.file(path)?,
            };
            let inode = &mut state.inodes[inode];
            inode.change(Change::SetLen(0));
            inode.change(Change::Write { offset: 0, bytes: holder.as_bytes().to_vec() });
            state.lock_count += 1;
            state.locks.insert(path.to_path_buf(), state.lock_count);
            Ok(state.lock_count)
        })?;
        let (disk, path) = (self.disk.clone(), path.to_path_buf());
        Ok(Box::new(CrashLock { disk, path, ticket }))
    }

    fn unique_number(&self) -> u64 {
        self.disk.state.lock().unique.next_u64()
    }

    fn free_bytes(&self, _path: &Path) -> io::Result<Option<u64>> {
        Ok(None)
    }
}
