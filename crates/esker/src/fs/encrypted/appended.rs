//! Encrypted files of frames: logs and manifests, which are appended to, and the small files whose
//! parts are replaced in turn.
//!
//! Invariant: bytes that were synced are never written again. A crash can tear only what was written
//! since.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::cipher::{FileKey, HEADER_BYTES, Nonces};
use super::frames::{
    FILLER, FRAME_BYTES_MAX, FRAME_HEADER_BYTES, FRAME_OVERHEAD_BYTES, Frame, FrameHeader,
    FrameIndex,
};
use crate::base::locks::Mutex;
use crate::fs::{ReadableFile, WritableFile};

/// Maximum length of the frames that are read at once, in bytes.
const READ_BYTES_MAX: u64 = 1 << 20;
/// Maximum length of a file of replaced parts, in bytes.
const JOURNAL_BYTES_MAX: u64 = 1 << 24;

fn too_short() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the file is shorter than the requested range")
}

/// A file of appended frames, open for reading.
pub struct AppendedFile {
    inner: Arc<dyn ReadableFile>,
    key: Arc<FileKey>,
    index: Mutex<FrameIndex>,
}

impl AppendedFile {
    pub fn new(inner: Arc<dyn ReadableFile>, key: Arc<FileKey>) -> io::Result<AppendedFile> {
        let file = AppendedFile { inner, key, index: Mutex::new(FrameIndex::default()) };
        file.search()?;
        Ok(file)
    }

    fn search(&self) -> io::Result<()> {
        let file_bytes = self.inner.len_bytes()?;
        let about = (HEADER_BYTES as u64, file_bytes, self.key.seed);
        self.index.lock().search(about, |to, at| self.inner.read_exact_at(to, at))
    }

    /// Returns the frames with these bytes, or `None` if the file is shorter.
    fn frames(&self, offset: u64, len: u64) -> Option<(Vec<Frame>, u64, u8)> {
        let index = self.index.lock();
        let until = offset.checked_add(len).filter(|until| *until <= index.content_bytes())?;
        let from = index.position(offset);
        let count = index.frames[from..].partition_point(|frame| frame.header.offset < until);
        Some((index.frames[from..from + count].to_vec(), index.end, index.torn_filler))
    }

    /// Fills `buf`. Returns whether all frames are authentic.
    fn read(&self, buf: &mut [u8], offset: u64, frames: &[Frame]) -> io::Result<bool> {
        let (mut rest, mut sealed, mut plain) = (frames, Vec::new(), Vec::new());
        let mut is_authentic = true;
        while let Some(first) = rest.first() {
            let near = |frame: &&Frame| {
                frame.at >= first.at
                    && frame.at + frame.header.frame_bytes() - first.at <= READ_BYTES_MAX
            };
            let (now, later) = rest.split_at(rest.iter().take_while(near).count().max(1));
            let until = now[now.len() - 1].at + now[now.len() - 1].header.frame_bytes();
            sealed.resize((until - first.at) as usize, 0);
            self.inner.read_exact_at(&mut sealed, first.at)?;
            for frame in now {
                let (begin, content) = (frame.header.offset, frame.header.len as usize);
                let from = (frame.at - first.at) as usize;
                let bytes = &sealed[from..from + content + FRAME_OVERHEAD_BYTES];
                plain.resize(content, 0);
                let about = frame.header.encode(self.key.seed);
                if bytes[..FRAME_HEADER_BYTES] != about
                    || !self.key.open_into(&about, &bytes[FRAME_HEADER_BYTES..], &mut plain)
                {
                    is_authentic = false;
                    plain.fill(FILLER);
                }
                let skip = offset.saturating_sub(begin).min(u64::from(frame.shown)) as usize;
                let to = begin.saturating_sub(offset) as usize;
                let wanted = (frame.shown as usize - skip).min(buf.len() - to);
                buf[to..to + wanted].copy_from_slice(&plain[skip..skip + wanted]);
            }
            rest = later;
        }
        Ok(is_authentic)
    }
}

impl ReadableFile for AppendedFile {
    fn read_exact_at(&self, buf: &mut [u8], offset_bytes: u64) -> io::Result<()> {
        let mut is_fresh = false;
        loop {
            let found = self.frames(offset_bytes, buf.len() as u64);
            if let Some((frames, end, torn_filler)) = found {
                buf.fill(FILLER);
                let behind = end.saturating_sub(offset_bytes).min(buf.len() as u64) as usize;
                buf[behind..].fill(torn_filler);
                match self.read(buf, offset_bytes, &frames) {
                    Ok(true) => return Ok(()),
                    // Nothing is left to look at again.
                    Ok(false) if is_fresh => return Ok(()),
                    Err(error) if is_fresh || error.kind() != io::ErrorKind::UnexpectedEof => {
                        return Err(error);
                    }
                    // The writer may have replaced the last frame meanwhile, or cut the file.
                    Ok(false) | Err(_) => {}
                }
            } else if is_fresh {
                return Err(too_short());
            }
            self.search()?;
            is_fresh = true;
        }
    }

    fn len_bytes(&self) -> io::Result<u64> {
        self.search()?;
        Ok(self.index.lock().content_bytes())
    }
}

/// A file of replaced parts, open for reading: its content at the opening.
pub struct JournalFile(Vec<u8>);

impl JournalFile {
    pub fn new(inner: &dyn ReadableFile, key: &FileKey) -> io::Result<JournalFile> {
        Ok(JournalFile(read_journal(inner, key)?.0))
    }
}

impl ReadableFile for JournalFile {
    fn read_exact_at(&self, buf: &mut [u8], offset_bytes: u64) -> io::Result<()> {
        let from = usize::try_from(offset_bytes).ok();
        let until = from.and_then(|from| from.checked_add(buf.len()));
        let found = from.zip(until).and_then(|(from, until)| self.0.get(from..until));
        buf.copy_from_slice(found.ok_or_else(too_short)?);
        Ok(())
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}

/// Returns the content of a file of replaced parts, and the end of its last frame. Frames that are not
/// authentic replace nothing.
fn read_journal(inner: &dyn ReadableFile, key: &FileKey) -> io::Result<(Vec<u8>, u64)> {
    let file_bytes = inner.len_bytes()?;
    if file_bytes > JOURNAL_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is too long"));
    }
    let mut bytes = vec![0; file_bytes as usize];
    inner.read_exact_at(&mut bytes, 0)?;
    let (mut content, mut plain) = (Vec::new(), Vec::new());
    let (mut at, mut end) = (HEADER_BYTES, HEADER_BYTES as u64);
    while at < bytes.len() {
        let Some(header) = FrameHeader::parse(&bytes[at..], key.seed, at as u64, file_bytes) else {
            at += 1;
            continue;
        };
        let sealed = &bytes[at..at + header.frame_bytes() as usize];
        plain.resize(header.len as usize, 0);
        let (about, sealed) = sealed.split_at(FRAME_HEADER_BYTES);
        if key.open_into(about, sealed, &mut plain) {
            let from = header.offset as usize;
            content.resize(content.len().max(from + plain.len()), 0);
            content[from..from + plain.len()].copy_from_slice(&plain);
        }
        at += header.frame_bytes() as usize;
        end = at as u64;
    }
    Ok((content, end))
}

/// A file of frames, open for writing.
pub struct FrameWriter {
    inner: Box<dyn WritableFile>,
    key: Arc<FileKey>,
    nonces: Nonces,
    open_source: Box<dyn Fn() -> io::Result<Arc<dyn ReadableFile>> + Send>,
    /// Whether parts of the file can be replaced.
    is_journal: bool,
    /// Whether the fields below are known.
    loaded: bool,
    /// End of the content, in bytes.
    end: u64,
    /// End of the last whole frame, in bytes.
    file_end: u64,
    path: PathBuf,
}

impl FrameWriter {
    /// Returns the writer of a file that has only its header, or, if `is_new` is false, of any file.
    /// `open_source` opens the file below for reading.
    pub fn new(
        inner: Box<dyn WritableFile>,
        key: Arc<FileKey>,
        (is_new, is_journal): (bool, bool),
        path: &Path,
        open_source: Box<dyn Fn() -> io::Result<Arc<dyn ReadableFile>> + Send>,
    ) -> io::Result<FrameWriter> {
        Ok(FrameWriter {
            inner,
            key,
            nonces: Nonces::new()?,
            open_source,
            is_journal,
            loaded: is_new,
            end: 0,
            file_end: HEADER_BYTES as u64,
            path: path.to_path_buf(),
        })
    }

    /// Reads the ends of an existing file.
    fn load(&mut self) -> io::Result<()> {
        if self.loaded {
            return Ok(());
        }
        let source = (self.open_source)()?;
        if self.is_journal {
            let (content, file_end) = read_journal(&*source, &self.key)?;
            (self.end, self.file_end) = (content.len() as u64, file_end);
        } else {
            let file_bytes = source.len_bytes()?;
            let file = AppendedFile::new(source, self.key.clone())?;
            self.end = file.len_bytes()?;
            self.file_end = file_bytes;
        }
        self.loaded = true;
        Ok(())
    }

    /// Appends the frames of `bytes` to `out`.
    fn seal(&mut self, bytes: &[u8], mut offset: u64, out: &mut Vec<u8>) -> io::Result<()> {
        for part in bytes.chunks(FRAME_BYTES_MAX) {
            let header = FrameHeader { offset, len: part.len() as u32 }.encode(self.key.seed);
            out.extend_from_slice(&header);
            self.key.seal(&mut self.nonces, &header, part, out)?;
            offset += part.len() as u64;
        }
        Ok(())
    }

    /// Appends frames of the content from `offset` on.
    fn put(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.load()?;
        let frames = bytes.len().div_ceil(FRAME_BYTES_MAX);
        let mut sealed = Vec::with_capacity(bytes.len() + frames * FRAME_OVERHEAD_BYTES);
        self.seal(bytes, offset, &mut sealed)?;
        self.inner.append(&sealed)?;
        self.file_end += sealed.len() as u64;
        self.end = self.end.max(offset + bytes.len() as u64);
        Ok(())
    }

    /// Removes the content from `len_bytes` on. The beginning of a frame that is cut is written
    /// again.
    fn cut(&mut self, len_bytes: u64) -> io::Result<()> {
        let file = AppendedFile::new((self.open_source)()?, self.key.clone())?;
        let (first, last) = {
            let index = file.index.lock();
            let at = index.position(len_bytes);
            (index.frames.get(at).copied(), index.file_end)
        };
        let Some(frame) = first.filter(|frame| frame.header.offset < len_bytes) else {
            // The cut is between two frames, or behind the last one.
            let to = first.map_or(last, |frame| frame.at);
            self.inner.set_len(to)?;
            (self.end, self.file_end) = (len_bytes, to);
            return Ok(());
        };
        let kept = (len_bytes - frame.header.offset) as usize;
        let mut content = vec![0; kept];
        file.read_exact_at(&mut content, frame.header.offset)?;
        self.inner.set_len(frame.at)?;
        (self.end, self.file_end) = (frame.header.offset, frame.at);
        self.put(&content, frame.header.offset)
    }
}

impl WritableFile for FrameWriter {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.load()?;
        self.put(bytes, self.end)
    }

    fn write_at(&mut self, bytes: &[u8], offset_bytes: u64) -> io::Result<()> {
        self.load()?;
        if self.is_journal && offset_bytes <= self.end || offset_bytes == self.end {
            return self.put(bytes, offset_bytes);
        }
        let path = self.path.display();
        let message = format!("{path} is encrypted in frames: it can only be appended to");
        Err(io::Error::new(io::ErrorKind::Unsupported, message))
    }

    fn sync(&mut self) -> io::Result<()> {
        self.inner.sync()
    }

    fn write_behind_end(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.load()?;
        let mut sealed = Vec::new();
        self.seal(bytes, self.end, &mut sealed)?;
        self.inner.write_behind_end(&sealed)
    }

    fn set_len(&mut self, len_bytes: u64) -> io::Result<()> {
        self.load()?;
        if len_bytes == self.end && !self.is_journal {
            return self.inner.set_len(self.file_end);
        }
        if self.is_journal {
            let message = "a file of replaced parts keeps its length";
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        if len_bytes < self.end {
            return self.cut(len_bytes);
        }
        let more = usize::try_from(len_bytes - self.end).map_err(io::Error::other)?;
        self.put(&vec![0; more], self.end)
    }
}
