//! Background search for empty-range hints ([`crate::iter::hints`]). The search samples one of
//! every few thousand deleted keys. It steps over the invisible entries around that key, in both
//! directions, up to the nearest visible keys.
//!
//! Invariants:
//! * The search uses a read state that holds everything up to the sequence number it reads at.
//! * The commit lock is held only briefly. The search runs in short steps. Each step ends in a
//!   hint, which the next step jumps over. Between two steps the lock is taken once, and the search
//!   checks whether the store is closing.
//! * No writer waits for the search. While deletes are ahead of it, readers step over what it has
//!   not reached.
//! * A failed read ends the search. A caller that needs the data gets the error from its own read.

use std::ops::Bound;
use std::sync::Arc;

use crate::base::sync::atomic::Ordering;
use crate::base::sync::{Bug, is_seeded};

use super::state::DbInner;
use super::thread_roles::Role;
use super::tree::Tree;
use crate::base::key::SeqNo;
use crate::base::keyspace::TreeId;
use crate::base::workers::JobClass;
use crate::iter::hints::{BOUND_BYTES_MAX, Edge, Hint, Hints};
use crate::iter::operands::Resolver;
use crate::iter::tombstone_run::TombstoneRun;
use crate::read::ReadState;
use crate::read::scan::DbIterator;
use crate::write::hints::HintKeeper;
use crate::write::writer_state::WriterState;

/// Maximum number of waiting samples.
const SAMPLES_MAX: usize = 8;
/// Maximum number of search steps from one sample.
const STEPS_MAX: usize = 1024;

impl DbInner {
    /// Requests a search around `sample`, unless there is no thread for it.
    #[cold]
    pub fn request_hint_search(&self, sample: Vec<u8>) {
        if self.is_manual_background() || self.ensure(Role::Hints).is_err() {
            return;
        }
        let mut queue = self.queue.lock();
        let was_empty = queue.hint_samples.is_empty();
        if queue.hint_samples.len() < SAMPLES_MAX {
            queue.hint_samples.push_back(sample);
        }
        drop(queue);
        if was_empty {
            self.wake(JobClass::Idle);
        }
    }

    /// Lets readers of a tree report the empty key ranges that they find. A store without writers
    /// learns nothing: what it reads may change without a commit.
    pub(super) fn watch_empty_ranges(&self, tree: &Tree) {
        if self.read_only {
            return;
        }
        let (store, id) = (self.me.clone(), tree.id);
        tree.tables.watch_empty_ranges(Box::new(move |range, forward| {
            if let Some(store) = store.upgrade() {
                store.take_report(id, range, forward);
            }
        }));
    }

    /// Adds the range that a reader of a tree found empty to the hints. If something was committed
    /// since, or a writer is at work, a search continues in tree 0 from where the reader's hint
    /// ended.
    #[cold]
    fn take_report(&self, tree: TreeId, range: Hint, forward: bool) {
        let from = if forward { range.after.clone() } else { range.before.clone() };
        // A search does not see that pairs have expired.
        let can_search = tree == 0 && range.from_ms == 0;
        let taken = self.committer.try_lock().is_some_and(|mut writer| {
            writer.poison_on_panic(|writer| {
                let is_current =
                    writer.next_seqno == range.since + 1 || is_seeded(Bug::StaleEmptyRange);
                let added = is_current && self.keeper(writer, tree).add_found(range);
                writer.show_hints(self);
                added
            })
        });
        if !taken && can_search {
            self.search_behind_hint(from, forward);
        }
    }

    /// Returns the keeper of a tree's hints.
    fn keeper<'a>(&self, writer: &'a mut WriterState, tree: TreeId) -> &'a mut HintKeeper {
        match self.trees.load().get(tree as usize) {
            Some(of) if tree > 0 => {
                let thresholds = &self.options.load().thresholds;
                writer.tree_hints.keeper(tree, &of.order, thresholds)
            }
            _ => &mut writer.hints,
        }
    }

    /// Requests a search at the end of the hint that a seek from `from` used.
    fn search_behind_hint(&self, from: Edge, forward: bool) {
        let hints = self.hints.get();
        let hint = hints.as_ref().and_then(|hints| match &from {
            Some(from) => hints.find(&self.order, from),
            None => hints.outermost(forward),
        });
        let end =
            hint.and_then(|hint| if forward { hint.before.clone() } else { hint.after.clone() });
        let first = || forward.then(|| Arc::from(&[][..]));
        if let Some(sample) = end.or(from).or_else(first) {
            self.request_hint_search(sample.to_vec());
        }
    }

    /// Publishes the list `hints` of a tree to readers. The caller holds the commit lock.
    pub fn publish_hints(&self, tree: TreeId, hints: Arc<Hints>) {
        match self.trees.load().get(tree as usize) {
            Some(of) if tree > 0 => of.hints.publish(hints),
            _ => self.hints.publish(hints),
        }
    }

    /// Main loop of the search thread: processes one sample after another.
    pub(super) fn hint_loop(&self) {
        loop {
            let sample = {
                let mut queue = self.queue.lock();
                loop {
                    if queue.is_stopped() {
                        return;
                    }
                    if let Some(sample) = queue.hint_samples.front() {
                        break sample.clone();
                    }
                    self.work.wait(&mut queue);
                }
            };
            let _front = SampleGuard(self);
            self.search_around(sample);
        }
    }

    /// Processes the next sample, if there is one.
    pub(super) fn search_next_hint(&self) -> bool {
        let sample = self.queue.lock().hint_samples.front().cloned();
        let Some(sample) = sample else { return false };
        let _front = SampleGuard(self);
        self.search_around(sample);
        true
    }

    /// Searches around `sample`, one step after another.
    fn search_around(&self, sample: Vec<u8>) {
        if self.is_hinted(&sample) {
            return;
        }
        let mut ahead: Vec<Arc<[u8]>> = vec![Arc::from(sample)];
        let mut searched = None;
        for _ in 0..STEPS_MAX {
            let begun = {
                // Under one lock: the last step's result is added, and the next step begins.
                self.committer.lock_soon().poison_on_panic(|writer| {
                    if let Some(searched) = searched.take() {
                        ahead.extend(self.end_step(writer, searched));
                    }
                    self.begin_step(writer, &mut ahead)
                })
            };
            let Some(begun) = begun else { return };
            searched = Some(self.search(begun));
        }
        if let Some(searched) = searched {
            self.committer.lock_soon().poison_on_panic(|writer| self.end_step(writer, searched));
        }
    }

    /// Returns whether readers have a hint that covers `key`.
    fn is_hinted(&self, key: &[u8]) -> bool {
        let hints = self.hints.get();
        hints.is_some_and(|hints| hints.find(&self.order, key).is_some())
    }

    /// Adds a hint for the range `searched`, if that pays. Returns the keys at which the search
    /// continues.
    fn end_step(&self, writer: &mut WriterState, searched: StepResult) -> Vec<Arc<[u8]>> {
        let StepResult { run, since } = searched;
        let added = writer.hints.add(run.as_ref(), since);
        writer.show_hints(self);
        let mut open = run.filter(|_| added).map_or(Vec::new(), |run| run.open);
        open.retain(|edge| edge.len() <= BOUND_BYTES_MAX);
        open
    }

    /// Takes the next key of `ahead` that no hint covers, and begins to watch it. Returns `None` if
    /// there is no such key, or the store is closing.
    fn begin_step(
        &self,
        writer: &mut WriterState,
        ahead: &mut Vec<Arc<[u8]>>,
    ) -> Option<SearchStep> {
        while !self.closed.load(Ordering::Relaxed) {
            let key = ahead.pop()?;
            if let Some(hints) = writer.hints.watch(&key) {
                // Only the holder of the writer state freezes a memtable, so the read state holds
                // everything up to `since`.
                return Some(SearchStep {
                    key,
                    read_state: self.read_state.load(),
                    since: writer.next_seqno - 1,
                    hints,
                });
            }
        }
        None
    }

    /// Steps over the invisible entries around a key. Holds no lock.
    fn search(&self, begun: SearchStep) -> StepResult {
        let SearchStep { key, read_state, since, hints } = begun;
        let everything = (Bound::Unbounded, Bound::Unbounded);
        let moment = (since, Resolver::keys_only());
        let lookups_max = self.options.load().thresholds.hint_search_lookups_max;
        let run = DbIterator::new(read_state, &self.tables, moment, everything, false)
            .and_then(|iter| iter.tombstone_run(&key, hints, lookups_max));
        StepResult { run: run.ok().flatten(), since }
    }
}

/// Guard of the sample being searched. The sample stays in the queue until its search is done, so
/// that the next request for a search finds it there.
struct SampleGuard<'a>(&'a DbInner);

impl Drop for SampleGuard<'_> {
    fn drop(&mut self) {
        self.0.queue.lock().hint_samples.pop_front();
    }
}

/// A search step around `key`, in a read state that holds everything up to `since`.
struct SearchStep {
    key: Arc<[u8]>,
    read_state: Arc<ReadState>,
    since: SeqNo,
    hints: Arc<Hints>,
}

/// The result of a search step at the sequence number `since`.
struct StepResult {
    run: Option<TombstoneRun>,
    since: SeqNo,
}
