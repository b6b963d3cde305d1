//! Memory in chunks that the kernel can back with one large page each: a fault in place of 512, and
//! one entry of the processor's address cache for all of it.
//!
//! What stays true: a chunk is its owner's alone, and on Linux it is mapped for it, and the kernel has
//! its memory back as soon as it is dropped, unless the process may have no more mappings: then the
//! allocator gives it. An allocator need not give it back: one that has given back large
//! memory before may take chunks from a heap that only grows, with as much again for where they must
//! begin.
#![allow(unsafe_code)]

use std::alloc::{Layout, handle_alloc_error};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Eight-byte words in a chunk, as a power of two: 2 MiB, a huge page of the usual machines. Where
/// orders of steps are explored, chunks are small, so that threads meet at their ends.
pub const CHUNK_SHIFT: u32 = if cfg!(feature = "shuttle") { 7 } else { 18 };
/// Eight-byte words in a chunk.
pub const CHUNK_WORDS: usize = 1 << CHUNK_SHIFT;
/// Bytes in a chunk.
pub const CHUNK_BYTES: usize = CHUNK_WORDS * 8;

/// No page is smaller.
const PAGE_BYTES_MIN: usize = 4096;

/// What a chunk's memory is made of, aligned as a large page is.
#[cfg_attr(not(any(miri, feature = "shuttle")), repr(C, align(2097152)))]
#[cfg_attr(any(miri, feature = "shuttle"), repr(C))]
struct Memory([MaybeUninit<u64>; CHUNK_WORDS]);

/// Every chunk begins at a multiple of so many bytes.
pub const CHUNK_ALIGNMENT: usize = align_of::<Memory>();

/// A chunk: [`CHUNK_BYTES`] bytes that nobody else has. They begin where a large page does.
#[derive(Debug)]
pub struct Chunk(NonNull<Memory>);

// SAFETY: the memory is the chunk's alone, and whoever has the chunk may use it on any thread.
unsafe impl Send for Chunk {}

impl Chunk {
    /// A chunk of fresh memory; `large` asks for one page under all of it, which costs all of it at
    /// the first touch.
    pub fn fresh(large: bool) -> Chunk {
        let memory = source::take().unwrap_or_else(|| handle_alloc_error(Layout::new::<Memory>()));
        if large {
            source::ask_for_large_page(memory);
        }
        Chunk(memory)
    }

    /// Where it begins. What lies there is for whoever has the chunk, and gone with it.
    pub fn start(&self) -> NonNull<u8> {
        self.0.cast()
    }

    /// Touches each of its pages, so that nobody else waits for them to be cleared. What was there is
    /// gone.
    pub fn populate(&mut self) {
        for page in (0..CHUNK_BYTES).step_by(PAGE_BYTES_MIN) {
            // SAFETY: the byte lies within the chunk, which is the caller's alone.
            unsafe { self.start().add(page).write_volatile(0) };
        }
    }

    /// Its memory, which [`Chunk::from_memory`] takes back.
    pub fn into_memory(self) -> NonNull<u64> {
        let memory = self.0;
        std::mem::forget(self);
        memory.cast()
    }

    /// The chunk of that memory.
    ///
    /// # Safety
    /// `memory` came from [`Chunk::into_memory`], became no chunk again since, and nobody uses it.
    pub unsafe fn from_memory(memory: NonNull<u64>) -> Chunk {
        Chunk(memory.cast())
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: the chunk's memory came from `take`, and the chunk was the only one to have it.
        unsafe { source::give(self.0) };
    }
}

/// From the kernel.
#[cfg(all(target_os = "linux", not(any(miri, feature = "shuttle"))))]
mod source {
    use std::alloc::{Layout, alloc, dealloc};
    use std::ffi::c_void;
    use std::ptr::{self, NonNull};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    use super::{CHUNK_BYTES, Memory};
    use crate::base::locks::Mutex;

    /// Where chunks begin that the allocator gave, because the process may have no more mappings. It
    /// may still have memory: the allocator's heap grows without one.
    static ALLOCATED: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    /// How many there are.
    static ALLOCATED_COUNT: AtomicUsize = AtomicUsize::new(0);

    /// Memory of the allocator's; `None` if it has none either.
    pub(super) fn allocate() -> Option<NonNull<Memory>> {
        // SAFETY: a chunk has bytes.
        let memory = NonNull::new(unsafe { alloc(Layout::new::<Memory>()) })?.cast::<Memory>();
        ALLOCATED.lock().push(memory.addr().get());
        ALLOCATED_COUNT.fetch_add(1, Ordering::Release);
        Some(memory)
    }

    /// Whether `memory` is the allocator's, which then has to have it back.
    fn was_allocated(memory: NonNull<Memory>) -> bool {
        if ALLOCATED_COUNT.load(Ordering::Acquire) == 0 {
            return false;
        }
        let mut allocated = ALLOCATED.lock();
        let Some(at) = allocated.iter().position(|at| *at == memory.addr().get()) else {
            return false;
        };
        allocated.swap_remove(at);
        ALLOCATED_COUNT.fetch_sub(1, Ordering::Release);
        true
    }

    /// So many fresh bytes, somewhere.
    fn map(bytes: usize) -> Option<*mut c_void> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: at an address the kernel chooses, so that nothing that is in use is mapped over.
        unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, MapFlags::PRIVATE) }.ok()
    }

    /// Gives back `bytes` bytes at `start`.
    ///
    /// # Safety
    /// They are pages of a mapping made here, and nobody uses them.
    unsafe fn unmap(start: *mut c_void, bytes: usize) {
        // SAFETY: as this function's.
        if bytes > 0 && unsafe { munmap(start, bytes) }.is_err() {
            // The process has too many mappings to cut one in two. What lies there can still go.
            // SAFETY: the same; nobody reads what was there.
            let _ = unsafe { madvise(start, bytes, Advice::LinuxDontNeed) };
        }
    }

    /// Memory for a chunk; `None` if there is none.
    pub fn take() -> Option<NonNull<Memory>> {
        map_aligned().or_else(allocate)
    }

    fn map_aligned() -> Option<NonNull<Memory>> {
        let start = map(CHUNK_BYTES)?;
        if start.addr().is_multiple_of(CHUNK_BYTES) {
            return NonNull::new(start.cast());
        }
        // SAFETY: mapped above, whole, and used by nobody.
        unsafe { unmap(start, CHUNK_BYTES) };
        take_of_twice()
    }

    /// The same where the kernel does not align it by itself: twice as much has a chunk within; what
    /// lies before and behind it goes back.
    pub(super) fn take_of_twice() -> Option<NonNull<Memory>> {
        let wide = map(2 * CHUNK_BYTES)?;
        let before = wide.addr().next_multiple_of(CHUNK_BYTES) - wide.addr();
        let memory = wide.wrapping_byte_add(before);
        let behind = CHUNK_BYTES - before;
        // SAFETY: both parts lie within what was just mapped, outside the chunk.
        unsafe {
            unmap(wide, before);
            unmap(memory.wrapping_byte_add(CHUNK_BYTES), behind);
        }
        NonNull::new(memory.cast())
    }

    /// Gives a chunk's memory back.
    ///
    /// # Safety
    /// It came from [`take`], once, and nobody uses it.
    pub unsafe fn give(memory: NonNull<Memory>) {
        if was_allocated(memory) {
            // SAFETY: `allocate` had it of the allocator with this layout, and nobody uses it.
            return unsafe { dealloc(memory.as_ptr().cast(), Layout::new::<Memory>()) };
        }
        // SAFETY: as this function's.
        unsafe { unmap(memory.as_ptr().cast(), CHUNK_BYTES) };
    }

    /// Asks for one page under all of a chunk.
    pub fn ask_for_large_page(memory: NonNull<Memory>) {
        // SAFETY: the range is exactly one chunk's; the advice changes no byte of it.
        let _ = unsafe { madvise(memory.as_ptr().cast(), CHUNK_BYTES, Advice::LinuxHugepage) };
    }
}

/// From the allocator, where mappings cannot be made or followed.
#[cfg(not(all(target_os = "linux", not(any(miri, feature = "shuttle")))))]
mod source {
    use std::alloc::{Layout, alloc, dealloc};
    use std::ptr::NonNull;

    use super::Memory;

    /// Memory for a chunk; `None` if there is none.
    pub fn take() -> Option<NonNull<Memory>> {
        // SAFETY: a chunk has bytes.
        NonNull::new(unsafe { alloc(Layout::new::<Memory>()) }.cast())
    }

    /// Gives a chunk's memory back.
    ///
    /// # Safety
    /// It came from [`take`], once, and nobody uses it.
    pub unsafe fn give(memory: NonNull<Memory>) {
        // SAFETY: as this function's; the layout is the same.
        unsafe { dealloc(memory.as_ptr().cast(), Layout::new::<Memory>()) };
    }

    /// Nothing that can be asked for here.
    pub fn ask_for_large_page(_: NonNull<Memory>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_begin_where_large_pages_do_and_share_no_byte() {
        let count = if cfg!(miri) { 3 } else { 40 };
        #[cfg(all(target_os = "linux", not(any(miri, feature = "shuttle"))))]
        let fresh = |n| match n % 3 {
            0 => Chunk(source::take_of_twice().expect("there is memory")),
            1 => Chunk(source::allocate().expect("there is memory")),
            _ => Chunk::fresh(n % 2 == 1),
        };
        #[cfg(not(all(target_os = "linux", not(any(miri, feature = "shuttle")))))]
        let fresh = |n| Chunk::fresh(n % 2 == 0);
        let made = |n| {
            let mut chunk = fresh(n);
            if n % 2 == 0 {
                chunk.populate();
            }
            chunk.into_memory()
        };
        let held: Vec<NonNull<u64>> = (0..count).map(made).collect();
        for (n, memory) in held.iter().enumerate() {
            assert_eq!(memory.addr().get() % CHUNK_ALIGNMENT, 0);
            for at in [0, CHUNK_WORDS / 2, CHUNK_WORDS - 1] {
                // SAFETY: the word lies within the chunk, which is this test's alone.
                unsafe { memory.add(at).write((n * CHUNK_WORDS + at) as u64) };
            }
        }
        for (n, memory) in held.into_iter().enumerate() {
            for at in [0, CHUNK_WORDS / 2, CHUNK_WORDS - 1] {
                // SAFETY: written above.
                assert_eq!(unsafe { memory.add(at).read() }, (n * CHUNK_WORDS + at) as u64);
            }
            // SAFETY: from `into_memory`, once, and used no more.
            drop(unsafe { Chunk::from_memory(memory) });
        }
    }
}
