//! An encrypted file of pages, which can be read and rewritten in any order: tables, and files that
//! are written as a whole.
//!
//! A page has 4096 bytes of the file with its nonce and tag; the first one also has the header. The
//! number of the page, and whether it is the file's last, are authenticated.
//!
//! Invariants:
//! 1. A page opens only at its place in its file.
//! 2. Only the last page is sealed as the last. A file that was cut at the end of a page is therefore
//!    damaged, not shorter.
//! 3. A page that was sealed as the last is sealed again before another one follows it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::cipher::{FileKey, HEADER_BYTES, Nonces, SEAL_BYTES};
use crate::error::Error;
use crate::fs::{ReadableFile, WritableFile};

/// Length of a page in the file, in bytes.
const PAGE_BYTES: u64 = 4096;
/// Length of the content of a page, in bytes.
const CONTENT_BYTES: u64 = PAGE_BYTES - SEAL_BYTES as u64;
/// Length of the content of the first page, in bytes.
const FIRST_BYTES: u64 = CONTENT_BYTES - HEADER_BYTES as u64;
/// Maximum number of pages that are read at once.
const READ_PAGES_MAX: u64 = 64;

/// Returns the length of the content of a whole page, in bytes.
fn content_bytes(page: u64) -> u64 {
    if page == 0 { FIRST_BYTES } else { CONTENT_BYTES }
}

/// Returns the page with the byte `offset` of the content.
fn page_of(offset: u64) -> u64 {
    if offset < FIRST_BYTES { 0 } else { 1 + (offset - FIRST_BYTES) / CONTENT_BYTES }
}

/// Returns the offset in the content at which a page begins.
fn content_start(page: u64) -> u64 {
    if page == 0 { 0 } else { FIRST_BYTES + (page - 1) * CONTENT_BYTES }
}

/// Returns the offset in the file at which a sealed page begins.
fn sealed_start(page: u64) -> u64 {
    if page == 0 { HEADER_BYTES as u64 } else { page * PAGE_BYTES }
}

/// Returns the length of the content of a file of `file_bytes` bytes.
pub fn content_len(file_bytes: u64) -> u64 {
    let (whole, rest) = (file_bytes / PAGE_BYTES, file_bytes % PAGE_BYTES);
    let overhead = SEAL_BYTES as u64 + if whole == 0 { HEADER_BYTES as u64 } else { 0 };
    content_start(whole) + rest.saturating_sub(overhead)
}

/// Returns the text that is authenticated with a page.
fn about(page: u64, is_last: bool) -> [u8; 9] {
    let mut about = [0; 9];
    about[..8].copy_from_slice(&page.to_le_bytes());
    about[8] = u8::from(is_last);
    about
}

/// Returns the error for bytes at `offset` of the file that are not authentic.
fn damaged(path: &Path, offset: u64) -> io::Error {
    let message = "expected a page that was encrypted for this place, found other bytes";
    io::Error::other(Error::corruption(path, offset, message))
}

/// A file of pages, open for reading.
pub struct PagedFile {
    inner: Arc<dyn ReadableFile>,
    key: Arc<FileKey>,
    path: PathBuf,
    /// Length of the content when it was last looked at.
    len_bytes: AtomicU64,
}

impl PagedFile {
    pub fn new(
        inner: Arc<dyn ReadableFile>,
        key: Arc<FileKey>,
        path: &Path,
    ) -> io::Result<PagedFile> {
        let len_bytes = AtomicU64::new(content_len(inner.len_bytes()?));
        Ok(PagedFile { inner, key, path: path.to_path_buf(), len_bytes })
    }

    /// Fills `buf` from `offset` on, both within the file. Returns the first page that is not
    /// authentic.
    fn read(&self, buf: &mut [u8], offset: u64, len: u64) -> io::Result<Option<u64>> {
        let last_page = page_of(len - 1);
        let (mut filled, mut sealed) = (0, Vec::new());
        while filled < buf.len() {
            let from = offset + filled as u64;
            let first = page_of(from);
            let until = page_of(offset + buf.len() as u64 - 1).min(first + READ_PAGES_MAX - 1);
            let until_sealed = if until == last_page {
                sealed_start(until) + SEAL_BYTES as u64 + len - content_start(until)
            } else {
                sealed_start(until + 1)
            };
            let start = sealed_start(first);
            sealed.resize((until_sealed - start) as usize, 0);
            self.inner.read_exact_at(&mut sealed, start)?;
            for page in first..=until {
                let at = (sealed_start(page) - start) as usize;
                let content = content_bytes(page).min(len - content_start(page)) as usize;
                let one = &sealed[at..at + content + SEAL_BYTES];
                let skip = (offset + filled as u64 - content_start(page)) as usize;
                let wanted = (content - skip).min(buf.len() - filled);
                let to = &mut buf[filled..filled + wanted];
                if !self.open_page((page, page == last_page), one, skip, to) {
                    return Ok(Some(page));
                }
                filled += wanted;
            }
        }
        Ok(None)
    }

    /// Opens a page and copies its content from `skip` on.
    fn open_page(
        &self,
        (page, last): (u64, bool),
        sealed: &[u8],
        skip: usize,
        to: &mut [u8],
    ) -> bool {
        let about = about(page, last);
        let content = sealed.len() - SEAL_BYTES;
        if to.len() == content {
            return self.key.open_into(&about, sealed, to);
        }
        let mut plain = [0; CONTENT_BYTES as usize];
        let is_authentic = self.key.open_into(&about, sealed, &mut plain[..content]);
        to.copy_from_slice(&plain[skip..skip + to.len()]);
        is_authentic
    }
}

impl ReadableFile for PagedFile {
    fn read_exact_at(&self, buf: &mut [u8], offset_bytes: u64) -> io::Result<()> {
        if buf.is_empty() {
            return Ok(());
        }
        let mut known = self.len_bytes.load(Ordering::Relaxed);
        loop {
            let is_inside =
                offset_bytes.checked_add(buf.len() as u64).is_some_and(|end| end <= known);
            let bad = if is_inside { self.read(buf, offset_bytes, known)? } else { None };
            if is_inside && bad.is_none() {
                return Ok(());
            }
            // The file may have grown, and its former last page then is another one.
            let now = self.len_bytes()?;
            if now != known {
                known = now;
                continue;
            }
            return Err(match bad {
                Some(page) => damaged(&self.path, sealed_start(page)),
                None => io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the file is shorter than the requested range",
                ),
            });
        }
    }

    fn len_bytes(&self) -> io::Result<u64> {
        let len_bytes = content_len(self.inner.len_bytes()?);
        self.len_bytes.store(len_bytes, Ordering::Relaxed);
        Ok(len_bytes)
    }
}

/// A file of pages, open for writing. The last page is in memory. It is written by a sync, and when
/// the file is closed.
pub struct PagedWriter {
    inner: Box<dyn WritableFile>,
    key: Arc<FileKey>,
    nonces: Nonces,
    /// For pages that are changed. `None` for a new file until it is needed.
    source: Option<PagedFile>,
    open_source: Box<dyn Fn() -> io::Result<PagedFile> + Send>,
    /// Whether the fields below are known.
    loaded: bool,
    /// Number and content of the last page. It is empty only in an empty file.
    last_page: u64,
    last: Vec<u8>,
    /// Whether the last page has changed since it was written.
    is_changed: bool,
    /// Length of the file below, in bytes.
    inner_end: u64,
}

impl PagedWriter {
    /// Returns the writer of a file that has only its header, or, if `is_new` is false, of any file.
    /// `open_source` opens the file for reading.
    pub fn new(
        inner: Box<dyn WritableFile>,
        key: Arc<FileKey>,
        is_new: bool,
        open_source: Box<dyn Fn() -> io::Result<PagedFile> + Send>,
    ) -> io::Result<PagedWriter> {
        Ok(PagedWriter {
            inner,
            key,
            nonces: Nonces::new()?,
            source: None,
            open_source,
            loaded: is_new,
            last_page: 0,
            last: Vec::new(),
            is_changed: false,
            inner_end: HEADER_BYTES as u64,
        })
    }

    fn source(&mut self) -> io::Result<&PagedFile> {
        if self.source.is_none() {
            self.source = Some((self.open_source)()?);
        }
        self.source.as_ref().ok_or_else(|| io::Error::other("the file is not open"))
    }

    /// Reads the last page of an existing file.
    fn load(&mut self) -> io::Result<()> {
        if self.loaded {
            return Ok(());
        }
        let source = self.source()?;
        let len = source.len_bytes()?;
        let inner_end = source.inner.len_bytes()?;
        if len > 0 {
            let page = page_of(len - 1);
            let mut last = vec![0; (len - content_start(page)) as usize];
            source.read_exact_at(&mut last, content_start(page))?;
            (self.last_page, self.last) = (page, last);
        }
        self.inner_end = inner_end;
        self.loaded = true;
        Ok(())
    }

    fn len(&self) -> u64 {
        content_start(self.last_page) + self.last.len() as u64
    }

    fn put(&mut self, sealed: &[u8], at: u64) -> io::Result<()> {
        if at == self.inner_end {
            self.inner.append(sealed)?;
        } else {
            self.inner.write_at(sealed, at)?;
        }
        self.inner_end = self.inner_end.max(at + sealed.len() as u64);
        Ok(())
    }

    /// Writes the last page if it has changed.
    fn flush(&mut self) -> io::Result<()> {
        if self.is_changed && !self.last.is_empty() {
            let mut sealed = Vec::with_capacity(PAGE_BYTES as usize);
            let about = about(self.last_page, true);
            self.key.seal(&mut self.nonces, &about, &self.last, &mut sealed)?;
            self.put(&sealed, sealed_start(self.last_page))?;
        }
        self.is_changed = false;
        Ok(())
    }

    /// Changes a part of one page before the last.
    fn change_page(&mut self, page: u64, skip: usize, bytes: &[u8]) -> io::Result<()> {
        // The last page in the file must be the last one, for the source to read the others.
        self.flush()?;
        let mut content = vec![0; content_bytes(page) as usize];
        self.source()?.read_exact_at(&mut content, content_start(page))?;
        content[skip..skip + bytes.len()].copy_from_slice(bytes);
        let mut sealed = Vec::with_capacity(PAGE_BYTES as usize);
        self.key.seal(&mut self.nonces, &about(page, false), &content, &mut sealed)?;
        self.put(&sealed, sealed_start(page))
    }
}

impl WritableFile for PagedWriter {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.load()?;
        let at = sealed_start(self.last_page);
        let (mut rest, mut sealed) = (bytes, Vec::new());
        loop {
            let room = content_bytes(self.last_page) as usize - self.last.len();
            self.is_changed |= !rest.is_empty();
            if rest.len() <= room {
                self.last.extend_from_slice(rest);
                break;
            }
            let (now, later) = rest.split_at(room);
            self.last.extend_from_slice(now);
            let about = about(self.last_page, false);
            self.key.seal(&mut self.nonces, &about, &self.last, &mut sealed)?;
            self.last.clear();
            self.last_page += 1;
            rest = later;
        }
        if sealed.is_empty() { Ok(()) } else { self.put(&sealed, at) }
    }

    fn write_at(&mut self, bytes: &[u8], offset_bytes: u64) -> io::Result<()> {
        self.load()?;
        if offset_bytes > self.len() {
            let gap = offset_bytes - self.len();
            let gap = usize::try_from(gap).map_err(io::Error::other)?;
            self.append(&vec![0; gap])?;
        }
        let (mut rest, mut at) = (bytes, offset_bytes);
        while !rest.is_empty() && at < self.len() {
            let page = page_of(at);
            let skip = (at - content_start(page)) as usize;
            let there =
                if page == self.last_page { self.last.len() } else { content_bytes(page) as usize };
            let (now, later) = rest.split_at(rest.len().min(there - skip));
            if page == self.last_page {
                self.last[skip..skip + now.len()].copy_from_slice(now);
                self.is_changed = true;
            } else {
                self.change_page(page, skip, now)?;
            }
            (rest, at) = (later, at + now.len() as u64);
        }
        if rest.is_empty() { Ok(()) } else { self.append(rest) }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.flush()?;
        self.inner.sync()
    }

    fn set_len(&mut self, len_bytes: u64) -> io::Result<()> {
        self.load()?;
        if len_bytes >= self.len() {
            let more = usize::try_from(len_bytes - self.len()).map_err(io::Error::other)?;
            self.append(&vec![0; more])?;
            return self.flush();
        }
        self.flush()?;
        let page = if len_bytes == 0 { 0 } else { page_of(len_bytes - 1) };
        if page < self.last_page {
            let mut content = vec![0; content_bytes(page) as usize];
            self.source()?.read_exact_at(&mut content, content_start(page))?;
            (self.last_page, self.last) = (page, content);
        }
        self.last.truncate((len_bytes - content_start(page)) as usize);
        self.inner.set_len(sealed_start(page))?;
        self.inner_end = sealed_start(page);
        self.is_changed = true;
        self.flush()
    }
}

impl Drop for PagedWriter {
    fn drop(&mut self) {
        // Whoever needs the bytes has synced them, and got the error.
        let _ = self.flush();
    }
}
