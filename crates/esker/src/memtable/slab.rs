//! The nodes of a tree, by number, in segments that never move. The first segments come from the
//! allocator. The later segments, of a growing tree, come from chunks of the memtables' pool, which
//! are huge pages and already populated when needed.
//!
//! Invariants: the first `len` nodes are written, and no other node is read. A segment belongs to
//! the slab alone until the slab is dropped.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;

use super::pool::ChunkPool;
use crate::base::chunk::{CHUNK_ALIGNMENT, CHUNK_BYTES, Chunk};

/// Number of nodes in a segment.
const SEGMENT: usize = 64;
/// Number of segments from the allocator. A small tree does not justify a chunk.
const BOXED: usize = if cfg!(any(test, miri)) { 2 } else { 16 };

/// Nodes by number. Nodes are plain data, so dropping a node needs no action.
pub(super) struct Slab<T: Copy> {
    segments: Vec<NonNull<T>>,
    len: usize,
    /// Chunks that hold the segments after the first [`BOXED`] ones.
    chunks: Vec<Chunk>,
    pool: Arc<ChunkPool>,
}

// SAFETY: a slab owns its nodes as a vector does, and its memory is tied to no thread.
unsafe impl<T: Copy + Send> Send for Slab<T> {}
// SAFETY: a shared slab only lends references to its nodes.
unsafe impl<T: Copy + Sync> Sync for Slab<T> {}

impl<T: Copy> Slab<T> {
    /// Number of segments in a chunk.
    const IN_CHUNK: usize = match align_of::<T>() <= CHUNK_ALIGNMENT {
        true => CHUNK_BYTES / (SEGMENT * size_of::<T>()),
        false => 0,
    };
    /// Number of segments from the allocator: all, where a chunk is too small for one segment.
    const BOXED: usize = if Self::IN_CHUNK > 0 { BOXED } else { usize::MAX };

    /// Creates an empty slab. Chunks come from `pool` and return there.
    pub fn new(pool: Arc<ChunkPool>) -> Slab<T> {
        Slab { segments: Vec::new(), len: 0, chunks: Vec::new(), pool }
    }

    /// Returns the number of nodes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Adds a node and returns its number.
    pub fn push(&mut self, node: T) -> u32 {
        let number = self.len;
        if number.is_multiple_of(SEGMENT) {
            let segment = self.next_segment();
            self.segments.push(segment);
        }
        // SAFETY: a segment for this number exists: the previous segments are full, or this segment
        // was just added. Its memory has room for `SEGMENT` nodes and belongs to the slab alone.
        unsafe { self.segments[number / SEGMENT].add(number % SEGMENT).write(node) };
        self.len += 1;
        number as u32
    }

    /// Returns the node with this number.
    #[inline]
    pub fn at(&self, number: u32) -> &T {
        // SAFETY: the address is that of a written node, and `&self` keeps the node alive.
        unsafe { self.place(number).as_ref() }
    }

    /// Returns the node with this number for modification.
    #[inline]
    pub fn at_mut(&mut self, number: u32) -> &mut T {
        // SAFETY: as in `at`; `&mut self` guarantees exclusive access.
        unsafe { self.place(number).as_mut() }
    }

    /// Returns the address of a written node.
    #[inline]
    fn place(&self, number: u32) -> NonNull<T> {
        let number = number as usize;
        assert!(number < self.len, "the node was never allocated");
        // SAFETY: all segments for the nodes below `len` were added before the nodes, and each
        // segment has room for `SEGMENT` nodes.
        unsafe { self.segments.get_unchecked(number / SEGMENT).add(number % SEGMENT) }
    }

    /// Allocates memory for the next `SEGMENT` nodes.
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
        // SAFETY: a chunk has room for `IN_CHUNK` segments, is aligned for nodes, and outlives the
        // segments.
        unsafe { chunk.add(at * SEGMENT) }
    }
}

impl<T: Copy> Drop for Slab<T> {
    fn drop(&mut self) {
        for segment in self.segments.drain(..).take(Self::BOXED) {
            let segment = segment.cast::<MaybeUninit<T>>();
            // SAFETY: these segments were leaked from boxes of `SEGMENT` nodes, and nothing uses
            // them any more.
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
    fn nodes_keep_numbers_and_chunks_are_released() {
        type Node = [u64; 4096];
        // Two segments from the allocator, then two chunks, the second with one segment.
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
    fn segments_share_a_chunk() {
        #[derive(Clone, Copy)]
        #[repr(align(64))]
        struct Lines([u64; 1024]);
        type Plain = [u64; 1024];
        let pool = Arc::new(ChunkPool::new(0));
        let (mut aligned, mut plain) = (Slab::new(pool.clone()), Slab::<Plain>::new(pool));
        // Two boxed segments, a whole chunk of segments if a chunk holds any, and a few more.
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
    #[should_panic(expected = "never allocated")]
    fn number_beyond_last_panics() {
        let mut slab: Slab<u64> = Slab::new(Arc::new(ChunkPool::new(0)));
        slab.push(7);
        slab.at(1);
    }
}
