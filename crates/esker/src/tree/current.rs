//! `CURRENT`: which manifest counts, and how far it is known to be durable.
//!
//! Two slots of 512 bytes written in turn, each with a sequence number and a checksum: a torn write
//! leaves the other one. Slot: magic 8 | version u32 | reserved u32 | sequence u64 | store id u64 |
//! manifest number u64 | manifest bytes u64 | zeros | checksum u64 in the last eight bytes.

use std::path::{Path, PathBuf};

use super::names;
use crate::base::checksum::checksum;
use crate::base::coding::Reader;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Fs, WritableFile, sync_dir};

const MAGIC: &[u8; 8] = b"eskerCUR";
/// The version of the store's directory this code writes and reads.
pub const VERSION: u32 = 1;
const SLOT_BYTES: usize = 512;
/// Numbers beyond this were never counted up to: a file made by hand has them.
const COUNT_MAX: u64 = names::NUMBER_MAX;

/// What a slot says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// The larger one counts.
    pub sequence: u64,
    /// The store's identity, which seeds the manifest's checksums.
    pub store_id: u64,
    /// The manifest's number.
    pub manifest: u64,
    /// How many of its bytes are durable.
    pub manifest_bytes: u64,
}

impl Slot {
    fn encode(&self, which: usize) -> [u8; SLOT_BYTES] {
        let mut out = [0; SLOT_BYTES];
        out[..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        out[24..32].copy_from_slice(&self.store_id.to_le_bytes());
        out[32..40].copy_from_slice(&self.manifest.to_le_bytes());
        out[40..48].copy_from_slice(&self.manifest_bytes.to_le_bytes());
        let sum = checksum(&out[..SLOT_BYTES - 8], which as u64);
        out[SLOT_BYTES - 8..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// The version of a whole slot and, if it is ours, its content. Where the checksum lies and how
    /// it is made is the same in every version, so that a damaged slot is not taken for a newer one.
    fn decode(bytes: &[u8], which: usize) -> Option<(u32, Option<Slot>)> {
        let mut reader = Reader::new(bytes);
        if reader.take(8)? != MAGIC {
            return None;
        }
        let version = reader.u32()?;
        reader.u32()?;
        let slot = Slot {
            sequence: reader.u64()?,
            store_id: reader.u64()?,
            manifest: reader.u64()?,
            manifest_bytes: reader.u64()?,
        };
        let sum = checksum(&bytes[..SLOT_BYTES - 8], which as u64);
        let whole = bytes[SLOT_BYTES - 8..] == sum.to_le_bytes();
        whole.then(|| (version, (version == VERSION).then_some(slot)))
    }
}

/// The pointer file, open for switching.
pub struct Current {
    file: Box<dyn WritableFile>,
    path: PathBuf,
    slot: Slot,
}

impl Current {
    /// Makes `CURRENT` appear whole: written and synced under another name, renamed, the name
    /// synced.
    pub fn create(fs: &dyn Fs, dir: &Path, slot: Slot) -> Result<Current> {
        let (new, path) = (dir.join(names::CURRENT_NEW), dir.join(names::CURRENT));
        let io = |e| Error::io(&new, "write the pointer to the manifest", e);
        if fs.exists(&new).map_err(io)? {
            fs.remove(&new).map_err(io)?;
        }
        let mut file = fs.create_new(&new).map_err(io)?;
        // Both say the same, so that the next switch has one to leave alone.
        file.append(&[slot.encode(0), slot.encode(1)].concat()).map_err(io)?;
        file.sync().map_err(io)?;
        fs.rename(&new, &path).map_err(io)?;
        sync_dir(fs, dir)?;
        Ok(Current { file, path, slot })
    }

    /// Reads `CURRENT`.
    ///
    /// # Errors
    /// `Incompatible` for a newer version, `Corruption` when neither slot is whole, `Io`.
    pub fn read(fs: &dyn Fs, dir: &Path) -> Result<Slot> {
        let path = dir.join(names::CURRENT);
        let bytes = fs
            .read(&path, 2 * SLOT_BYTES as u64)
            .map_err(|e| Error::io(&path, "read the pointer to the manifest", e))?;
        let mut found: Option<Slot> = None;
        for (which, slot) in bytes.chunks_exact(SLOT_BYTES).enumerate() {
            match Slot::decode(slot, which) {
                Some((version, None)) if version > VERSION => {
                    let message = format!("expected store version {VERSION}, found {version}");
                    return Err(Error::new(ErrorKind::Incompatible, message).at(&path));
                }
                Some((_, Some(slot))) if found.is_none_or(|f| f.sequence < slot.sequence) => {
                    found = Some(slot);
                }
                _ => {}
            }
        }
        if let Some(slot) = found.filter(|s| s.sequence.max(s.manifest) > COUNT_MAX) {
            let message = format!(
                "expected numbers that a store can have come to, found manifest {} in switch {}",
                slot.manifest, slot.sequence
            );
            return Err(Error::corruption(&path, 0, message));
        }
        let message = "expected a pointer to a manifest, found neither of its copies whole";
        found.ok_or_else(|| Error::corruption(&path, 0, message))
    }

    /// Opens `CURRENT` for switching, `slot` being what it says.
    pub fn open(fs: &dyn Fs, dir: &Path, slot: Slot) -> Result<Current> {
        let path = dir.join(names::CURRENT);
        let file = fs
            .open_write(&path)
            .map_err(|e| Error::io(&path, "open the pointer to the manifest", e))?;
        Ok(Current { file, path, slot })
    }

    /// The sequence number of what it says.
    pub fn sequence(&self) -> u64 {
        self.slot.sequence
    }

    /// Points to `manifest`, of which `manifest_bytes` are durable, and syncs.
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
        Ok(())
    }
}
