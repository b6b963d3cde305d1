//! What a session of the shell collects before it writes: the operations of a batch, or a
//! transaction. Also the commands that change pairs, with or without a batch or a transaction.
//!
//! Invariants:
//! 1. The operations of a batch are invisible until its commit. A transaction reads its own writes.
//! 2. A command that fails leaves the batch or the transaction open, except for a commit: a
//!    transaction whose commit fails is rolled back.

use esker::{
    Batch, Concurrency, Db, Durability, Isolation, Keyspace, Transaction, TransactionOptions,
};

use super::words::Words;
use crate::commands::counted;
use crate::failure::Failure;

/// A batch or a transaction that is not committed.
pub enum Open {
    /// The operations since `batch`.
    Batch(Batch),
    /// The transaction since `begin`.
    Transaction(Transaction),
}

impl Open {
    /// Returns the first word of the prompt.
    pub fn prompt(&self) -> String {
        match self {
            Open::Batch(_) => "batch".into(),
            Open::Transaction(transaction) => format!("transaction {}", transaction.id()),
        }
    }

    /// Describes the batch or the transaction, in a message about it.
    pub fn describe(&self) -> String {
        match self {
            Open::Batch(batch) => {
                format!("the batch of {}", counted(batch.len() as u64, "operation"))
            }
            Open::Transaction(transaction) => format!("the transaction {}", transaction.id()),
        }
    }
}

/// Returns the transaction of a session, or the error that there is none.
pub fn transaction_in<'o>(
    open: &'o Option<Open>,
    command: &str,
) -> Result<&'o Transaction, Failure> {
    match open {
        Some(Open::Transaction(transaction)) => Ok(transaction),
        _ => Err(Failure::usage(format!("{command} needs a transaction: begin one first"))),
    }
}

/// Begins the transaction that the words after `begin` describe.
///
/// # Errors
/// A word is unknown.
pub fn begin(
    db: &Db,
    mut words: Words<'_>,
    durability: Option<Durability>,
) -> Result<Transaction, Failure> {
    let mut options = TransactionOptions::default().durability(durability);
    while let Some(word) = words.raw() {
        let word = String::from_utf8_lossy(word).to_ascii_lowercase();
        options = match word.as_str() {
            "optimistic" => options.concurrency(Concurrency::Optimistic),
            "pessimistic" => options.concurrency(Concurrency::Pessimistic),
            "snapshot" => options.isolation(Isolation::Snapshot),
            "serializable" => options.isolation(Isolation::Serializable),
            _ => options.lock_timeout_ms(lock_timeout_ms(&word)?),
        };
    }
    Ok(db.transaction(options))
}

/// Returns the number of `lock_timeout_ms=N`.
fn lock_timeout_ms(word: &str) -> Result<u64, Failure> {
    let number = word.strip_prefix("lock_timeout_ms=").and_then(|number| number.parse().ok());
    number.ok_or_else(|| {
        Failure::usage(format!(
            "begin takes optimistic or pessimistic, snapshot or serializable, and \
             lock_timeout_ms=N, found {word:?}"
        ))
    })
}

/// Returns whether the words are those of `rollback to savepoint`; false for `rollback` alone.
///
/// # Errors
/// The words are others.
pub fn is_to_savepoint(words: &mut Words<'_>) -> Result<bool, Failure> {
    let mut word = || words.raw().map(<[u8]>::to_ascii_lowercase);
    match (word().as_deref(), word().as_deref(), word().as_deref()) {
        (None, ..) => Ok(false),
        (Some(b"to"), Some(b"savepoint"), None) => Ok(true),
        _ => Err(Failure::usage("rollback takes no word, or `to savepoint`")),
    }
}

/// A change of one key or of one range.
#[derive(Clone, Copy)]
pub enum Change<'k> {
    /// Sets a key to a value.
    Put(&'k [u8], &'k [u8]),
    /// Deletes a key.
    Delete(&'k [u8]),
    /// Deletes the keys from the first, included, to the second, excluded.
    DeleteRange(&'k [u8], &'k [u8]),
}

impl Change<'_> {
    /// Returns a batch that contains only this change.
    pub fn to_batch(self, keyspace: &Keyspace) -> Batch {
        let mut batch = Batch::new();
        match self {
            Change::Put(key, value) => batch.put_in(keyspace, key, value),
            Change::Delete(key) => batch.delete_in(keyspace, key),
            Change::DeleteRange(from, to) => batch.delete_range_in(keyspace, from, to),
        };
        batch
    }

    /// Makes the change in a transaction.
    pub fn apply(self, transaction: &Transaction, keyspace: &Keyspace) -> esker::Result<()> {
        match self {
            Change::Put(key, value) => transaction.put_in(keyspace, key, value),
            Change::Delete(key) => transaction.delete_in(keyspace, key),
            Change::DeleteRange(from, to) => transaction.delete_range_in(keyspace, from, to),
        }
    }
}
