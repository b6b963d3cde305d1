//! What a store was told, as an oracle: the digest of its content after every batch, and how many
//! batches it acknowledged and promised to keep.
//!
//! What stays true: `durable <= acknowledged <= attempted`; a digest is the sum over all pairs, so
//! it does not depend on their order and is kept up to date pair by pair.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use esker::base::checksum::checksum_parts;

/// Keys of writes that are in no log begin with this; the prefix promise is not theirs.
pub const WEAK_PREFIX: &[u8] = b"weak/";

/// The digest of a set of pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Digest(u128);

impl Digest {
    fn of(key: &[u8], value: &[u8]) -> u128 {
        let half = |seed| checksum_parts(&[&(key.len() as u64).to_le_bytes(), key, value], seed);
        u128::from(half(1)) << 64 | u128::from(half(2))
    }

    /// With one more pair.
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
    /// Delete every key from the first up to the second.
    DeleteRange(Vec<u8>, Vec<u8>),
}

/// A checkpoint that was asked for.
#[derive(Debug, Clone)]
pub struct CheckpointNote {
    /// Its directory.
    pub dir: PathBuf,
    /// The batches it must hold.
    pub index: usize,
    /// Whether the call returned `Ok`.
    pub done: bool,
}

/// How far a store had come at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// Batches that survive a power failure.
    pub durable: usize,
    /// Batches that survive the death of the process.
    pub acknowledged: usize,
    /// Batches that may be there.
    pub attempted: usize,
    /// How many checkpoints had been asked for, and how many of those were done.
    pub checkpoints: (usize, usize),
}

/// See the module.
#[derive(Clone, Default)]
pub struct Ledger {
    map: BTreeMap<Vec<u8>, Vec<u8>>,
    digest: Digest,
    /// The digest after that many batches.
    states: Vec<Digest>,
    /// Every pair of an unlogged write there ever was.
    weak: BTreeSet<(Vec<u8>, Vec<u8>)>,
    /// Contents that a batch which failed would have made, and after how many batches.
    failed: Vec<(usize, Digest)>,
    /// The checkpoints asked for.
    pub checkpoints: Vec<CheckpointNote>,
    /// How far it has come.
    pub bounds: Bounds,
}

impl Ledger {
    /// A ledger that begins with these pairs, all durable.
    pub fn new(pairs: &[(Vec<u8>, Vec<u8>)]) -> Ledger {
        let mut ledger = Ledger::default();
        for (key, value) in pairs {
            ledger.digest.add(key, value);
            ledger.map.insert(key.clone(), value.clone());
        }
        ledger.states.push(ledger.digest);
        ledger
    }

    /// The ledger of a store recovered with these pairs, which knows the unlogged pairs of this one.
    pub fn recovered(&self, pairs: &[(Vec<u8>, Vec<u8>)]) -> Ledger {
        let logged = |(key, _): &&(Vec<u8>, Vec<u8>)| !key.starts_with(WEAK_PREFIX);
        let logged: Vec<_> = pairs.iter().filter(logged).cloned().collect();
        Ledger { weak: self.weak.clone(), ..Ledger::new(&logged) }
    }

    /// The digest of the content now.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The content now.
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

    /// A batch is about to be written.
    pub fn attempt(&mut self, ops: &[Op]) {
        self.apply(ops);
        self.states.truncate(self.bounds.acknowledged + 1);
        self.states.push(self.digest);
        self.bounds.attempted = self.bounds.acknowledged + 1;
    }

    /// The batch attempted last was acknowledged.
    pub fn acknowledge(&mut self, synced: bool) {
        self.bounds.acknowledged = self.bounds.attempted;
        if synced {
            self.bounds.durable = self.bounds.acknowledged;
        }
    }

    /// The batch attempted last failed: it is not in the store, but a crash may bring it back.
    pub fn fail(&mut self, before: &Ledger) {
        self.failed.push((self.bounds.acknowledged, self.digest));
        self.map = before.map.clone();
        self.digest = before.digest;
    }

    /// Everything acknowledged so far survives a power failure from now on.
    pub fn all_durable(&mut self) {
        self.bounds.durable = self.bounds.acknowledged;
    }

    /// A pair was written that is in no log.
    pub fn weak(&mut self, key: &[u8], value: &[u8]) {
        self.weak.insert((key.to_vec(), value.to_vec()));
    }

    /// Whether this pair of an unlogged write was ever written.
    pub fn knows_weak(&self, key: &[u8], value: &[u8]) -> bool {
        self.weak.contains(&(key.to_vec(), value.to_vec()))
    }

    /// After how many batches the store held what `digest` says, the number nearest to `most`
    /// first.
    pub fn index_of(&self, digest: Digest, least: usize, most: usize) -> Option<usize> {
        let most = most.min(self.states.len() - 1);
        let inside = (least..=most).rev().find(|i| self.states[*i] == digest);
        inside.or_else(|| self.states.iter().rposition(|s| *s == digest))
    }

    /// Whether this content is that of a failed batch on top of at least `least` others.
    pub fn is_failed_batch(&self, digest: Digest, least: usize) -> bool {
        self.failed.iter().any(|(index, d)| *d == digest && *index >= least)
    }
}
