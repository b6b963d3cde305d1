//! The memory of memtables: chunks that dropped ones leave for the next, and one chunk more than that,
//! whose pages are there before a writer needs it.
//!
//! The first touch of a chunk's pages clears 2 MiB, in 0.2 ms where the machine is fast and in 7 where
//! it is a guest whose host has to find the memory first; a thread of the store does that.
//!
//! What stays true: a chunk is in the pool or in one arena; who takes one waits for nobody's clearing
//! but its own.

use crate::base::chunk::{CHUNK_BYTES, Chunk};
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::base::sync::{Condvar, Mutex};

/// How far the chunk after the present ones is.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Ahead {
    /// Nobody makes any: takers make their own.
    #[default]
    Unserved,
    /// A thread waits to be asked.
    Idle,
    /// It was asked, and makes one.
    Wanted,
    /// The thread has ended, or is to end.
    Ended,
}

#[derive(Debug, Default)]
struct Free {
    chunks: Vec<Chunk>,
    ahead: Ahead,
}

/// Chunks of dropped memtables, kept for the next one so that their pages need not be faulted in
/// again, and one made ahead where all are in use.
#[derive(Debug)]
pub struct ChunkPool {
    free: Mutex<Free>,
    asked: Condvar,
    capacity: AtomicUsize,
}

impl ChunkPool {
    /// A pool that keeps at most `capacity_bytes` of free memory (rounded down to whole chunks of 2 MiB)
    /// of what it is given back.
    pub fn new(capacity_bytes: usize) -> ChunkPool {
        ChunkPool {
            free: Mutex::default(),
            asked: Condvar::new(),
            capacity: AtomicUsize::new(capacity_bytes / CHUNK_BYTES),
        }
    }

    /// Changes how many bytes are kept; what is too much is freed at once.
    pub fn set_capacity(&self, capacity_bytes: usize) {
        let capacity = capacity_bytes / CHUNK_BYTES;
        self.capacity.store(capacity, Ordering::Relaxed);
        let mut free = self.free.lock();
        free.chunks.truncate(capacity);
        free.chunks.shrink_to_fit();
    }

    /// The free memory kept now, in bytes.
    pub fn free_bytes(&self) -> usize {
        self.free.lock().chunks.len() * CHUNK_BYTES
    }

    /// A chunk; one that has to be made is made of a large page if `large` says that all of it will
    /// be used.
    pub(super) fn take(&self, large: bool) -> Chunk {
        let mut free = self.free.lock();
        let kept = free.chunks.pop();
        let ask = large && free.chunks.is_empty() && free.ahead == Ahead::Idle;
        if ask {
            free.ahead = Ahead::Wanted;
        }
        drop(free);
        if ask {
            self.asked.notify_all();
        }
        kept.unwrap_or_else(|| Chunk::fresh(large))
    }

    pub(super) fn give(&self, chunk: Chunk) {
        let mut free = self.free.lock();
        if free.chunks.len() < self.capacity.load(Ordering::Relaxed) {
            free.chunks.push(chunk);
        }
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
            drop(free);
            let mut chunk = Chunk::fresh(true);
            chunk.populate();
            free = self.free.lock();
            if free.ahead == Ahead::Wanted {
                free.ahead = Ahead::Idle;
                free.chunks.push(chunk);
            }
        }
    }

    /// Has the serving thread return, now or as soon as there is one.
    pub fn end(&self) {
        self.free.lock().ahead = Ahead::Ended;
        self.asked.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_chunk_is_there_before_it_is_needed_and_none_once_it_ended() {
        let pool = Arc::new(ChunkPool::new(CHUNK_BYTES));
        drop(pool.take(true));
        assert_eq!(pool.free_bytes(), 0, "nobody serves it");
        let server = {
            let pool = pool.clone();
            std::thread::spawn(move || pool.serve())
        };
        while pool.free.lock().ahead != Ahead::Idle {
            std::thread::yield_now();
        }
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
        pool.give(second);
        assert_eq!(pool.free_bytes(), CHUNK_BYTES, "no more is kept than it may");
        drop((pool.take(true), pool.take(true)));
        assert_eq!(pool.free_bytes(), 0);
        pool.serve();
    }
}
