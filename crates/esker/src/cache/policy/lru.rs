//! LRU: a list in order of use. The tail is evicted.

use super::list::{Links, List, NIL};
use super::{Policy, Uses};

/// Evicts the least recently used block.
#[derive(Default)]
pub(super) struct Lru {
    links: Links,
    list: List,
}

impl Policy for Lru {
    fn admit(&mut self, slot: u32, _hash: u64, _charge_bytes: u64) {
        self.links.reserve(slot);
        self.list.push(&mut self.links, slot);
    }

    fn hit(&mut self, slot: u32) {
        if self.list.head() != slot {
            self.list.remove(&mut self.links, slot);
            self.list.push(&mut self.links, slot);
        }
    }

    fn forget(&mut self, slot: u32) {
        self.list.remove(&mut self.links, slot);
    }

    fn evict(&mut self, _uses: Uses<'_>) -> Option<u32> {
        let slot = self.list.tail();
        if slot == NIL {
            return None;
        }
        self.list.remove(&mut self.links, slot);
        Some(slot)
    }
}
