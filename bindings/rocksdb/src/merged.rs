//! An iterator over a store with writes over it that are not in the store yet.
//!
//! Invariants:
//! 1. Forward, the iterator of the store stands on its first key at or after the current key;
//!    backward, on its last key at or before it.
//! 2. A key with an own version is never read from the store.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};

use esker::{DbIterator, KeyBounds, KeyOrder, Result};

use crate::overlay::{Entry, Overlay};

/// Where the iterator stands.
enum At {
    Nowhere,
    /// On the key of the store's iterator.
    Base,
    /// On an own version.
    Own(Vec<u8>, Vec<u8>),
}

/// The iterator.
pub struct Merged {
    base: DbIterator,
    overlay: Arc<Mutex<Overlay>>,
    family: u32,
    order: KeyOrder,
    bounds: KeyBounds,
    at: At,
    forward: bool,
    /// Whether the own writes in the direction have ended. As in RocksDB, an iterator does not see
    /// writes that come after that, until it is positioned again.
    own_ended: bool,
}

impl Merged {
    /// Creates an iterator over `base`, which has the bounds `bounds`, with the writes of `overlay`
    /// in the column family `family` over it. It has no position.
    pub fn new(
        base: DbIterator,
        overlay: Arc<Mutex<Overlay>>,
        (family, order): (u32, KeyOrder),
        bounds: KeyBounds,
    ) -> Merged {
        Merged {
            base,
            overlay,
            family,
            order,
            bounds,
            at: At::Nowhere,
            forward: true,
            own_ended: false,
        }
    }

    /// Returns whether the iterator stands on a key.
    pub fn valid(&self) -> bool {
        !matches!(self.at, At::Nowhere)
    }

    /// Returns the current key.
    pub fn key(&self) -> &[u8] {
        match &self.at {
            At::Nowhere => &[],
            At::Base => self.base.key(),
            At::Own(key, _) => key,
        }
    }

    /// Returns the current value.
    pub fn value(&self) -> &[u8] {
        match &self.at {
            At::Nowhere => &[],
            At::Base => self.base.value(),
            At::Own(_, value) => value,
        }
    }

    /// Moves to the first key at or after `key` (the first key of all for `None`), or backward to
    /// the last one at or before it.
    pub fn seek(&mut self, key: Option<&[u8]>, forward: bool) -> Result<()> {
        self.at = At::Nowhere;
        self.forward = forward;
        self.own_ended = false;
        match (key, forward) {
            (None, true) => self.base.seek_to_first()?,
            (None, false) => self.base.seek_to_last()?,
            (Some(key), true) => self.base.seek(key)?,
            (Some(key), false) => self.base.seek_for_prev(key)?,
        }
        let from = self.start(key);
        self.settle(from)
    }

    /// Moves to the next or the previous key.
    pub fn step(&mut self, forward: bool) -> Result<()> {
        let current = match &self.at {
            At::Nowhere => return Ok(()),
            At::Base => self.base.key().to_vec(),
            At::Own(key, _) => key.clone(),
        };
        self.at = At::Nowhere;
        if forward != self.forward {
            self.forward = forward;
            self.own_ended = false;
            match forward {
                true => self.base.seek(&current)?,
                false => self.base.seek_for_prev(&current)?,
            }
        }
        if self.base.valid() && self.order.compare(self.base.key(), &current).is_eq() {
            self.step_base()?;
        }
        self.settle(Bound::Excluded(current))
    }

    fn step_base(&mut self) -> Result<()> {
        if self.forward { self.base.move_next() } else { self.base.move_prev() }
    }

    /// Returns where the own versions begin: at `key`, or at the bound if `key` is beyond it.
    fn start(&self, key: Option<&[u8]>) -> Bound<Vec<u8>> {
        let limit = if self.forward { &self.bounds.0 } else { &self.bounds.1 };
        let Some(key) = key else { return limit.clone() };
        let is_beyond = match limit {
            Bound::Unbounded => false,
            Bound::Included(end) | Bound::Excluded(end) => {
                let order = self.order.compare(key, end);
                if self.forward { order.is_le() } else { order.is_ge() }
            }
        };
        if is_beyond { limit.clone() } else { Bound::Included(key.to_vec()) }
    }

    /// Returns the next own version from a bound on, if it is within the bounds.
    fn own(&self, from: &Bound<Vec<u8>>) -> Option<Entry> {
        let overlay = self.overlay.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = overlay.next(self.family, &self.order, from, self.forward)?;
        let limit = if self.forward { &self.bounds.1 } else { &self.bounds.0 };
        let is_inside = match limit {
            Bound::Unbounded => true,
            Bound::Included(end) => !self.is_past(&entry.0, end),
            Bound::Excluded(end) => {
                !self.is_past(&entry.0, end) && self.order.compare(&entry.0, end).is_ne()
            }
        };
        is_inside.then_some(entry)
    }

    /// Returns whether `key` comes after `end` in the current direction.
    fn is_past(&self, key: &[u8], end: &[u8]) -> bool {
        let order = self.order.compare(key, end);
        if self.forward { order.is_gt() } else { order.is_lt() }
    }

    /// Takes the nearer of the store's key and the next own version, and passes deleted keys.
    fn settle(&mut self, mut from: Bound<Vec<u8>>) -> Result<()> {
        loop {
            let own = if self.own_ended { None } else { self.own(&from) };
            let Some((key, value)) = own else {
                self.own_ended = true;
                self.at = if self.base.valid() { At::Base } else { At::Nowhere };
                return Ok(());
            };
            let order = match (self.base.valid(), self.forward) {
                (false, _) => Ordering::Less,
                (true, true) => self.order.compare(&key, self.base.key()),
                (true, false) => self.order.compare(self.base.key(), &key),
            };
            match (order, value) {
                (Ordering::Greater, _) => {
                    self.at = At::Base;
                    return Ok(());
                }
                (_, Some(value)) => {
                    self.at = At::Own(key, value);
                    return Ok(());
                }
                (Ordering::Equal, None) => self.step_base()?,
                (Ordering::Less, None) => {}
            }
            from = Bound::Excluded(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use esker::{Db, Options, ReadOptions};

    use super::*;
    use crate::rep::Record;
    use crate::store::bounds;

    /// A store with the keys b, d, f, h and an overlay that changes, deletes and adds some.
    fn merged(lower: Option<&[u8]>, upper: Option<&[u8]>) -> (tempfile::TempDir, Merged, Vec<u8>) {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path().join("db"), Options::default()).unwrap();
        let mut model = BTreeMap::new();
        for key in *b"bdfh" {
            db.put([key], "old").unwrap();
            model.insert(key, ());
        }
        let mut overlay = Overlay::new(KeyOrder::Bytewise);
        for key in *b"acdi" {
            overlay.write(None, Record::Put { family: 0, key: &[key], value: b"new" });
            model.insert(key, ());
        }
        for key in *b"fgi" {
            overlay.write(None, Record::Delete { family: 0, key: &[key] });
            model.remove(&key);
        }
        let is_inside = |key: &u8| {
            lower.is_none_or(|lower| &[*key][..] >= lower)
                && upper.is_none_or(|upper| &[*key][..] < upper)
        };
        let expected = model.into_keys().filter(is_inside).collect();
        let bounds = bounds(lower, upper);
        let base = db.iter_with(&ReadOptions::default(), bounds.clone()).unwrap();
        let overlay = Arc::new(Mutex::new(overlay));
        let merged = Merged::new(base, overlay, (0, KeyOrder::Bytewise), bounds);
        (dir, merged, expected)
    }

    #[test]
    fn scans_show_own_versions_in_both_directions_and_within_bounds() {
        let keys: [Option<&[u8]>; 4] = [None, Some(b"b"), Some(b"d"), Some(b"h")];
        for lower in keys {
            for upper in keys {
                let (_dir, mut merged, expected) = merged(lower, upper);
                let mut forward = Vec::new();
                merged.seek(None, true).unwrap();
                while merged.valid() {
                    let is_new = b"acd".contains(&merged.key()[0]);
                    assert_eq!(merged.value(), if is_new { &b"new"[..] } else { b"old" });
                    forward.push(merged.key()[0]);
                    merged.step(true).unwrap();
                }
                assert_eq!(forward, expected);
                let mut backward = Vec::new();
                merged.seek(None, false).unwrap();
                while merged.valid() {
                    backward.push(merged.key()[0]);
                    merged.step(false).unwrap();
                }
                backward.reverse();
                assert_eq!(backward, expected);
            }
        }
    }

    #[test]
    fn seeks_and_turns_find_the_nearest_key() {
        let (_dir, mut merged, expected) = merged(None, None);
        for key in *b"abcdefghij" {
            merged.seek(Some(&[key]), true).unwrap();
            let next = expected.iter().copied().find(|known| *known >= key);
            assert_eq!(merged.key().first().copied(), next, "{}", key as char);
            merged.seek(Some(&[key]), false).unwrap();
            let previous = expected.iter().copied().rfind(|known| *known <= key);
            assert_eq!(merged.key().first().copied(), previous, "{}", key as char);
        }
        for pair in expected.windows(2) {
            merged.seek(Some(&pair[1..]), true).unwrap();
            merged.step(false).unwrap();
            assert_eq!(merged.key(), &pair[..1]);
            merged.step(true).unwrap();
            assert_eq!(merged.key(), &pair[1..]);
        }
    }
}
