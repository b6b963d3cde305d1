//! A file that is written through a memory map. An append copies bytes and makes a system call only
//! at the end of a window. Appended bytes are in the page cache at once, so they survive a process
//! crash like the bytes of a `write` call.
//!
//! The file is mapped window by window. A background thread of the process allocates, maps and
//! populates the next window while the current window fills, because the first touch of a page
//! costs ten times as much as copying a record into it. The thread usually writes zeros to a window
//! before it maps the window: the kernel handles one long write in a few large folios of the page
//! cache, but handles faults page by page. However, each folio is written to the device as a whole,
//! so the zeros are omitted for a file that is synced every few records. Unfilled windows leave
//! zeros behind the last written byte.
//!
//! Only file systems on which this was tested are mapped ([`is_known`]). A page may still be
//! unavailable when it is touched: when extents have become shared and the device is full, when the
//! file system was shut down, or when another process truncated the file. The copy then fails
//! ([`super::guarded`]). The same bytes are written by a write call, whose error becomes the
//! append's error, and the file is no longer mapped.
//!
//! Invariants:
//! 1. Mapped bytes are touched only by the guarded copy, inside a window. A window covers only a
//!    part of the file with allocated blocks. A full or failed device is therefore an error of
//!    [`WritableFile::append`], not a signal.
//! 2. A window has one owner: the preparing thread until the handover, then the file.
//! 3. A failed append has written nothing, or a part of the write call. The position of the next
//!    append is unchanged.
//! 4. Zeros are written only where no data is: by the file in windows behind its end, and by the
//!    preparing thread while it holds the lock of the window's state and the file still requests
//!    the window.
//! 5. A file is mapped only while the process's SIGBUS handler is the handler of `guarded`. This is
//!    checked for each window.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::ptr::{self, NonNull};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, LazyLock, Weak};

use rustix::fs::{FallocateFlags, fallocate, fstatfs};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use super::guarded::{self, Refused};
use super::{WritableFile, fork};
use crate::base::locks::Mutex;
use crate::base::prefetch::prefetch_bytes;
use crate::base::thread_group::ThreadGroup;

/// Size of a window, in bytes: a multiple of every page size in use, and small enough that little
/// memory is populated without use.
const WINDOW_BYTES: u64 = 256 << 10;

/// Returns whether `file` is on a tested file system: ext2 to ext4, xfs, tmpfs, or an overlay,
/// whose files belong to another file system. Other file systems gain nothing (btrfs writes mapped
/// data to a new location again) or were not tested (FUSE, network file systems).
pub(super) fn is_known(file: &File) -> bool {
    const EXT: u32 = 0xef53;
    const XFS: u32 = 0x5846_5342;
    const TMPFS: u32 = 0x0102_1994;
    const OVERLAY: u32 = 0x794c_7630;
    fstatfs(file).is_ok_and(|stat| matches!(stat.f_type as u32, EXT | XFS | TMPFS | OVERLAY))
}

/// A window: a part of a file, mapped shared and writable.
struct Window {
    start: NonNull<u8>,
    /// Index of the window in the file, from 0.
    index: u64,
    /// Whether a write call has filled the window with zeros.
    filled: bool,
}

// SAFETY: the mapping belongs to the process and not to a thread, and `Window` is its only owner.
unsafe impl Send for Window {}

impl Window {
    /// Maps window `index` of `file`, whose blocks the caller has allocated.
    fn map(file: &File, index: u64) -> io::Result<Window> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        let (len, offset) = (WINDOW_BYTES as usize, index * WINDOW_BYTES);
        // SAFETY: a new mapping at an address chosen by the kernel overlaps no memory in use.
        let start = unsafe { mmap(ptr::null_mut(), len, protection, flags, file, offset)? };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Window { start, index, filled: false })
    }

    /// Faults in every page. Does nothing on kernels before 5.14, where the first write to a page
    /// faults it in.
    fn populate(&self) -> io::Result<()> {
        // SAFETY: the range is exactly this mapping, and populating changes no byte.
        let populated = unsafe {
            madvise(self.start.as_ptr().cast(), WINDOW_BYTES as usize, Advice::LinuxPopulateWrite)
        };
        match populated {
            Err(error) if error != Errno::INVAL => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Copies `bytes` to offset `at` of the window. Returns the number of these bytes that were
    /// written only through the memory map ([`WritableFile::mapped_bytes`]). After an error, any
    /// part of `bytes` may have been copied.
    fn copy(&mut self, at: usize, bytes: &[u8]) -> Result<u64, Refused> {
        assert!(at + bytes.len() <= WINDOW_BYTES as usize, "the copy exceeds its window");
        // SAFETY: the target lies within the mapping (checked above), which nothing else writes or
        // borrows. A file is mapped only after the handler was installed (`MappedFile::new`).
        unsafe { guarded::copy(self.start.as_ptr().add(at), bytes)? };
        // The position of the record after the next, if the records are about equally long.
        prefetch_bytes(self.start.as_ptr().addr() + at + 2 * bytes.len(), bytes.len());
        Ok(if self.filled { 0 } else { bytes.len() as u64 })
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the range is exactly this mapping, and no pointer into it outlives the window.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), WINDOW_BYTES as usize) };
    }
}

/// Allocates the blocks of windows `first..=last` of `file`. The file grows, filled with zeros.
fn allocate(file: &File, first: u64, last: u64) -> io::Result<()> {
    let (from, len) = (first * WINDOW_BYTES, (last + 1 - first) * WINDOW_BYTES);
    Ok(fallocate(file, FallocateFlags::empty(), from, len)?)
}

/// Maximum number of syncs per window. A file with more syncs counts as synced every few records.
const SYNCS_MAX: u32 = 1;

/// Maps and populates window `index` of `file`, whose blocks the caller has allocated and which
/// holds no data yet. With `in_large`, writes zeros first, so that the page cache uses large
/// folios.
fn fill(file: &File, index: u64, in_large: bool) -> io::Result<Window> {
    /// Never written to, so that the zeros take no physical memory.
    static ZEROS: LazyLock<Vec<u8>> = LazyLock::new(|| vec![0; WINDOW_BYTES as usize]);
    if in_large {
        file.write_all_at(&ZEROS, index * WINDOW_BYTES)?;
    }
    let mut window = Window::map(file, index)?;
    window.filled = in_large;
    window.populate()?;
    Ok(window)
}

/// State of the window after the current window.
#[derive(Default)]
enum Next {
    /// Not requested.
    #[default]
    NotRequested,
    /// Requested from the preparing thread.
    Asked,
    /// Prepared.
    Ready(Window),
}

struct Request {
    file: Arc<File>,
    next: Arc<Mutex<Next>>,
    index: u64,
    in_large: bool,
}

impl Request {
    fn run(self) {
        let mut next = self.next.lock();
        if !matches!(*next, Next::Asked) {
            return;
        }
        let made = allocate(&self.file, self.index, self.index)
            .and_then(|()| fill(&self.file, self.index, self.in_large));
        // After a failure, the file maps the window itself and can report an error to its caller.
        *next = made.map_or(Next::NotRequested, Next::Ready);
    }
}

/// The thread that prepares windows. It ends with the last file that uses it.
struct Preparer {
    queue: Option<Sender<Request>>,
    thread: ThreadGroup,
}

impl Preparer {
    /// Returns the shared preparer of this process, and starts one first if needed. `None` if the
    /// thread cannot be started: no window is then prepared, and files map their windows
    /// themselves.
    fn shared() -> Option<Arc<Preparer>> {
        /// The last preparer, and the number of its process, because a forked child does not have
        /// its parent's thread.
        static SHARED: Mutex<(u64, Weak<Preparer>)> = Mutex::new((0, Weak::new()));
        // The lock is held by another opener, or held forever in a child forked at that moment.
        let Some(mut shared) = SHARED.try_lock() else { return Preparer::start() };
        let process = fork::process();
        if shared.0 == process
            && let Some(preparer) = shared.1.upgrade()
        {
            return Some(preparer);
        }
        let preparer = Preparer::start()?;
        *shared = (process, Arc::downgrade(&preparer));
        Some(preparer)
    }

    fn start() -> Option<Arc<Preparer>> {
        let (sender, receiver) = channel::<Request>();
        let body = move || receiver.iter().for_each(Request::run);
        let thread = ThreadGroup::default();
        thread.start("esker-log-pages", body).ok()?;
        Some(Arc::new(Preparer { queue: Some(sender), thread }))
    }

    fn ask(&self, request: Request) {
        if let Some(queue) = &self.queue {
            let _ = queue.send(request);
        }
    }
}

impl Drop for Preparer {
    fn drop(&mut self) {
        self.queue = None;
        self.thread.end();
    }
}

/// A file that is appended to through a memory map. See the module documentation.
pub(super) struct MappedFile {
    file: Arc<File>,
    len_bytes: u64,
    /// Index of the first window whose blocks are not known to be allocated.
    allocated: u64,
    /// Whether the file is mapped. If false, appends use write calls.
    maps: bool,
    window: Option<Window>,
    next: Arc<Mutex<Next>>,
    /// Number of syncs since the current window was entered.
    syncs: u32,
    mapped_bytes: u64,
    preparer: Option<Arc<Preparer>>,
}

impl MappedFile {
    /// Wraps an empty file that is open for reading and writing.
    ///
    /// # Errors
    /// Returns the file if the file system cannot preallocate or map it, or if faults cannot be
    /// caught.
    pub(super) fn new(file: File) -> Result<MappedFile, File> {
        if !guarded::install() {
            return Err(file);
        }
        let window = allocate(&file, 0, 0).and_then(|()| Window::map(&file, 0));
        let Ok(window) = window else {
            let _ = file.set_len(0);
            return Err(file);
        };
        let mut mapped = MappedFile {
            file: Arc::new(file),
            len_bytes: 0,
            allocated: 1,
            maps: true,
            window: Some(window),
            next: Arc::default(),
            syncs: 0,
            mapped_bytes: 0,
            preparer: Preparer::shared(),
        };
        mapped.ask_for(1, false);
        Ok(mapped)
    }

    fn ask_for(&mut self, index: u64, in_large: bool) {
        self.next = Arc::new(Mutex::new(Next::Asked));
        if let Some(preparer) = &self.preparer {
            let (file, next) = (self.file.clone(), self.next.clone());
            preparer.ask(Request { file, next, index, in_large });
        }
    }

    /// Cancels the request for the next window. Waits for the preparing thread if it has already
    /// begun.
    fn forget_next(&mut self) {
        *self.next.lock() = Next::NotRequested;
    }

    /// Allocates the blocks of all windows that an append of `len` bytes will touch.
    fn reserve(&mut self, len: usize) -> io::Result<()> {
        let last = (self.len_bytes + len as u64).saturating_sub(1) / WINDOW_BYTES;
        // The prepared window has its blocks. Another allocation would cost an entry in the file
        // system's journal while writers wait.
        if last >= self.allocated
            && let Next::Ready(window) = &*self.next.lock()
            && window.index == self.allocated
        {
            self.allocated += 1;
        }
        if last >= self.allocated {
            allocate(&self.file, self.allocated, last)?;
            self.allocated = last + 1;
        }
        Ok(())
    }

    /// Makes window `index`, whose blocks are allocated, the current window and returns it.
    fn enter(&mut self, index: u64) -> Result<&mut Window, Refused> {
        if self.window.as_ref().is_none_or(|window| window.index != index) {
            self.window = None;
            guarded::reset_mask_check();
            if !guarded::is_installed() {
                return Err(Refused::Fault);
            }
            let prepared = match std::mem::take(&mut *self.next.lock()) {
                Next::Ready(window) if window.index == index => Some(window),
                _ => None,
            };
            let in_large = self.syncs <= SYNCS_MAX;
            let made = match prepared {
                Some(window) => Ok(window),
                None if index * WINDOW_BYTES >= self.len_bytes => fill(&self.file, index, in_large),
                None => Window::map(&self.file, index),
            };
            // Any error is ignored here: the write call either fails with it too, or succeeds
            // without a memory map.
            self.window = Some(made.map_err(|_| Refused::Fault)?);
            self.ask_for(index + 1, in_large);
            self.syncs = 0;
        }
        self.window.as_mut().ok_or(Refused::Fault)
    }

    /// Copies `bytes` to `offset`, where the blocks are allocated.
    fn copy(&mut self, mut bytes: &[u8], mut offset: u64) -> Result<(), Refused> {
        while !bytes.is_empty() {
            let at = (offset % WINDOW_BYTES) as usize;
            let (now, later) = bytes.split_at(bytes.len().min(WINDOW_BYTES as usize - at));
            self.mapped_bytes += self.enter(offset / WINDOW_BYTES)?.copy(at, now)?;
            (bytes, offset) = (later, offset + now.len() as u64);
        }
        Ok(())
    }

    /// Returns the current window and the offset of the file's end in it, if `len` more bytes fit
    /// into the window.
    #[inline]
    fn window_for(&mut self, len: usize) -> Option<(&mut Window, usize)> {
        let at = (self.len_bytes % WINDOW_BYTES) as usize;
        let window = self.window.as_mut()?;
        let there = at + len <= WINDOW_BYTES as usize;
        (there && window.index == self.len_bytes / WINDOW_BYTES).then_some((window, at))
    }

    /// Appends bytes that do not fit into the current window.
    #[cold]
    fn append_slow(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.maps {
            return self.file.write_all_at(bytes, self.len_bytes);
        }
        self.reserve(bytes.len())?;
        match self.copy(bytes, self.len_bytes) {
            Ok(()) => Ok(()),
            Err(refused) => self.write_instead(refused, bytes),
        }
    }

    /// Writes `bytes` at the end by a write call, after a failed copy. Does not move the end.
    #[cold]
    fn write_instead(&mut self, refused: Refused, bytes: &[u8]) -> io::Result<()> {
        self.forget_next();
        // If only this thread blocks the signal, other threads may still copy.
        if refused != Refused::Blocked {
            self.maps = false;
            self.window = None;
        }
        if refused == Refused::Memory {
            return Err(io::Error::other("the memory page with the file's last bytes failed"));
        }
        let (there, end) = (self.file.metadata()?.len(), self.len_bytes);
        if there < end {
            let message = format!(
                "the file was truncated from outside the store: expected {end} bytes, found {there}"
            );
            return Err(io::Error::other(message));
        }
        self.file.write_all_at(bytes, end)
    }
}

impl WritableFile for MappedFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.window_for(bytes.len()).map(|(window, at)| window.copy(at, bytes)) {
            Some(Ok(mapped)) => self.mapped_bytes += mapped,
            Some(Err(refused)) => self.write_instead(refused, bytes)?,
            None => self.append_slow(bytes)?,
        }
        self.len_bytes += bytes.len() as u64;
        Ok(())
    }

    fn write_at(&mut self, bytes: &[u8], offset_bytes: u64) -> io::Result<()> {
        self.forget_next();
        self.file.write_all_at(bytes, offset_bytes)?;
        self.len_bytes = self.len_bytes.max(offset_bytes + bytes.len() as u64);
        Ok(())
    }

    fn write_behind_end(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.window_for(bytes.len()).map(|(window, at)| window.copy(at, bytes)) {
            Some(Ok(_)) => Ok(()),
            Some(Err(refused)) => self.write_instead(refused, bytes),
            None => {
                self.forget_next();
                self.file.write_all_at(bytes, self.len_bytes)
            }
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.syncs = self.syncs.saturating_add(1);
        self.file.sync_data()
    }

    fn set_len(&mut self, len_bytes: u64) -> io::Result<()> {
        // No window may extend beyond the end of the file.
        self.window = None;
        self.forget_next();
        self.file.set_len(len_bytes)?;
        self.len_bytes = len_bytes;
        self.allocated = 0;
        Ok(())
    }

    fn mapped_bytes(&self) -> u64 {
        self.mapped_bytes
    }
}

#[cfg(test)]
mod tests;
