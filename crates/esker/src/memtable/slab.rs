//! The nodes of a tree, by number, in segments that never move: the first from the allocator, those of
//! a tree that grows from chunks of the memtables' pool, whose pages are there before they are needed
//! and large.
//!
//! What stays true: the first `len` nodes are written, and no other is read; a segment is the slab's
//! alone until it is dropped.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;

use super::pool::ChunkPool;
use crate::base::chunk::{CHUNK_ALIGNMENT, CHUNK_BYTES, Chunk};

/// Nodes side by side.
const SEGMENT: usize = 64;
/// How many segments come from the allocator: a small tree is not worth a chunk.
const BOXED: usize = if cfg!(any(test, miri)) { 2 } else { 16 };

/// Nodes by number. They are plain data, so that nothing is to be done where one ends.
pub(super) struct Slab<T: Copy> {
    segments: Vec<NonNull<T>>,
    len: usize,
    /// Where the segments behind the first [`BOXED`] lie.
    chunks: Vec<Chunk>,
    pool: Arc<ChunkPool>,
}

// SAFETY: it owns its nodes as a vector does, and its memory is tied to no thread.
unsafe impl<T: Copy + Send> Send for Slab<T> {}
// SAFETY: shared, it only lends its nodes.
unsafe impl<T: Copy + Sync> Sync for Slab<T> {}

impl<T: Copy> Slab<T> {
    /// How many segments a chunk holds.
    const IN_CHUNK: usize = match align_of::<T>() <= CHUNK_ALIGNMENT {
        true => CHUNK_BYTES / (SEGMENT * size_of::<T>()),
        false => 0,
    };
    /// How many come from the allocator: all, where a chunk has room for none.
    const BOXED: usize = if Self::IN_CHUNK > 0 { BOXED } else { usize::MAX };

    /// No nodes yet; chunks come from `pool` and go back there.
    pub fn new(pool: Arc<ChunkPool>) -> Slab<T> {
        Slab { segments: Vec::new(), len: 0, chunks: Vec::new(), pool }
    }

    /// How many nodes there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Adds a node and says its number.
    pub fn push(&mut self, node: T) -> u32 {
        let number = self.len;
        if number.is_multiple_of(SEGMENT) {
            let segment = self.next_segment();
            self.segments.push(segment);
        }
        // SAFETY: there is a segment for this number: those before it are full, or it was just added.
        // Its memory is for `SEGMENT` nodes and the slab's alone.
        unsafe { self.segments[number / SEGMENT].add(number % SEGMENT).write(node) };
        self.len += 1;
        number as u32
    }

    /// The node of this number.
    #[inline]
    pub fn at(&self, number: u32) -> &T {
        // SAFETY: the place is of a node that was written; `&self` keeps it.
        unsafe { self.place(number).as_ref() }
    }

    /// The node of this number, to be changed.
    #[inline]
    pub fn at_mut(&mut self, number: u32) -> &mut T {
        // SAFETY: the same; `&mut self` says that nobody else has it.
        unsafe { self.place(number).as_mut() }
    }

    /// Where a node that was written lies.
    #[inline]
    fn place(&self, number: u32) -> NonNull<T> {
        let number = number as usize;
        assert!(number < self.len, "a node that was never made");
        // SAFETY: as many segments as the nodes below `len` need were added before them, and each has
        // room for `SEGMENT` nodes.
        unsafe { self.segments.get_unchecked(number / SEGMENT).add(number % SEGMENT) }
    }

    /// Memory for the next `SEGMENT` nodes.
    #[cold]
    fn next_segment(&mut self) -> NonNull<T> {
        let Some(behind) = self.segments.len().checked_sub(Self::BOXED) else {
            return NonNull::from(Box::leak(Box::<[T]>::new_uninit_slice(SEGMENT))).cast();
        };
        let at = behind % Self::IN_CHUNK;
        if at == 0 {
            self.chunks.push(self.pool.take(true));
        }
        let chunk: NonNull<T> = self.chunks[behind / Self::IN_CHUNK].start().cast();
        // SAFETY: a chunk has room for `IN_CHUNK` segments, is aligned for them, and outlives them.
        unsafe { chunk.add(at * SEGMENT) }
    }
}

impl<T: Copy> Drop for Slab<T> {
    fn drop(&mut self) {
        for segment in self.segments.drain(..).take(Self::BOXED) {
            let segment = segment.cast::<MaybeUninit<T>>();
            // SAFETY: these were leaked from boxes of so many nodes, which nobody uses any more.
            drop(unsafe {
                Box::from_raw(NonNull::slice_from_raw_parts(segment, SEGMENT).as_ptr())
            });
        }
        self.chunks.drain(..).for_each(|chunk| self.pool.give(chunk));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_keep_their_numbers_and_chunks_go_back() {
        type Node = [u64; 4096];
        // Two segments in the allocator's memory, then two chunks with the first in the second.
        let nodes = if CHUNK_BYTES < 1 << 20 { 200 } else { SEGMENT * 3 + 1 };
        let pool = Arc::new(ChunkPool::new(4 * CHUNK_BYTES));
        let mut slab: Slab<Node> = Slab::new(pool.clone());
        for i in 0..nodes {
            assert_eq!(slab.push([i as u64; 4096]) as usize, i);
        }
        slab.at_mut(70)[1] = 1 << 40;
        let first = std::ptr::from_ref(slab.at(0));
        assert_eq!(slab.push([0; 4096]) as usize, nodes);
        assert_eq!(std::ptr::from_ref(slab.at(0)), first);
        for i in 0..nodes {
            let second = if i == 70 { 1 << 40 } else { i as u64 };
            assert_eq!(slab.at(i as u32)[..3], [i as u64, second, i as u64]);
        }
        let chunks = slab.chunks.len();
        assert_eq!(chunks, if Slab::<Node>::IN_CHUNK > 0 { 2 } else { 0 });
        drop(slab);
        assert_eq!(pool.free_bytes(), chunks * CHUNK_BYTES);
    }

    #[test]
    fn segments_share_a_chunk_side_by_side() {
        #[derive(Clone, Copy)]
        #[repr(align(64))]
        struct Lines([u64; 1024]);
        type Plain = [u64; 1024];
        let pool = Arc::new(ChunkPool::new(0));
        let (mut aligned, mut plain) = (Slab::new(pool.clone()), Slab::<Plain>::new(pool));
        // Two boxed segments, a whole chunk of others where one has room for some, and more.
        let nodes = SEGMENT * (BOXED + Slab::<Plain>::IN_CHUNK.min(8) + 1) + 5;
        for i in 0..nodes {
            aligned.push(Lines([i as u64; 1024]));
            plain.push([!(i as u64); 1024]);
        }
        for i in 0..nodes {
            let (Lines(lines), words) = (aligned.at(i as u32), plain.at(i as u32));
            assert!(lines.iter().all(|&word| word == i as u64), "{i}");
            assert!(words.iter().all(|&word| word == !(i as u64)), "{i}");
            assert!(std::ptr::from_ref(lines).addr().is_multiple_of(64));
        }
    }

    #[test]
    #[should_panic(expected = "never made")]
    fn a_number_beyond_the_last_is_refused() {
        let mut slab: Slab<u64> = Slab::new(Arc::new(ChunkPool::new(0)));
        slab.push(7);
        slab.at(1);
    }
}
