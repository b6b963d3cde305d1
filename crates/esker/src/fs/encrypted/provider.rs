//! Master keys of encrypted stores, and where a program gets them from.
//!
//! Invariant: no message, no debug text and no file holds the bytes of a master key. The memory of a
//! key is overwritten when the key is dropped.

use std::fmt;
use std::path::PathBuf;

use sha2::{Digest, Sha256};
use zeroize::{Zeroize, Zeroizing};

use crate::base::panics::catch_panic;
use crate::error::{Error, Result};

/// Length of a master key, in bytes.
pub const MASTER_KEY_BYTES: usize = 32;
/// Maximum length of the name of a key, in bytes.
const ID_BYTES_MAX: usize = 64;
/// Maximum length of a file that holds a key, in bytes.
const KEY_FILE_BYTES_MAX: u64 = 4096;

/// An error of a [`KeyProvider`]: its text becomes part of the store's error.
pub type KeyError = Box<dyn std::error::Error + Send + Sync>;

/// A master key: 32 secret bytes and a name. The name is not secret: the file `KEYS` of a store and
/// messages show it.
///
/// ```
/// # fn main() -> esker::Result<()> {
/// let key = esker::encryption::MasterKey::from_bytes([7; 32]);
/// assert_eq!(key.id().len(), 16);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct MasterKey {
    id: String,
    bytes: Zeroizing<[u8; MASTER_KEY_BYTES]>,
}

impl MasterKey {
    /// Creates a key with a name of 1 to 64 bytes without control characters, such as the name that
    /// a key service gives it.
    ///
    /// # Errors
    /// `InvalidArgument` for another name.
    pub fn new(id: impl Into<String>, bytes: [u8; MASTER_KEY_BYTES]) -> Result<MasterKey> {
        let (id, bytes) = (id.into(), Zeroizing::new(bytes));
        if !is_key_id(&id) {
            let message = "the name of a key must have 1 to 64 bytes without control characters";
            return Err(Error::invalid(message));
        }
        Ok(MasterKey { id, bytes })
    }

    /// Creates a key that is named by its fingerprint: 16 hexadecimal digits of a hash of the key.
    pub fn from_bytes(bytes: [u8; MASTER_KEY_BYTES]) -> MasterKey {
        let bytes = Zeroizing::new(bytes);
        let hash = Sha256::new().chain_update(b"esker master key").chain_update(*bytes).finalize();
        let id = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        MasterKey { id, bytes }
    }

    /// Creates a key from the content of a file or a variable: 64 hexadecimal digits, with blanks or
    /// newlines around them, or exactly 32 bytes. Its name is its fingerprint.
    ///
    /// # Errors
    /// `InvalidArgument` for other content.
    pub fn parse(content: &[u8]) -> Result<MasterKey> {
        if let Ok(bytes) = content.try_into() {
            return Ok(MasterKey::from_bytes(bytes));
        }
        let digits = content.trim_ascii();
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        let mut bytes = Zeroizing::new([0; MASTER_KEY_BYTES]);
        let mut is_valid = digits.len() == 2 * MASTER_KEY_BYTES;
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            match (digit(pair[0]), pair.get(1).and_then(|low| digit(*low))) {
                (Some(high), Some(low)) => *byte = high << 4 | low,
                _ => is_valid = false,
            }
        }
        if !is_valid {
            let message = "expected a key: 64 hexadecimal digits, or 32 bytes; `openssl rand -hex \
                           32` makes one";
            return Err(Error::invalid(message));
        }
        Ok(MasterKey::from_bytes(*bytes))
    }

    /// Returns the name of the key.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn bytes(&self) -> &[u8; MASTER_KEY_BYTES] {
        &self.bytes
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MasterKey({:?})", self.id)
    }
}

/// Returns whether `id` can be the name of a key.
pub(super) fn is_key_id(id: &str) -> bool {
    (1..=ID_BYTES_MAX).contains(&id.len()) && !id.chars().any(char::is_control)
}

/// A source of master keys. Closures of the same form are providers.
///
/// A store calls it when it is opened, created or copied, not for each file. A panic becomes an
/// error.
pub trait KeyProvider: Send + Sync + 'static {
    /// Returns the master key of the name `id`, or, for `None`, the key for a new store. A provider
    /// of one key returns this key in any case: a store refuses a key that does not open it.
    ///
    /// # Errors
    /// Any error; the store is not opened then.
    fn master_key(&self, id: Option<&str>) -> std::result::Result<MasterKey, KeyError>;
}

impl<F> KeyProvider for F
where
    F: Fn(Option<&str>) -> std::result::Result<MasterKey, KeyError> + Send + Sync + 'static,
{
    fn master_key(&self, id: Option<&str>) -> std::result::Result<MasterKey, KeyError> {
        self(id)
    }
}

/// A provider of one key, which is in memory.
impl KeyProvider for MasterKey {
    fn master_key(&self, _id: Option<&str>) -> std::result::Result<MasterKey, KeyError> {
        Ok(self.clone())
    }
}

/// A provider of the key in a file: 64 hexadecimal digits, or 32 bytes. The file is read at each
/// opening. Nobody else should be able to read it.
#[derive(Debug, Clone)]
pub struct KeyFile(PathBuf);

impl KeyFile {
    /// Names the file. It is not read yet.
    pub fn new(path: impl Into<PathBuf>) -> KeyFile {
        KeyFile(path.into())
    }
}

impl KeyProvider for KeyFile {
    fn master_key(&self, _id: Option<&str>) -> std::result::Result<MasterKey, KeyError> {
        let path = self.0.display();
        let mut content = Zeroizing::new(Vec::new());
        let read = std::fs::File::open(&self.0).and_then(|file| {
            let mut part = std::io::Read::take(file, KEY_FILE_BYTES_MAX);
            std::io::Read::read_to_end(&mut part, &mut content)
        });
        read.map_err(|error| format!("cannot read the key file {path}: {error}"))?;
        Ok(MasterKey::parse(&content).map_err(|error| format!("key file {path}: {error}"))?)
    }
}

/// A provider of the key in an environment variable: 64 hexadecimal digits.
#[derive(Debug, Clone)]
pub struct KeyVariable(String);

impl KeyVariable {
    /// Names the variable. It is not read yet.
    pub fn new(name: impl Into<String>) -> KeyVariable {
        KeyVariable(name.into())
    }
}

impl KeyProvider for KeyVariable {
    fn master_key(&self, _id: Option<&str>) -> std::result::Result<MasterKey, KeyError> {
        let name = &self.0;
        let mut value =
            std::env::var(name).map_err(|error| format!("environment variable {name}: {error}"))?;
        let key = MasterKey::parse(value.as_bytes());
        value.zeroize();
        Ok(key.map_err(|error| format!("environment variable {name}: {error}"))?)
    }
}

/// Returns a key of the provider.
///
/// # Errors
/// `InvalidArgument` when the provider fails or panics.
pub(super) fn ask(provider: &dyn KeyProvider, id: Option<&str>) -> Result<MasterKey> {
    let found = catch_panic(|| provider.master_key(id));
    let wanted = id.map_or("for a new store".to_string(), |id| format!("{id:?}"));
    let failed = |text: String| Error::invalid(format!("cannot get the key {wanted}: {text}"));
    found.map_err(failed)?.map_err(|error| failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_parsed_from_digits_and_bytes_and_debug_text_hides_them() {
        let key = MasterKey::parse(&[0x5A; 32]).unwrap();
        let same = MasterKey::parse(format!("\n {}\n", "5a".repeat(32)).as_bytes()).unwrap();
        assert_eq!((key.id(), key.bytes()), (same.id(), same.bytes()));
        assert!(!format!("{key:?}").contains("5a5a") && !format!("{key:?}").contains("90"));
        for wrong in [&b""[..], b"5a", &[b'5'; 63], &[b'5'; 65], &[b'x'; 64], &[7; 31]] {
            assert!(MasterKey::parse(wrong).is_err(), "{wrong:?}");
        }
        assert!(MasterKey::new("", [0; 32]).is_err() && MasterKey::new("a\nb", [0; 32]).is_err());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let error = ask(&KeyFile::new(&path), None).unwrap_err().to_string();
        assert!(error.contains("cannot read the key file"), "{error}");
        std::fs::write(&path, "5A".repeat(32)).unwrap();
        assert_eq!(ask(&KeyFile::new(&path), Some("any")).unwrap().id(), key.id());
        let broken = |_: Option<&str>| -> std::result::Result<MasterKey, KeyError> { panic!("oh") };
        assert!(ask(&broken, Some("k1")).unwrap_err().to_string().contains("oh"));
        let unset = KeyVariable::new("ESKER_NO_SUCH_VARIABLE");
        assert!(ask(&unset, None).unwrap_err().to_string().contains("ESKER_NO_SUCH_VARIABLE"));
    }
}
