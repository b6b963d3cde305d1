//! SIEVE (Zhang, Yang, Yue, Vigfusson, Rashmi, NSDI 2024): a queue in order of arrival and a hand
//! that moves from the oldest to the newest block. The hand skips each block used since its last
//! pass, without moving the block, and evicts the first unused block. A hit only sets a mark.

use super::list::{Links, List, NIL};
use super::{Policy, Uses};

/// The SIEVE policy: the queue, the marks and the hand.
pub(super) struct Sieve {
    links: Links,
    list: List,
    used: Vec<bool>,
    /// The next slot to examine. [`NIL`] stands for the oldest slot.
    hand: u32,
}

impl Default for Sieve {
    fn default() -> Sieve {
        Sieve { links: Links::default(), list: List::default(), used: Vec::new(), hand: NIL }
    }
}

impl Policy for Sieve {
    fn admit(&mut self, slot: u32, _hash: u64, _charge_bytes: u64) {
        self.links.reserve(slot);
        if slot as usize >= self.used.len() {
            self.used.resize(slot as usize + 1, false);
        }
        self.used[slot as usize] = false;
        self.list.push(&mut self.links, slot);
    }

    fn hit(&mut self, slot: u32) {
        self.used[slot as usize] = true;
    }

    fn forget(&mut self, slot: u32) {
        if self.hand == slot {
            self.hand = self.links.newer(slot);
        }
        self.list.remove(&mut self.links, slot);
    }

    fn evict(&mut self, uses: Uses<'_>) -> Option<u32> {
        loop {
            let slot = if self.hand == NIL { self.list.tail() } else { self.hand };
            if slot == NIL {
                return None;
            }
            self.hand = self.links.newer(slot);
            let used = uses(slot) > 0;
            if !std::mem::take(&mut self.used[slot as usize]) && !used {
                self.list.remove(&mut self.links, slot);
                return Some(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hand_moves_only_if_its_slot_is_removed() {
        let mut sieve = Sieve::default();
        (0..5).for_each(|slot| sieve.admit(slot, 0, 1));
        sieve.hit(0);
        let unused = |_: u32| 0;
        assert_eq!(sieve.evict(&unused), Some(1), "the oldest block was not spared once");
        sieve.forget(3);
        assert_eq!(sieve.evict(&unused), Some(2), "the hand did not continue from its position");
        // The hand is at slot 4. After its removal, the hand restarts at the oldest slot.
        sieve.forget(4);
        sieve.admit(5, 0, 1);
        assert_eq!(sieve.evict(&unused), Some(0));
        assert_eq!(sieve.evict(&unused), Some(5));
        assert_eq!(sieve.evict(&unused), None);
    }
}
