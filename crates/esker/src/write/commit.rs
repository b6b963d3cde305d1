//! Group commit: log, then memtable, then visibility, in sequence order.
//!
//! Whoever holds the core commits for everyone who waits: one `write` and at most one sync for
//! the group. A leader that syncs waits a moment for those who were there lately
//! ([`super::rivals`]). What stays true:
//! 1. An operation is in the log before it is in the memtable, and in the memtable before its
//!    sequence number is visible (`Durability::None` skips the log, nothing else).
//! 2. Records reach the log in sequence order; a synced record implies that every earlier record
//!    is synced, also those in older logs.
//! 3. After a failed log write or sync no further write is accepted: what the kernel kept is
//!    unknown. A full device is the exception while the log could be cut back to its last record.
//! 4. A put has cut the skip hints before it is visible ([`super::hints`]).

use crate::base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Instant;

use crate::base::sync::{Bug, Condvar, Mutex, MutexGuard, is_seeded};

use super::hints::HintKeeper;
use super::rivals::Rivals;
use crate::base::key::{Kind, SeqNo};
use crate::base::ops;
use crate::error::{Error, ErrorKind, Result};
use crate::iter::hints::Hints;
use crate::memtable::Memtable;
use crate::metrics::Counters;
use crate::options::kinds::Durability;
use crate::wal::LogWriter;

/// How often a writer tries to get the core before it joins a group: about a microsecond.
const TRIES: u32 = if cfg!(feature = "shuttle") { 1 } else { 64 };

/// What the committer needs of the store around it.
pub trait Surroundings {
    /// Called with the core held before a group is committed: freeze a full memtable, wait for
    /// memory, refuse when closed.
    fn make_room(&self, core: &mut Core) -> Result<()>;
    /// Makes everything up to `seqno` visible to readers.
    fn publish(&self, seqno: SeqNo);
    /// Gives readers another list of skip hints.
    fn show_hints(&self, hints: Arc<Hints>);
    /// Has the keys around `sample`, which was deleted, looked at for a skip hint.
    fn ask_for_hints(&self, sample: Vec<u8>);
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
}

/// A commit that waits, and what came of it.
struct Request {
    payload: Vec<u8>,
    count: u32,
    user_bytes: u64,
    durability: Durability,
    outcome: Mutex<Option<Result<SeqNo>>>,
    /// Set when it is this one's turn to commit for all who wait.
    leads: AtomicBool,
    /// With the line locked: the outcome is there, or the turn.
    woken: Condvar,
}

/// Who waits. At most one of them leads; whoever has an outcome need not take the core's lock to
/// learn it, or it would wait for the next group's sync.
#[derive(Default)]
struct Line {
    requests: Vec<Arc<Request>>,
    led: bool,
    /// The leader, while it waits for so many.
    awaited: Option<(usize, Arc<Request>)>,
}

impl Line {
    /// How many of those who wait are to be synced.
    fn syncing(&self) -> usize {
        self.requests.iter().filter(|request| request.durability == Durability::Sync).count()
    }
}

/// The queue in front of the core.
pub struct Committer {
    core: Mutex<Core>,
    line: Mutex<Line>,
    waiting_count: AtomicUsize,
    rivals: Rivals,
}

/// One member of a group, borrowed or queued.
struct Member<'a> {
    payload: &'a [u8],
    count: u32,
    user_bytes: u64,
    durability: Durability,
}

impl Committer {
    /// A committer around `core`.
    pub fn new(core: Core) -> Committer {
        Committer {
            core: Mutex::new(core),
            line: Mutex::default(),
            waiting_count: AtomicUsize::new(0),
            rivals: Rivals::default(),
        }
    }

    /// The core itself, for freezing and closing.
    pub fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock()
    }

    /// The core, if no writer has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, Core>> {
        self.core.try_lock()
    }

    /// Commits one batch, whose keys and values have `user_bytes`, and returns the last sequence
    /// number it got.
    pub fn commit(
        &self,
        payload: &[u8],
        count: u32,
        user_bytes: u64,
        durability: Durability,
        around: &dyn Surroundings,
    ) -> Result<SeqNo> {
        // A commit without a sync takes less time than to wake a thread that sleeps, so whoever
        // needs no sync stays awake for about as long. Who does would leave out the others.
        let tries = match durability {
            Durability::Sync => u32::from(self.rivals.are_none()),
            _ => TRIES,
        };
        for _ in 0..tries {
            if self.waiting_count.load(Ordering::Relaxed) == 0
                && let Some(mut core) = self.core.try_lock()
            {
                let alone = [Member { payload, count, user_bytes, durability }];
                if durability != Durability::Sync {
                    return core.commit_group(&alone, around).map(|last| last[0]);
                }
                return self.commit_timed(&mut core, &alone, around).map(|last| last[0]);
            }
            std::hint::spin_loop();
        }
        self.commit_in_group(Member { payload, count, user_bytes, durability }, around)
    }

    #[cold]
    fn commit_in_group(&self, member: Member<'_>, around: &dyn Surroundings) -> Result<SeqNo> {
        let Member { payload, count, user_bytes, durability } = member;
        let mine = Arc::new(Request {
            payload: payload.to_vec(),
            count,
            user_bytes,
            durability,
            outcome: Mutex::new(None),
            leads: AtomicBool::new(false),
            woken: Condvar::new(),
        });
        {
            let mut line = self.line.lock();
            line.requests.push(mine.clone());
            self.waiting_count.store(line.requests.len(), Ordering::Relaxed);
            let syncing = line.syncing();
            if let Some((_, leader)) = line.awaited.take_if(|(wanted, _)| *wanted <= syncing) {
                leader.woken.notify_all();
            }
            while line.led && !mine.leads.load(Ordering::Relaxed) {
                mine.woken.wait(&mut line);
                if let Some(outcome) = mine.outcome.lock().take() {
                    return outcome;
                }
            }
            line.led = true;
            if durability == Durability::Sync
                && let Some((wanted, most)) = self.rivals.worth_waiting_for(line.syncing())
            {
                line.awaited = Some((wanted, mine.clone()));
                mine.woken.wait_for(&mut line, most);
                if line.awaited.take().is_some() {
                    self.rivals.note_in_vain();
                }
            }
        }
        self.lead(around);
        mine.outcome.lock().take().expect("a turn ends with an outcome for each of its group")
    }

    /// Commits everyone who waits, tells them, and lets the next who came meanwhile lead.
    fn lead(&self, around: &dyn Surroundings) {
        let mut core = self.core.lock();
        let group = {
            let mut line = self.line.lock();
            self.waiting_count.store(0, Ordering::Relaxed);
            std::mem::take(&mut line.requests)
        };
        let turn = Turn { committer: self, group };
        let members: Vec<Member<'_>> = turn
            .group
            .iter()
            .map(|r| Member {
                payload: &r.payload,
                count: r.count,
                user_bytes: r.user_bytes,
                durability: r.durability,
            })
            .collect();
        let result = self.commit_timed(&mut core, &members, around);
        drop(core);
        for (index, request) in turn.group.iter().enumerate() {
            *request.outcome.lock() = Some(result.as_ref().map(|l| l[index]).map_err(Error::clone));
        }
    }

    /// Commits the members; if one asked for a sync, notes how long it took and how many came.
    fn commit_timed(
        &self,
        core: &mut Core,
        members: &[Member<'_>],
        around: &dyn Surroundings,
    ) -> Result<smallvec::Ends> {
        let began = Instant::now();
        let ends = core.commit_group(members, around)?;
        let synced = members.iter().filter(|m| m.durability == Durability::Sync).count();
        if synced > 0 {
            let came = self.line.lock().syncing();
            self.rivals.note(synced + came, began.elapsed());
        }
        Ok(ends)
    }
}

/// A leader's turn. It ends, also by a panic in what a store is made of, with everyone in the group
/// told and the place handed on.
struct Turn<'a> {
    committer: &'a Committer,
    group: Vec<Arc<Request>>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        for request in &self.group {
            let lost = || Err(Error::new(ErrorKind::Io, "the commit group lost its leader"));
            request.outcome.lock().get_or_insert_with(lost);
        }
        let mut line = self.committer.line.lock();
        for request in &self.group {
            request.woken.notify_all();
        }
        match line.requests.first() {
            Some(next) => {
                next.leads.store(true, Ordering::Relaxed);
                next.woken.notify_all();
            }
            None => line.led = false,
        }
    }
}

impl Core {
    /// Commits the members in order; returns the last sequence number of each.
    fn commit_group(
        &mut self,
        members: &[Member<'_>],
        around: &dyn Surroundings,
    ) -> Result<smallvec::Ends> {
        if let Some(error) = &self.poisoned {
            return Err(refused(error));
        }
        around.make_room(self)?;
        let first = self.next_seqno;
        self.log_group(members, first, around.counters())?;
        let mut ends = smallvec::Ends::new(members.len());
        let mut seqno = first;
        if is_seeded(Bug::PublishFirst) {
            around.publish(first + members.iter().map(|m| u64::from(m.count)).sum::<u64>() - 1);
        }
        for member in members {
            apply(&self.memtable, member.payload, seqno, |op| self.hints.note(op.kind, op.key));
            seqno += member.count as u64;
            self.unlogged |= member.durability == Durability::None;
            ends.push(seqno.saturating_sub(1));
        }
        self.next_seqno = seqno;
        around.counters().user_ops.add_alone(seqno - first);
        around.counters().user_bytes.add_alone(members.iter().map(|m| m.user_bytes).sum());
        if is_seeded(Bug::CutLate) {
            around.publish(seqno - 1);
            (0..8).for_each(|_| crate::base::sync::thread::yield_now());
        }
        if let Some(hints) = self.hints.changed() {
            around.show_hints(hints);
        }
        around.publish(seqno - 1);
        if let Some(sample) = self.hints.sample() {
            around.ask_for_hints(sample);
        }
        Ok(ends)
    }

    fn log_group(
        &mut self,
        members: &[Member<'_>],
        first: SeqNo,
        counters: &Counters,
    ) -> Result<()> {
        let Some(log) = self.log.as_mut() else {
            return Err(Error::new(ErrorKind::ReadOnly, "the store was opened read-only"));
        };
        let before = log.len_bytes();
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
            self.sync_logs(counters)?;
        }
        Ok(())
    }

    /// Syncs every log, oldest first. A failure poisons the store.
    pub fn sync_logs(&mut self, counters: &Counters) -> Result<()> {
        if let Some(error) = &self.poisoned {
            return Err(refused(error));
        }
        while let Some(oldest) = self.unsynced_logs.first_mut() {
            if let Err(error) = oldest.sync() {
                self.poisoned = Some(error.clone());
                return Err(error);
            }
            counters.log_syncs.add(1);
            self.unsynced_logs.remove(0);
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
mod smallvec {
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

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::base::order::KeyOrder;
    use crate::options::kinds::MemtableKind;

    /// A store that panics or refuses where it should make room.
    struct Broken {
        panics: bool,
        counters: Counters,
    }

    impl Surroundings for Broken {
        fn make_room(&self, _: &mut Core) -> Result<()> {
            assert!(!self.panics, "the store is broken");
            Err(Error::new(ErrorKind::NoSpace, "no room"))
        }
        fn publish(&self, _: SeqNo) {}
        fn show_hints(&self, _: Arc<Hints>) {}
        fn ask_for_hints(&self, _: Vec<u8>) {}
        fn counters(&self) -> &Counters {
            &self.counters
        }
    }

    #[test]
    fn a_leader_that_panics_leaves_nobody_waiting() {
        let committer = Committer::new(Core {
            log: None,
            unsynced_logs: Vec::new(),
            memtable: Arc::new(Memtable::new(MemtableKind::Btree, KeyOrder::Bytewise)),
            next_seqno: 1,
            unlogged: false,
            next_log_asked: false,
            hints: HintKeeper::new(KeyOrder::Bytewise),
            poisoned: None,
        });
        let commit = |panics| {
            let member =
                Member { payload: b"", count: 0, user_bytes: 0, durability: Durability::Sync };
            committer.commit_in_group(member, &Broken { panics, counters: Counters::default() })
        };
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| commit(true))).unwrap_err();
        assert_eq!(commit(false).unwrap_err().kind(), ErrorKind::NoSpace);
    }
}
