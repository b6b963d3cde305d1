//! The live snapshots: moments that compactions must keep readable.
//!
//! Invariants: the moments are ascending, and each has at least one holder. A new moment is almost
//! always the newest, so holding it is an append.

use std::collections::VecDeque;

use crate::base::expiry::Moment;
use crate::base::sync::Mutex;

/// The moments held by snapshots, each with its number of holders.
#[derive(Default)]
pub struct SnapshotList(Mutex<VecDeque<(Moment, usize)>>);

impl SnapshotList {
    /// Holds the moment that `now` returns. `now` runs under the list's lock.
    pub fn hold(&self, now: impl FnOnce() -> Moment) -> Moment {
        let mut held = self.0.lock();
        let moment = now();
        match place_of(&held, moment) {
            Ok(place) => held[place].1 += 1,
            Err(place) => held.insert(place, (moment, 1)),
        }
        moment
    }

    /// Releases a moment that [`SnapshotList::hold`] returned.
    pub fn release(&self, moment: Moment) {
        let mut held = self.0.lock();
        if let Ok(place) = place_of(&held, moment) {
            held[place].1 -= 1;
            if held[place].1 == 0 {
                held.remove(place);
            }
        }
    }

    /// Returns the held moments, ascending. Of those with one sequence number only the earliest.
    pub fn all(&self) -> Vec<Moment> {
        let mut moments: Vec<Moment> = self.0.lock().iter().map(|(moment, _)| *moment).collect();
        moments.dedup_by_key(|moment| moment.seqno);
        moments
    }

    /// Returns the number of live snapshots.
    pub fn count(&self) -> usize {
        self.0.lock().iter().map(|(_, count)| count).sum()
    }
}

fn place_of(held: &VecDeque<(Moment, usize)>, moment: Moment) -> Result<usize, usize> {
    held.binary_search_by(|(other, _)| other.cmp(&moment))
}

#[cfg(all(test, not(esker_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn moments_are_counted_and_ascending_also_when_the_clock_goes_back() {
        let list = SnapshotList::default();
        let moment = |seqno, at_ms| Moment { seqno, at_ms };
        let all = [moment(5, 100), moment(7, 120), moment(7, 110), moment(5, 100), moment(9, 90)];
        for held in all {
            assert_eq!(list.hold(|| held), held);
        }
        assert_eq!(list.all(), [moment(5, 100), moment(7, 110), moment(9, 90)]);
        assert_eq!(list.count(), 5);
        list.release(moment(5, 100));
        list.release(moment(7, 110));
        assert_eq!(list.all(), [moment(5, 100), moment(7, 120), moment(9, 90)]);
        // Nobody holds it.
        list.release(moment(6, 0));
        assert_eq!(list.count(), 3);
        for held in [moment(5, 100), moment(9, 90), moment(7, 120)] {
            list.release(held);
        }
        assert_eq!((list.all(), list.count()), (Vec::new(), 0));
    }
}
