//! A file system in memory, for tests and for stores that need not outlive their process.
//!
//! Invariants:
//! 1. A file is its inode. An unlinked file stays readable through its handles, and a hard link
//!    shares the file's bytes.
//! 2. Sync calls succeed and do nothing.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{DirEntry, FileLock, Fs, ReadableFile, WritableFile};
use crate::base::locks::{Mutex, RwLock};

type Inode = Arc<RwLock<Vec<u8>>>;

#[derive(Clone)]
enum Node {
    File(Inode),
    Dir,
}

/// The file system in memory.
#[derive(Default)]
pub struct MemFs {
    nodes: Mutex<BTreeMap<PathBuf, Node>>,
    locks: Arc<Mutex<Vec<PathBuf>>>,
}

impl MemFs {
    /// Creates an empty file system with a root directory.
    pub fn new() -> Arc<MemFs> {
        Arc::new(MemFs::default())
    }

    fn inode(&self, path: &Path) -> io::Result<Inode> {
        match self.nodes.lock().get(path) {
            Some(Node::File(inode)) => Ok(inode.clone()),
            Some(Node::Dir) => Err(io::Error::new(io::ErrorKind::IsADirectory, "is a directory")),
            None => Err(not_found()),
        }
    }
}

fn not_found() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "no such file or directory")
}

fn is_root(path: &Path) -> bool {
    path.parent().is_none_or(|p| p.as_os_str().is_empty()) && path.file_name().is_none()
        || path == Path::new(".")
}

/// Returns an error unless the parent directory of `path` exists.
fn need_parent(nodes: &BTreeMap<PathBuf, Node>, path: &Path) -> io::Result<()> {
    let parent = super::parent_of(path);
    let there = is_root(&parent) || matches!(nodes.get(&parent), Some(Node::Dir));
    if there { Ok(()) } else { Err(not_found()) }
}

struct MemFile {
    inode: Inode,
    /// Position of the next append while bytes exist behind the end; otherwise `None`.
    end: Option<usize>,
}

impl ReadableFile for MemFile {
    fn read_exact_at(&self, buf: &mut [u8], offset_bytes: u64) -> io::Result<()> {
        let bytes = self.inode.read();
        let start = usize::try_from(offset_bytes).unwrap_or(usize::MAX);
        let found = start.checked_add(buf.len()).and_then(|end| bytes.get(start..end));
        match found {
            Some(found) => {
                buf.copy_from_slice(found);
                Ok(())
            }
            None => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file is shorter than the requested range",
            )),
        }
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.inode.read().len() as u64)
    }
}

impl WritableFile for MemFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.end.take() {
            None => self.inode.write().extend_from_slice(bytes),
            Some(end) => {
                self.write_at(bytes, end as u64)?;
                let end = end + bytes.len();
                self.end = (end < self.inode.read().len()).then_some(end);
            }
        }
        Ok(())
    }

    fn write_behind_end(&mut self, bytes: &[u8]) -> io::Result<()> {
        let end = self.end.take().unwrap_or_else(|| self.inode.read().len());
        self.write_at(bytes, end as u64)?;
        self.end = Some(end);
        Ok(())
    }

    fn write_at(&mut self, bytes: &[u8], offset_bytes: u64) -> io::Result<()> {
        let mut file = self.inode.write();
        let start = offset_bytes as usize;
        let end = start + bytes.len();
        if file.len() < end {
            file.resize(end, 0);
        }
        file[start..end].copy_from_slice(bytes);
        self.end = self.end.map(|before| before.max(end));
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&mut self, len_bytes: u64) -> io::Result<()> {
        self.inode.write().resize(len_bytes as usize, 0);
        self.end = None;
        Ok(())
    }
}

struct MemLock {
    path: PathBuf,
    locks: Arc<Mutex<Vec<PathBuf>>>,
}

impl FileLock for MemLock {}

impl Drop for MemLock {
    fn drop(&mut self) {
        self.locks.lock().retain(|p| *p != self.path);
    }
}

impl Fs for MemFs {
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        let mut nodes = self.nodes.lock();
        need_parent(&nodes, path)?;
        if nodes.contains_key(path) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the file exists"));
        }
        let inode = Inode::default();
        nodes.insert(path.to_path_buf(), Node::File(inode.clone()));
        Ok(Box::new(MemFile { inode, end: None }))
    }

    fn open_write(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        Ok(Box::new(MemFile { inode: self.inode(path)?, end: None }))
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadableFile>> {
        Ok(Arc::new(MemFile { inode: self.inode(path)?, end: None }))
    }

    fn read(&self, path: &Path, len_bytes_max: u64) -> io::Result<Vec<u8>> {
        let bytes = self.inode(path)?.read().clone();
        if bytes.len() as u64 > len_bytes_max {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is too long"));
        }
        Ok(bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let node = Node::File(self.inode(from)?);
        let mut nodes = self.nodes.lock();
        need_parent(&nodes, to)?;
        match (nodes.get(to), &node) {
            (Some(Node::Dir), _) => {
                return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a directory"));
            }
            // As in POSIX, a rename between two names of one file does nothing.
            (Some(Node::File(there)), Node::File(moved)) if Arc::ptr_eq(there, moved) => {}
            _ => {
                nodes.remove(from);
                nodes.insert(to.to_path_buf(), node);
            }
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut nodes = self.nodes.lock();
        match nodes.get(path) {
            Some(Node::File(_)) => {
                nodes.remove(path);
                Ok(())
            }
            Some(Node::Dir) => Err(io::Error::new(io::ErrorKind::IsADirectory, "is a directory")),
            None => Err(not_found()),
        }
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = self.inode(from)?;
        let mut nodes = self.nodes.lock();
        need_parent(&nodes, to)?;
        if nodes.contains_key(to) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the file exists"));
        }
        nodes.insert(to.to_path_buf(), Node::File(inode));
        Ok(())
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mut nodes = self.nodes.lock();
        match nodes.get(path) {
            Some(Node::File(_)) => {
                Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file with this name exists"))
            }
            Some(Node::Dir) => Ok(()),
            None if is_root(path) => Ok(()),
            None => {
                need_parent(&nodes, path)?;
                nodes.insert(path.to_path_buf(), Node::Dir);
                Ok(())
            }
        }
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let mut nodes = self.nodes.lock();
        if matches!(nodes.get(path), Some(Node::File(_))) {
            return Err(io::Error::new(io::ErrorKind::NotADirectory, "is a file"));
        }
        if nodes.keys().any(|p| p.parent() == Some(path)) {
            return Err(io::Error::new(io::ErrorKind::DirectoryNotEmpty, "not empty"));
        }
        nodes.remove(path).map(|_| ()).ok_or_else(not_found)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let nodes = self.nodes.lock();
        if !is_root(path) && !matches!(nodes.get(path), Some(Node::Dir)) {
            return Err(not_found());
        }
        let mut entries = Vec::new();
        for (child, node) in nodes.iter().filter(|(p, _)| super::parent_of(p) == path) {
            let Some(name) = child.file_name() else { continue };
            entries.push(DirEntry {
                name: name.to_string_lossy().into_owned(),
                is_file: matches!(node, Node::File(_)),
                len_bytes: match node {
                    Node::File(inode) => inode.read().len() as u64,
                    Node::Dir => 0,
                },
            });
        }
        Ok(entries)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        if is_root(path) || matches!(self.nodes.lock().get(path), Some(Node::Dir)) {
            return Ok(());
        }
        Err(not_found())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(is_root(path) || self.nodes.lock().contains_key(path))
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<Box<dyn FileLock>> {
        let mut locks = self.locks.lock();
        if locks.iter().any(|p| p == path) {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "another handle holds the lock"));
        }
        let mut nodes = self.nodes.lock();
        need_parent(&nodes, path)?;
        match nodes.get(path) {
            Some(Node::Dir) => {
                return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a directory"));
            }
            Some(Node::File(inode)) => *inode.write() = holder.as_bytes().to_vec(),
            None => {
                let inode = Arc::new(RwLock::new(holder.as_bytes().to_vec()));
                nodes.insert(path.to_path_buf(), Node::File(inode));
            }
        }
        locks.push(path.to_path_buf());
        Ok(Box::new(MemLock { path: path.to_path_buf(), locks: self.locks.clone() }))
    }

    fn free_bytes(&self, _path: &Path) -> io::Result<Option<u64>> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlinked_file_stays_readable_and_links_share_bytes() {
        let fs = MemFs::new();
        let dir = Path::new("/d");
        fs.create_dir(dir).unwrap();
        fs.create_new(&dir.join("a")).unwrap().append(b"12345").unwrap();
        fs.hard_link(&dir.join("a"), &dir.join("b")).unwrap();
        let open = fs.open_read(&dir.join("a")).unwrap();
        fs.remove(&dir.join("a")).unwrap();
        let mut buf = [0; 3];
        open.read_exact_at(&mut buf, 2).unwrap();
        assert_eq!(&buf, b"345");
        assert!(open.read_exact_at(&mut buf, 3).is_err());
        fs.open_write(&dir.join("b")).unwrap().write_at(b"x", 6).unwrap();
        assert_eq!(open.len_bytes().unwrap(), 7);
        let names: Vec<_> = fs.list(dir).unwrap().into_iter().map(|e| e.name).collect();
        assert_eq!(names, ["b"]);
        fs.hard_link(&dir.join("b"), &dir.join("c")).unwrap();
        fs.rename(&dir.join("b"), &dir.join("c")).unwrap();
        assert_eq!(fs.list(dir).unwrap().len(), 2, "a rename to another name of it does nothing");
        let refused = |result: io::Result<()>| result.unwrap_err().kind();
        fs.create_dir(&dir.join("sub")).unwrap();
        let sub = dir.join("sub");
        assert_eq!(refused(fs.rename(&dir.join("b"), &sub)), io::ErrorKind::IsADirectory);
        assert_eq!(refused(fs.lock(&sub, "me").map(drop)), io::ErrorKind::IsADirectory);
        assert_eq!(refused(fs.open_read(&sub).map(drop)), io::ErrorKind::IsADirectory);
        assert!(fs.create_new(Path::new("/none/x")).is_err());
    }
}
