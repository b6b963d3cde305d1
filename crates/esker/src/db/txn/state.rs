//! The state of a transaction: its snapshot, its writes, what it has read, and its locks.
//!
//! **Snapshot.** An optimistic transaction takes its snapshot when it begins. A pessimistic one
//! takes it in its first call, after that call has its lock. So a transaction that first locks what
//! it is about to change sees what the holder before it has committed.
//!
//! **A lock of a changed key.** After a wait for a lock, the key is often newer than the snapshot.
//! Then the snapshot moves to the present, if nothing that the transaction has used so far was
//! written since ([`Shared::lock`]): the transaction could as well have begun now. It cannot move
//! if the transaction has read without locks, as a plain get does under snapshot isolation. Then
//! the call returns `Conflict`.
//!
//! Invariants:
//! 1. While the transaction is active, the snapshot is in the list of snapshots. A new snapshot is
//!    held before the old one is released.
//! 2. Whatever the transaction has read without a footprint was read at one snapshot.
//! 3. `changes` grows with every change of the writes, under the state's lock.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::newer::{StoreCheck, conflict};
use super::options::TransactionOptions;
use super::pending::Pending;
use super::target::Target;
use crate::base::keyspace::{KeyspaceId, PREFIX_BYTES, keyspace_of};
use crate::base::ops::Ops;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::{Mutex, MutexGuard};
use crate::db::Db;
use crate::db::snapshot::Snapshot;
use crate::db::state::DbInner;
use crate::error::{Error, Result};
use crate::txn::item::{Item, Reads, TransactionId};
use crate::txn::locks::LockOwner;
use crate::txn::writes::{KeyspaceWrites, Version};
use crate::write::batch::{Batch, BatchMark};

/// Value of [`Shared::changes`] after the end of the transaction.
pub(super) const ENDED: u64 = u64::MAX;

/// Whether a transaction can still be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// It can.
    Active,
    /// A call changes the writes. If it panics, in a key order, the transaction is in this phase.
    Changing,
    /// It has ended; the text says how.
    Ended(&'static str),
}

/// A write of one key.
#[derive(Clone, Copy)]
pub(super) enum Write<'a> {
    /// A put, and its time to live if it states one.
    Put(&'a [u8], Option<Duration>),
    /// A merge of an operand.
    Merge(&'a [u8]),
    /// A delete.
    Delete,
}

impl Write<'_> {
    /// Returns the value or the operand.
    pub fn value(&self) -> &[u8] {
        match self {
            Write::Put(value, _) | Write::Merge(value) => value,
            Write::Delete => &[],
        }
    }
}

/// A transaction, shared with its iterators.
pub(super) struct Shared {
    pub db: Db,
    pub id: TransactionId,
    pub options: TransactionOptions,
    state: Mutex<State>,
    /// Number of changes of the writes, or [`ENDED`].
    changes: AtomicU64,
}

/// The state of a transaction.
pub(super) struct State {
    pub phase: Phase,
    snapshot: Option<Arc<Snapshot>>,
    /// The operations.
    pub batch: Batch,
    writes: HashMap<KeyspaceId, KeyspaceWrites>,
    savepoints: Vec<BatchMark>,
    /// What was read and must be unchanged at the commit.
    pub reads: Reads,
    /// Whether something was read that `reads` does not have.
    pub has_free_reads: bool,
    /// Whether something was read for an update, so that a commit without writes is checked too.
    pub has_update_reads: bool,
    pub owner: LockOwner,
    watches_ranges: bool,
    is_released: bool,
}

impl Shared {
    /// Begins a transaction.
    pub fn new(db: Db, options: TransactionOptions) -> Shared {
        let transactions = &db.inner.transactions;
        let id = transactions.next_id();
        // Before the snapshot: see `txn::oracle`.
        transactions.watch.begin();
        let watches_ranges = options.is_serializable();
        if watches_ranges {
            transactions.watch.begin_ranges();
        }
        let now = || Arc::new(Snapshot::new(db.inner.clone()));
        let state = State {
            phase: Phase::Active,
            snapshot: (!options.is_pessimistic()).then(now),
            batch: Batch::new(),
            writes: HashMap::new(),
            savepoints: Vec::new(),
            reads: Reads::default(),
            has_free_reads: false,
            has_update_reads: false,
            owner: LockOwner::new(id),
            watches_ranges,
            is_released: false,
        };
        Shared { db, id, options, state: Mutex::new(state), changes: AtomicU64::new(0) }
    }

    /// Returns the store.
    pub fn inner(&self) -> &DbInner {
        &self.db.inner
    }

    /// Locks the state of an active transaction.
    ///
    /// # Errors
    /// `InvalidArgument` after the end of the transaction; `Closed`.
    pub fn active(&self) -> Result<MutexGuard<'_, State>> {
        self.inner().check_open()?;
        let state = self.state.lock();
        let phase = state.phase;
        if phase == Phase::Active { Ok(state) } else { Err(unusable(phase)) }
    }

    /// Returns the number of changes of the writes so far.
    ///
    /// # Errors
    /// `InvalidArgument` after the end of the transaction.
    #[inline]
    pub fn changes(&self) -> Result<u64> {
        match self.changes.load(Ordering::Acquire) {
            ENDED => Err(unusable(self.state.lock().phase)),
            changes => Ok(changes),
        }
    }

    /// Ends the transaction and releases what it holds. `how` says how it ended.
    pub fn end(&self, how: &'static str) {
        // Dropping a transaction ends it again.
        if self.changes.load(Ordering::Acquire) != ENDED {
            self.end_locked(self.state.lock(), how);
        }
    }

    /// Does the same as [`Shared::end`], with the state's lock.
    pub fn end_locked(&self, mut state: MutexGuard<'_, State>, how: &'static str) {
        if std::mem::replace(&mut state.is_released, true) {
            return;
        }
        state.phase = Phase::Ended(how);
        self.changes.store(ENDED, Ordering::Release);
        state.writes = HashMap::new();
        state.batch = Batch::new();
        state.reads = Reads::default();
        let snapshot = state.snapshot.take();
        let transactions = &self.inner().transactions;
        transactions.locks.release(&mut state.owner);
        transactions.watch.end();
        if state.watches_ranges {
            transactions.watch.end_ranges();
        }
        drop(state);
        drop(snapshot);
    }

    /// Returns the snapshot, which is taken now if there is none yet.
    pub fn snapshot(&self, state: &mut State) -> Arc<Snapshot> {
        let now = || Arc::new(Snapshot::new(self.db.inner.clone()));
        state.snapshot.get_or_insert_with(now).clone()
    }

    /// Makes commits record all operations from now on: this transaction has ranges to check.
    pub fn watch_ranges(&self, state: &mut State) {
        if !std::mem::replace(&mut state.watches_ranges, true) {
            self.inner().transactions.watch.begin_ranges();
        }
    }

    /// Locks an item of a pessimistic transaction. Returns once the transaction has the lock, and
    /// the item is as in the snapshot.
    ///
    /// # Errors
    /// `Busy`, `Deadlock`, `Closed`. `Conflict` when the item was written after the snapshot and
    /// the snapshot cannot move. `Corruption`, `Io`.
    pub fn lock(&self, state: &mut State, target: &Target<'_>, item: &Item<'_>) -> Result<()> {
        let (inner, wait) = (self.inner(), self.options.lock_timeout());
        let locks = &inner.transactions.locks;
        if !locks.lock(&mut state.owner, target.stored_order(), item, wait)? {
            return Ok(());
        }
        let Some(snapshot) = &state.snapshot else {
            self.snapshot(state);
            return Ok(());
        };
        let since = snapshot.seqno();
        if inner.visible_seqno() == since || !StoreCheck::new(inner).is_newer(since, item)? {
            return Ok(());
        }
        if state.has_free_reads {
            return Err(conflict(item));
        }
        let next = Arc::new(Snapshot::new(self.db.inner.clone()));
        // Taken after the new snapshot, so it sees all of its writes.
        let check = StoreCheck::new(inner);
        check.refuse_newer(since, state.reads.items(state.batch.payload()))?;
        state.snapshot = Some(next);
        Ok(())
    }

    /// Changes the writes by `change`, which adds one operation to the batch and to the writes.
    fn change<R>(&self, state: &mut State, change: impl FnOnce(&mut State) -> R) -> R {
        state.phase = Phase::Changing;
        let changed = change(state);
        state.phase = Phase::Active;
        self.changes.fetch_add(1, Ordering::Release);
        changed
    }

    /// Adds a write of `key`. The key and the value have allowed lengths.
    pub fn write(
        &self,
        state: &mut State,
        target: &Target<'_>,
        key: &[u8],
        write: Write<'_>,
    ) -> Result<()> {
        self.change(state, |state| {
            let op = state.batch.len() as u32;
            let keyspace = target.keyspace();
            match write {
                Write::Put(value, None) => state.batch.put_at(keyspace, key, value),
                Write::Put(value, Some(ttl)) => {
                    state.batch.put_with_ttl_at(keyspace, key, value, ttl);
                }
                Write::Merge(operand) => state.batch.merge_at(keyspace, key, operand),
                Write::Delete => state.batch.delete_at(keyspace, key),
            }
            if let Some(error) = state.batch.take_error() {
                return Err(error);
            }
            let (bytes, savepoint) = (state.batch.size_bytes(), state.last_savepoint());
            let writes = state.writes_in(target);
            match write {
                Write::Put(value, _) => {
                    writes.add(key, Version::put(op, bytes, value.len()), savepoint);
                }
                Write::Merge(operand) => writes.merge(key, op, (bytes, operand.len()), savepoint),
                Write::Delete => writes.add(key, Version::delete(op), savepoint),
            }
            Ok(())
        })
    }

    /// Adds a delete of the keys in `[start, end)`, which have allowed lengths.
    pub fn delete_range(
        &self,
        state: &mut State,
        target: &Target<'_>,
        (start, end): (&[u8], &[u8]),
    ) -> Result<()> {
        self.change(state, |state| {
            let op = state.batch.len() as u32;
            state.batch.delete_range_at(target.keyspace(), start, end);
            if let Some(error) = state.batch.take_error() {
                return Err(error);
            }
            let savepoint = state.last_savepoint();
            state.writes_in(target).delete_range(op, (start, end), savepoint);
            Ok(())
        })
    }

    /// Takes back the operations after the newest savepoint, and the savepoint.
    ///
    /// # Errors
    /// `NotFound` when there is no savepoint.
    pub fn roll_back_to_savepoint(&self, state: &mut State) -> Result<()> {
        let Some(mark) = state.savepoints.pop() else { return Err(no_savepoint()) };
        self.change(state, |state| state.roll_back(&mark));
        Ok(())
    }
}

impl State {
    /// Returns what the transaction has written of `key`, if it wrote the key.
    pub fn own(&self, target: &Target<'_>, key: &[u8]) -> Option<Pending> {
        let writes = self.writes.get(&target.id())?;
        Some(Pending::new(&writes.resolve(writes.get(key)?, self.batch.payload())))
    }

    /// Returns the writes in a keyspace, if there are any.
    pub fn own_writes(&self, keyspace: KeyspaceId) -> Option<&KeyspaceWrites> {
        self.writes.get(&keyspace)
    }

    fn writes_in(&mut self, target: &Target<'_>) -> &mut KeyspaceWrites {
        let new = || KeyspaceWrites::new(target.order().clone());
        self.writes.entry(target.id()).or_insert_with(new)
    }

    /// Adds a savepoint.
    pub fn add_savepoint(&mut self) {
        self.savepoints.push(self.batch.mark());
    }

    /// Removes the newest savepoint and keeps the operations.
    ///
    /// # Errors
    /// `NotFound` when there is no savepoint.
    pub fn pop_savepoint(&mut self) -> Result<()> {
        self.savepoints.pop().map(drop).ok_or_else(no_savepoint)
    }

    /// Returns the number of operations before the newest savepoint.
    fn last_savepoint(&self) -> u32 {
        self.savepoints.last().map_or(0, |mark| mark.count)
    }

    fn roll_back(&mut self, mark: &BatchMark) {
        for op in Ops::new(&self.batch.payload()[mark.payload_bytes..]).flatten() {
            let (keyspace, prefix_bytes) = match op.tree {
                0 => (0, 0),
                _ => (keyspace_of(op.key).unwrap_or(0), PREFIX_BYTES),
            };
            if let Some(writes) = self.writes.get_mut(&keyspace) {
                writes.roll_back_key(op.key.get(prefix_bytes..).unwrap_or(op.key), mark.count);
            }
        }
        for writes in self.writes.values_mut() {
            writes.roll_back_ranges(mark.count);
            writes.roll_back_operands(mark.count);
        }
        self.batch.truncate(mark);
    }
}

fn no_savepoint() -> Error {
    Error::not_found("the transaction has no savepoint")
}

#[cold]
fn unusable(phase: Phase) -> Error {
    match phase {
        Phase::Ended(how) => Error::invalid(format!(
            "the transaction {how}; begin another one with `Db::transaction`"
        )),
        Phase::Active | Phase::Changing => Error::invalid(
            "a key order panicked while it compared keys of the transaction; roll the transaction \
             back",
        ),
    }
}
