//! Commit of a transaction: the rounds of the check ([`super`]).

use std::sync::Arc;

use super::newer::{StoreCheck, TreeOrders};
use super::state::{Phase, Shared, State};
use super::{COMMITTED, ROLLED_BACK, Transaction};
use crate::db::state::DbInner;
use crate::error::Result;
use crate::options::kinds::Durability;
use crate::txn::footprint::Footprint;
use crate::txn::item::Reads;
use crate::write::batch::Batch;
use crate::write::commit::LARGE_BYTES;

/// Number of rounds in which the store is asked without the writer state's lock.
const ROUNDS: u32 = 4;

/// An encoded batch: its payload, the number of its operations, and the bytes of its keys and
/// values.
pub(super) type Encoded<'a> = (&'a [u8], u32, u64);

impl Transaction {
    /// Makes the writes visible and durable, all together, as [`Db::write`](crate::Db::write) does
    /// with a batch. The commit of a transaction without writes takes no lock of the store, and
    /// succeeds unless something was read for an update.
    ///
    /// After `Ok`, `docs/durability.md` describes what a crash can lose. After an error the
    /// transaction is rolled back, and nothing was written, except that after `ReadOnly` or `Io`
    /// the store must be opened again to see whether it contains the writes.
    ///
    /// # Errors
    /// * `Conflict` when something that the transaction has written, or that it has read and that
    ///   is protected, was written after its snapshot, or is locked by a prepared transaction. Run
    ///   the transaction again.
    /// * `NotFound` when one of its keyspaces was dropped.
    /// * `InvalidArgument` after a panic of a key order in one of its calls.
    /// * As [`Db::write`](crate::Db::write).
    pub fn commit(self) -> Result<()> {
        let shared = &self.shared;
        let mut state = shared.active()?;
        if state.batch.is_empty() {
            let outcome = shared.check_update_reads(&mut state);
            shared.end_locked(state, if outcome.is_ok() { COMMITTED } else { ROLLED_BACK });
            return outcome;
        }
        // Others get an error from now on, and the batch is checked as it is now.
        state.phase = Phase::Ended("is being committed");
        let batch = std::mem::take(&mut state.batch);
        let reads = std::mem::take(&mut state.reads);
        let since = shared.snapshot(&mut state).seqno();
        drop(state);
        let footprint = Footprint::new(
            shared.id,
            shared.inner().transactions.locks.clone(),
            since,
            reads,
            None,
        );
        let outcome = shared.commit_batch(&batch, footprint);
        shared.end(if outcome.is_ok() { COMMITTED } else { ROLLED_BACK });
        outcome
    }
}

impl Shared {
    /// Checks a transaction without writes that has read something for an update.
    fn check_update_reads(&self, state: &mut State) -> Result<()> {
        if !state.has_update_reads {
            return Ok(());
        }
        let since = self.snapshot(state).seqno();
        StoreCheck::new(self.inner()).refuse_newer(since, state.reads.items(&[]))
    }

    fn commit_batch(&self, batch: &Batch, footprint: Footprint) -> Result<()> {
        let inner = self.inner();
        for keyspace in batch.keyspaces() {
            inner.check_keyspace(keyspace)?;
        }
        let (payload, count, user_bytes) = batch.parts()?;
        let timed = inner.timed_payload(batch);
        let payload = timed.as_deref().unwrap_or(payload);
        inner.commit_checked((payload, count, user_bytes), self.options.durability, footprint)
    }

    /// Returns the footprint of a transaction that is checked before its operations are committed.
    pub fn footprint_of(&self, since: u64, reads: Reads, operations: Vec<u8>) -> Footprint {
        let locks = self.inner().transactions.locks.clone();
        Footprint::new(self.id, locks, since, reads, Some(operations))
    }
}

impl DbInner {
    /// Commits a batch if nothing of `footprint` was written after its snapshot, which the caller
    /// holds.
    pub(super) fn commit_checked(
        &self,
        batch: Encoded<'_>,
        durability: Option<Durability>,
        footprint: Footprint,
    ) -> Result<()> {
        let (payload, count, user_bytes) = batch;
        if payload.len() >= LARGE_BYTES {
            self.wait_for_room(payload.len() as u64, None)?;
        }
        let check = Arc::new(footprint);
        let ask_store = || {
            let items = check.items(payload);
            StoreCheck::new(self).refuse_newer(check.since(), items)
        };
        for _ in 0..ROUNDS {
            let outcome = self.write_checked(payload, count, user_bytes, durability, &check);
            let Some(answered_to) = check.take_asked() else { return outcome };
            // The oracle has called the other items clean up to that number.
            ask_store()?;
            check.set_since(answered_to);
        }
        let orders = TreeOrders(self.trees());
        let condition = || -> Result<bool> {
            check.refuse_prepared(payload, &orders)?;
            ask_store()?;
            Ok(true)
        };
        self.write_if(payload, count, user_bytes, durability, condition).map(drop)
    }
}
