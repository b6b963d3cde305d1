//! The file of a slot: `slot-NAME` in the store's directory (bytes: `docs/format.md`).
//!
//! Invariants:
//! 1. A file is replaced as a whole, by a rename, and is durable when [`SlotFile::write`] returns.
//!    Any process may replace it: the store reads the files of its slots again before it removes a
//!    log.
//! 2. Damage is detected. A damaged slot keeps no logs, and every use of it is refused.

use std::path::Path;

use crate::base::checksum::checksum;
use crate::base::coding::{Reader, put_u32, put_u64};
use crate::base::key::SeqNo;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Fs, sync_dir};
use crate::tree::names;

const MAGIC: &[u8; 8] = b"eskerSLT";
const VERSION: u32 = 1;
/// Limit of a slot without one.
const NO_LIMIT: u64 = u64::MAX;

const ACTIVE: u32 = 0;
const DROPPED: u32 = 1;
const AHEAD: u32 = 2;

/// What became of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotFate {
    /// It keeps logs.
    Active,
    /// The logs that only slots needed had these bytes, more than the limit of this slot.
    Dropped {
        /// These bytes.
        lag_bytes: u64,
    },
    /// A crash lost writes that the reader of the slot had confirmed.
    Ahead,
}

/// The content of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotFile {
    /// Identity of the store.
    pub store_id: u64,
    /// Everything up to this sequence number is confirmed.
    pub position: SeqNo,
    /// Maximum bytes of logs that are kept only for slots; `None` for no limit.
    pub lag_limit_bytes: Option<u64>,
    /// What became of it.
    pub fate: SlotFate,
}

impl SlotFile {
    /// Encodes the file.
    pub fn encode(&self) -> Vec<u8> {
        let (state, lag_bytes) = match self.fate {
            SlotFate::Active => (ACTIVE, 0),
            SlotFate::Dropped { lag_bytes } => (DROPPED, lag_bytes),
            SlotFate::Ahead => (AHEAD, 0),
        };
        let mut out = MAGIC.to_vec();
        put_u32(&mut out, VERSION);
        put_u32(&mut out, state);
        put_u64(&mut out, self.store_id);
        put_u64(&mut out, self.position);
        put_u64(&mut out, self.lag_limit_bytes.unwrap_or(NO_LIMIT));
        put_u64(&mut out, lag_bytes);
        let sum = checksum(&out, 0);
        put_u64(&mut out, sum);
        out
    }

    /// Decodes the file. Returns its version, and its content if the version is this one. The
    /// checksum is the last eight bytes in every version, so damage cannot look like a newer version.
    pub fn decode(bytes: &[u8]) -> Option<(u32, Option<SlotFile>)> {
        let (content, sum) = bytes.split_last_chunk::<8>()?;
        if checksum(content, 0) != u64::from_le_bytes(*sum) {
            return None;
        }
        let mut reader = Reader::new(content);
        if reader.take(8)? != MAGIC {
            return None;
        }
        let version = reader.u32()?;
        if version != VERSION {
            return Some((version, None));
        }
        let state = reader.u32()?;
        let (store_id, position) = (reader.u64()?, reader.u64()?);
        let lag_limit_bytes = Some(reader.u64()?).filter(|limit| *limit != NO_LIMIT);
        let lag_bytes = reader.u64()?;
        let fate = match state {
            ACTIVE => SlotFate::Active,
            DROPPED => SlotFate::Dropped { lag_bytes },
            AHEAD => SlotFate::Ahead,
            _ => return None,
        };
        let file = SlotFile { store_id, position, lag_limit_bytes, fate };
        reader.is_empty().then_some((version, Some(file)))
    }

    /// Reads the file of the slot `name` of the store with this identity.
    ///
    /// # Errors
    /// `NotFound` when there is no such slot; `Corruption` for a damaged file; `Incompatible` for a
    /// newer version or the slot of another store; `Io`.
    pub fn read(fs: &dyn Fs, dir: &Path, name: &str, store_id: u64) -> Result<SlotFile> {
        let path = names::slot_path(dir, name);
        let decode = || match fs.read(&path, 4096) {
            Ok(bytes) => Ok(SlotFile::decode(&bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let message = format!("there is no slot \"{name}\"");
                Err(Error::not_found(message).with_path(dir))
            }
            Err(error) => Err(Error::io(&path, "read the slot", error)),
        };
        // The logs of a damaged slot are not kept, so a read that ended early must not look like one.
        let decoded = match decode()? {
            None => decode()?,
            decoded => decoded,
        };
        match decoded {
            None => {
                let message = "the file of the slot is damaged, so its position is unknown; drop \
                               the slot, and bootstrap its reader again";
                Err(Error::corruption(&path, 0, message))
            }
            Some((version, None)) => {
                let message = format!("expected slot version {VERSION}, found {version}");
                Err(Error::new(ErrorKind::Incompatible, message).with_path(&path))
            }
            Some((_, Some(slot))) if slot.store_id != store_id => {
                let message = "the slot belongs to another store; remove its file";
                Err(Error::new(ErrorKind::Incompatible, message).with_path(&path))
            }
            Some((_, Some(slot))) => Ok(slot),
        }
    }

    /// Replaces the file of the slot `name`, durably.
    ///
    /// # Errors
    /// `NoSpace`, `Io`. The slot is then as before, or as after.
    pub fn write(&self, fs: &dyn Fs, dir: &Path, name: &str) -> Result<()> {
        let (new, path) = (names::new_slot_path(dir, name), names::slot_path(dir, name));
        // A crash may have left it.
        match fs.remove(&new) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io(&new, "remove the old file", error));
            }
            _ => {}
        }
        let mut file = fs.create_new(&new).map_err(|e| Error::io(&new, "create the slot", e))?;
        let written = file.append(&self.encode()).and_then(|()| file.sync());
        let renamed = written.and_then(|()| fs.rename(&new, &path));
        renamed.map_err(|e| Error::io(&path, "write the slot", e))?;
        sync_dir(fs, dir)
    }

    /// Returns an error if the slot keeps no logs any more.
    pub fn check_active(&self, name: &str, dir: &Path) -> Result<()> {
        let message = match self.fate {
            SlotFate::Active => return Ok(()),
            SlotFate::Dropped { lag_bytes } => format!(
                "the slot \"{name}\" was dropped since it lagged {lag_bytes} bytes, more than its \
                 limit of {} bytes; drop it with `drop_slot`, and bootstrap its reader again",
                self.lag_limit_bytes.unwrap_or(NO_LIMIT)
            ),
            SlotFate::Ahead => format!(
                "the reader of the slot \"{name}\" has confirmed position {}, and a crash lost \
                 writes before it; drop the slot with `drop_slot`, and bootstrap its reader again",
                self.position
            ),
        };
        Err(Error::not_found(message).with_path(dir))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemFs;

    #[test]
    fn a_slot_file_round_trips_and_every_damaged_bit_is_detected() {
        let (fs, dir) = (MemFs::new(), Path::new("/s"));
        fs.create_dir(dir).unwrap();
        for fate in [SlotFate::Active, SlotFate::Dropped { lag_bytes: 9 }, SlotFate::Ahead] {
            for lag_limit_bytes in [None, Some(7)] {
                let slot = SlotFile { store_id: 3, position: 5, lag_limit_bytes, fate };
                slot.write(&*fs, dir, "a").unwrap();
                assert_eq!(SlotFile::read(&*fs, dir, "a", 3).unwrap(), slot);
                assert_eq!(slot.check_active("a", dir).is_ok(), fate == SlotFate::Active);
                let bytes = slot.encode();
                assert_eq!(bytes.len(), 56);
                for bit in 0..bytes.len() * 8 {
                    let mut damaged = bytes.clone();
                    damaged[bit / 8] ^= 1 << (bit % 8);
                    assert_eq!(SlotFile::decode(&damaged), None, "{bit}");
                }
                assert!((0..bytes.len()).all(|len| SlotFile::decode(&bytes[..len]).is_none()));
            }
        }
        let error = SlotFile::read(&*fs, dir, "a", 4).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Incompatible);
        assert_eq!(SlotFile::read(&*fs, dir, "b", 3).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
