//! Writes that are not in the store yet, with an index: RocksDB's `WriteBatchWithIndex`, and the own
//! writes of a transaction.
//!
//! Invariants:
//! 1. The index has the position of the newest put or delete of each key, or of its first merge if
//!    there is none, and then the positions of the merges that came later.
//! 2. Each change of the index since the oldest savepoint is in `undo`, in order, so that a savepoint
//!    restores both.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use esker::{KeyOrder, MergeOperator};
use esker_c::failure::{ESKER_NOT_FOUND, Failure, Outcome};

use crate::operators;
use crate::rep::{Mark, Record, Rep};

/// A key in its column family's order.
#[derive(Clone)]
struct OrderedKey {
    key: Vec<u8>,
    order: KeyOrder,
}

impl Ord for OrderedKey {
    fn cmp(&self, other: &OrderedKey) -> Ordering {
        self.order.compare(&self.key, &other.key)
    }
}

impl PartialOrd for OrderedKey {
    fn partial_cmp(&self, other: &OrderedKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for OrderedKey {
    fn eq(&self, other: &OrderedKey) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for OrderedKey {}

/// A change of the index.
struct Change {
    family: u32,
    key: OrderedKey,
    before: Before,
}

/// What a key had before a change.
enum Before {
    /// These positions, or none.
    Positions(Option<Vec<usize>>),
    /// The positions without the last one.
    WithoutLast,
}

/// What the batch itself has for a key.
#[derive(Debug, PartialEq, Eq)]
pub enum Own {
    /// A value.
    Value(Vec<u8>),
    /// The key was deleted.
    Deleted,
    /// Operands, oldest first, that were merged into the value of the store.
    Merged(Vec<Vec<u8>>),
    /// Operands that were merged into an own value, or into an own deletion.
    MergedInto(Option<Vec<u8>>, Vec<Vec<u8>>),
}

impl Own {
    /// Returns the value of `key`, or `None` if it was deleted. `stored` reads the store.
    ///
    /// # Errors
    /// Those of `stored` and of the merge operator.
    pub fn resolve(
        self,
        key: &[u8],
        operator: Option<&dyn MergeOperator>,
        stored: impl FnOnce() -> Outcome<Option<Vec<u8>>>,
    ) -> Outcome<Option<Vec<u8>>> {
        let (base, operands) = match self {
            Own::Value(value) => return Ok(Some(value)),
            Own::Deleted => return Ok(None),
            Own::Merged(operands) => (stored()?, operands),
            Own::MergedInto(base, operands) => (base, operands),
        };
        operators::merge(operator, key, base.as_deref(), &operands).map(Some)
    }
}

/// A key and its own version.
pub type Entry = (Vec<u8>, Own);

/// Indexed writes.
pub struct Overlay {
    rep: Rep,
    default_order: KeyOrder,
    index: HashMap<u32, BTreeMap<OrderedKey, Vec<usize>>>,
    undo: Vec<Change>,
    savepoints: Vec<(Mark, usize)>,
    refused: Option<Failure>,
}

impl Overlay {
    /// Creates an overlay. `default_order` is the order of the default column family.
    pub fn new(default_order: KeyOrder) -> Overlay {
        Overlay {
            rep: Rep::default(),
            default_order,
            index: HashMap::new(),
            undo: Vec::new(),
            savepoints: Vec::new(),
            refused: None,
        }
    }

    /// Returns the writes, or the failure of a write that was refused.
    pub fn rep(&self) -> Outcome<&Rep> {
        match &self.refused {
            Some(failure) => Err(failure.clone()),
            None => Ok(&self.rep),
        }
    }

    /// Returns the bytes of the writes.
    pub fn as_bytes(&self) -> &[u8] {
        self.rep.as_bytes()
    }

    /// Returns the number of operations.
    pub fn count(&self) -> u32 {
        self.rep.count()
    }

    /// Returns the order of the default column family.
    pub fn default_order(&self) -> &KeyOrder {
        &self.default_order
    }

    /// Makes every use of the writes fail. The first failure is kept.
    pub fn refuse(&mut self, failure: Failure) {
        self.refused.get_or_insert(failure);
    }

    /// Removes all writes and savepoints.
    pub fn clear(&mut self) {
        *self = Overlay::new(self.default_order.clone());
    }

    /// Adds a record. `order` is that of its column family; `None` for the default one.
    pub fn write(&mut self, order: Option<&KeyOrder>, record: Record<'_>) {
        let (family, key) = match record {
            Record::Put { family, key, .. }
            | Record::Delete { family, key }
            | Record::SingleDelete { family, key }
            | Record::Merge { family, key, .. } => (family, key),
            _ => {
                self.rep.push(record);
                return;
            }
        };
        let order = order.unwrap_or(&self.default_order).clone();
        let key = OrderedKey { key: key.to_vec(), order };
        let at = self.rep.push(record);
        let index = self.index.entry(family).or_default();
        let is_merge = matches!(record, Record::Merge { .. });
        let has_undo = !self.savepoints.is_empty();
        let undo_key = has_undo.then(|| key.clone());
        let before = match index.get_mut(&key).filter(|_| is_merge) {
            Some(positions) => {
                positions.push(at);
                Before::WithoutLast
            }
            None => Before::Positions(index.insert(key, vec![at])),
        };
        if let Some(key) = undo_key {
            self.undo.push(Change { family, key, before });
        }
    }

    /// Returns the own version of a key.
    pub fn get(&self, family: u32, order: &KeyOrder, key: &[u8]) -> Option<Own> {
        let index = self.index.get(&family)?;
        let key = OrderedKey { key: key.to_vec(), order: order.clone() };
        Some(self.version_at(index.get(&key)?))
    }

    /// Returns the next own version from a bound on, in a direction.
    pub fn next(
        &self,
        family: u32,
        order: &KeyOrder,
        from: &Bound<Vec<u8>>,
        forward: bool,
    ) -> Option<Entry> {
        let index = self.index.get(&family)?;
        let ordered = |key: &Vec<u8>| OrderedKey { key: key.clone(), order: order.clone() };
        let from = from.as_ref().map(ordered);
        let (key, at) = match forward {
            true => index.range((from, Bound::Unbounded)).next()?,
            false => index.range((Bound::Unbounded, from)).next_back()?,
        };
        Some((key.key.clone(), self.version_at(at)))
    }

    fn version_at(&self, positions: &[usize]) -> Own {
        let (mut base, mut operands) = (None, Vec::new());
        for record in positions.iter().filter_map(|at| self.rep.record_at(*at)) {
            match record {
                Record::Put { value, .. } => base = Some(Some(value.to_vec())),
                Record::Merge { operand, .. } => operands.push(operand.to_vec()),
                _ => base = Some(None),
            }
        }
        match (base, operands.is_empty()) {
            (Some(Some(value)), true) => Own::Value(value),
            (Some(base), false) => Own::MergedInto(base, operands),
            (None, false) => Own::Merged(operands),
            (_, true) => Own::Deleted,
        }
    }

    /// Sets a savepoint.
    pub fn set_savepoint(&mut self) {
        self.savepoints.push((self.rep.mark(), self.undo.len()));
    }

    /// Takes back the writes after the newest savepoint, and removes the savepoint.
    ///
    /// # Errors
    /// `NotFound` without a savepoint.
    pub fn roll_back_to_savepoint(&mut self) -> Outcome<()> {
        let (mark, changes) = self.savepoints.pop().ok_or_else(no_savepoint)?;
        self.rep.truncate(mark);
        while self.undo.len() > changes {
            let Some(Change { family, key, before }) = self.undo.pop() else { break };
            let index = self.index.entry(family).or_default();
            match before {
                Before::Positions(Some(positions)) => {
                    index.insert(key, positions);
                }
                Before::Positions(None) => {
                    index.remove(&key);
                }
                Before::WithoutLast => {
                    index.get_mut(&key).and_then(Vec::pop);
                }
            }
        }
        Ok(())
    }
}

/// Returns the failure of a call that needs a savepoint.
pub fn no_savepoint() -> Failure {
    Failure { code: ESKER_NOT_FOUND, message: "there is no savepoint".to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(overlay: &mut Overlay, family: u32, key: &str, value: &str) {
        let (key, value) = (key.as_bytes(), value.as_bytes());
        overlay.write(Some(&KeyOrder::Bytewise), Record::Put { family, key, value });
    }

    fn get(overlay: &Overlay, family: u32, key: &str) -> Option<Option<Vec<u8>>> {
        let own = overlay.get(family, &KeyOrder::Bytewise, key.as_bytes())?;
        Some(own.resolve(key.as_bytes(), None, || Ok(None)).unwrap())
    }

    #[test]
    fn the_newest_version_of_a_key_is_found() {
        let mut overlay = Overlay::new(KeyOrder::Bytewise);
        put(&mut overlay, 0, "a", "1");
        put(&mut overlay, 0, "a", "2");
        put(&mut overlay, 3, "a", "3");
        assert_eq!(get(&overlay, 0, "a"), Some(Some(b"2".to_vec())));
        assert_eq!(get(&overlay, 3, "a"), Some(Some(b"3".to_vec())));
        assert_eq!(get(&overlay, 4, "a"), None);
        overlay.write(None, Record::Delete { family: 0, key: b"a" });
        assert_eq!(get(&overlay, 0, "a"), Some(None));
        assert_eq!(overlay.count(), 4);
    }

    #[test]
    fn savepoints_restore_versions_and_bytes() {
        let mut overlay = Overlay::new(KeyOrder::Bytewise);
        put(&mut overlay, 0, "a", "1");
        overlay.set_savepoint();
        let before = overlay.as_bytes().to_vec();
        put(&mut overlay, 0, "a", "2");
        put(&mut overlay, 0, "b", "2");
        overlay.roll_back_to_savepoint().unwrap();
        assert_eq!(get(&overlay, 0, "a"), Some(Some(b"1".to_vec())));
        assert_eq!(get(&overlay, 0, "b"), None);
        assert_eq!(overlay.as_bytes(), before);
        assert!(overlay.roll_back_to_savepoint().is_err());
    }

    #[test]
    fn merges_lie_on_the_version_before_them_and_are_taken_back() {
        let order = KeyOrder::Bytewise;
        let mut overlay = Overlay::new(order.clone());
        let merge = |overlay: &mut Overlay, operand: &[u8]| {
            overlay.write(None, Record::Merge { family: 0, key: b"k", operand });
        };
        let operands = |list: &[&[u8]]| list.iter().map(|one| one.to_vec()).collect::<Vec<_>>();
        merge(&mut overlay, b"1");
        merge(&mut overlay, b"2");
        assert_eq!(overlay.get(0, &order, b"k"), Some(Own::Merged(operands(&[b"1", b"2"]))));
        overlay.set_savepoint();
        merge(&mut overlay, b"3");
        overlay.write(None, Record::Delete { family: 0, key: b"k" });
        merge(&mut overlay, b"4");
        assert_eq!(overlay.get(0, &order, b"k"), Some(Own::MergedInto(None, operands(&[b"4"]))));
        put(&mut overlay, 0, "k", "v");
        assert_eq!(overlay.get(0, &order, b"k"), Some(Own::Value(b"v".to_vec())));
        overlay.roll_back_to_savepoint().unwrap();
        assert_eq!(overlay.get(0, &order, b"k"), Some(Own::Merged(operands(&[b"1", b"2"]))));
        let own = overlay.get(0, &order, b"k").unwrap();
        assert!(own.resolve(b"k", None, || Ok(None)).is_err());
    }

    #[test]
    fn versions_are_walked_in_both_directions() {
        let mut overlay = Overlay::new(KeyOrder::Reverse);
        for key in ["a", "b", "c"] {
            let record = Record::Put { family: 0, key: key.as_bytes(), value: b"" };
            overlay.write(None, record);
        }
        let next = |from: Bound<Vec<u8>>, forward| {
            overlay.next(0, &KeyOrder::Reverse, &from, forward).map(|(key, _)| key)
        };
        assert_eq!(next(Bound::Unbounded, true), Some(b"c".to_vec()));
        assert_eq!(next(Bound::Excluded(b"c".to_vec()), true), Some(b"b".to_vec()));
        assert_eq!(next(Bound::Included(b"b".to_vec()), false), Some(b"b".to_vec()));
        assert_eq!(next(Bound::Excluded(b"c".to_vec()), false), None);
    }
}
