//! The memory of memtables: chunks that dropped ones leave for the next, and a few more than that,
//! whose pages are there before a writer needs them; and the words of their filters.
//!
//! The first touch of a chunk's pages clears 2 MiB, in 0.2 ms where the machine is fast and in 7 where
//! it is a guest whose host has to find the memory first; a thread of the store does that. A memtable
//! takes them in twos where its entries and its tree's nodes fill one at the same time, and the thread
//! has to share a processor with the flush, so that one ahead is not enough.
//!
//! What stays true: a chunk is in the pool, or in one arena or slab; who takes one where there is none
//! clears it by itself.

use std::fmt;
use std::sync::OnceLock;

use crate::base::chunk::{CHUNK_BYTES, Chunk};
use crate::base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::base::sync::{Condvar, Mutex};

/// So many chunks are made ahead, where a memtable has room for four times as many.
const AHEAD_MAX: usize = 3;

/// How far the chunks after the present ones are.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Ahead {
    /// Nobody makes any: takers make their own, or have a thread started.
    #[default]
    Unserved,
    /// A thread waits to be asked.
    Idle,
    /// It was asked, and makes them.
    Wanted,
    /// The thread has ended, or is to end.
    Ended,
}

#[derive(Debug, Default)]
struct Free {
    chunks: Vec<Chunk>,
    /// Words for one filter, all zero, and how many the largest so far has.
    words: Box<[AtomicU64]>,
    words_wanted: usize,
    ahead: Ahead,
}

/// Chunks of dropped memtables, kept for the next one so that their pages need not be faulted in
/// again, and some made ahead where all are in use.
#[derive(Debug)]
pub struct ChunkPool {
    free: Mutex<Free>,
    asked: Condvar,
    capacity: AtomicUsize,
    /// Has a thread call [`ChunkPool::serve`]; `false` if it cannot.
    start: OnceLock<Start>,
}

struct Start(Box<dyn Fn() -> bool + Send + Sync>);

impl fmt::Debug for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Start")
    }
}

impl ChunkPool {
    /// A pool that keeps at most `capacity_bytes` of free memory (rounded down to whole chunks of 2 MiB)
    /// of what it is given back.
    pub fn new(capacity_bytes: usize) -> ChunkPool {
        ChunkPool {
            free: Mutex::default(),
            asked: Condvar::new(),
            capacity: AtomicUsize::new(capacity_bytes / CHUNK_BYTES),
            start: OnceLock::new(),
        }
    }

    /// Changes how many bytes are kept; what is too much is freed at once.
    pub fn set_capacity(&self, capacity_bytes: usize) {
        let capacity = capacity_bytes / CHUNK_BYTES;
        self.capacity.store(capacity, Ordering::Relaxed);
        let mut free = self.free.lock();
        free.chunks.truncate(capacity);
        free.chunks.shrink_to_fit();
        free.words = Box::default();
        free.words_wanted = 0;
    }

    /// The free memory kept now, in bytes.
    pub fn free_bytes(&self) -> usize {
        let free = self.free.lock();
        free.chunks.len() * CHUNK_BYTES + size_of_val(&*free.words)
    }

    /// A chunk; one that has to be made is made of a large page if `large` says that all of it will
    /// be used.
    pub(super) fn take(&self, large: bool) -> Chunk {
        let mut free = self.free.lock();
        let kept = free.chunks.pop();
        let before = free.ahead;
        let ask = large && free.chunks.len() < self.ahead() && self.can_ask(before);
        if ask {
            free.ahead = Ahead::Wanted;
        }
        drop(free);
        if ask {
            self.ask(before);
        }
        kept.unwrap_or_else(|| Chunk::fresh(large))
    }

    /// The most bytes that so many memtables of at most `each_bytes` take, and the pool between them:
    /// entries and the tree's leaves and inner nodes lie in chunks of their own, whose last are not full,
    /// and some are made ahead.
    pub fn most_bytes(memtables: u64, each_bytes: u64) -> u64 {
        let chunk = CHUNK_BYTES as u64;
        let chunks = each_bytes / chunk;
        // The nodes of a small tree lie in no chunk, and a first chunk takes memory as it is used.
        let in_part = match chunks {
            0 => 0,
            1..4 => 1,
            _ => 2,
        };
        let ahead = (chunks / 4).clamp(chunks.min(1), AHEAD_MAX as u64);
        let each = each_bytes.saturating_add(in_part * chunk);
        memtables.saturating_mul(each).saturating_add(ahead * chunk)
    }

    /// Whether a thread waits to be asked, or can be started.
    fn can_ask(&self, ahead: Ahead) -> bool {
        ahead == Ahead::Idle || (ahead == Ahead::Unserved && self.start.get().is_some())
    }

    /// Tells the thread that it is asked, or has it started where there was none `before`.
    #[cold]
    fn ask(&self, before: Ahead) {
        match self.start.get().filter(|_| before == Ahead::Unserved) {
            None => self.asked.notify_all(),
            Some(start) => {
                if !(start.0)() {
                    let mut free = self.free.lock();
                    if free.ahead == Ahead::Wanted {
                        free.ahead = Ahead::Unserved;
                    }
                }
            }
        }
    }

    /// A thread may be had by `start`, when the first chunk is to be made ahead.
    pub fn offer(&self, start: Box<dyn Fn() -> bool + Send + Sync>) {
        let _ = self.start.set(Start(start));
    }

    /// How many chunks are made ahead; none where none is kept.
    fn ahead(&self) -> usize {
        let capacity = self.capacity.load(Ordering::Relaxed);
        (capacity / 4).clamp(capacity.min(1), AHEAD_MAX)
    }

    pub(super) fn give(&self, chunk: Chunk) {
        let mut free = self.free.lock();
        if free.chunks.len() < self.capacity.load(Ordering::Relaxed) {
            free.chunks.push(chunk);
        }
    }

    /// So many words for a filter, all zero.
    pub(super) fn take_words(&self, words: usize) -> Box<[AtomicU64]> {
        let kept = {
            let mut free = self.free.lock();
            free.words_wanted = free.words_wanted.max(words);
            if free.words.len() == words { std::mem::take(&mut free.words) } else { Box::default() }
        };
        if kept.len() == words { kept } else { zeros(words) }
    }

    /// Keeps the words for the next filter, if the largest so far has as many.
    pub(super) fn give_words(&self, mut words: Box<[AtomicU64]>) {
        if self.capacity.load(Ordering::Relaxed) > 0 && !words.is_empty() {
            words.iter_mut().for_each(|word| *word.get_mut() = 0);
            self.keep_words(words);
        }
    }

    fn keep_words(&self, mut words: Box<[AtomicU64]>) {
        let mut free = self.free.lock();
        if words.len() == free.words_wanted && free.ahead != Ahead::Ended {
            std::mem::swap(&mut free.words, &mut words);
        }
        // What is not kept is freed without the lock.
        drop(free);
    }

    /// Makes chunks ahead on this thread, until [`ChunkPool::end`].
    pub fn serve(&self) {
        let mut free = self.free.lock();
        if free.ahead == Ahead::Unserved {
            free.ahead = Ahead::Idle;
        }
        loop {
            while free.ahead == Ahead::Idle {
                self.asked.wait(&mut free);
            }
            if free.ahead != Ahead::Wanted {
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
            if free.ahead == Ahead::Wanted {
                // The capacity may be less by now.
                if free.chunks.len() < self.capacity.load(Ordering::Relaxed) {
                    free.chunks.push(chunk);
                }
                if free.chunks.len() >= self.ahead() {
                    free.ahead = Ahead::Idle;
                }
            }
        }
    }

    /// Has the serving thread return, now or as soon as there is one, and keeps nothing any more: a
    /// value that outlives the store keeps the pool alive.
    pub fn end(&self) {
        self.capacity.store(0, Ordering::Relaxed);
        let kept = {
            let mut free = self.free.lock();
            free.ahead = Ahead::Ended;
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

    /// A thread that serves the pool, and waits to be asked.
    fn served(pool: &Arc<ChunkPool>) -> std::thread::JoinHandle<()> {
        let server = {
            let pool = pool.clone();
            std::thread::spawn(move || pool.serve())
        };
        while pool.free.lock().ahead != Ahead::Idle {
            std::thread::yield_now();
        }
        server
    }

    #[test]
    fn a_large_memtable_finds_three_chunks_and_a_small_one_one() {
        let ahead = |chunks: usize| ChunkPool::new(chunks * CHUNK_BYTES).ahead();
        assert_eq!([0, 1, 4, 8, 11, 12, 99].map(ahead), [0, 1, 1, 2, 2, 3, 3]);
        let pool = Arc::new(ChunkPool::new(12 * CHUNK_BYTES));
        let server = served(&pool);
        for _ in 0..2 {
            // The first time there is none; then one of three is taken, and made again.
            let taken = pool.take(true);
            while pool.free_bytes() < 3 * CHUNK_BYTES || pool.free.lock().ahead != Ahead::Idle {
                std::thread::yield_now();
            }
            drop(taken);
        }
        pool.end();
        server.join().unwrap();
    }

    #[test]
    fn chunks_in_part_unused_and_made_ahead_count() {
        let chunks = |count: u64| count * CHUNK_BYTES as u64;
        assert_eq!(ChunkPool::most_bytes(4, 1000), 4000, "less than a chunk lies in part of one");
        assert_eq!(ChunkPool::most_bytes(4, chunks(1)), chunks(4 * 2 + 1));
        assert_eq!(ChunkPool::most_bytes(4, chunks(32)), chunks(4 * 34 + 3));
        assert_eq!(ChunkPool::most_bytes(u64::MAX, chunks(8)), u64::MAX);
    }

    #[test]
    fn a_chunk_is_there_before_it_is_needed_and_none_once_it_ended() {
        let pool = Arc::new(ChunkPool::new(CHUNK_BYTES));
        drop(pool.take(true));
        assert_eq!(pool.free_bytes(), 0, "nobody serves it");
        let server = served(&pool);
        drop(pool.take(false));
        assert_eq!(pool.free.lock().ahead, Ahead::Idle, "a small memtable needs no second chunk");
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
        assert_eq!(pool.free_bytes(), 0, "nothing is kept of a store that was closed");
        drop((pool.take(true), second));
        pool.serve();
    }
}
