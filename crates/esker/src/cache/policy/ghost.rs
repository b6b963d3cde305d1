//! The ghost queue: hashes of blocks that recently left a queue. It is an unordered hash table that
//! stores, with each hash, the total bytes of all blocks that left earlier.
//!
//! Invariant: a hash is remembered while its block and all later blocks total at most the capacity.
//! Exceptions: a removed hash, and the oldest hash of a full line, are forgotten earlier.
//!
//! A line of hashes fills one processor cache line, so that adding and removing cost one
//! memory access each. (The S3-FIFO paper proposes a table with arrival times instead of a
//! queue.)

/// Hashes per line.
const WAYS: usize = 4;
/// Size of the table relative to the expected number of hashes. A table of this size no longer
/// grows: full lines then lose their oldest hash.
const CAPACITY_FACTOR: u64 = 2;
/// Number of recent blocks from which the mean block size is estimated.
const RECENT_BLOCKS: u64 = 1 << 12;
/// Value of `before_bytes` for a forgotten hash.
const FORGOTTEN: u64 = u64::MAX;

#[derive(Clone, Copy)]
struct GhostRecord {
    hash: u64,
    /// Total bytes of all blocks that were added earlier, or [`FORGOTTEN`].
    before_bytes: u64,
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([GhostRecord; WAYS]);

impl Line {
    const EMPTY: Line = Line([GhostRecord { hash: 0, before_bytes: FORGOTTEN }; WAYS]);
}

/// The ghost queue.
#[derive(Default)]
pub(super) struct Ghost {
    /// Empty, or a power of two of lines.
    lines: Vec<Line>,
    /// Total bytes of all blocks ever added.
    bytes: u64,
    bytes_max: u64,
    /// Number of recent blocks and their total bytes, for the mean block size.
    recent: (u64, u64),
}

impl Ghost {
    /// Sets the capacity: the total bytes of the blocks whose hashes are remembered. Frees the
    /// table if it is more than four times as large as the expected number of hashes requires.
    pub(super) fn set_capacity(&mut self, bytes: u64) {
        self.bytes_max = bytes;
        if (self.lines.len() * WAYS) as u128 > 4 * u128::from(CAPACITY_FACTOR) * self.expected() {
            self.lines = Vec::new();
        }
    }

    /// Remembers the hash of a block of `charge_bytes` as the newest.
    pub(super) fn remember(&mut self, hash: u64, charge_bytes: u64) {
        let newest = GhostRecord { hash, before_bytes: self.bytes };
        self.bytes += charge_bytes;
        let (count, bytes) = self.recent;
        let kept = if count < RECENT_BLOCKS { (count, bytes) } else { (count / 2, bytes / 2) };
        self.recent = (kept.0 + 1, kept.1 + charge_bytes);
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

    /// Returns whether the hash is remembered.
    pub(super) fn knows(&self, hash: u64) -> bool {
        self.find(hash).is_some()
    }

    /// Forgets the hash and returns whether it was remembered.
    pub(super) fn remove(&mut self, hash: u64) -> bool {
        let Some(way) = self.find(hash) else { return false };
        let line = self.line(hash);
        self.lines[line].0[way].before_bytes = FORGOTTEN;
        true
    }

    /// Returns the line number of a hash. Meaningless while the table is empty.
    fn line(&self, hash: u64) -> usize {
        hash as usize & self.lines.len().wrapping_sub(1)
    }

    fn is_recent(&self, record: &GhostRecord) -> bool {
        record.before_bytes != FORGOTTEN && self.bytes - record.before_bytes <= self.bytes_max
    }

    /// Returns the position of a remembered hash in its line.
    fn find(&self, hash: u64) -> Option<usize> {
        let line = self.lines.get(self.line(hash))?;
        line.0.iter().position(|record| record.hash == hash && self.is_recent(record))
    }

    /// Returns a position for a hash in its line at which no other hash is lost.
    fn place(&self, hash: u64) -> Option<usize> {
        let line = self.lines.get(self.line(hash))?;
        self.find(hash).or_else(|| line.0.iter().position(|record| !self.is_recent(record)))
    }

    /// Returns the expected number of hashes: the capacity divided by the mean block size.
    fn expected(&self) -> u128 {
        let (count, bytes) = self.recent;
        u128::from(self.bytes_max) * u128::from(count) / u128::from(bytes.max(1))
    }

    /// Doubles the number of lines if the table is too small for the expected number of hashes.
    /// Returns whether it did.
    fn grow(&mut self) -> bool {
        if (self.lines.len() * WAYS) as u128 >= u128::from(CAPACITY_FACTOR) * self.expected().max(1)
        {
            return false;
        }
        // The hashes of each line are split between two lines and keep their position in the line.
        let before = self.lines.len();
        self.lines.resize(2 * before.max(1), Line::EMPTY);
        for at in 0..before {
            for way in 0..WAYS {
                let record = self.lines[at].0[way];
                let line = self.line(record.hash);
                if line != at && record.before_bytes != FORGOTTEN {
                    self.lines[line].0[way] = record;
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
    fn remembers_hashes_up_to_capacity() {
        let mut ghost = Ghost::default();
        ghost.set_capacity(100);
        ghost.remember(1, 60);
        ghost.remember(2, 40);
        assert!(
            ghost.find(1).is_some() && ghost.find(2).is_some(),
            "the ghost list did not use its full capacity"
        );
        ghost.remember(3, 40);
        assert!(!ghost.remove(1), "the oldest key was kept");
        assert!(ghost.remove(2) && ghost.remove(3));
        assert!(!ghost.remove(2), "a removed key was kept");
        ghost.remember(4, 101);
        assert!(!ghost.remove(4), "a key larger than the list was kept");
        ghost.set_capacity(0);
        ghost.remember(5, 1);
        assert!(!ghost.remove(5) && ghost.lines.is_empty());
    }

    #[test]
    fn growth_keeps_hashes_and_small_capacity_keeps_few() {
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
        // Blocks of a thousandth of the capacity: as many lines as before, once the mean size
        // adapts.
        ghost.set_capacity(1_000_000);
        for hash in 0..40_000 {
            ghost.remember(hash, 1_000);
        }
        let room = ghost.lines.len() * WAYS;
        assert!((1_000..=4_000).contains(&room), "{room}");
    }

    /// Compares the ghost with an exact queue, with recurring hashes and blocks of many sizes. The
    /// ghost remembers no hash that the queue lacks, and nearly all hashes that the queue has.
    #[test]
    fn remembers_like_fifo_queue_except_few_oldest() {
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
                let removed = ghost.remove(hash);
                assert!(there.is_some() || !removed, "the ghost list returned an unknown key");
                known += u32::from(there.is_some());
                forgotten += u32::from(there.is_some() && !removed);
                // A removed hash still counts towards the bytes, as in the ghost.
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
