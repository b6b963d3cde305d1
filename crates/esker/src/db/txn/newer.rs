//! Asks the store whether an item was written after a sequence number.

use std::sync::Arc;

use crate::base::key::SeqNo;
use crate::base::keyspace::TreeId;
use crate::base::order::KeyOrder;
use crate::db::state::DbInner;
use crate::db::tree::Tree;
use crate::error::{Error, ErrorKind, Result};
use crate::read::ReadState;
use crate::read::newer::NewerThan;
use crate::txn::item::{Item, Orders};

/// The orders of the trees of an open store.
pub(super) struct TreeOrders(pub Arc<Vec<Arc<Tree>>>);

impl Orders for TreeOrders {
    fn order_of(&self, tree: TreeId) -> Option<&KeyOrder> {
        Some(&self.0.get(tree as usize)?.order)
    }
}

/// The store at one moment.
pub(super) struct StoreCheck {
    read_state: Arc<ReadState>,
    trees: Arc<Vec<Arc<Tree>>>,
}

impl StoreCheck {
    /// Takes the present moment. The check sees every write that is visible now.
    pub fn new(inner: &DbInner) -> StoreCheck {
        StoreCheck { read_state: inner.read_state.load(), trees: inner.trees() }
    }

    /// Returns whether `item` was written after `since`. The caller holds a snapshot at `since` or
    /// before ([`crate::read::newer`]).
    pub fn is_newer(&self, since: SeqNo, item: &Item<'_>) -> Result<bool> {
        let number = item.tree();
        let Some(tree) = self.trees.get(number as usize) else { return Ok(false) };
        let read_state = match number {
            0 => &self.read_state,
            number => match self.read_state.other(number) {
                Some(other) => other,
                None => return Ok(false),
            },
        };
        let search = NewerThan { tables: &tree.tables, read_state, since };
        match item {
            Item::Key { key, .. } => search.has_key(key),
            Item::Range { range, .. } => search.has_range((range.lo, range.hi)),
        }
    }

    /// Returns an error if one of `items` was written after `since`.
    ///
    /// # Errors
    /// `Conflict`, `Corruption`, `Io`.
    pub fn refuse_newer<'a>(
        &self,
        since: SeqNo,
        mut items: impl Iterator<Item = Item<'a>>,
    ) -> Result<()> {
        items.try_for_each(|item| match self.is_newer(since, &item)? {
            true => Err(conflict(&item)),
            false => Ok(()),
        })
    }
}

/// Returns the error for an item that was written after the snapshot of a transaction.
#[cold]
pub(super) fn conflict(item: &Item<'_>) -> Error {
    let message = format!(
        "{item} was written after the snapshot of the transaction, by another transaction or by a \
         plain write; run the transaction again"
    );
    Error::new(ErrorKind::Conflict, message)
}
