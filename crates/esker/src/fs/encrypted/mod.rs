//! Encryption at rest: a file system that encrypts the files of stores, over another file system.
//!
//! A directory with the file `KEYS` is encrypted. All its files are, but `LOCK` and `KEYS` itself.
//! The names, sizes and times of files stay visible, and with them how much is written when. Whoever
//! can write to the directory can put back an older state of a file, or cut the newest records of a
//! log; he cannot make a file, exchange two, or change bytes without a `Corruption`.
//!
//! Invariants:
//! 1. No file is written in plain: a directory without `KEYS` gets no file. Files of such directories
//!    can be read, so that a store can take in tables that were made elsewhere.
//! 2. A file opens only in a directory whose `KEYS` has its data key, and under its own name. The
//!    temporary name of a file counts as its own name.
//! 3. What is not authentic is an error with path and offset, or, in logs, bytes that no record has.

mod appended;
mod cipher;
mod frames;
mod keys;
mod pages;
mod provider;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::appended::{AppendedFile, FrameWriter, JournalFile};
use self::cipher::{DataKey, FileKey, HEADER_BYTES, Header, Layout};
use self::frames::{FILLER, FRAME_OVERHEAD_BYTES};
use self::keys::KeyRing;
pub use self::keys::RekeyReport;
use self::pages::{PagedFile, PagedWriter};
pub use self::provider::{
    KeyError, KeyFile, KeyProvider, KeyVariable, MASTER_KEY_BYTES, MasterKey,
};
use super::{DirEntry, FileLock, Fs, KEYS, KEYS_NEW, ReadableFile, WritableFile, parent_of};
use crate::base::locks::Mutex;
use crate::error::{Error, Result};

/// The lock of a store or of a directory of backups.
const LOCK: &str = "LOCK";
/// Length up to which a log may be one whose creation a crash interrupted, in bytes.
const NEW_LOG_BYTES: u64 = (HEADER_BYTES + FRAME_OVERHEAD_BYTES + 40) as u64;

/// The keys of each directory.
type Rings = Mutex<BTreeMap<PathBuf, Arc<KeyRing>>>;

/// A file system whose stores are encrypted: every file but `LOCK`, and `KEYS`, which holds the wrapped
/// data keys. The names, sizes and times of files stay visible.
///
/// [`Db::open_on`](crate::Db::open_on) and the other calls with a file system take it. The log is
/// written by system calls: `wal_io=mmap` has no effect. A page of a table that is not in the block
/// cache is decrypted when it is read. Cached blocks are plain.
///
/// A store that was made without encryption is refused, and so is an encrypted one by other file
/// systems. The files of a [`SortedWriter`](crate::ingest::SortedWriter) are made on another file system; an
/// ingest encrypts them.
///
/// ```
/// # fn main() -> esker::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use esker::encryption::{EncryptedFs, MasterKey};
/// use esker::{Db, Options, fs::OsFs};
/// let key = MasterKey::from_bytes([7; 32]);
/// let fs = EncryptedFs::new(OsFs::shared(), key);
/// let db = Db::open_on(fs, dir.path().join("db"), Options::default())?;
/// db.put("name", "secret")?;
/// db.close()?;
/// // Without the key, the store is refused.
/// assert!(Db::open(dir.path().join("db"), Options::default()).is_err());
/// # Ok(())
/// # }
/// ```
pub struct EncryptedFs {
    inner: Arc<dyn Fs>,
    provider: Arc<dyn KeyProvider>,
    /// The keys of directories that were used, if this belongs to one opened store. Otherwise keys are
    /// read again at each use, because the directories may have become others.
    rings: Option<Arc<Rings>>,
}

impl EncryptedFs {
    /// Returns the file system `inner` with encrypted stores, whose master keys come from `provider`.
    #[allow(clippy::new_ret_no_self)] // It is used as a file system only.
    pub fn new(inner: Arc<dyn Fs>, provider: impl KeyProvider) -> Arc<dyn Fs> {
        EncryptedFs::with_provider(inner, Arc::new(provider))
    }

    /// Does the same as [`EncryptedFs::new`], with a shared provider.
    pub fn with_provider(inner: Arc<dyn Fs>, provider: Arc<dyn KeyProvider>) -> Arc<dyn Fs> {
        Arc::new(EncryptedFs { inner, provider, rings: None })
    }

    /// Returns the keys of a directory; `None` if it has none.
    fn ring(&self, dir: &Path) -> io::Result<Option<Arc<KeyRing>>> {
        if let Some(rings) = &self.rings
            && let Some(ring) = rings.lock().get(dir)
        {
            return Ok(Some(ring.clone()));
        }
        self.load_ring(dir)
    }

    fn load_ring(&self, dir: &Path) -> io::Result<Option<Arc<KeyRing>>> {
        let ring = KeyRing::load(&*self.inner, dir, &*self.provider).map_err(io::Error::other)?;
        let ring = ring.map(Arc::new);
        if let (Some(rings), Some(ring)) = (&self.rings, &ring) {
            rings.lock().insert(dir.to_path_buf(), ring.clone());
        }
        Ok(ring)
    }

    /// Returns a data key of a directory that has keys.
    fn data_key(&self, dir: &Path, id: u64) -> io::Result<Option<Arc<DataKey>>> {
        let find = |ring: Option<Arc<KeyRing>>| ring.and_then(|ring| ring.get(id).cloned());
        match find(self.ring(dir)?) {
            Some(key) => Ok(Some(key)),
            // The directory may have got the key since, by a rekey or a link.
            None => Ok(find(self.load_ring(dir)?)),
        }
    }

    /// Opens a file for reading, in plain if its directory has no keys.
    fn open(&self, path: &Path) -> io::Result<Opened> {
        let file = self.inner.open_read(path)?;
        let dir = parent_of(path);
        if is_plain(path) || self.ring(&dir)?.is_none() {
            return Ok(Opened::Plain(file));
        }
        let len_bytes = file.len_bytes()?;
        let opened = match self.file_key(path, &dir, &*file, len_bytes)? {
            Ok((layout, key)) => Opened::Encrypted { file, layout, key: Arc::new(key) },
            // A crash may keep any bytes of a file that was created and not synced yet.
            Err(_) if len_bytes < HEADER_BYTES as u64 || is_side_file(path) => {
                Opened::Unwritten(UnwrittenFile(0))
            }
            Err(_)
                if path.extension().is_some_and(|e| e == "wal") && len_bytes <= NEW_LOG_BYTES =>
            {
                let overhead = (HEADER_BYTES + FRAME_OVERHEAD_BYTES) as u64;
                Opened::Unwritten(UnwrittenFile(len_bytes.saturating_sub(overhead)))
            }
            Err(message) => return Err(io::Error::other(Error::corruption(path, 0, message))),
        };
        Ok(opened)
    }

    /// Returns the layout and the key of a file, or what is wrong with it.
    fn file_key(
        &self,
        path: &Path,
        dir: &Path,
        file: &dyn ReadableFile,
        len_bytes: u64,
    ) -> io::Result<std::result::Result<(Layout, FileKey), &'static str>> {
        let mut bytes = [0; HEADER_BYTES];
        if len_bytes >= HEADER_BYTES as u64 {
            file.read_exact_at(&mut bytes, 0)?;
        }
        let Some(header) = Header::parse(&bytes) else {
            return Ok(Err("expected the header of an encrypted file, found other bytes"));
        };
        let Some(data_key) = self.data_key(dir, header.data_key)? else {
            return Ok(Err(
                "the file is encrypted under a data key that KEYS of this directory does \
                           not have; it is damaged, or belongs to another store",
            ));
        };
        let key = FileKey::open(&data_key, &own_name(path), &header);
        let wrong = "expected the header that this file was written with; it is damaged, or the \
                     file was written under another name";
        Ok(key.map(|key| (header.layout, key)).ok_or(wrong))
    }

    /// Returns the writer of a file. `is_new` says that the file has only its header.
    fn writer(
        &self,
        inner: Box<dyn WritableFile>,
        (key, layout): (Arc<FileKey>, Layout),
        path: &Path,
        is_new: bool,
    ) -> io::Result<Box<dyn WritableFile>> {
        let (fs, from) = (self.inner.clone(), path.to_path_buf());
        let (pages_key, named) = (key.clone(), path.to_path_buf());
        Ok(match layout {
            Layout::Pages => {
                let open = move || PagedFile::new(fs.open_read(&from)?, pages_key.clone(), &named);
                Box::new(PagedWriter::new(inner, key, is_new, Box::new(open))?)
            }
            Layout::Frames | Layout::Journal => {
                let open = move || fs.open_read(&from);
                let about = (is_new, layout == Layout::Journal);
                Box::new(FrameWriter::new(inner, key, about, path, Box::new(open))?)
            }
        })
    }

    /// Returns the key of new files in the directory of `path`.
    fn active_key(&self, path: &Path) -> io::Result<Arc<DataKey>> {
        let ring = self.ring(&parent_of(path))?;
        let active = ring.as_ref().and_then(|ring| ring.active());
        active.cloned().ok_or_else(|| {
            let message = "the directory is not encrypted, and no file is written in plain; write \
                           it on the file system below";
            io::Error::other(Error::invalid(message).with_path(path))
        })
    }

    /// Writes the header of an empty file.
    fn begin(
        &self,
        mut inner: Box<dyn WritableFile>,
        path: &Path,
        active: &DataKey,
    ) -> io::Result<Box<dyn WritableFile>> {
        let layout = layout_of(path);
        let (key, header) = FileKey::create(active, &own_name(path), layout)?;
        inner.append(&header)?;
        self.writer(inner, (Arc::new(key), layout), path, true)
    }

    /// Returns whether a file of `from` opens as `to`. Plain files are not brought into encrypted
    /// directories, nor encrypted files into others.
    fn opens_as(&self, from: &Path, to: &Path) -> io::Result<bool> {
        if self.ring(&parent_of(to))?.is_none() {
            return Ok(self.ring(&parent_of(from))?.is_none());
        }
        let file = self.inner.open_read(from)?;
        let mut bytes = [0; HEADER_BYTES];
        if own_name(from) != own_name(to) || file.len_bytes()? < HEADER_BYTES as u64 {
            return Ok(false);
        }
        file.read_exact_at(&mut bytes, 0)?;
        let Some(header) = Header::parse(&bytes) else { return Ok(false) };
        Ok(self.data_key(&parent_of(to), header.data_key)?.is_some())
    }

    /// Returns the number of bytes of content in an entry of an encrypted directory: exact for
    /// tables, at least that for logs.
    fn content_bytes(&self, path: &Path, entry: &DirEntry) -> u64 {
        match layout_of(path) {
            _ if is_plain(path) || !entry.is_file => entry.len_bytes,
            Layout::Pages => pages::content_len(entry.len_bytes),
            _ => entry.len_bytes.saturating_sub(HEADER_BYTES as u64),
        }
    }
}

/// A file that was opened for reading.
enum Opened {
    Plain(Arc<dyn ReadableFile>),
    Unwritten(UnwrittenFile),
    Encrypted { file: Arc<dyn ReadableFile>, layout: Layout, key: Arc<FileKey> },
}

/// A file that a crash left without its header: an empty one, or bytes that nothing accepts.
struct UnwrittenFile(u64);

impl ReadableFile for UnwrittenFile {
    fn read_exact_at(&self, buf: &mut [u8], offset_bytes: u64) -> io::Result<()> {
        let end = offset_bytes.checked_add(buf.len() as u64);
        if end.is_none_or(|end| end > self.0) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buf.fill(FILLER);
        Ok(())
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.0)
    }
}

/// The writer of a file without a header: it can only be synced.
struct UnwrittenWriter(Box<dyn WritableFile>);

fn without_header() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "the file has no header of an encrypted file")
}

impl WritableFile for UnwrittenWriter {
    fn append(&mut self, _: &[u8]) -> io::Result<()> {
        Err(without_header())
    }

    fn write_at(&mut self, _: &[u8], _: u64) -> io::Result<()> {
        Err(without_header())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync()
    }

    fn set_len(&mut self, _: u64) -> io::Result<()> {
        Err(without_header())
    }
}

fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Returns whether the file is never encrypted.
fn is_plain(path: &Path) -> bool {
    [LOCK, KEYS, KEYS_NEW].contains(&name_of(path))
}

/// Returns whether the file tells of the store and holds none of its data. It is begun again where it
/// is unreadable.
fn is_side_file(path: &Path) -> bool {
    ["LOG", "LOG.old", "STATUS"].contains(&name_of(path))
}

/// Returns the name that a file is bound to, without the suffix of a temporary or former name.
fn own_name(path: &Path) -> Vec<u8> {
    let name = path.file_name().map(|name| name.as_encoded_bytes()).unwrap_or_default();
    let name = name.strip_suffix(b".new").or_else(|| name.strip_suffix(b".old")).unwrap_or(name);
    // The change feed keeps ingested tables under a second name, which ends with the table's number.
    let kept = name.strip_prefix(b"ingested-").and_then(|name| name.rsplit(|b| *b == b'-').next());
    let table = kept.and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u64>().ok());
    table.map_or_else(|| name.to_vec(), |number| format!("{number:06}.sst").into_bytes())
}

/// Returns the layout of a new file: logs are appended to, `CURRENT` has parts that are replaced in
/// turn, and everything else is written as a whole.
fn layout_of(path: &Path) -> Layout {
    let name = name_of(path);
    if name.ends_with(".wal") || name.starts_with("manifest-") || name.starts_with("LOG") {
        Layout::Frames
    } else if name.starts_with("CURRENT") {
        Layout::Journal
    } else {
        Layout::Pages
    }
}

impl Fs for EncryptedFs {
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        if is_plain(path) {
            return self.inner.create_new(path);
        }
        let active = self.active_key(path)?;
        let file = self.inner.create_new(path)?;
        self.begin(file, path, &active).inspect_err(|_| drop(self.inner.remove(path)))
    }

    fn open_write(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        match self.open(path)? {
            Opened::Plain(_) if is_plain(path) => self.inner.open_write(path),
            // There is no key, and the error says so.
            Opened::Plain(_) => self.active_key(path).and_then(|_| Err(without_header())),
            Opened::Unwritten(_) if !is_side_file(path) => {
                Ok(Box::new(UnwrittenWriter(self.inner.open_write(path)?)))
            }
            Opened::Unwritten(_) => {
                let active = self.active_key(path)?;
                let mut file = self.inner.open_write(path)?;
                file.set_len(0)?;
                self.begin(file, path, &active)
            }
            Opened::Encrypted { layout, key, .. } => {
                let file = self.inner.open_write(path)?;
                self.writer(file, (key, layout), path, false)
            }
        }
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadableFile>> {
        Ok(match self.open(path)? {
            Opened::Plain(file) => file,
            Opened::Unwritten(file) => Arc::new(file),
            Opened::Encrypted { file, layout, key } => match layout {
                Layout::Pages => Arc::new(PagedFile::new(file, key, path)?),
                Layout::Frames => Arc::new(AppendedFile::new(file, key)?),
                Layout::Journal => Arc::new(JournalFile::new(&*file, &key)?),
            },
        })
    }

    fn read(&self, path: &Path, len_bytes_max: u64) -> io::Result<Vec<u8>> {
        let file = self.open_read(path)?;
        let len_bytes = file.len_bytes()?;
        if len_bytes > len_bytes_max {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is too long"));
        }
        let mut bytes = vec![0; len_bytes as usize];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        if is_plain(from) || is_plain(to) || !self.opens_as(from, to)? {
            let message = "the file would not open under the other name, because of encryption; \
                           copy it";
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        self.inner.hard_link(from, to)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.inner.create_dir(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.inner.remove_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = self.inner.list(path)?;
        if entries.iter().any(|entry| entry.name == KEYS) {
            for entry in &mut entries {
                entry.len_bytes = self.content_bytes(Path::new(&entry.name), entry);
            }
        }
        Ok(entries)
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
        let inner = self.inner.pinned(dir)?.unwrap_or_else(|| self.inner.clone());
        let rings = Some(Arc::default());
        Ok(Some(Arc::new(EncryptedFs { inner, provider: self.provider.clone(), rings })))
    }

    fn encrypts(&self) -> bool {
        true
    }

    fn share_keys(&self, from: Option<&Path>, to: &Path) -> Result<()> {
        if let Some(rings) = &self.rings {
            rings.lock().remove(to);
        }
        keys::share(&*self.inner, from, to, &*self.provider)
    }

    fn check_keys(&self, dir: &Path) -> Result<()> {
        KeyRing::load(&*self.inner, dir, &*self.provider).map(drop)
    }
}

/// Rewrites `KEYS` of `dir` under the master key of `to`, with a new data key for new files. The data
/// keys that no file of the directory needs are removed.
///
/// # Errors
/// `InvalidArgument` when the directory is not encrypted, or when `from` has another key; `Corruption`,
/// `Io`.
pub(crate) fn rekey(
    fs: &dyn Fs,
    dir: &Path,
    from: &dyn KeyProvider,
    to: &dyn KeyProvider,
) -> Result<RekeyReport> {
    let entries = fs.list(dir).map_err(|e| Error::io(dir, "list the directory", e))?;
    let mut used = Vec::new();
    for entry in entries.iter().filter(|entry| entry.is_file) {
        let path = dir.join(&entry.name);
        if is_plain(&path) || entry.len_bytes < HEADER_BYTES as u64 {
            continue;
        }
        let mut bytes = [0; HEADER_BYTES];
        let read = fs.open_read(&path).and_then(|file| file.read_exact_at(&mut bytes, 0));
        read.map_err(|e| Error::io(&path, "read the header of the file", e))?;
        match Header::parse(&bytes) {
            Some(header) => used.push(header.data_key),
            // A damaged header can be any data key's.
            None => return keys::rekey(fs, dir, (from, to), |_| true),
        }
    }
    keys::rekey(fs, dir, (from, to), |id| used.contains(&id))
}
