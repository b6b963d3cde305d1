//! The live snapshots: moments that compactions must keep readable.

use std::collections::BTreeMap;

use crate::base::expiry::Moment;
use crate::base::sync::Mutex;

/// The moments held by snapshots, each with its number of holders.
#[derive(Default)]
pub struct SnapshotList(Mutex<BTreeMap<Moment, usize>>);

impl SnapshotList {
    /// Holds the moment that `now` returns. `now` runs under the list's lock.
    pub fn hold(&self, now: impl FnOnce() -> Moment) -> Moment {
        let mut held = self.0.lock();
        let moment = now();
        *held.entry(moment).or_insert(0) += 1;
        moment
    }

    /// Releases a moment that [`SnapshotList::hold`] returned.
    pub fn release(&self, moment: Moment) {
        let mut held = self.0.lock();
        if let Some(count) = held.get_mut(&moment) {
            *count -= 1;
            if *count == 0 {
                held.remove(&moment);
            }
        }
    }

    /// Returns the held moments, ascending. Of those with one sequence number only the earliest.
    pub fn all(&self) -> Vec<Moment> {
        let mut moments: Vec<Moment> = self.0.lock().keys().copied().collect();
        moments.dedup_by_key(|moment| moment.seqno);
        moments
    }

    /// Returns the number of live snapshots.
    pub fn count(&self) -> usize {
        self.0.lock().values().sum()
    }
}
