//! Items: the keys and key ranges that a transaction has written or read, as stored keys.
//!
//! Invariant: keys that are equal in the order of their tree have the same [`key_identity`].

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Bound;

use crate::base::checksum::checksum;
use crate::base::key::Kind;
use crate::base::keyspace::{PREFIX_BYTES, TreeId, keyspace_of};
use crate::base::ops::Ops;
use crate::base::order::KeyOrder;
use crate::memtable::Memtables;

/// Number of a transaction in this opening of the store. Numbers start at 1.
pub type TransactionId = u64;

/// Seed of [`key_identity`]. It differs from other seeds, so that the hash is independent of them.
const SEED: u64 = 0x7A5C_31D4_0B6E_92F1;

/// Maximum number of bytes of a key in a message.
const SHOWN_BYTES_MAX: usize = 64;

/// Returns a hash that is the same for all forms of one key. Where different bytes may be one key,
/// all keys of a keyspace have the same hash.
#[inline]
pub fn key_identity(order: &KeyOrder, tree: TreeId, key: &[u8]) -> u64 {
    let seed = SEED ^ u64::from(tree);
    if order.equal_keys_are_identical() {
        return checksum(key, seed);
    }
    let prefix_bytes = if tree == 0 { 0 } else { PREFIX_BYTES };
    checksum(key.get(..prefix_bytes).unwrap_or(key), seed)
}

/// The key orders of the trees.
pub trait Orders {
    /// Returns the order of the stored keys of `tree`, or `None` if there is no such tree.
    fn order_of(&self, tree: TreeId) -> Option<&KeyOrder>;
}

impl Orders for Memtables {
    #[inline]
    fn order_of(&self, tree: TreeId) -> Option<&KeyOrder> {
        Some(self.of(tree)?.order())
    }
}

/// A range of stored keys of one tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// The tree.
    pub tree: TreeId,
    /// The lower bound.
    pub lo: Bound<Vec<u8>>,
    /// The upper bound.
    pub hi: Bound<Vec<u8>>,
}

impl KeyRange {
    /// Borrows the range.
    pub fn borrow(&self) -> RangeRef<'_> {
        RangeRef { tree: self.tree, lo: borrow(&self.lo), hi: borrow(&self.hi) }
    }
}

fn borrow(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    match bound {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Included(key) => Bound::Included(key),
        Bound::Excluded(key) => Bound::Excluded(key),
    }
}

/// A borrowed range of stored keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeRef<'a> {
    /// The tree.
    pub tree: TreeId,
    /// The lower bound.
    pub lo: Bound<&'a [u8]>,
    /// The upper bound.
    pub hi: Bound<&'a [u8]>,
}

impl RangeRef<'_> {
    /// Returns whether `key` is in the range.
    pub fn contains(&self, order: &KeyOrder, key: &[u8]) -> bool {
        let begun = match self.lo {
            Bound::Unbounded => true,
            Bound::Included(lo) => order.compare(lo, key).is_le(),
            Bound::Excluded(lo) => order.compare(lo, key).is_lt(),
        };
        begun && !self.ends_before(order, key)
    }

    /// Returns whether `key` is above the range.
    pub fn ends_before(&self, order: &KeyOrder, key: &[u8]) -> bool {
        match self.hi {
            Bound::Unbounded => false,
            Bound::Included(hi) => order.compare(hi, key).is_lt(),
            Bound::Excluded(hi) => order.compare(hi, key).is_le(),
        }
    }

    /// Returns whether a key may be in both ranges.
    pub fn overlaps(&self, order: &KeyOrder, other: &RangeRef<'_>) -> bool {
        let (a, b) = (self, other);
        let bounds = [(a.lo, a.hi), (b.lo, b.hi), (a.lo, b.hi), (b.lo, a.hi)];
        bounds.iter().all(|(lo, hi)| may_hold_a_key(order, lo, hi))
    }
}

/// Returns whether a key may lie between two bounds.
fn may_hold_a_key(order: &KeyOrder, lo: &Bound<&[u8]>, hi: &Bound<&[u8]>) -> bool {
    match (lo, hi) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
        (Bound::Included(lo), Bound::Included(hi)) => order.compare(lo, hi).is_le(),
        (Bound::Included(lo) | Bound::Excluded(lo), Bound::Included(hi) | Bound::Excluded(hi)) => {
            order.compare(lo, hi).is_lt()
        }
    }
}

/// What a transaction has written or read.
#[derive(Debug, Clone, Copy)]
pub enum Item<'a> {
    /// A stored key.
    Key {
        /// Its tree.
        tree: TreeId,
        /// The key.
        key: &'a [u8],
        /// Whether the transaction writes it.
        is_write: bool,
    },
    /// A range of stored keys.
    Range {
        /// The range.
        range: RangeRef<'a>,
        /// Whether the transaction deletes it.
        is_write: bool,
    },
}

impl Item<'_> {
    /// Returns the tree.
    pub fn tree(&self) -> TreeId {
        match self {
            Item::Key { tree, .. } => *tree,
            Item::Range { range, .. } => range.tree,
        }
    }

    /// Returns whether the transaction writes the item.
    pub fn is_write(&self) -> bool {
        match self {
            Item::Key { is_write, .. } | Item::Range { is_write, .. } => *is_write,
        }
    }
}

/// Names the item in a message.
impl fmt::Display for Item<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::Key { tree: 0, key, .. } => write_key(f, key),
            Item::Key { key, .. } => {
                write_key(f, key.get(PREFIX_BYTES..).unwrap_or(key))?;
                match keyspace_of(key) {
                    Some(id) => write!(f, " of keyspace number {id}"),
                    None => Ok(()),
                }
            }
            Item::Range { is_write: true, .. } => {
                f.write_str("a key in a range that the transaction deletes")
            }
            Item::Range { .. } => f.write_str("a key in a range that the transaction read"),
        }
    }
}

fn write_key(f: &mut fmt::Formatter<'_>, key: &[u8]) -> fmt::Result {
    match key.get(..SHOWN_BYTES_MAX) {
        Some(start) => write!(f, "the key \"{}...\"", start.escape_ascii()),
        None => write!(f, "the key \"{}\"", key.escape_ascii()),
    }
}

/// The keys and ranges that a transaction has read, and whose content must not change before its
/// commit.
#[derive(Debug, Default)]
pub struct Reads {
    keys: BTreeSet<(TreeId, Box<[u8]>)>,
    ranges: Vec<KeyRange>,
}

impl Reads {
    /// Adds a stored key.
    pub fn add_key(&mut self, tree: TreeId, key: &[u8]) {
        self.keys.insert((tree, Box::from(key)));
    }

    /// Adds a range. Returns its place for [`Reads::range_mut`].
    pub fn add_range(&mut self, range: KeyRange) -> usize {
        self.ranges.push(range);
        self.ranges.len() - 1
    }

    /// Returns the range at a place.
    pub fn range_mut(&mut self, place: usize) -> Option<&mut KeyRange> {
        self.ranges.get_mut(place)
    }

    /// Returns the keys, in bytewise order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = (TreeId, &[u8])> {
        self.keys.iter().map(|(tree, key)| (*tree, &**key))
    }

    /// Returns the ranges.
    pub fn ranges(&self) -> &[KeyRange] {
        &self.ranges
    }

    /// Returns the items of a transaction with these reads and the encoded operations `payload`.
    pub fn items<'a>(&'a self, payload: &'a [u8]) -> impl Iterator<Item = Item<'a>> {
        let keys = self.keys().map(|(tree, key)| Item::Key { tree, key, is_write: false });
        let ranges = self.ranges.iter();
        let ranges = ranges.map(|range| Item::Range { range: range.borrow(), is_write: false });
        written_items(payload).chain(keys).chain(ranges)
    }
}

/// Returns the items that the encoded operations `payload` write.
pub fn written_items(payload: &[u8]) -> impl Iterator<Item = Item<'_>> {
    Ops::new(payload).flatten().map(|op| match op.kind {
        Kind::RangeDelete => {
            let (lo, hi) = (Bound::Included(op.key), Bound::Excluded(op.value));
            Item::Range { range: RangeRef { tree: op.tree, lo, hi }, is_write: true }
        }
        _ => Item::Key { tree: op.tree, key: op.key, is_write: true },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::keyspace::{Place, StoredKey};
    use crate::base::ops;

    fn range<'a>(lo: Bound<&'a [u8]>, hi: Bound<&'a [u8]>) -> RangeRef<'a> {
        RangeRef { tree: 0, lo, hi }
    }

    #[test]
    fn ranges_contain_and_overlap_by_their_bounds() {
        use Bound::{Excluded, Included, Unbounded};
        let order = KeyOrder::Bytewise;
        let middle = range(Included(b"c"), Excluded(b"f"));
        for (key, inside) in [("b", false), ("c", true), ("e", true), ("f", false)] {
            assert_eq!(middle.contains(&order, key.as_bytes()), inside, "{key}");
        }
        for (other, overlaps) in [
            (range(Unbounded, Excluded(b"c")), false),
            (range(Unbounded, Included(b"c")), true),
            (range(Included(b"f"), Unbounded), false),
            (range(Excluded(b"e"), Unbounded), true),
            (range(Unbounded, Unbounded), true),
            (range(Included(b"e"), Excluded(b"d")), false),
            (range(Included(b"d"), Included(b"d")), true),
            (range(Excluded(b"d"), Excluded(b"d")), false),
        ] {
            assert_eq!(middle.overlaps(&order, &other), overlaps, "{other:?}");
            assert_eq!(other.overlaps(&order, &middle), overlaps, "{other:?}");
        }
        let down = range(Included(b"f"), Excluded(b"c"));
        assert!(down.contains(&KeyOrder::Reverse, b"d") && !down.contains(&order, b"d"));
    }

    #[test]
    fn items_are_operations_reads_and_ranges_and_have_names() {
        let mut payload = Vec::new();
        ops::encode_put(&mut payload, b"a", b"1");
        ops::encode_delete_at(&mut payload, Some(Place { tree: 2, keyspace: 7 }), b"b");
        ops::encode_range_delete(&mut payload, b"c", b"d");
        let mut reads = Reads::default();
        reads.add_key(0, b"e");
        reads.add_key(0, b"e");
        let (lo, hi) = (Bound::Included(b"f".to_vec()), Bound::Unbounded);
        let place = reads.add_range(KeyRange { tree: 0, lo, hi });
        assert!(reads.range_mut(place).is_some() && reads.range_mut(place + 1).is_none());
        let names: Vec<String> = reads.items(&payload).map(|item| item.to_string()).collect();
        assert_eq!(
            names,
            [
                "the key \"a\"",
                "the key \"b\" of keyspace number 7",
                "a key in a range that the transaction deletes",
                "the key \"e\"",
                "a key in a range that the transaction read",
            ]
        );
        let writes = reads.items(&payload).filter(Item::is_write).count();
        assert_eq!((writes, reads.items(&payload).map(|item| item.tree()).max()), (3, Some(2)));
        let long = Item::Key { tree: 0, key: &[b'k'; 100], is_write: true };
        assert_eq!(long.to_string(), format!("the key \"{}...\"", "k".repeat(64)));
    }

    #[test]
    fn one_key_in_several_forms_has_one_identity() {
        struct NoCase;
        impl crate::base::order::Comparator for NoCase {
            fn name(&self) -> &str {
                "test.no_case"
            }
            fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
                a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
            }
        }
        let order = KeyOrder::Custom(std::sync::Arc::new(NoCase));
        assert_eq!(key_identity(&order, 0, b"A"), key_identity(&order, 0, b"a"));
        let [one, other] = [1, 2].map(|id| StoredKey::new(id, b"a"));
        assert_ne!(
            key_identity(&order, 1, one.as_slice()),
            key_identity(&order, 1, other.as_slice())
        );
        let bytewise = KeyOrder::Bytewise;
        assert_ne!(key_identity(&bytewise, 0, b"A"), key_identity(&bytewise, 0, b"a"));
        assert_ne!(key_identity(&bytewise, 0, b"a"), key_identity(&bytewise, 1, b"a"));
    }
}
