//! Which range tombstone covers a key, asked for one key after another.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::base::key::SeqNo;
use crate::base::order::KeyOrder;
use crate::base::range_delete::RangeDeletes;

/// The range tombstones, if there are any, and where among them the last question was.
pub(super) struct Coverage {
    set: Option<Arc<RangeDeletes>>,
    /// How many fragments ended at or before the last key asked for.
    at: usize,
}

impl Coverage {
    /// What `set` covers.
    pub fn new(set: Option<Arc<RangeDeletes>>) -> Coverage {
        Coverage { set, at: 0 }
    }

    /// Whether it covers nothing.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.set.is_none()
    }

    /// The newest tombstone over `key` at or below `snapshot`. Neighbouring keys cost two
    /// comparisons, a jump costs a binary search.
    pub fn newest(&mut self, order: &KeyOrder, key: &[u8], snapshot: SeqNo) -> Option<SeqNo> {
        let fragments = self.set.as_ref()?.fragments();
        let ended = |at: usize| order.compare(&fragments[at].end, key) != Ordering::Greater;
        let holds =
            (self.at == 0 || ended(self.at - 1)) && (self.at == fragments.len() || !ended(self.at));
        if !holds {
            self.at =
                fragments.partition_point(|f| order.compare(&f.end, key) != Ordering::Greater);
        }
        let fragment = fragments.get(self.at)?;
        if order.compare(&fragment.start, key) == Ordering::Greater {
            return None;
        }
        fragment.seqnos.iter().copied().find(|&seqno| seqno <= snapshot)
    }
}
