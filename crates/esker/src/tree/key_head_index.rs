//! Key-head index: a sorted list of keys, searched by the first sixteen bytes of each key (its
//! head). The heads are contiguous in memory. A search touches a few cache lines instead of
//! following three pointers to a key at each step.
//!
//! Invariants: heads are stored only for a key order that agrees with the order of the heads. Keys
//! with equal heads are compared in full.

use crate::base::key::head16;
use crate::base::order::KeyOrder;

/// Key-head index of keys that are stored sorted elsewhere.
#[derive(Debug, Clone, Default)]
pub struct KeyHeadIndex {
    /// Empty when the key order has no heads.
    heads: Vec<u128>,
}

impl KeyHeadIndex {
    /// Builds the index of `keys`, which must be in key order.
    pub fn new<'a>(order: &KeyOrder, keys: impl Iterator<Item = &'a [u8]>) -> KeyHeadIndex {
        KeyHeadIndex {
            heads: if order.has_heads() { keys.map(head16).collect() } else { Vec::new() },
        }
    }

    /// Returns how many of the `len` keys satisfy `before`. The keys must be partitioned: `before`
    /// holds for a prefix of the list only, as it does for the keys that sort before a key with
    /// this `head`.
    #[inline]
    pub fn partition(&self, len: usize, head: u128, before: impl Fn(usize) -> bool) -> usize {
        let (mut low, mut high) = (0, len);
        if !self.heads.is_empty() {
            low = self.heads.partition_point(|h| *h < head);
            high = low;
            while high < len && self.heads[high] == head {
                high += 1;
            }
        }
        while low < high {
            let middle = low.midpoint(high);
            if before(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Compares the key at `index` with a key that has this head. Returns `None` when the heads do
    /// not decide.
    #[inline]
    pub fn compare(&self, index: usize, head: u128) -> Option<std::cmp::Ordering> {
        self.heads.get(index).map(|h| h.cmp(&head)).filter(|o| o.is_ne())
    }
}
