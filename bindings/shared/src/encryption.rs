//! Keys of encrypted stores as the languages give them, and the change of a key.
//!
//! Invariants:
//! 1. No message has the bytes of a key.
//! 2. A store with a key is opened, copied and removed on the file system of [`file_system`]. A file of
//!    a sorted writer is made on the file system below, because it belongs to no store yet.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use esker::encryption::{
    EncryptedFs, KeyError, KeyFile, KeyProvider, MASTER_KEY_BYTES, MasterKey, RekeyReport,
};
use esker::fs::Fs;
use esker::{Db, ErrorKind, Result, internals};

/// Where the master key of a store comes from.
pub type Key = Arc<dyn KeyProvider>;

/// Returns the key in `content`: 32 bytes, or 64 hexadecimal digits. Its name is its fingerprint.
///
/// # Errors
/// `InvalidArgument` for other content.
pub fn of_bytes(content: &[u8]) -> Result<Key> {
    Ok(Arc::new(MasterKey::parse(content)?))
}

/// Returns the key in a file, which is read at each opening.
pub fn of_file(path: impl Into<PathBuf>) -> Key {
    Arc::new(KeyFile::new(path))
}

/// Returns the key that a function of the program has given: 32 bytes with a name, or without one the
/// content that [`of_bytes`] takes.
///
/// # Errors
/// A sentence for other content, or for a name that no key can have.
pub fn given(content: &[u8], name: Option<&str>) -> std::result::Result<MasterKey, KeyError> {
    let Some(name) = name else { return Ok(MasterKey::parse(content)?) };
    let bytes = <[u8; MASTER_KEY_BYTES]>::try_from(content).map_err(|_| {
        let found = content.len();
        format!("expected {MASTER_KEY_BYTES} bytes of the key {name:?}, found {found}")
    })?;
    Ok(MasterKey::new(name, bytes)?)
}

/// The key among options that a language gives as names and values. No option of the engine has a
/// point in its name, so these names are of that interface: `encryption.key` (hexadecimal digits),
/// `encryption.key_name` after it, and `encryption.key_file`. Java and Node.js use it.
#[derive(Default)]
pub struct KeyOptions {
    bytes: Vec<u8>,
    key: Option<Result<Key>>,
}

impl KeyOptions {
    /// Takes an option. Returns false if it is none of a key.
    ///
    /// # Errors
    /// `InvalidArgument` for a key with a name that it cannot have, or that is not 32 bytes long.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool> {
        let key = match name {
            "encryption.key" => {
                self.bytes = decoded(value);
                of_bytes(&self.bytes)
            }
            "encryption.key_name" => {
                let given = given(&self.bytes, Some(value)).map_err(|error| {
                    internals::error(ErrorKind::InvalidArgument, error.to_string(), None)
                })?;
                Ok(Arc::new(given) as Key)
            }
            "encryption.key_file" => Ok(of_file(value)),
            _ => return Ok(false),
        };
        self.key = Some(key);
        Ok(true)
    }

    /// Returns the key, if there is one.
    ///
    /// # Errors
    /// `InvalidArgument` if the content is no key.
    pub fn key(self) -> Result<Option<Key>> {
        self.key.transpose()
    }
}

/// Returns the bytes of hexadecimal digits that a binding has made.
fn decoded(digits: &str) -> Vec<u8> {
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.as_bytes().chunks(2).filter_map(pair).collect()
}

/// Returns the file system of a store: `below`, or with a key an encrypting one over it.
pub fn file_system(below: Arc<dyn Fs>, key: Option<&Key>) -> Arc<dyn Fs> {
    match key {
        Some(key) => EncryptedFs::with_provider(below, key.clone()),
        None => below,
    }
}

/// Returns the name of the key that opens the store in `path`, or the newest backup in this directory
/// of backups; `None` if it is not encrypted or does not exist. For languages whose functions are not
/// called by the engine: they are asked for the key before the store is opened.
///
/// # Errors
/// `Corruption` when `KEYS` is damaged, `Incompatible`, `Io`.
pub fn wanted(below: &Arc<dyn Fs>, path: &Path) -> Result<Option<String>> {
    let asked: Arc<Mutex<Option<String>>> = Arc::default();
    let note = asked.clone();
    let source = move |name: Option<&str>| -> std::result::Result<MasterKey, KeyError> {
        *note.lock().unwrap_or_else(PoisonError::into_inner) = name.map(String::from);
        Err("the name of the key is looked up".into())
    };
    let fs = EncryptedFs::new(below.clone(), source);
    let mut places = vec![path.to_path_buf()];
    let entries = below.list(path).unwrap_or_default();
    let number = |name: &str| name.strip_prefix("backup-")?.parse::<u64>().ok();
    let newest = entries.iter().filter_map(|entry| Some((number(&entry.name)?, &entry.name))).max();
    places.extend(newest.map(|(_, name)| path.join(name)));
    for place in places {
        let checked = fs.check_keys(&place);
        if let Some(name) = asked.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Ok(Some(name));
        }
        checked?;
    }
    Ok(None)
}

/// Changes the key of the store in `path`, which must not be open. `below` is the file system without
/// encryption.
///
/// # Errors
/// `InvalidArgument` without one of the keys; as [`Db::rekey`].
pub fn rekey(
    below: Arc<dyn Fs>,
    path: &Path,
    from: Option<&Key>,
    to: Option<&Key>,
) -> Result<RekeyReport> {
    let there = |key: Option<&Key>, which: &str| {
        let message = format!("a rekey needs two keys, and the {which} key is missing");
        key.cloned().ok_or_else(|| internals::error(ErrorKind::InvalidArgument, message, None))
    };
    let (from, to) = (there(from, "present")?, there(to, "new")?);
    Db::rekey_on(below, path, &*from, &*to)
}

#[cfg(test)]
mod tests {
    use esker::Options;
    use esker::fs::MemFs;

    use super::*;

    #[test]
    fn keys_open_their_stores_and_a_rekey_needs_both() {
        let (below, path) = (MemFs::new() as Arc<dyn Fs>, Path::new("/db"));
        let first = of_bytes(&[7; 32]).unwrap();
        let second = of_bytes("0b".repeat(32).as_bytes()).unwrap();
        let open = |key: Option<&Key>| {
            Db::open_on(file_system(below.clone(), key), path, Options::default())
        };
        assert_eq!(wanted(&below, path).unwrap(), None);
        open(Some(&first)).unwrap().put("k", "v").unwrap();
        let name = wanted(&below, path).unwrap().unwrap();
        open(Some(&first)).unwrap().backup("/backups").unwrap();
        assert_eq!(wanted(&below, Path::new("/backups")).unwrap().unwrap(), name);
        assert_eq!(open(None).unwrap_err().kind(), ErrorKind::InvalidArgument);
        let text = rekey(below.clone(), path, Some(&first), None).unwrap_err().to_string();
        assert!(text.contains("the new key is missing"), "{text}");
        let text = rekey(below.clone(), path, None, Some(&first)).unwrap_err().to_string();
        assert!(text.contains("the present key is missing"), "{text}");
        let made = rekey(below.clone(), path, Some(&first), Some(&second)).unwrap();
        assert!(made.from == name && made.from != made.to);
        assert!(open(Some(&first)).is_err());
        assert_eq!(&*open(Some(&second)).unwrap().get("k").unwrap().unwrap(), b"v");
    }

    #[test]
    fn given_keys_have_a_name_or_a_fingerprint() {
        assert_eq!(given(&[1; 32], Some("k1")).unwrap().id(), "k1");
        let fingerprint = given(&[1; 32], None).unwrap();
        assert_eq!(given("01".repeat(32).as_bytes(), None).unwrap().id(), fingerprint.id());
        let text = given(&[1; 31], Some("k1")).unwrap_err().to_string();
        assert!(text.contains("found 31"), "{text}");
        assert!(given(&[1; 32], Some("")).is_err() && given(b"short", None).is_err());
        assert!(of_bytes(&[1; 31]).is_err());
    }
}
