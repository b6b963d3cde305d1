//! Reads of streamed records: the head, single pieces, whole values, and the check of a file.
//!
//! Invariants: bytes of a piece are returned only if the checksum of the piece is right. Memory holds
//! one piece, except for the value that [`ValueFileReader::read`] returns.

use std::sync::Arc;

use super::reader::ValueFileReader;
use super::record_checksum;
use crate::base::coding::{u32_at, u64_at};
use crate::base::key::{STORED_KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::base::separated::{
    PIECE_BYTES, PIECE_HEADER_BYTES, RECORD_HEADER_BYTES, STREAMED, ValueBytes, ValuePointer,
};
use crate::error::{Error, Result};

/// Bytes of a full piece with its header.
const STRIDE_BYTES: u64 = (PIECE_HEADER_BYTES + PIECE_BYTES) as u64;

impl ValueFileReader {
    fn fill(&self, out: &mut [u8], at: u64) -> Result<()> {
        let read = self.file.read_exact_at(out, at);
        read.map_err(|e| Error::io(&self.path, "read a streamed value", e))
    }

    /// Reads and checks the head of the streamed record at `at`. Returns the key and the checksum.
    fn read_head(&self, at: u64) -> Result<(Vec<u8>, u64)> {
        let mut head = vec![0; RECORD_HEADER_BYTES];
        self.fill(&mut head, at)?;
        let (word, piece_bytes) = (u32_at(&head, 8), u32_at(&head, 12));
        let key_bytes = (word & !STREAMED) as usize;
        let end = at + (RECORD_HEADER_BYTES + key_bytes) as u64;
        if word & STREAMED == 0
            || key_bytes > STORED_KEY_BYTES_MAX
            || end > self.end_bytes
            || piece_bytes != PIECE_BYTES as u32
        {
            let message = "expected the head of a streamed value, found other bytes";
            return Err(self.bad(at, message));
        }
        head.resize(RECORD_HEADER_BYTES + key_bytes, 0);
        self.fill(&mut head[RECORD_HEADER_BYTES..], at + RECORD_HEADER_BYTES as u64)?;
        let checksum = u64_at(&head, 0);
        if record_checksum(self.content.id, at, &[&head[8..]]) != checksum {
            return Err(self.bad(at, "the checksum of the head of a streamed value is wrong"));
        }
        head.drain(..RECORD_HEADER_BYTES);
        Ok((head, checksum))
    }

    /// Checks that the record at a pointer within bounds is the one that was written with it. `key` is
    /// the key that the record must have, if it is known.
    ///
    /// # Errors
    /// `Corruption`, `Io`.
    pub fn check_head(&self, key: Option<&[u8]>, pointer: &ValuePointer) -> Result<()> {
        let at = pointer.offset_bytes;
        let (found, checksum) = self.read_head(at)?;
        if checksum != pointer.checksum || found.len() != pointer.key_bytes as usize {
            return Err(self.bad(at, "expected the record that the table names, found another"));
        }
        if key.is_some_and(|key| key != found) {
            return Err(self.bad(at, "expected the value of one key, found that of another"));
        }
        Ok(())
    }

    /// Replaces the content of `out` by the piece at `at`, which must have `expected_bytes` bytes if
    /// that is known. `out` is empty after an error.
    fn piece_at(&self, at: u64, expected_bytes: Option<usize>, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        let mut header = [0; PIECE_HEADER_BYTES];
        let left = self.end_bytes.saturating_sub(at);
        if left < PIECE_HEADER_BYTES as u64 {
            return Err(self.bad(at, "expected a piece of a streamed value, found the end"));
        }
        self.fill(&mut header, at)?;
        let bytes = u32_at(&header, 8) as usize;
        if bytes > PIECE_BYTES
            || expected_bytes.is_some_and(|expected| expected != bytes)
            || (PIECE_HEADER_BYTES + bytes) as u64 > left
        {
            return Err(self.bad(at, "the length of a piece of a streamed value is wrong"));
        }
        out.resize(bytes, 0);
        let checked = self.fill(out, at + PIECE_HEADER_BYTES as u64).and_then(|()| {
            let sum = record_checksum(self.content.id, at, &[&header[8..], out]);
            if sum == u64_at(&header, 0) {
                return Ok(());
            }
            let message = "the checksum of a piece of a streamed value is wrong; the value is \
                           damaged here";
            Err(self.bad(at, message))
        });
        checked.inspect_err(|_| out.clear())
    }

    /// Replaces the content of `out` by piece `number` of the value at a pointer whose head was
    /// checked. A piece behind the last one is empty.
    ///
    /// # Errors
    /// `Corruption` when the piece is damaged, `Io`. `out` is empty then.
    pub fn read_piece(&self, pointer: &ValuePointer, number: u64, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        if number >= pointer.pieces() {
            return Ok(());
        }
        let before = number * PIECE_BYTES as u64;
        let left = u64::from(pointer.value_bytes).saturating_sub(before) as usize;
        let at = pointer.offset_bytes + pointer.head_bytes() + number * STRIDE_BYTES;
        self.piece_at(at, Some(left.min(PIECE_BYTES)), out)
    }

    /// Returns the whole value at a pointer within bounds.
    pub(super) fn read_streamed(
        &self,
        key: Option<&[u8]>,
        pointer: &ValuePointer,
    ) -> Result<ValueBytes> {
        self.check_head(key, pointer)?;
        let mut value: Arc<[u8]> = std::iter::repeat_n(0, pointer.value_bytes as usize).collect();
        if let Some(place) = Arc::get_mut(&mut value) {
            let mut piece = Vec::new();
            for (number, place) in place.chunks_mut(PIECE_BYTES).enumerate() {
                self.read_piece(pointer, number as u64, &mut piece)?;
                place.copy_from_slice(&piece);
            }
        }
        Ok(ValueBytes::new(value, 0))
    }

    /// Checks the streamed record at `at`. Calls `pace` with the bytes of each piece. Returns the end
    /// of the record, or `None` when `pace` stopped the check.
    pub(super) fn check_streamed(
        &self,
        at: u64,
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<u64>> {
        let (key, _) = self.read_head(at)?;
        let begin = at + (RECORD_HEADER_BYTES + key.len()) as u64;
        let (mut next, mut piece) = (begin, Vec::new());
        loop {
            self.piece_at(next, None, &mut piece)?;
            let bytes = (PIECE_HEADER_BYTES + piece.len()) as u64;
            next += bytes;
            if next - begin > (VALUE_BYTES_MAX as u64 / PIECE_BYTES as u64 + 1) * STRIDE_BYTES {
                return Err(self.bad(at, "a streamed value is longer than a value can be"));
            }
            if !pace(bytes) {
                return Ok(None);
            }
            if piece.len() < PIECE_BYTES {
                return Ok(Some(next));
            }
        }
    }
}
