//! Digests of a store's content: one for each keyspace, and for each span of time.
//!
//! Invariants: a digest is the sum over all pairs, so it does not depend on their order and is
//! updated pair by pair. A compaction filter changes no digest.

use std::collections::BTreeMap;

use esker::internals::checksum_parts;

use super::cell::{Cell, Span};
use super::keyspaces::{DEFAULT, PREPARED, seen};

/// Serial number of a keyspace in a ledger; 0 is the default keyspace.
pub type Serial = u32;

/// The digest of a set of pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Digest(u128);

impl Digest {
    fn of(key: &[u8], value: &[u8]) -> u128 {
        let half = |seed| checksum_parts(&[&(key.len() as u64).to_le_bytes(), key, value], seed);
        u128::from(half(1)) << 64 | u128::from(half(2))
    }

    /// Adds a pair. A pair that the compaction filter removes adds nothing, and one that it
    /// replaces adds what it becomes.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        if let Some(value) = seen(key, value) {
            self.0 = self.0.wrapping_add(Digest::of(key, &value));
        }
    }

    /// Removes a pair.
    fn remove(&mut self, key: &[u8], value: &[u8]) {
        if let Some(value) = seen(key, value) {
            self.0 = self.0.wrapping_sub(Digest::of(key, &value));
        }
    }
}

/// The digest of each keyspace, by name, also of those without a pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digests(BTreeMap<String, Digest>);

impl Default for Digests {
    /// Returns the digests of an empty store.
    fn default() -> Digests {
        Digests(BTreeMap::from([(DEFAULT.to_string(), Digest::default())]))
    }
}

impl Digests {
    /// Adds a pair.
    pub fn add(&mut self, name: &str, key: &[u8], value: &[u8]) {
        self.0.entry(name.to_string()).or_default().add(key, value);
    }

    /// Sets the digest of a keyspace.
    pub fn set(&mut self, name: &str, digest: Digest) {
        self.0.insert(name.to_string(), digest);
    }

    /// Returns the digest of a keyspace.
    pub fn of(&self, name: &str) -> Digest {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// Returns the names of the keyspaces, without the default one.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.0.keys().filter(|name| *name != DEFAULT && *name != PREPARED)
    }
}

/// The digests of the keyspaces with pairs. Pairs that are shown in the same span of time have one
/// digest, so the digest of a keyspace at any time is a sum of a few.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct State(BTreeMap<(Serial, Span), Digest>);

impl State {
    /// Adds the values that a key has over time.
    pub fn add(&mut self, serial: Serial, key: &[u8], cell: &Cell) {
        for (span, value) in cell.shown() {
            self.change(serial, span, |digest| digest.add(key, &value));
        }
    }

    /// Removes the values that a key has over time.
    pub fn remove(&mut self, serial: Serial, key: &[u8], cell: &Cell) {
        for (span, value) in cell.shown() {
            self.change(serial, span, |digest| digest.remove(key, &value));
        }
    }

    fn change(&mut self, serial: Serial, span: Span, change: impl FnOnce(&mut Digest)) {
        let digest = self.0.entry((serial, span)).or_default();
        change(digest);
        if *digest == Digest::default() {
            self.0.remove(&(serial, span));
        }
    }

    /// Returns the digest of a keyspace at a time.
    pub fn of(&self, serial: Serial, now_ms: u64) -> Digest {
        let all = self.0.range((serial, Span::FIRST)..);
        let own = all.take_while(|((other, _), _)| *other == serial);
        let shown = own.filter(|((_, span), _)| span.contains(now_ms));
        Digest(shown.fold(0, |sum, (_, digest)| sum.wrapping_add(digest.0)))
    }

    /// Keeps only the keyspaces with these serial numbers.
    pub fn retain(&mut self, is_kept: impl Fn(Serial) -> bool) {
        self.0.retain(|(serial, _), _| is_kept(*serial));
    }
}
