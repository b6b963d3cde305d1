//! The difference of one keyspace: visits the places at which the sides can differ, in key order,
//! and compares what a read returns there.
//!
//! Invariants: the places are visited in ascending order, so that both iterators only move forward.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use super::places::{KeyRange, TouchedKeys, add_ranges, joined, slices_of};
use super::side::{KeyspaceSide, Side};
use super::{DiffValue, Difference};
use crate::base::order::KeyOrder;
use crate::error::Result;
use crate::read::scan::DbIterator;
use crate::tree::shared::Unshared;

/// Number of pairs that are stepped over before an iterator seeks.
const NEAR_STEPS: usize = 4;

/// A side of a store and its keyspace, if it has it.
type In<'a> = (&'a Side, Option<&'a KeyspaceSide>);

/// The difference of one keyspace.
pub(super) struct KeyspaceDiff {
    name: Arc<str>,
    order: KeyOrder,
    a: Walk,
    b: Walk,
    /// Keys to compare.
    touched: Vec<TouchedKeys>,
    /// Ranges in which every key is compared, ascending and disjoint.
    ranges: VecDeque<KeyRange>,
    /// End of the range that is being compared.
    in_range: Option<Option<Vec<u8>>>,
}

impl KeyspaceDiff {
    /// Compares the keyspace `name`. Without `shared` the sides share nothing, and every key is
    /// compared.
    pub fn new(
        name: Arc<str>,
        (a, in_a): In<'_>,
        (b, in_b): In<'_>,
        shared: Option<&Arc<Unshared>>,
    ) -> Result<KeyspaceDiff> {
        let order = in_a.or(in_b).map(|of| of.user_order().clone()).unwrap_or_default();
        let walk = |side: &Side, of: Option<&KeyspaceSide>| -> Result<Walk> {
            let iter = of.map(|of| side.iter(of)).transpose()?.flatten();
            Ok(Walk { iter, is_placed: false })
        };
        let mut diff = KeyspaceDiff {
            name,
            order,
            a: walk(a, in_a)?,
            b: walk(b, in_b)?,
            touched: Vec::new(),
            ranges: VecDeque::new(),
            in_range: None,
        };
        let (Some(shared), Some(in_a), Some(in_b)) = (shared, in_a, in_b) else {
            diff.ranges.push_back(KeyRange::default());
            return Ok(diff);
        };
        let mut ranges = Vec::new();
        for (side, of, slices) in [(a, in_a, &shared.a), (b, in_b, &shared.b)] {
            let slices = slices_of(of, slices);
            add_ranges(side, of, &slices, &mut ranges)?;
            diff.touched.push(TouchedKeys::new(side, of, slices)?);
        }
        diff.ranges = joined(&diff.order, ranges);
        Ok(diff)
    }

    /// Returns the next difference.
    pub fn step(&mut self) -> Result<Option<Difference>> {
        loop {
            if let Some(end) = self.in_range.take() {
                if let Some(found) = self.step_in_range(end.as_deref())? {
                    self.in_range = Some(end);
                    return Ok(Some(found));
                }
                for touched in &mut self.touched {
                    touched.seek(end.as_deref())?;
                }
            }
            let key = self.next_touched();
            if let Some(range) = self.ranges.pop_front_if(|range| {
                let starts = range.lo.as_ref().zip(key.as_ref());
                starts.is_none_or(|(lo, key)| self.order.compare(lo, key).is_le())
            }) {
                self.a.seek(&self.order, range.lo.as_deref())?;
                self.b.seek(&self.order, range.lo.as_deref())?;
                self.in_range = Some(range.hi);
                continue;
            }
            let Some(key) = key else { return Ok(None) };
            for touched in &mut self.touched {
                touched.pass(&key)?;
            }
            self.a.seek(&self.order, Some(&key))?;
            self.b.seek(&self.order, Some(&key))?;
            let is_at = |walk: &Walk| {
                walk.key().is_some_and(|found| self.order.compare(found, &key).is_eq())
            };
            let (at_a, at_b) = (is_at(&self.a), is_at(&self.b));
            if let Some(found) = self.compare(at_a, at_b) {
                return Ok(Some(found));
            }
        }
    }

    /// Returns the least touched key.
    fn next_touched(&self) -> Option<Vec<u8>> {
        let keys = self.touched.iter().filter_map(TouchedKeys::key);
        keys.min_by(|a, b| self.order.compare(a, b)).map(<[u8]>::to_vec)
    }

    /// Returns the next difference before `end`.
    fn step_in_range(&mut self, end: Option<&[u8]>) -> Result<Option<Difference>> {
        loop {
            let order = &self.order;
            let is_inside = |key: &&[u8]| end.is_none_or(|end| order.compare(key, end).is_lt());
            let (a, b) = (self.a.key().filter(is_inside), self.b.key().filter(is_inside));
            let first = match (a, b) {
                (None, None) => return Ok(None),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(a), Some(b)) => order.compare(a, b),
            };
            let (at_a, at_b) = (first.is_le(), first.is_ge());
            let found = self.compare(at_a, at_b);
            if at_a {
                self.a.advance()?;
            }
            if at_b {
                self.b.advance()?;
            }
            if found.is_some() {
                return Ok(found);
            }
        }
    }

    /// Compares the pairs of those sides that are at the key.
    fn compare(&self, at_a: bool, at_b: bool) -> Option<Difference> {
        let (a, b) = (self.a.pair().filter(|_| at_a), self.b.pair().filter(|_| at_b));
        let is_same = match (&a, &b) {
            (Some((_, value_a, time_a)), Some((_, value_b, time_b))) => {
                value_a == value_b && time_a == time_b
            }
            (None, None) => true,
            _ => false,
        };
        if is_same {
            return None;
        }
        let key = a.or(b).map(|(key, ..)| key.to_vec()).unwrap_or_default();
        let own = |pair: Option<(&[u8], &[u8], Option<u64>)>| {
            pair.map(|(_, value, expires_ms)| DiffValue { value: value.to_vec(), expires_ms })
        };
        Some(Difference { keyspace: self.name.clone(), key, old: own(a), new: own(b) })
    }
}

/// An iterator that moves forward from place to place.
struct Walk {
    /// `None` for a side without the keyspace.
    iter: Option<DbIterator>,
    is_placed: bool,
}

impl Walk {
    fn iter(&self) -> Option<&DbIterator> {
        self.iter.as_ref().filter(|iter| iter.valid())
    }

    fn key(&self) -> Option<&[u8]> {
        self.iter().map(DbIterator::key)
    }

    fn pair(&self) -> Option<(&[u8], &[u8], Option<u64>)> {
        self.iter().map(|iter| (iter.key(), iter.value(), iter.expires_ms()))
    }

    fn advance(&mut self) -> Result<()> {
        self.iter.as_mut().map_or(Ok(()), DbIterator::move_next)
    }

    /// Moves to the first pair at or after `key`, which is not before the last such key. `None` is
    /// the beginning.
    fn seek(&mut self, order: &KeyOrder, key: Option<&[u8]>) -> Result<()> {
        let Some(iter) = &mut self.iter else { return Ok(()) };
        let Some(key) = key else {
            self.is_placed = true;
            return iter.seek_to_first();
        };
        if self.is_placed {
            for _ in 0..NEAR_STEPS {
                if !iter.valid() || order.compare(iter.key(), key).is_ge() {
                    return Ok(());
                }
                iter.move_next()?;
            }
            if !iter.valid() || order.compare(iter.key(), key).is_ge() {
                return Ok(());
            }
        }
        self.is_placed = true;
        iter.seek(key)
    }
}
