//! A store and its runtime: requests for workers, the size of the cache, and waits for memory.
//!
//! Invariants: a store without a runtime does here what it does for itself. A wait for memory holds
//! the writer state. It ends by flushes of other stores, which need no lock of this store, and by the
//! turns of the writers before it, which poll and hold no place in the queue while they freeze.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::runtime::{RuntimeShare, store_index_limit_bytes};
use super::stall_list::StallCause;
use super::state::DbInner;
use crate::base::memory_ledger::Account;
use crate::base::sync::atomic::Ordering;
use crate::base::units::MIB;
use crate::base::workers::{JobClass, Member};
use crate::error::Result;
use crate::memtable::ChunkPool;
use crate::options::validate::transient_bytes;
use crate::write::writer_state::WriterState;

/// The smallest active memtable whose next log is mapped, in bytes. A mapped log takes half a MiB
/// of memory, which a store that writes little does not need.
const MAPPED_FROM_BYTES: u64 = 4 * MIB;
/// Time between two checks of a writer that waits for memory of the runtime.
const MEMORY_POLL: Duration = Duration::from_millis(10);

impl DbInner {
    /// Returns the store's membership in the workers of its runtime, if these do its background
    /// work.
    #[inline]
    pub(super) fn member(&self) -> Option<&Member> {
        self.share.as_ref().and_then(RuntimeShare::member)
    }

    /// Returns the store's account of memory in its runtime.
    #[inline]
    pub(super) fn account(&self) -> Option<&Arc<Account>> {
        self.share.as_ref().and_then(RuntimeShare::account)
    }

    /// Says that there may be background work of `class`. Where the caller must not miss a thread
    /// between its last check and its wait, it holds the queue's lock.
    pub(super) fn wake(&self, class: JobClass) {
        match self.member() {
            Some(member) => member.ask(class),
            None => self.work.notify_all(),
        }
    }

    /// Says that there may be background work of every class.
    pub(super) fn wake_all(&self) {
        match self.member() {
            Some(member) => JobClass::ALL.into_iter().for_each(|class| member.ask(class)),
            None => self.work.notify_all(),
        }
    }

    /// Says that there may be a flush or a compaction to do.
    pub(super) fn wake_jobs(&self) {
        self.wake(JobClass::Flush);
        if self.member().is_some() {
            self.wake(JobClass::Compact);
        }
    }

    /// Sets the cache capacity to the part of the budget that memtables and open tables leave.
    pub fn resize_cache(&self) {
        let sizes = self.sizes.load();
        let view = self.read_state.load();
        if let Some(share) = &self.share {
            return share.note_tables(&view.files());
        }
        let tables = self.tables.memory_bytes(&view.files());
        let count = 1 + self.options.load().frozen_memtables_max;
        let memtables = ChunkPool::most_bytes(count, sizes.memtable_bytes);
        let limit = store_index_limit_bytes(&self.options.load(), &sizes);
        self.tables.config().index_budget.set_limit(limit);
        let held = memtables.saturating_add(tables) + transient_bytes(sizes.memory_budget_bytes);
        let room = sizes.memory_budget_bytes.saturating_sub(held);
        let least = sizes.cache_bytes / 8;
        self.cache.set_capacity(sizes.cache_bytes.min(room.max(least)));
    }

    /// Returns whether the next log may be mapped into memory.
    pub(super) fn may_map_log(&self) -> bool {
        self.share.is_none() || self.read_state.load().active_bytes() >= MAPPED_FROM_BYTES
    }

    /// Returns the expected bytes of the memtables that follow memtables of `full_bytes`, which
    /// determine the size of their filters.
    pub(super) fn next_memtable_bytes(&self, full_bytes: u64) -> usize {
        let most = self.write_params.memtable_bytes.load(Ordering::Relaxed);
        let expected = if self.share.is_some() { most.min(2 * full_bytes) } else { most };
        expected as usize
    }

    /// Records the memory of the active memtable, which has `used` bytes. Freezes it where other
    /// stores need its memory, and waits while the memtables of all stores use all of their part of
    /// the budget. Returns whether the active memtable is a new one. The caller holds the writer
    /// state.
    ///
    /// # Errors
    /// `Busy` when the wait would end after `deadline`; the errors of a freeze; `Closed`.
    #[inline]
    pub(super) fn keep_to_runtime_memory(
        &self,
        account: &Account,
        writer: &mut WriterState,
        used: u64,
        deadline: Option<Instant>,
    ) -> Result<bool> {
        account.set_active(used);
        let mut is_new = false;
        if account.is_flush_wanted() && self.can_freeze_as_wanted(account, writer) {
            self.retry_with_space(|| self.freeze(writer))?;
            is_new = true;
        }
        if account.must_wait(if is_new { 0 } else { used }) {
            is_new |= self.wait_for_runtime_memory(account, writer, deadline)?;
        }
        Ok(is_new)
    }

    /// Returns whether the active memtable can be frozen. Declines the wanted flush where it is empty
    /// or too many immutable ones wait: another one would stop the writers of this store.
    #[cold]
    fn can_freeze_as_wanted(&self, account: &Account, writer: &WriterState) -> bool {
        let most = self.options.load().frozen_memtables_max as usize;
        let can_freeze = !writer.memtables.is_empty() && self.queue.lock().frozen.len() < most;
        if !can_freeze {
            account.decline_flush();
        }
        can_freeze
    }

    /// Waits until the memtables of the runtime need less than their part of the budget, and those
    /// who came before have had their turn. Does not wait where the flushes of this store fail: its
    /// writers get that error when its memtables are full. Returns whether the active memtable is a new one.
    #[cold]
    fn wait_for_runtime_memory(
        &self,
        account: &Account,
        writer: &mut WriterState,
        deadline: Option<Instant>,
    ) -> Result<bool> {
        let ledger = account.ledger();
        if account.is_failing() {
            return Ok(false);
        }
        let mut is_new = false;
        let cause = StallCause::RuntimeMemory(ledger.total_bytes());
        let is_late = || deadline.is_some_and(|end| end <= Instant::now());
        let stall = self.begin_stall(cause, &mut self.queue.lock());
        let mut place = None;
        let waited = loop {
            ledger.relieve();
            if account.is_flush_wanted() && self.can_freeze_as_wanted(account, writer) {
                // The freeze may wait for this store alone: nobody waits behind it.
                place = None;
                if let Err(error) = self.retry_with_space(|| self.freeze(writer)) {
                    break Err(error);
                }
                is_new = true;
            }
            let turn = place.get_or_insert_with(|| account.queue_up());
            if turn.has_come() || account.is_failing() {
                break Ok(is_new);
            }
            let queue = self.queue.lock();
            if queue.is_stopped() {
                let open = self.check_open().map(|()| is_new);
                break queue.broken.clone().map_or(open, Err);
            }
            if is_late() {
                let cause = StallCause::RuntimeMemory(ledger.total_bytes());
                break Err(self.busy_before_flush(cause, &queue));
            }
            drop(queue);
            let poll = Instant::now() + MEMORY_POLL;
            turn.wait_until(deadline.map_or(poll, |end| end.min(poll)));
        };
        drop(place);
        self.end_stall(stall, &mut self.queue.lock());
        waited
    }
}
