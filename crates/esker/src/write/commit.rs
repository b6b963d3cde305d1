//! Group commit: log, then memtable, then visibility, in sequence order.
//!
//! Whoever holds the core commits for everyone who waits: one append and at most one sync for
//! the group. A leader that syncs waits a moment for those who were there lately
//! ([`super::rivals`]). What stays true:
//! 1. An operation is in the log before it is in the memtable, and in the memtable before its
//!    sequence number is visible (`Durability::None` skips the log, nothing else).
//! 2. Records reach the log in sequence order; a synced record implies that every earlier record
//!    is synced, also those in older logs.
//! 3. After a failed log write or sync no further write is accepted: what the kernel kept is
//!    unknown. A full device is the exception while the log could be cut back to its last record.
//! 4. A put has cut the skip hints before it is visible ([`super::hints`]).
//! 5. Who has locked the core finds every operation before `next_seqno` in the memtable and visible.
//! 6. Who wants the core for something else, as a flush does, waits for the commit that goes on and for
//!    at most one that was about to begin, however many writers there are.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::core::{Core, Member, Surroundings, Visible, smallvec};
use super::rivals::Rivals;
use crate::base::key::SeqNo;
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::base::sync::{Condvar, Mutex, MutexGuard};
use crate::error::{Error, ErrorKind, Result};
use crate::options::kinds::Durability;

/// How often a writer tries to get the core before it joins a group, or another before it sleeps: about
/// a microsecond.
const TRIES: u32 = if cfg!(feature = "shuttle") { 1 } else { 64 };

/// A batch of so many bytes is committed by its own writer, and waits for room before.
pub const LARGE_BYTES: usize = 1 << 20;

/// A commit that waits, and what came of it.
struct Request {
    payload: Vec<u8>,
    count: u32,
    user_bytes: u64,
    durability: Durability,
    /// Its own, so that those whom one commit served wake beside one another and not one after the
    /// other as the line's lock lets them.
    news: Mutex<News>,
    /// There are news.
    woken: Condvar,
}

/// What one who waits is told.
enum News {
    /// Nothing yet.
    None,
    /// To commit for all who wait.
    Lead,
    /// How its commit ended.
    Outcome(Result<SeqNo>),
}

/// What one who waits is to do.
enum Role {
    /// Commit for all who wait.
    Lead,
    /// The same, when all came who are awaited, or after this time.
    LeadAfter(Duration),
    /// Wait for news.
    Follow,
}

impl Request {
    fn tell(&self, news: News) {
        *self.news.lock() = news;
    }

    /// Waits for news.
    fn wait(&self) -> News {
        let mut news = self.news.lock();
        while matches!(*news, News::None) {
            self.woken.wait(&mut news);
        }
        std::mem::replace(&mut news, News::None)
    }

    /// Waits for news for `most`.
    fn wait_for(&self, most: Duration) {
        let mut news = self.news.lock();
        if matches!(*news, News::None) {
            self.woken.wait_for(&mut news, most);
        }
    }

    /// What there is of an outcome.
    fn take_outcome(&self) -> Option<Result<SeqNo>> {
        let mut news = self.news.lock();
        match std::mem::replace(&mut *news, News::None) {
            News::Outcome(outcome) => Some(outcome),
            other => {
                *news = other;
                None
            }
        }
    }
}

/// Who waits. At most one of them leads; whoever has an outcome need not take the core's lock to
/// learn it, or it would wait for the next group's sync.
#[derive(Default)]
struct Line {
    requests: Vec<Arc<Request>>,
    led: bool,
    /// So many are to be there before the leader, who waits, goes on.
    awaited: Option<usize>,
}

impl Line {
    /// How many of those who wait are to be synced.
    fn syncing(&self) -> usize {
        self.requests.iter().filter(|request| request.durability == Durability::Sync).count()
    }
}

/// The queue in front of the core.
#[repr(align(128))]
pub struct Committer {
    core: Mutex<Core>,
    visible: Arc<Visible>,
    line: Mutex<Line>,
    /// Held by the caller who is next to have the core, until it has it.
    next: Mutex<()>,
    /// How many wait for the core to do something other than commit; changed with the line locked.
    callers_count: AtomicUsize,
    /// They and those in the line.
    waiting_count: AtomicUsize,
    rivals: Rivals,
}

impl Committer {
    /// A committer around `core`.
    pub fn new(core: Core) -> Committer {
        Committer {
            visible: core.visible.clone(),
            core: Mutex::new(core),
            line: Mutex::default(),
            next: Mutex::new(()),
            callers_count: AtomicUsize::new(0),
            waiting_count: AtomicUsize::new(0),
            rivals: Rivals::default(),
        }
    }

    /// The core itself, for freezing and closing. Writers that commit without a pause would have it
    /// again and again before a sleeper is awake, so those who come now let the caller go first.
    pub fn lock(&self) -> MutexGuard<'_, Core> {
        let count = |line: MutexGuard<'_, Line>, callers| {
            self.callers_count.store(callers, Ordering::Relaxed);
            self.count_waiting(&line);
        };
        let callers = || self.callers_count.load(Ordering::Relaxed);
        let line = self.line.lock();
        count(line, callers() + 1);
        let next = self.next.lock();
        let core = self.core.lock();
        let line = self.line.lock();
        count(line, callers() - 1);
        drop(next);
        core
    }

    /// Says how many wait, the line being locked.
    fn count_waiting(&self, line: &Line) {
        let callers = self.callers_count.load(Ordering::Relaxed);
        self.waiting_count.store(line.requests.len() + callers, Ordering::Relaxed);
    }

    /// As [`Committer::lock`], for who has little to do with it: between two writes it is free for
    /// long enough that who looks finds it so, where a sleeper would be woken too late.
    pub fn lock_soon(&self) -> MutexGuard<'_, Core> {
        for _ in 0..TRIES {
            if let Some(core) = self.try_lock() {
                return core;
            }
            std::hint::spin_loop();
        }
        self.lock()
    }

    /// The core, if no writer has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, Core>> {
        self.core.try_lock()
    }

    /// The last number that readers see.
    #[inline]
    pub fn visible_seqno(&self) -> SeqNo {
        self.visible.seqno()
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
        if payload.len() >= LARGE_BYTES {
            // For another to commit it, it would have to be copied.
            let alone = [Member { payload, count, user_bytes, durability }];
            return self.commit_timed(&mut self.core.lock(), &alone, around).map(|last| last[0]);
        }
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
            news: Mutex::new(News::None),
            woken: Condvar::new(),
        });
        let mut role = self.join(&mine);
        loop {
            role = match role {
                Role::Lead => {
                    self.lead(around);
                    let outcome = mine.take_outcome();
                    return outcome.expect("a turn ends with an outcome for each of its group");
                }
                Role::LeadAfter(most) => {
                    mine.wait_for(most);
                    let mut line = self.line.lock();
                    // Before the line: who is awaited there may be so by another leader by now.
                    if let Some(outcome) = mine.take_outcome() {
                        return outcome;
                    }
                    match line.awaited.take() {
                        Some(_) => {
                            self.rivals.note_in_vain();
                            Role::Lead
                        }
                        None => Role::Follow,
                    }
                }
                Role::Follow => match mine.wait() {
                    News::Outcome(outcome) => return outcome,
                    News::Lead | News::None => self.take_lead(&mut self.line.lock(), &mine),
                },
            };
        }
    }

    /// Enters the line.
    fn join(&self, mine: &Arc<Request>) -> Role {
        let mut line = self.line.lock();
        line.requests.push(mine.clone());
        self.count_waiting(&line);
        let syncing = line.syncing();
        if line.awaited.take_if(|wanted| *wanted <= syncing).is_some() {
            // Who came last leads in place of who waits for it, and nobody need be woken for that.
            self.rivals.note_all_came();
            return Role::Lead;
        }
        if line.led { Role::Follow } else { self.take_lead(&mut line, mine) }
    }

    /// Has `mine` lead those who wait, at once or when more came.
    fn take_lead(&self, line: &mut Line, mine: &Request) -> Role {
        line.led = true;
        if mine.durability == Durability::Sync
            && let Some((wanted, most)) = self.rivals.worth_waiting_for(line.syncing())
        {
            line.awaited = Some(wanted);
            return Role::LeadAfter(most);
        }
        Role::Lead
    }

    /// Commits everyone who waits, tells them, and lets the next who came meanwhile lead.
    fn lead(&self, around: &dyn Surroundings) {
        if self.callers_count.load(Ordering::Relaxed) > 0 {
            // One of them has the core before this is free.
            drop(self.next.lock());
        }
        let mut core = self.core.lock();
        let group = {
            let mut line = self.line.lock();
            let group = std::mem::take(&mut line.requests);
            self.count_waiting(&line);
            group
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
            let outcome = result.as_ref().map(|l| l[index]).map_err(Error::clone);
            request.tell(News::Outcome(outcome));
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
            let mut news = request.news.lock();
            if !matches!(*news, News::Outcome(_)) {
                let lost = Error::new(
                    ErrorKind::Io,
                    "the thread that committed this write with its own panicked; whether the write \
                     is there is known when the store is opened again",
                );
                *news = News::Outcome(Err(lost));
            }
        }
        let next = {
            let mut line = self.committer.line.lock();
            line.led = !line.requests.is_empty();
            line.requests.first().cloned()
        };
        if let Some(next) = next {
            next.tell(News::Lead);
            next.woken.notify_all();
        }
        for request in &self.group {
            request.woken.notify_all();
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::base::order::KeyOrder;
    use crate::iter::hints::Hints;
    use crate::memtable::Memtable;
    use crate::metrics::Counters;
    use crate::options::kinds::MemtableKind;
    use crate::wal::LogWriter;
    use crate::write::hints::HintKeeper;

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
        fn show_hints(&self, _: Arc<Hints>) {}
        fn ask_for_hints(&self, _: Vec<u8>) {}
        fn close_log(&self, _: LogWriter) {}
        fn counters(&self) -> &Counters {
            &self.counters
        }
    }

    fn committer() -> Committer {
        Committer::new(Core {
            log: None,
            unsynced_logs: Vec::new(),
            memtable: Arc::new(Memtable::new(MemtableKind::Btree, KeyOrder::Bytewise)),
            next_seqno: 1,
            unlogged: false,
            next_log_asked: false,
            hints: HintKeeper::new(KeyOrder::Bytewise),
            poisoned: None,
            visible: Arc::new(Visible::new(0)),
        })
    }

    #[test]
    fn who_locks_the_core_goes_before_writers_that_came_later() {
        /// Where a commit leaves a trace.
        struct Marked(Counters);
        impl Surroundings for Marked {
            fn make_room(&self, core: &mut Core) -> Result<()> {
                core.unlogged = true;
                Err(Error::new(ErrorKind::NoSpace, "no room"))
            }
            fn show_hints(&self, _: Arc<Hints>) {}
            fn ask_for_hints(&self, _: Vec<u8>) {}
            fn close_log(&self, _: LogWriter) {}
            fn counters(&self) -> &Counters {
                &self.0
            }
        }
        for round in 0..100 {
            let (committer, around) = (committer(), Marked(Counters::default()));
            std::thread::scope(|scope| {
                let held = committer.core.lock();
                let caller = scope.spawn(|| committer.lock().unlogged);
                while committer.next.try_lock().is_some() {
                    std::thread::yield_now();
                }
                let write = || committer.commit(b"", 1, 0, Durability::Buffered, &around);
                let writers: Vec<_> = (0..2).map(|_| scope.spawn(write)).collect();
                while committer.line.lock().requests.len() < writers.len() {
                    std::thread::yield_now();
                }
                drop(held);
                assert!(!caller.join().unwrap(), "a writer went before, in round {round}");
                for writer in writers {
                    assert_eq!(writer.join().unwrap().unwrap_err().kind(), ErrorKind::NoSpace);
                }
                assert!(committer.lock().unlogged);
            });
        }
    }

    #[test]
    fn a_leader_that_panics_leaves_nobody_waiting_and_takes_no_more_writes() {
        let committer = committer();
        let commit = |panics| {
            let member =
                Member { payload: b"", count: 0, user_bytes: 0, durability: Durability::Sync };
            committer.commit_in_group(member, &Broken { panics, counters: Counters::default() })
        };
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| commit(true))).unwrap_err();
        let refused = commit(false).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ReadOnly, "{refused}");
        assert!(refused.to_string().contains("panicked"), "{refused}");
    }
}
