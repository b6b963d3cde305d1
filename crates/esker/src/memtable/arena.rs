//! The bump arena for the entries of a memtable.
//!
//! Invariants:
//! 1. [`Arena::append`] writes an entry once, before it returns the entry's reference. The entry's
//!    bytes never change and never move until the arena is dropped.
//! 2. Any number of threads may append and read concurrently, although only one thread at a time
//!    adds to a memtable (see [`super`]). One compare-and-swap claims the bump
//!    position, so no two entries overlap.
//! 3. Only `append` creates an [`EntryRef`], and it is used only with the arena that created it.
//!
//! Addresses are 32-bit counts of eight-byte words: the chunk number in the high bits, the position
//! in the chunk in the low bits. An arena therefore spans 32 GiB. An entry larger than a quarter
//! chunk has its own allocation, which covers as many consecutive chunk numbers as its size
//! requires.
#![allow(unsafe_code)]

use crate::base::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::{Arc, OnceLock};

use super::pool::ChunkPool;
use crate::base::chunk::{CHUNK_SHIFT, CHUNK_WORDS, Chunk};
use crate::base::key::STORED_KEY_BYTES_MAX;
use crate::base::prefetch::{prefetch_bytes, prefetch_lines};
use crate::base::sync::{Bug, Mutex, is_seeded};

/// Number of chunk numbers in a 32-bit address.
const CHUNKS_MAX: usize = if cfg!(esker_shuttle) { 256 } else { 1 << (32 - CHUNK_SHIFT) };
/// Number of chunk numbers that an arena has from its beginning: at most 512 MiB, as a large entry
/// has a number of its own. Their addresses take 2 KiB. An arena that needs more numbers allocates
/// the table of the others (see [`Arena::far`]).
const NEAR: usize = if cfg!(any(test, esker_shuttle)) { 4 } else { 256 };
/// Maximum size, in words, of an entry in a shared chunk. A larger entry has its own allocation.
const SHARED_WORDS_MAX: usize = CHUNK_WORDS / 4;
/// Size of an entry header, in bytes: `seqno << 8 | kind`, key length, value length.
const HEADER_BYTES: usize = 16;

/// The tail before the first chunk. It counts as full, so the first append requests a chunk.
const NO_CHUNK: u64 = u64::MAX;

/// Returns the number of words used in the chunk of `tail`.
#[inline]
fn used_words(tail: u64) -> usize {
    if tail == NO_CHUNK { 0 } else { tail as u32 as usize }
}

/// The address of an entry in the arena that created it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct EntryRef(u32);

/// One entry, borrowed from its arena.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    /// `seqno << 8 | kind`.
    pub packed: u64,
    pub key: &'a [u8],
    pub value: &'a [u8],
}

/// The allocations made on the slow path.
struct Allocations {
    /// First chunk number of every allocation. The size in words is `None` for a chunk.
    list: Vec<(usize, Option<usize>)>,
    /// Next unused chunk number.
    next: usize,
}

/// The arena. All its memory is freed together.
pub(super) struct Arena {
    /// Address of the memory of each of the first [`NEAR`] chunk numbers; null where no memory is
    /// allocated.
    near: Box<[AtomicPtr<u64>; NEAR]>,
    /// The same for the other chunk numbers. Its 126 KiB would be most of the memory of an idle
    /// store.
    far: OnceLock<Box<[AtomicPtr<u64>]>>,
    /// `chunk number << 32 | words used in it` of the current chunk.
    tail: AtomicU64,
    /// Bytes used outside the current chunk.
    full_bytes: AtomicUsize,
    spans: Mutex<Allocations>,
    pool: Arc<ChunkPool>,
}

impl Arena {
    /// Creates an arena that takes its chunks from `pool` and returns them when dropped.
    pub fn new(pool: Arc<ChunkPool>) -> Arena {
        Arena {
            near: Box::new([const { AtomicPtr::new(ptr::null_mut()) }; NEAR]),
            far: OnceLock::new(),
            tail: AtomicU64::new(NO_CHUNK),
            full_bytes: AtomicUsize::new(0),
            spans: Mutex::new(Allocations { list: Vec::new(), next: 0 }),
            pool,
        }
    }

    /// Returns the bytes used by entries, including headers and padding.
    pub fn used_bytes(&self) -> usize {
        let tail = self.tail.load(Ordering::Relaxed);
        self.full_bytes.load(Ordering::Relaxed) + used_words(tail) * 8
    }

    /// Copies an entry into the arena.
    ///
    /// # Panics
    /// When the lengths do not fit 32 bits or the arena has reached 32 GiB. The caller checks the
    /// limits of keys and values, and rotates memtables long before.
    #[inline]
    pub fn append(&self, packed: u64, key: &[u8], value: &[u8]) -> EntryRef {
        assert!(
            key.len() <= STORED_KEY_BYTES_MAX && value.len() <= 1 << 31,
            "the entry exceeds the store's limits"
        );
        let words = (HEADER_BYTES + key.len() + value.len()).div_ceil(8);
        let (at, to) = self.allocate(words);
        let lengths = (key.len() as u64) << 32 | value.len() as u64;
        // SAFETY: `to` points to `words` words, which `allocate` gave to this call alone and which
        // stay allocated while the arena lives. Header, key and value take no more than that. The
        // source slices cannot overlap memory without any other reference.
        unsafe {
            to.write(packed);
            to.add(1).write(lengths);
            let bytes = to.add(2).cast::<u8>();
            ptr::copy_nonoverlapping(key.as_ptr(), bytes, key.len());
            ptr::copy_nonoverlapping(value.as_ptr(), bytes.add(key.len()), value.len());
        }
        // The likely address of the entry after the next, if entries have similar lengths.
        prefetch_bytes(to.addr() + 2 * words * 8, words * 8);
        at
    }

    /// Returns the entry at `at`, a reference created by this arena.
    #[inline]
    pub fn entry(&self, at: EntryRef) -> Entry<'_> {
        let from = self.address(at);
        // SAFETY: `at` came from `append` of this arena (invariant 3), which wrote a header and as
        // many bytes as the header states before returning the reference. The bytes are never
        // written again and live as long as `self`.
        unsafe {
            let packed = from.read();
            let lengths = from.add(1).read();
            let (key_len, value_len) = ((lengths >> 32) as usize, lengths as u32 as usize);
            let bytes = from.add(2).cast::<u8>();
            Entry {
                packed,
                key: std::slice::from_raw_parts(bytes, key_len),
                value: std::slice::from_raw_parts(bytes.add(key_len), value_len),
            }
        }
    }

    /// Prefetches the entry's first cache lines. Changes nothing.
    #[inline]
    pub fn prefetch(&self, at: EntryRef) {
        prefetch_lines(self.address(at).addr(), 3);
    }

    #[inline]
    fn address(&self, at: EntryRef) -> *const u64 {
        let chunk = self.slot((at.0 >> CHUNK_SHIFT) as usize).load(Ordering::Acquire);
        chunk.wrapping_add(at.0 as usize & (CHUNK_WORDS - 1))
    }

    /// Returns the place of the address of a chunk.
    #[inline]
    fn slot(&self, chunk: usize) -> &AtomicPtr<u64> {
        match self.near.get(chunk) {
            Some(slot) => slot,
            None => self.far_slot(chunk - NEAR),
        }
    }

    #[cold]
    fn far_slot(&self, chunk: usize) -> &AtomicPtr<u64> {
        &self.far.get_or_init(far_table)[chunk]
    }

    /// Allocates `words` words for the caller alone.
    #[inline]
    fn allocate(&self, words: usize) -> (EntryRef, *mut u64) {
        if words > SHARED_WORDS_MAX {
            return self.allocate_separately(words);
        }
        loop {
            let tail = self.tail.load(Ordering::Relaxed);
            let used = tail as u32 as usize;
            if used + words > CHUNK_WORDS {
                self.next_chunk(words);
                continue;
            }
            let next = tail + words as u64;
            // Acquire pairs with the release in `next_chunk`: the table already holds the chunk's
            // address.
            let claim = if is_seeded(Bug::ClaimInTwoSteps) {
                self.tail.store(next, Ordering::Release);
                Ok(tail)
            } else {
                self.tail.compare_exchange(tail, next, Ordering::Acquire, Ordering::Relaxed)
            };
            if claim.is_ok() {
                let chunk = (tail >> 32) as usize;
                let base = self.slot(chunk).load(Ordering::Acquire);
                let at = EntryRef((chunk << CHUNK_SHIFT | used) as u32);
                return (at, base.wrapping_add(used));
            }
        }
    }

    /// Starts a new chunk at the tail unless another thread did.
    #[cold]
    fn next_chunk(&self, words: usize) {
        let mut spans = self.spans.lock();
        if self.tail.load(Ordering::Acquire) as u32 as usize + words <= CHUNK_WORDS {
            return;
        }
        // A memtable that needs more than one chunk will use them completely.
        let chunk = self.pool.take(spans.next > 0).into_memory().as_ptr();
        let fresh = self.install(&mut spans, chunk, None);
        let old = self.tail.swap((fresh as u64) << 32, Ordering::AcqRel);
        self.full_bytes.fetch_add(used_words(old) * 8, Ordering::Relaxed);
    }

    /// Makes a separate allocation for a large entry.
    #[cold]
    fn allocate_separately(&self, words: usize) -> (EntryRef, *mut u64) {
        let mut spans = self.spans.lock();
        let memory = Box::into_raw(Box::<[u64]>::new_uninit_slice(words)).cast();
        let chunk = self.install(&mut spans, memory, Some(words));
        self.full_bytes.fetch_add(words * 8, Ordering::Relaxed);
        (EntryRef((chunk << CHUNK_SHIFT) as u32), self.slot(chunk).load(Ordering::Relaxed))
    }

    /// Takes ownership of the memory at `base`, under the next chunk numbers. The memory is `words`
    /// words long, or one chunk for `None`. Returns the first chunk number.
    fn install(&self, spans: &mut Allocations, base: *mut u64, words: Option<usize>) -> usize {
        let first = spans.next;
        let count = words.unwrap_or(CHUNK_WORDS).div_ceil(CHUNK_WORDS);
        assert!(first + count <= CHUNKS_MAX, "a memtable reached 32 GiB without a rotation");
        for i in 0..count {
            let address = base.wrapping_add(i * CHUNK_WORDS);
            self.slot(first + i).store(address, Ordering::Release);
        }
        spans.next += count;
        spans.list.push((first, words));
        first
    }
}

/// Returns a null pointer for each chunk number after the first [`NEAR`] ones.
fn far_table() -> Box<[AtomicPtr<u64>]> {
    (NEAR..CHUNKS_MAX).map(|_| AtomicPtr::new(ptr::null_mut())).collect()
}

impl Drop for Arena {
    fn drop(&mut self) {
        let spans = std::mem::take(&mut self.spans.get_mut().list);
        for (first, words) in spans {
            let base = self.slot(first).load(Ordering::Relaxed);
            match words {
                // SAFETY: without a number of words, the pointer was taken out of a `Chunk` and is
                // listed once. `&mut self` guarantees that no entry is borrowed any more.
                None => self.pool.give(unsafe { Chunk::from_memory(NonNull::new_unchecked(base)) }),
                Some(words) => {
                    let base = base.cast::<MaybeUninit<u64>>();
                    // SAFETY: as above; the pointer came from a box of `words` words.
                    drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(base, words)) });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::chunk::CHUNK_BYTES;

    /// Value lengths: zero, small, just below a quarter chunk, just above it, above a chunk.
    const LENGTHS: [usize; 6] =
        [0, 5, SHARED_WORDS_MAX * 8 - 64, 40, SHARED_WORDS_MAX * 8 + 1, CHUNK_BYTES + 3];

    fn key_of(thread: usize, i: usize) -> [u8; 2] {
        [thread as u8, i as u8]
    }

    fn check(arena: &Arena, thread: usize, i: usize, at: EntryRef) {
        let entry = arena.entry(at);
        assert_eq!(entry.packed, (thread * 1000 + i) as u64);
        assert_eq!(entry.key, key_of(thread, i));
        assert!(*entry.value == vec![i as u8; LENGTHS[i % LENGTHS.len()]], "{thread} {i}");
        arena.prefetch(at);
    }

    /// Appends from three threads. Each claim is compared with all others before any entry is read,
    /// with no scheduling step in between: an entry overlapped by another could state any length.
    #[cfg(esker_shuttle)]
    fn append_in_any_order() {
        let arena = Arc::new(Arena::new(Arc::new(ChunkPool::new(0))));
        let claims: Arc<std::sync::Mutex<Vec<(u32, u32)>>> = Arc::default();
        let append = |thread: usize| {
            let (arena, claims) = (arena.clone(), claims.clone());
            crate::base::sync::thread::spawn(move || {
                let packed = |i: usize| (thread * 1000 + i) as u64;
                let value = |i: usize| vec![i as u8; i * 11 % 300];
                let claim = |i: usize| {
                    let at = arena.append(packed(i), b"k", &value(i));
                    let end = at.0 + (HEADER_BYTES + 1 + value(i).len()).div_ceil(8) as u32;
                    let mut claims = claims.lock().unwrap();
                    let apart = |other: &(u32, u32)| end <= other.0 || other.1 <= at.0;
                    assert!(claims.iter().all(apart), "two entries share a byte");
                    claims.push((at.0, end));
                    at
                };
                let made: Vec<EntryRef> = (0..7).map(claim).collect();
                for (i, at) in made.into_iter().enumerate() {
                    let entry = arena.entry(at);
                    assert_eq!((entry.packed, entry.value), (packed(i), &value(i)[..]));
                }
            })
        };
        for thread in [append(1), append(2), append(3)] {
            thread.join().unwrap();
        }
    }

    #[cfg(esker_shuttle)]
    #[test]
    fn schedules_of_appending_threads_share_no_byte() {
        shuttle::check_random(append_in_any_order, 5_000);
        shuttle::check_pct(append_in_any_order, 2_000, 3);
    }

    #[cfg(esker_shuttle)]
    #[test]
    #[should_panic(expected = "two entries share a byte")]
    fn schedules_find_nonatomic_allocation() {
        crate::base::sync::seed(Some(Bug::ClaimInTwoSteps));
        shuttle::check_random(append_in_any_order, 5_000);
    }

    #[test]
    fn threads_append_and_read_without_overlap() {
        let entries = if cfg!(miri) { 12 } else { 240 };
        let pool = Arc::new(ChunkPool::new(CHUNK_BYTES));
        for _ in 0..2 {
            let arena = Arena::new(pool.clone());
            let made: Mutex<Vec<(usize, usize, EntryRef)>> = Mutex::default();
            std::thread::scope(|scope| {
                for thread in 0..3 {
                    let (arena, made) = (&arena, &made);
                    scope.spawn(move || {
                        for i in 0..entries {
                            let value = vec![i as u8; LENGTHS[i % LENGTHS.len()]];
                            let packed = (thread * 1000 + i) as u64;
                            let at = arena.append(packed, &key_of(thread, i), &value);
                            made.lock().push((thread, i, at));
                            // Possibly an entry of another thread.
                            let (thread, i, at) = made.lock()[i];
                            check(arena, thread, i, at);
                        }
                    });
                }
            });
            let made = made.into_inner();
            assert_eq!(made.len(), 3 * entries);
            made.iter().for_each(|(thread, i, at)| check(&arena, *thread, *i, *at));
            let bytes: usize = made.iter().map(|(_, i, _)| LENGTHS[i % LENGTHS.len()]).sum();
            assert!(arena.used_bytes() >= bytes + made.len() * HEADER_BYTES);
        }
        // The second arena started in a chunk of the first.
        assert_eq!(pool.free_bytes(), CHUNK_BYTES);
    }
}
