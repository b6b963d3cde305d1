//! Reads past the page cache of the system (`O_DIRECT`).
//!
//! Invariants:
//! 1. A read of the file begins and ends at a multiple of [`ALIGN_BYTES`], in memory with the same
//!    alignment.
//! 2. A file whose file system refuses such reads is read through the page cache from then on.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{Advice, OFlags};

use super::ReadableFile;

/// Alignment of the reads, in bytes: the block of most devices and file systems, or a multiple of it.
const ALIGN_BYTES: usize = 4096;
/// Largest per-thread buffer that is kept for the next read, in bytes.
const KEPT_BYTES_MAX: usize = 512 << 10;

thread_local! {
    /// Per-thread memory for aligned reads.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A file that is read past the page cache.
pub(super) struct DirectReadable(File);

impl DirectReadable {
    /// Reads `file`, which was opened with `O_DIRECT`.
    pub fn new(file: File) -> DirectReadable {
        DirectReadable(file)
    }

    /// Fills `bytes`, which are aligned, from `start` on, as far as the file goes. Returns how many
    /// bytes these are.
    fn fill(&self, bytes: &mut [u8], start: u64) -> io::Result<usize> {
        let mut filled = 0;
        let mut is_refused = false;
        while filled < bytes.len() {
            match self.0.read_at(&mut bytes[filled..], start + filled as u64) {
                Ok(count) => {
                    filled += count;
                    // A part of a block is the end of the file.
                    if count == 0 || filled % ALIGN_BYTES != 0 {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::InvalidInput && !is_refused => {
                    is_refused = true;
                    self.use_page_cache()?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn use_page_cache(&self) -> io::Result<()> {
        let flags = rustix::fs::fcntl_getfl(&self.0)?;
        Ok(rustix::fs::fcntl_setfl(&self.0, flags - OFlags::DIRECT)?)
    }
}

impl ReadableFile for DirectReadable {
    fn read_exact_at(&self, buf: &mut [u8], offset_bytes: u64) -> io::Result<()> {
        let before = (offset_bytes % ALIGN_BYTES as u64) as usize;
        let wanted = before..before + buf.len();
        let len = wanted.end.next_multiple_of(ALIGN_BYTES);
        BUFFER.with_borrow_mut(|memory| {
            memory.resize(len + ALIGN_BYTES, 0);
            let shift = memory.as_ptr().align_offset(ALIGN_BYTES).min(ALIGN_BYTES);
            let bytes = &mut memory[shift..shift + len];
            let filled = self.fill(bytes, offset_bytes - before as u64)?;
            if filled < wanted.end {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buf.copy_from_slice(&bytes[wanted]);
            memory.truncate(KEPT_BYTES_MAX);
            memory.shrink_to(KEPT_BYTES_MAX);
            Ok(())
        })
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

/// Removes a synced file from the page cache. This is advice, whose failure changes nothing.
pub(super) fn forget_cached(file: &File) {
    let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::super::{Fs, OsFs};
    use super::*;

    #[test]
    fn any_part_of_a_file_is_read_and_its_end_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let content: Vec<u8> = (0..300_001_u32).map(|n| ((n * 31) >> 3) as u8).collect();
        let mut file = OsFs::default().create_new(&path).unwrap();
        file.append(&content).unwrap();
        file.sync().unwrap();
        file.forget_cached();
        let direct = OsFs::default().open_read_direct(&path).unwrap();
        assert_eq!(direct.len_bytes().unwrap(), 300_001);
        let page = ALIGN_BYTES;
        for (start, len) in [
            (0, 0),
            (0, 1),
            (0, page),
            (1, page),
            (page - 1, 2),
            (page, 3 * page),
            (299_999, 2),
            (0, content.len()),
            (content.len(), 0),
            (73 * page, content.len() - 73 * page),
        ] {
            let mut read = vec![0; len];
            direct.read_exact_at(&mut read, start as u64).unwrap();
            assert_eq!(read, content[start..start + len], "{len} bytes at {start}");
        }
        for (start, len) in [(300_000, 2), (300_001, 1), (400_000, 1), (0, 300_002)] {
            let error = direct.read_exact_at(&mut vec![0; len], start).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{len} bytes at {start}");
        }
    }

    #[test]
    fn file_that_refuses_direct_reads_is_read_through_the_page_cache() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        OsFs::default().create_new(&path).unwrap().append(&[7; 5000]).unwrap();
        let file = DirectReadable::new(File::open(&path).unwrap());
        // As after a refusal: the flag is not set, and the same reads work.
        file.use_page_cache().unwrap();
        let mut read = [0; 5000];
        file.read_exact_at(&mut read, 0).unwrap();
        assert_eq!(read, [7; 5000]);
    }
}
