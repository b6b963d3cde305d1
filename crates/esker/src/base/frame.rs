//! Frames: a header and bytes in one piece of memory, shared by counting.
//!
//! A reader that follows a pointer to a frame finds the count of its users, what is known of the
//! bytes and the bytes themselves next to each other, so that it waits for memory once. (An `Arc` of
//! a structure with a vector is two places.) A frame that is to be kept long comes from a
//! [`FramePool`]; others, and long ones, from the allocator.
//!
//! What stays true: while there is a [`FrameBuf`], nobody else knows the memory; while there is a
//! [`Frame`], nobody writes to it, and the last one frees it.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering, fence};

use super::frame_pool::{FRAME_BYTES_MAX, FramePool, GRANULE_BYTES, Piece};
use super::prefetch::prefetch_lines;

/// What lies before the bytes. Whoever keeps an address has its low three bits for marks.
#[repr(C, align(8))]
struct Head<H> {
    users: AtomicUsize,
    /// How many bytes follow.
    len: usize,
    /// For how many there is room.
    room: usize,
    /// Where the memory is from; `None` is the allocator.
    pool: Option<Arc<FramePool>>,
    chunk: u32,
    granules: u32,
    /// How often it was looked at since that was last asked, up to [`USES_MAX`].
    uses: AtomicU8,
    header: MaybeUninit<H>,
}

/// So many uses are told apart.
const USES_MAX: u8 = 3;
/// What a prefetch fetches of a frame: its head and the beginning of its bytes.
const PREFETCHED_LINES: usize = 9;

impl<H> Head<H> {
    const BYTES: usize = size_of::<Head<H>>();

    /// How the allocator sees a frame with `room` bytes.
    fn layout(room: usize) -> Layout {
        let bytes = Self::BYTES.checked_add(room);
        let layout =
            bytes.and_then(|bytes| Layout::from_size_align(bytes, align_of::<Self>()).ok());
        layout.expect("a frame is shorter than half of the address space")
    }

    /// Frees a head and its bytes; the header has been dropped or never was.
    ///
    /// # Safety
    /// `head` is one that [`FrameBuf::zeroed`] made, and nobody uses it any more.
    unsafe fn free(head: NonNull<Head<H>>) {
        // SAFETY: the head is whole, by the caller's word; what is read is not used in its place
        // again.
        let (pool, room, chunk, granules) = unsafe {
            let head = head.as_ptr();
            ((&raw const (*head).pool).read(), (*head).room, (*head).chunk, (*head).granules)
        };
        match pool {
            // SAFETY: this is the piece that was taken for the frame.
            Some(pool) => unsafe { pool.give(&Piece { start: head.cast(), chunk, granules }) },
            // SAFETY: it was allocated with this layout.
            None => unsafe { dealloc(head.as_ptr().cast(), Self::layout(room)) },
        }
    }

    /// Where the bytes begin.
    fn bytes(head: NonNull<Head<H>>) -> NonNull<u8> {
        // SAFETY: the bytes begin where the head ends, within the same memory or at its end.
        unsafe { head.cast::<u8>().add(Self::BYTES) }
    }
}

/// A frame that nobody else sees yet: its bytes may be written.
pub struct FrameBuf<H> {
    head: NonNull<Head<H>>,
    owns: PhantomData<H>,
}

// SAFETY: it owns its memory; a header can only be given to it by value.
unsafe impl<H: Send> Send for FrameBuf<H> {}

impl<H> FrameBuf<H> {
    /// `len` bytes, all zero, from `pool` if there is one and it serves as many.
    pub fn zeroed(len: usize, pool: Option<&Arc<FramePool>>) -> FrameBuf<H> {
        const { assert!(align_of::<Head<H>>() <= align_of::<u64>(), "pieces have no stricter one") };
        let bytes = Head::<H>::layout(len).size();
        let (start, pool, chunk, granules) = match pool.filter(|_| bytes <= FRAME_BYTES_MAX) {
            Some(pool) => {
                let piece = pool.take(bytes);
                (piece.start.cast(), Some(pool.clone()), piece.chunk, piece.granules)
            }
            None => {
                let layout = Head::<H>::layout(len);
                // SAFETY: the layout is not empty: the head is in it.
                let start = NonNull::new(unsafe { alloc(layout) }.cast::<Head<H>>());
                (start.unwrap_or_else(|| handle_alloc_error(layout)), None, 0, 0)
            }
        };
        let users = AtomicUsize::new(1);
        let header = MaybeUninit::uninit();
        // SAFETY: the memory is this call's, aligned for a head and long enough for it and `len`
        // bytes behind it.
        unsafe {
            let uses = AtomicU8::new(0);
            start.write(Head { users, len, room: len, pool, chunk, granules, uses, header });
            Head::bytes(start).write_bytes(0, len);
        }
        FrameBuf { head: start, owns: PhantomData }
    }

    /// Makes a frame of the first `len` of the bytes, described by `header`.
    pub fn freeze(self, len: usize, header: H) -> Frame<H> {
        let head = self.head;
        assert!(len <= self.len(), "a frame of {len} bytes of {}", self.len());
        std::mem::forget(self);
        // SAFETY: the head is whole and this buffer's alone.
        unsafe {
            (*head.as_ptr()).len = len;
            (*head.as_ptr()).header.write(header);
        }
        Frame { head, owns: PhantomData }
    }
}

impl<H> Deref for FrameBuf<H> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the bytes were all written when the buffer was made, and are its alone.
        unsafe {
            std::slice::from_raw_parts(Head::bytes(self.head).as_ptr(), self.head.as_ref().len)
        }
    }
}

impl<H> DerefMut for FrameBuf<H> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the buffer is borrowed for writing.
        unsafe {
            let len = self.head.as_ref().len;
            std::slice::from_raw_parts_mut(Head::bytes(self.head).as_ptr(), len)
        }
    }
}

impl<H> Drop for FrameBuf<H> {
    fn drop(&mut self) {
        // SAFETY: the buffer owns its memory and was not made a frame; it has no header.
        unsafe { Head::free(self.head) }
    }
}

/// A header and bytes that do not change any more. A clone is one more user of the same.
pub struct Frame<H> {
    head: NonNull<Head<H>>,
    owns: PhantomData<H>,
}

// SAFETY: users on any thread only read what they share, and the last of them, on its own thread,
// drops the header.
unsafe impl<H: Send + Sync> Send for Frame<H> {}
// SAFETY: as above.
unsafe impl<H: Send + Sync> Sync for Frame<H> {}

impl<H> Frame<H> {
    /// Where its bytes begin, counted from its address.
    pub const HEAD_BYTES: usize = Head::<H>::BYTES;

    /// What is known of the bytes.
    #[inline]
    pub fn header(&self) -> &H {
        // SAFETY: every frame got its header before it was one.
        unsafe { self.head.as_ref().header.assume_init_ref() }
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: they were written before this was a frame, and nobody writes to them since.
        unsafe {
            std::slice::from_raw_parts(Head::bytes(self.head).as_ptr(), self.head.as_ref().len)
        }
    }

    /// Bytes of memory it takes.
    pub fn memory_bytes(&self) -> usize {
        // SAFETY: the head is whole while there is a user.
        let head = unsafe { self.head.as_ref() };
        match head.pool {
            Some(_) => head.granules as usize * GRANULE_BYTES,
            None => Head::<H>::BYTES + head.room,
        }
    }

    /// Its address, which stands for this user. Addresses are multiples of eight.
    pub fn into_address(self) -> usize {
        let address = self.head.as_ptr().expose_provenance();
        std::mem::forget(self);
        address
    }

    /// The user that an address stands for.
    ///
    /// # Safety
    /// The address came from [`Frame::into_address`], and nothing else was made of it.
    pub unsafe fn from_address(address: usize) -> Frame<H> {
        let head = NonNull::new(std::ptr::with_exposed_provenance_mut(address));
        Frame { head: head.expect("no frame has the address 0"), owns: PhantomData }
    }

    /// The frame whose user an address stands for, which goes on standing for it.
    ///
    /// # Safety
    /// The address came from [`Frame::into_address`], and what it stands for is not dropped while
    /// this is used.
    #[inline]
    pub unsafe fn at_address(address: usize) -> ManuallyDrop<Frame<H>> {
        // SAFETY: the caller's word is that of `from_address`, but that the address goes on standing
        // for its user: so this one is never dropped.
        ManuallyDrop::new(unsafe { Frame::from_address(address) })
    }

    /// Counts a use. One of two at the same moment may not be counted.
    #[inline]
    pub fn note_use(&self) {
        // SAFETY: the head is whole while there is a user.
        let uses = unsafe { &self.head.as_ref().uses };
        let before = uses.load(Ordering::Relaxed);
        // Not a locked instruction, which would hold up the reads behind it; and what is used often
        // is not written to.
        if before < USES_MAX {
            uses.store(before + 1, Ordering::Relaxed);
        }
    }

    /// How many uses were counted since this was last asked, at most three.
    pub fn take_uses(&self) -> u8 {
        // SAFETY: the head is whole while there is a user.
        unsafe { &self.head.as_ref().uses }.swap(0, Ordering::Relaxed)
    }

    /// How many users it has.
    #[cfg(test)]
    pub fn users(&self) -> usize {
        // SAFETY: the head is whole while there is a user.
        unsafe { self.head.as_ref() }.users.load(Ordering::Relaxed)
    }

    /// Whether both are users of one frame.
    #[cfg(test)]
    pub fn is_same(&self, other: &Frame<H>) -> bool {
        self.head == other.head
    }
}

/// Asks the processor for the beginning of the frame at `address`, which need not be one any more.
#[inline]
pub fn prefetch_frame(address: usize) {
    prefetch_lines(address, PREFETCHED_LINES);
}

impl<H> Clone for Frame<H> {
    #[inline]
    fn clone(&self) -> Frame<H> {
        // SAFETY: the head is whole while there is a user.
        let users = unsafe { &self.head.as_ref().users };
        // Whoever has a user may make another; nothing is read through the count.
        let before = users.fetch_add(1, Ordering::Relaxed);
        if before > usize::MAX / 2 {
            // Clones were leaked by the billion; another could wrap the count.
            std::process::abort();
        }
        Frame { head: self.head, owns: PhantomData }
    }
}

impl<H> Drop for Frame<H> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the head is whole while there is a user, which this is until the next line.
        let users = unsafe { &self.head.as_ref().users };
        // Release: what this user read is read before the last one frees it.
        if users.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            // SAFETY: there was no other user, and none can come; the header is dropped once, and
            // its memory freed.
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

    fn pools() -> [Option<Arc<FramePool>>; 2] {
        [None, Some(Arc::default())]
    }

    #[test]
    fn a_frame_keeps_its_bytes_and_drops_its_header_once() {
        for pool in pools() {
            for len in [0, 1, 100, 5_000, FRAME_BYTES_MAX] {
                let token = Arc::new(());
                let mut buf = FrameBuf::zeroed(len, pool.as_ref());
                assert_eq!(*buf, vec![0; len]);
                buf.fill(7);
                let frame = buf.freeze(len / 2, token.clone());
                assert_eq!((frame.bytes(), Arc::strong_count(&token)), (&vec![7; len / 2][..], 2));
                assert!(frame.memory_bytes() >= len);
                let second = frame.clone();
                drop(frame);
                assert_eq!((second.bytes().len(), second.users()), (len / 2, 1));
                let address = second.into_address();
                assert!(address.is_multiple_of(8));
                prefetch_frame(address);
                // SAFETY: the address is of the line before, and is made one user again, once.
                let (third, second) = unsafe {
                    (Frame::<Arc<()>>::at_address(address), Frame::from_address(address))
                };
                assert!(third.is_same(&second) && third.users() == 1);
                for uses in [0, 1, 3, 9] {
                    (0..uses).for_each(|_| third.note_use());
                    assert_eq!((second.take_uses(), third.take_uses()), (uses.min(3), 0));
                }
                drop(second);
                assert_eq!(Arc::strong_count(&token), 1);
                drop(FrameBuf::<Arc<()>>::zeroed(len, pool.as_ref()));
            }
            assert!(pool.is_none_or(|pool| pool.used_bytes() == 0));
        }
    }

    #[test]
    fn users_on_many_threads_free_a_frame_once_and_the_pool_after_it() {
        for pool in pools() {
            let token = Arc::new(());
            let mut buf = FrameBuf::zeroed(3_000, pool.as_ref());
            buf[2_999] = 9;
            let frame = buf.freeze(3_000, token.clone());
            drop(pool);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    let mine = frame.clone();
                    scope.spawn(move || {
                        for _ in 0..50 {
                            let more = mine.clone();
                            assert_eq!(more.bytes()[2_999], 9);
                        }
                    });
                }
                drop(frame);
            });
            assert_eq!(Arc::strong_count(&token), 1);
        }
    }
}
