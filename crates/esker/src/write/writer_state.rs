//! The writer state, held by one writer at a time, and the functions that run under its lock.
//!
//! Invariants: see [`super::commit`].

use std::sync::Arc;
use std::time::Instant;

use super::hints::{HintKeeper, TreeHints};
use crate::base::key::{Kind, SeqNo};
use crate::base::keyspace::TreeId;
use crate::base::ops;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::{Bug, is_seeded};
use crate::error::{Error, ErrorKind, Result};
use crate::iter::hints::Hints;
use crate::memtable::Memtables;
use crate::metrics::Counters;
use crate::options::kinds::Durability;
use crate::perf;
use crate::txn::footprint::Footprint;
use crate::txn::oracle::CommitOracle;
use crate::wal::LogWriter;

/// The last visible sequence number. All operations up to it have been applied and are readable.
#[derive(Debug)]
#[repr(align(128))]
pub struct Visible(AtomicU64);

impl Visible {
    /// Creates the value. Everything up to `seqno` is visible.
    pub fn new(seqno: SeqNo) -> Visible {
        Visible(AtomicU64::new(seqno))
    }

    /// Returns the last visible sequence number.
    #[inline]
    pub fn seqno(&self) -> SeqNo {
        self.0.load(Ordering::Acquire)
    }

    /// Makes everything up to `seqno` visible to readers.
    #[inline]
    pub(super) fn publish(&self, seqno: SeqNo) {
        self.0.store(seqno, Ordering::Release);
    }
}

/// Commit hooks: the functions that the committer needs from the store.
pub trait CommitHooks {
    /// Called under the writer state's lock before the commit of a group. Freezes a full memtable,
    /// waits for memory until `deadline`, and refuses the commit when the store is closed.
    fn make_room(&self, writer: &mut WriterState, deadline: Option<Instant>) -> Result<()>;
    /// Returns the error of a write that has waited for other writers until its deadline.
    fn missed_deadline(&self) -> Error;
    /// Publishes a new list of empty-range hints of a tree to readers.
    fn publish_hints(&self, tree: TreeId, hints: Arc<Hints>);
    /// Requests a search for an empty-range hint around `sample`, a deleted key.
    fn request_hint_search(&self, sample: Vec<u8>);
    /// Closes a synced log in the background. Its file may already be deleted.
    fn close_log(&self, log: LogWriter);
    /// Waits until the memtables that the opening recovered are in tables. Returns `Busy` after
    /// `deadline`.
    fn wait_recovered(&self, deadline: Option<Instant>) -> Result<()>;
    /// Returns the counters for bytes and syncs.
    fn counters(&self) -> &Counters;
    /// Returns the error of a sync of a log that failed elsewhere. The kernel may have dropped bytes
    /// of that log, and a later sync would succeed without them.
    fn check_syncs(&self) -> Result<()> {
        Ok(())
    }
}

/// The writer state. One writer holds it at a time.
pub struct WriterState {
    /// The current log; `None` in a store opened read-only.
    pub log: Option<LogWriter>,
    /// Older logs that are not synced yet, oldest first. A `Sync` write syncs them before its own
    /// log.
    pub unsynced_logs: Vec<LogWriter>,
    /// The active memtables.
    pub memtables: Memtables,
    /// Bytes in use by the active memtables of trees 1 and up.
    pub others_bytes: u64,
    /// Sequence number of the next operation.
    pub next_seqno: SeqNo,
    /// Whether recovered operations may not be in tables yet. Their logs may never become durable. A
    /// sync waits for the tables, because it promises that all older operations are durable.
    pub recovered: bool,
    /// Whether writes with `Durability::None` are logged, too: the change feed needs them.
    pub logs_all: bool,
    /// Whether the memtable holds operations that no log has.
    pub unlogged: bool,
    /// Whether preallocation of the next log was requested.
    pub next_log_requested: bool,
    /// The empty-range hints of tree 0.
    pub hints: HintKeeper,
    /// Those of the other trees.
    pub tree_hints: TreeHints,
    /// The recent commits, for the checks of transactions.
    pub oracle: CommitOracle,
    /// Reason for refusing writes after a failure of the log or a panic.
    pub poisoned: Option<Error>,
    /// The last visible sequence number, shared with readers.
    pub visible: Arc<Visible>,
}

/// One member of a group, borrowed from its writer or from the queue.
#[derive(Clone, Copy)]
pub(super) struct Member<'a> {
    pub payload: &'a [u8],
    pub count: u32,
    pub user_bytes: u64,
    pub durability: Durability,
    /// What must be unchanged since the snapshot of the member's transaction.
    pub check: Option<&'a Arc<Footprint>>,
    /// Time after which the member does not wait for memory.
    pub deadline: Option<Instant>,
}

impl WriterState {
    /// Commits the members in order. Returns the last sequence number of each. `admitted` says that
    /// [`WriterState::admit`] has recorded them.
    pub(super) fn commit_group(
        &mut self,
        members: &[Member<'_>],
        admitted: bool,
        hooks: &dyn CommitHooks,
    ) -> Result<last_seqnos::Ends> {
        if let Some(error) = &self.poisoned {
            return Err(refused(error));
        }
        let ends =
            self.poison_on_panic(|writer| writer.commit_unpoisoned(members, admitted, hooks));
        if admitted && ends.is_err() {
            // Others will get the sequence numbers that the oracle has recorded.
            self.oracle.forget(self.next_seqno - 1);
        }
        ends
    }

    /// Commits one operation of the store itself, for a caller that holds the writer state. Only the
    /// log has it, until something makes that durable.
    pub fn commit_own(&mut self, payload: &[u8], hooks: &dyn CommitHooks) -> Result<()> {
        let member = Member {
            payload,
            count: 1,
            user_bytes: 0,
            durability: Durability::Buffered,
            check: None,
            deadline: None,
        };
        self.commit_group(&[member], false, hooks).map(drop)
    }

    /// Decides which members are committed: those without a check, and those whose check finds no
    /// conflict with earlier commits or with earlier members. Returns them, and for each member its
    /// error if it is not committed. Records the operations of the members that are committed.
    pub(super) fn admit<'a>(
        &mut self,
        members: &[Member<'a>],
    ) -> (Vec<Member<'a>>, Vec<Option<Error>>) {
        self.poison_on_panic(|writer| {
            let mut admitted = Vec::with_capacity(members.len());
            let mut refusals = Vec::with_capacity(members.len());
            let mut first = writer.next_seqno;
            for member in members {
                let refusal = writer.refusal(member);
                if refusal.is_none() {
                    writer.oracle.record(member.payload, first, &writer.memtables);
                    first += u64::from(member.count);
                    admitted.push(*member);
                }
                refusals.push(refusal);
            }
            (admitted, refusals)
        })
    }

    /// Returns the error of a member that must not be committed.
    fn refusal(&self, member: &Member<'_>) -> Option<Error> {
        let check = member.check?;
        if let Err(error) = check.refuse_prepared(member.payload, &self.memtables) {
            return Some(error);
        }
        let items = check.items(member.payload);
        if self.oracle.is_clean(items, check.since(), &self.memtables) {
            return None;
        }
        // The store answers for everything up to here. Earlier members are not in it yet.
        Some(check.ask(self.next_seqno - 1))
    }

    /// Runs `work`. A panic in it may leave the writer state half changed: a record in the log
    /// whose sequence numbers the next write would reuse, or a hint that covers a key. So no write
    /// is accepted after a panic.
    #[inline]
    pub fn poison_on_panic<R>(&mut self, work: impl FnOnce(&mut WriterState) -> R) -> R {
        struct PoisonGuard<'a>(&'a mut WriterState);
        impl Drop for PoisonGuard<'_> {
            fn drop(&mut self) {
                self.0.poisoned.get_or_insert_with(panicked);
            }
        }
        let guard = PoisonGuard(self);
        let done = work(&mut *guard.0);
        std::mem::forget(guard);
        done
    }

    #[inline]
    fn commit_unpoisoned(
        &mut self,
        members: &[Member<'_>],
        admitted: bool,
        hooks: &dyn CommitHooks,
    ) -> Result<last_seqnos::Ends> {
        let deadline = match members {
            [one] => one.deadline,
            _ => members.iter().filter_map(|member| member.deadline).min(),
        };
        hooks.make_room(self, deadline)?;
        if self.recovered && members.iter().any(|m| m.durability == Durability::Sync) {
            // Before the record: an error behind it would leave it in the log.
            self.wait_recovered(hooks, deadline)?;
        }
        let first = self.next_seqno;
        self.log_group(members, first, hooks)?;
        let mut ends = last_seqnos::Ends::new(members.len());
        let mut seqno = first;
        if is_seeded(Bug::PublishFirst) {
            let count: u64 = members.iter().map(|m| u64::from(m.count)).sum();
            self.visible.publish(first + count - 1);
        }
        for member in members {
            let mut others = false;
            apply(&self.memtables, member.payload, seqno, |op| match op.tree {
                0 => self.hints.note(op.kind, op.key),
                tree => {
                    others = true;
                    self.tree_hints.note(tree, op.kind, op.key);
                }
            });
            if others {
                self.others_bytes = self.memtables.others_bytes() as u64;
            }
            seqno += member.count as u64;
            self.unlogged |= member.durability == Durability::None && !self.logs_all;
            ends.push(seqno.saturating_sub(1));
        }
        self.next_seqno = seqno;
        if !admitted {
            self.note_commit(members, first);
        }
        self.count(members, seqno - first, hooks.counters());
        if is_seeded(Bug::LateHintUpdate) {
            self.visible.publish(seqno - 1);
            (0..8).for_each(|_| crate::base::sync::thread::yield_now());
        }
        self.show_hints(hooks);
        self.visible.publish(seqno - 1);
        if let Some(sample) = self.hints.sample() {
            hooks.request_hint_search(sample);
        }
        Ok(ends)
    }

    /// Tells the oracle of a commit. Without open transactions that is one number.
    #[inline]
    fn note_commit(&mut self, members: &[Member<'_>], first: SeqNo) {
        if is_seeded(Bug::UnrecordedCommit) {
            return;
        }
        if self.oracle.is_watched() {
            self.record_commit(members, first);
        } else {
            self.oracle.pass(self.next_seqno - 1);
        }
    }

    #[cold]
    fn record_commit(&mut self, members: &[Member<'_>], mut first: SeqNo) {
        for member in members {
            self.oracle.record(member.payload, first, &self.memtables);
            first += u64::from(member.count);
        }
    }

    /// Publishes the empty-range hints to readers if the last operations changed them.
    #[inline]
    pub fn show_hints(&mut self, hooks: &dyn CommitHooks) {
        if let Some(hints) = self.hints.changed() {
            hooks.publish_hints(0, hints);
        }
        for (tree, hints) in self.tree_hints.changed() {
            hooks.publish_hints(tree, hints);
        }
    }

    /// Makes an ingest into `tree` under `seqno` visible, whose tables are in the read state. `ranges`
    /// has their key ranges. Transactions that are open will ask the store about their keys.
    pub fn show_ingest<'a>(
        &mut self,
        seqno: SeqNo,
        tree: TreeId,
        ranges: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        hooks: &dyn CommitHooks,
    ) {
        let keeper = if tree == 0 { Some(&mut self.hints) } else { self.tree_hints.find(tree) };
        if let Some(keeper) = keeper {
            ranges.for_each(|(lo, hi)| keeper.note_ingest(lo, hi));
        }
        self.show_hints(hooks);
        self.oracle.pass(seqno);
        self.visible.publish(seqno);
    }

    #[inline]
    fn count(&self, members: &[Member<'_>], operations: u64, counters: &Counters) {
        counters.user_ops.add_alone(operations);
        counters.user_bytes.add_alone(members.iter().map(|m| m.user_bytes).sum());
    }

    fn log_group(
        &mut self,
        members: &[Member<'_>],
        first: SeqNo,
        hooks: &dyn CommitHooks,
    ) -> Result<()> {
        let counters = hooks.counters();
        let logs_all = self.logs_all;
        let is_logged = |member: &Member<'_>| member.durability != Durability::None || logs_all;
        let Some(log) = self.log.as_mut() else {
            return Err(Error::new(ErrorKind::ReadOnly, "the store was opened read-only"));
        };
        let before = log.len_bytes();
        let written = match members {
            [one] if !is_logged(one) => Ok(()),
            [one] => log.append(first, one.payload),
            _ => {
                let mut seqno = first;
                let mut records = Vec::with_capacity(members.len());
                for member in members {
                    if is_logged(member) {
                        records.push((seqno, member.payload));
                    }
                    seqno += member.count as u64;
                }
                if records.is_empty() { Ok(()) } else { log.append_group(&records) }
            }
        };
        let added_bytes = log.len_bytes().saturating_sub(before);
        counters.log_bytes.add_alone(added_bytes);
        perf::count(|counts| counts.wal_bytes += added_bytes);
        counters.log_mapped_bytes.add_alone(log.take_mapped_bytes());
        if let Err(error) = written {
            if error.kind() != ErrorKind::NoSpace {
                self.poisoned = Some(error.clone());
            }
            return Err(error);
        }
        if members.iter().any(|m| m.durability == Durability::Sync) {
            self.sync_logs(hooks)?;
        }
        Ok(())
    }

    /// Waits until what the opening recovered is in tables.
    fn wait_recovered(&mut self, hooks: &dyn CommitHooks, deadline: Option<Instant>) -> Result<()> {
        if self.recovered {
            hooks.wait_recovered(deadline)?;
            self.recovered = false;
        }
        Ok(())
    }

    /// Syncs every log, oldest first. A failure poisons the store, except the failure of a flush that
    /// the sync waits for.
    pub fn sync_logs(&mut self, hooks: &dyn CommitHooks) -> Result<()> {
        let counters = hooks.counters();
        if let Some(error) = &self.poisoned {
            return Err(refused(error));
        }
        self.wait_recovered(hooks, None)?;
        hooks.check_syncs()?;
        while let Some(oldest) = self.unsynced_logs.first_mut() {
            if let Err(error) = oldest.sync() {
                self.poisoned = Some(error.clone());
                return Err(error);
            }
            count_sync(counters);
            hooks.close_log(self.unsynced_logs.remove(0));
        }
        if let Some(log) = self.log.as_mut()
            && log.has_records()
            && log.synced_bytes() < log.len_bytes()
        {
            if let Err(error) = log.sync() {
                self.poisoned = Some(error.clone());
                return Err(error);
            }
            count_sync(counters);
        }
        // One that failed meanwhile may have dropped bytes that these syncs should have kept.
        hooks.check_syncs()
    }
}

/// Counts a sync of a log.
fn count_sync(counters: &Counters) {
    counters.log_syncs.add(1);
    perf::count(|counts| counts.wal_syncs += 1);
}

/// Adds the operations of a valid payload to the memtables, numbered from `seqno`, and passes each
/// to `note`. Returns the sequence number after the last. An operation of a tree without a memtable
/// is left out.
pub fn apply(
    memtables: &Memtables,
    payload: &[u8],
    mut seqno: SeqNo,
    mut note: impl FnMut(&ops::Op<'_>),
) -> SeqNo {
    for op in ops::Ops::new(payload).flatten() {
        note(&op);
        let Some(memtable) = memtables.of(op.tree) else {
            seqno += 1;
            continue;
        };
        match op.kind {
            Kind::RangeDelete => memtable.add_range_delete(op.key, op.value, seqno),
            kind => memtable.add(seqno, kind, op.key, op.value),
        }
        seqno += 1;
    }
    seqno
}

#[cold]
fn panicked() -> Error {
    Error::new(
        ErrorKind::ReadOnly,
        "the store refuses writes because the store's code panicked while it held the write lock; \
         reads still work; correct the code that panicked, such as a custom key order, then close \
         the store and open it again",
    )
}

fn refused(cause: &Error) -> Error {
    if cause.kind() == ErrorKind::ReadOnly {
        // The message already says so.
        return cause.clone();
    }
    Error::new(
        ErrorKind::ReadOnly,
        format!(
            "the store refuses writes because its log failed ({cause}); close the store and open \
             it again"
        ),
    )
}

/// A list of sequence numbers that does not allocate for one member.
pub(super) mod last_seqnos {
    use crate::base::key::SeqNo;

    /// The last sequence number of each member of a group.
    pub enum Ends {
        /// One member, inline.
        One([SeqNo; 1]),
        /// A group.
        Many(Vec<SeqNo>),
    }

    impl Ends {
        /// Creates a list for `len` members.
        pub fn new(len: usize) -> Ends {
            if len == 1 { Ends::One([0]) } else { Ends::Many(Vec::with_capacity(len)) }
        }

        /// Appends the next member's sequence number.
        pub fn push(&mut self, seqno: SeqNo) {
            match self {
                Ends::One(slot) => slot[0] = seqno,
                Ends::Many(list) => list.push(seqno),
            }
        }
    }

    impl std::ops::Index<usize> for Ends {
        type Output = SeqNo;
        fn index(&self, index: usize) -> &SeqNo {
            match self {
                Ends::One(slot) => &slot[index],
                Ends::Many(list) => &list[index],
            }
        }
    }
}
