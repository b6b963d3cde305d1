//! Memory for cached blocks, and for what open tables keep: pieces of any length, cut from chunks of
//! 2 MiB.
//!
//! Both are read at random, and each read meets another page: with pages of 4 KiB it waits for the
//! translation of its address as long as for the bytes. A chunk is one large page; the first need not
//! be, see [`FramePool::starting_small`].
//!
//! A chunk is cut into granules of 256 bytes, with a bit for each that is in use. A piece goes to the
//! first place that is long enough of those given back last, else behind the piece before, else to a
//! place in one of a few chunks, or in any if much of them is free, else to a fresh chunk. What stays
//! true: a granule's bit is set exactly while a piece covers it; a chunk without pieces is freed if
//! there are more chunks than are to be kept.
#![allow(unsafe_code)]

use std::fmt;
use std::ptr::NonNull;

use super::chunk::{CHUNK_ALIGNMENT, CHUNK_BYTES, Chunk};
use super::sync::Mutex;

/// What pieces are cut in.
pub const GRANULE_BYTES: usize = 256;
/// Where a piece begins is a multiple of this.
pub const PIECE_ALIGN_BYTES: usize =
    if CHUNK_ALIGNMENT < GRANULE_BYTES { CHUNK_ALIGNMENT } else { GRANULE_BYTES };
/// Longer frames are not for a pool; other pieces may be as long as a chunk.
pub const FRAME_BYTES_MAX: usize = CHUNK_BYTES / 8;

const GRANULES: usize = CHUNK_BYTES / GRANULE_BYTES;
const WORD_BITS: usize = 64;
const WORDS: usize = GRANULES.div_ceil(WORD_BITS);
/// So many places given back are remembered.
const HOLES_MAX: usize = 256;
/// So many of them are tried for a piece,
const HOLES_TRIED: usize = 4;
/// and so many chunks are searched,
const CHUNKS_TRIED: usize = 4;
/// or all of them, if more than one granule of so many is free.
const RAGGED_SHARE: usize = 8;

/// A piece of a pool's memory. It is given back with [`FramePool::give`], once.
#[derive(Debug)]
pub struct Piece {
    /// Where it begins; a multiple of [`PIECE_ALIGN_BYTES`].
    pub start: NonNull<u8>,
    /// The number of its chunk.
    pub chunk: u32,
    /// How many granules it covers.
    pub granules: u32,
}

/// The pool. It may be used from many threads.
#[derive(Default)]
pub struct FramePool(Mutex<State>);

#[derive(Default)]
struct State {
    /// By number; `None` where there is none now.
    parts: Vec<Option<Part>>,
    /// Where pieces were given back.
    holes: Vec<(u32, u32)>,
    /// Where the last piece from a chunk's free end ends.
    next: (usize, usize),
    /// Chunks without pieces.
    spare: Vec<Chunk>,
    used_granules: usize,
    /// Chunks with pieces.
    chunks: usize,
    /// So many in all are kept.
    kept: usize,
    /// Whether the first chunk is no large page.
    starts_small: bool,
}

/// A chunk that is in use.
struct Part {
    chunk: Chunk,
    used: Box<[u64]>,
    free: usize,
}

impl Part {
    fn new(chunk: Chunk) -> Part {
        Part { chunk, used: vec![0; WORDS].into(), free: GRANULES }
    }

    fn is_used(&self, at: usize) -> bool {
        self.used[at / WORD_BITS] >> (at % WORD_BITS) & 1 == 1
    }

    /// Sets or clears the bits of a piece.
    fn mark(&mut self, at: usize, count: usize, used: bool) {
        for granule in at..at + count {
            debug_assert_ne!(self.is_used(granule), used, "a granule taken or given twice");
            self.used[granule / WORD_BITS] ^= 1 << (granule % WORD_BITS);
        }
        self.free = if used { self.free - count } else { self.free + count };
    }

    /// How many granules from `at` are free, up to `most`.
    fn run(&self, at: usize, most: usize) -> usize {
        let mut run = 0;
        while run < most && at + run < GRANULES {
            let place = at + run;
            let rest = self.used[place / WORD_BITS] >> (place % WORD_BITS);
            let left = (WORD_BITS - place % WORD_BITS).min(GRANULES - place);
            let free = (rest.trailing_zeros() as usize).min(left);
            run += free;
            if free < left {
                break;
            }
        }
        run.min(most)
    }

    /// The first place for `count` granules at or after `from`.
    fn place(&self, from: usize, count: usize) -> Option<usize> {
        let mut at = from;
        while at + count <= GRANULES {
            let run = self.run(at, count);
            if run == count {
                return Some(at);
            }
            at += run;
            // Past what is in use.
            while at < GRANULES && self.is_used(at) {
                let rest = self.used[at / WORD_BITS] >> (at % WORD_BITS);
                at += (rest.trailing_ones() as usize).min(WORD_BITS - at % WORD_BITS);
            }
        }
        None
    }

    /// A place for `count` granules in the hole around `at`.
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
    /// Bytes of its chunks, those to spare with them.
    fn memory_bytes(&self) -> usize {
        (self.chunks + self.spare.len()) * CHUNK_BYTES
    }

    /// Takes out the chunks without pieces that are not to be kept.
    fn too_many(&mut self) -> Vec<Chunk> {
        let left = self.kept.saturating_sub(self.chunks).min(self.spare.len());
        self.spare.split_off(left)
    }

    /// Whether so much lies free between pieces that it pays to look for it everywhere.
    fn is_ragged(&self) -> bool {
        let all = self.chunks * GRANULES;
        all - self.used_granules > all / RAGGED_SHARE
    }

    /// A place for `count` granules: the number of its chunk, and where in it.
    fn find(&mut self, count: usize) -> (usize, usize) {
        for _ in 0..HOLES_TRIED {
            let Some((chunk, at)) = self.holes.pop() else { break };
            let part = self.parts.get(chunk as usize).and_then(Option::as_ref);
            if let Some(place) = part.and_then(|part| part.place_around(at as usize, count)) {
                return (chunk as usize, place);
            }
        }
        let (last, from) = self.next;
        let tried = if self.is_ragged() { usize::MAX } else { CHUNKS_TRIED };
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
        let part = Part::new(self.spare.pop().unwrap_or_else(|| Chunk::fresh(large)));
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

impl FramePool {
    /// A pool whose first chunk is not asked for as a large page, all of which would be cleared at the
    /// first touch: for what may stay as small as a block or two.
    pub fn starting_small() -> FramePool {
        FramePool(Mutex::new(State { starts_small: true, ..State::default() }))
    }

    /// A piece of at least `bytes`, at most [`CHUNK_BYTES`].
    pub fn take(&self, bytes: usize) -> Piece {
        assert!(bytes <= CHUNK_BYTES, "a piece of {bytes} bytes is not for a pool");
        let count = bytes.div_ceil(GRANULE_BYTES).max(1);
        let mut state = self.0.lock();
        let (chunk, at) = state.find(count);
        state.used_granules += count;
        let part = state.parts[chunk].as_mut().expect("a place is in a chunk that is there");
        part.mark(at, count, true);
        // SAFETY: `at` and the granules behind it lie within the chunk.
        let start = unsafe { part.chunk.start().add(at * GRANULE_BYTES) };
        Piece { start, chunk: chunk as u32, granules: count as u32 }
    }

    /// Takes a piece back.
    ///
    /// # Safety
    /// `piece` came from this pool, was not given back before, and nobody uses its memory any more.
    pub unsafe fn give(&self, piece: &Piece) {
        let mut state = self.0.lock();
        let (chunk, count) = (piece.chunk as usize, piece.granules as usize);
        state.used_granules -= count;
        let part = state.parts[chunk].as_mut().expect("a piece's chunk is there");
        let at = (piece.start.addr().get() - part.chunk.start().addr().get()) / GRANULE_BYTES;
        part.mark(at, count, false);
        if part.free < GRANULES {
            if state.holes.len() < HOLES_MAX {
                state.holes.push((piece.chunk, at as u32));
            }
            return;
        }
        if let Some(part) = state.parts[chunk].take() {
            state.chunks -= 1;
            state.spare.push(part.chunk);
            let too_many = state.too_many();
            drop(state);
            drop(too_many);
        }
    }

    /// Keeps chunks for `bytes`, whether they have pieces or not.
    pub fn set_capacity(&self, bytes: usize) {
        let mut state = self.0.lock();
        state.kept = bytes.div_ceil(CHUNK_BYTES);
        let too_many = state.too_many();
        drop(state);
        drop(too_many);
    }

    /// Bytes of memory held, in pieces and between them.
    pub fn memory_bytes(&self) -> usize {
        self.0.lock().memory_bytes()
    }

    /// Bytes of memory held in no piece.
    pub fn free_bytes(&self) -> usize {
        let state = self.0.lock();
        state.memory_bytes() - state.used_granules * GRANULE_BYTES
    }

    /// Bytes of the pieces.
    pub fn used_bytes(&self) -> usize {
        self.0.lock().used_granules * GRANULE_BYTES
    }
}

impl fmt::Debug for FramePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FramePool({} of {} B)", self.used_bytes(), self.memory_bytes())
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn pieces_never_overlap_and_all_memory_comes_back() {
        let rounds = if cfg!(miri) { 30 } else { 60_000 };
        let pool = FramePool::default();
        let mut held: Vec<(Piece, u8)> = Vec::new();
        let mut seed = 5u64;
        let mut random = move |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as usize % below
        };
        let bytes_of = |piece: &Piece| piece.granules as usize * GRANULE_BYTES;
        let mut most = 0;
        for round in 0..rounds {
            let full = if round / 1_000 % 2 == 0 { 1_200 } else { 60 };
            if held.len() < full {
                let bytes =
                    if random(50) == 0 { random(FRAME_BYTES_MAX) } else { 3_900 + random(600) };
                let piece = pool.take(bytes);
                assert!(bytes_of(&piece) >= bytes && bytes_of(&piece) < bytes + 2 * GRANULE_BYTES);
                // SAFETY: the piece is this test's, and as long as it says.
                unsafe { piece.start.write_bytes(round as u8, bytes_of(&piece)) };
                held.push((piece, round as u8));
            }
            while held.len() > full || (!held.is_empty() && random(3) == 0) {
                let (piece, mark) = held.swap_remove(random(held.len()));
                // SAFETY: as above; all of it was written.
                let bytes =
                    unsafe { std::slice::from_raw_parts(piece.start.as_ptr(), bytes_of(&piece)) };
                assert!(bytes.iter().all(|byte| *byte == mark), "somebody wrote into it");
                // SAFETY: it is given back once, and `bytes` is not used again.
                unsafe { pool.give(&piece) };
            }
            assert_eq!(pool.used_bytes(), held.iter().map(|(p, _)| bytes_of(p)).sum::<usize>());
            most = most.max(pool.memory_bytes());
        }
        for (piece, _) in held.drain(..) {
            // SAFETY: as above.
            unsafe { pool.give(&piece) };
        }
        assert_eq!((pool.used_bytes(), pool.memory_bytes()), (0, 0));
        if !cfg!(miri) {
            assert!(most < 16 << 20, "{most} bytes for at most 1,200 pieces of about 6 KiB");
        }
    }

    #[test]
    fn room_between_pieces_anywhere_is_used_before_memory_grows() {
        let pool = FramePool::default();
        let per_chunk = GRANULES / 17;
        let take = |count: usize| -> Vec<Piece> {
            (0..count).map(|_| pool.take(17 * GRANULE_BYTES)).collect()
        };
        // A quarter of them is at least one.
        let chunks = if cfg!(miri) { 4 } else { 12 };
        let held = take(chunks * per_chunk);
        let (full, mut left) = (pool.memory_bytes(), Vec::new());
        // Every second piece of the chunks in the middle goes.
        for (n, piece) in held.into_iter().enumerate() {
            let middle = (chunks / 3..2 * chunks / 3 + 1).contains(&(n / per_chunk));
            if middle && n % 2 == 0 {
                // SAFETY: it came from the pool and is given back once.
                unsafe { pool.give(&piece) };
            } else {
                left.push(piece);
            }
        }
        left.extend(take(chunks * per_chunk - left.len()));
        assert!(pool.memory_bytes() <= full + full / 4, "{pool:?}");
        for piece in &left {
            // SAFETY: as above.
            unsafe { pool.give(piece) };
        }
    }

    #[test]
    fn what_is_given_back_is_used_again_before_fresh_memory_is() {
        let pool = FramePool::default();
        let per_chunk = GRANULES / 17;
        let mut held: Vec<Piece> =
            (0..3 * per_chunk).map(|_| pool.take(17 * GRANULE_BYTES)).collect();
        let full = pool.memory_bytes();
        assert_eq!(full, 3 * CHUNK_BYTES);
        for round in 0..if cfg!(miri) { 20 } else { 2_000 } {
            let old = held.swap_remove(round * 31 % held.len());
            // SAFETY: it came from the pool and is given back once.
            unsafe { pool.give(&old) };
            held.push(pool.take(17 * GRANULE_BYTES));
        }
        assert_eq!(pool.memory_bytes(), full);
        pool.set_capacity(2 * CHUNK_BYTES + 1);
        for piece in &held {
            // SAFETY: as above.
            unsafe { pool.give(piece) };
        }
        assert_eq!((pool.used_bytes(), pool.memory_bytes()), (0, 3 * CHUNK_BYTES));
        pool.set_capacity(CHUNK_BYTES);
        assert_eq!(pool.memory_bytes(), CHUNK_BYTES);
    }
}
