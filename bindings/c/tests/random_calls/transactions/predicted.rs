//! What a transaction is expected to see, to lock and to conflict with.
//!
//! Invariants: a transaction conflicts with an operation that was committed after its snapshot and
//! touches one of its items; an item is what it has written, or read with protection.

use std::cmp::Ordering;

use super::super::model::{Content, Op};

/// A key or a range of keys, from a start (inclusive) to an end (exclusive).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    Key(Vec<u8>),
    Range(Option<Vec<u8>>, Option<Vec<u8>>),
}

impl Item {
    /// Returns what an operation writes.
    pub fn of(op: &Op) -> Item {
        match op {
            Op::Put(key, _) | Op::Delete(key) => Item::Key(key.clone()),
            Op::DeleteRange(start, end) => Item::Range(Some(start.clone()), Some(end.clone())),
        }
    }

    /// Returns whether the two have a key in common. A range has a key between any two bounds.
    fn touches(&self, other: &Item, order: impl Fn(&[u8], &[u8]) -> Ordering) -> bool {
        let before = |a: &Option<Vec<u8>>, b: &Option<Vec<u8>>| match (a, b) {
            (Some(a), Some(b)) => order(a, b).is_lt(),
            _ => true,
        };
        let within = |key: &[u8], start: &Option<Vec<u8>>, end: &Option<Vec<u8>>| {
            start.as_ref().is_none_or(|start| order(start, key).is_le())
                && end.as_ref().is_none_or(|end| order(key, end).is_lt())
        };
        match (self, other) {
            (Item::Key(a), Item::Key(b)) => a == b,
            (Item::Key(key), Item::Range(start, end))
            | (Item::Range(start, end), Item::Key(key)) => within(key, start, end),
            (Item::Range(a, b), Item::Range(c, d)) => {
                before(a, b) && before(c, d) && before(a, d) && before(c, b)
            }
        }
    }
}

/// A transaction.
pub struct Model {
    pub serializable: bool,
    pub pessimistic: bool,
    pub ended: bool,
    /// The number of operations in the log at the snapshot, and the contents.
    pub snapshot: Option<(usize, [Content; 2])>,
    pub ops: Vec<(usize, Op)>,
    /// The number of operations at each savepoint.
    pub savepoints: Vec<usize>,
    /// What was read with protection.
    pub reads: Vec<(usize, Item)>,
    pub has_free_reads: bool,
    /// Whether an iterator may have read more than `reads` has.
    pub is_loose: bool,
    locks: Vec<(usize, Item, bool)>,
}

impl Model {
    pub fn new(serializable: bool, pessimistic: bool) -> Model {
        Model {
            serializable,
            pessimistic,
            ended: false,
            snapshot: None,
            ops: Vec::new(),
            savepoints: Vec::new(),
            reads: Vec::new(),
            has_free_reads: false,
            is_loose: false,
            locks: Vec::new(),
        }
    }

    pub fn take_snapshot(&mut self, log: &[(usize, Op)], contents: &[Content; 2]) {
        self.snapshot = Some((log.len(), contents.clone()));
    }

    /// Returns the pairs of the snapshot, which is taken now if there is none yet, with the own
    /// operations over them.
    pub fn view(&mut self, space: usize, log: &[(usize, Op)], contents: &[Content; 2]) -> Content {
        if self.snapshot.is_none() {
            self.take_snapshot(log, contents);
        }
        let base = self.snapshot.as_ref().map(|(_, contents)| contents[space].clone());
        self.over(base.unwrap_or_default(), space)
    }

    /// Returns `base` with the own operations over it.
    pub fn over(&self, mut base: Content, space: usize) -> Content {
        self.ops.iter().filter(|(at, _)| *at == space).for_each(|(_, op)| base.apply(op));
        base
    }

    /// Returns whether the transaction has written a key.
    pub fn writes(
        &self,
        space: usize,
        key: &[u8],
        order: impl Fn(&[u8], &[u8]) -> Ordering,
    ) -> bool {
        let item = Item::Key(key.to_vec());
        self.ops.iter().any(|(at, op)| *at == space && Item::of(op).touches(&item, &order))
    }

    /// Returns whether a lock of this transaction excludes a lock of another one.
    pub fn excludes(
        &self,
        space: usize,
        item: &Item,
        exclusive: bool,
        order: impl Fn(&[u8], &[u8]) -> Ordering,
    ) -> bool {
        !self.ended
            && self.locks.iter().any(|(at, lock, is_exclusive)| {
                *at == space && (exclusive || *is_exclusive) && lock.touches(item, &order)
            })
    }

    /// Returns whether the transaction has a lock of exactly this item. Otherwise it gets the lock.
    pub fn has_lock_or_adds_it(&mut self, space: usize, item: &Item, exclusive: bool) -> bool {
        let is_key = matches!(item, Item::Key(_));
        let held = self.locks.iter_mut().find(|(at, lock, is_exclusive)| {
            *at == space && lock == item && (is_key || *is_exclusive || !exclusive)
        });
        match held {
            Some((_, _, is_exclusive)) => {
                *is_exclusive |= exclusive;
                true
            }
            None => {
                self.locks.push((space, item.clone(), exclusive));
                false
            }
        }
    }

    /// Returns whether an item was written after the snapshot.
    pub fn is_newer(
        &self,
        log: &[(usize, Op)],
        space: usize,
        item: &Item,
        order: impl Fn(&[u8], &[u8]) -> Ordering,
    ) -> bool {
        let since = self.snapshot.as_ref().map_or(log.len(), |(since, _)| *since);
        log[since..].iter().any(|(at, op)| *at == space && Item::of(op).touches(item, &order))
    }

    /// Returns whether something that the transaction has written or read was written after its
    /// snapshot.
    pub fn has_conflict(&self, log: &[(usize, Op)], contents: &[Content; 2]) -> bool {
        let written = self.ops.iter().map(|(space, op)| (*space, Item::of(op)));
        written.chain(self.reads.iter().cloned()).any(|(space, item)| {
            self.is_newer(log, space, &item, |a, b| contents[space].compare(a, b))
        })
    }
}
