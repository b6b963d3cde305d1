//! A reader of one value: of the pieces of a streamed value, one at a time, or of a value in memory.
//!
//! Invariants: the reader keeps the version of the value that was the newest at its creation, whatever
//! is written or removed later. Bytes of a piece are returned after the checksum of the whole piece
//! was found to be right. Memory holds one piece.

use std::io::{self, Read, Seek, SeekFrom};

use super::Slice;
use crate::base::separated::PIECE_BYTES;
use crate::tree::value_files::StreamedValue;

/// A reader of one value, from [`Db::get_reader`](crate::Db::get_reader). It reads the version of the
/// value that was the newest when the reader was made, also after the key is overwritten or deleted, or
/// the store is closed.
///
/// Of a value that [`Db::put_reader`](crate::Db::put_reader) has streamed, the reader holds one piece of
/// 64 KiB in memory, and its file open. Every other value is in memory as a [`Slice`].
///
/// Reads and seeks are those of [`Read`] and [`Seek`]. A piece whose checksum is wrong is an
/// [`io::Error`] of the kind `InvalidData`, which names the value file and the offset and holds an
/// [`Error`](crate::Error). No byte of the piece is returned, and other pieces can still be read.
pub struct ValueReader {
    source: Source,
    /// Offset of the next byte in the value.
    position: u64,
}

enum Source {
    Memory(Slice),
    Pieces {
        value: StreamedValue,
        /// The piece in memory.
        piece: Vec<u8>,
        /// Its number, if a piece was read.
        number: Option<u64>,
    },
}

impl ValueReader {
    /// Wraps a value in memory.
    pub(crate) fn of_slice(value: Slice) -> ValueReader {
        ValueReader { source: Source::Memory(value), position: 0 }
    }

    /// Wraps a streamed value.
    pub(crate) fn of_pieces(value: StreamedValue) -> ValueReader {
        let source = Source::Pieces { value, piece: Vec::new(), number: None };
        ValueReader { source, position: 0 }
    }

    /// Returns the length of the whole value, in bytes.
    pub fn len_bytes(&self) -> u64 {
        match &self.source {
            Source::Memory(value) => value.len() as u64,
            Source::Pieces { value, .. } => value.len_bytes(),
        }
    }

    /// Returns the bytes at the position that are in memory, after it has read their piece. Empty only
    /// at and behind the end of the value.
    fn available(&mut self) -> crate::error::Result<&[u8]> {
        let (position, len_bytes) = (self.position, self.len_bytes());
        if position >= len_bytes {
            return Ok(&[]);
        }
        match &mut self.source {
            Source::Memory(value) => Ok(&value[position as usize..]),
            Source::Pieces { value, piece, number } => {
                let wanted = position / PIECE_BYTES as u64;
                if *number != Some(wanted) {
                    *number = None;
                    value.read_piece(wanted, piece)?;
                    *number = Some(wanted);
                }
                Ok(piece.get((position % PIECE_BYTES as u64) as usize..).unwrap_or_default())
            }
        }
    }
}

impl Read for ValueReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        let available = self.available().map_err(|error| {
            let kind = match error.is_corruption() {
                true => io::ErrorKind::InvalidData,
                false => io::ErrorKind::Other,
            };
            io::Error::new(kind, error)
        })?;
        let bytes = available.len().min(out.len());
        out[..bytes].copy_from_slice(&available[..bytes]);
        self.position += bytes as u64;
        Ok(bytes)
    }
}

impl Seek for ValueReader {
    /// Moves to a byte of the value. A position behind the end is allowed; reads return nothing there.
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let moved = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(bytes) => self.position.checked_add_signed(bytes),
            SeekFrom::End(bytes) => self.len_bytes().checked_add_signed(bytes),
        };
        let message = "expected a position within 64 bits and not before the value";
        let moved = moved.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, message))?;
        self.position = moved;
        Ok(moved)
    }
}

impl std::fmt::Debug for ValueReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ValueReader(at {} of {} bytes)", self.position, self.len_bytes())
    }
}
