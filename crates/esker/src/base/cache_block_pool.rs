//! The memory pool for cache blocks and for the arrays of open tables: allocations of any size
//! within chunks of 2 MiB.
//!
//! Reads of this memory are random, and each read touches another page. With pages of 4 KiB a read
//! waits for the translation of its address as long as for the bytes. A chunk is one huge page. The
//! first chunk need not be one; see [`CacheBlockPool::starting_small`].
//!
//! A chunk is divided into units of 256 bytes, with one bit per unit in use. An allocation takes
//! the first sufficient space in this order:
//! 1. one of the most recently freed spaces;
//! 2. the space after the previous allocation;
//! 3. a space in one of a few chunks, or in any chunk if the chunks have much free space;
//! 4. a fresh chunk.
//!
//! Invariants: the bit of a unit is set exactly while an allocation covers the unit. An empty chunk
//! is freed if more chunks exist than the pool is to keep.
#![allow(unsafe_code)]

use std::fmt;
use std::ptr::NonNull;

use super::chunk::{CHUNK_ALIGNMENT, CHUNK_BYTES, Chunk};
use super::sync::Mutex;

/// Size of a unit of allocation, in bytes.
pub const UNIT_BYTES: usize = 256;
/// Alignment of an allocation, in bytes.
pub const ALLOCATION_ALIGN_BYTES: usize =
    if CHUNK_ALIGNMENT < UNIT_BYTES { CHUNK_ALIGNMENT } else { UNIT_BYTES };
/// Maximum size of a cache block in a pool, in bytes. Other allocations may be as large as a chunk.
pub const ALLOCATION_BYTES_MAX: usize = CHUNK_BYTES / 8;

const UNITS: usize = CHUNK_BYTES / UNIT_BYTES;
const WORD_BITS: usize = 64;
const WORDS: usize = UNITS.div_ceil(WORD_BITS);
/// Maximum number of freed spaces that the pool remembers.
const HOLES_MAX: usize = 256;
/// Maximum number of freed spaces tried for an allocation.
const HOLES_TRIED: usize = 4;
/// Maximum number of chunks searched for an allocation, unless the pool is fragmented.
const CHUNKS_TRIED: usize = 4;
/// The pool counts as fragmented if more than one in this number of units is free. An allocation
/// then searches all chunks.
const FRAGMENTED_SHARE: usize = 8;

/// An allocation from a pool. It must be freed once, with [`CacheBlockPool::free`].
#[derive(Debug)]
pub struct Allocation {
    /// The start address, a multiple of [`ALLOCATION_ALIGN_BYTES`].
    pub start: NonNull<u8>,
    /// The number of its chunk.
    pub chunk: u32,
    /// Size in units of [`UNIT_BYTES`].
    pub granules: u32,
}

/// A memory pool. Many threads may use it at the same time.
#[derive(Default)]
pub struct CacheBlockPool(Mutex<State>);

#[derive(Default)]
struct State {
    /// The chunks with allocations, by number; `None` for a number that is not in use.
    parts: Vec<Option<UsedChunk>>,
    /// Recently freed spaces: the chunk number and the unit within the chunk.
    holes: Vec<(u32, u32)>,
    /// The end of the last allocation outside the freed spaces: the chunk number and the unit.
    next: (usize, usize),
    /// Chunks without allocations.
    spare: Vec<Chunk>,
    used_granules: usize,
    /// Number of chunks with allocations.
    chunks: usize,
    /// Number of chunks to keep in total.
    kept: usize,
    /// Whether the first chunk is allocated without a huge page.
    starts_small: bool,
}

/// A chunk with allocations.
struct UsedChunk {
    chunk: Chunk,
    used: Box<[u64]>,
    free: usize,
}

impl UsedChunk {
    fn new(chunk: Chunk) -> UsedChunk {
        UsedChunk { chunk, used: vec![0; WORDS].into(), free: UNITS }
    }

    fn is_used(&self, at: usize) -> bool {
        self.used[at / WORD_BITS] >> (at % WORD_BITS) & 1 == 1
    }

    /// Sets or clears the bits of an allocation.
    fn mark(&mut self, at: usize, count: usize, used: bool) {
        for unit in at..at + count {
            debug_assert_ne!(
                self.is_used(unit),
                used,
                "an allocation unit was allocated or freed twice"
            );
            self.used[unit / WORD_BITS] ^= 1 << (unit % WORD_BITS);
        }
        self.free = if used { self.free - count } else { self.free + count };
    }

    /// Returns the number of consecutive free units from `at`, at most `most`.
    fn run(&self, at: usize, most: usize) -> usize {
        let mut run = 0;
        while run < most && at + run < UNITS {
            let place = at + run;
            let rest = self.used[place / WORD_BITS] >> (place % WORD_BITS);
            let left = (WORD_BITS - place % WORD_BITS).min(UNITS - place);
            let free = (rest.trailing_zeros() as usize).min(left);
            run += free;
            if free < left {
                break;
            }
        }
        run.min(most)
    }

    /// Returns the first free space of `count` units at or after `from`.
    fn place(&self, from: usize, count: usize) -> Option<usize> {
        let mut at = from;
        while at + count <= UNITS {
            let run = self.run(at, count);
            if run == count {
                return Some(at);
            }
            at += run;
            // Skip the units in use.
            while at < UNITS && self.is_used(at) {
                let rest = self.used[at / WORD_BITS] >> (at % WORD_BITS);
                at += (rest.trailing_ones() as usize).min(WORD_BITS - at % WORD_BITS);
            }
        }
        None
    }

    /// Returns a space of `count` units within the free space around `at`, if sufficient.
    fn place_around(&self, at: usize, count: usize) -> Option<usize> {
        if self.is_used(at) {
            return None;
        }
        let mut start = at;
        while start > 0 && at - start < count && !self.is_used(start - 1) {
            start -= 1;
        }
        (self.run(start, count) == count).then_some(start)
    }
}

impl State {
    /// Returns the size of all chunks, in bytes, including chunks without allocations.
    fn memory_bytes(&self) -> usize {
        (self.chunks + self.spare.len()) * CHUNK_BYTES
    }

    /// Removes and returns the empty chunks beyond the number to keep.
    fn take_excess(&mut self) -> Vec<Chunk> {
        let left = self.kept.saturating_sub(self.chunks).min(self.spare.len());
        self.spare.split_off(left)
    }

    /// Returns whether the pool is so fragmented that searching all chunks pays off.
    fn is_fragmented(&self) -> bool {
        let all = self.chunks * UNITS;
        all - self.used_granules > all / FRAGMENTED_SHARE
    }

    /// Finds a space of `count` units. Returns the chunk number and the first unit. Adds a chunk if
    /// necessary.
    fn find(&mut self, count: usize) -> (usize, usize) {
        for _ in 0..HOLES_TRIED {
            let Some((chunk, at)) = self.holes.pop() else { break };
            let part = self.parts.get(chunk as usize).and_then(Option::as_ref);
            if let Some(place) = part.and_then(|part| part.place_around(at as usize, count)) {
                return (chunk as usize, place);
            }
        }
        let (last, from) = self.next;
        let tried = if self.is_fragmented() { usize::MAX } else { CHUNKS_TRIED };
        for step in 0..self.parts.len().min(tried) {
            let number = (last + step) % self.parts.len();
            let Some(part) = self.parts[number].as_ref().filter(|part| part.free >= count) else {
                continue;
            };
            if let Some(place) = part.place(if step == 0 { from } else { 0 }, count) {
                self.next = (number, place + count);
                return (number, place);
            }
        }
        let large = self.chunks > 0 || !self.starts_small;
        let part = UsedChunk::new(self.spare.pop().unwrap_or_else(|| Chunk::fresh(large)));
        self.chunks += 1;
        let free = self.parts.iter().position(Option::is_none);
        let number = free.unwrap_or(self.parts.len());
        if number == self.parts.len() {
            self.parts.push(None);
        }
        self.parts[number] = Some(part);
        self.next = (number, count);
        (number, 0)
    }
}

impl CacheBlockPool {
    /// Creates a pool whose first chunk is allocated without a huge page. The kernel would clear
    /// all of a huge page at the first touch. This suits pools that may stay as small as a block or
    /// two.
    pub fn starting_small() -> CacheBlockPool {
        CacheBlockPool(Mutex::new(State { starts_small: true, ..State::default() }))
    }

    /// Allocates at least `bytes` bytes.
    ///
    /// # Panics
    /// Panics if `bytes` exceeds [`CHUNK_BYTES`].
    pub fn allocate(&self, bytes: usize) -> Allocation {
        assert!(
            bytes <= CHUNK_BYTES,
            "an allocation of {bytes} bytes exceeds the pool's chunk size"
        );
        let count = bytes.div_ceil(UNIT_BYTES).max(1);
        let mut state = self.0.lock();
        let (chunk, at) = state.find(count);
        state.used_granules += count;
        let part = state.parts[chunk].as_mut().expect("the chunk with free units exists");
        part.mark(at, count, true);
        // SAFETY: all units of the allocation lie within the chunk.
        let start = unsafe { part.chunk.start().add(at * UNIT_BYTES) };
        Allocation { start, chunk: chunk as u32, granules: count as u32 }
    }

    /// Frees an allocation.
    ///
    /// # Safety
    /// `piece` must come from this pool, must not have been freed, and its memory must not be in
    /// use.
    pub unsafe fn free(&self, piece: &Allocation) {
        let mut state = self.0.lock();
        let (chunk, count) = (piece.chunk as usize, piece.granules as usize);
        state.used_granules -= count;
        let part = state.parts[chunk].as_mut().expect("the chunk of an allocation exists");
        let at = (piece.start.addr().get() - part.chunk.start().addr().get()) / UNIT_BYTES;
        part.mark(at, count, false);
        if part.free < UNITS {
            if state.holes.len() < HOLES_MAX {
                state.holes.push((piece.chunk, at as u32));
            }
            return;
        }
        if let Some(part) = state.parts[chunk].take() {
            state.chunks -= 1;
            state.spare.push(part.chunk);
            let too_many = state.take_excess();
            drop(state);
            drop(too_many);
        }
    }

    /// Sets the memory to keep, in bytes. The pool keeps that many chunks even if they are empty,
    /// and frees empty chunks beyond that.
    pub fn set_capacity(&self, bytes: usize) {
        let mut state = self.0.lock();
        state.kept = bytes.div_ceil(CHUNK_BYTES);
        let too_many = state.take_excess();
        drop(state);
        drop(too_many);
    }

    /// Returns the memory of all chunks, in bytes, whether allocated or free.
    pub fn memory_bytes(&self) -> usize {
        self.0.lock().memory_bytes()
    }

    /// Returns the free memory within the chunks, in bytes.
    pub fn free_bytes(&self) -> usize {
        let state = self.0.lock();
        state.memory_bytes() - state.used_granules * UNIT_BYTES
    }

    /// Returns the allocated memory, in bytes.
    pub fn used_bytes(&self) -> usize {
        self.0.lock().used_granules * UNIT_BYTES
    }
}

impl fmt::Debug for CacheBlockPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FramePool({} of {} B)", self.used_bytes(), self.memory_bytes())
    }
}

#[cfg(all(test, not(esker_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn allocations_never_overlap_and_all_memory_is_freed() {
        let rounds = if cfg!(miri) { 30 } else { 60_000 };
        let pool = CacheBlockPool::default();
        let mut held: Vec<(Allocation, u8)> = Vec::new();
        let mut seed = 5u64;
        let mut random = move |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as usize % below
        };
        let bytes_of = |piece: &Allocation| piece.granules as usize * UNIT_BYTES;
        let mut most = 0;
        for round in 0..rounds {
            let full = if round / 1_000 % 2 == 0 { 1_200 } else { 60 };
            if held.len() < full {
                let bytes = if random(50) == 0 {
                    random(ALLOCATION_BYTES_MAX)
                } else {
                    3_900 + random(600)
                };
                let piece = pool.allocate(bytes);
                assert!(bytes_of(&piece) >= bytes && bytes_of(&piece) < bytes + 2 * UNIT_BYTES);
                // SAFETY: this test owns the allocation, which has the stated size.
                unsafe { piece.start.write_bytes(round as u8, bytes_of(&piece)) };
                held.push((piece, round as u8));
            }
            while held.len() > full || (!held.is_empty() && random(3) == 0) {
                let (piece, mark) = held.swap_remove(random(held.len()));
                // SAFETY: as above, and all of it was written.
                let bytes =
                    unsafe { std::slice::from_raw_parts(piece.start.as_ptr(), bytes_of(&piece)) };
                assert!(
                    bytes.iter().all(|byte| *byte == mark),
                    "the bytes of an allocation changed"
                );
                // SAFETY: the allocation is freed once, and `bytes` is not used again.
                unsafe { pool.free(&piece) };
            }
            assert_eq!(pool.used_bytes(), held.iter().map(|(p, _)| bytes_of(p)).sum::<usize>());
            most = most.max(pool.memory_bytes());
        }
        for (piece, _) in held.drain(..) {
            // SAFETY: as above.
            unsafe { pool.free(&piece) };
        }
        assert_eq!((pool.used_bytes(), pool.memory_bytes()), (0, 0));
        if !cfg!(miri) {
            assert!(most < 16 << 20, "{most} bytes for at most 1,200 allocations of about 6 KiB");
        }
    }

    #[test]
    fn free_gaps_are_used_before_memory_grows() {
        let pool = CacheBlockPool::default();
        let per_chunk = UNITS / 17;
        let take = |count: usize| -> Vec<Allocation> {
            (0..count).map(|_| pool.allocate(17 * UNIT_BYTES)).collect()
        };
        // A quarter of the chunks must be at least one chunk.
        let chunks = if cfg!(miri) { 4 } else { 12 };
        let held = take(chunks * per_chunk);
        let (full, mut left) = (pool.memory_bytes(), Vec::new());
        // Every second allocation of the chunks in the middle is freed.
        for (n, piece) in held.into_iter().enumerate() {
            let middle = (chunks / 3..2 * chunks / 3 + 1).contains(&(n / per_chunk));
            if middle && n % 2 == 0 {
                // SAFETY: the allocation came from the pool and is freed once.
                unsafe { pool.free(&piece) };
            } else {
                left.push(piece);
            }
        }
        left.extend(take(chunks * per_chunk - left.len()));
        assert!(pool.memory_bytes() <= full + full / 4, "{pool:?}");
        for piece in &left {
            // SAFETY: as above.
            unsafe { pool.free(piece) };
        }
    }

    #[test]
    fn freed_memory_is_reused_before_new_memory() {
        let pool = CacheBlockPool::default();
        let per_chunk = UNITS / 17;
        let mut held: Vec<Allocation> =
            (0..3 * per_chunk).map(|_| pool.allocate(17 * UNIT_BYTES)).collect();
        let full = pool.memory_bytes();
        assert_eq!(full, 3 * CHUNK_BYTES);
        for round in 0..if cfg!(miri) { 20 } else { 2_000 } {
            let old = held.swap_remove(round * 31 % held.len());
            // SAFETY: the allocation came from the pool and is freed once.
            unsafe { pool.free(&old) };
            held.push(pool.allocate(17 * UNIT_BYTES));
        }
        assert_eq!(pool.memory_bytes(), full);
        pool.set_capacity(2 * CHUNK_BYTES + 1);
        for piece in &held {
            // SAFETY: as above.
            unsafe { pool.free(piece) };
        }
        assert_eq!((pool.used_bytes(), pool.memory_bytes()), (0, 3 * CHUNK_BYTES));
        pool.set_capacity(CHUNK_BYTES);
        assert_eq!(pool.memory_bytes(), CHUNK_BYTES);
    }
}
