//! Cache blocks: a header and bytes in one reference-counted allocation.
//!
//! The reference count, the header and the bytes lie next to each other, so that a reader waits for
//! memory only once. (An `Arc` of a structure with a vector takes two allocations.) Long-lived
//! cache blocks come from a [`CacheBlockPool`]. Others, and those above the pool's maximum size,
//! come from the allocator.
//!
//! Invariants: a [`CacheBlockBuf`] is the only owner of its memory. The bytes of a [`CacheBlock`]
//! are never written, and the last reference frees the memory.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering, fence};

use super::cache_block_pool::{ALLOCATION_BYTES_MAX, Allocation, CacheBlockPool, UNIT_BYTES};
use super::prefetch::prefetch_lines;

/// The allocation's fields before the bytes. The alignment of 8 leaves the low three bits of an
/// address free for tags.
#[repr(C, align(8))]
struct Head<H> {
    refs: AtomicUsize,
    /// Length of the content, in bytes.
    len: usize,
    /// Capacity for the content, in bytes.
    room: usize,
    /// The pool of the memory, or `None` for the allocator.
    pool: Option<Arc<CacheBlockPool>>,
    chunk: u32,
    granules: u32,
    /// Number of uses since the last [`CacheBlock::take_uses`], at most [`USES_MAX`].
    uses: AtomicU8,
    header: MaybeUninit<H>,
}

/// Maximum value of the use counter.
const USES_MAX: u8 = 3;
/// Number of cache lines in a prefetch: the head and the beginning of the bytes.
const PREFETCHED_LINES: usize = 9;

impl<H> Head<H> {
    const BYTES: usize = size_of::<Head<H>>();

    /// Returns the allocator's layout for a cache block with `room` bytes.
    fn layout(room: usize) -> Layout {
        let bytes = Self::BYTES.checked_add(room);
        let layout =
            bytes.and_then(|bytes| Layout::from_size_align(bytes, align_of::<Self>()).ok());
        layout.expect("a cache block is shorter than half of the address space")
    }

    /// Frees a head and its bytes. The header must have been dropped, or never written.
    ///
    /// # Safety
    /// `head` must come from [`CacheBlockBuf::zeroed`] and must not be in use.
    unsafe fn free(head: NonNull<Head<H>>) {
        // SAFETY: the head is initialized, as the caller promises. The values that are moved out
        // are not used in place again.
        let (pool, room, chunk, granules) = unsafe {
            let head = head.as_ptr();
            ((&raw const (*head).pool).read(), (*head).room, (*head).chunk, (*head).granules)
        };
        match pool {
            // SAFETY: this is the pool allocation of the cache block.
            Some(pool) => unsafe { pool.free(&Allocation { start: head.cast(), chunk, granules }) },
            // SAFETY: the memory was allocated with this layout.
            None => unsafe { dealloc(head.as_ptr().cast(), Self::layout(room)) },
        }
    }

    /// Returns the address of the bytes.
    fn bytes(head: NonNull<Head<H>>) -> NonNull<u8> {
        // SAFETY: the bytes begin at the end of the head, within the allocation or at its end.
        unsafe { head.cast::<u8>().add(Self::BYTES) }
    }
}

/// A cache block that is not shared yet. Its bytes may be written.
pub struct CacheBlockBuf<H> {
    head: NonNull<Head<H>>,
    owns: PhantomData<H>,
}

// SAFETY: it owns its memory. The header enters it only by value.
unsafe impl<H: Send> Send for CacheBlockBuf<H> {}

impl<H> CacheBlockBuf<H> {
    /// Allocates `len` zero bytes, from `pool` if given and the size is at most
    /// [`ALLOCATION_BYTES_MAX`], else from the allocator.
    pub fn zeroed(len: usize, pool: Option<&Arc<CacheBlockPool>>) -> CacheBlockBuf<H> {
        const {
            assert!(
                align_of::<Head<H>>() <= align_of::<u64>(),
                "the header needs a stricter alignment than the pool gives"
            )
        };
        let bytes = Head::<H>::layout(len).size();
        let (start, pool, chunk, granules) = match pool.filter(|_| bytes <= ALLOCATION_BYTES_MAX) {
            Some(pool) => {
                let piece = pool.allocate(bytes);
                (piece.start.cast(), Some(pool.clone()), piece.chunk, piece.granules)
            }
            None => {
                let layout = Head::<H>::layout(len);
                // SAFETY: the layout includes the head, so its size is not zero.
                let start = NonNull::new(unsafe { alloc(layout) }.cast::<Head<H>>());
                (start.unwrap_or_else(|| handle_alloc_error(layout)), None, 0, 0)
            }
        };
        let users = AtomicUsize::new(1);
        let header = MaybeUninit::uninit();
        // SAFETY: this call owns the memory, which is aligned for a head and large enough for the
        // head and `len` bytes after it.
        unsafe {
            let uses = AtomicU8::new(0);
            start.write(Head { refs: users, len, room: len, pool, chunk, granules, uses, header });
            Head::bytes(start).write_bytes(0, len);
        }
        CacheBlockBuf { head: start, owns: PhantomData }
    }

    /// Converts the buffer into a cache block with `header` and the first `len` bytes.
    ///
    /// # Panics
    /// Panics if `len` exceeds the length of the buffer.
    pub fn freeze(self, len: usize, header: H) -> CacheBlock<H> {
        let head = self.head;
        assert!(len <= self.len(), "cannot keep {len} bytes of a buffer of {} bytes", self.len());
        std::mem::forget(self);
        // SAFETY: the head is initialized, and this buffer is its only owner.
        unsafe {
            (*head.as_ptr()).len = len;
            (*head.as_ptr()).header.write(header);
        }
        CacheBlock { head, owns: PhantomData }
    }
}

impl<H> Deref for CacheBlockBuf<H> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: all bytes were initialized at creation, and the buffer is their only owner.
        unsafe {
            std::slice::from_raw_parts(Head::bytes(self.head).as_ptr(), self.head.as_ref().len)
        }
    }
}

impl<H> DerefMut for CacheBlockBuf<H> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the buffer is borrowed exclusively.
        unsafe {
            let len = self.head.as_ref().len;
            std::slice::from_raw_parts_mut(Head::bytes(self.head).as_ptr(), len)
        }
    }
}

impl<H> Drop for CacheBlockBuf<H> {
    fn drop(&mut self) {
        // SAFETY: the buffer owns its memory and was not frozen, so it has no header to drop.
        unsafe { Head::free(self.head) }
    }
}

/// A reference to an immutable cache block. A clone is another reference to the same block.
pub struct CacheBlock<H> {
    head: NonNull<Head<H>>,
    owns: PhantomData<H>,
}

// SAFETY: references on all threads only read the shared memory. The last reference drops the
// header on its own thread.
unsafe impl<H: Send + Sync> Send for CacheBlock<H> {}
// SAFETY: as above.
unsafe impl<H: Send + Sync> Sync for CacheBlock<H> {}

impl<H> CacheBlock<H> {
    /// Offset of the bytes from the block's address, in bytes.
    pub const HEAD_BYTES: usize = Head::<H>::BYTES;

    /// Returns the header.
    #[inline]
    pub fn header(&self) -> &H {
        // SAFETY: `freeze` wrote the header before it created the `CacheBlock`.
        unsafe { self.head.as_ref().header.assume_init_ref() }
    }

    /// Returns the bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the bytes were initialized before `freeze`, and are not written afterwards.
        unsafe {
            std::slice::from_raw_parts(Head::bytes(self.head).as_ptr(), self.head.as_ref().len)
        }
    }

    /// Returns the memory used, in bytes.
    pub fn memory_bytes(&self) -> usize {
        // SAFETY: the head is initialized while a reference exists.
        let head = unsafe { self.head.as_ref() };
        match head.pool {
            Some(_) => head.granules as usize * UNIT_BYTES,
            None => Head::<H>::BYTES + head.room,
        }
    }

    /// Converts the reference into an address, a multiple of eight. The address then owns the
    /// reference.
    pub fn into_address(self) -> usize {
        let address = self.head.as_ptr().expose_provenance();
        std::mem::forget(self);
        address
    }

    /// Converts an address back into the reference that it owns.
    ///
    /// # Safety
    /// The address must come from [`CacheBlock::into_address`] and must not have been converted
    /// back before.
    pub unsafe fn from_address(address: usize) -> CacheBlock<H> {
        let head = NonNull::new(std::ptr::with_exposed_provenance_mut(address));
        CacheBlock { head: head.expect("the address of a cache block is not 0"), owns: PhantomData }
    }

    /// Borrows the cache block at an address. The address still owns its reference.
    ///
    /// # Safety
    /// The address must come from [`CacheBlock::into_address`], and its reference must not be
    /// dropped while the result is in use.
    #[inline]
    pub unsafe fn at_address(address: usize) -> ManuallyDrop<CacheBlock<H>> {
        // SAFETY: the caller promises the same as for `from_address`, except that the address keeps
        // its reference. `ManuallyDrop` therefore never drops this one.
        ManuallyDrop::new(unsafe { CacheBlock::from_address(address) })
    }

    /// Counts a use. One of two concurrent uses may be lost.
    #[inline]
    pub fn note_use(&self) {
        // SAFETY: the head is initialized while a reference exists.
        let uses = unsafe { &self.head.as_ref().uses };
        let before = uses.load(Ordering::Relaxed);
        // A load and a store instead of a locked instruction, which would hold up later loads.
        // Blocks in frequent use are not written at all.
        if before < USES_MAX {
            uses.store(before + 1, Ordering::Relaxed);
        }
    }

    /// Returns the number of uses since the last call, at most three, and resets it.
    pub fn take_uses(&self) -> u8 {
        // SAFETY: the head is initialized while a reference exists.
        unsafe { &self.head.as_ref().uses }.swap(0, Ordering::Relaxed)
    }

    /// Returns the number of references.
    #[cfg(test)]
    pub fn ref_count(&self) -> usize {
        // SAFETY: the head is initialized while a reference exists.
        unsafe { self.head.as_ref() }.refs.load(Ordering::Relaxed)
    }

    /// Returns whether both refer to the same cache block.
    #[cfg(test)]
    pub fn is_same(&self, other: &CacheBlock<H>) -> bool {
        self.head == other.head
    }
}

/// Prefetches the beginning of the cache block at `address`. The address may be stale.
#[inline]
pub fn prefetch_cache_block(address: usize) {
    prefetch_lines(address, PREFETCHED_LINES);
}

impl<H> Clone for CacheBlock<H> {
    #[inline]
    fn clone(&self) -> CacheBlock<H> {
        // SAFETY: the head is initialized while a reference exists.
        let users = unsafe { &self.head.as_ref().refs };
        // Relaxed: the existing reference keeps the block alive, and the count orders no reads.
        let before = users.fetch_add(1, Ordering::Relaxed);
        if before > usize::MAX / 2 {
            // Leaked clones could overflow the count.
            std::process::abort();
        }
        CacheBlock { head: self.head, owns: PhantomData }
    }
}

impl<H> Drop for CacheBlock<H> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the head is initialized while a reference exists. This reference exists until the
        // decrement below.
        let users = unsafe { &self.head.as_ref().refs };
        // Release: the reads of this reference happen before the last reference frees the memory.
        if users.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            // SAFETY: this was the last reference, and no new one can appear. The header is dropped
            // once and its memory freed.
            unsafe {
                (*self.head.as_ptr()).header.assume_init_drop();
                Head::free(self.head);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pools() -> [Option<Arc<CacheBlockPool>>; 2] {
        [None, Some(Arc::default())]
    }

    #[test]
    fn block_keeps_bytes_and_drops_header_once() {
        for pool in pools() {
            for len in [0, 1, 100, 5_000, ALLOCATION_BYTES_MAX] {
                let token = Arc::new(());
                let mut buf = CacheBlockBuf::zeroed(len, pool.as_ref());
                assert_eq!(*buf, vec![0; len]);
                buf.fill(7);
                let block = buf.freeze(len / 2, token.clone());
                assert_eq!((block.bytes(), Arc::strong_count(&token)), (&vec![7; len / 2][..], 2));
                assert!(block.memory_bytes() >= len);
                let second = block.clone();
                drop(block);
                assert_eq!((second.bytes().len(), second.ref_count()), (len / 2, 1));
                let address = second.into_address();
                assert!(address.is_multiple_of(8));
                prefetch_cache_block(address);
                // SAFETY: the address comes from `into_address` above and is converted back once.
                let (third, second) = unsafe {
                    (CacheBlock::<Arc<()>>::at_address(address), CacheBlock::from_address(address))
                };
                assert!(third.is_same(&second) && third.ref_count() == 1);
                for uses in [0, 1, 3, 9] {
                    (0..uses).for_each(|_| third.note_use());
                    assert_eq!((second.take_uses(), third.take_uses()), (uses.min(3), 0));
                }
                drop(second);
                assert_eq!(Arc::strong_count(&token), 1);
                drop(CacheBlockBuf::<Arc<()>>::zeroed(len, pool.as_ref()));
            }
            assert!(pool.is_none_or(|pool| pool.used_bytes() == 0));
        }
    }

    #[test]
    fn block_shared_by_threads_is_freed_once_before_pool() {
        for pool in pools() {
            let token = Arc::new(());
            let mut buf = CacheBlockBuf::zeroed(3_000, pool.as_ref());
            buf[2_999] = 9;
            let block = buf.freeze(3_000, token.clone());
            drop(pool);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    let mine = block.clone();
                    scope.spawn(move || {
                        for _ in 0..50 {
                            let more = mine.clone();
                            assert_eq!(more.bytes()[2_999], 9);
                        }
                    });
                }
                drop(block);
            });
            assert_eq!(Arc::strong_count(&token), 1);
        }
    }
}
