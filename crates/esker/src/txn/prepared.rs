//! Prepared transactions: their record in the store, and their list.
//!
//! A record is the value of a pair in an internal keyspace, under the transaction's name
//! (`docs/format.md`). It has the operations of the transaction, and what it has read: both are
//! locked until the transaction is committed or rolled back.
//!
//! Invariant: a transaction is in the list exactly while its record is in the store, except while a
//! call prepares or resolves it.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::item::{KeyRange, Reads};
use super::locks::LockOwner;
use crate::base::coding::{Reader, put_bytes, put_varint};
use crate::base::keyspace::TreeId;
use crate::base::ops::Ops;
use crate::base::sync::Mutex;
use crate::error::{Error, ErrorKind, Result};

/// Version of the records that are written.
const VERSION: u8 = 1;

const UNBOUNDED: u8 = 0;
const INCLUDED: u8 = 1;
const EXCLUDED: u8 = 2;

/// A decoded record.
#[derive(Debug)]
pub struct PreparedRecord<'a> {
    /// What the transaction has read.
    pub reads: Reads,
    /// Its encoded operations.
    pub operations: &'a [u8],
    /// Number of operations.
    pub count: u32,
}

fn put_bound(out: &mut Vec<u8>, bound: &Bound<Vec<u8>>) {
    match bound {
        Bound::Unbounded => out.push(UNBOUNDED),
        Bound::Included(key) => {
            out.push(INCLUDED);
            put_bytes(out, key);
        }
        Bound::Excluded(key) => {
            out.push(EXCLUDED);
            put_bytes(out, key);
        }
    }
}

fn get_bound(reader: &mut Reader<'_>) -> Option<Bound<Vec<u8>>> {
    Some(match reader.u8()? {
        UNBOUNDED => Bound::Unbounded,
        INCLUDED => Bound::Included(reader.bytes()?.to_vec()),
        EXCLUDED => Bound::Excluded(reader.bytes()?.to_vec()),
        _ => return None,
    })
}

fn get_tree(reader: &mut Reader<'_>) -> Option<TreeId> {
    TreeId::try_from(reader.varint()?).ok()
}

/// Encodes a record.
pub fn encode(reads: &Reads, operations: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(operations.len() + 16);
    out.push(VERSION);
    put_varint(&mut out, reads.keys().len() as u64);
    for (tree, key) in reads.keys() {
        put_varint(&mut out, u64::from(tree));
        put_bytes(&mut out, key);
    }
    put_varint(&mut out, reads.ranges().len() as u64);
    for range in reads.ranges() {
        put_varint(&mut out, u64::from(range.tree));
        put_bound(&mut out, &range.lo);
        put_bound(&mut out, &range.hi);
    }
    out.extend_from_slice(operations);
    out
}

impl<'a> PreparedRecord<'a> {
    /// Decodes a record.
    ///
    /// # Errors
    /// `Incompatible` for a record of a newer version; `Corruption`.
    pub fn decode(bytes: &'a [u8]) -> Result<PreparedRecord<'a>> {
        if let Some(version) = bytes.first().filter(|version| **version > VERSION) {
            let message = format!(
                "expected a record of a prepared transaction of version {VERSION}, found version \
                 {version}; use a newer version of Esker"
            );
            return Err(Error::new(ErrorKind::Incompatible, message));
        }
        PreparedRecord::read(bytes).ok_or_else(|| {
            let message = "the record of a prepared transaction is not valid";
            Error::new(ErrorKind::Corruption, message)
        })
    }

    fn read(bytes: &'a [u8]) -> Option<PreparedRecord<'a>> {
        let mut reader = Reader::new(bytes);
        let mut reads = Reads::default();
        if reader.u8()? != VERSION {
            return None;
        }
        for _ in 0..reader.varint()? {
            let tree = get_tree(&mut reader)?;
            reads.add_key(tree, reader.bytes()?);
        }
        for _ in 0..reader.varint()? {
            let tree = get_tree(&mut reader)?;
            let (lo, hi) = (get_bound(&mut reader)?, get_bound(&mut reader)?);
            reads.add_range(KeyRange { tree, lo, hi });
        }
        let operations = reader.take(reader.remaining())?;
        let mut count = 0_u32;
        for op in Ops::new(operations) {
            op?;
            count = count.checked_add(1)?;
        }
        Some(PreparedRecord { reads, operations, count })
    }
}

/// State of a prepared transaction.
enum State {
    /// A call prepares or resolves it.
    Changing,
    /// It waits for its resolution.
    Ready(LockOwner),
}

/// The prepared transactions by name.
#[derive(Default)]
pub struct PreparedList(Mutex<BTreeMap<String, State>>);

impl PreparedList {
    /// Reserves a name for a transaction that a call prepares.
    ///
    /// # Errors
    /// `InvalidArgument` when the name is in use.
    pub fn reserve(&self, name: &str) -> Result<()> {
        let mut list = self.0.lock();
        if list.contains_key(name) {
            return Err(Error::invalid(format!(
                "there is already a prepared transaction \"{name}\"; use another name"
            )));
        }
        list.insert(name.to_string(), State::Changing);
        Ok(())
    }

    /// Adds a transaction, or returns it after a failed resolution.
    pub fn put(&self, name: &str, owner: LockOwner) {
        self.0.lock().insert(name.to_string(), State::Ready(owner));
    }

    /// Removes a transaction that was resolved, or whose preparation failed.
    pub fn remove(&self, name: &str) {
        self.0.lock().remove(name);
    }

    /// Takes a transaction for its resolution. [`PreparedList::put`] or [`PreparedList::remove`]
    /// follows.
    ///
    /// # Errors
    /// `NotFound`; `Busy` while another call prepares or resolves it.
    pub fn take(&self, name: &str) -> Result<LockOwner> {
        let mut list = self.0.lock();
        let Some(state) = list.get_mut(name) else {
            let message = format!("there is no prepared transaction \"{name}\"");
            return Err(Error::not_found(message));
        };
        match std::mem::replace(state, State::Changing) {
            State::Ready(owner) => Ok(owner),
            State::Changing => Err(Error::new(
                ErrorKind::Busy,
                format!("another call prepares or resolves the transaction \"{name}\""),
            )),
        }
    }

    /// Returns the names of the transactions that wait for their resolution, in alphabetical order.
    pub fn names(&self) -> Vec<String> {
        let list = self.0.lock();
        let ready = list.iter().filter(|(_, state)| matches!(state, State::Ready(_)));
        ready.map(|(name, _)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ops;

    fn record() -> Vec<u8> {
        let mut reads = Reads::default();
        reads.add_key(0, b"key");
        reads.add_key(300, b"");
        let hi = Bound::Excluded(b"z".to_vec());
        reads.add_range(KeyRange { tree: 2, lo: Bound::Included(b"a".to_vec()), hi });
        let (lo, hi) = (Bound::Unbounded, Bound::Unbounded);
        reads.add_range(KeyRange { tree: 0, lo, hi });
        let mut operations = Vec::new();
        ops::encode_put(&mut operations, b"k", b"v");
        ops::encode_range_delete(&mut operations, b"a", b"b");
        encode(&reads, &operations)
    }

    #[test]
    fn a_record_comes_back_and_damaged_ones_are_refused() {
        let bytes = record();
        let back = PreparedRecord::decode(&bytes).unwrap();
        assert_eq!((back.count, back.reads.keys().len()), (2, 2));
        assert_eq!(encode(&back.reads, back.operations).len(), bytes.len());
        assert!(back.reads.keys().any(|read| read == (300, &b""[..])));
        assert_eq!(back.reads.ranges()[0].hi, Bound::Excluded(b"z".to_vec()));
        assert_eq!(back.reads.ranges()[1].lo, Bound::Unbounded);
        let operations_at = bytes.len() - back.operations.len();
        for len in 0..operations_at {
            let error = PreparedRecord::decode(&bytes[..len]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{len}");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            // Any answer is right, but no panic.
            let _ = PreparedRecord::decode(&damaged);
        }
        let mut newer = bytes.clone();
        newer[0] = VERSION + 1;
        let error = PreparedRecord::decode(&newer).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Incompatible);
        let huge = [&[VERSION][..], &[0xff; 9], &[1]].concat();
        assert!(PreparedRecord::decode(&huge).is_err());
    }

    #[test]
    fn a_transaction_is_resolved_by_one_call() {
        let list = PreparedList::default();
        list.reserve("b").unwrap();
        assert_eq!(list.reserve("b").unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(list.take("b").unwrap_err().kind(), ErrorKind::Busy);
        assert!(list.names().is_empty());
        list.put("b", LockOwner::new(7));
        list.put("a", LockOwner::new(8));
        assert_eq!(list.names(), ["a", "b"]);
        assert_eq!(list.take("b").unwrap().id(), 7);
        assert_eq!(list.take("b").unwrap_err().kind(), ErrorKind::Busy);
        list.put("b", LockOwner::new(7));
        assert_eq!(list.take("b").unwrap().id(), 7);
        list.remove("b");
        assert_eq!(list.take("b").unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(list.names(), ["a"]);
    }
}
