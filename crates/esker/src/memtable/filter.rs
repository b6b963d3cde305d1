//! About which keys a part of a memtable has: for each key a few bits in one word, chosen by its hash.
//!
//! Who looks for a key that is not there reads that word, and neither a lock, nor the nodes down to
//! where the key would be, nor the entry beside it. (Bloom, "Space/Time Trade-offs in Hash Coding
//! with Allowable Errors", 1970; all bits of a key in one word: Putze, Sanders and Singler, "Cache-,
//! Hash- and Space-Efficient Bloom Filters", 2007.)
//!
//! What stays true: the bits of a key are set before the key is visible, and stay set; they are set
//! by who has the index of the part locked, one at a time.

use std::sync::Arc;

use super::pool::ChunkPool;
use crate::base::prefetch::prefetch_lines;
use crate::base::sync::atomic::{AtomicU64, Ordering};

/// A filter has this part of the memory its memtable may take, so that it lies in the processor's
/// caches: nine bits for each key of pairs of 116 bytes. Of those that are not there one in thirty
/// seems to be; of pairs of 32 bytes one in six.
const SHARE: usize = 128;
/// More than this many bytes would take long to clear.
const BYTES_MAX: usize = 16 << 20;
/// Bits set for a key.
const BITS: u32 = 3;

/// The bits of the keys of one part.
pub(super) struct KeyFilter {
    words: Box<[AtomicU64]>,
    pool: Arc<ChunkPool>,
}

impl KeyFilter {
    /// For a memtable of at most `memtable_bytes`; of none, every key may be there.
    pub fn new(memtable_bytes: usize, pool: Arc<ChunkPool>) -> KeyFilter {
        let bytes = (memtable_bytes / SHARE).min(BYTES_MAX);
        KeyFilter { words: pool.take_words(bytes / size_of::<u64>()), pool }
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// The word of a key, and its bits there.
    #[inline]
    fn place(&self, hash: u64) -> Option<(&AtomicU64, u64)> {
        let at = ((hash >> 32) * self.words.len() as u64) >> 32;
        let bits = (0..BITS).fold(0, |bits, n| bits | 1 << (hash >> (6 * n) & 63));
        Some((self.words.get(at as usize)?, bits))
    }

    /// Asks the processor for what [`KeyFilter::add`] and [`KeyFilter::may_contain`] look at.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        if let Some((word, _)) = self.place(hash) {
            prefetch_lines(std::ptr::from_ref(word).addr(), 1);
        }
    }

    /// Notes the key of this hash. Not for two threads at once: a bit of one of them could be lost.
    #[inline]
    pub fn add(&self, hash: u64) {
        if let Some((word, bits)) = self.place(hash) {
            word.store(word.load(Ordering::Relaxed) | bits, Ordering::Relaxed);
        }
    }

    /// Whether the key of this hash may have been added. Who sees the number of a write sees its
    /// bits: they were set before that number was shown.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        self.place(hash).is_none_or(|(word, bits)| word.load(Ordering::Relaxed) & bits == bits)
    }
}

impl Drop for KeyFilter {
    fn drop(&mut self) {
        self.pool.give_words(std::mem::take(&mut self.words));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::filter_policy::key_hash;

    #[test]
    fn what_was_added_is_there_and_hardly_anything_else() {
        let pool = Arc::new(ChunkPool::new(64 << 20));
        // As many keys as a memtable of a MiB has of pairs of 116 bytes.
        let part = if cfg!(miri) { 64 } else { 1 };
        let (memtable_bytes, keys) = ((1 << 20) / part, 7_000 / part as u64);
        let filter = KeyFilter::new(memtable_bytes, pool.clone());
        let hash = |n: u64| key_hash(&n.to_be_bytes());
        assert!(!(0..keys).any(|n| filter.may_contain(hash(n))));
        (0..keys).for_each(|n| filter.add(hash(n)));
        assert!((0..keys).all(|n| filter.may_contain(hash(n))));
        let others = if cfg!(miri) { 100 } else { 10_000 };
        let seeming = (keys..keys + others).filter(|n| filter.may_contain(hash(*n))).count();
        assert!(seeming * 25 < others as usize, "{seeming} of {others}");
        drop(filter);
        // Its memory is the next one's, who has none of its keys.
        let next = KeyFilter::new(memtable_bytes, pool.clone());
        assert!(!(0..keys).any(|n| next.may_contain(hash(n))));
        assert_eq!(next.memory_bytes(), (8 << 10) / part);
        assert!(KeyFilter::new(0, pool).may_contain(hash(0)), "without bits nothing is known");
    }
}
