//! The write queue: the writers that wait for a group commit ([`super::commit`]).
//!
//! Invariants: a request is in the queue until a leader takes it into its group or its writer
//! withdraws it. The signal to lead is sent under the queue's lock, so a writer that withdraws
//! passes it on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::writer_state::Member;
use crate::base::key::SeqNo;
use crate::base::sync::{Condvar, Mutex};
use crate::error::Result;
use crate::options::kinds::Durability;
use crate::txn::footprint::Footprint;

/// A waiting commit and its outcome.
pub(super) struct Request {
    pub payload: Vec<u8>,
    pub count: u32,
    pub user_bytes: u64,
    pub durability: Durability,
    pub check: Option<Arc<Footprint>>,
    pub deadline: Option<Instant>,
    /// Per-request lock, so that the writers of one group wake in parallel and not one after the
    /// other through the queue's lock.
    pub signal: Mutex<Signal>,
    /// Notified after a change of `signal`.
    pub woken: Condvar,
}

/// Signal to a waiting writer.
pub(super) enum Signal {
    /// No signal yet.
    None,
    /// Become the leader and commit for all waiting writers.
    Lead,
    /// The outcome of the commit.
    Outcome(Result<SeqNo>),
}

/// Role of a waiting writer.
pub(super) enum Role {
    /// Leader: commits for all waiting writers.
    Lead,
    /// Leader after a delay: commits when all expected writers have arrived, or after this time.
    LeadAfter(Duration),
    /// Follower: waits for a signal.
    Follow,
}

impl Request {
    pub fn as_member(&self) -> Member<'_> {
        Member {
            payload: &self.payload,
            count: self.count,
            user_bytes: self.user_bytes,
            durability: self.durability,
            check: self.check.as_ref(),
            deadline: self.deadline,
        }
    }

    pub fn notify(&self, signal: Signal) {
        *self.signal.lock() = signal;
    }

    /// Waits for a signal. Returns [`Signal::None`] when `deadline` comes first.
    pub fn wait(&self, deadline: Option<Instant>) -> Signal {
        let mut signal = self.signal.lock();
        while matches!(*signal, Signal::None) {
            match deadline {
                None => self.woken.wait(&mut signal),
                Some(end) if Instant::now() < end => self.woken.wait_until(&mut signal, end),
                Some(_) => break,
            }
        }
        std::mem::replace(&mut signal, Signal::None)
    }

    /// Takes the signal to lead, if it has arrived.
    pub fn take_lead_signal(&self) -> bool {
        let mut signal = self.signal.lock();
        let leads = matches!(*signal, Signal::Lead);
        if leads {
            *signal = Signal::None;
        }
        leads
    }

    /// Waits for a signal, for `most` at most.
    pub fn wait_for(&self, most: Duration) {
        let mut signal = self.signal.lock();
        if matches!(*signal, Signal::None) {
            self.woken.wait_for(&mut signal, most);
        }
    }

    /// Takes the outcome if it has arrived.
    pub fn take_outcome(&self) -> Option<Result<SeqNo>> {
        let mut signal = self.signal.lock();
        match std::mem::replace(&mut *signal, Signal::None) {
            Signal::Outcome(outcome) => Some(outcome),
            other => {
                *signal = other;
                None
            }
        }
    }
}

/// The write queue. At most one of its writers is the leader. A follower reads its outcome without
/// the writer state's lock; otherwise it would wait for the next group's sync.
#[derive(Default)]
pub(super) struct WriteQueue {
    pub requests: Vec<Arc<Request>>,
    pub led: bool,
    /// Number of syncing writers that ends the delay of a waiting leader.
    pub expected_syncs: Option<usize>,
}

impl WriteQueue {
    /// Returns the number of waiting writers that request a sync.
    pub fn syncing(&self) -> usize {
        self.requests.iter().filter(|request| request.durability == Durability::Sync).count()
    }

    /// Makes the first waiting writer the leader, if there is one. Returns it: the caller notifies
    /// it without the queue's lock.
    pub fn pass_lead(&mut self) -> Option<Arc<Request>> {
        self.led = !self.requests.is_empty();
        let next = self.requests.first().cloned();
        if let Some(next) = &next {
            next.notify(Signal::Lead);
        }
        next
    }
}
