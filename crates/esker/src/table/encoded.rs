//! The bytes of a table behind its blocks, as they are in the file, and its footer.
//!
//! Invariant: the footer passed its checksum. The other parts were not checked.

use std::path::Path;

use crate::base::coding::Reader;
use crate::cache::BlockSlots;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::ReadableFile;

use super::TableSource;
use super::block::Layout;
use super::format::{FOOTER_BYTES, FORMAT_VERSION, Footer, FooterError, Handle};
use super::index::Index;

/// The bytes of a table behind its blocks, as they are in the file.
pub(super) struct Encoded {
    pub(super) bytes: Vec<u8>,
    /// Offset of the bytes in the file.
    pub(super) start: u64,
    pub(super) footer: Footer,
}

/// Reads the footer of a file of `size_bytes`. Returns it with its offset.
pub(super) fn read_footer(
    file: &dyn ReadableFile,
    path: &Path,
    size_bytes: u64,
) -> Result<(Footer, u64)> {
    let Some(at) = size_bytes.checked_sub(FOOTER_BYTES as u64) else {
        return Err(Error::corruption(path, 0, "the file is shorter than a table's footer"));
    };
    let mut bytes = [0; FOOTER_BYTES];
    file.read_exact_at(&mut bytes, at).map_err(|e| Error::io(path, "read the footer", e))?;
    match Footer::decode(&bytes, at) {
        Ok(footer) => Ok((footer, at)),
        Err(FooterError::Damaged(what)) => Err(Error::corruption(path, at, what)),
        Err(FooterError::Version(found)) => {
            let message =
                format!("expected table format version {FORMAT_VERSION}, found version {found}");
            Err(Error::new(ErrorKind::Incompatible, message).with_path(path))
        }
    }
}

pub(super) fn len_of(file: &dyn ReadableFile, path: &Path) -> Result<u64> {
    file.len_bytes().map_err(|e| Error::io(path, "read the file's length", e))
}

impl Encoded {
    /// Reads the parts from the file. Checks the footer, and nothing of the others.
    pub(super) fn read(file: &dyn ReadableFile, source: &TableSource) -> Result<Encoded> {
        let path = &source.path;
        let size_bytes = len_of(file, path)?;
        if size_bytes != source.size_bytes {
            let message =
                format!("expected {} bytes, found a file of {size_bytes}", source.size_bytes);
            return Err(Error::corruption(path, size_bytes, message));
        }
        let (footer, footer_at) = read_footer(file, path, size_bytes)?;
        if footer.table_id != source.table_id {
            let (want, found) = (source.table_id, footer.table_id);
            let message = format!("expected table {want:016x}, found table {found:016x}");
            return Err(Error::corruption(path, footer_at, message));
        }
        let start = footer.filter.offset_bytes;
        let mut bytes = vec![0; (footer_at - start) as usize];
        file.read_exact_at(&mut bytes, start)
            .map_err(|e| Error::io(path, "read the index and filter", e))?;
        Ok(Encoded { bytes, start, footer })
    }

    /// Returns the memory of the whole index, its block slots and the filter, in bytes, as far as the
    /// parts tell it, which are not checked yet.
    pub(super) fn index_bytes(&self) -> u64 {
        let Footer { index, filter, .. } = self.footer;
        let count = Reader::new(self.payload(index)).varint().unwrap_or(0);
        let each = (Index::BLOCK_BYTES + BlockSlots::<Layout>::SLOT_BYTES) as u64;
        let encoded = index.payload_bytes.saturating_add(filter.payload_bytes);
        encoded.saturating_add(count.saturating_mul(each))
    }

    /// Returns the payload of a part.
    pub(super) fn payload(&self, part: Handle) -> &[u8] {
        let from = (part.offset_bytes - self.start) as usize;
        self.bytes.get(from..from + part.payload_bytes as usize).unwrap_or_default()
    }
}
