//! The file `KEYS`: the data keys of a directory, wrapped by the master key.
//!
//! Invariants:
//! 1. The file is replaced as a whole, by a rename of a synced file, and has its content twice: one
//!    damaged byte loses no key.
//! 2. A data key stays in the file while a file of the directory may need it.
//! 3. Two directories never write under the same data key, also if one is a copy of the other: each
//!    directory gets an active key of its own ([`share`]).

use std::io;
use std::path::Path;
use std::sync::Arc;

use zeroize::Zeroizing;

use super::cipher::{DataKey, FileKey, Nonces, SEAL_BYTES, random};
use super::provider::{KeyProvider, MasterKey, ask, is_key_id};
use crate::base::checksum::checksum;
use crate::base::coding::Reader;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Fs, KEYS, KEYS_NEW};

const MAGIC: &[u8; 8] = b"ESKRKEYS";
const VERSION: u32 = 1;
const SALT_BYTES: usize = 32;
/// Length of a data key with its number, in bytes.
const ENTRY_BYTES: usize = 40;
/// Maximum length of `KEYS`, in bytes: more than ten thousand data keys.
const LEN_BYTES_MAX: u64 = 1 << 20;

/// The data keys of a directory. The last one is active: new files are written under it.
pub struct KeyRing {
    master_id: String,
    keys: Vec<Arc<DataKey>>,
}

/// A copy of the content of `KEYS`, before the keys are unwrapped.
struct Wrapped<'a> {
    /// Everything before the wrapped keys. It is authenticated with them.
    head: &'a [u8],
    master_id: &'a str,
    salt: [u8; SALT_BYTES],
    sealed: &'a [u8],
}

impl KeyRing {
    /// Returns the key of this number.
    pub fn get(&self, id: u64) -> Option<&Arc<DataKey>> {
        self.keys.iter().find(|key| key.id == id)
    }

    /// Returns the key of new files.
    pub fn active(&self) -> Option<&Arc<DataKey>> {
        self.keys.last()
    }

    /// Reads the keys of `dir`; `None` if the directory has none.
    ///
    /// # Errors
    /// `InvalidArgument` when the provider's key does not open them, `Corruption`, `Incompatible`
    /// for a newer version, `Io`.
    pub fn load(fs: &dyn Fs, dir: &Path, provider: &dyn KeyProvider) -> Result<Option<KeyRing>> {
        let path = dir.join(KEYS);
        let content = match fs.read(&path, LEN_BYTES_MAX) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io(&path, "read the keys of the store", error)),
        };
        let (first, second) = content.split_at(content.len() / 2);
        let wrapped = match (Wrapped::parse(first, &path), Wrapped::parse(second, &path)) {
            (Ok(Some(wrapped)), _) | (_, Ok(Some(wrapped))) => wrapped,
            (Err(error), _) | (_, Err(error)) => return Err(error),
            _ => {
                let message = "expected the keys of an encrypted store, found other bytes in both \
                               copies; restore the file KEYS from a backup of this directory";
                return Err(Error::corruption(&path, 0, message));
            }
        };
        let master = ask(provider, Some(wrapped.master_id)).map_err(|e| e.with_path(&path))?;
        wrapped.unwrap(&master, &path).map(Some)
    }

    /// Writes the keys of `dir`, wrapped by `master`, and makes them durable.
    pub fn store(&self, fs: &dyn Fs, dir: &Path, master: &MasterKey) -> Result<()> {
        let (new, path) = (dir.join(KEYS_NEW), dir.join(KEYS));
        let io = |e| Error::io(&new, "write the keys of the store", e);
        let copy = self.wrap(master).map_err(io)?;
        if fs.exists(&new).map_err(io)? {
            fs.remove(&new).map_err(io)?;
        }
        let mut file = fs.create_new(&new).map_err(io)?;
        file.append(&copy).and_then(|()| file.append(&copy)).map_err(io)?;
        file.sync().map_err(io)?;
        fs.rename(&new, &path).map_err(io)?;
        crate::fs::sync_dir(fs, dir)
    }

    fn wrap(&self, master: &MasterKey) -> io::Result<Vec<u8>> {
        let salt = random::<SALT_BYTES>()?;
        let id = master.id();
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&(id.len() as u32).to_le_bytes());
        out.extend_from_slice(id.as_bytes());
        out.extend_from_slice(&salt);
        out.extend_from_slice(&((self.keys.len() * ENTRY_BYTES) as u32).to_le_bytes());
        let mut plain = Zeroizing::new(Vec::with_capacity(self.keys.len() * ENTRY_BYTES));
        for key in &self.keys {
            plain.extend_from_slice(&key.id.to_le_bytes());
            plain.extend_from_slice(&*key.bytes);
        }
        let head = out.clone();
        let cipher = FileKey::of_wrapping(master.bytes(), &salt);
        let mut sealed = Vec::with_capacity(plain.len() + SEAL_BYTES);
        cipher.seal(&mut Nonces::new()?, &head, &plain, &mut sealed)?;
        out.extend_from_slice(&sealed);
        out.extend_from_slice(&checksum(&out, 0).to_le_bytes());
        Ok(out)
    }
}

impl<'a> Wrapped<'a> {
    /// Parses one copy; `None` if it is damaged.
    ///
    /// # Errors
    /// `Incompatible` for an intact copy of a newer version.
    fn parse(copy: &'a [u8], path: &Path) -> Result<Option<Wrapped<'a>>> {
        let Some((body, sum)) = copy.split_last_chunk::<8>() else { return Ok(None) };
        if !body.starts_with(MAGIC) || checksum(body, 0).to_le_bytes() != *sum {
            return Ok(None);
        }
        let mut reader = Reader::new(&body[MAGIC.len()..]);
        let version = reader.u32().unwrap_or(0);
        if version != VERSION {
            let message =
                format!("expected version {VERSION} of the keys of a store, found {version}");
            return Err(Error::new(ErrorKind::Incompatible, message).with_path(path));
        }
        Ok(Wrapped::parse_body(body, &mut reader))
    }

    fn parse_body(body: &'a [u8], reader: &mut Reader<'a>) -> Option<Wrapped<'a>> {
        let id_bytes = reader.u32()? as usize;
        let master_id = std::str::from_utf8(reader.take(id_bytes)?).ok()?;
        let salt = reader.take(SALT_BYTES)?.try_into().ok()?;
        let keys_bytes = reader.u32()? as usize;
        let head_bytes = MAGIC.len() + 4 + 4 + id_bytes + SALT_BYTES + 4;
        let (head, sealed) = body.split_at_checked(head_bytes)?;
        let is_whole = sealed.len() == keys_bytes.checked_add(SEAL_BYTES)?
            && keys_bytes.is_multiple_of(ENTRY_BYTES)
            && keys_bytes > 0
            && is_key_id(master_id);
        is_whole.then_some(Wrapped { head, master_id, salt, sealed })
    }

    fn unwrap(&self, master: &MasterKey, path: &Path) -> Result<KeyRing> {
        let cipher = FileKey::of_wrapping(master.bytes(), &self.salt);
        let mut plain = Zeroizing::new(vec![0; self.sealed.len() - SEAL_BYTES]);
        if !cipher.open_into(self.head, self.sealed, &mut plain) {
            let message = format!(
                "the key {:?} does not open this store, which was encrypted under the key {:?}",
                master.id(),
                self.master_id
            );
            return Err(Error::invalid(message).with_path(path));
        }
        let keys = plain.chunks_exact(ENTRY_BYTES).map(|entry| {
            let (mut id, mut bytes) = ([0; 8], Zeroizing::new([0; 32]));
            id.copy_from_slice(&entry[..8]);
            bytes.copy_from_slice(&entry[8..]);
            Arc::new(DataKey { id: u64::from_le_bytes(id), bytes })
        });
        Ok(KeyRing { master_id: self.master_id.to_string(), keys: keys.collect() })
    }
}

fn fresh_key() -> io::Result<Arc<DataKey>> {
    let id = u64::from_le_bytes(random()?);
    Ok(Arc::new(DataKey { id, bytes: Zeroizing::new(random()?) }))
}

fn random_failed(dir: &Path) -> impl Fn(io::Error) -> Error {
    let path = dir.join(KEYS);
    move |error| Error::io(&path, "make a data key", error)
}

/// Gives the directory `to` keys: an active key of its own, and those of `from`, so that files of
/// `from` can be linked into `to`. Keys that `to` already has stay.
///
/// # Errors
/// The errors of [`KeyRing::load`] and [`KeyRing::store`].
pub fn share(
    fs: &dyn Fs,
    from: Option<&Path>,
    to: &Path,
    provider: &dyn KeyProvider,
) -> Result<()> {
    let theirs = from.map(|from| KeyRing::load(fs, from, provider)).transpose()?.flatten();
    let theirs = theirs.map_or_else(Vec::new, |ring| ring.keys);
    let own = KeyRing::load(fs, to, provider)?;
    let master_id = own.as_ref().map(|ring| ring.master_id.clone());
    let master = ask(provider, master_id.as_deref()).map_err(|e| e.with_path(to))?;
    let is_new = own.is_none();
    let own = own.map_or_else(Vec::new, |ring| ring.keys);
    let mut keys: Vec<_> =
        theirs.into_iter().filter(|key| own.iter().all(|there| there.id != key.id)).collect();
    if keys.is_empty() && !is_new {
        return Ok(());
    }
    // The active key is last.
    keys.extend(own);
    if is_new {
        keys.push(fresh_key().map_err(random_failed(to))?);
    }
    KeyRing { master_id: master.id().to_string(), keys }.store(fs, to, &master)
}

/// Result of [`Db::rekey`](crate::Db::rekey).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RekeyReport {
    /// Name of the master key before.
    pub from: String,
    /// Name of the master key now.
    pub to: String,
    /// Number of data keys that files of the store still need, without the new one.
    pub data_keys: u64,
    /// Number of data keys that no file needed, and that were removed.
    pub removed_data_keys: u64,
}

/// Wraps the keys of `dir` under another master key, adds a new data key, and drops the data keys
/// for which `is_used` is false.
///
/// # Errors
/// The errors of [`KeyRing::load`] and [`KeyRing::store`]; `InvalidArgument` for a store without
/// keys.
pub fn rekey(
    fs: &dyn Fs,
    dir: &Path,
    (from, to): (&dyn KeyProvider, &dyn KeyProvider),
    is_used: impl Fn(u64) -> bool,
) -> Result<RekeyReport> {
    let Some(ring) = KeyRing::load(fs, dir, from)? else {
        return Err(Error::invalid("the store is not encrypted").with_path(dir));
    };
    let master = ask(to, None).map_err(|e| e.with_path(dir))?;
    let before = ring.keys.len() as u64;
    let mut keys: Vec<_> = ring.keys.into_iter().filter(|key| is_used(key.id)).collect();
    let kept = keys.len() as u64;
    keys.push(fresh_key().map_err(random_failed(dir))?);
    KeyRing { master_id: master.id().to_string(), keys }.store(fs, dir, &master)?;
    Ok(RekeyReport {
        from: ring.master_id,
        to: master.id().to_string(),
        data_keys: kept,
        removed_data_keys: before - kept,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemFs;

    fn dir() -> &'static Path {
        Path::new("/d")
    }

    fn master(byte: u8) -> MasterKey {
        MasterKey::from_bytes([byte; 32])
    }

    #[test]
    fn one_damaged_byte_of_the_keys_loses_nothing_and_two_are_reported() {
        let fs = MemFs::new();
        fs.create_dir(dir()).unwrap();
        assert!(KeyRing::load(&*fs, dir(), &master(1)).unwrap().is_none());
        share(&*fs, None, dir(), &master(1)).unwrap();
        let active = KeyRing::load(&*fs, dir(), &master(1)).unwrap().unwrap().active().unwrap().id;
        let content = fs.read(&dir().join(KEYS), LEN_BYTES_MAX).unwrap();
        for at in 0..content.len() {
            let mut file = fs.open_write(&dir().join(KEYS)).unwrap();
            file.write_at(&[content[at] ^ 0x10], at as u64).unwrap();
            let ring = KeyRing::load(&*fs, dir(), &master(1)).unwrap().unwrap();
            assert_eq!(ring.active().unwrap().id, active, "byte {at}");
            if at < content.len() / 2 {
                let twin = at + content.len() / 2;
                file.write_at(&[content[twin] ^ 0x10], twin as u64).unwrap();
                let error = KeyRing::load(&*fs, dir(), &master(1)).err().unwrap();
                assert_eq!(error.kind(), ErrorKind::Corruption, "byte {at}: {error}");
                file.write_at(&[content[twin]], twin as u64).unwrap();
            }
            file.write_at(&[content[at]], at as u64).unwrap();
        }
        let error = KeyRing::load(&*fs, dir(), &master(2)).err().unwrap();
        let (kind, text) = (error.kind(), error.to_string());
        let (given, needed) = (master(2), master(1));
        assert_eq!(kind, ErrorKind::InvalidArgument);
        assert!(text.contains(&format!("the key {:?} does not open this store", given.id())));
        assert!(text.contains(needed.id()), "{text}");
    }

    #[test]
    fn rekey_keeps_used_data_keys_under_the_new_master_key() {
        let fs = MemFs::new();
        fs.create_dir(dir()).unwrap();
        share(&*fs, None, dir(), &master(1)).unwrap();
        let load = |byte| KeyRing::load(&*fs, dir(), &master(byte)).map(Option::unwrap);
        let first = load(1).unwrap().active().unwrap().id;
        let report = rekey(&*fs, dir(), (&master(1), &master(2)), |_| true).unwrap();
        assert_eq!((report.data_keys, report.removed_data_keys), (1, 0));
        assert!(load(1).is_err());
        let second = load(2).unwrap().active().unwrap().id;
        assert!(first != second && load(2).unwrap().get(first).is_some());
        let report = rekey(&*fs, dir(), (&master(2), &master(3)), |id| id == second).unwrap();
        assert_eq!((report.data_keys, report.removed_data_keys), (1, 1));
        let ring = load(3).unwrap();
        assert!(ring.get(first).is_none() && ring.get(second).is_some());
        // A copy of a directory writes under a key of its own, and reads what was linked into it.
        let copy = Path::new("/copy");
        fs.create_dir(copy).unwrap();
        share(&*fs, Some(dir()), copy, &master(3)).unwrap();
        let copied = KeyRing::load(&*fs, copy, &master(3)).unwrap().unwrap();
        let active = copied.active().unwrap().id;
        assert!(copied.get(second).is_some() && load(3).unwrap().get(active).is_none());
    }
}
