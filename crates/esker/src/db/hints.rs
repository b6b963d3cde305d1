//! The thread that looks for skip hints ([`crate::iter::hints`]): around one key of every few
//! thousand that are deleted, it walks over what is not visible, both ways, up to what is.
//!
//! What stays true: the walk reads a view that holds everything up to the number it reads at, and
//! nothing of the store waits for it but the commit lock, twice for a moment. It walks in short
//! stretches, each ending in a hint that the next jumps over; between two of them it holds nothing
//! and sees whether the store closes. A failed read ends the search: whoever needs the data is told
//! by a read of their own.

use std::ops::Bound;
use std::sync::Arc;

use crate::base::sync::atomic::Ordering;

use super::state::Inner;
use crate::iter::hints::{BOUND_BYTES_MAX, Hints};
use crate::read::scan::DbIterator;

/// So many keys to look around may wait.
const SAMPLES_MAX: usize = 8;
/// So often the hints are asked in one stretch: about 8,000 keys.
const PATIENCE: u64 = if cfg!(debug_assertions) { 8 } else { 256 };
/// So many stretches follow from one key at most.
const STRETCHES_MAX: usize = 1024;

impl Inner {
    /// Has the keys around `sample` looked at, where there is a thread for it.
    #[cold]
    pub fn ask_for_hints(&self, sample: Vec<u8>) {
        if self.stepped() {
            return;
        }
        let mut queue = self.queue.lock();
        let was_empty = queue.hint_samples.is_empty();
        if queue.hint_samples.len() < SAMPLES_MAX {
            queue.hint_samples.push_back(sample);
        }
        drop(queue);
        if was_empty {
            self.work.notify_all();
        }
    }

    /// Gives readers the list `hints`. Called by who holds the commit lock.
    pub fn show_hints(&self, hints: Arc<Hints>) {
        let any = !hints.is_empty();
        self.hints.store(hints);
        self.any_hints.store(any, Ordering::Release);
    }

    /// The hints of now, if there are any.
    #[inline]
    pub fn hints(&self) -> Option<Arc<Hints>> {
        self.any_hints.load(Ordering::Acquire).then(|| self.hints.load_full())
    }

    /// The thread: one key after another.
    pub(super) fn hint_loop(&self) {
        loop {
            let sample = {
                let mut queue = self.queue.lock();
                loop {
                    if queue.stop {
                        return;
                    }
                    if let Some(sample) = queue.hint_samples.pop_front() {
                        break sample;
                    }
                    self.work.wait(&mut queue);
                }
            };
            self.look_around(sample);
        }
    }

    fn look_around(&self, sample: Vec<u8>) {
        let mut ahead: Vec<Arc<[u8]>> = vec![Arc::from(sample)];
        for _ in 0..STRETCHES_MAX {
            let Some(key) = ahead.pop() else { return };
            if self.closed.load(Ordering::Relaxed) {
                return;
            }
            ahead.extend(self.look_at(&key));
        }
    }

    /// Looks around `key`, adds a hint if that pays, and returns where the search is to go on.
    fn look_at(&self, key: &[u8]) -> Vec<Arc<[u8]>> {
        let (view, since, hints) = {
            let mut core = self.committer.lock();
            let Some(hints) = core.hints.watch(key) else { return Vec::new() };
            // Only who holds this lock freezes a memtable, so the view has all up to the number.
            (self.view.load(), core.next_seqno - 1, hints)
        };
        let everything = (Bound::Unbounded, Bound::Unbounded);
        let walked = DbIterator::new(view, &self.tables, since, everything, false)
            .and_then(|iter| iter.dead_run(key, hints, PATIENCE));
        let run = walked.ok().flatten();
        let mut core = self.committer.lock();
        let added = core.hints.add(run.as_ref(), since);
        if let Some(hints) = core.hints.changed() {
            self.show_hints(hints);
        }
        drop(core);
        let mut open = run.filter(|_| added).map_or(Vec::new(), |run| run.open);
        open.retain(|edge| edge.len() <= BOUND_BYTES_MAX);
        open
    }
}
