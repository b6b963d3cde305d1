//! The memory of memtables: chunks of dropped memtables, kept for the next one; a few chunks
//! prepared in advance, whose pages are populated before a writer needs them; and the words of
//! filters.
//!
//! The first touch of a chunk's pages clears 2 MiB. This takes 0.2 ms on a fast machine, and 7 ms
//! in a virtual machine whose host has to find the memory first. A thread of the store does it. One
//! chunk in advance is not enough. A memtable takes two chunks at once when its entries and its
//! tree's nodes fill a chunk at the same time, and the thread has to share a processor with the
//! flush.
//!
//! Invariants: a chunk is in the pool, or in one arena or slab. A caller that finds the pool empty
//! clears its chunk itself.

use std::fmt;
use std::sync::OnceLock;

use crate::base::chunk::{CHUNK_BYTES, Chunk};
use crate::base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::base::sync::{Condvar, Mutex};

/// Maximum number of chunks prepared in advance. A capacity of four times as many chunks is needed
/// to reach it.
const AHEAD_MAX: usize = 3;

/// State of the preparation of chunks.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum PrepareState {
    /// No thread prepares chunks. Callers make their own chunks, or have a thread started.
    #[default]
    Unserved,
    /// A thread waits for a request.
    Idle,
    /// The thread was asked for chunks and is preparing them.
    Wanted,
    /// The thread has ended or is about to end.
    Ended,
}

#[derive(Debug, Default)]
struct Free {
    chunks: Vec<Chunk>,
    /// Words for one filter, all zero, and the number of words of the largest filter so far.
    words: Box<[AtomicU64]>,
    words_wanted: usize,
    ahead: PrepareState,
}

/// Chunks of dropped memtables, kept for the next one, which avoids new page faults. Further chunks
/// are prepared in advance when all are in use.
#[derive(Debug)]
pub struct ChunkPool {
    free: Mutex<Free>,
    asked: Condvar,
    capacity: AtomicUsize,
    /// Starts a thread that calls [`ChunkPool::serve`]; returns `false` on failure.
    start: OnceLock<Start>,
}

struct Start(Box<dyn Fn() -> bool + Send + Sync>);

impl fmt::Debug for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Start")
    }
}

impl ChunkPool {
    /// Creates a pool that keeps at most `capacity_bytes` of returned memory, rounded down to whole
    /// chunks of 2 MiB.
    pub fn new(capacity_bytes: usize) -> ChunkPool {
        ChunkPool {
            free: Mutex::default(),
            asked: Condvar::new(),
            capacity: AtomicUsize::new(capacity_bytes / CHUNK_BYTES),
            start: OnceLock::new(),
        }
    }

    /// Changes the capacity in bytes. Excess memory is freed at once.
    pub fn set_capacity(&self, capacity_bytes: usize) {
        let capacity = capacity_bytes / CHUNK_BYTES;
        self.capacity.store(capacity, Ordering::Relaxed);
        let mut free = self.free.lock();
        free.chunks.truncate(capacity);
        free.chunks.shrink_to_fit();
        free.words = Box::default();
        free.words_wanted = 0;
    }

    /// Returns the free memory in the pool, in bytes.
    pub fn free_bytes(&self) -> usize {
        let free = self.free.lock();
        free.chunks.len() * CHUNK_BYTES + size_of_val(&*free.words)
    }

    /// Returns a chunk. A new chunk is backed by a huge page if `large` states that all of it will
    /// be used.
    pub(super) fn take(&self, large: bool) -> Chunk {
        let mut free = self.free.lock();
        let kept = free.chunks.pop();
        let before = free.ahead;
        let ask = large && free.chunks.len() < self.prepared_max() && self.can_request(before);
        if ask {
            free.ahead = PrepareState::Wanted;
        }
        drop(free);
        if ask {
            self.request(before);
        }
        kept.unwrap_or_else(|| Chunk::fresh(large))
    }

    /// Returns the maximum memory, in bytes, of `memtables` memtables of at most `each_bytes` and
    /// of the pool between them. Entries, leaves and inner nodes are in separate chunks, the last
    /// of which are not full, and some chunks are prepared in advance.
    pub fn most_bytes(memtables: u64, each_bytes: u64) -> u64 {
        let chunk = CHUNK_BYTES as u64;
        let chunks = each_bytes / chunk;
        // The nodes of a small tree are in no chunk, and a first chunk takes memory only as it is
        // used.
        let in_part = match chunks {
            0 => 0,
            1..4 => 1,
            _ => 2,
        };
        let ahead = (chunks / 4).clamp(chunks.min(1), AHEAD_MAX as u64);
        let each = each_bytes.saturating_add(in_part * chunk);
        memtables.saturating_mul(each).saturating_add(ahead * chunk)
    }

    /// Returns whether a thread waits for a request, or can be started.
    fn can_request(&self, ahead: PrepareState) -> bool {
        ahead == PrepareState::Idle
            || (ahead == PrepareState::Unserved && self.start.get().is_some())
    }

    /// Wakes the thread, or has it started where no thread existed `before`.
    #[cold]
    fn request(&self, before: PrepareState) {
        match self.start.get().filter(|_| before == PrepareState::Unserved) {
            None => self.asked.notify_all(),
            Some(start) => {
                if !(start.0)() {
                    let mut free = self.free.lock();
                    if free.ahead == PrepareState::Wanted {
                        free.ahead = PrepareState::Unserved;
                    }
                }
            }
        }
    }

    /// Sets `start`, which starts the thread when the first chunk is to be prepared in advance.
    pub fn set_starter(&self, start: Box<dyn Fn() -> bool + Send + Sync>) {
        let _ = self.start.set(Start(start));
    }

    /// Returns the number of chunks to prepare in advance; 0 if the capacity is 0.
    fn prepared_max(&self) -> usize {
        let capacity = self.capacity.load(Ordering::Relaxed);
        (capacity / 4).clamp(capacity.min(1), AHEAD_MAX)
    }

    pub(super) fn give(&self, chunk: Chunk) {
        let mut free = self.free.lock();
        if free.chunks.len() < self.capacity.load(Ordering::Relaxed) {
            free.chunks.push(chunk);
        }
    }

    /// Returns `words` words for a filter, all zero.
    pub(super) fn take_words(&self, words: usize) -> Box<[AtomicU64]> {
        let kept = {
            let mut free = self.free.lock();
            free.words_wanted = free.words_wanted.max(words);
            if free.words.len() == words { std::mem::take(&mut free.words) } else { Box::default() }
        };
        if kept.len() == words { kept } else { zeros(words) }
    }

    /// Keeps the words for the next filter, if the largest filter so far has the same number.
    pub(super) fn return_words(&self, mut words: Box<[AtomicU64]>) {
        if self.capacity.load(Ordering::Relaxed) > 0 && !words.is_empty() {
            words.iter_mut().for_each(|word| *word.get_mut() = 0);
            self.keep_words(words);
        }
    }

    fn keep_words(&self, mut words: Box<[AtomicU64]>) {
        let mut free = self.free.lock();
        if words.len() == free.words_wanted && free.ahead != PrepareState::Ended {
            std::mem::swap(&mut free.words, &mut words);
        }
        // Discarded words are freed without the lock.
        drop(free);
    }

    /// Prepares chunks in advance on the calling thread, until [`ChunkPool::end`].
    pub fn serve(&self) {
        let mut free = self.free.lock();
        if free.ahead == PrepareState::Unserved {
            free.ahead = PrepareState::Idle;
        }
        loop {
            while free.ahead == PrepareState::Idle {
                self.asked.wait(&mut free);
            }
            if free.ahead != PrepareState::Wanted {
                return;
            }
            let words = if free.words.is_empty() { free.words_wanted } else { 0 };
            drop(free);
            let mut chunk = Chunk::fresh(true);
            chunk.populate();
            if words > 0 {
                self.keep_words(zeros(words));
            }
            free = self.free.lock();
            if free.ahead == PrepareState::Wanted {
                // The capacity may have been reduced meanwhile.
                if free.chunks.len() < self.capacity.load(Ordering::Relaxed) {
                    free.chunks.push(chunk);
                }
                if free.chunks.len() >= self.prepared_max() {
                    free.ahead = PrepareState::Idle;
                }
            }
        }
    }

    /// Makes the serving thread return, now or as soon as it starts, and frees all kept memory.
    /// From now on the pool keeps nothing: a value that outlives the store keeps the pool alive.
    pub fn end(&self) {
        self.capacity.store(0, Ordering::Relaxed);
        let kept = {
            let mut free = self.free.lock();
            free.ahead = PrepareState::Ended;
            (std::mem::take(&mut free.chunks), std::mem::take(&mut free.words))
        };
        self.asked.notify_all();
        drop(kept);
    }
}

fn zeros(words: usize) -> Box<[AtomicU64]> {
    (0..words).map(|_| AtomicU64::new(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// Starts a thread that serves the pool, and waits until it is idle.
    fn served(pool: &Arc<ChunkPool>) -> std::thread::JoinHandle<()> {
        let server = {
            let pool = pool.clone();
            std::thread::spawn(move || pool.serve())
        };
        while pool.free.lock().ahead != PrepareState::Idle {
            std::thread::yield_now();
        }
        server
    }

    #[test]
    fn large_memtable_gets_three_chunks_and_small_one_gets_one() {
        let ahead = |chunks: usize| ChunkPool::new(chunks * CHUNK_BYTES).prepared_max();
        assert_eq!([0, 1, 4, 8, 11, 12, 99].map(ahead), [0, 1, 1, 2, 2, 3, 3]);
        let pool = Arc::new(ChunkPool::new(12 * CHUNK_BYTES));
        let server = served(&pool);
        for _ in 0..2 {
            // The first call finds no chunk. The second takes one of three, which is then replaced.
            let taken = pool.take(true);
            while pool.free_bytes() < 3 * CHUNK_BYTES
                || pool.free.lock().ahead != PrepareState::Idle
            {
                std::thread::yield_now();
            }
            drop(taken);
        }
        pool.end();
        server.join().unwrap();
    }

    #[test]
    fn partly_used_and_preallocated_chunks_are_counted() {
        let chunks = |count: u64| count * CHUNK_BYTES as u64;
        assert_eq!(ChunkPool::most_bytes(4, 1000), 4000, "less than a chunk lies in part of one");
        assert_eq!(ChunkPool::most_bytes(4, chunks(1)), chunks(4 * 2 + 1));
        assert_eq!(ChunkPool::most_bytes(4, chunks(32)), chunks(4 * 34 + 3));
        assert_eq!(ChunkPool::most_bytes(u64::MAX, chunks(8)), u64::MAX);
    }

    #[test]
    fn next_chunk_is_preallocated_until_pool_ends() {
        let pool = Arc::new(ChunkPool::new(CHUNK_BYTES));
        drop(pool.take(true));
        assert_eq!(pool.free_bytes(), 0, "no thread serves the pool");
        let server = served(&pool);
        drop(pool.take(false));
        assert_eq!(
            pool.free.lock().ahead,
            PrepareState::Idle,
            "a small memtable needs no second chunk"
        );
        let taken = pool.take(true);
        while pool.free_bytes() < CHUNK_BYTES {
            std::thread::yield_now();
        }
        let ready = pool.free.lock().chunks[0].start();
        let second = pool.take(true);
        assert_eq!(second.start(), ready);
        pool.end();
        server.join().unwrap();
        pool.give(taken);
        assert_eq!(pool.free_bytes(), 0, "a closed store left memory in the pool");
        drop((pool.take(true), second));
        pool.serve();
    }
}
