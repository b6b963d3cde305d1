//! The manifest: a log of version edits.
//!
//! ```text
//! header 32: magic 8 | version u32 | reserved u32 | store id u64 | checksum u64
//! record: checksum u64 | length u32 | ordinal u32 | edit
//! ```
//! Each record checksum is seeded with the store's id, the manifest's number and the record's
//! offset. Ordinals count from 0.
//!
//! Invariants: everything up to the length in `CURRENT` was durable, so damage there is corruption.
//! A bad record beyond that length is a torn tail.

use std::path::{Path, PathBuf};

use super::edit::VersionEdit;
use super::names;
use crate::base::checksum::{checksum, location_seed};
use crate::base::coding::Reader;
use crate::base::format_version::FormatVersion;
use crate::error::{Error, Result};
use crate::fs::{Fs, WritableFile, sync_dir};

const MAGIC: &[u8; 8] = b"eskerMAN";
const HEADER_BYTES: usize = 32;
const RECORD_HEADER_BYTES: usize = 16;
/// Maximum length of a manifest in bytes. A longer one is refused. A rewrite happens long before.
const MANIFEST_BYTES_MAX: u64 = 4 << 30;

fn seed(store_id: u64, number: u64, offset: u64) -> u64 {
    location_seed(store_id ^ number.rotate_left(32), offset)
}

fn header(store_id: u64, format: FormatVersion) -> [u8; HEADER_BYTES] {
    let mut out = [0; HEADER_BYTES];
    out[..8].copy_from_slice(MAGIC);
    out[8..12].copy_from_slice(&format.number().to_le_bytes());
    out[16..24].copy_from_slice(&store_id.to_le_bytes());
    let sum = checksum(&out[..24], 0);
    out[24..].copy_from_slice(&sum.to_le_bytes());
    out
}

/// The writer of a manifest.
pub struct ManifestWriter {
    file: Box<dyn WritableFile>,
    path: PathBuf,
    number: u64,
    store_id: u64,
    len_bytes: u64,
    next_ordinal: u32,
}

impl ManifestWriter {
    /// Creates a manifest with a first edit, of a store with this identity and version. Syncs the file
    /// and the directory entry.
    pub fn create(
        fs: &dyn Fs,
        dir: &Path,
        number: u64,
        (store_id, format): (u64, FormatVersion),
        first: &VersionEdit,
    ) -> Result<ManifestWriter> {
        let path = names::manifest_path(dir, number);
        let file = fs.create_new(&path).map_err(|e| Error::io(&path, "create the manifest", e))?;
        let mut writer =
            ManifestWriter { file, path, number, store_id, len_bytes: 0, next_ordinal: 0 };
        let written = writer.file.append(&header(store_id, format));
        written.map_err(|e| Error::io(&writer.path, "write the manifest", e))?;
        writer.len_bytes = HEADER_BYTES as u64;
        writer.append(first)?;
        sync_dir(fs, dir)?;
        Ok(writer)
    }

    /// Opens a manifest for appending after the intact records in `found`. Cuts off a torn tail.
    pub fn resume(fs: &dyn Fs, dir: &Path, found: &Manifest) -> Result<ManifestWriter> {
        let path = names::manifest_path(dir, found.number);
        let io = |e| Error::io(&path, "open the manifest", e);
        let mut file = fs.open_write(&path).map_err(io)?;
        if found.torn {
            file.set_len(found.len_bytes).map_err(io)?;
            file.sync().map_err(io)?;
        }
        Ok(ManifestWriter {
            file,
            path: path.clone(),
            number: found.number,
            store_id: found.store_id,
            len_bytes: found.len_bytes,
            next_ordinal: found.edits.len() as u32,
        })
    }

    /// Appends an edit and syncs.
    pub fn append(&mut self, edit: &VersionEdit) -> Result<()> {
        // The edit is encoded in place. With long keys it can have many megabytes.
        let mut record = vec![0; 12];
        record.extend_from_slice(&self.next_ordinal.to_le_bytes());
        let head_bytes = record.len();
        edit.encode_to(&mut record);
        let payload_bytes = (record.len() - head_bytes) as u32;
        record[8..12].copy_from_slice(&payload_bytes.to_le_bytes());
        let sum = checksum(&record[8..], seed(self.store_id, self.number, self.len_bytes));
        record[..8].copy_from_slice(&sum.to_le_bytes());
        self.file
            .append(&record)
            .and_then(|()| self.file.sync())
            .map_err(|e| Error::io(&self.path, "write the manifest", e))?;
        self.len_bytes += record.len() as u64;
        self.next_ordinal += 1;
        Ok(())
    }

    /// Removes the partial record that a failed append may have left.
    pub fn cut_back(&mut self) -> Result<()> {
        self.file
            .set_len(self.len_bytes)
            .and_then(|()| self.file.sync())
            .map_err(|e| Error::io(&self.path, "truncate the manifest", e))
    }

    /// Returns the manifest's number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the manifest's length in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }
}

/// The contents of a manifest.
pub struct Manifest {
    /// Number of the manifest.
    pub number: u64,
    /// Identity of the store.
    pub store_id: u64,
    /// Format version of the store.
    pub format: FormatVersion,
    /// The edits in order.
    pub edits: Vec<VersionEdit>,
    /// Offset of the end of the last intact record, in bytes.
    pub len_bytes: u64,
    /// Whether unreadable bytes follow the last intact record.
    pub torn: bool,
    /// Offsets of the ends of the edits, in bytes.
    ends: Vec<u64>,
}

impl Manifest {
    /// Leaves out the edits that are not within the first `bytes` bytes.
    pub fn cut_to(&mut self, bytes: u64) {
        let kept = self.ends.partition_point(|end| *end <= bytes);
        self.ends.truncate(kept);
        self.edits.truncate(kept);
        self.len_bytes = self.ends.last().copied().unwrap_or(HEADER_BYTES as u64);
    }

    /// Returns where the last edit ends.
    pub fn end(&self) -> ManifestEnd {
        ManifestEnd { bytes: self.len_bytes, edits: self.edits.len() as u32 }
    }
}

/// Where a read of a manifest ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ManifestEnd {
    /// Offset in bytes.
    pub bytes: u64,
    /// Number of edits before it.
    pub edits: u32,
}

/// Reads the edits between `from`, where an earlier read of the manifest ended, and `until_bytes`, up
/// to which the manifest is durable.
///
/// # Errors
/// `Corruption` when the edits do not end there; `Io`.
pub fn read_behind(
    fs: &dyn Fs,
    dir: &Path,
    (number, store_id): (u64, u64),
    from: ManifestEnd,
    until_bytes: u64,
) -> Result<(Vec<VersionEdit>, ManifestEnd)> {
    let path = names::manifest_path(dir, number);
    let io = |e| Error::io(&path, "read the manifest", e);
    let file = fs.open_read(&path).map_err(io)?;
    let (len_bytes, mut end, mut edits) = (file.len_bytes().map_err(io)?, from, Vec::new());
    let wanted = until_bytes.min(len_bytes).saturating_sub(from.bytes).min(MANIFEST_BYTES_MAX);
    let mut bytes = vec![0; wanted as usize];
    file.read_exact_at(&mut bytes, from.bytes).map_err(io)?;
    let mut rest = &bytes[..];
    while let Some((edit, len)) = record(rest, end.edits, seed(store_id, number, end.bytes)) {
        edits.push(edit);
        rest = &rest[len..];
        end = ManifestEnd { bytes: end.bytes + len as u64, edits: end.edits + 1 };
    }
    if end.bytes != until_bytes {
        let message = format!(
            "expected whole records up to byte {until_bytes}, found them up to byte {}; the manifest \
             is damaged, `repair` can rebuild it",
            end.bytes
        );
        return Err(Error::corruption(&path, end.bytes, message));
    }
    Ok((edits, end))
}

/// Returns the format version that an intact header states, also one that this build does not know.
fn stated_version(head: &[u8]) -> Option<u32> {
    let mut reader = Reader::new(head);
    if reader.take(MAGIC.len())? != MAGIC {
        return None;
    }
    let version = reader.u32()?;
    let sum = head.get(HEADER_BYTES - 8..HEADER_BYTES)?;
    (sum == checksum(&head[..HEADER_BYTES - 8], 0).to_le_bytes()).then_some(version)
}

/// Returns the format version that the header of a manifest states. `None` when the header cannot be
/// read or is damaged.
pub fn version_of(fs: &dyn Fs, dir: &Path, number: u64) -> Option<u32> {
    let mut head = [0; HEADER_BYTES];
    let file = fs.open_read(&names::manifest_path(dir, number)).ok()?;
    file.read_exact_at(&mut head, 0).ok()?;
    stated_version(&head)
}

/// Reads a manifest. The first `durable_bytes` must be intact.
pub fn read(
    fs: &dyn Fs,
    dir: &Path,
    number: u64,
    store_id: u64,
    durable_bytes: u64,
) -> Result<Manifest> {
    let path = names::manifest_path(dir, number);
    let bytes =
        fs.read(&path, MANIFEST_BYTES_MAX).map_err(|e| Error::io(&path, "read the manifest", e))?;
    let head = bytes.get(..HEADER_BYTES).unwrap_or_default();
    let stated = stated_version(head).unwrap_or(0);
    if stated > FormatVersion::NEWEST.number() {
        return Err(FormatVersion::NEWEST.newer(stated).with_path(&path));
    }
    let format = FormatVersion::from_number(stated).unwrap_or(FormatVersion::NEWEST);
    if head != header(store_id, format) {
        return Err(Error::corruption(
            &path,
            0,
            "expected this store's manifest, found the manifest of another store",
        ));
    }
    let mut found = Manifest {
        number,
        store_id,
        format,
        edits: Vec::new(),
        len_bytes: HEADER_BYTES as u64,
        torn: false,
        ends: Vec::new(),
    };
    while let Some(rest) = bytes.get(found.len_bytes as usize..).filter(|r| !r.is_empty()) {
        let ordinal = found.edits.len() as u32;
        match record(rest, ordinal, seed(store_id, number, found.len_bytes)) {
            Some((edit, len)) => {
                found.edits.push(edit);
                found.len_bytes += len as u64;
                found.ends.push(found.len_bytes);
            }
            None => {
                found.torn = true;
                break;
            }
        }
    }
    if found.len_bytes < durable_bytes {
        let message = format!(
            "expected {durable_bytes} bytes of whole records, found {}; the manifest is damaged, \
             `repair` can rebuild it",
            found.len_bytes
        );
        return Err(Error::corruption(&path, found.len_bytes, message));
    }
    Ok(found)
}

fn record(bytes: &[u8], ordinal: u32, seed: u64) -> Option<(VersionEdit, usize)> {
    let mut reader = Reader::new(bytes);
    let (sum, len, found) = (reader.u64()?, reader.u32()? as usize, reader.u32()?);
    let payload = reader.take(len)?;
    let whole = RECORD_HEADER_BYTES + len;
    if found != ordinal || checksum(&bytes[8..whole], seed) != sum {
        return None;
    }
    Some((VersionEdit::decode(payload)?, whole))
}
