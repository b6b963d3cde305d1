//! The stamp of a table that was made for an ingest: the sequence number of all its entries.
//!
//! Such a table is written before its sequence number is known, and possibly by another process.
//! The ingest states the number in the manifest, and in the stamp for a repair without a manifest.
//!
//! Invariants: the number in the manifest counts. A stamp that is not written, or not wholly, is no
//! damage where the manifest states the number.

use std::path::Path;

use crate::base::key::SeqNo;
use crate::base::keyspace::TreeId;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Fs, WritableFile};

use super::format::{FOOTER_BYTES, Footer, STAMP_BYTES, decode_stamp, encode_stamp};
use super::properties::{External, Properties};
use super::{Table, TableInfo, TableSource};

impl TableInfo {
    /// Gives all entries the sequence number `seqno`.
    pub fn set_ingested(&mut self, seqno: SeqNo) {
        self.ingested = Some(seqno);
        if self.entries > 0 {
            (self.seqno_min, self.seqno_max) = (seqno, seqno);
        }
    }
}

/// Gives the table its sequence number: the one that the source states, or else that of the stamp.
/// `bytes_at` returns the bytes of the file from an offset.
///
/// # Errors
/// `InvalidArgument` when the source states a number and the table has numbers of its own.
/// `Corruption` when a table has a stamp and no such property or the reverse, or when nothing states
/// the number.
pub(super) fn apply<'a>(
    properties: &mut Properties,
    footer: &Footer,
    source: &TableSource,
    bytes_at: impl Fn(u64) -> &'a [u8],
) -> Result<()> {
    let damaged =
        |what: &str| Error::corruption(&source.path, footer.properties.offset_bytes, what);
    match (&properties.external, footer.stamp_at) {
        (None, None) if source.ingested.is_none() => Ok(()),
        (None, None) => Err(Error::invalid(
            "expected a table that a SortedWriter made, found a table of a store; write its pairs \
             with a SortedWriter",
        )
        .with_path(&source.path)),
        (Some(_), Some(at)) => {
            let stamp = bytes_at(at).get(..STAMP_BYTES).unwrap_or(&[]);
            let stated = decode_stamp(footer.table_id, at, stamp);
            let Some(seqno) = source.ingested.or(stated) else {
                return Err(Error::corruption(
                    &source.path,
                    at,
                    "expected the sequence number of an ingest, found none; the table was made for \
                     an ingest that did not complete",
                ));
            };
            properties.info.set_ingested(seqno);
            Ok(())
        }
        _ => Err(damaged("the properties and the footer differ about the stamp")),
    }
}

/// Writes the sequence number into the stamp of the table `path`, without a sync. Returns the open
/// file.
pub fn write_stamp(
    fs: &dyn Fs,
    path: &Path,
    info: &TableInfo,
    seqno: SeqNo,
) -> Result<Box<dyn WritableFile>> {
    let at = info.size_bytes.checked_sub((FOOTER_BYTES + STAMP_BYTES) as u64);
    let at = at.ok_or_else(|| Error::corruption(path, 0, "the table has no room for a stamp"))?;
    let mut file = fs.open_write(path).map_err(|e| Error::io(path, "open for the stamp", e))?;
    let stamp = encode_stamp(info.table_id, at, seqno);
    file.write_at(&stamp, at).map_err(|e| Error::io(path, "write the stamp", e))?;
    Ok(file)
}

/// Returns whether the table `path` of this content has a whole stamp: an ingest has used the file.
pub fn is_stamped(fs: &dyn Fs, path: &Path, info: &TableInfo) -> Result<bool> {
    let at = info.size_bytes.saturating_sub((FOOTER_BYTES + STAMP_BYTES) as u64);
    let mut stamp = [0; STAMP_BYTES];
    let file = fs.open_read(path).map_err(|e| Error::io(path, "open", e))?;
    file.read_exact_at(&mut stamp, at).map_err(|e| Error::io(path, "read the stamp", e))?;
    Ok(decode_stamp(info.table_id, at, &stamp).is_some())
}

impl Table {
    /// Returns the description in a table that was made for an ingest.
    ///
    /// # Errors
    /// `InvalidArgument` for any other table.
    pub fn external(&self) -> Result<&External> {
        let message = "expected a table that a SortedWriter made";
        let other = || Error::new(ErrorKind::InvalidArgument, message).with_path(&self.source.path);
        self.meta.properties.external.as_ref().ok_or_else(other)
    }

    /// Returns the number of the tree that the table was written for.
    pub fn tree(&self) -> TreeId {
        self.meta.properties.tree
    }
}
