//! CLOCK (Corbató, "A Paging Experiment with the Multics System", 1969): the slots form a ring. A
//! hand moves along the ring. It skips each slot used since its last pass once, and evicts the
//! first unused slot.
//!
//! The evicted slot is the next slot to be filled, so a new block lies just behind the hand.

use super::{Policy, Uses};

/// State of a slot in the ring.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not held.
    Out,
    /// Held, unused since the last pass of the hand.
    Idle,
    /// Held and used since the last pass of the hand.
    Used,
}

/// The CLOCK policy: the ring and its hand.
#[derive(Default)]
pub(super) struct Clock {
    ring: Vec<State>,
    held: usize,
    hand: usize,
}

impl Policy for Clock {
    fn admit(&mut self, slot: u32, _hash: u64, _charge_bytes: u64) {
        if slot as usize >= self.ring.len() {
            self.ring.resize(slot as usize + 1, State::Out);
        }
        self.ring[slot as usize] = State::Idle;
        self.held += 1;
    }

    fn hit(&mut self, slot: u32) {
        self.ring[slot as usize] = State::Used;
    }

    fn forget(&mut self, slot: u32) {
        self.ring[slot as usize] = State::Out;
        self.held -= 1;
    }

    fn evict(&mut self, uses: Uses<'_>) -> Option<u32> {
        if self.held == 0 {
            return None;
        }
        loop {
            if self.hand >= self.ring.len() {
                self.hand = 0;
            }
            let slot = self.hand;
            self.hand += 1;
            match self.ring[slot] {
                State::Out => {}
                State::Idle if uses(slot as u32) > 0 => {}
                State::Used => self.ring[slot] = State::Idle,
                State::Idle => {
                    self.ring[slot] = State::Out;
                    self.held -= 1;
                    return Some(slot as u32);
                }
            }
        }
    }
}
