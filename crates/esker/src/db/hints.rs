//! The thread that looks for skip hints ([`crate::iter::hints`]): around one key of every few
//! thousand that are deleted, it walks over what is not visible, both ways, up to what is.
//!
//! What stays true: the walk reads a view that holds everything up to the number it reads at, and
//! it takes the commit lock for a moment only. It walks in short stretches, each ending in a hint that
//! the next jumps over; between two of them it takes that lock once, and sees whether the store closes.
//! Who deletes faster than it walks waits for it, within bounds ([`Inner::wait_for_hints`]). A failed
//! read ends the search: whoever needs the data is told by a read of their own.

use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::base::sync::atomic::Ordering;

use super::roles::Role;
use super::state::Inner;
use crate::base::key::SeqNo;
use crate::iter::hints::{BOUND_BYTES_MAX, Hints};
use crate::iter::visible::DeadRun;
use crate::read::View;
use crate::read::scan::DbIterator;
use crate::write::core::Core;

/// So many keys to look around may wait.
const SAMPLES_MAX: usize = 8;
/// A writer waits at most so often, so long each time, for the thread to look around a key.
const WAITS_MAX: u32 = 8;
const WAIT: Duration = Duration::from_micros(250);
/// Longer than a store is open.
const FOR_EVER: Duration = Duration::from_secs(1 << 32);
/// So often the hints are asked in one stretch: about 8,000 keys.
const PATIENCE: u64 = if cfg!(debug_assertions) { 8 } else { 256 };
/// So many stretches follow from one key at most.
const STRETCHES_MAX: usize = 1024;

impl Inner {
    /// Has the keys around `sample` looked at, where there is a thread for it.
    #[cold]
    pub fn ask_for_hints(&self, sample: Vec<u8>) {
        if self.stepped() || self.ensure(Role::Hints).is_err() {
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
        } else {
            self.pace.hints_behind.store(true, Ordering::Relaxed);
        }
    }

    /// Waits for the thread to come nearer to what was deleted last: as long as deletes are ahead of
    /// it, a reader steps over all that it has not come to. After a delete that asked for a search; where
    /// several threads write, it may be another of them that waits. It does so for 2 ms at most, and a
    /// quarter of the time.
    #[cold]
    pub fn wait_for_hints(&self) {
        if !self.pace.hints_behind.swap(false, Ordering::Relaxed) {
            return;
        }
        let began = Instant::now();
        let mut queue = self.queue.lock();
        if queue.hints_unawaited_until.is_some_and(|until| began < until) {
            return;
        }
        for _ in 0..WAITS_MAX {
            if queue.hint_samples.len() < 2 || queue.is_over() {
                break;
            }
            self.idle.wait_for(&mut queue, WAIT);
        }
        let waited = began.elapsed();
        queue.hints_unawaited_until = queue.hints_unawaited_until.max(Some(began + 4 * waited));
        drop(queue);
        self.counters.slowed_us.add(waited.as_micros() as u64);
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
                    if queue.is_over() {
                        return;
                    }
                    if let Some(sample) = queue.hint_samples.front() {
                        break sample.clone();
                    }
                    self.work.wait(&mut queue);
                }
            };
            let _front = Front(self);
            self.look_around(sample);
        }
    }

    /// Looks around `sample`, stretch after stretch.
    fn look_around(&self, sample: Vec<u8>) {
        if self.is_hinted(&sample) {
            return;
        }
        let mut ahead: Vec<Arc<[u8]>> = vec![Arc::from(sample)];
        let mut walked = None;
        for _ in 0..STRETCHES_MAX {
            let begun = {
                // Under one lock: what was walked is added, and the next stretch begins.
                self.committer.lock_soon().guarded(|core| {
                    if let Some(walked) = walked.take() {
                        ahead.extend(self.end_stretch(core, walked));
                    }
                    self.begin_stretch(core, &mut ahead)
                })
            };
            let Some(begun) = begun else { return };
            walked = Some(self.walk(begun));
        }
        if let Some(walked) = walked {
            self.committer.lock_soon().guarded(|core| self.end_stretch(core, walked));
        }
    }

    /// Whether readers have a hint that covers `key`.
    fn is_hinted(&self, key: &[u8]) -> bool {
        let hints = self.hints();
        hints.is_some_and(|hints| hints.find(&self.order, key, SeqNo::MAX).is_some())
    }

    /// Adds a hint about what was `walked`, if that pays; returns where the search is then to go on.
    fn end_stretch(&self, core: &mut Core, walked: Walked) -> Vec<Arc<[u8]>> {
        let Walked { run, since } = walked;
        let added = core.hints.add(run.as_ref(), since);
        if let Some(hints) = core.hints.changed() {
            self.show_hints(hints);
        }
        let mut open = run.filter(|_| added).map_or(Vec::new(), |run| run.open);
        open.retain(|edge| edge.len() <= BOUND_BYTES_MAX);
        open
    }

    /// Takes the next key of those `ahead` that no hint covers, and begins to watch it; `None` if there
    /// is none, or the store is closing.
    fn begin_stretch(&self, core: &mut Core, ahead: &mut Vec<Arc<[u8]>>) -> Option<Begun> {
        while !self.closed.load(Ordering::Relaxed) {
            let key = ahead.pop()?;
            if let Some(hints) = core.hints.watch(&key) {
                // Only who holds the core freezes a memtable, so the view has all up to the number.
                return Some(Begun {
                    key,
                    view: self.view.load(),
                    since: core.next_seqno - 1,
                    hints,
                });
            }
        }
        None
    }

    /// Walks over what is not visible around a key. Nothing is locked.
    fn walk(&self, begun: Begun) -> Walked {
        let Begun { key, view, since, hints } = begun;
        let everything = (Bound::Unbounded, Bound::Unbounded);
        let run = DbIterator::new(view, &self.tables, since, everything, false)
            .and_then(|iter| iter.dead_run(&key, hints, PATIENCE));
        Walked { run: run.ok().flatten(), since }
    }
}

/// The sample that is looked around. It stays in the queue until that is done, so that who asks for
/// the next sees it.
struct Front<'a>(&'a Inner);

impl Drop for Front<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.queue.lock();
        queue.hint_samples.pop_front();
        if std::thread::panicking() {
            // By an order of the user's own, and the thread is gone.
            queue.hints_unawaited_until = Some(Instant::now() + FOR_EVER);
        }
        drop(queue);
        self.0.idle.notify_all();
    }
}

/// A stretch to walk: around `key`, in a view that has everything up to the number `since`.
struct Begun {
    key: Arc<[u8]>,
    view: Arc<View>,
    since: SeqNo,
    hints: Arc<Hints>,
}

/// What a walk at the number `since` came over.
struct Walked {
    run: Option<DeadRun>,
    since: SeqNo,
}
