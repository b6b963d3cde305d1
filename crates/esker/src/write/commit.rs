//! Group commit: log, then memtable, then visibility, in sequence order.
//!
//! The thread that holds the writer state is the leader. It commits for all waiting writers, with
//! one append and at most one sync per group. A leader that syncs waits briefly before its commit
//! for the writers of recent groups ([`super::group_commit_delay`]).
//!
//! Invariants:
//! 1. An operation is in the log before it is in the memtable, and in the memtable before its
//!    sequence number is visible. `Durability::None` skips only the log.
//! 2. Records reach the log in sequence order. A synced record implies that every earlier record is
//!    synced, including the records of older logs.
//! 3. After a failed log write or sync, no further write is accepted, because the data that the
//!    kernel kept is unknown. The exception is a full device, if the log could be truncated to its
//!    last record.
//! 4. The key of a put leaves the empty-range hints before the put is visible ([`super::hints`]).
//! 5. The holder of the writer state's lock finds every operation before `next_seqno` in the
//!    memtable and visible.
//! 6. A batch of a transaction is checked under the writer state's lock, right before the commit of
//!    its group, against earlier commits and against earlier members of its group. A member that
//!    fails the check leaves the group with an error of its own.
//! 7. A caller that locks the writer state for another purpose, such as a flush, waits for the
//!    running commit and for at most one more that was about to begin. The number of writers does
//!    not matter.
//! 8. A write with a deadline does not wait for other writers or for memory after its deadline.
//!    When it returns `Busy`, nothing of it is in the log. A leader whose group has to wait longer
//!    than the deadline of a member gives that member the error, returns the others to the queue,
//!    and passes the leadership on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::group_commit_delay::GroupCommitDelay;
use super::request::{Request, Role, Signal, WriteQueue};
use super::writer_state::{CommitHooks, Member, Visible, WriterState, last_seqnos};
use crate::base::key::SeqNo;
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::base::sync::{Condvar, Mutex, MutexGuard, thread};
use crate::error::{Error, ErrorKind, Result};
use crate::options::kinds::Durability;
use crate::txn::footprint::Footprint;

/// Number of attempts to lock the writer state before a writer joins a group or another caller
/// sleeps: about a microsecond.
const TRIES: u32 = if cfg!(esker_shuttle) { 1 } else { 64 };

/// Minimum size of a batch that its own writer commits, in bytes. Such a writer first waits for
/// room.
pub const LARGE_BYTES: usize = 1 << 20;
/// Time between two attempts of a writer with a deadline to lock the writer state.
const POLL: Duration = Duration::from_micros(200);

/// The write queue in front of the writer state.
#[repr(align(128))]
pub struct Committer {
    state: Mutex<WriterState>,
    visible: Arc<Visible>,
    queue: Mutex<WriteQueue>,
    /// Held by the caller that gets the writer state next, until it has it.
    next: Mutex<()>,
    /// Number of callers that wait for the writer state for a purpose other than a commit. Changed
    /// under the queue's lock.
    callers_count: AtomicUsize,
    /// Number of these callers and of the writers in the queue.
    waiting_count: AtomicUsize,
    delay: GroupCommitDelay,
}

impl Committer {
    /// Creates a committer around `writer`.
    pub fn new(writer: WriterState) -> Committer {
        Committer {
            visible: writer.visible.clone(),
            state: Mutex::new(writer),
            queue: Mutex::default(),
            next: Mutex::new(()),
            callers_count: AtomicUsize::new(0),
            waiting_count: AtomicUsize::new(0),
            delay: GroupCommitDelay::default(),
        }
    }

    /// Locks the writer state, for freezing a memtable and for closing. Writers that commit without
    /// a pause would take it again and again before a sleeping caller wakes. Writers that arrive
    /// now therefore let the caller go first.
    pub fn lock(&self) -> MutexGuard<'_, WriterState> {
        let caller = CallerGuard::new(self);
        let next = self.next.lock();
        let writer = self.state.lock();
        drop((caller, next));
        writer
    }

    /// Locks the writer state as [`Committer::lock`] does. Returns `None` when it is not free until
    /// `deadline`.
    pub fn lock_by(&self, deadline: Instant) -> Option<MutexGuard<'_, WriterState>> {
        let _caller = CallerGuard::new(self);
        let next = poll(deadline, || self.next.try_lock())?;
        let writer = poll(deadline, || self.state.try_lock());
        drop(next);
        writer
    }

    /// Updates the number of waiting threads. The queue is locked.
    fn count_waiting(&self, line: &WriteQueue) {
        let callers = self.callers_count.load(Ordering::Relaxed);
        self.waiting_count.store(line.requests.len() + callers, Ordering::Relaxed);
    }

    /// Locks the writer state for a caller that needs it briefly and often. Between two writes it
    /// is free long enough for a spinning caller. Such a caller takes no precedence over writers as
    /// [`Committer::lock`] does: each of them would wait for the wakeup of a thread.
    pub fn lock_soon(&self) -> MutexGuard<'_, WriterState> {
        for _ in 0..TRIES {
            if let Some(writer) = self.try_lock() {
                return writer;
            }
            std::hint::spin_loop();
        }
        self.state.lock()
    }

    /// Locks the writer state if no writer holds it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, WriterState>> {
        self.state.try_lock()
    }

    /// Returns the last sequence number that readers see.
    #[inline]
    pub fn visible_seqno(&self) -> SeqNo {
        self.visible.seqno()
    }

    /// Commits one batch, whose keys and values have `user_bytes` bytes. Returns its last sequence
    /// number. If it would have to wait for other writers or for memory after `deadline`, returns
    /// an error, and nothing is changed.
    #[inline]
    pub fn commit(
        &self,
        payload: &[u8],
        count: u32,
        user_bytes: u64,
        durability: Durability,
        deadline: Option<Instant>,
        hooks: &dyn CommitHooks,
    ) -> Result<SeqNo> {
        let member = Member { payload, count, user_bytes, durability, check: None, deadline };
        self.commit_member(member, hooks)
    }

    /// Commits one batch of a transaction as [`Committer::commit`] does, if `check` finds no
    /// conflict. Otherwise returns an error, and nothing is changed. The parts of `batch` are its
    /// payload, the number of its operations and the bytes of its keys and values.
    pub fn commit_checked(
        &self,
        batch: (&[u8], u32, u64),
        durability: Durability,
        check: &Arc<Footprint>,
        hooks: &dyn CommitHooks,
    ) -> Result<SeqNo> {
        let ((payload, count, user_bytes), check) = (batch, Some(check));
        let member = Member { payload, count, user_bytes, durability, check, deadline: None };
        self.commit_member(member, hooks)
    }

    #[inline]
    fn commit_member(&self, member: Member<'_>, hooks: &dyn CommitHooks) -> Result<SeqNo> {
        let Member { payload, durability, .. } = member;
        if payload.len() >= LARGE_BYTES {
            // A commit by another writer would need a copy of the batch.
            let mut writer = match member.deadline {
                None => self.state.lock(),
                Some(deadline) => self.lock_by(deadline).ok_or_else(|| hooks.missed_deadline())?,
            };
            return self.commit_alone(&mut writer, member, true, hooks);
        }
        // A commit without a sync takes less time than the wakeup of a thread. A writer that needs
        // no sync therefore spins for about that long. A spinning writer that needs a sync would
        // leave the others out of its group.
        let tries = match durability {
            Durability::Sync => u32::from(self.delay.is_alone()),
            _ => TRIES,
        };
        for _ in 0..tries {
            if self.waiting_count.load(Ordering::Relaxed) == 0
                && let Some(mut writer) = self.state.try_lock()
            {
                let timed = durability == Durability::Sync;
                return self.commit_alone(&mut writer, member, timed, hooks);
            }
            std::hint::spin_loop();
        }
        self.commit_in_group(member, hooks)
    }

    /// Commits one member without others. `timed` is for [`Committer::commit_timed`].
    #[inline]
    fn commit_alone(
        &self,
        writer: &mut WriterState,
        member: Member<'_>,
        timed: bool,
        hooks: &dyn CommitHooks,
    ) -> Result<SeqNo> {
        let alone = [member];
        let admitted = member.check.is_some();
        if admitted && let Some(Some(refusal)) = writer.admit(&alone).1.pop() {
            return Err(refusal);
        }
        let ends = if timed {
            self.commit_timed(writer, &alone, admitted, hooks)
        } else {
            writer.commit_group(&alone, admitted, hooks)
        };
        ends.map(|last| last[0])
    }

    /// Commits one batch as [`Committer::commit`] does, if `condition` returns true. The writer
    /// state is locked during both. A panic of `condition` changes nothing.
    pub fn commit_if(
        &self,
        payload: &[u8],
        count: u32,
        user_bytes: u64,
        durability: Durability,
        hooks: &dyn CommitHooks,
        condition: impl FnOnce() -> Result<bool>,
    ) -> Result<bool> {
        let mut writer = self.lock();
        let holds = condition()?;
        if holds {
            let (check, deadline) = (None, None);
            let alone = [Member { payload, count, user_bytes, durability, check, deadline }];
            self.commit_timed(&mut writer, &alone, false, hooks)?;
        }
        Ok(holds)
    }

    /// Commits the one operation that `make` encodes, unless `make` returns `None`. `make` returns
    /// the bytes of its key and value. The writer state is locked during both. A panic of `make`
    /// changes nothing. Returns whether there was an operation.
    pub fn commit_made(
        &self,
        durability: Durability,
        hooks: &dyn CommitHooks,
        make: impl FnOnce(&mut Vec<u8>) -> Result<Option<u64>>,
    ) -> Result<bool> {
        let mut writer = self.lock();
        let mut payload = Vec::new();
        let Some(user_bytes) = make(&mut payload)? else { return Ok(false) };
        let (count, check, deadline) = (1, None, None);
        let payload = &payload[..];
        let alone = [Member { payload, count, user_bytes, durability, check, deadline }];
        self.commit_timed(&mut writer, &alone, false, hooks)?;
        Ok(true)
    }

    #[cold]
    fn commit_in_group(&self, member: Member<'_>, hooks: &dyn CommitHooks) -> Result<SeqNo> {
        let Member { payload, count, user_bytes, durability, check, mut deadline } = member;
        let mine = Arc::new(Request {
            payload: payload.to_vec(),
            count,
            user_bytes,
            durability,
            check: check.cloned(),
            deadline,
            signal: Mutex::new(Signal::None),
            woken: Condvar::new(),
        });
        let mut role = self.join(&mine);
        loop {
            role = match role {
                Role::Lead => {
                    if !self.lead(deadline, hooks) {
                        self.withdraw(&mine, true);
                        return Err(hooks.missed_deadline());
                    }
                    match mine.take_outcome() {
                        Some(outcome) => return outcome,
                        // The group had to wait longer than the deadline of another member.
                        None => Role::Follow,
                    }
                }
                Role::LeadAfter(most) => {
                    mine.wait_for(most);
                    let mut line = self.queue.lock();
                    // Checked before the queue: by now another leader may wait, and
                    // `expected_syncs` may be its value.
                    if let Some(outcome) = mine.take_outcome() {
                        return outcome;
                    }
                    match line.expected_syncs.take() {
                        Some(_) => {
                            self.delay.note_timeout();
                            Role::Lead
                        }
                        None => Role::Follow,
                    }
                }
                Role::Follow => match mine.wait(deadline) {
                    Signal::Outcome(outcome) => return outcome,
                    Signal::Lead => self.take_lead(&mut self.queue.lock(), &mine),
                    Signal::None => {
                        if self.withdraw(&mine, false) {
                            return Err(hooks.missed_deadline());
                        }
                        // A leader has taken the request, and knows its deadline.
                        deadline = None;
                        Role::Follow
                    }
                },
            };
        }
    }

    /// Joins the write queue.
    fn join(&self, mine: &Arc<Request>) -> Role {
        let mut line = self.queue.lock();
        line.requests.push(mine.clone());
        self.count_waiting(&line);
        let syncing = line.syncing();
        if line.expected_syncs.take_if(|wanted| *wanted <= syncing).is_some() {
            // The last arrival becomes leader, which saves waking the waiting one.
            self.delay.note_all_arrived();
            return Role::Lead;
        }
        if line.led { Role::Follow } else { self.take_lead(&mut line, mine) }
    }

    /// Makes `mine` the leader of the waiting writers, at once or after a delay for more writers.
    fn take_lead(&self, line: &mut WriteQueue, mine: &Request) -> Role {
        line.led = true;
        if mine.durability == Durability::Sync
            && let Some((wanted, most)) = self.delay.wait_limits(line.syncing())
        {
            line.expected_syncs = Some(wanted);
            return Role::LeadAfter(most);
        }
        Role::Lead
    }

    /// Takes `mine`, whose deadline has passed, out of the queue. Passes the leadership on if
    /// `mine` has it, which `leads` says, or was about to get it. Returns `false` if a leader has
    /// taken `mine` into its group.
    fn withdraw(&self, mine: &Arc<Request>, leads: bool) -> bool {
        let mut line = self.queue.lock();
        let Some(at) = line.requests.iter().position(|request| Arc::ptr_eq(request, mine)) else {
            return false;
        };
        line.requests.remove(at);
        self.count_waiting(&line);
        // Under the queue's lock, like the signal itself: the leadership is never lost.
        if leads || mine.take_lead_signal() {
            let next = line.pass_lead();
            drop(line);
            if let Some(next) = next {
                next.woken.notify_all();
            }
        }
        true
    }

    /// Locks the writer state for a leader. Returns `None` when it is not free until `deadline`.
    fn lock_to_lead(&self, deadline: Option<Instant>) -> Option<MutexGuard<'_, WriterState>> {
        let are_callers = || self.callers_count.load(Ordering::Relaxed) > 0;
        let Some(deadline) = deadline else {
            if are_callers() {
                // One of these callers gets the writer state before this lock is free.
                drop(self.next.lock());
            }
            return Some(self.state.lock());
        };
        poll(deadline, || {
            if are_callers() {
                drop(self.next.try_lock()?);
            }
            self.state.try_lock()
        })
    }

    /// Commits all waiting writers, signals their outcomes, and passes the leadership to the first
    /// writer that arrived meanwhile. Returns `false`, and does nothing, when the writer state is
    /// not free until `deadline`.
    fn lead(&self, deadline: Option<Instant>, hooks: &dyn CommitHooks) -> bool {
        let Some(mut writer) = self.lock_to_lead(deadline) else { return false };
        let group = {
            let mut line = self.queue.lock();
            let group = std::mem::take(&mut line.requests);
            self.count_waiting(&line);
            group
        };
        let mut leader = LeaderGuard { committer: self, group };
        let mut members: Vec<Member<'_>> = leader.group.iter().map(|r| r.as_member()).collect();
        let checked = members.iter().any(|member| member.check.is_some());
        let mut refusals = Vec::new();
        if checked {
            (members, refusals) = writer.admit(&members);
        }
        let result = match members.as_slice() {
            [] => Ok(last_seqnos::Ends::new(0)),
            members => self.commit_timed(&mut writer, members, checked, hooks),
        };
        drop((writer, members));
        if let Err(error) = &result
            && error.kind() == ErrorKind::Busy
        {
            self.requeue(&mut leader, refusals, error);
            return true;
        }
        let mut committed = 0;
        for (index, request) in leader.group.iter().enumerate() {
            let outcome = match refusals.get_mut(index).and_then(Option::take) {
                Some(refusal) => Err(refusal),
                None => {
                    committed += 1;
                    result.as_ref().map(|ends| ends[committed - 1]).map_err(Error::clone)
                }
            };
            request.notify(Signal::Outcome(outcome));
        }
        true
    }

    /// Ends the requests of a group that could not be committed before the first deadline of a
    /// member: those whose deadline has passed, with the error `busy`, and those with a refusal.
    /// Returns the others to the front of the queue.
    fn requeue(&self, leader: &mut LeaderGuard<'_>, refusals: Vec<Option<Error>>, busy: &Error) {
        let now = Instant::now();
        let mut refusals = refusals.into_iter();
        let (mut rest, mut ended) = (Vec::new(), Vec::new());
        for request in std::mem::take(&mut leader.group) {
            let refusal = refusals.next().flatten();
            let missed = request.deadline.is_some_and(|deadline| deadline <= now);
            if refusal.is_none() && !missed {
                rest.push(request);
                continue;
            }
            request.notify(Signal::Outcome(Err(refusal.unwrap_or_else(|| busy.clone()))));
            ended.push(request);
        }
        leader.group = ended;
        let mut line = self.queue.lock();
        line.requests.splice(0..0, rest);
        self.count_waiting(&line);
    }

    /// Commits the members. If a member asked for a sync, records the time taken and the number of
    /// syncing writers in the group and in the queue.
    fn commit_timed(
        &self,
        writer: &mut WriterState,
        members: &[Member<'_>],
        admitted: bool,
        hooks: &dyn CommitHooks,
    ) -> Result<last_seqnos::Ends> {
        let began = Instant::now();
        let ends = writer.commit_group(members, admitted, hooks)?;
        let synced = members.iter().filter(|m| m.durability == Durability::Sync).count();
        if synced > 0 {
            let arrived = self.queue.lock().syncing();
            self.delay.note(synced + arrived, began.elapsed());
        }
        Ok(ends)
    }
}

/// Guard: while it exists, a caller waits for the writer state.
struct CallerGuard<'a>(&'a Committer);

impl CallerGuard<'_> {
    fn new(committer: &Committer) -> CallerGuard<'_> {
        CallerGuard::count(committer, |callers| callers + 1);
        CallerGuard(committer)
    }

    fn count(committer: &Committer, change: impl FnOnce(usize) -> usize) {
        let line = committer.queue.lock();
        let callers = change(committer.callers_count.load(Ordering::Relaxed));
        committer.callers_count.store(callers, Ordering::Relaxed);
        committer.count_waiting(&line);
    }
}

impl Drop for CallerGuard<'_> {
    fn drop(&mut self) {
        CallerGuard::count(self.0, |callers| callers - 1);
    }
}

/// Repeats `attempt` until it succeeds. Returns `None` when `deadline` comes first.
fn poll<T>(deadline: Instant, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    loop {
        if let Some(found) = attempt() {
            return Some(found);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        thread::sleep(left.min(POLL));
    }
}

/// Leader guard. Its drop signals every writer of the group and passes the leadership on, even
/// after a panic in the store.
struct LeaderGuard<'a> {
    committer: &'a Committer,
    group: Vec<Arc<Request>>,
}

impl Drop for LeaderGuard<'_> {
    fn drop(&mut self) {
        for request in &self.group {
            let mut signal = request.signal.lock();
            if !matches!(*signal, Signal::Outcome(_)) {
                let lost = Error::new(
                    ErrorKind::Io,
                    "the thread that committed this write panicked; close the store and open it \
                     again to see whether it contains the write",
                );
                *signal = Signal::Outcome(Err(lost));
            }
        }
        let next = self.committer.queue.lock().pass_lead();
        if let Some(next) = next {
            next.woken.notify_all();
        }
        for request in &self.group {
            request.woken.notify_all();
        }
    }
}

#[cfg(all(test, not(esker_shuttle)))]
mod tests;
