//! Memory chunks of 2 MiB, each of which the kernel can back with one huge page. A huge page takes
//! one page fault instead of 512, and one TLB entry.
//!
//! Invariants:
//! 1. A chunk belongs to its owner alone.
//! 2. On Linux a chunk is a memory mapping of its own, and a drop returns its memory to the kernel
//!    at once. If the process has reached its limit of mappings, the chunk comes from the
//!    allocator.
//!
//! Mappings are preferred because an allocator need not return memory to the kernel. After large
//! frees it may take chunks from a heap that only grows, and alignment may double their size.
#![allow(unsafe_code)]

use std::alloc::{Layout, handle_alloc_error};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Binary logarithm of [`CHUNK_WORDS`]. A chunk is 2 MiB, the usual size of a huge page. Schedule
/// tests use small chunks, so that threads compete at chunk ends.
pub const CHUNK_SHIFT: u32 = if cfg!(esker_shuttle) { 7 } else { 18 };
/// Size of a chunk, in eight-byte words.
pub const CHUNK_WORDS: usize = 1 << CHUNK_SHIFT;
/// Size of a chunk, in bytes.
pub const CHUNK_BYTES: usize = CHUNK_WORDS * 8;

/// Minimum page size, in bytes.
const PAGE_BYTES_MIN: usize = 4096;

/// The memory of a chunk, aligned to a huge page. In the portable half it is aligned to a page: the
/// allocator's alignment to 2 MiB would take up to twice the memory.
#[cfg_attr(any(miri, esker_shuttle), repr(C))]
#[cfg_attr(
    all(target_os = "linux", not(any(miri, esker_shuttle, esker_portable))),
    repr(C, align(2097152))
)]
#[cfg_attr(
    all(any(not(target_os = "linux"), esker_portable), not(any(miri, esker_shuttle))),
    repr(C, align(4096))
)]
struct Memory([MaybeUninit<u64>; CHUNK_WORDS]);

/// Alignment of a chunk, in bytes.
pub const CHUNK_ALIGNMENT: usize = align_of::<Memory>();

/// An owned chunk of [`CHUNK_BYTES`] bytes, aligned to [`CHUNK_ALIGNMENT`].
#[derive(Debug)]
pub struct Chunk(NonNull<Memory>);

// SAFETY: the chunk owns its memory alone, and the memory is not tied to a thread.
unsafe impl Send for Chunk {}

impl Chunk {
    /// Allocates a chunk. With `large` the kernel is asked for a huge page, which uses all 2 MiB at
    /// the first touch. Aborts the process if no memory is available.
    pub fn fresh(large: bool) -> Chunk {
        let memory = source::take().unwrap_or_else(|| handle_alloc_error(Layout::new::<Memory>()));
        if large {
            source::ask_for_large_page(memory);
        }
        Chunk(memory)
    }

    /// Returns the start address. The memory belongs to the owner of the chunk and is freed with
    /// it.
    pub fn start(&self) -> NonNull<u8> {
        self.0.cast()
    }

    /// Touches each page, so that later users do not wait for the kernel to clear it. This
    /// overwrites the content.
    pub fn populate(&mut self) {
        for page in (0..CHUNK_BYTES).step_by(PAGE_BYTES_MIN) {
            // SAFETY: the byte lies within the chunk, which the caller borrows exclusively.
            unsafe { self.start().add(page).write_volatile(0) };
        }
    }

    /// Releases the memory from the chunk without freeing it. [`Chunk::from_memory`] takes it back.
    pub fn into_memory(self) -> NonNull<u64> {
        let memory = self.0;
        std::mem::forget(self);
        memory.cast()
    }

    /// Restores the chunk from its memory.
    ///
    /// # Safety
    /// `memory` must come from [`Chunk::into_memory`], must not have become a chunk again since,
    /// and must not be in use.
    pub unsafe fn from_memory(memory: NonNull<u64>) -> Chunk {
        Chunk(memory.cast())
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: the memory came from `take`, and the chunk was its only owner.
        unsafe { source::give(self.0) };
    }
}

/// Chunk memory from the kernel, with the allocator as the fallback.
#[cfg(all(target_os = "linux", not(any(miri, esker_shuttle, esker_portable))))]
mod source {
    use std::alloc::{Layout, alloc, dealloc};
    use std::ffi::c_void;
    use std::ptr::{self, NonNull};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    use super::{CHUNK_BYTES, Memory};
    use crate::base::locks::Mutex;

    /// Start addresses of the chunks from the allocator. They exist if the process reached its
    /// limit of mappings. Memory may still be available then, because the allocator's heap grows
    /// without further mappings.
    static ALLOCATED: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    /// Number of chunks from the allocator.
    static ALLOCATED_COUNT: AtomicUsize = AtomicUsize::new(0);

    /// Takes memory from the allocator. Returns `None` if it has none either.
    pub(super) fn allocate() -> Option<NonNull<Memory>> {
        // SAFETY: the size of a chunk is not zero.
        let memory = NonNull::new(unsafe { alloc(Layout::new::<Memory>()) })?.cast::<Memory>();
        ALLOCATED.lock().push(memory.addr().get());
        ALLOCATED_COUNT.fetch_add(1, Ordering::Release);
        Some(memory)
    }

    /// Returns whether `memory` came from the allocator, and removes it from the list if so. The
    /// caller must then return it to the allocator.
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

    /// Maps `bytes` fresh bytes at any address.
    fn map(bytes: usize) -> Option<*mut c_void> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, so the new mapping overlaps no memory in use.
        unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, MapFlags::PRIVATE) }.ok()
    }

    /// Unmaps `bytes` bytes at `start`.
    ///
    /// # Safety
    /// The range must consist of pages of a mapping made here, and must not be in use.
    unsafe fn unmap(start: *mut c_void, bytes: usize) {
        // SAFETY: guaranteed by the caller.
        if bytes > 0 && unsafe { munmap(start, bytes) }.is_err() {
            // The process has too many mappings to split one. The content can still be discarded.
            // SAFETY: guaranteed by the caller. The content is not read again.
            let _ = unsafe { madvise(start, bytes, Advice::LinuxDontNeed) };
        }
    }

    /// Takes memory for a chunk. Returns `None` if no memory is available.
    pub fn take() -> Option<NonNull<Memory>> {
        map_aligned().or_else(allocate)
    }

    fn map_aligned() -> Option<NonNull<Memory>> {
        let start = map(CHUNK_BYTES)?;
        if start.addr().is_multiple_of(CHUNK_BYTES) {
            return NonNull::new(start.cast());
        }
        // SAFETY: this is the whole mapping made above, and it is not in use.
        unsafe { unmap(start, CHUNK_BYTES) };
        take_of_twice()
    }

    /// Maps a chunk where the kernel does not align mappings by itself. It maps twice the size,
    /// which contains an aligned chunk, and unmaps the parts before and after that chunk.
    pub(super) fn take_of_twice() -> Option<NonNull<Memory>> {
        let wide = map(2 * CHUNK_BYTES)?;
        let before = wide.addr().next_multiple_of(CHUNK_BYTES) - wide.addr();
        let memory = wide.wrapping_byte_add(before);
        let behind = CHUNK_BYTES - before;
        // SAFETY: both parts lie within the new mapping and outside the chunk.
        unsafe {
            unmap(wide, before);
            unmap(memory.wrapping_byte_add(CHUNK_BYTES), behind);
        }
        NonNull::new(memory.cast())
    }

    /// Frees a chunk's memory.
    ///
    /// # Safety
    /// `memory` must come from [`take`], must not have been freed, and must not be in use.
    pub unsafe fn give(memory: NonNull<Memory>) {
        if was_allocated(memory) {
            // SAFETY: `allocate` took it from the allocator with this layout, and it is not in use.
            return unsafe { dealloc(memory.as_ptr().cast(), Layout::new::<Memory>()) };
        }
        // SAFETY: guaranteed by the caller.
        unsafe { unmap(memory.as_ptr().cast(), CHUNK_BYTES) };
    }

    /// Asks the kernel to back the chunk with a huge page.
    pub fn ask_for_large_page(memory: NonNull<Memory>) {
        // SAFETY: the range is exactly one chunk. The advice changes no byte of it.
        let _ = unsafe { madvise(memory.as_ptr().cast(), CHUNK_BYTES, Advice::LinuxHugepage) };
    }
}

/// Chunk memory from the allocator, for other systems, the portable half, Miri and Shuttle.
#[cfg(not(all(target_os = "linux", not(any(miri, esker_shuttle, esker_portable)))))]
mod source {
    use std::alloc::{Layout, alloc, dealloc};
    use std::ptr::NonNull;

    use super::Memory;

    /// Takes memory for a chunk. Returns `None` if no memory is available.
    pub fn take() -> Option<NonNull<Memory>> {
        // SAFETY: the size of a chunk is not zero.
        NonNull::new(unsafe { alloc(Layout::new::<Memory>()) }.cast())
    }

    /// Frees a chunk's memory.
    ///
    /// # Safety
    /// `memory` must come from [`take`], must not have been freed, and must not be in use.
    pub unsafe fn give(memory: NonNull<Memory>) {
        // SAFETY: guaranteed by the caller. The layout is the same as in `take`.
        unsafe { dealloc(memory.as_ptr().cast(), Layout::new::<Memory>()) };
    }

    /// Does nothing: huge pages are not requested here.
    pub fn ask_for_large_page(_: NonNull<Memory>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_huge_page_aligned_and_disjoint() {
        let count = if cfg!(miri) { 3 } else { 40 };
        #[cfg(all(target_os = "linux", not(any(miri, esker_shuttle, esker_portable))))]
        let fresh = |n| match n % 3 {
            0 => Chunk(source::take_of_twice().expect("there is memory")),
            1 => Chunk(source::allocate().expect("there is memory")),
            _ => Chunk::fresh(n % 2 == 1),
        };
        #[cfg(not(all(target_os = "linux", not(any(miri, esker_shuttle, esker_portable)))))]
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
                // SAFETY: the word lies within the chunk, which this test owns alone.
                unsafe { memory.add(at).write((n * CHUNK_WORDS + at) as u64) };
            }
        }
        for (n, memory) in held.into_iter().enumerate() {
            for at in [0, CHUNK_WORDS / 2, CHUNK_WORDS - 1] {
                // SAFETY: written above.
                assert_eq!(unsafe { memory.add(at).read() }, (n * CHUNK_WORDS + at) as u64);
            }
            // SAFETY: the memory came from `into_memory`, is taken back once, and is not used
            // again.
            drop(unsafe { Chunk::from_memory(memory) });
        }
    }
}
