//! The file `BACKUP` in a backup: the identity of the backed-up store and the creation time.
//!
//! ```text
//! magic 8 | version u32 | path bytes u32 | store id u64 | created, ms since 1970 u64 |
//! tables u64 | path | checksum u64 over all before
//! ```
//! Invariants: the file is durable before the backup counts, and it is never changed.

use std::path::{Path, PathBuf};

use crate::base::checksum::checksum;
use crate::base::coding::Reader;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::Fs;
use crate::tree::forest::Forest;
use crate::tree::names;

const MAGIC: &[u8; 8] = b"eskerBAK";
const VERSION: u32 = 1;
/// Maximum file size, in bytes. No path is longer, so a longer file was not written by Esker.
const META_BYTES_MAX: u64 = 64 << 10;

/// Content of the `BACKUP` file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupMeta {
    /// Identity of the backed-up store.
    pub store_id: u64,
    /// Creation time by the machine's clock, in milliseconds since 1970 in UTC.
    pub created_unix_ms: u64,
    /// Checksum of the backup's list of tables ([`tables_checksum`]). A backup that was opened for
    /// writing and got other tables is no longer this backup.
    pub tables: u64,
    /// Path of the backed-up store.
    pub store_path: PathBuf,
}

/// Returns the checksum of a list of tables, in the order of their numbers.
pub(super) fn tables_checksum(forest: &Forest) -> u64 {
    let mut files = forest.files();
    files.sort_unstable_by_key(|file| file.number);
    let fields =
        files.iter().flat_map(|file| [file.number, file.info.table_id, file.info.size_bytes]);
    checksum(&fields.flat_map(u64::to_le_bytes).collect::<Vec<u8>>(), 0)
}

/// Returns a path as bytes: unchanged on Unix, in UTF-8 elsewhere.
fn bytes_of(path: &Path) -> Vec<u8> {
    #[cfg(unix)]
    return std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()).to_vec();
    #[cfg(not(unix))]
    return path.to_string_lossy().into_owned().into_bytes();
}

/// Returns the path that has these bytes.
fn path_of(bytes: &[u8]) -> PathBuf {
    #[cfg(unix)]
    return PathBuf::from(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes));
    #[cfg(not(unix))]
    return PathBuf::from(String::from_utf8_lossy(bytes).into_owned());
}

impl BackupMeta {
    /// Returns the file's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let path = bytes_of(&self.store_path);
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&(path.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.store_id.to_le_bytes());
        out.extend_from_slice(&self.created_unix_ms.to_le_bytes());
        out.extend_from_slice(&self.tables.to_le_bytes());
        out.extend_from_slice(&path);
        let sum = checksum(&out, 0);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// Decodes a file. Returns its version and, for a supported version, its content. Returns
    /// `None` for damaged bytes. The magic, the version and the checksum at the end are the same
    /// in every version.
    pub fn decode(bytes: &[u8]) -> Option<(u32, Option<BackupMeta>)> {
        let (content, sum) = bytes.split_at_checked(bytes.len().checked_sub(8)?)?;
        let mut reader = Reader::new(content);
        if reader.take(8)? != MAGIC || checksum(content, 0).to_le_bytes() != sum {
            return None;
        }
        let version = reader.u32()?;
        if version != VERSION {
            return Some((version, None));
        }
        let path_bytes = reader.u32()? as usize;
        let (store_id, created_unix_ms, tables) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let path = reader.take(path_bytes).filter(|_| reader.is_empty())?;
        let store_path = path_of(path);
        Some((version, Some(BackupMeta { store_id, created_unix_ms, tables, store_path })))
    }

    /// Writes the file into the backup `dir` and syncs it. Its name is not durable yet.
    pub(super) fn write(&self, fs: &dyn Fs, dir: &Path) -> Result<()> {
        let path = dir.join(names::BACKUP);
        let io = |e| Error::io(&path, "write the backup's metadata", e);
        let mut file = fs.create_new(&path).map_err(io)?;
        file.append(&self.encode()).map_err(io)?;
        file.sync().map_err(io)
    }

    /// Reads the file of the backup `dir`. Returns `None` for a backup made by an older version,
    /// which has no such file.
    pub(super) fn read(fs: &dyn Fs, dir: &Path) -> Result<Option<BackupMeta>> {
        let path = dir.join(names::BACKUP);
        let io = |e| Error::io(&path, "read the backup's metadata", e);
        if !fs.exists(&path).map_err(io)? {
            return Ok(None);
        }
        match BackupMeta::decode(&fs.read(&path, META_BYTES_MAX).map_err(io)?) {
            Some((_, Some(meta))) => Ok(Some(meta)),
            Some((version, None)) if version > VERSION => {
                let message = format!(
                    "expected version {VERSION} of the backup's metadata, found version {version}"
                );
                Err(Error::new(ErrorKind::Incompatible, message).with_path(&path))
            }
            _ => {
                let message = "expected the metadata of the backup, found damaged metadata";
                Err(Error::corruption(&path, 0, message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemFs;

    /// A file of version 1, encoded by other code from the description in `docs/format.md`.
    const VERSION_1: &str = "65736b657242414b0100000008000000efcdab89674523010068e5cf8b010000\
         88776655443322112f646174612f6462946cd18f234f4e6f";

    #[test]
    fn version_1_bytes_are_stable() {
        let bytes: Vec<u8> = (0..VERSION_1.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&VERSION_1[at..at + 2], 16).unwrap())
            .collect();
        let meta = BackupMeta {
            store_id: 0x0123_4567_89ab_cdef,
            created_unix_ms: 1_700_000_000_000,
            tables: 0x1122_3344_5566_7788,
            store_path: PathBuf::from("/data/db"),
        };
        assert_eq!(BackupMeta::decode(&bytes), Some((1, Some(meta.clone()))));
        assert_eq!(meta.encode(), bytes);
    }

    #[test]
    fn marker_round_trips_and_changed_bytes_are_refused() {
        let fs = MemFs::new();
        let dir = Path::new("/b");
        fs.create_dir(dir).unwrap();
        assert_eq!(BackupMeta::read(&*fs, dir).unwrap(), None);
        let path = path_of(b"/data/\xff db");
        let meta = BackupMeta {
            store_id: 7 << 50,
            created_unix_ms: 1_700_000_000_123,
            tables: 9,
            store_path: path,
        };
        meta.write(&*fs, dir).unwrap();
        assert_eq!(BackupMeta::read(&*fs, dir).unwrap().as_ref(), Some(&meta));
        let bytes = meta.encode();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(BackupMeta::decode(&changed), None, "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert_eq!(BackupMeta::decode(&bytes[..len]), None, "{len} bytes");
        }
        let mut newer = bytes.clone();
        newer[8] = 2;
        let content = newer.len() - 8;
        let sum = checksum(&newer[..content], 0).to_le_bytes();
        newer[content..].copy_from_slice(&sum);
        assert_eq!(BackupMeta::decode(&newer), Some((2, None)));
        fs.remove(&dir.join(names::BACKUP)).unwrap();
        fs.create_new(&dir.join(names::BACKUP)).unwrap().append(&newer).unwrap();
        assert_eq!(BackupMeta::read(&*fs, dir).unwrap_err().kind(), ErrorKind::Incompatible);
    }
}
