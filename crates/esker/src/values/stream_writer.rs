//! The writer of a value file with one streamed value, whose length is not known before its end.
//!
//! Invariants: a file is durable when [`StreamedValueWriter::finish`] has returned, but for its name.
//! Memory holds one piece and one buffer of the file, whatever the length of the value.

use std::path::Path;

use super::writer::ValueFileWriter;
use super::{VERSION_STREAMED, lengths, record_checksum};
use crate::base::key::{STORED_KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::base::separated::{PIECE_BYTES, STREAMED, ValuePointer};
use crate::error::{Error, Result};
use crate::fs::Fs;

/// Writes a value file with one value in pieces.
pub struct StreamedValueWriter {
    file: ValueFileWriter,
    /// The place of the value. Its length grows.
    pointer: ValuePointer,
    /// The piece that is not written yet, which is not full.
    piece: Vec<u8>,
}

impl StreamedValueWriter {
    /// Creates the file `path` with the number `number` and the random identity `id`, for the value of
    /// the stored key `key`.
    ///
    /// # Errors
    /// `InvalidArgument` for a key that is too long; `Io`, `NoSpace`.
    pub fn create(
        fs: &dyn Fs,
        path: &Path,
        (number, id): (u64, u64),
        key: &[u8],
    ) -> Result<StreamedValueWriter> {
        if key.len() > STORED_KEY_BYTES_MAX {
            return Err(Error::invalid("the key of a record is too large").with_path(path));
        }
        let mut file = ValueFileWriter::create_version(fs, path, (number, id), VERSION_STREAMED)?;
        let offset_bytes = file.offset();
        let key_bytes = key.len() as u32;
        let lengths = lengths(key_bytes | STREAMED, PIECE_BYTES as u32);
        let checksum = record_checksum(id, offset_bytes, &[&lengths, key]);
        file.add_part(&checksum.to_le_bytes())?;
        file.add_part(&lengths)?;
        file.add_part(key)?;
        let (value_bytes, is_streamed) = (0, true);
        let pointer = ValuePointer {
            file: number,
            offset_bytes,
            key_bytes,
            value_bytes,
            checksum,
            is_streamed,
        };
        Ok(StreamedValueWriter { file, pointer, piece: Vec::with_capacity(PIECE_BYTES) })
    }

    /// Appends bytes to the value.
    ///
    /// # Errors
    /// `InvalidArgument` when the value becomes too long; `Io`, `NoSpace`.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        let value_bytes = self.pointer.value_bytes as usize + bytes.len();
        if value_bytes > VALUE_BYTES_MAX {
            return Err(Error::invalid(format!(
                "the value has more than the maximum of {VALUE_BYTES_MAX} bytes"
            )));
        }
        self.pointer.value_bytes = value_bytes as u32;
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PIECE_BYTES - self.piece.len()));
            self.piece.extend_from_slice(now);
            bytes = later;
            if self.piece.len() == PIECE_BYTES {
                self.write_piece()?;
            }
        }
        Ok(())
    }

    fn write_piece(&mut self) -> Result<()> {
        let length = (self.piece.len() as u32).to_le_bytes();
        let (id, at) = (self.file.id(), self.file.offset());
        let checksum = record_checksum(id, at, &[&length, &self.piece]);
        self.file.add_part(&checksum.to_le_bytes())?;
        self.file.add_part(&length)?;
        self.file.add_part(&self.piece)?;
        self.piece.clear();
        Ok(())
    }

    /// Writes the last piece and the footer, and syncs the file. Returns the place of the value and the
    /// length of the file in bytes.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub fn finish(mut self) -> Result<(ValuePointer, u64)> {
        // Also when it is empty: a piece that is not full ends the record.
        self.write_piece()?;
        self.file.count_record();
        Ok((self.pointer, self.file.finish()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemFs;

    #[test]
    fn a_value_that_becomes_too_long_is_refused() {
        let fs = MemFs::new();
        let create = |name: &str, key: &[u8]| {
            StreamedValueWriter::create(&*fs, Path::new(name), (7, 9), key)
        };
        let mut writer = create("/7.val", b"k").unwrap();
        writer.pointer.value_bytes = VALUE_BYTES_MAX as u32 - 1;
        writer.write(b"x").unwrap();
        let error = writer.write(b"y").unwrap_err();
        assert!(error.message().contains("1073741824"), "{error}");
        assert!(create("/8.val", &vec![0; STORED_KEY_BYTES_MAX + 1]).is_err());
    }
}
