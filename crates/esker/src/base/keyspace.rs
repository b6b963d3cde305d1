//! Stored keys of keyspaces.
//!
//! The default keyspace stores its keys as they are, in tree 0. Every other keyspace has a number
//! and shares a tree with the keyspaces of the same storage options. There its keys begin with a
//! prefix of four bytes, made from its number. A prefix keeps the keys of a keyspace together and
//! costs a keyspace nothing while it is idle.
//!
//! Invariants:
//! 1. The prefix of keyspace `n` is `2n` as a big-endian number. No key has an odd prefix, so
//!    `2n + 1` is a bound between keyspace `n` and the next one in every key order.
//! 2. A number is never used again after its keyspace was dropped.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use super::keyspace_rules::KeyspaceRules;
use super::order::{Comparator, KeyOrder};
use super::sync::Mutex;
use super::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Number of a keyspace. 0 is the default keyspace.
pub type KeyspaceId = u32;

/// Number of a tree. 0 is the tree of the default keyspace.
pub type TreeId = u32;

/// Length of the prefix of a stored key, in bytes.
pub const PREFIX_BYTES: usize = 4;

/// The largest number of a keyspace.
pub const KEYSPACE_ID_MAX: KeyspaceId = (1 << 31) - 1;

/// Stored keys up to this length are built without an allocation.
const INLINE_BYTES: usize = 124;

/// Returns the prefix of the keys of keyspace `id`. It is also the least stored key of `id`.
#[inline]
pub fn prefix(id: KeyspaceId) -> [u8; PREFIX_BYTES] {
    (id << 1).to_be_bytes()
}

/// Returns the bound after all keys of keyspace `id`.
#[inline]
pub fn prefix_end(id: KeyspaceId) -> [u8; PREFIX_BYTES] {
    (id << 1 | 1).to_be_bytes()
}

/// Returns the keyspace of a stored key, or `None` for bytes that are no stored key.
#[inline]
pub fn keyspace_of(stored: &[u8]) -> Option<KeyspaceId> {
    let number = u32::from_be_bytes(*stored.first_chunk()?);
    (number & 1 == 0).then_some(number >> 1)
}

/// Bounds of keys.
type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Returns the bounds of stored keys for bounds of users' keys in keyspace `id`, which is not 0.
pub fn stored_bounds(id: KeyspaceId, bounds: Bounds) -> Bounds {
    let stored = |bound: Bound<Vec<u8>>, end: KeyspaceId| match bound {
        Bound::Unbounded => Bound::Excluded(prefix_end(end).to_vec()),
        bound => bound.map(|key| StoredKey::new(id, &key).as_slice().to_vec()),
    };
    (stored(bounds.0, id - 1), stored(bounds.1, id))
}

/// A stored key: the prefix of its keyspace, then the user's key.
pub struct StoredKey {
    inline: [u8; INLINE_BYTES],
    len: usize,
    long: Vec<u8>,
}

impl StoredKey {
    /// Builds the stored form of `key` in keyspace `id`.
    #[inline]
    pub fn new(id: KeyspaceId, key: &[u8]) -> StoredKey {
        let len = PREFIX_BYTES + key.len();
        let mut stored = StoredKey { inline: [0; INLINE_BYTES], len, long: Vec::new() };
        match stored.inline.get_mut(..len) {
            Some(place) => {
                place[..PREFIX_BYTES].copy_from_slice(&prefix(id));
                place[PREFIX_BYTES..].copy_from_slice(key);
            }
            None => stored.long = [&prefix(id)[..], key].concat(),
        }
        stored
    }

    /// Returns the bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        self.inline.get(..self.len).unwrap_or(&self.long)
    }
}

/// Place of an operation: a keyspace other than the default one, and its tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The tree of the keyspace, not 0.
    pub tree: TreeId,
    /// The keyspace, not 0.
    pub keyspace: KeyspaceId,
}

/// A keyspace other than the default one, as its handles and batches share it.
#[derive(Debug)]
pub struct KeyspaceState {
    /// Number of the keyspace, not 0.
    pub id: KeyspaceId,
    /// Number of its tree, not 0.
    pub tree: TreeId,
    /// Number of the store's opening, which tells the openings of one process apart.
    pub opening: u64,
    /// Its merge operator, time to live and compaction filter.
    pub rules: Arc<KeyspaceRules>,
    name: Mutex<Arc<str>>,
    dropped: AtomicBool,
}

impl KeyspaceState {
    /// Creates the state of a keyspace that exists.
    pub fn new(
        id: KeyspaceId,
        tree: TreeId,
        opening: u64,
        name: &str,
        rules: Arc<KeyspaceRules>,
    ) -> KeyspaceState {
        let (name, dropped) = (Mutex::new(Arc::from(name)), AtomicBool::new(false));
        KeyspaceState { id, tree, opening, rules, name, dropped }
    }

    /// Returns the name.
    pub fn name(&self) -> Arc<str> {
        self.name.lock().clone()
    }

    /// Sets another name.
    pub fn rename(&self, name: &str) {
        *self.name.lock() = Arc::from(name);
    }

    /// Marks the keyspace as dropped.
    pub fn mark_dropped(&self) {
        self.dropped.store(true, Relaxed);
    }

    /// Returns whether the keyspace was dropped.
    #[inline]
    pub fn is_dropped(&self) -> bool {
        self.dropped.load(Relaxed)
    }

    /// Returns the place of an operation in this keyspace.
    #[inline]
    pub fn place(&self) -> Place {
        Place { tree: self.tree, keyspace: self.id }
    }
}

/// Returns the rules of a keyspace, or `None` if it does not exist.
type RulesOf = Box<dyn Fn(KeyspaceId) -> Option<Arc<KeyspaceRules>> + Send>;

/// Tells the stored keys of keyspaces that exist from those of dropped ones, and the rules of each.
pub struct LiveKeys {
    source: RulesSource,
    /// The keyspace of the last key, and its rules if it exists.
    last: Option<(KeyspaceId, Option<Arc<KeyspaceRules>>)>,
    /// The rules of bytes that are no stored key.
    other: Arc<KeyspaceRules>,
}

enum RulesSource {
    /// Every key is live and has these rules.
    One(Arc<KeyspaceRules>),
    /// The keys begin with the prefixes of keyspaces.
    Each(RulesOf),
}

impl LiveKeys {
    /// Returns a value for which every key is live and has `rules`.
    pub fn all(rules: Arc<KeyspaceRules>) -> LiveKeys {
        LiveKeys { source: RulesSource::One(rules), last: None, other: Arc::default() }
    }

    /// Returns a value for which the keys of keyspaces with rules are live.
    pub fn of(rules_of: RulesOf) -> LiveKeys {
        LiveKeys { source: RulesSource::Each(rules_of), last: None, other: Arc::default() }
    }

    /// Returns whether the keyspace of `key` exists.
    #[inline]
    pub fn contains(&mut self, key: &[u8]) -> bool {
        matches!(self.source, RulesSource::One(_)) || self.rules(key).is_some()
    }

    /// Returns the rules of the keyspace of `key`, or `None` if it does not exist.
    #[inline]
    pub fn rules(&mut self, key: &[u8]) -> Option<&Arc<KeyspaceRules>> {
        let rules_of = match &self.source {
            RulesSource::One(rules) => return Some(rules),
            RulesSource::Each(rules_of) => rules_of,
        };
        // Other bytes cannot be asked about.
        let Some(id) = keyspace_of(key) else { return Some(&self.other) };
        if self.last.as_ref().is_none_or(|(last, _)| *last != id) {
            self.last = Some((id, rules_of(id)));
        }
        self.last.as_ref()?.1.as_ref()
    }
}

/// Returns the order of stored keys whose user keys have the order `order`.
pub fn stored_order(order: &KeyOrder) -> KeyOrder {
    match order {
        KeyOrder::Bytewise => KeyOrder::Bytewise,
        order => KeyOrder::Custom(Arc::new(StoredOrder(order.clone()))),
    }
}

/// Order of stored keys: by prefix, then by the user's order.
struct StoredOrder(KeyOrder);

impl Comparator for StoredOrder {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match (a.split_first_chunk::<PREFIX_BYTES>(), b.split_first_chunk::<PREFIX_BYTES>()) {
            (Some((a_prefix, a_key)), Some((b_prefix, b_key))) => {
                a_prefix.cmp(b_prefix).then_with(|| self.0.compare(a_key, b_key))
            }
            // Damaged files hold any bytes.
            _ => a.cmp(b),
        }
    }

    fn equal_keys_are_identical(&self) -> bool {
        self.0.equal_keys_are_identical()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_live_while_their_keyspace_has_rules() {
        let own = Arc::new(KeyspaceRules { ttl_ms: Some(5), ..KeyspaceRules::default() });
        let known = own.clone();
        let mut live = LiveKeys::of(Box::new(move |id| (id != 2).then(|| known.clone())));
        for (id, exists) in [(1, true), (2, false), (2, false), (3, true)] {
            let key = StoredKey::new(id, b"k");
            assert_eq!(live.contains(key.as_slice()), exists, "{id}");
            let ttl_ms = live.rules(key.as_slice()).map(|rules| rules.ttl_ms);
            assert_eq!(ttl_ms, exists.then_some(Some(5)));
        }
        assert!(live.contains(b"abc") && live.rules(b"abc").is_some_and(|r| r.ttl_ms.is_none()));
        let mut all = LiveKeys::all(own);
        assert!(all.contains(b"abc") && all.rules(b"abc").is_some_and(|r| r.ttl_ms == Some(5)));
    }

    #[test]
    fn stored_keys_begin_with_an_even_prefix_and_keep_the_order_of_their_keyspaces() {
        for id in [0, 1, 2, 255, 256, KEYSPACE_ID_MAX] {
            for len in [0, 1, INLINE_BYTES - PREFIX_BYTES, INLINE_BYTES - PREFIX_BYTES + 1, 5000] {
                let key = vec![7; len];
                let stored = StoredKey::new(id, &key);
                assert_eq!(stored.as_slice(), [&prefix(id)[..], &key].concat());
                assert_eq!(keyspace_of(stored.as_slice()), Some(id));
            }
            assert_eq!(keyspace_of(&prefix_end(id)), None);
        }
        assert_eq!(keyspace_of(&[0, 0, 0]), None);
    }

    #[test]
    fn the_end_of_a_keyspace_lies_between_it_and_the_next_in_every_order() {
        for order in [KeyOrder::Bytewise, KeyOrder::Reverse] {
            let stored = stored_order(&order);
            assert_eq!(stored.name(), order.name());
            let mut keys: Vec<Vec<u8>> = Vec::new();
            for id in 1..4 {
                let mut own = [&b""[..], b"a", b"\xff\xff\xff\xff\xff", b"b"];
                own.sort_by(|a, b| order.compare(a, b));
                keys.extend(own.iter().map(|key| StoredKey::new(id, key).as_slice().to_vec()));
                keys.push(prefix_end(id).to_vec());
            }
            assert!(keys.is_sorted_by(|a, b| stored.compare(a, b).is_lt()), "{order:?}");
        }
    }
}
