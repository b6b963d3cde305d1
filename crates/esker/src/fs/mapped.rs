//! A file that is written through a mapping: an append copies bytes and makes no system call
//! but at a window's end, and they survive the process as those of a `write` do, since they are in the page cache at once.
//!
//! The file is mapped window by window. A thread of the process allocates, maps and populates the
//! next window while the present one fills: a first touch of a page costs ten times what copying a
//! record into it does. It writes a window's zeros before it maps them, since the kernel takes one
//! long write in few large pieces of its page cache, and faults page by page; but each such piece is
//! written to the device whole, so a file that is synced every few records gets none. Windows that
//! were never filled leave zeros behind the last byte written.
//!
//! Only file systems on which that was tried are mapped ([`is_known`]). A page may still not be had
//! when it is touched: extents that were shared since and a full device, a file system that was shut
//! down, a file that was cut by another. The copy then fails ([`super::guarded`]), the same bytes go
//! by a write call, whose error is the append's, and the file is mapped no more.
//!
//! What stays true:
//! 1. A byte is only touched by the guarded copy, inside a window, and a window is only made of a
//!    part of the file whose blocks have been allocated: a device that is full or failed is an error
//!    of [`WritableFile::append`], not a signal.
//! 2. A window has one owner: the preparing thread until it is handed over, the file after that.
//! 3. An append that fails has written nothing, or what the write call wrote: where the next append
//!    goes is unchanged.
//! 4. Zeros are only written where nothing was: by the file in windows behind its end, and by the
//!    preparing thread while the file still asks for that window, whose state it holds locked.
//! 5. A file is mapped only while the process's handler of SIGBUS is the guard's; that is looked at
//!    for each window.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::ptr::{self, NonNull};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, LazyLock, Weak};
use std::thread::JoinHandle;

use rustix::fs::{FallocateFlags, fallocate, fstatfs};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use super::guarded::{self, Refused};
use super::{WritableFile, fork};
use crate::base::locks::Mutex;
use crate::base::prefetch::prefetch_bytes;

/// Bytes mapped at once: a multiple of every page size in use, and small enough that little is
/// populated in vain.
const WINDOW_BYTES: u64 = 256 << 10;

/// Whether `file` is on a file system that was tried: ext2 to ext4, xfs, tmpfs, or an overlay, whose
/// files are those of another. Elsewhere nothing would be won (btrfs writes what was mapped to a new
/// place again), or nobody has looked (FUSE, network file systems).
pub(super) fn is_known(file: &File) -> bool {
    const EXT: u32 = 0xef53;
    const XFS: u32 = 0x5846_5342;
    const TMPFS: u32 = 0x0102_1994;
    const OVERLAY: u32 = 0x794c_7630;
    fstatfs(file).is_ok_and(|stat| matches!(stat.f_type as u32, EXT | XFS | TMPFS | OVERLAY))
}

/// A part of a file, mapped shared and writable.
struct Window {
    start: NonNull<u8>,
    /// Which window of the file it is.
    index: u64,
    /// Whether its zeros were given to a write call.
    filled: bool,
}

// SAFETY: the mapping belongs to the process, not to a thread, and `Window` is its only owner.
unsafe impl Send for Window {}

impl Window {
    /// Maps window `index` of `file`, whose blocks the caller has allocated.
    fn map(file: &File, index: u64) -> io::Result<Window> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        let (len, offset) = (WINDOW_BYTES as usize, index * WINDOW_BYTES);
        // SAFETY: a new mapping at an address the kernel chooses overlaps nothing of ours.
        let start = unsafe { mmap(ptr::null_mut(), len, protection, flags, file, offset)? };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Window { start, index, filled: false })
    }

    /// Faults every page in. Kernels before 5.14 cannot; then the first write to a page does.
    fn populate(&self) -> io::Result<()> {
        // SAFETY: the range is exactly this mapping; populating changes no byte.
        let populated = unsafe {
            madvise(self.start.as_ptr().cast(), WINDOW_BYTES as usize, Advice::LinuxPopulateWrite)
        };
        match populated {
            Err(error) if error != Errno::INVAL => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Copies `bytes` to `at`; returns how many of them no write call carried. After an error any
    /// part of them was copied.
    fn copy(&mut self, at: usize, bytes: &[u8]) -> Result<u64, Refused> {
        assert!(at + bytes.len() <= WINDOW_BYTES as usize, "a copy stays within its window");
        // SAFETY: the target lies within the mapping (checked above), which nobody else writes or
        // borrows from; a file is mapped only once the guard is in place (`MappedFile::new`).
        unsafe { guarded::copy(self.start.as_ptr().add(at), bytes)? };
        // Where the record after the next will lie, if they are about as long.
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

/// Gives windows `first..=last` of `file` their blocks; the file grows with zeros.
fn allocate(file: &File, first: u64, last: u64) -> io::Result<()> {
    let (from, len) = (first * WINDOW_BYTES, (last + 1 - first) * WINDOW_BYTES);
    Ok(fallocate(file, FallocateFlags::empty(), from, len)?)
}

/// A file synced more often than this while it fills a window is synced every few records.
const SYNCS_MAX: u32 = 1;

/// Maps window `index` of `file`, whose blocks the caller has allocated and which holds nothing yet,
/// with its pages in memory; `in_large` says whether in large pieces.
fn fill(file: &File, index: u64, in_large: bool) -> io::Result<Window> {
    /// Never written, so that it takes no memory.
    static ZEROS: LazyLock<Vec<u8>> = LazyLock::new(|| vec![0; WINDOW_BYTES as usize]);
    if in_large {
        file.write_all_at(&ZEROS, index * WINDOW_BYTES)?;
    }
    let mut window = Window::map(file, index)?;
    window.filled = in_large;
    window.populate()?;
    Ok(window)
}

/// The window after the present one.
#[derive(Default)]
enum Next {
    /// Nobody has asked for it.
    #[default]
    Unasked,
    /// The preparing thread has it.
    Asked,
    /// It is there.
    Ready(Window),
}

struct Request {
    file: Arc<File>,
    next: Arc<Mutex<Next>>,
    index: u64,
    in_large: bool,
}

impl Request {
    fn carry_out(self) {
        let mut next = self.next.lock();
        if !matches!(*next, Next::Asked) {
            return;
        }
        let made = allocate(&self.file, self.index, self.index)
            .and_then(|()| fill(&self.file, self.index, self.in_large));
        // After a failure the file tries for itself, and has whom to tell.
        *next = made.map_or(Next::Unasked, Next::Ready);
    }
}

/// The thread that prepares windows; it ends with the last file that uses it.
struct Preparer {
    queue: Option<Sender<Request>>,
    thread: Option<JoinHandle<()>>,
}

impl Preparer {
    /// The one of this process, started if there is none. `None` when it cannot be started: then
    /// nothing is prepared and files map for themselves.
    fn shared() -> Option<Arc<Preparer>> {
        /// The last, and the process whose it is: a child has not its parent's thread.
        static SHARED: Mutex<(u64, Weak<Preparer>)> = Mutex::new((0, Weak::new()));
        // Taken by another opener, or for ever in a child of a process that was forked just then.
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
        let body = move || receiver.iter().for_each(Request::carry_out);
        let thread = std::thread::Builder::new().name("esker-log-pages".into()).spawn(body).ok()?;
        Some(Arc::new(Preparer { queue: Some(sender), thread: Some(thread) }))
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
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// See the module.
pub(super) struct MappedFile {
    file: Arc<File>,
    len_bytes: u64,
    /// Windows below this one have their blocks.
    allocated: u64,
    /// Whether windows are made; write calls do their work otherwise.
    maps: bool,
    window: Option<Window>,
    next: Arc<Mutex<Next>>,
    /// Syncs since the present window was entered.
    syncs: u32,
    mapped_bytes: u64,
    preparer: Option<Arc<Preparer>>,
}

impl MappedFile {
    /// Takes an empty file, open for reading and writing. Gives it back where the file system cannot
    /// allocate ahead or map, and where faults cannot be caught.
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

    /// Takes back what was asked for; waits for a preparing thread that has begun.
    fn forget_next(&mut self) {
        *self.next.lock() = Next::Unasked;
    }

    /// Allocates all that an append of `len` bytes will touch.
    fn reserve(&mut self, len: usize) -> io::Result<()> {
        let last = (self.len_bytes + len as u64).saturating_sub(1) / WINDOW_BYTES;
        // The window ahead has its blocks; to ask for them again would be a journal's entry while
        // writers wait.
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

    /// The window with `index`, whose blocks are allocated.
    fn enter(&mut self, index: u64) -> Result<&mut Window, Refused> {
        if self.window.as_ref().is_none_or(|window| window.index != index) {
            self.window = None;
            guarded::look_at_mask_again();
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
            // Whatever it is, the write call meets it too, or does without.
            self.window = Some(made.map_err(|_| Refused::Fault)?);
            self.ask_for(index + 1, in_large);
            self.syncs = 0;
        }
        self.window.as_mut().ok_or(Refused::Fault)
    }

    /// Copies to `offset`, whose blocks are allocated.
    fn copy(&mut self, mut bytes: &[u8], mut offset: u64) -> Result<(), Refused> {
        while !bytes.is_empty() {
            let at = (offset % WINDOW_BYTES) as usize;
            let (now, later) = bytes.split_at(bytes.len().min(WINDOW_BYTES as usize - at));
            self.mapped_bytes += self.enter(offset / WINDOW_BYTES)?.copy(at, now)?;
            (bytes, offset) = (later, offset + now.len() as u64);
        }
        Ok(())
    }

    /// The present window, if it has the place of `len` bytes behind the end.
    #[inline]
    fn window_of(&mut self, len: usize) -> Option<(&mut Window, usize)> {
        let at = (self.len_bytes % WINDOW_BYTES) as usize;
        let window = self.window.as_mut()?;
        let there = at + len <= WINDOW_BYTES as usize;
        (there && window.index == self.len_bytes / WINDOW_BYTES).then_some((window, at))
    }

    /// Appends what the present window has no place for.
    #[cold]
    fn append_beyond(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.maps {
            return self.file.write_all_at(bytes, self.len_bytes);
        }
        self.reserve(bytes.len())?;
        match self.copy(bytes, self.len_bytes) {
            Ok(()) => Ok(()),
            Err(refused) => self.write_instead(refused, bytes),
        }
    }

    /// Writes behind the end what could not be copied there.
    #[cold]
    fn write_instead(&mut self, refused: Refused, bytes: &[u8]) -> io::Result<()> {
        self.forget_next();
        // Another thread may copy where this one must not.
        if refused != Refused::Blocked {
            self.maps = false;
            self.window = None;
        }
        if refused == Refused::Memory {
            return Err(io::Error::other("the memory that held the file's last bytes failed"));
        }
        let (there, end) = (self.file.metadata()?.len(), self.len_bytes);
        if there < end {
            let message = format!(
                "the file was cut by someone else: it has {there} bytes, and {end} were written"
            );
            return Err(io::Error::other(message));
        }
        self.file.write_all_at(bytes, end)
    }
}

impl WritableFile for MappedFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.window_of(bytes.len()).map(|(window, at)| window.copy(at, bytes)) {
            Some(Ok(mapped)) => self.mapped_bytes += mapped,
            Some(Err(refused)) => self.write_instead(refused, bytes)?,
            None => self.append_beyond(bytes)?,
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
        match self.window_of(bytes.len()).map(|(window, at)| window.copy(at, bytes)) {
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
        // No window may reach beyond the file's end.
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
