//! S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi, SOSP 2023): two queues in order of arrival and a memory
//! of what left the first.
//!
//! A new block enters the small queue (a tenth of the capacity). At its end it moves to the main
//! queue if it was used more than once; otherwise it leaves and its hash is remembered in the ghost
//! queue, which spans as many bytes as the main one. A block that returns while remembered enters
//! the main queue at once. The main queue gives a block one more round per use, up to three. So a
//! scan passes through the small queue and never disturbs the rest.
//!
//! Where hardly a block is used again while in the small queue, taking each in costs more than it saves
//! ([`Policy::wants`]): then most are remembered as if they had left already, and one of a few goes
//! through a small queue as much smaller, and so shows when that changes. (Ours, not the paper's.)

use super::ghost::Ghost;
use super::list::{Links, List, NIL};
use super::{Policy, Uses};

/// Uses are counted up to this.
const USES_MAX: u8 = 3;
/// A block used more often than this while in the small queue moves to the main one.
const USES_TO_STAY: u8 = 1;
/// The small queue's part of the capacity: one in this many bytes.
const SMALL_ONE_IN: u64 = 10;

/// While new blocks are not worth their place, one in so many is taken in all the same.
const TAKEN_ONE_IN: u32 = 8;
/// They are not worth it when no more than one in so many was used in the small queue,
const USED_ONE_IN: u32 = 16;
/// and are worth it again when more than one in so many was.
const USED_AGAIN_ONE_IN: u32 = 12;
/// So many blocks decide that were asked about and have left the small queue.
const DECIDED_BY: u32 = 128;

/// What is kept for a slot beside its links.
#[derive(Clone, Copy, Default)]
struct Meta {
    hash: u64,
    charge_bytes: u64,
    in_main: bool,
    /// Whether it was wanted when there was no room: not taken in unasked.
    wanted: bool,
}

/// The three queues.
#[derive(Default)]
pub(super) struct S3Fifo {
    links: Links,
    small: List,
    main: List,
    small_bytes: u64,
    main_bytes: u64,
    small_bytes_max: u64,
    main_bytes_max: u64,
    /// Apart from the rest: the only thing a hit touches.
    uses: Vec<u8>,
    metas: Vec<Meta>,
    ghost: Ghost,
    worth: Worth,
}

/// Whether new blocks are worth their place in the small queue.
#[derive(Default)]
struct Worth {
    /// Blocks that left the small queue lately, and how many of them had been used.
    left: u32,
    used: u32,
    /// Whether they are not.
    choosy: bool,
    /// How many the cache was asked about that it did not remember, since `left` began at 0.
    asked: u32,
    /// The last that was wanted and has not come yet.
    awaited: Option<u64>,
}

impl Worth {
    fn count(&mut self, used: bool) {
        self.left += 1;
        self.used += u32::from(used);
        if self.left < DECIDED_BY {
            return;
        }
        let one_in = if self.choosy { USED_AGAIN_ONE_IN } else { USED_ONE_IN };
        self.choosy = self.used * one_in <= self.left;
        (self.left, self.used, self.asked) = (0, 0, 0);
    }

    /// Whether a new block is to be taken in.
    fn takes(&mut self) -> bool {
        self.asked = self.asked.wrapping_add(1);
        !self.choosy || self.asked.is_multiple_of(TAKEN_ONE_IN)
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

    /// Whether the small queue is as large as it should be. Where few new blocks enter it, each stays for
    /// as many as came.
    fn is_small_full(&self) -> bool {
        let choosy = self.worth.choosy && self.worth.asked > 0;
        let share = if choosy { u64::from(TAKEN_ONE_IN) } else { 1 };
        self.small_bytes >= self.small_bytes_max / share
    }

    /// Lets the small queue's oldest go, to the main queue or out.
    fn evict_small(&mut self, uses: Uses<'_>) -> Option<u32> {
        while self.small.tail() != NIL {
            let slot = self.small.tail();
            self.remove(slot);
            self.count(slot, uses(slot));
            if self.metas[slot as usize].wanted {
                self.worth.count(self.uses[slot as usize] > 0);
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
        let wanted = self.ghost.knows(hash) || self.worth.takes();
        if wanted {
            self.worth.awaited = Some(hash);
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
        let wanted = self.worth.awaited.take_if(|awaited| *awaited == hash).is_some();
        self.metas[slot as usize] = Meta { hash, charge_bytes, in_main: false, wanted };
        if self.ghost.recall(hash) {
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
            // The small queue may hold nothing but what it moves to the main one.
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
    fn a_main_queue_that_is_full_to_the_last_byte_lets_nothing_go() {
        let mut queues = S3Fifo::default();
        queues.set_capacity(100);
        queues.admit(0, 10, 90);
        queues.admit(1, 11, 10);
        queues.hit(0);
        queues.hit(0);
        assert_eq!(queues.evict(&|_| 0), Some(1), "the other moved to the main queue");
        assert_eq!((queues.small_bytes, queues.main_bytes), (0, 90));
        // One byte more in the main queue, and its oldest goes.
        queues.admit(1, 12, 11);
        queues.hit(1);
        queues.hit(1);
        assert_eq!(queues.evict(&|_| 0), Some(0));
        assert_eq!((queues.small_bytes, queues.main_bytes), (0, 11));
    }

    #[test]
    fn each_queue_counts_the_bytes_it_holds() {
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
