//! The frames of an encrypted file that is only appended to: the header of a frame, and the search
//! for frames.
//!
//! A frame has a header (offset in the content, length, checksum) and the sealed bytes; the header is
//! authenticated with them. An append is one or more whole frames behind the end of the file, so that
//! it never touches bytes that were synced before.
//!
//! Invariants:
//! 1. A frame that is not authentic reads as [`FILLER`]. The logs have checksums of their own, and
//!    with these they tell, as in a plain file, a torn end from damage.
//! 2. Behind a damaged frame the search goes on byte by byte: later frames keep their offsets.
//! 3. A frame at an offset before the end replaces everything from there on.
//! 4. The content is never longer than the file.

use super::cipher::SEAL_BYTES;
use crate::base::checksum::checksum;

/// Length of the header of a frame, in bytes.
pub const FRAME_HEADER_BYTES: usize = 16;
/// Length that a frame adds to its content, in bytes.
pub const FRAME_OVERHEAD_BYTES: usize = FRAME_HEADER_BYTES + SEAL_BYTES;
/// Maximum length of the content of a frame, in bytes.
pub const FRAME_BYTES_MAX: usize = 64 << 10;
/// The byte that stands for each byte that is not authentic. No record of a log begins with it.
pub const FILLER: u8 = 0xFF;

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Offset of the content in the file's content, in bytes.
    pub offset: u64,
    /// Length of the content, in bytes.
    pub len: u32,
}

impl FrameHeader {
    pub fn encode(&self, seed: u64) -> [u8; FRAME_HEADER_BYTES] {
        let mut out = [0; FRAME_HEADER_BYTES];
        out[..8].copy_from_slice(&self.offset.to_le_bytes());
        out[8..12].copy_from_slice(&self.len.to_le_bytes());
        let sum = checksum(&out[..12], seed) as u32;
        out[12..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Parses the header of a frame at `at` in a file of `file_bytes` bytes. Returns `None` for
    /// other bytes and for a frame that is incomplete.
    pub fn parse(bytes: &[u8], seed: u64, at: u64, file_bytes: u64) -> Option<FrameHeader> {
        let bytes: &[u8; FRAME_HEADER_BYTES] = bytes.first_chunk()?;
        let (offset, rest) = bytes.split_first_chunk::<8>()?;
        let len = u32::from_le_bytes(*rest.first_chunk::<4>()?);
        let header = FrameHeader { offset: u64::from_le_bytes(*offset), len };
        let is_possible = len as usize <= FRAME_BYTES_MAX
            && header.offset <= at
            && at + header.frame_bytes() <= file_bytes;
        (is_possible && header.encode(seed) == *bytes).then_some(header)
    }

    /// Returns the length of the frame in the file, in bytes.
    pub fn frame_bytes(&self) -> u64 {
        u64::from(self.len) + FRAME_OVERHEAD_BYTES as u64
    }
}

/// A frame in the file.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    pub header: FrameHeader,
    /// Offset of the frame in the file, in bytes.
    pub at: u64,
    /// Length of the part of the content that no later frame replaces, in bytes.
    pub shown: u32,
}

/// Window of the search, in bytes.
const WINDOW_BYTES: u64 = 1 << 18;

/// The frames of a file, in the order of their content.
#[derive(Default)]
pub struct FrameIndex {
    pub frames: Vec<Frame>,
    /// End of the content of the frames, in bytes.
    pub end: u64,
    /// End of the last frame in the file, in bytes. Zero before the first search.
    pub file_end: u64,
    /// Length of what is behind the last frame and is no frame, as bytes of content.
    pub torn: u64,
    /// The byte that stands for these.
    pub torn_filler: u8,
}

impl FrameIndex {
    /// Searches from the last frame on, which another one may have replaced, in a file of
    /// `file_bytes` bytes whose frames begin at `begin`.
    pub fn search<E>(
        &mut self,
        (begin, file_bytes, seed): (u64, u64, u64),
        mut read: impl FnMut(&mut [u8], u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut at = begin;
        if let Some(last) = self.frames.pop() {
            (at, self.end) = (last.at, last.header.offset);
        }
        self.file_end = at;
        let (mut window, mut window_at) = (Vec::new(), 0);
        let mut part = |at: u64, window: &mut Vec<u8>| -> Result<Option<usize>, E> {
            let need = FRAME_HEADER_BYTES as u64;
            if at + need > file_bytes {
                return Ok(None);
            }
            if window.is_empty() || at < window_at || at + need > window_at + window.len() as u64 {
                window.resize(WINDOW_BYTES.min(file_bytes - at) as usize, 0);
                read(window, at)?;
                window_at = at;
            }
            Ok(Some((at - window_at) as usize))
        };
        while let Some(from) = part(at, &mut window)? {
            let bytes = &window[from..from + FRAME_HEADER_BYTES];
            match FrameHeader::parse(bytes, seed, at, file_bytes) {
                Some(header) => {
                    self.add(Frame { header, at, shown: header.len });
                    at += header.frame_bytes();
                    self.file_end = at;
                }
                None => at += 1,
            }
        }
        let rest = file_bytes.saturating_sub(self.file_end);
        self.torn = rest.saturating_sub(FRAME_OVERHEAD_BYTES as u64).max(rest.min(1));
        self.torn_filler = FILLER;
        if self.torn > 0 && self.are_zeros(file_bytes, &mut read)? {
            // A file system may extend a file before the bytes arrive.
            self.torn_filler = 0;
        }
        Ok(())
    }

    fn are_zeros<E>(
        &self,
        file_bytes: u64,
        read: &mut impl FnMut(&mut [u8], u64) -> Result<(), E>,
    ) -> Result<bool, E> {
        let mut at = self.file_end;
        let mut window = Vec::new();
        while at < file_bytes {
            window.resize(WINDOW_BYTES.min(file_bytes - at) as usize, 0);
            read(&mut window, at)?;
            if window.iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            at += window.len() as u64;
        }
        Ok(true)
    }

    fn add(&mut self, frame: Frame) {
        let offset = frame.header.offset;
        while self.frames.last().is_some_and(|last| last.header.offset >= offset) {
            self.frames.pop();
        }
        if let Some(last) = self.frames.last_mut() {
            let left = offset - last.header.offset;
            last.shown = last.shown.min(u32::try_from(left).unwrap_or(u32::MAX));
        }
        self.frames.push(frame);
        self.end = offset + u64::from(frame.header.len);
    }

    /// Returns the length of the content, in bytes, with what stands for bytes that are no frame.
    pub fn content_bytes(&self) -> u64 {
        self.end + self.torn
    }

    /// Returns the position of the first frame whose content ends behind `offset`.
    pub fn position(&self, offset: u64) -> usize {
        self.frames.partition_point(|frame| frame.header.offset + u64::from(frame.shown) <= offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a file of frames that each have `len` bytes, without seals.
    fn file(frames: &[(u64, u32)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (offset, len) in frames {
            let header = FrameHeader { offset: *offset, len: *len };
            bytes.extend_from_slice(&header.encode(7));
            bytes.resize(bytes.len() + *len as usize + SEAL_BYTES, 0xAB);
        }
        bytes
    }

    fn search(index: &mut FrameIndex, bytes: &[u8]) {
        let read = |to: &mut [u8], at: u64| -> Result<(), ()> {
            to.copy_from_slice(&bytes[at as usize..at as usize + to.len()]);
            Ok(())
        };
        index.search((0, bytes.len() as u64, 7), read).unwrap();
    }

    fn shown(index: &FrameIndex) -> Vec<(u64, u32)> {
        index.frames.iter().map(|frame| (frame.header.offset, frame.shown)).collect()
    }

    #[test]
    fn search_finds_frames_behind_damage_and_replaces_what_was_cut() {
        let mut bytes = file(&[(0, 100), (100, 50), (150, 10)]);
        let mut index = FrameIndex::default();
        search(&mut index, &bytes);
        assert_eq!(
            (shown(&index), index.content_bytes()),
            (vec![(0, 100), (100, 50), (150, 10)], 160)
        );
        bytes[FRAME_OVERHEAD_BYTES + 100 + 3] ^= 1;
        let mut damaged = FrameIndex::default();
        search(&mut damaged, &bytes);
        assert_eq!((shown(&damaged), damaged.content_bytes()), (vec![(0, 100), (150, 10)], 160));
        assert_eq!((damaged.position(99), damaged.position(100)), (0, 1));
        // A frame before the end cuts what was there.
        let more = [bytes, file(&[(40, 5)])].concat();
        search(&mut damaged, &more);
        assert_eq!((shown(&damaged), damaged.content_bytes()), (vec![(0, 40), (40, 5)], 45));
        // An incomplete frame counts as bytes that are no frame.
        search(&mut damaged, &more[..more.len() - 1]);
        assert!(damaged.torn > 0 && damaged.torn_filler == FILLER);
        let mut zeros = FrameIndex::default();
        search(&mut zeros, &[file(&[(0, 9)]), vec![0; 200]].concat());
        assert!(zeros.content_bytes() > 9 && zeros.torn_filler == 0);
    }
}
