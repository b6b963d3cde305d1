//! The loop of a compaction thread: it takes the next compaction, does it, and records its result.
//! In a store with a runtime, [`super::jobs`] does the same, one compaction for each call.
//!
//! Invariants: a compaction is counted in the queue from the moment it is taken until it has ended,
//! also when it panics. Compactions that are due come before those of a store at rest.

use super::background::CompactionResult;
use super::rest::RestStep;
use super::state::DbInner;
use crate::compaction::{BusySet, Plan, Urgency};
use crate::error::{ErrorKind, Result};
use crate::tree::purge::purge_inline;

impl DbInner {
    pub(super) fn compact_loop(&self) {
        let _inline = purge_inline();
        loop {
            let Some((plan, is_more)) = self.next_compaction() else { return };
            if is_more {
                let unwound = CompactionUnwind { inner: self, plan: &plan };
                self.start_compactor();
                std::mem::forget(unwound);
            }
            let (outcome, merged) = self.execute_picked(plan);
            self.record_outcome(outcome, false);
            self.warm(&merged);
        }
    }

    /// Executes a plan that is in the list of running compactions, and takes it from there.
    pub(super) fn execute_picked(&self, plan: Plan) -> (Result<()>, CompactionResult) {
        let unwound = CompactionUnwind { inner: self, plan: &plan };
        let mut outcome = self.compact(&plan);
        std::mem::forget(unwound);
        {
            let mut queue = self.queue.lock();
            queue.busy.remove(&plan);
            queue.running -= 1;
            if plan.urgency == Urgency::Rest {
                outcome = Ok(self.end_rest_compaction(&mut queue, &plan, outcome));
            }
            if queue.space_waiters > 0
                && matches!(&outcome, Err(e) if e.kind() == ErrorKind::Closed)
            {
                // It gave its space to a flush and starts again after it.
                outcome = Ok(CompactionResult::default());
            }
        }
        // The plan keeps the merged files, and the files keep their blocks.
        drop(plan);
        let merged = outcome.as_mut().map(std::mem::take).unwrap_or_default();
        (outcome.map(drop), merged)
    }

    /// Waits for the next compaction and takes it. Returns it and whether another thread would find
    /// more work; `None` when the store is closing.
    fn next_compaction(&self) -> Option<(Plan, bool)> {
        let mut queue = self.queue.lock();
        loop {
            if queue.is_stopped() {
                return None;
            }
            if !queue.exclusive
                && queue.space_waiters == 0
                && let Some(plan) = self.pick(&queue.busy)
            {
                queue.busy.insert(&plan);
                queue.running += 1;
                let all = queue.running >= self.threads.compactors();
                return Some((plan, all && self.is_work_for_another(&queue.busy)));
            }
            self.idle.notify_all();
            let step;
            (queue, step) = self.rest_step(queue);
            match step {
                RestStep::Compact(plan) => {
                    queue.busy.insert(&plan);
                    queue.running += 1;
                    return Some((*plan, false));
                }
                RestStep::LookAgain => {}
                RestStep::Wait(begin) => queue = self.wait_for_work_or_rest(queue, begin),
            }
        }
    }

    /// Returns whether one more compaction thread may be started and would find work.
    fn is_work_for_another(&self, busy: &BusySet) -> bool {
        self.threads.compactors() < self.sizes.load().compaction_threads
            && self.pick(busy).is_some()
    }
}

/// Guard dropped when a compaction panicked: removes the compaction from the queue's counts.
struct CompactionUnwind<'a> {
    inner: &'a DbInner,
    plan: &'a Plan,
}

impl Drop for CompactionUnwind<'_> {
    fn drop(&mut self) {
        let mut queue = self.inner.queue.lock();
        queue.busy.remove(self.plan);
        queue.running -= 1;
        queue.resting -= usize::from(self.plan.urgency == Urgency::Rest);
        drop(queue);
        self.inner.idle.notify_all();
    }
}
