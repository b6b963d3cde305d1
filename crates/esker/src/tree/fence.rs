//! Sorted keys searched by their first sixteen bytes, which lie side by side: a search touches a few
//! cache lines instead of a key behind three pointers at each step.
//!
//! What stays true: heads are only kept for an order they follow; where two are equal the keys
//! themselves decide.

use crate::base::key::head16;
use crate::base::order::KeyOrder;

/// The heads of keys that are sorted elsewhere.
#[derive(Debug, Clone, Default)]
pub struct Fence {
    /// Empty when the order has no heads.
    heads: Vec<u128>,
}

impl Fence {
    /// The heads of `keys`, which are in order.
    pub fn new<'a>(order: &KeyOrder, keys: impl Iterator<Item = &'a [u8]>) -> Fence {
        Fence { heads: if order.has_heads() { keys.map(head16).collect() } else { Vec::new() } }
    }

    /// How many of the `len` keys `before` is true for: it is for the first so many and for no
    /// other, as for keys that sort before one with this `head`.
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

    /// Compares the key at `index` with one that has this head, where heads decide it.
    #[inline]
    pub fn compare(&self, index: usize, head: u128) -> Option<std::cmp::Ordering> {
        self.heads.get(index).map(|h| h.cmp(&head)).filter(|o| o.is_ne())
    }
}
