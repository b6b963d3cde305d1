//! The writes of a transaction in one keyspace, in key order: a get or an iterator of the
//! transaction finds its own writes here.
//!
//! The operations themselves are in the transaction's batch. A version names its operation by its
//! number in the batch, and the value by its place there. Deleted ranges are a set of disjoint
//! ranges. A key that was written before a range delete gets a tombstone of its own from it. So a
//! key with a version never depends on the ranges.
//!
//! A merge operand lies on the version that the key had before, which stays in the list `below`, or
//! on the snapshot's value if the transaction had not written the key.
//!
//! A savepoint is a number of operations. A version replaces an older one only if no savepoint lies
//! between the two, so that a rollback finds the older one.
//!
//! Invariants: the versions of a key have ascending numbers. The deleted ranges are those of
//! `ranges`, united; they do not touch each other.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

use crate::base::order::KeyOrder;

/// A version of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    op: u32,
    /// Offset and length of the value or the operand in the encoded operations; `None` for a
    /// tombstone.
    value: Option<(u32, u32)>,
    /// Whether this is a merge operand.
    is_operand: bool,
    /// Of an operand: the place of the version below in [`KeyspaceWrites::below`]. `None`: the
    /// snapshot's.
    below: Option<u32>,
}

/// What is below the operands of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base<'a> {
    /// The value in the snapshot.
    Snapshot,
    /// No value.
    Deleted,
    /// A value that the transaction has put.
    Value(&'a [u8]),
}

/// What the transaction has written of a key.
#[derive(Debug, PartialEq, Eq)]
pub struct OwnValue<'a> {
    /// The operands, newest first.
    pub operands: Vec<&'a [u8]>,
    /// What they are merged into. Without operands never [`Base::Snapshot`].
    pub base: Base<'a>,
}

impl Version {
    /// Creates the version of operation `op`, a put. Its value has `value_bytes` bytes, and is the
    /// last part of the `payload_bytes` bytes of encoded operations so far.
    pub fn put(op: u32, payload_bytes: usize, value_bytes: usize) -> Version {
        let value = ((payload_bytes - value_bytes) as u32, value_bytes as u32);
        Version { op, value: Some(value), is_operand: false, below: None }
    }

    /// Creates the version of operation `op`, a merge, on the version `below`. The operand is where
    /// the value of a put is.
    fn operand(op: u32, payload_bytes: usize, operand_bytes: usize, below: Option<u32>) -> Version {
        let put = Version::put(op, payload_bytes, operand_bytes);
        Version { is_operand: true, below, ..put }
    }

    /// Creates the version of operation `op`, a delete.
    pub fn delete(op: u32) -> Version {
        Version { op, value: None, is_operand: false, below: None }
    }

    /// Returns the value or the operand, or `None` for a tombstone. `payload` are the encoded
    /// operations.
    fn value<'a>(&self, payload: &'a [u8]) -> Option<&'a [u8]> {
        let (at, len) = self.value?;
        payload.get(at as usize..at as usize + len as usize)
    }
}

/// The versions of a key.
struct Slot {
    last: Version,
    /// Older versions that a rollback may need, oldest first.
    older: Vec<Version>,
}

impl Slot {
    /// Adds a version. `savepoint` is the number of operations before the newest savepoint.
    fn add(&mut self, version: Version, savepoint: u32) {
        if self.last.op < savepoint {
            self.older.push(self.last);
        }
        self.last = version;
    }

    /// Removes the versions of operations from `op` on. Returns whether one is left.
    fn roll_back(&mut self, op: u32) -> bool {
        while self.last.op >= op {
            match self.older.pop() {
                Some(older) => self.last = older,
                None => return false,
            }
        }
        true
    }
}

/// A key with its order.
struct OrderedKey {
    order: KeyOrder,
    bytes: Vec<u8>,
}

/// A borrowed key with its order, for lookups.
struct Probe<'a> {
    order: &'a KeyOrder,
    bytes: &'a [u8],
}

/// What [`OrderedKey`] and [`Probe`] have in common.
trait AsKey {
    fn order(&self) -> &KeyOrder;
    fn bytes(&self) -> &[u8];
}

impl AsKey for OrderedKey {
    fn order(&self) -> &KeyOrder {
        &self.order
    }
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsKey for Probe<'_> {
    fn order(&self) -> &KeyOrder {
        self.order
    }
    fn bytes(&self) -> &[u8] {
        self.bytes
    }
}

impl<'a> Borrow<dyn AsKey + 'a> for OrderedKey {
    fn borrow(&self) -> &(dyn AsKey + 'a) {
        self
    }
}

impl PartialEq for dyn AsKey + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for dyn AsKey + '_ {}

impl PartialOrd for dyn AsKey + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn AsKey + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().compare(self.bytes(), other.bytes())
    }
}

impl PartialEq for OrderedKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for OrderedKey {}

impl PartialOrd for OrderedKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OrderedKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order.compare(&self.bytes, &other.bytes)
    }
}

/// Bounds of a lookup.
type ProbeBounds<'a> = (Bound<&'a (dyn AsKey + 'a)>, Bound<&'a (dyn AsKey + 'a)>);

/// A range delete of the transaction.
struct DeletedRange {
    op: u32,
    start: Vec<u8>,
    end: Vec<u8>,
}

/// The writes in one keyspace.
pub struct KeyspaceWrites {
    order: KeyOrder,
    keys: BTreeMap<OrderedKey, Slot>,
    /// The deleted ranges, united: the end of each by its start.
    deleted: BTreeMap<OrderedKey, Vec<u8>>,
    /// The range deletes, oldest first.
    ranges: Vec<DeletedRange>,
    /// Versions below merge operands, each with the operation of its operand, oldest first.
    below: Vec<(u32, Version)>,
}

impl KeyspaceWrites {
    /// Creates an empty list in the order of the users' keys.
    pub fn new(order: KeyOrder) -> KeyspaceWrites {
        let (keys, deleted) = (BTreeMap::new(), BTreeMap::new());
        KeyspaceWrites { order, keys, deleted, ranges: Vec::new(), below: Vec::new() }
    }

    /// Adds a version of `key`. `savepoint` is the number of operations before the newest
    /// savepoint, or 0.
    pub fn add(&mut self, key: &[u8], version: Version, savepoint: u32) {
        let probe = Probe { order: &self.order, bytes: key };
        let probe: &dyn AsKey = &probe;
        if let Some(slot) = self.keys.get_mut(probe) {
            return slot.add(version, savepoint);
        }
        let key = OrderedKey { order: self.order.clone(), bytes: key.to_vec() };
        self.keys.insert(key, Slot { last: version, older: Vec::new() });
    }

    /// Adds operation `op`, which merges an operand into `key`. `payload_bytes` and `operand_bytes`
    /// are as for [`Version::put`].
    pub fn merge(
        &mut self,
        key: &[u8],
        op: u32,
        (payload_bytes, operand_bytes): (usize, usize),
        savepoint: u32,
    ) {
        let below = self.get(key).map(|version| {
            self.below.push((op, version));
            (self.below.len() - 1) as u32
        });
        self.add(key, Version::operand(op, payload_bytes, operand_bytes, below), savepoint);
    }

    /// Returns what a version of this list and those below it make of the key. `payload` are the
    /// encoded operations.
    pub fn resolve<'a>(&self, version: Version, payload: &'a [u8]) -> OwnValue<'a> {
        let (mut operands, mut version) = (Vec::new(), version);
        while version.is_operand {
            operands.push(version.value(payload).unwrap_or_default());
            let below = version.below.and_then(|place| self.below.get(place as usize));
            match below {
                Some((_, below)) => version = *below,
                None => return OwnValue { operands, base: Base::Snapshot },
            }
        }
        let base = version.value(payload).map_or(Base::Deleted, Base::Value);
        OwnValue { operands, base }
    }

    /// Adds operation `op`, which deletes `[start, end)`.
    pub fn delete_range(&mut self, op: u32, (start, end): (&[u8], &[u8]), savepoint: u32) {
        if self.order.compare(start, end).is_ge() {
            return;
        }
        let lo = Probe { order: &self.order, bytes: start };
        let hi = Probe { order: &self.order, bytes: end };
        let bounds: ProbeBounds<'_> = (Bound::Included(&lo), Bound::Excluded(&hi));
        for (_, slot) in self.keys.range_mut::<dyn AsKey + '_, _>(bounds) {
            slot.add(Version::delete(op), savepoint);
        }
        self.unite(start.to_vec(), end.to_vec());
        self.ranges.push(DeletedRange { op, start: start.to_vec(), end: end.to_vec() });
    }

    /// Adds a range to the list of disjoint ranges, and joins it with those that it touches.
    fn unite(&mut self, mut start: Vec<u8>, mut end: Vec<u8>) {
        if let Some((first, last)) = self.range_at_or_before(&start)
            && self.order.compare(last, &start).is_ge()
        {
            start = first.to_vec();
        }
        // The ranges that begin in the new one or at its end.
        let lo = Probe { order: &self.order, bytes: &start };
        let hi = Probe { order: &self.order, bytes: &end };
        let bounds: ProbeBounds<'_> = (Bound::Included(&lo), Bound::Included(&hi));
        let joined = self.deleted.range::<dyn AsKey + '_, _>(bounds);
        let joined: Vec<(Vec<u8>, Vec<u8>)> =
            joined.map(|(first, last)| (first.bytes.clone(), last.clone())).collect();
        for (first, last) in joined {
            let first = Probe { order: &self.order, bytes: &first };
            let first: &dyn AsKey = &first;
            self.deleted.remove(first);
            if self.order.compare(&last, &end).is_gt() {
                end = last;
            }
        }
        self.deleted.insert(OrderedKey { order: self.order.clone(), bytes: start }, end);
    }

    /// Returns the united range that begins at `key` or is the last one before it.
    fn range_at_or_before(&self, key: &[u8]) -> Option<(&[u8], &[u8])> {
        let probe = Probe { order: &self.order, bytes: key };
        let bounds: ProbeBounds<'_> = (Bound::Unbounded, Bound::Included(&probe));
        let (first, last) = self.deleted.range::<dyn AsKey + '_, _>(bounds).next_back()?;
        Some((first.bytes.as_slice(), last.as_slice()))
    }

    /// Returns the version of `key`, which is a tombstone if a range delete covers the key. `None`
    /// says that the transaction has not written the key.
    pub fn get(&self, key: &[u8]) -> Option<Version> {
        let probe = Probe { order: &self.order, bytes: key };
        let probe: &dyn AsKey = &probe;
        match self.keys.get(probe) {
            Some(slot) => Some(slot.last),
            None => self.deleted_around(key).map(|_| Version::delete(0)),
        }
    }

    /// Returns the deleted range that holds `key`: its start and its end.
    pub fn deleted_around(&self, key: &[u8]) -> Option<(&[u8], &[u8])> {
        if self.deleted.is_empty() {
            return None;
        }
        let range = self.range_at_or_before(key)?;
        self.order.compare(key, range.1).is_lt().then_some(range)
    }

    /// Returns whether the transaction deletes ranges.
    pub fn has_deleted_ranges(&self) -> bool {
        !self.deleted.is_empty()
    }

    /// Returns the first key from `from` on with a version, or with `forward` false the last key up
    /// to `from`.
    pub fn next(&self, from: Bound<&[u8]>, forward: bool) -> Option<(&[u8], Version)> {
        let (bytes, is_included) = match from {
            Bound::Unbounded => (None, true),
            Bound::Included(key) => (Some(key), true),
            Bound::Excluded(key) => (Some(key), false),
        };
        let probe = Probe { order: &self.order, bytes: bytes.unwrap_or_default() };
        let bound: Bound<&(dyn AsKey + '_)> = match (bytes, is_included) {
            (None, _) => Bound::Unbounded,
            (Some(_), true) => Bound::Included(&probe),
            (Some(_), false) => Bound::Excluded(&probe),
        };
        let (key, slot) = if forward {
            let bounds: ProbeBounds<'_> = (bound, Bound::Unbounded);
            self.keys.range::<dyn AsKey + '_, _>(bounds).next()?
        } else {
            let bounds: ProbeBounds<'_> = (Bound::Unbounded, bound);
            self.keys.range::<dyn AsKey + '_, _>(bounds).next_back()?
        };
        Some((key.bytes.as_slice(), slot.last))
    }

    /// Takes back the versions of `key` of operations from `op` on.
    pub fn roll_back_key(&mut self, key: &[u8], op: u32) {
        let probe = Probe { order: &self.order, bytes: key };
        let probe: &dyn AsKey = &probe;
        if let Some(slot) = self.keys.get_mut(probe)
            && !slot.roll_back(op)
        {
            self.keys.remove(probe);
        }
    }

    /// Takes back what the operands of operations from `op` on lie on. Their keys are rolled back.
    pub fn roll_back_operands(&mut self, op: u32) {
        let kept = self.below.partition_point(|(of, _)| *of < op);
        self.below.truncate(kept);
    }

    /// Takes back the range deletes from operation `op` on.
    pub fn roll_back_ranges(&mut self, op: u32) {
        let kept = self.ranges.partition_point(|range| range.op < op);
        if kept == self.ranges.len() {
            return;
        }
        for undone in self.ranges.split_off(kept) {
            let lo = Probe { order: &self.order, bytes: &undone.start };
            let hi = Probe { order: &self.order, bytes: &undone.end };
            let bounds: ProbeBounds<'_> = (Bound::Included(&lo), Bound::Excluded(&hi));
            let keys = self.keys.range::<dyn AsKey + '_, _>(bounds);
            let keys: Vec<Vec<u8>> = keys.map(|(key, _)| key.bytes.clone()).collect();
            keys.iter().for_each(|key| self.roll_back_key(key, op));
        }
        self.deleted.clear();
        let ranges = std::mem::take(&mut self.ranges);
        for range in &ranges {
            self.unite(range.start.clone(), range.end.clone());
        }
        self.ranges = ranges;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap as Model;

    fn keys(writes: &KeyspaceWrites, forward: bool) -> Vec<(Vec<u8>, u32)> {
        let (mut found, mut from) = (Vec::new(), Bound::Unbounded);
        while let Some((key, version)) = writes.next(from.as_ref().map(Vec::as_slice), forward) {
            found.push((key.to_vec(), version.op));
            from = Bound::Excluded(key.to_vec());
        }
        found
    }

    #[test]
    fn versions_hold_their_values_in_the_encoded_operations() {
        let payload = b"xxvaluey";
        let version = Version::put(3, 7, 5);
        assert_eq!(version.value(payload), Some(&b"value"[..]));
        assert_eq!(Version::delete(3).value(payload), None);
        assert_eq!(version.value(b"x"), None);
    }

    #[test]
    fn keys_are_found_in_their_order_from_both_ends() {
        for order in [KeyOrder::Bytewise, KeyOrder::Reverse] {
            let mut writes = KeyspaceWrites::new(order.clone());
            for (op, key) in ["m", "c", "x", "c"].iter().enumerate() {
                writes.add(key.as_bytes(), Version::delete(op as u32), 0);
            }
            let mut want = vec![(b"c".to_vec(), 3), (b"m".to_vec(), 0), (b"x".to_vec(), 2)];
            want.sort_by(|a, b| order.compare(&a.0, &b.0));
            assert_eq!(keys(&writes, true), want);
            want.reverse();
            assert_eq!(keys(&writes, false), want);
            let at = |bound, forward| writes.next(bound, forward).map(|(key, _)| key[0]);
            assert_eq!(at(Bound::Included(b"m"), true), Some(b'm'));
            assert_eq!(at(Bound::Included(b"m"), false), Some(b'm'));
            let after = if order.compare(b"c", b"x").is_lt() { b'x' } else { b'c' };
            assert_eq!(at(Bound::Excluded(b"m"), true), Some(after));
            assert_eq!(at(Bound::Excluded(b"m"), false), Some(b'c' + b'x' - after));
        }
    }

    #[test]
    fn deleted_ranges_are_united() {
        let mut writes = KeyspaceWrites::new(KeyOrder::Bytewise);
        for (op, range) in ["bd", "fh", "hj", "de", "xx", "zy", "ce"].iter().enumerate() {
            let (start, end) = range.as_bytes().split_at(1);
            writes.delete_range(op as u32, (start, end), 0);
        }
        let united: Vec<_> =
            writes.deleted.iter().map(|(start, end)| [&start.bytes[..], end].concat()).collect();
        assert_eq!(united, [b"be", b"fj"]);
        for (key, around) in
            [("a", None), ("b", Some("be")), ("d", Some("be")), ("e", None), ("i", Some("fj"))]
        {
            let found = writes.deleted_around(key.as_bytes());
            let found = found.map(|(start, end)| [start, end].concat());
            assert_eq!(found.as_deref(), around.map(str::as_bytes), "{key}");
            assert_eq!(writes.get(key.as_bytes()).is_some(), around.is_some());
        }
    }

    #[test]
    fn operands_lie_on_what_was_written_before_and_are_taken_back() {
        let payload = b"abcdefgh";
        let mut writes = KeyspaceWrites::new(KeyOrder::Bytewise);
        let seen = |writes: &KeyspaceWrites, key: &[u8]| {
            let own = writes.resolve(writes.get(key).unwrap(), payload);
            (own.operands.concat(), format!("{:?}", own.base))
        };
        writes.merge(b"k", 0, (1, 1), 0);
        writes.merge(b"k", 1, (2, 1), 0);
        assert_eq!(seen(&writes, b"k"), (b"ba".to_vec(), "Snapshot".into()));
        writes.add(b"p", Version::put(2, 3, 1), 0);
        writes.merge(b"p", 3, (4, 1), 3);
        writes.merge(b"p", 4, (5, 1), 3);
        assert_eq!(seen(&writes, b"p"), (b"ed".to_vec(), "Value([99])".into()));
        writes.delete_range(5, (b"a", b"z"), 3);
        writes.merge(b"k", 6, (6, 1), 3);
        writes.merge(b"q", 7, (7, 1), 3);
        assert_eq!(seen(&writes, b"k"), (b"f".to_vec(), "Deleted".into()));
        assert_eq!(seen(&writes, b"q"), (b"g".to_vec(), "Deleted".into()));
        for key in [b"p", b"p", b"k", b"q"] {
            writes.roll_back_key(key, 3);
        }
        writes.roll_back_ranges(3);
        writes.roll_back_operands(3);
        assert_eq!(seen(&writes, b"k"), (b"ba".to_vec(), "Snapshot".into()));
        assert_eq!(seen(&writes, b"p"), (Vec::new(), "Value([99])".into()));
        assert!(writes.get(b"q").is_none());
        writes.merge(b"k", 3, (8, 1), 3);
        assert_eq!(seen(&writes, b"k"), (b"hba".to_vec(), "Snapshot".into()));
    }

    /// One operation of the random test.
    #[derive(Clone)]
    enum Op {
        Write(u8),
        DeleteRange(u8, u8),
    }

    /// Returns what the operations leave: by key, the last put, or `None` for a deleted key.
    fn replay(ops: &[Op]) -> Model<u8, Option<u32>> {
        let mut model = Model::new();
        for (at, op) in ops.iter().enumerate() {
            match op {
                Op::Write(key) => {
                    model.insert(*key, Some(at as u32));
                }
                Op::DeleteRange(start, end) => (*start..*end).for_each(|key| {
                    model.insert(key, None);
                }),
            }
        }
        model
    }

    #[test]
    fn rollbacks_restore_the_writes_before_the_savepoint() {
        let mut state = 7u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let mut writes = KeyspaceWrites::new(KeyOrder::Bytewise);
        let (mut ops, mut savepoints) = (Vec::new(), vec![0u32]);
        for _ in 0..20_000 {
            let (op, savepoint) = (ops.len() as u32, savepoints[savepoints.len() - 1]);
            let key = random(40) as u8;
            match random(12) {
                0 => savepoints.push(op),
                1 if savepoints.len() > 1 => {
                    let to = savepoints.pop().unwrap();
                    for undone in &ops[to as usize..] {
                        if let Op::Write(key) = undone {
                            writes.roll_back_key(&[*key], to);
                        }
                    }
                    writes.roll_back_ranges(to);
                    ops.truncate(to as usize);
                }
                2 => {
                    let end = key.saturating_add(random(10) as u8);
                    writes.delete_range(op, (&[key][..], &[end][..]), savepoint);
                    ops.push(Op::DeleteRange(key, end));
                }
                _ => {
                    writes.add(&[key], Version::put(op, 0, 0), savepoint);
                    ops.push(Op::Write(key));
                }
            }
            if random(50) == 0 {
                let model = replay(&ops);
                for key in 0..60u8 {
                    let found = writes.get(&[key]);
                    let found = found.map(|version| version.value.map(|_| version.op));
                    assert_eq!(found, model.get(&key).copied(), "key {key}");
                }
            }
        }
    }
}
