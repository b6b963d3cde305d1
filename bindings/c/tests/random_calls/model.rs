//! Model of the expected results of a store, its snapshots and its iterators.
//!
//! Invariant: pairs are in the store's order, which may be reversed.

use std::cmp::Ordering;

/// SplitMix64 generator. Each sequence has its own seed.
pub struct Rng(pub u64);

impl Rng {
    /// Returns the next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Returns true with a probability of 1 in `one_in`.
    pub fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    /// Returns a key from a small set of similar keys, including the empty key.
    pub fn key(&mut self) -> Vec<u8> {
        let len = self.below(4);
        let mut key: Vec<u8> = (0..len).map(|_| b"\0a\xfe\xff"[self.below(4)]).collect();
        if self.chance(12) {
            key.resize(key.len() + 300, b'k');
        }
        key
    }

    /// Returns a value: empty, short, or longer than a block.
    pub fn value(&mut self) -> Vec<u8> {
        let len = [0, 1, 9, 40, 40, 200, 5_000][self.below(7)];
        let letter = self.next() as u8;
        vec![letter; len]
    }
}

/// An operation of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
}

/// Content of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content {
    pub backwards: bool,
    pub pairs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Content {
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        if self.backwards { b.cmp(a) } else { a.cmp(b) }
    }

    fn place(&self, key: &[u8]) -> Result<usize, usize> {
        self.pairs.binary_search_by(|(k, _)| self.compare(k, key))
    }

    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.place(key).ok().map(|at| self.pairs[at].1.as_slice())
    }

    pub fn apply(&mut self, op: &Op) {
        match op {
            Op::Put(key, value) => match self.place(key) {
                Ok(at) => self.pairs[at].1.clone_from(value),
                Err(at) => self.pairs.insert(at, (key.clone(), value.clone())),
            },
            Op::Delete(key) => {
                if let Ok(at) = self.place(key) {
                    self.pairs.remove(at);
                }
            }
            Op::DeleteRange(start, end) => {
                let backwards = self.backwards;
                let order = |a: &[u8], b: &[u8]| if backwards { b.cmp(a) } else { a.cmp(b) };
                self.pairs.retain(|(key, _)| {
                    order(key, start) == Ordering::Less || order(key, end) != Ordering::Less
                });
            }
        }
    }

    /// Returns the pairs from `start` (inclusive) to `end` (exclusive).
    pub fn between(&self, start: Option<&[u8]>, end: Option<&[u8]>) -> Content {
        let inside = |key: &[u8]| {
            start.is_none_or(|start| self.compare(key, start) != Ordering::Less)
                && end.is_none_or(|end| self.compare(key, end) == Ordering::Less)
        };
        let pairs = self.pairs.iter().filter(|(key, _)| inside(key)).cloned().collect();
        Content { backwards: self.backwards, pairs }
    }
}

/// Model of an iterator: its content and position.
#[derive(Debug, Clone)]
pub struct IterModel {
    pub content: Content,
    pub at: Option<usize>,
}

impl IterModel {
    pub fn new(content: Content) -> IterModel {
        IterModel { content, at: None }
    }

    fn set(&mut self, at: usize) {
        self.at = (at < self.content.pairs.len()).then_some(at);
    }

    pub fn first(&mut self) {
        self.set(0);
    }

    pub fn last(&mut self) {
        self.set(self.content.pairs.len().wrapping_sub(1));
    }

    pub fn seek(&mut self, key: &[u8]) {
        self.set(self.content.place(key).unwrap_or_else(|at| at));
    }

    pub fn seek_for_prev(&mut self, key: &[u8]) {
        match self.content.place(key) {
            Ok(at) => self.set(at),
            Err(at) => self.set(at.wrapping_sub(1)),
        }
    }

    pub fn next(&mut self) {
        if let Some(at) = self.at {
            self.set(at + 1);
        }
    }

    pub fn prev(&mut self) {
        if let Some(at) = self.at {
            self.set(at.wrapping_sub(1));
        }
    }

    /// Returns the current key and value; both are empty if there is no position.
    pub fn pair(&self) -> (&[u8], &[u8]) {
        self.at.map_or((&[], &[]), |at| {
            let (key, value) = &self.content.pairs[at];
            (key, value)
        })
    }
}
