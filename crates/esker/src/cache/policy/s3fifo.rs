//! S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi, SOSP 2023): two queues in order of arrival, and a ghost
//! queue with the hashes of blocks that left the first.
//!
//! A new block enters the small queue, a tenth of the capacity. At the end of the small queue it
//! moves to the main queue if it was used more than once. Otherwise it is evicted, and its hash
//! enters the ghost queue, which covers as many bytes as the main queue. A block that returns while
//! its hash is in the ghost queue enters the main queue directly. The main queue gives a block one
//! more round per use, up to three rounds. A scan therefore passes through the small queue and
//! leaves the main queue alone.
//!
//! Admission control ([`Policy::wants`]) is our addition to the paper. When almost no block is used
//! again in the small queue, inserting every block costs more than it saves. Most new blocks are
//! then not inserted, but remembered in the ghost queue as if they had already left. A sample, one
//! block in [`ADMITTED_ONE_IN`], still passes through a small queue that shrinks by the same
//! factor. The sample shows when the workload changes.

use super::ghost::Ghost;
use super::list::{Links, List, NIL};
use super::{Policy, Uses};

/// Maximum use count of a block.
const USES_MAX: u8 = 3;
/// A block with more uses than this in the small queue moves to the main queue.
const USES_TO_STAY: u8 = 1;
/// Divisor of the capacity that gives the size of the small queue.
const SMALL_ONE_IN: u64 = 10;

/// Sampling rate while admission is restricted: one new block in this many is inserted.
const ADMITTED_ONE_IN: u32 = 8;
/// Admission becomes restricted when at most one block in this many was used in the small queue.
const USED_ONE_IN: u32 = 16;
/// Restricted admission ends when more than one block in this many was used in the small queue.
const USED_AGAIN_ONE_IN: u32 = 12;
/// Number of wanted blocks that must leave the small queue before each such decision.
const DECIDED_BY: u32 = 128;

/// Data of a slot, except its links and its use count.
#[derive(Clone, Copy, Default)]
struct Meta {
    hash: u64,
    charge_bytes: u64,
    in_main: bool,
    /// Whether [`Policy::wants`] approved the block when the shard was full. False for speculative
    /// inserts.
    wanted: bool,
}

/// The S3-FIFO policy: the three queues and the admission control.
#[derive(Default)]
pub(super) struct S3Fifo {
    links: Links,
    small: List,
    main: List,
    small_bytes: u64,
    main_bytes: u64,
    small_bytes_max: u64,
    main_bytes_max: u64,
    /// Use counts, separate from `metas` because a hit touches nothing else.
    uses: Vec<u8>,
    metas: Vec<Meta>,
    ghost: Ghost,
    admission: Admission,
}

/// Admission control: decides whether new blocks are worth an insert into the small queue.
#[derive(Default)]
struct Admission {
    /// Wanted blocks that left the small queue since the last decision.
    left: u32,
    /// Number of `left` blocks that were used.
    used: u32,
    /// Whether admission is restricted, because new blocks are not worth an insert.
    selective: bool,
    /// Number of [`Policy::wants`] calls for unremembered blocks since the last decision.
    requests: u32,
    /// Hash of the last wanted block that has not been admitted yet.
    pending: Option<u64>,
}

impl Admission {
    fn count(&mut self, used: bool) {
        self.left += 1;
        self.used += u32::from(used);
        if self.left < DECIDED_BY {
            return;
        }
        let one_in = if self.selective { USED_AGAIN_ONE_IN } else { USED_ONE_IN };
        self.selective = self.used * one_in <= self.left;
        (self.left, self.used, self.requests) = (0, 0, 0);
    }

    /// Counts a request for a new block and returns whether to insert the block.
    fn admits(&mut self) -> bool {
        self.requests = self.requests.wrapping_add(1);
        !self.selective || self.requests.is_multiple_of(ADMITTED_ONE_IN)
    }
}

impl S3Fifo {
    fn push_main(&mut self, slot: u32) {
        let meta = &mut self.metas[slot as usize];
        meta.in_main = true;
        self.main_bytes += meta.charge_bytes;
        self.uses[slot as usize] = 0;
        self.main.push(&mut self.links, slot);
    }

    fn count(&mut self, slot: u32, uses: u8) {
        let counted = &mut self.uses[slot as usize];
        *counted = (*counted + uses).min(USES_MAX);
    }

    fn remove(&mut self, slot: u32) {
        let meta = self.metas[slot as usize];
        if meta.in_main {
            self.main_bytes -= meta.charge_bytes;
            self.main.remove(&mut self.links, slot);
        } else {
            self.small_bytes -= meta.charge_bytes;
            self.small.remove(&mut self.links, slot);
        }
    }

    /// Returns whether the small queue has reached its target size. While admission is restricted,
    /// the target shrinks by the sampling rate, so that a block stays for as many new blocks as
    /// usual.
    fn is_small_full(&self) -> bool {
        let selective = self.admission.selective && self.admission.requests > 0;
        let share = if selective { u64::from(ADMITTED_ONE_IN) } else { 1 };
        self.small_bytes >= self.small_bytes_max / share
    }

    /// Removes the oldest blocks of the small queue: moves them to the main queue until one block
    /// is evicted.
    fn evict_small(&mut self, uses: Uses<'_>) -> Option<u32> {
        while self.small.tail() != NIL {
            let slot = self.small.tail();
            self.remove(slot);
            self.count(slot, uses(slot));
            if self.metas[slot as usize].wanted {
                self.admission.count(self.uses[slot as usize] > 0);
            }
            if self.uses[slot as usize] <= USES_TO_STAY {
                let meta = self.metas[slot as usize];
                self.ghost.remember(meta.hash, meta.charge_bytes);
                return Some(slot);
            }
            self.push_main(slot);
            if self.main_bytes > self.main_bytes_max {
                return self.evict_main(uses);
            }
        }
        None
    }

    fn evict_main(&mut self, uses: Uses<'_>) -> Option<u32> {
        loop {
            let slot = self.main.tail();
            if slot == NIL {
                return None;
            }
            self.main.remove(&mut self.links, slot);
            self.count(slot, uses(slot));
            if self.uses[slot as usize] == 0 {
                self.main_bytes -= self.metas[slot as usize].charge_bytes;
                return Some(slot);
            }
            self.uses[slot as usize] -= 1;
            self.main.push(&mut self.links, slot);
        }
    }
}

impl Policy for S3Fifo {
    fn set_capacity(&mut self, bytes: u64) {
        self.small_bytes_max = bytes / SMALL_ONE_IN;
        self.main_bytes_max = bytes - self.small_bytes_max;
        self.ghost.set_capacity(self.main_bytes_max);
    }

    fn wants(&mut self, hash: u64, charge_bytes: u64) -> bool {
        let wanted = self.ghost.knows(hash) || self.admission.admits();
        if wanted {
            self.admission.pending = Some(hash);
        } else {
            self.ghost.remember(hash, charge_bytes);
        }
        wanted
    }

    fn admit(&mut self, slot: u32, hash: u64, charge_bytes: u64) {
        self.links.reserve(slot);
        if slot as usize >= self.metas.len() {
            self.metas.resize(slot as usize + 1, Meta::default());
            self.uses.resize(slot as usize + 1, 0);
        }
        let wanted = self.admission.pending.take_if(|pending| *pending == hash).is_some();
        self.metas[slot as usize] = Meta { hash, charge_bytes, in_main: false, wanted };
        if self.ghost.remove(hash) {
            self.push_main(slot);
        } else {
            self.uses[slot as usize] = 0;
            self.small_bytes += charge_bytes;
            self.small.push(&mut self.links, slot);
        }
    }

    fn hit(&mut self, slot: u32) {
        self.count(slot, 1);
    }

    fn forget(&mut self, slot: u32) {
        self.remove(slot);
    }

    fn evict(&mut self, uses: Uses<'_>) -> Option<u32> {
        if self.is_small_full() {
            self.evict_small(uses).or_else(|| self.evict_main(uses))
        } else {
            // The small queue may move all its blocks to the main queue and evict none.
            self.evict_main(uses)
                .or_else(|| self.evict_small(uses))
                .or_else(|| self.evict_main(uses))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_full_main_queue_evicts_nothing() {
        let mut queues = S3Fifo::default();
        queues.set_capacity(100);
        queues.admit(0, 10, 90);
        queues.admit(1, 11, 10);
        queues.hit(0);
        queues.hit(0);
        assert_eq!(queues.evict(&|_| 0), Some(1), "the other block did not move to the main queue");
        assert_eq!((queues.small_bytes, queues.main_bytes), (0, 90));
        // One more byte in the main queue evicts its oldest block.
        queues.admit(1, 12, 11);
        queues.hit(1);
        queues.hit(1);
        assert_eq!(queues.evict(&|_| 0), Some(0));
        assert_eq!((queues.small_bytes, queues.main_bytes), (0, 11));
    }

    #[test]
    fn each_queue_counts_its_bytes() {
        let mut queues = S3Fifo::default();
        queues.set_capacity(1000);
        let (mut held, mut both) = (Vec::new(), 0);
        for round in 0..2000u64 {
            let slot = (round % 64) as u32;
            match held.iter().position(|s| *s == slot) {
                Some(_) if round % 7 < 5 => queues.hit(slot),
                Some(at) if round % 7 == 5 => queues.forget(held.swap_remove(at)),
                Some(_) => {
                    let gone = queues.evict(&|slot| (slot % 3) as u8).unwrap();
                    held.retain(|s| *s != gone);
                }
                None => {
                    queues.admit(slot, round % 97, 10 + round % 30);
                    held.push(slot);
                }
            }
            let bytes = |in_main: bool| -> u64 {
                let metas = held.iter().map(|s| queues.metas[*s as usize]);
                metas.filter(|m| m.in_main == in_main).map(|m| m.charge_bytes).sum()
            };
            assert_eq!((queues.small_bytes, queues.main_bytes), (bytes(false), bytes(true)));
            both += u32::from(bytes(false) > 0 && bytes(true) > 0);
        }
        assert!(both > 100, "{both}");
    }
}
