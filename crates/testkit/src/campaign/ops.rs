//! The operations of a campaign's batches, and the changes of the list of keyspaces.
//!
//! Invariants: an operation names its keyspace by a slot, so it can be made in any store.

use std::time::Duration;

use esker::{Batch, KeyOrder, Keyspace, Transaction};

/// One operation of a batch, in the keyspace of a slot. A slot without a keyspace stands for the
/// default one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Set a key.
    Put(u8, Vec<u8>, Vec<u8>),
    /// Set a key for a time to live, in milliseconds.
    PutExpiring(u8, Vec<u8>, Vec<u8>, u64),
    /// Merge an operand into the value of a key.
    Merge(u8, Vec<u8>, Vec<u8>),
    /// Delete a key.
    Delete(u8, Vec<u8>),
    /// Delete every key from the first, inclusive, to the second, exclusive. The first one is less
    /// or equal bytewise. Where the key order is reversed, the two change places.
    DeleteRange(u8, Vec<u8>, Vec<u8>),
    /// Delete every key of a keyspace, not of the default one.
    Clear(u8),
}

impl Op {
    /// Returns the slot.
    pub fn slot(&self) -> u8 {
        match self {
            Op::Put(slot, ..) | Op::PutExpiring(slot, ..) | Op::Merge(slot, ..) => *slot,
            Op::Delete(slot, _) | Op::DeleteRange(slot, ..) | Op::Clear(slot) => *slot,
        }
    }

    /// Returns the key of an operation on one key.
    pub fn key(&self) -> Option<&Vec<u8>> {
        match self {
            Op::Put(_, key, _) | Op::PutExpiring(_, key, ..) => Some(key),
            Op::Merge(_, key, _) | Op::Delete(_, key) => Some(key),
            Op::DeleteRange(..) | Op::Clear(_) => None,
        }
    }

    /// Adds the operation to a batch, in the given keyspace. A batch has no [`Op::Clear`].
    pub fn add_to(&self, batch: &mut Batch, keyspace: &Keyspace) {
        match self {
            Op::Put(_, key, value) => batch.put_in(keyspace, key, value),
            Op::PutExpiring(_, key, value, ttl_ms) => {
                batch.put_with_ttl_in(keyspace, key, value, Duration::from_millis(*ttl_ms))
            }
            Op::Merge(_, key, operand) => batch.merge_in(keyspace, key, operand),
            Op::Delete(_, key) => batch.delete_in(keyspace, key),
            Op::DeleteRange(_, lo, hi) => {
                let (start, end) = ends(keyspace, lo, hi);
                batch.delete_range_in(keyspace, start, end)
            }
            Op::Clear(_) => batch,
        };
    }

    /// Makes the operation in a transaction, in the given keyspace. A transaction has no
    /// [`Op::Clear`].
    ///
    /// # Errors
    /// The store's error.
    pub fn make_in(&self, transaction: &Transaction, keyspace: &Keyspace) -> esker::Result<()> {
        match self {
            Op::Put(_, key, value) => transaction.put_in(keyspace, key, value),
            Op::PutExpiring(_, key, value, ttl_ms) => {
                transaction.put_with_ttl_in(keyspace, key, value, Duration::from_millis(*ttl_ms))
            }
            Op::Merge(_, key, operand) => transaction.merge_in(keyspace, key, operand),
            Op::Delete(_, key) => transaction.delete_in(keyspace, key),
            Op::DeleteRange(_, lo, hi) => {
                let (start, end) = ends(keyspace, lo, hi);
                transaction.delete_range_in(keyspace, start, end)
            }
            Op::Clear(_) => Ok(()),
        }
    }
}

/// Returns the ends of a range delete in the order of the keyspace.
fn ends<'a>(keyspace: &Keyspace, lo: &'a [u8], hi: &'a [u8]) -> (&'a [u8], &'a [u8]) {
    if matches!(keyspace.key_order(), KeyOrder::Reverse) { (hi, lo) } else { (lo, hi) }
}

/// A change of the list of keyspaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Create the keyspace of a slot under its first name, if that is free.
    Create(u8),
    /// Give the keyspace of a slot its other name, if that is free.
    Rename(u8),
    /// Drop a keyspace of a slot, the renamed one first.
    Drop(u8),
}

/// A change, with the names that it has in the present list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedChange {
    /// Create a keyspace with the options of a slot.
    Create(u8, String),
    /// Rename a keyspace.
    Rename(String, String),
    /// Drop a keyspace.
    Drop(String),
}

/// Returns whether a range delete deletes a key. In the reverse order the range is `(lo, hi]`.
pub fn deletes(reversed: bool, lo: &[u8], hi: &[u8], key: &[u8]) -> bool {
    if reversed { lo < key && key <= hi } else { lo <= key && key < hi }
}
