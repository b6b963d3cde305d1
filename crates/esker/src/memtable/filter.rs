//! A filter over the keys of a memtable. Each key sets a few bits in one word, both chosen by the
//! key's hash.
//!
//! A get of an absent key reads that one word. It needs no lock, and it reads neither the nodes on
//! the path to the key's position nor the entry at that position. (Bloom, "Space/Time Trade-offs in
//! Hash Coding with Allowable Errors", 1970; all bits of a key in one word: Putze, Sanders and
//! Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", 2007.)
//!
//! Invariants: the bits of a key are set before the key is visible, and they stay set. The holder
//! of the part's index lock sets them, so only one thread sets bits at a time.

use std::sync::Arc;

use super::pool::ChunkPool;
use crate::base::prefetch::prefetch_lines;
use crate::base::sync::atomic::{AtomicU64, Ordering};

/// The memtable's maximum size divided by the filter's size. The filter then fits in the
/// processor's caches. At pairs of 116 bytes the filter has nine bits per key and a false positive
/// rate of one in thirty. At pairs of 32 bytes the false positive rate is one in six.
const SHARE: usize = 128;
/// Maximum size of a filter, in bytes. A larger filter would take long to clear.
const BYTES_MAX: usize = 16 << 20;
/// Number of bits set per key.
const BITS: u32 = 3;

/// The filter over the keys of one part.
pub(super) struct KeyFilter {
    words: Box<[AtomicU64]>,
    pool: Arc<ChunkPool>,
}

impl KeyFilter {
    /// Creates a filter for a memtable of at most `memtable_bytes`. A filter for 0 bytes has no
    /// bits and reports every key as possibly present.
    pub fn new(memtable_bytes: usize, pool: Arc<ChunkPool>) -> KeyFilter {
        let bytes = (memtable_bytes / SHARE).min(BYTES_MAX);
        KeyFilter { words: pool.take_words(bytes / size_of::<u64>()), pool }
    }

    /// Returns the filter's size in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// Returns the word of a key, and the key's bits in it.
    #[inline]
    fn place(&self, hash: u64) -> Option<(&AtomicU64, u64)> {
        let at = ((hash >> 32) * self.words.len() as u64) >> 32;
        let bits = (0..BITS).fold(0, |bits, n| bits | 1 << (hash >> (6 * n) & 63));
        Some((self.words.get(at as usize)?, bits))
    }

    /// Prefetches the word that [`KeyFilter::add`] and [`KeyFilter::may_contain`] use.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        if let Some((word, _)) = self.place(hash) {
            prefetch_lines(std::ptr::from_ref(word).addr(), 1);
        }
    }

    /// Adds the key with this hash. Concurrent calls are not allowed: a bit of one call could be
    /// lost.
    #[inline]
    pub fn add(&self, hash: u64) {
        if let Some((word, bits)) = self.place(hash) {
            word.store(word.load(Ordering::Relaxed) | bits, Ordering::Relaxed);
        }
    }

    /// Returns whether the key with this hash may have been added. A reader that sees the sequence
    /// number of a write also sees the key's bits, which were set before that number was published.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        self.place(hash).is_none_or(|(word, bits)| word.load(Ordering::Relaxed) & bits == bits)
    }
}

impl Drop for KeyFilter {
    fn drop(&mut self) {
        self.pool.return_words(std::mem::take(&mut self.words));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::filter_policy::key_hash;

    #[test]
    fn added_keys_pass_and_few_others_do() {
        let pool = Arc::new(ChunkPool::new(64 << 20));
        // As many keys as a 1 MiB memtable holds at pairs of 116 bytes.
        let part = if cfg!(miri) { 64 } else { 1 };
        let (memtable_bytes, keys) = ((1 << 20) / part, 7_000 / part as u64);
        let filter = KeyFilter::new(memtable_bytes, pool.clone());
        let hash = |n: u64| key_hash(&n.to_be_bytes());
        assert!(!(0..keys).any(|n| filter.may_contain(hash(n))));
        (0..keys).for_each(|n| filter.add(hash(n)));
        assert!((0..keys).all(|n| filter.may_contain(hash(n))));
        let others = if cfg!(miri) { 100 } else { 10_000 };
        let false_positives =
            (keys..keys + others).filter(|n| filter.may_contain(hash(*n))).count();
        assert!(false_positives * 25 < others as usize, "{false_positives} of {others}");
        drop(filter);
        // The next filter reuses the memory and has none of the keys.
        let next = KeyFilter::new(memtable_bytes, pool.clone());
        assert!(!(0..keys).any(|n| next.may_contain(hash(n))));
        assert_eq!(next.memory_bytes(), (8 << 10) / part);
        assert!(
            KeyFilter::new(0, pool).may_contain(hash(0)),
            "a filter without bits excluded a key"
        );
    }
}
