//! How many threads sync at about the same time, so that one sync serves them all.
//!
//! The threads that one sync has served come back together, some microseconds later: the first of
//! them would sync alone, and the others wait for it. So it waits until as many are there as were
//! lately, at most for half of what a commit with its sync takes (the idea of PostgreSQL's
//! `commit_delay`, with both numbers measured instead of set).
//!
//! What stays true: this is advice. Who waited in vain does not wait again for a while.

use std::time::Duration;

use crate::base::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// It is never waited longer than this.
const WAIT_MAX: Duration = Duration::from_micros(500);
/// So many groups are not waited for at most after some that were waited for in vain; after the first
/// of those it is one, and twice as many after each that follows.
const GROUPS_WITHOUT_MAX: usize = 16;

/// What is known of those who sync.
#[derive(Default)]
pub struct Rivals {
    /// Members of the last group that were to be synced, and those who came meanwhile.
    count: AtomicUsize,
    /// What the last group took.
    commit_ns: AtomicU64,
    /// So many groups are not waited for.
    without: AtomicUsize,
    /// So many will not be after the next that is waited for in vain.
    without_next: AtomicUsize,
}

impl Rivals {
    /// Notes that a group was committed in `elapsed`, and that so many who sync were in it or came
    /// meanwhile.
    pub fn note(&self, count: usize, elapsed: Duration) {
        self.count.store(count, Relaxed);
        self.commit_ns.store(elapsed.as_nanos() as u64, Relaxed);
    }

    /// For how many, with those who wait to be synced, and for how long a leader should wait; `None` if not at
    /// all.
    pub fn worth_waiting_for(&self, waiting: usize) -> Option<(usize, Duration)> {
        let wanted = self.count.load(Relaxed);
        if wanted <= waiting {
            return None;
        }
        let without = self.without.load(Relaxed);
        if without > 0 {
            self.without.store(without - 1, Relaxed);
            return None;
        }
        let most = Duration::from_nanos(self.commit_ns.load(Relaxed) / 2).min(WAIT_MAX);
        Some((wanted, most))
    }

    /// Whether nobody else synced lately.
    pub fn are_none(&self) -> bool {
        self.count.load(Relaxed) < 2
    }

    /// Notes that all came who were waited for.
    pub fn note_all_came(&self) {
        self.without_next.store(0, Relaxed);
    }

    /// Notes that it was waited in vain.
    pub fn note_in_vain(&self) {
        let without = self.without_next.load(Relaxed).max(1);
        self.without.store(without, Relaxed);
        self.without_next.store((without * 2).min(GROUPS_WITHOUT_MAX), Relaxed);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_waited_for_who_was_not_there_and_not_again_after_it_was_in_vain() {
        let rivals = Rivals::default();
        assert_eq!(rivals.worth_waiting_for(1), None, "nobody is known");
        rivals.note(3, Duration::from_micros(100));
        assert_eq!(rivals.worth_waiting_for(2), Some((3, Duration::from_micros(50))));
        assert_eq!(rivals.worth_waiting_for(3), None, "they are here");
        for without in [1, 2, 4, 8, GROUPS_WITHOUT_MAX, GROUPS_WITHOUT_MAX] {
            assert!(rivals.worth_waiting_for(2).is_some());
            rivals.note_in_vain();
            for group in 0..without {
                assert_eq!(rivals.worth_waiting_for(2), None, "not again for group {group}");
            }
        }
        rivals.note_all_came();
        rivals.note_in_vain();
        assert_eq!(rivals.worth_waiting_for(2), None, "the first time it is for one group");
        rivals.note(3, Duration::from_secs(60));
        assert_eq!(rivals.worth_waiting_for(2), Some((3, WAIT_MAX)));
    }
}
