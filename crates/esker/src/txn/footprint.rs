//! What a commit of a transaction must check: the items that it wrote or read, and the sequence
//! number after which none of them may have been written.
//!
//! A leader of a write group checks the footprints of other threads' transactions, so a footprint
//! is shared. Where the oracle is not certain, the leader notes the number up to which the store
//! can answer, and the transaction's own thread asks the store ([`Footprint::take_asked`]).

use std::sync::Arc;

use super::item::{Item, Orders, Reads, TransactionId};
use super::locks::LockTable;
use crate::base::key::SeqNo;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::error::{Error, ErrorKind, Result};

/// Value of `asked` while there is no question.
const NOT_ASKED: u64 = u64::MAX;

/// What a commit must check.
pub struct Footprint {
    id: TransactionId,
    locks: Arc<LockTable>,
    since: AtomicU64,
    reads: Reads,
    /// The operations to check, if they are not those that are committed.
    operations: Option<Vec<u8>>,
    asked: AtomicU64,
}

impl Footprint {
    /// Creates the footprint of a transaction with the snapshot `since`. `operations` are the
    /// encoded operations to check, if they are not those that are committed.
    pub fn new(
        id: TransactionId,
        locks: Arc<LockTable>,
        since: SeqNo,
        reads: Reads,
        operations: Option<Vec<u8>>,
    ) -> Footprint {
        let (since, asked) = (AtomicU64::new(since), AtomicU64::new(NOT_ASKED));
        Footprint { id, locks, since, reads, operations, asked }
    }

    /// Returns the number after which no item may have been written.
    pub fn since(&self) -> SeqNo {
        self.since.load(Ordering::Acquire)
    }

    /// Notes that no item was written up to `seqno`.
    pub fn set_since(&self, seqno: SeqNo) {
        self.since.store(seqno, Ordering::Release);
    }

    /// Returns the items. `payload` are the encoded operations that are committed.
    pub fn items<'a>(&'a self, payload: &'a [u8]) -> impl Iterator<Item = Item<'a>> {
        self.reads.items(self.operations.as_deref().unwrap_or(payload))
    }

    /// Returns an error if a prepared transaction has locked one of the items.
    ///
    /// # Errors
    /// `Conflict`.
    pub fn refuse_prepared(&self, payload: &[u8], orders: &impl Orders) -> Result<()> {
        self.locks.refuse_prepared(self.id, self.items(payload), orders)
    }

    /// Notes that the oracle is not certain. All commits up to `seqno` are in the store.
    #[cold]
    pub fn ask(&self, seqno: SeqNo) -> Error {
        self.asked.store(seqno, Ordering::Release);
        Error::new(
            ErrorKind::Conflict,
            "the recent commits do not tell whether the transaction conflicts with one of them; \
             run the transaction again",
        )
    }

    /// Returns the number of the last call of [`Footprint::ask`], once.
    pub fn take_asked(&self) -> Option<SeqNo> {
        let asked = self.asked.swap(NOT_ASKED, Ordering::AcqRel);
        (asked != NOT_ASKED).then_some(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::super::item::written_items;
    use super::*;
    use crate::base::ops;

    fn names<'a>(items: impl Iterator<Item = Item<'a>>) -> Vec<String> {
        items.map(|item| item.to_string()).collect()
    }

    #[test]
    fn a_question_is_returned_once_and_other_operations_replace_the_committed_ones() {
        let (mut own, mut committed) = (Vec::new(), Vec::new());
        ops::encode_put(&mut own, b"own", b"");
        ops::encode_put(&mut committed, b"committed", b"");
        let new = |operations| Footprint::new(1, Arc::default(), 5, Reads::default(), operations);
        let plain = new(None);
        assert!(plain.take_asked().is_none());
        assert_eq!(plain.ask(7).kind(), ErrorKind::Conflict);
        assert_eq!((plain.take_asked(), plain.take_asked()), (Some(7), None));
        plain.set_since(7);
        assert_eq!(plain.since(), 7);
        assert_eq!(names(plain.items(&committed)), names(written_items(&committed)));
        let other = new(Some(own.clone()));
        assert_eq!(names(other.items(&committed)), names(written_items(&own)));
    }
}
