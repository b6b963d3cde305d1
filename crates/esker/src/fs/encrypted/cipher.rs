//! The key of one encrypted file: its header, and the sealing of pages and frames.
//!
//! Invariants:
//! 1. Each file has a key of its own: HKDF-SHA-256 of a data key with the file's random salt, over
//!    the whole header and the file's name. A changed header or another name gives another key, with
//!    which nothing in the file opens.
//! 2. No nonce repeats under a file's key. A writer draws a random prefix of 8 bytes and counts in the
//!    other 4, so that rewriting a page, or writing it again after a crash, has a new nonce.
//! 3. What does not open is never returned.

use aes_gcm::aead::AeadInOut;
use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::{Aes256Gcm, KeyInit, Nonce, Tag};
use hkdf::Hkdf;
use sha2::Sha256;
use std::io;
use zeroize::Zeroizing;

/// Length of the header of an encrypted file, in bytes.
pub const HEADER_BYTES: usize = 72;
/// Length that sealing adds: the nonce and the tag, in bytes.
pub const SEAL_BYTES: usize = NONCE_BYTES + TAG_BYTES;
const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;
const PREFIX_BYTES: usize = 8;
/// Length of the part of the header before the proof of the key, in bytes.
const BASE_BYTES: usize = 56;
const MAGIC: &[u8; 8] = b"ESKCRYPT";
const VERSION: u8 = 1;
/// AES-256-GCM.
const CIPHER: u8 = 1;

/// The form of a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Pages of a fixed size, which can be read and rewritten in any order.
    Pages = 1,
    /// Frames, which are only ever appended.
    Frames = 2,
    /// Frames that each replace a part of a small file.
    Journal = 3,
}

/// A data key. `KEYS` holds it, wrapped by the master key.
pub struct DataKey {
    pub id: u64,
    pub bytes: Zeroizing<[u8; 32]>,
}

/// Returns random bytes of the operating system.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        io::Error::other(format!("cannot get random bytes from the operating system: {error}"))
    })?;
    Ok(bytes)
}

/// The nonces of one writer.
pub struct Nonces {
    prefix: [u8; PREFIX_BYTES],
    next: u32,
}

impl Nonces {
    pub fn new() -> io::Result<Nonces> {
        Ok(Nonces { prefix: random()?, next: 0 })
    }

    fn take(&mut self) -> io::Result<[u8; NONCE_BYTES]> {
        if self.next == u32::MAX {
            *self = Nonces::new()?;
        }
        let mut nonce = [0; NONCE_BYTES];
        nonce[..PREFIX_BYTES].copy_from_slice(&self.prefix);
        nonce[PREFIX_BYTES..].copy_from_slice(&self.next.to_le_bytes());
        self.next += 1;
        Ok(nonce)
    }
}

/// A parsed header.
pub struct Header {
    bytes: [u8; HEADER_BYTES],
    pub layout: Layout,
    pub data_key: u64,
}

impl Header {
    /// Parses a header; `None` for other bytes, also for a version or a cipher that this code does
    /// not know.
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Option<Header> {
        if bytes[..8] != MAGIC[..] || bytes[8] != VERSION || bytes[10] != CIPHER {
            return None;
        }
        let layout = match bytes[9] {
            1 => Layout::Pages,
            2 => Layout::Frames,
            3 => Layout::Journal,
            _ => return None,
        };
        let data_key = u64::from_le_bytes(bytes[16..24].try_into().ok()?);
        Some(Header { bytes: *bytes, layout, data_key })
    }
}

/// The key of one file.
pub struct FileKey {
    cipher: Aes256Gcm,
    /// Seed of the checksums of frame headers.
    pub seed: u64,
}

impl FileKey {
    /// Makes the key and the header of a new file `name`.
    pub fn create(
        key: &DataKey,
        name: &[u8],
        layout: Layout,
    ) -> io::Result<(FileKey, [u8; HEADER_BYTES])> {
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(MAGIC);
        (header[8], header[9], header[10]) = (VERSION, layout as u8, CIPHER);
        header[16..24].copy_from_slice(&key.id.to_le_bytes());
        header[24..BASE_BYTES].copy_from_slice(&random::<32>()?);
        let (file, proof) = FileKey::derive(key, name, &header);
        header[BASE_BYTES..].copy_from_slice(&proof);
        Ok((file, header))
    }

    /// Returns the key of the file `name`, unless its header was changed or is another file's.
    pub fn open(key: &DataKey, name: &[u8], header: &Header) -> Option<FileKey> {
        let (file, proof) = FileKey::derive(key, name, &header.bytes);
        (header.bytes[BASE_BYTES..] == proof).then_some(file)
    }

    fn derive(key: &DataKey, name: &[u8], header: &[u8; HEADER_BYTES]) -> (FileKey, [u8; 16]) {
        let base = &header[..BASE_BYTES];
        let hkdf = Hkdf::<Sha256>::new(Some(&base[24..]), &*key.bytes);
        let mut out = Zeroizing::new([0; 56]);
        // The only error is a length beyond 255 hashes.
        let expanded = hkdf.expand_multi_info(&[b"esker file", base, name], &mut *out);
        debug_assert!(expanded.is_ok());
        let (mut secret, mut proof, mut seed) = (Zeroizing::new([0; 32]), [0; 16], [0; 8]);
        secret.copy_from_slice(&out[..32]);
        proof.copy_from_slice(&out[32..48]);
        seed.copy_from_slice(&out[48..]);
        let cipher = Aes256Gcm::new(&(*secret).into());
        (FileKey { cipher, seed: u64::from_le_bytes(seed) }, proof)
    }

    /// Returns a cipher for bytes that belong to no file, such as the wrapped data keys.
    pub fn of_wrapping(master: &[u8; 32], salt: &[u8; 32]) -> FileKey {
        let mut secret = Zeroizing::new([0; 32]);
        let hkdf = Hkdf::<Sha256>::new(Some(salt), master);
        let expanded = hkdf.expand(b"esker keys", &mut *secret);
        debug_assert!(expanded.is_ok());
        FileKey { cipher: Aes256Gcm::new(&(*secret).into()), seed: 0 }
    }

    /// Appends the sealed `plain`: nonce, ciphertext, tag. Whoever opens it must have the same `about`.
    pub fn seal(
        &self,
        nonces: &mut Nonces,
        about: &[u8],
        plain: &[u8],
        to: &mut Vec<u8>,
    ) -> io::Result<()> {
        let nonce = nonces.take()?;
        to.extend_from_slice(&nonce);
        let from = to.len();
        to.extend_from_slice(plain);
        let sealed = self.cipher.encrypt_inout_detached(
            &Nonce::from(nonce),
            about,
            (&mut to[from..]).into(),
        );
        let tag = sealed.map_err(|_| io::Error::other("cannot encrypt so many bytes"))?;
        to.extend_from_slice(&tag);
        Ok(())
    }

    /// Opens `sealed` into `plain`, which is [`SEAL_BYTES`] shorter. Returns whether it is
    /// authentic; if not, `plain` holds zeros.
    pub fn open_into(&self, about: &[u8], sealed: &[u8], plain: &mut [u8]) -> bool {
        let opened = self.try_open(about, sealed, plain);
        if opened.is_none() {
            plain.fill(0);
        }
        opened.is_some()
    }

    fn try_open(&self, about: &[u8], sealed: &[u8], plain: &mut [u8]) -> Option<()> {
        let (nonce, rest) = sealed.split_first_chunk::<NONCE_BYTES>()?;
        let (secret, tag) = rest.split_last_chunk::<TAG_BYTES>()?;
        let buffer = InOutBuf::new(secret, plain).ok()?;
        let (nonce, tag) = (Nonce::from(*nonce), Tag::from(*tag));
        self.cipher.decrypt_inout_detached(&nonce, about, buffer, &tag).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data_key() -> DataKey {
        DataKey { id: 9, bytes: Zeroizing::new([3; 32]) }
    }

    #[test]
    fn file_keys_depend_on_every_byte_of_header_and_name() {
        let (file, header) = FileKey::create(&data_key(), b"000001.sst", Layout::Pages).unwrap();
        let parsed = Header::parse(&header).unwrap();
        let again = FileKey::open(&data_key(), b"000001.sst", &parsed).unwrap();
        let (mut sealed, mut plain) = (Vec::new(), [0; 5]);
        file.seal(&mut Nonces::new().unwrap(), b"1", b"hello", &mut sealed).unwrap();
        assert!(again.open_into(b"1", &sealed, &mut plain) && plain == *b"hello");
        assert!(!again.open_into(b"2", &sealed, &mut plain) && plain == [0; 5]);
        assert!(FileKey::open(&data_key(), b"000002.sst", &parsed).is_none());
        for at in 0..HEADER_BYTES {
            let mut changed = header;
            changed[at] ^= 1;
            let opened = Header::parse(&changed)
                .and_then(|parsed| FileKey::open(&data_key(), b"000001.sst", &parsed));
            assert!(opened.is_none(), "byte {at}");
        }
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 0x80;
            assert!(!again.open_into(b"1", &changed, &mut plain), "byte {at}");
        }
    }

    #[test]
    fn nonces_of_a_writer_differ_also_beyond_the_counter() {
        let mut nonces = Nonces::new().unwrap();
        let first = nonces.take().unwrap();
        assert_ne!(first, nonces.take().unwrap());
        nonces.next = u32::MAX;
        let beyond = nonces.take().unwrap();
        assert_ne!(first[..PREFIX_BYTES], beyond[..PREFIX_BYTES], "a new prefix");
    }
}
