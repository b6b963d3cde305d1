//! Layer 3: the parts of transactions that know nothing of a store's files.
//!
//! [`item`] names what a transaction has written and read. [`footprint`] is what a commit must
//! check. [`oracle`] answers that check from the recent commits, in a fixed number of bytes.
//! [`locks`] is the lock table of pessimistic and prepared transactions, and [`waits`] finds
//! deadlocks. [`writes`] finds a transaction's own writes. [`prepared`] has the record of a
//! prepared transaction. `db/txn` joins them with the store.

pub mod footprint;
pub mod item;
pub mod locks;
pub mod oracle;
pub mod prepared;
mod recent;
mod waits;
pub mod writes;

use std::sync::Arc;

use crate::base::sync::atomic::{AtomicU64, Ordering};
use item::TransactionId;
use locks::LockTable;
use oracle::Watch;
use prepared::PreparedList;

/// What the transactions of a store share.
#[derive(Default)]
pub struct Transactions {
    /// The number of open transactions.
    pub watch: Arc<Watch>,
    /// The locks.
    pub locks: Arc<LockTable>,
    /// The prepared transactions.
    pub prepared: PreparedList,
    last_id: AtomicU64,
}

impl Transactions {
    /// Returns the number of a new transaction, which no other has in this opening.
    pub fn next_id(&self) -> TransactionId {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }
}
