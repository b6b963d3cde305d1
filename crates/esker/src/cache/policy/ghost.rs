//! Which blocks left a queue lately, by their hashes; kept as how much left before each, in no order.
//!
//! What stays true: a hash is remembered as long as it and what came after it are together no larger
//! than the capacity, unless it is recalled, or is the oldest in a line that is full.
//!
//! A line of hashes is one of the processor's cache, so that remembering and recalling wait for memory
//! once each. (Instead of a queue, the paper on S3-FIFO proposes a table with the times of arrival.)

/// Hashes in a line.
const WAYS: usize = 4;
/// There is room for so many times the hashes that are to be expected, before full lines lose one.
const ROOM: u64 = 2;
/// So many blocks tell how large one is.
const LATELY: u64 = 1 << 12;
/// Before all others, and so never lately.
const NEVER: u64 = u64::MAX;

#[derive(Clone, Copy)]
struct Memory {
    hash: u64,
    /// What all that came before amounts to, or [`NEVER`].
    before_bytes: u64,
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([Memory; WAYS]);

impl Line {
    const EMPTY: Line = Line([Memory { hash: 0, before_bytes: NEVER }; WAYS]);
}

/// The hashes.
#[derive(Default)]
pub(super) struct Ghost {
    /// None yet, or a power of two.
    lines: Vec<Line>,
    /// What all that ever came amounts to.
    bytes: u64,
    bytes_max: u64,
    /// Blocks that came lately, and their bytes: for how large one is.
    lately: (u64, u64),
}

impl Ghost {
    /// Hashes of blocks of so many bytes, together, are remembered.
    pub(super) fn set_capacity(&mut self, bytes: u64) {
        self.bytes_max = bytes;
        if (self.lines.len() * WAYS) as u128 > 4 * u128::from(ROOM) * self.expected() {
            self.lines = Vec::new();
        }
    }

    /// Remembers the hash of a block of so many bytes, as the newest.
    pub(super) fn remember(&mut self, hash: u64, charge_bytes: u64) {
        let newest = Memory { hash, before_bytes: self.bytes };
        self.bytes += charge_bytes;
        let (count, bytes) = self.lately;
        let kept = if count < LATELY { (count, bytes) } else { (count / 2, bytes / 2) };
        self.lately = (kept.0 + 1, kept.1 + charge_bytes);
        if charge_bytes > self.bytes_max {
            return;
        }
        let mut at = self.place(hash);
        while at.is_none() && self.grow() {
            at = self.place(hash);
        }
        let line = self.line(hash);
        let oldest = || (0..WAYS).min_by_key(|&way| self.lines[line].0[way].before_bytes);
        if let Some(way) = at.or_else(oldest) {
            self.lines[line].0[way] = newest;
        }
    }

    /// Whether the hash is remembered.
    pub(super) fn knows(&self, hash: u64) -> bool {
        self.find(hash).is_some()
    }

    /// Whether the hash is remembered; forgets it.
    pub(super) fn recall(&mut self, hash: u64) -> bool {
        let Some(way) = self.find(hash) else { return false };
        let line = self.line(hash);
        self.lines[line].0[way].before_bytes = NEVER;
        true
    }

    /// Which line a hash is in, if there are any.
    fn line(&self, hash: u64) -> usize {
        hash as usize & self.lines.len().wrapping_sub(1)
    }

    fn is_lately(&self, memory: &Memory) -> bool {
        memory.before_bytes != NEVER && self.bytes - memory.before_bytes <= self.bytes_max
    }

    /// Where in its line a hash is that is remembered.
    fn find(&self, hash: u64) -> Option<usize> {
        let line = self.lines.get(self.line(hash))?;
        line.0.iter().position(|memory| memory.hash == hash && self.is_lately(memory))
    }

    /// Where in its line a hash may be put without another being forgotten.
    fn place(&self, hash: u64) -> Option<usize> {
        let line = self.lines.get(self.line(hash))?;
        self.find(hash).or_else(|| line.0.iter().position(|memory| !self.is_lately(memory)))
    }

    /// How many hashes there will be.
    fn expected(&self) -> u128 {
        let (count, bytes) = self.lately;
        u128::from(self.bytes_max) * u128::from(count) / u128::from(bytes.max(1))
    }

    /// Twice as many lines, if there are too few for what is to be expected.
    fn grow(&mut self) -> bool {
        if (self.lines.len() * WAYS) as u128 >= u128::from(ROOM) * self.expected().max(1) {
            return false;
        }
        // What was in one line is now in two, at the place where it was.
        let before = self.lines.len();
        self.lines.resize(2 * before.max(1), Line::EMPTY);
        for at in 0..before {
            for way in 0..WAYS {
                let memory = self.lines[at].0[way];
                let line = self.line(memory.hash);
                if line != at && memory.before_bytes != NEVER {
                    self.lines[line].0[way] = memory;
                    self.lines[at].0[way] = Line::EMPTY.0[way];
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn as_much_is_remembered_as_there_is_room_for_and_no_more() {
        let mut ghost = Ghost::default();
        ghost.set_capacity(100);
        ghost.remember(1, 60);
        ghost.remember(2, 40);
        assert!(ghost.find(1).is_some() && ghost.find(2).is_some(), "it is full to the last byte");
        ghost.remember(3, 40);
        assert!(!ghost.recall(1), "the oldest is forgotten");
        assert!(ghost.recall(2) && ghost.recall(3));
        assert!(!ghost.recall(2), "what was recalled is forgotten");
        ghost.remember(4, 101);
        assert!(!ghost.recall(4), "it is larger than all that is remembered");
        ghost.set_capacity(0);
        ghost.remember(5, 1);
        assert!(!ghost.recall(5) && ghost.lines.is_empty());
    }

    #[test]
    fn nothing_is_lost_when_lines_become_more_and_few_are_kept_for_little() {
        let mut ghost = Ghost::default();
        ghost.set_capacity(1_000);
        for hash in 0..1_000 {
            ghost.remember(hash, 1);
            assert!((0..=hash).all(|known| ghost.knows(known)), "{hash}");
        }
        let lines = ghost.lines.len();
        assert!(lines * WAYS >= 1_000);
        ghost.set_capacity(600);
        assert!(ghost.lines.len() == lines && !ghost.knows(399) && ghost.knows(400));
        ghost.set_capacity(10);
        assert!(ghost.lines.is_empty() && !ghost.knows(0));
        // Blocks of a thousandth: as many lines as before, when that is noticed.
        ghost.set_capacity(1_000_000);
        for hash in 0..40_000 {
            ghost.remember(hash, 1_000);
        }
        let room = ghost.lines.len() * WAYS;
        assert!((1_000..=4_000).contains(&room), "{room}");
    }

    /// Beside a queue, with hashes that come back and blocks of every size: nothing is remembered that
    /// the queue does not know, and nearly all that it knows is.
    #[test]
    fn it_remembers_what_a_queue_would_but_for_a_few_of_the_oldest() {
        let mut ghost = Ghost::default();
        ghost.set_capacity(1_000_000);
        let mut queue: VecDeque<(u64, u64)> = VecDeque::new();
        let (mut seed, mut known, mut forgotten) = (7u64, 0, 0);
        for round in 0..200_000 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let hash = (seed >> 40).wrapping_mul(0x9E37_79B9_7F4A_7C15) % 4_000;
            if round % 3 == 0 {
                let there = queue.iter().position(|one| one.0 == hash);
                let recalled = ghost.recall(hash);
                assert!(there.is_some() || !recalled, "it remembers what nobody told it");
                known += u32::from(there.is_some());
                forgotten += u32::from(there.is_some() && !recalled);
                // A place that was recalled goes on counting, as the ghost's does.
                if let Some(at) = there {
                    queue[at].0 = u64::MAX;
                }
            } else {
                let charge_bytes = 200 + (seed >> 20) % 2_000;
                queue.iter_mut().filter(|one| one.0 == hash).for_each(|one| one.0 = u64::MAX);
                queue.push_back((hash, charge_bytes));
                while queue.iter().map(|one| one.1).sum::<u64>() > 1_000_000 {
                    queue.pop_front();
                }
                ghost.remember(hash, charge_bytes);
            }
        }
        assert!(known > 5_000, "{known}");
        assert!(forgotten * 20 < known, "{forgotten} of {known}");
        let room = ghost.lines.len() * WAYS;
        assert!((1_000..=4_096).contains(&room), "{room} places for some 830 blocks");
    }
}
