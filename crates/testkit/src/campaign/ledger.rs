//! The record of a store's writes, as an oracle: the digest of the content after every batch, and
//! the numbers of acknowledged and durable batches.
//!
//! Invariants: `durable <= acknowledged <= attempted`. A digest is the sum over all pairs, so it
//! does not depend on their order and is updated pair by pair.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use esker::internals::checksum_parts;

/// Prefix of the keys of unlogged writes. The prefix guarantee does not apply to these writes.
pub const UNLOGGED_PREFIX: &[u8] = b"weak/";

/// The digest of a set of pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Digest(u128);

impl Digest {
    fn of(key: &[u8], value: &[u8]) -> u128 {
        let half = |seed| checksum_parts(&[&(key.len() as u64).to_le_bytes(), key, value], seed);
        u128::from(half(1)) << 64 | u128::from(half(2))
    }

    /// Adds a pair.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        self.0 = self.0.wrapping_add(Digest::of(key, value));
    }

    fn remove(&mut self, key: &[u8], value: &[u8]) {
        self.0 = self.0.wrapping_sub(Digest::of(key, value));
    }
}

/// One operation of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Set a key.
    Put(Vec<u8>, Vec<u8>),
    /// Delete a key.
    Delete(Vec<u8>),
    /// Delete every key from the first, inclusive, to the second, exclusive.
    DeleteRange(Vec<u8>, Vec<u8>),
}

/// A requested checkpoint.
#[derive(Debug, Clone)]
pub struct CheckpointNote {
    /// Its directory.
    pub dir: PathBuf,
    /// Number of batches that it must hold.
    pub index: usize,
    /// Whether the call returned `Ok`.
    pub done: bool,
}

/// The progress of a store at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// Number of batches that survive a power failure.
    pub durable: usize,
    /// Number of batches that survive the death of the process.
    pub acknowledged: usize,
    /// Number of batches that may be present.
    pub attempted: usize,
    /// Numbers of requested checkpoints and of completed ones.
    pub checkpoints: (usize, usize),
}

/// The record of a store's writes; see the module.
#[derive(Clone, Default)]
pub struct Ledger {
    map: BTreeMap<Vec<u8>, Vec<u8>>,
    digest: Digest,
    /// The digest after each number of batches.
    states: Vec<Digest>,
    /// Every pair of an unlogged write so far.
    unlogged: BTreeSet<(Vec<u8>, Vec<u8>)>,
    /// Number of batches before each failed batch, and the digest that the failed batch would have
    /// made.
    failed: Vec<(usize, Digest)>,
    /// The requested checkpoints.
    pub checkpoints: Vec<CheckpointNote>,
    /// The store's progress.
    pub bounds: Bounds,
}

impl Ledger {
    /// Creates a ledger that begins with these pairs, all durable.
    pub fn new(pairs: &[(Vec<u8>, Vec<u8>)]) -> Ledger {
        let mut ledger = Ledger::default();
        for (key, value) in pairs {
            ledger.digest.add(key, value);
            ledger.map.insert(key.clone(), value.clone());
        }
        ledger.states.push(ledger.digest);
        ledger
    }

    /// Returns the ledger of a store recovered with these pairs. It keeps the unlogged pairs of
    /// this ledger.
    pub fn recovered(&self, pairs: &[(Vec<u8>, Vec<u8>)]) -> Ledger {
        let logged = |(key, _): &&(Vec<u8>, Vec<u8>)| !key.starts_with(UNLOGGED_PREFIX);
        let logged: Vec<_> = pairs.iter().filter(logged).cloned().collect();
        Ledger { unlogged: self.unlogged.clone(), ..Ledger::new(&logged) }
    }

    /// Returns the digest of the current content.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns the current content.
    pub fn pairs(&self) -> &BTreeMap<Vec<u8>, Vec<u8>> {
        &self.map
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.delete(key);
        self.digest.add(key, value);
        self.map.insert(key.to_vec(), value.to_vec());
    }

    fn delete(&mut self, key: &[u8]) {
        if let Some(old) = self.map.remove(key) {
            self.digest.remove(key, &old);
        }
    }

    fn apply(&mut self, ops: &[Op]) {
        for op in ops {
            match op {
                Op::Put(key, value) => self.put(key, value),
                Op::Delete(key) => self.delete(key),
                Op::DeleteRange(lo, hi) if lo < hi => {
                    let gone = self.map.range(lo.clone()..hi.clone());
                    let gone: Vec<Vec<u8>> = gone.map(|(k, _)| k.clone()).collect();
                    gone.iter().for_each(|key| self.delete(key));
                }
                Op::DeleteRange(..) => {}
            }
        }
    }

    /// Records the start of a batch.
    pub fn attempt(&mut self, ops: &[Op]) {
        self.apply(ops);
        self.states.truncate(self.bounds.acknowledged + 1);
        self.states.push(self.digest);
        self.bounds.attempted = self.bounds.acknowledged + 1;
    }

    /// Records that the last attempted batch was acknowledged.
    pub fn acknowledge(&mut self, synced: bool) {
        self.bounds.acknowledged = self.bounds.attempted;
        if synced {
            self.bounds.durable = self.bounds.acknowledged;
        }
    }

    /// Records that the last attempted batch failed. It is not in the store, but a crash may
    /// restore it.
    pub fn fail(&mut self, before: &Ledger) {
        self.failed.push((self.bounds.acknowledged, self.digest));
        self.map = before.map.clone();
        self.digest = before.digest;
    }

    /// Records that everything acknowledged so far survives a power failure.
    pub fn all_durable(&mut self) {
        self.bounds.durable = self.bounds.acknowledged;
    }

    /// Records an unlogged pair.
    pub fn unlogged(&mut self, key: &[u8], value: &[u8]) {
        self.unlogged.insert((key.to_vec(), value.to_vec()));
    }

    /// Returns whether this pair of an unlogged write was ever written.
    pub fn knows_unlogged(&self, key: &[u8], value: &[u8]) -> bool {
        self.unlogged.contains(&(key.to_vec(), value.to_vec()))
    }

    /// Returns a number of batches after which the store held the content of `digest`: the largest
    /// from `least` to `most`, or else the largest overall.
    pub fn index_of(&self, digest: Digest, least: usize, most: usize) -> Option<usize> {
        let most = most.min(self.states.len() - 1);
        let inside = (least..=most).rev().find(|i| self.states[*i] == digest);
        inside.or_else(|| self.states.iter().rposition(|s| *s == digest))
    }

    /// Returns whether this content is that of a failed batch after at least `least` others.
    pub fn is_failed_batch(&self, digest: Digest, least: usize) -> bool {
        self.failed.iter().any(|(index, d)| *d == digest && *index >= least)
    }
}
