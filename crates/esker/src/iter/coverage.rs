//! Caches the range tombstone lookup for a sequence of keys.

use super::copy_into;
use crate::base::key::SeqNo;
use crate::base::order::KeyOrder;
use crate::base::range_delete::RangeDeleteView;

/// The range tombstones, if there are any, and the last answer.
#[derive(Default)]
pub(super) struct Coverage {
    view: Option<Box<RangeDeleteView>>,
    last: Option<Box<Answer>>,
}

/// Result for the keys of `[from, to)` at a snapshot. `None` is unbounded.
#[derive(Default)]
struct Answer {
    snapshot: SeqNo,
    newest: Option<SeqNo>,
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
}

impl Coverage {
    /// Creates the lookup over `view`.
    pub fn new(view: Option<Box<RangeDeleteView>>) -> Coverage {
        Coverage { view, last: None }
    }

    /// Returns whether there are no range tombstones.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.view.is_none()
    }

    /// Returns the newest tombstone over `key` at or below `snapshot`. The cost is two comparisons
    /// if no range bound lies between `key` and the previous key. Otherwise it is a binary search
    /// in each set.
    pub fn newest(&mut self, order: &KeyOrder, key: &[u8], snapshot: SeqNo) -> Option<SeqNo> {
        let view = self.view.as_ref()?;
        if let Some(last) = &self.last
            && last.snapshot == snapshot
            && last.from.as_ref().is_none_or(|from| order.compare(from, key).is_le())
            && last.to.as_ref().is_none_or(|to| order.compare(key, to).is_lt())
        {
            return last.newest;
        }
        let found = view.covered(order, key, snapshot);
        let last = self.last.get_or_insert_default();
        let (from, to) = (last.from.take(), last.to.take());
        let (from, to) = (copied(found.from, from), copied(found.to, to));
        **last = Answer { snapshot, newest: found.newest, from, to };
        found.newest
    }
}

/// Copies `key` to the memory of `old`, if there is some.
fn copied(key: Option<&[u8]>, old: Option<Vec<u8>>) -> Option<Vec<u8>> {
    let mut buffer = old.unwrap_or_default();
    copy_into(&mut buffer, key?);
    Some(buffer)
}
