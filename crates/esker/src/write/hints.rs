//! The writers' side of the empty-range hints ([`crate::iter::hints`]). It is part of the writer
//! state, so that commits and additions of hints exclude each other.
//!
//! Invariants:
//! 1. The key of a put or a merge leaves the hints before its sequence number is published, and so
//!    does the key range of an ingested table. Nothing else makes a key visible: deletes and range
//!    deletions hide keys, and the replay of the logs at open ends before the first hint exists. For
//!    the search, a pair that expires is visible for ever, because a snapshot may show it after it
//!    has expired.
//! 2. A search for a hint runs under a watch. When the watch begins, all committed operations are
//!    numbered up to `since`. Puts during the watch limit the range that is then added.
//! 3. With no hint and no watch, a put costs one comparison here, and a delete costs a counter
//!    update.

use std::sync::Arc;

use crate::base::key::{Kind, SeqNo};
use crate::base::keyspace::TreeId;
use crate::base::order::KeyOrder;
use crate::base::sync::{Bug, is_seeded};
use crate::base::thresholds::Thresholds;
use crate::iter::hints::{BOUND_BYTES_MAX, Edge, Hint, Hints};
use crate::iter::tombstone_run::TombstoneRun;

/// Maximum factor by which searches that found nothing raise the number of deletes between two
/// searches.
const ASK_LESS_MAX: u32 = 4;

/// Puts around a key since the start of a search there.
struct Watch {
    key: Vec<u8>,
    /// Greatest put key below `key`.
    below: Edge,
    /// Least put key above `key`.
    above: Edge,
    /// Whether `key` itself was put.
    hit: bool,
}

impl Watch {
    /// Records a put of `key`.
    fn note(&mut self, order: &KeyOrder, key: &[u8]) {
        match order.compare(key, &self.key) {
            std::cmp::Ordering::Less => {
                if self.below.as_ref().is_none_or(|k| order.compare(k, key).is_lt()) {
                    self.below = Some(Arc::from(key));
                }
            }
            std::cmp::Ordering::Greater => {
                if self.above.as_ref().is_none_or(|k| order.compare(key, k).is_lt()) {
                    self.above = Some(Arc::from(key));
                }
            }
            std::cmp::Ordering::Equal => self.hit = true,
        }
    }
}

/// The hints, and the state of the next search.
pub struct HintKeeper {
    order: KeyOrder,
    hints: Hints,
    watch: Option<Watch>,
    /// Whether puts must be checked: there is a hint or a watch.
    armed: bool,
    changed: bool,
    deletes: u32,
    /// Number of deletes between two searches for a hint around a deleted key, and its minimum.
    ask_every: u32,
    ask_every_min: u32,
    /// Minimum number of entries in a tombstone run for a hint.
    entries_min: u64,
    sample: Option<Vec<u8>>,
}

impl HintKeeper {
    /// Creates a keeper without hints.
    pub fn new(order: KeyOrder, thresholds: &Thresholds) -> HintKeeper {
        HintKeeper {
            order,
            hints: Hints::new(thresholds.hints_max),
            watch: None,
            armed: false,
            changed: false,
            deletes: 0,
            ask_every: thresholds.hint_search_deletes,
            ask_every_min: thresholds.hint_search_deletes,
            entries_min: thresholds.hint_entries_min,
            sample: None,
        }
    }

    /// Records an operation of the current commit.
    #[inline]
    pub fn note(&mut self, kind: Kind, key: &[u8]) {
        match kind {
            Kind::Put | Kind::Merge | Kind::PutExpiring | Kind::PutSeparated => {
                if self.armed {
                    self.note_put(key);
                }
            }
            Kind::Delete | Kind::RangeDelete => {
                // One range deletion may hide any number of keys.
                self.deletes += if kind == Kind::Delete { 1 } else { self.ask_every };
                if self.deletes >= self.ask_every {
                    self.take_sample(key);
                }
            }
        }
    }

    #[cold]
    fn take_sample(&mut self, key: &[u8]) {
        self.deletes = 0;
        if key.len() <= BOUND_BYTES_MAX {
            self.sample = Some(key.to_vec());
        }
    }

    /// Records an ingested table with keys from `lo` to `hi`.
    pub fn note_ingest(&mut self, lo: &[u8], hi: &[u8]) {
        if !self.armed {
            return;
        }
        let order = &self.order;
        if let Some(watch) = &mut self.watch {
            if order.compare(hi, &watch.key).is_lt() {
                watch.note(order, hi);
            } else if order.compare(lo, &watch.key).is_gt() {
                watch.note(order, lo);
            } else {
                watch.hit = true;
            }
        }
        if self.hints.remove_range(order, lo, hi) {
            self.changed = true;
            self.update_armed();
        }
    }

    fn note_put(&mut self, key: &[u8]) {
        if let Some(watch) = &mut self.watch {
            watch.note(&self.order, key);
        }
        if self.hints.cut(&self.order, key) {
            self.changed = true;
            self.update_armed();
        }
    }

    fn update_armed(&mut self) {
        self.armed = self.watch.is_some() || !self.hints.is_empty();
    }

    /// Returns the key for the next search, if one is due.
    #[inline]
    pub fn sample(&mut self) -> Option<Vec<u8>> {
        self.sample.take()
    }

    /// Returns the current list if it differs from the published one.
    #[inline]
    pub fn changed(&mut self) -> Option<Arc<Hints>> {
        if !self.changed {
            return None;
        }
        self.changed = false;
        Some(Arc::new(self.hints.clone()))
    }

    /// Starts a watch around `key` and returns the current hints. Returns `None` if a hint covers
    /// the key.
    pub fn watch(&mut self, key: &[u8]) -> Option<Arc<Hints>> {
        if self.hints.find(&self.order, key).is_some() {
            return None;
        }
        if !is_seeded(Bug::UnwatchedHintSearch) {
            self.watch = Some(Watch { key: key.to_vec(), below: None, above: None, hit: false });
        }
        self.update_armed();
        Some(Arc::new(self.hints.clone()))
    }

    /// Adds a range that a reader found empty at the last sequence number. Returns `true` if it is
    /// long enough to be kept.
    pub fn add_found(&mut self, range: Hint) -> bool {
        let added = range.dead >= self.entries_min && self.hints.add(&self.order, range);
        self.changed |= added;
        self.update_armed();
        added
    }

    /// Ends the watch and adds the found run to the hints. No key of `run` was visible at `since`,
    /// the last sequence number when the watch began. Returns `true` if there is a new hint.
    pub fn add(&mut self, run: Option<&TombstoneRun>, since: SeqNo) -> bool {
        let watch = self.watch.take();
        let added = run.filter(|run| run.dead >= self.entries_min).is_some_and(|run| {
            let (mut after, mut before) = (run.after.clone(), run.before.clone());
            if let Some(watch) = watch {
                if watch.hit {
                    return false;
                }
                let order = &self.order;
                after = later(after, watch.below, |a, b| order.compare(a, b).is_lt());
                before = later(before, watch.above, |a, b| order.compare(b, a).is_lt());
            }
            self.hints.add(&self.order, Hint::new(after, before, since, run.dead))
        });
        self.changed |= added;
        self.ask_every = if added {
            self.ask_every_min
        } else {
            (2 * self.ask_every).min(ASK_LESS_MAX * self.ask_every_min)
        };
        self.update_armed();
        added
    }
}

/// The hints of the trees above 0. A tree has a keeper from the first range on that a reader of it
/// reports. No search runs for these trees.
#[derive(Default)]
pub struct TreeHints(Vec<(TreeId, HintKeeper)>);

impl TreeHints {
    /// Records an operation of the current commit.
    #[inline]
    pub fn note(&mut self, tree: TreeId, kind: Kind, key: &[u8]) {
        if let Some(keeper) = self.find(tree) {
            keeper.note(kind, key);
        }
    }

    /// Returns the keeper of a tree, if there is one.
    pub fn find(&mut self, tree: TreeId) -> Option<&mut HintKeeper> {
        self.0.iter_mut().find(|(id, _)| *id == tree).map(|(_, keeper)| keeper)
    }

    /// Returns the keeper of a tree with the key order `order`. Creates it if there is none.
    pub fn keeper(
        &mut self,
        tree: TreeId,
        order: &KeyOrder,
        thresholds: &Thresholds,
    ) -> &mut HintKeeper {
        let place = self.0.iter().position(|(id, _)| *id == tree).unwrap_or_else(|| {
            self.0.push((tree, HintKeeper::new(order.clone(), thresholds)));
            self.0.len() - 1
        });
        &mut self.0[place].1
    }

    /// Returns the lists that differ from the published ones.
    #[inline]
    pub fn changed(&mut self) -> impl Iterator<Item = (TreeId, Arc<Hints>)> {
        self.0.iter_mut().filter_map(|(tree, keeper)| Some((*tree, keeper.changed()?)))
    }
}

/// Returns the bound that leaves the smaller range.
fn later(found: Edge, put: Edge, is_before: impl Fn(&[u8], &[u8]) -> bool) -> Edge {
    match (found, put) {
        (Some(found), Some(put)) if is_before(&found, &put) => Some(put),
        (None, put) => put,
        (found, _) => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(after: &[u8], before: &[u8]) -> TombstoneRun {
        let (after, before) = (Some(Arc::from(after)), Some(Arc::from(before)));
        TombstoneRun { after, before, dead: Thresholds::small().hint_entries_min, open: Vec::new() }
    }

    fn keeper(order: KeyOrder) -> HintKeeper {
        HintKeeper::new(order, &Thresholds::small())
    }

    fn bounds(hints: &Hints) -> Vec<(&[u8], &[u8])> {
        let bytes = |edge: &'_ Edge| -> &'_ [u8] { edge.as_deref().expect("bounded") }
            as fn(&Edge) -> &[u8];
        hints.all().iter().map(|h| (bytes(&h.after), bytes(&h.before))).collect()
    }

    #[test]
    fn concurrent_put_bounds_added_hint() {
        let mut keeper = keeper(KeyOrder::Bytewise);
        keeper.watch(b"m").expect("no hint covers the write");
        for (key, kind) in [
            (b"c", Kind::Put),
            (b"e", Kind::Merge),
            (b"d", Kind::Put),
            (b"s", Kind::Put),
            (b"q", Kind::PutExpiring),
            (b"r", Kind::Put),
        ] {
            keeper.note(kind, key);
        }
        keeper.note(Kind::Delete, b"l");
        assert!(keeper.changed().is_none());
        assert!(keeper.add(Some(&run(b"a", b"z")), 5));
        let hints = keeper.changed().expect("a new hint");
        assert_eq!(bounds(&hints), [(&b"e"[..], &b"q"[..])]);
        assert!(keeper.watch(b"m").is_none(), "a hint covers it");
        keeper.note(Kind::Put, b"m");
        let hints = keeper.changed().expect("a cut hint");
        assert_eq!(bounds(&hints), [(&b"e"[..], &b"m"[..]), (&b"m"[..], &b"q"[..])]);
    }

    #[test]
    fn ingested_table_removes_hints_in_its_range_and_bounds_the_watched_one() {
        let mut keeper = keeper(KeyOrder::Bytewise);
        keeper.note_ingest(b"a", b"z");
        for (after, before) in [(b"b", b"d"), (b"h", b"k"), (b"t", b"v")] {
            keeper.watch(before).expect("no hint covers the key");
            assert!(keeper.add(Some(&run(after, before)), 5));
        }
        let _ = keeper.changed();
        // Bounds are not inside of a hint.
        keeper.note_ingest(b"d", b"h");
        assert!(keeper.changed().is_none());
        keeper.note_ingest(b"c", b"i");
        assert_eq!(bounds(&keeper.changed().expect("two are gone")), [(&b"t"[..], &b"v"[..])]);
        keeper.watch(b"m").expect("no hint covers the key");
        keeper.note_ingest(b"e", b"g");
        keeper.note_ingest(b"p", b"q");
        assert!(keeper.add(Some(&run(b"a", b"s")), 6));
        let hints = keeper.changed().expect("a new hint");
        assert_eq!(bounds(&hints)[0], (&b"g"[..], &b"p"[..]));
        keeper.watch(b"w").expect("no hint covers the key");
        keeper.note_ingest(b"vv", b"x");
        assert!(!keeper.add(Some(&run(b"vb", b"z")), 7), "the watched key may be in the table");
    }

    #[test]
    fn no_hint_is_added_around_concurrent_put_or_for_short_run() {
        let mut keeper = keeper(KeyOrder::Reverse);
        keeper.watch(b"m").expect("no hint covers the write");
        keeper.note(Kind::Put, b"m");
        assert!(!keeper.add(Some(&run(b"z", b"a")), 5));
        keeper.watch(b"m").expect("no hint covers the write");
        let dead = keeper.entries_min - 1;
        assert!(!keeper.add(Some(&TombstoneRun { dead, ..run(b"z", b"a") }), 6));
        assert!(keeper.changed().is_none() && !keeper.armed);
    }

    #[test]
    fn hint_search_is_requested_after_many_deletes_and_backs_off() {
        let mut keeper = keeper(KeyOrder::Bytewise);
        let mut waits = Vec::new();
        for _ in 0..4 {
            let mut deletes = 0;
            let sample = loop {
                deletes += 1;
                keeper.note(Kind::Delete, &[1, deletes as u8]);
                if let Some(sample) = keeper.sample() {
                    break sample;
                }
            };
            assert_eq!(sample, [1, deletes as u8]);
            waits.push(deletes / keeper.ask_every_min);
            keeper.add(None, 1);
        }
        assert_eq!(waits, [1, 2, 4, 4]);
        keeper.note(Kind::RangeDelete, b"r");
        assert_eq!(keeper.sample().as_deref(), Some(&b"r"[..]));
    }
}
