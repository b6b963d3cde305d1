//! Options of a transaction.

use std::time::Duration;

use crate::options::kinds::Durability;

/// Isolation of a transaction: which effects of concurrent commits it cannot see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Isolation {
    /// The transaction reads the store as of one moment. It commits only if no other commit has
    /// written its keys since: the first committer wins. Two transactions that each read what the
    /// other writes may both commit (write skew).
    #[default]
    Snapshot,
    /// The committed transactions give the results of some order in which they run one after the
    /// other. What a transaction has read is protected as well: keys, keys that it did not find,
    /// and ranges over which it iterated.
    Serializable,
}

/// When conflicts between transactions are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Concurrency {
    /// At the commit, which returns [`Conflict`](crate::ErrorKind::Conflict). No call waits for
    /// another transaction. For transactions that seldom conflict.
    #[default]
    Optimistic,
    /// At once, by locks: a call waits until the transaction that holds a lock has ended. For keys
    /// that many transactions change. Writes outside of pessimistic transactions take no locks. A
    /// commit finds the conflicts with them, as an optimistic one does.
    Pessimistic,
}

/// Options of a transaction.
///
/// ```
/// use esker::{Concurrency, Durability, Isolation, TransactionOptions};
/// let options = TransactionOptions::default()
///     .isolation(Isolation::Serializable)
///     .concurrency(Concurrency::Pessimistic)
///     .lock_timeout_ms(200)
///     .durability(Durability::Sync);
/// assert_eq!(options.lock_timeout_ms, 200);
/// ```
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct TransactionOptions {
    /// What the transaction is protected from. Default: [`Isolation::Snapshot`].
    pub isolation: Isolation,
    /// When conflicts are found. Default: [`Concurrency::Optimistic`].
    pub concurrency: Concurrency,
    /// Maximum time of one wait for a lock, in milliseconds. 0 does not wait. Default: 1,000. An
    /// optimistic transaction waits for locks only in [`Transaction::prepare`](crate::Transaction).
    pub lock_timeout_ms: u64,
    /// Durability of the commit; the store's `durability` option when `None`. A prepared
    /// transaction is always durable as a `Sync` write.
    pub durability: Option<Durability>,
    /// Maximum number of times that [`Db::transact`](crate::Db::transact) runs the transaction, at
    /// least 1. Default: 100.
    pub attempts_max: u32,
}

impl Default for TransactionOptions {
    fn default() -> Self {
        TransactionOptions {
            isolation: Isolation::default(),
            concurrency: Concurrency::default(),
            lock_timeout_ms: 1000,
            durability: None,
            attempts_max: 100,
        }
    }
}

impl TransactionOptions {
    /// Sets what the transaction is protected from.
    pub fn isolation(mut self, isolation: Isolation) -> TransactionOptions {
        self.isolation = isolation;
        self
    }

    /// Sets when conflicts are found.
    pub fn concurrency(mut self, concurrency: Concurrency) -> TransactionOptions {
        self.concurrency = concurrency;
        self
    }

    /// Sets the maximum time of one wait for a lock, in milliseconds.
    pub fn lock_timeout_ms(mut self, lock_timeout_ms: u64) -> TransactionOptions {
        self.lock_timeout_ms = lock_timeout_ms;
        self
    }

    /// Sets the durability of the commit, or `None` for the store's.
    pub fn durability(mut self, durability: impl Into<Option<Durability>>) -> TransactionOptions {
        self.durability = durability.into();
        self
    }

    /// Sets the maximum number of runs by [`Db::transact`](crate::Db::transact).
    pub fn attempts_max(mut self, attempts_max: u32) -> TransactionOptions {
        self.attempts_max = attempts_max;
        self
    }

    pub(super) fn is_serializable(&self) -> bool {
        self.isolation == Isolation::Serializable
    }

    pub(super) fn is_pessimistic(&self) -> bool {
        self.concurrency == Concurrency::Pessimistic
    }

    pub(super) fn lock_timeout(&self) -> Duration {
        Duration::from_millis(self.lock_timeout_ms)
    }
}
