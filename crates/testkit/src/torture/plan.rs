//! The data to write: batch n of a writer is a function of the seed, the writer and n. The content
//! of a store after n of a writer's batches is therefore known.
//!
//! Invariants: a writer's keys belong to it alone. Every batch sets the writer's counter to its
//! number. Every value names its batch.

use std::collections::BTreeMap;

use esker::{Batch, Durability, Options, Policy};

use crate::campaign::ledger::Op;
use crate::campaign::script::{Theme, options};
use crate::rng::SplitMix64;

/// Maximum number of writers of a store.
pub const WRITERS_MAX: usize = 4;
/// Number of keys of a writer.
const KEYS: u64 = 260;

/// Returns the generator for a position in a plan.
pub fn rng_at(seed: u64, what: u64, n: u64) -> SplitMix64 {
    let mut mix = SplitMix64::new(seed ^ what.rotate_left(48) ^ n.rotate_left(20));
    SplitMix64::new(mix.next_u64() ^ n)
}

/// Returns the number of writers of this seed's store.
pub fn writers(seed: u64) -> usize {
    1 + rng_at(seed, 90, 0).below(3) as usize
}

/// Returns the options of this seed's store in a round. Every round differs.
pub fn options_of(seed: u64, round: u64) -> Options {
    let mut rng = rng_at(seed, 91, round);
    let policy = Policy::ALL[rng.below(Policy::ALL.len() as u64) as usize];
    let theme = Theme::ALL[rng.below(Theme::ALL.len() as u64) as usize];
    let mut options = options(policy, theme, rng.below(1 << 20));
    options.background_threads = Some([1, 2, 1, 0][rng.below(4) as usize]);
    options.sync_every_ms = [0, 0, 3][rng.below(3) as usize];
    options.scrub_bytes_per_second = [0, 0, 8 << 20][rng.below(3) as usize];
    options.verify_tables = !rng.chance(4);
    let sizes = [4 << 10, 8 << 10, 8 << 10, 64 << 10, 1 << 20];
    options.memtable_size_bytes = Some(sizes[rng.below(5) as usize]);
    options
}

/// Returns the key of a writer's counter.
pub fn counter_key(writer: usize) -> Vec<u8> {
    format!("w{writer}.last").into_bytes()
}

/// Returns the number in a counter or at the start of a value.
pub fn number_in(value: &[u8]) -> Option<u64> {
    value.first_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes))
}

fn key(rng: &mut SplitMix64, writer: usize) -> Vec<u8> {
    let n = rng.below(KEYS);
    let mut key = format!("w{writer}/{n:04}").into_bytes();
    if n.is_multiple_of(17) {
        key.resize(key.len() + 200, b'x');
    }
    key
}

fn value(rng: &mut SplitMix64, n: u64) -> Vec<u8> {
    let len = match rng.below(60) {
        0 => 0,
        1 => 3_000 + rng.below(6_000),
        _ => rng.below(150),
    };
    let mut value = vec![b'a' + rng.below(26) as u8; len as usize];
    if rng.chance(2) {
        rng.fill(&mut value);
    }
    value.splice(0..0, n.to_be_bytes());
    value
}

/// Returns the operations of batch `n` and its durability.
pub fn batch(seed: u64, writer: usize, n: u64) -> (Vec<Op>, Durability) {
    let mut rng = rng_at(seed, writer as u64, n);
    let count = if rng.chance(3) { 1 + rng.below(8) } else { 1 };
    let mut ops: Vec<Op> = (0..count).map(|_| one(&mut rng, writer, n)).collect();
    ops.push(Op::Put(counter_key(writer), n.to_be_bytes().to_vec()));
    let durability = if rng.chance(24) { Durability::Sync } else { Durability::Buffered };
    (ops, durability)
}

fn one(rng: &mut SplitMix64, writer: usize, n: u64) -> Op {
    let name = key(rng, writer);
    match rng.below(40) {
        0 => {
            let other = key(rng, writer);
            Op::DeleteRange(name.clone().min(other.clone()), name.max(other))
        }
        1..8 => Op::Delete(name),
        _ => Op::Put(name, value(rng, n)),
    }
}

/// Returns the operations as a batch for the store.
pub fn to_batch(ops: &[Op]) -> Batch {
    let mut batch = Batch::new();
    for op in ops {
        match op {
            Op::Put(key, value) => batch.put(key, value),
            Op::Delete(key) => batch.delete(key),
            Op::DeleteRange(lo, hi) => batch.delete_range(lo, hi),
        };
    }
    batch
}

/// Returns whether the batch named by `value` sets `key` to `value`.
pub fn wrote(seed: u64, writer: usize, key: &[u8], value: &[u8]) -> bool {
    let Some(n) = number_in(value) else { return false };
    let (ops, _) = batch(seed, writer, n);
    ops.iter().any(|op| matches!(op, Op::Put(k, v) if k == key && v == value))
}

/// The content of a writer's keys after a number of its batches.
#[derive(Debug, Clone)]
pub struct Model {
    seed: u64,
    writer: usize,
    /// Number of applied batches. Batches are counted from 1.
    pub at: u64,
    /// The pairs.
    pub pairs: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Model {
    /// Creates the state before the first batch.
    pub fn new(seed: u64, writer: usize) -> Model {
        Model { seed, writer, at: 0, pairs: BTreeMap::new() }
    }

    /// Returns the state after `n` batches, also for an earlier state.
    pub fn after(&self, n: u64) -> Model {
        let from_here = n >= self.at;
        let mut model = if from_here { self.clone() } else { Model::new(self.seed, self.writer) };
        model.advance(n);
        model
    }

    /// Advances the state to `n` batches.
    pub fn advance(&mut self, n: u64) {
        for next in self.at + 1..=n {
            let (ops, _) = batch(self.seed, self.writer, next);
            for op in ops {
                self.apply(op);
            }
        }
        self.at = self.at.max(n);
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Put(key, value) => drop(self.pairs.insert(key, value)),
            Op::Delete(key) => drop(self.pairs.remove(&key)),
            Op::DeleteRange(lo, hi) => {
                let gone = self.pairs.range(lo.clone()..hi.max(lo)).map(|(key, _)| key.clone());
                for key in gone.collect::<Vec<_>>() {
                    self.pairs.remove(&key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_reproduces_earlier_and_later_states() {
        let mut model = Model::new(3, 1);
        model.advance(40);
        let early = model.pairs.clone();
        model.advance(900);
        assert_ne!(model.pairs, early);
        assert_eq!(model.after(40).pairs, early);
        assert_eq!(model.after(40).after(900).pairs, model.pairs);
        assert_eq!(number_in(&model.pairs[&counter_key(1)]), Some(900));
    }

    #[test]
    fn value_matches_only_its_batch() {
        let mut model = Model::new(8, 0);
        model.advance(200);
        let (key, value) = model.pairs.iter().find(|(key, _)| key.starts_with(b"w0/")).unwrap();
        assert!(wrote(8, 0, key, value));
        assert!(!wrote(9, 0, key, value) && !wrote(8, 1, key, value));
        let mut other = value.clone();
        other.push(0);
        assert!(!wrote(8, 0, key, &other) && !wrote(8, 0, b"w0/none", value));
    }
}
