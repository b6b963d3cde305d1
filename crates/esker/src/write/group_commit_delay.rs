//! Group commit delay: lets one sync serve all threads that sync at about the same time.
//!
//! The threads that one sync served return together, within a few microseconds. Without a delay the
//! first of them would sync alone, and the others would wait for that sync. So the leader waits
//! until the number of writers reaches the recent number, but at most for half the time of a commit
//! with its sync, and never longer than 500 µs. This is the idea of PostgreSQL's `commit_delay` and
//! `commit_siblings`, with both numbers measured instead of configured.
//!
//! The delay changes only the grouping of writers, never the result of a commit. After a wait
//! that timed out, some groups get no delay. This back-off is a heuristic.

use std::time::Duration;

use crate::base::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Maximum delay.
const WAIT_MAX: Duration = Duration::from_micros(500);
/// Maximum number of groups without a delay after waits that timed out. The first such wait skips
/// one group, and each further one skips twice as many.
const GROUPS_WITHOUT_MAX: usize = 16;

/// Statistics of the syncing writers.
#[derive(Default)]
pub struct GroupCommitDelay {
    /// Number of syncing members of the last group, and of the syncing writers that arrived
    /// meanwhile.
    count: AtomicUsize,
    /// Duration of the last group's commit, in ns.
    commit_ns: AtomicU64,
    /// Number of groups that still get no delay.
    skip_groups: AtomicUsize,
    /// Number of groups without a delay after the next wait that times out.
    skip_groups_next: AtomicUsize,
}

impl GroupCommitDelay {
    /// Records a group commit that took `elapsed`. `count` syncing writers were in the group or
    /// arrived meanwhile.
    pub fn note(&self, count: usize, elapsed: Duration) {
        self.count.store(count, Relaxed);
        self.commit_ns.store(elapsed.as_nanos() as u64, Relaxed);
    }

    /// Returns the number of syncing writers that a leader should wait for, including the `waiting`
    /// ones, and the maximum delay. Returns `None` for no delay.
    pub fn wait_limits(&self, waiting: usize) -> Option<(usize, Duration)> {
        let wanted = self.count.load(Relaxed);
        if wanted <= waiting {
            return None;
        }
        let without = self.skip_groups.load(Relaxed);
        if without > 0 {
            self.skip_groups.store(without - 1, Relaxed);
            return None;
        }
        let most = Duration::from_nanos(self.commit_ns.load(Relaxed) / 2).min(WAIT_MAX);
        Some((wanted, most))
    }

    /// Returns true if no other writer synced recently.
    pub fn is_alone(&self) -> bool {
        self.count.load(Relaxed) < 2
    }

    /// Records that all expected writers arrived.
    pub fn note_all_arrived(&self) {
        self.skip_groups_next.store(0, Relaxed);
    }

    /// Records a wait that timed out.
    pub fn note_timeout(&self) {
        let without = self.skip_groups_next.load(Relaxed).max(1);
        self.skip_groups.store(without, Relaxed);
        self.skip_groups_next.store((without * 2).min(GROUPS_WITHOUT_MAX), Relaxed);
    }
}

#[cfg(all(test, not(esker_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn delay_backs_off_after_timeouts() {
        let delay = GroupCommitDelay::default();
        assert_eq!(delay.wait_limits(1), None, "no other writer is known");
        delay.note(3, Duration::from_micros(100));
        assert_eq!(delay.wait_limits(2), Some((3, Duration::from_micros(50))));
        assert_eq!(delay.wait_limits(3), None, "all known writers are present");
        for without in [1, 2, 4, 8, GROUPS_WITHOUT_MAX, GROUPS_WITHOUT_MAX] {
            assert!(delay.wait_limits(2).is_some());
            delay.note_timeout();
            for group in 0..without {
                assert_eq!(
                    delay.wait_limits(2),
                    None,
                    "a timed-out wait was repeated for group {group}"
                );
            }
        }
        delay.note_all_arrived();
        delay.note_timeout();
        assert_eq!(delay.wait_limits(2), None, "the first pause lasts for one group");
        delay.note(3, Duration::from_secs(60));
        assert_eq!(delay.wait_limits(2), Some((3, WAIT_MAX)));
    }
}
