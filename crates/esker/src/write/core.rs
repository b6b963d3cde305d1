//! The state of the write path, held by one writer at a time, and what is done with it held.
//!
//! What stays true: see [`super::commit`].

use std::sync::Arc;

use super::hints::HintKeeper;
use super::turn::{Company, InTurn, Visible};
use crate::base::key::{Kind, SeqNo};
use crate::base::ops;
use crate::base::sync::{Bug, is_seeded};
use crate::error::{Error, ErrorKind, Result};
use crate::iter::hints::Hints;
use crate::memtable::Memtable;
use crate::metrics::Counters;
use crate::options::kinds::Durability;
use crate::wal::LogWriter;

/// A larger batch keeps the core: all who come after would wait for it, and who makes room has to
/// know what is being added.
const BESIDE_BYTES_MAX: usize = 64 << 10;

/// What the committer needs of the store around it.
pub trait Surroundings {
    /// Called with the core held before a group is committed: freeze a full memtable, wait for
    /// memory, refuse when closed.
    fn make_room(&self, core: &mut Core) -> Result<()>;
    /// Whether a memtable may have parts for threads that write at once.
    fn memtable_is_large(&self) -> bool;
    /// Gives readers another list of skip hints.
    fn show_hints(&self, hints: Arc<Hints>);
    /// Has the keys around `sample`, which was deleted, looked at for a skip hint.
    fn ask_for_hints(&self, sample: Vec<u8>);
    /// Closes a synced log, which may be removed already, where that keeps nobody.
    fn close_log(&self, log: LogWriter);
    /// Where bytes and syncs are counted.
    fn counters(&self) -> &Counters;
}

/// The state of the write path; held by one writer at a time.
pub struct Core {
    /// The log that takes records; `None` in a store opened read-only.
    pub log: Option<LogWriter>,
    /// Older logs not yet synced, oldest first; a `Sync` write syncs them before its own.
    pub unsynced_logs: Vec<LogWriter>,
    /// The memtable that takes operations.
    pub memtable: Arc<Memtable>,
    /// The sequence number of the next operation.
    pub next_seqno: SeqNo,
    /// Whether the memtable holds operations that are in no log.
    pub unlogged: bool,
    /// Whether the log after this one was asked for.
    pub next_log_asked: bool,
    /// The skip hints.
    pub hints: HintKeeper,
    /// Why no write is accepted, once the log failed.
    pub poisoned: Option<Error>,
    /// Bytes of writes since the memtable was last measured.
    pub unmeasured_bytes: u64,
    /// Whether threads that write at once add beside one another.
    pub company: Company,
    /// The last visible number.
    pub visible: Arc<Visible>,
}

/// One member of a group, borrowed or queued.
pub(super) struct Member<'a> {
    pub payload: &'a [u8],
    pub count: u32,
    pub user_bytes: u64,
    pub durability: Durability,
}

impl Member<'_> {
    /// Whether it may be added after the core was let go.
    #[inline]
    pub fn fits_beside(&self) -> bool {
        let small = self.payload.len() <= BESIDE_BYTES_MAX;
        self.durability != Durability::Sync && self.count > 0 && small
    }
}

impl Core {
    /// Commits the members in order; returns the last sequence number of each.
    pub(super) fn commit_group(
        &mut self,
        members: &[Member<'_>],
        around: &dyn Surroundings,
    ) -> Result<smallvec::Ends> {
        let first = self.log_next(members, around)?;
        self.settle();
        let mut ends = smallvec::Ends::new(members.len());
        let mut seqno = first;
        if is_seeded(Bug::PublishFirst) {
            let count: u64 = members.iter().map(|m| u64::from(m.count)).sum();
            self.visible.publish(first + count - 1);
        }
        for member in members {
            apply(&self.memtable, member.payload, seqno, |op| self.hints.note(op.kind, op.key));
            seqno += member.count as u64;
            self.unlogged |= member.durability == Durability::None;
            ends.push(seqno.saturating_sub(1));
        }
        self.next_seqno = seqno;
        self.count(members, seqno - first, around.counters());
        if is_seeded(Bug::CutLate) {
            self.visible.publish(seqno - 1);
            (0..8).for_each(|_| crate::base::sync::thread::yield_now());
        }
        self.show_hints(around);
        self.visible.publish(seqno - 1);
        if let Some(sample) = self.hints.sample() {
            around.ask_for_hints(sample);
        }
        Ok(ends)
    }

    /// Gives the one member, which was logged from `first` on, its numbers, and does all of it that
    /// takes the core; its puts and deletes are still to be added to the memtable.
    pub(super) fn begin_beside<'a>(
        &mut self,
        alone: &[Member<'_>; 1],
        first: SeqNo,
        around: &dyn Surroundings,
        visible: &'a Visible,
    ) -> InTurn<'a> {
        let [Member { payload, count, durability, .. }] = alone;
        for (seqno, op) in (first..).zip(ops::Ops::new(payload).flatten()) {
            self.hints.note(op.kind, op.key);
            if op.kind == Kind::RangeDelete {
                self.memtable.add_range_delete(op.key, op.value, seqno);
            }
        }
        self.unlogged |= *durability == Durability::None;
        self.next_seqno = first + u64::from(*count);
        let turn = InTurn::new(visible, first, self.next_seqno - 1);
        self.count(alone, u64::from(*count), around.counters());
        self.show_hints(around);
        turn
    }

    /// Makes room and logs the members, in order; returns the number of their first operation.
    #[inline]
    pub(super) fn log_next(
        &mut self,
        members: &[Member<'_>],
        around: &dyn Surroundings,
    ) -> Result<SeqNo> {
        if let Some(error) = &self.poisoned {
            return Err(refused(error));
        }
        around.make_room(self)?;
        self.log_group(members, self.next_seqno, around)?;
        Ok(self.next_seqno)
    }

    /// Gives readers the skip hints as the last operations left them.
    #[inline]
    fn show_hints(&mut self, around: &dyn Surroundings) {
        if let Some(hints) = self.hints.changed() {
            around.show_hints(hints);
        }
    }

    #[inline]
    fn count(&self, members: &[Member<'_>], operations: u64, counters: &Counters) {
        counters.user_ops.add_alone(operations);
        counters.user_bytes.add_alone(members.iter().map(|m| m.user_bytes).sum());
    }

    /// Waits until every operation before `next_seqno` is in the memtable and visible.
    #[inline]
    pub fn settle(&self) {
        if !is_seeded(Bug::LockUnsettled) {
            self.visible.wait_for(self.next_seqno - 1);
        }
    }

    fn log_group(
        &mut self,
        members: &[Member<'_>],
        first: SeqNo,
        around: &dyn Surroundings,
    ) -> Result<()> {
        let counters = around.counters();
        let Some(log) = self.log.as_mut() else {
            return Err(Error::new(ErrorKind::ReadOnly, "the store was opened read-only"));
        };
        let before = log.len_bytes();
        self.unmeasured_bytes += members.iter().map(|m| m.payload.len() as u64).sum::<u64>();
        let written = match members {
            [one] if one.durability == Durability::None => Ok(()),
            [one] => log.append(first, one.payload),
            _ => {
                let mut seqno = first;
                let mut records = Vec::with_capacity(members.len());
                for member in members {
                    if member.durability != Durability::None {
                        records.push((seqno, member.payload));
                    }
                    seqno += member.count as u64;
                }
                if records.is_empty() { Ok(()) } else { log.append_group(&records) }
            }
        };
        counters.log_bytes.add_alone(log.len_bytes().saturating_sub(before));
        counters.log_mapped_bytes.add_alone(log.take_mapped_bytes());
        if let Err(error) = written {
            if error.kind() != ErrorKind::NoSpace {
                self.poisoned = Some(error.clone());
            }
            return Err(error);
        }
        if members.iter().any(|m| m.durability == Durability::Sync) {
            self.sync_logs(around)?;
        }
        Ok(())
    }

    /// Syncs every log, oldest first. A failure poisons the store.
    pub fn sync_logs(&mut self, around: &dyn Surroundings) -> Result<()> {
        let counters = around.counters();
        if let Some(error) = &self.poisoned {
            return Err(refused(error));
        }
        while let Some(oldest) = self.unsynced_logs.first_mut() {
            if let Err(error) = oldest.sync() {
                self.poisoned = Some(error.clone());
                return Err(error);
            }
            counters.log_syncs.add(1);
            around.close_log(self.unsynced_logs.remove(0));
        }
        if let Some(log) = self.log.as_mut()
            && log.has_records()
            && log.synced_bytes() < log.len_bytes()
        {
            if let Err(error) = log.sync() {
                self.poisoned = Some(error.clone());
                return Err(error);
            }
            counters.log_syncs.add(1);
        }
        Ok(())
    }
}

/// Puts the operations of a valid payload into the memtable, numbered from `seqno`, and shows each
/// to `note`; returns the number after the last.
pub fn apply(
    memtable: &Memtable,
    payload: &[u8],
    mut seqno: SeqNo,
    mut note: impl FnMut(&ops::Op<'_>),
) -> SeqNo {
    for op in ops::Ops::new(payload).flatten() {
        note(&op);
        match op.kind {
            Kind::RangeDelete => memtable.add_range_delete(op.key, op.value, seqno),
            kind => memtable.add(seqno, kind, op.key, op.value),
        }
        seqno += 1;
    }
    seqno
}

fn refused(cause: &Error) -> Error {
    Error::new(
        ErrorKind::ReadOnly,
        format!(
            "the store takes no writes since its log failed ({cause}); close and open it again"
        ),
    )
}

/// A list of sequence numbers that does not allocate for one member.
pub(super) mod smallvec {
    use crate::base::key::SeqNo;

    /// The last sequence number of each member of a group.
    pub enum Ends {
        /// One member, inline.
        One([SeqNo; 1]),
        /// A group.
        Many(Vec<SeqNo>),
    }

    impl Ends {
        /// Room for `len` members.
        pub fn new(len: usize) -> Ends {
            if len == 1 { Ends::One([0]) } else { Ends::Many(Vec::with_capacity(len)) }
        }

        /// Adds the next member's number.
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
