//! Reads the dictionary of a table: a sealed part of the file, before the filter.
//!
//! Invariants: nothing is prepared for use before its checksum was verified.

use crate::error::{Error, Result};
use crate::fs::ReadableFile;
use crate::options::kinds::Compression;

use super::TableSource;
use super::dictionary::Dictionary;
use super::format::{Handle, TRAILER_BYTES, unseal};

/// Maximum length of a dictionary that is read, in bytes. A longer one is malformed.
const DICTIONARY_BYTES_MAX: u64 = 1 << 20;

/// Reads the dictionary of a table, which ends where its filter begins. Returns it with its offset.
pub(super) fn read_dictionary(
    file: &dyn ReadableFile,
    source: &TableSource,
    place: Handle,
    filter_at: u64,
) -> Result<(Dictionary, u64)> {
    let at = place.offset_bytes;
    let damaged = |what: &str| Error::corruption(&source.path, at, what.to_string());
    if place.payload_bytes > DICTIONARY_BYTES_MAX || place.end() != Some(filter_at) {
        return Err(damaged("the dictionary does not end at the filter, or is too long"));
    }
    let mut sealed = vec![0; place.payload_bytes as usize + TRAILER_BYTES];
    file.read_exact_at(&mut sealed, at)
        .map_err(|e| Error::io(&source.path, "read the dictionary", e))?;
    match unseal(&sealed, source.table_id, at) {
        Ok((Compression::None, bytes)) => {
            let dictionary = Dictionary::new(bytes);
            Ok((dictionary.ok_or_else(|| damaged("the dictionary is malformed"))?, at))
        }
        Ok(_) => Err(damaged("expected an uncompressed dictionary, found a compressed one")),
        Err(what) => Err(damaged(what)),
    }
}
