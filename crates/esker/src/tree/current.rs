//! `CURRENT`: the pointer to the current manifest, with the length of the manifest's durable
//! prefix.
//!
//! The file has two slots of 512 bytes, written alternately. Each slot has a sequence number and a
//! checksum. A torn write damages one slot and leaves the other intact. Both slots have the same
//! version: only a new file has another one.
//!
//! ```text
//! slot: magic 8 | version u32 | reserved u32 | sequence u64 | store id u64 |
//!       manifest number u64 | manifest bytes u64 | zeros | checksum u64 in the last eight bytes
//! ```

use std::path::{Path, PathBuf};

use super::names;
use crate::base::checksum::checksum;
use crate::base::coding::Reader;
use crate::base::format_version::FormatVersion;
use crate::error::{Error, Result};
use crate::fs::{Fs, WritableFile, sync_dir};

const MAGIC: &[u8; 8] = b"eskerCUR";
const SLOT_BYTES: usize = 512;
/// Largest number that a store can reach by counting. A larger one means a forged file.
const COUNT_MAX: u64 = names::NUMBER_MAX;

/// Contents of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Format version of the store.
    pub format: FormatVersion,
    /// Sequence number of the slot. The valid slot with the larger number is the current one.
    pub sequence: u64,
    /// Identity of the store. It seeds the manifest's checksums.
    pub store_id: u64,
    /// Number of the manifest.
    pub manifest: u64,
    /// Length of the manifest's durable prefix, in bytes.
    pub manifest_bytes: u64,
}

impl Slot {
    fn encode(&self, which: usize) -> [u8; SLOT_BYTES] {
        let mut out = [0; SLOT_BYTES];
        out[..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&self.format.number().to_le_bytes());
        out[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        out[24..32].copy_from_slice(&self.store_id.to_le_bytes());
        out[32..40].copy_from_slice(&self.manifest.to_le_bytes());
        out[40..48].copy_from_slice(&self.manifest_bytes.to_le_bytes());
        let sum = checksum(&out[..SLOT_BYTES - 8], which as u64);
        out[SLOT_BYTES - 8..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Returns the format version of an intact slot, and its contents if this code knows that
    /// version. The checksum's position and algorithm are the same in every version. A damaged slot
    /// is therefore never mistaken for one of a newer version.
    fn decode(bytes: &[u8], which: usize) -> Option<(u32, Option<Slot>)> {
        let mut reader = Reader::new(bytes);
        if reader.take(8)? != MAGIC {
            return None;
        }
        let version = reader.u32()?;
        reader.u32()?;
        let (sequence, store_id) = (reader.u64()?, reader.u64()?);
        let (manifest, manifest_bytes) = (reader.u64()?, reader.u64()?);
        let slot = |format| Slot { format, sequence, store_id, manifest, manifest_bytes };
        let sum = checksum(&bytes[..SLOT_BYTES - 8], which as u64);
        let whole = bytes[SLOT_BYTES - 8..] == sum.to_le_bytes();
        whole.then(|| (version, FormatVersion::from_number(version).map(slot)))
    }
}

/// Number of switches after which a file that grows is created again.
const SWITCHES_MAX: u32 = 512;

/// The open pointer file.
pub struct Current {
    file: Box<dyn WritableFile>,
    path: PathBuf,
    slot: Slot,
    /// Whether each switch makes the file longer, as on an encrypted file system.
    grows: bool,
    /// Number of switches in the file; of an opened file it is not known.
    switches: u32,
}

impl Current {
    /// Creates `CURRENT` atomically. The steps are: write and sync a temporary file, rename it, and
    /// sync the directory.
    pub fn create(fs: &dyn Fs, dir: &Path, slot: Slot) -> Result<Current> {
        let (new, path) = (dir.join(names::CURRENT_NEW), dir.join(names::CURRENT));
        let io = |e| Error::io(&new, "write the pointer to the manifest", e);
        if fs.exists(&new).map_err(io)? {
            fs.remove(&new).map_err(io)?;
        }
        let mut file = fs.create_new(&new).map_err(io)?;
        // Both slots get the same contents, so that the next switch overwrites one and leaves one
        // intact.
        file.append(&[slot.encode(0), slot.encode(1)].concat()).map_err(io)?;
        file.sync().map_err(io)?;
        fs.rename(&new, &path).map_err(io)?;
        sync_dir(fs, dir)?;
        Ok(Current { file, path, slot, grows: fs.encrypts(), switches: 0 })
    }

    /// Reads `CURRENT`.
    ///
    /// # Errors
    /// `Incompatible` for a newer format version. `Corruption` when neither slot is intact, or when
    /// a number is larger than a store can reach. `Io`.
    pub fn read(fs: &dyn Fs, dir: &Path) -> Result<Slot> {
        Current::read_up_to(fs, dir, FormatVersion::NEWEST)
    }

    /// Does the same as code that knows the versions up to `newest`.
    pub fn read_up_to(fs: &dyn Fs, dir: &Path, newest: FormatVersion) -> Result<Slot> {
        let path = dir.join(names::CURRENT);
        let bytes = fs
            .read(&path, 2 * SLOT_BYTES as u64)
            .map_err(|e| Error::io(&path, "read the pointer to the manifest", e))?;
        let mut found: Option<Slot> = None;
        for (which, slot) in bytes.chunks_exact(SLOT_BYTES).enumerate() {
            match Slot::decode(slot, which) {
                Some((version, _)) if version > newest.number() => {
                    return Err(newest.newer(version).with_path(&path));
                }
                Some((_, Some(slot))) if found.is_none_or(|f| f.sequence < slot.sequence) => {
                    found = Some(slot);
                }
                _ => {}
            }
        }
        if let Some(slot) = found.filter(|s| s.sequence.max(s.manifest) > COUNT_MAX) {
            let message = format!(
                "expected numbers up to {COUNT_MAX}, found manifest {} and switch {}",
                slot.manifest, slot.sequence
            );
            return Err(Error::corruption(&path, 0, message));
        }
        let message = "expected a pointer to a manifest, found both of its copies damaged";
        found.ok_or_else(|| Error::corruption(&path, 0, message))
    }

    /// Opens `CURRENT` for switching. `slot` is its current contents.
    pub fn open(fs: &dyn Fs, dir: &Path, slot: Slot) -> Result<Current> {
        let path = dir.join(names::CURRENT);
        let file = fs
            .open_write(&path)
            .map_err(|e| Error::io(&path, "open the pointer to the manifest", e))?;
        Ok(Current { file, path, slot, grows: fs.encrypts(), switches: SWITCHES_MAX })
    }

    /// Returns whether the file is to be created again because of its length.
    pub fn is_worn(&self) -> bool {
        self.grows && self.switches >= SWITCHES_MAX
    }

    /// Returns the sequence number of the current slot.
    pub fn sequence(&self) -> u64 {
        self.slot.sequence
    }

    /// Points `CURRENT` to `manifest`, whose first `manifest_bytes` bytes are durable, and syncs.
    pub fn switch(&mut self, manifest: u64, manifest_bytes: u64) -> Result<()> {
        let sequence = self.slot.sequence + 1;
        let slot = Slot { sequence, manifest, manifest_bytes, ..self.slot };
        let which = (sequence % 2) as usize;
        let offset = (which * SLOT_BYTES) as u64;
        self.file
            .write_at(&slot.encode(which), offset)
            .and_then(|()| self.file.sync())
            .map_err(|e| Error::io(&self.path, "switch the pointer to the manifest", e))?;
        self.slot = slot;
        self.switches = self.switches.saturating_add(1);
        Ok(())
    }
}
