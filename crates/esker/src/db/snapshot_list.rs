//! The live snapshots: sequence numbers that compactions must keep readable.

use std::collections::BTreeMap;

use crate::base::key::SeqNo;
use crate::base::sync::Mutex;

/// The sequence numbers held by snapshots, each with its number of holders.
#[derive(Default)]
pub struct SnapshotList(Mutex<BTreeMap<SeqNo, usize>>);

impl SnapshotList {
    /// Holds the sequence number that `now` returns. `now` runs under the list's lock.
    pub fn hold(&self, now: impl FnOnce() -> SeqNo) -> SeqNo {
        let mut held = self.0.lock();
        let seqno = now();
        *held.entry(seqno).or_insert(0) += 1;
        seqno
    }

    /// Releases a sequence number that [`SnapshotList::hold`] returned.
    pub fn release(&self, seqno: SeqNo) {
        let mut held = self.0.lock();
        if let Some(count) = held.get_mut(&seqno) {
            *count -= 1;
            if *count == 0 {
                held.remove(&seqno);
            }
        }
    }

    /// Returns the held sequence numbers, ascending.
    pub fn all(&self) -> Vec<SeqNo> {
        self.0.lock().keys().copied().collect()
    }

    /// Returns the number of live snapshots.
    pub fn count(&self) -> usize {
        self.0.lock().values().sum()
    }
}
