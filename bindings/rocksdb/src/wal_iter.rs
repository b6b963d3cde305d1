//! `rocksdb_get_updates_since` and `rocksdb_wal_iter_*`: the batches of the log, from a sequence
//! number on, over Esker's change feed.
//!
//! Invariants:
//! 1. A batch is whole, has its sequence number in its first bytes, and comes in the order of the
//!    commits.
//! 2. The iterator ends at the present. A call of `next` after that goes on with newer batches.
//! 3. Operations of column families that were dropped since are left out.

use std::ffi::c_char;
use std::sync::Arc;

use esker::feed::{Change, ChangeBatch, Changes};
use esker::internals;
use esker_c::failure::{ESKER_NOT_FOUND, Failure, Outcome, attempt, there};

use crate::batch::rocksdb_writebatch_t;
use crate::failure::{NOT_IMPLEMENTED, kept};
use crate::rep::{Record, Rep};
use crate::settings::Settings;
use crate::store::{Store, rocksdb_t};

/// An iterator over the batches of the log.
pub struct rocksdb_wal_iterator_t {
    store: Arc<Store>,
    changes: Changes,
    /// The present batch: its sequence number and its operations.
    current: Option<(u64, Rep)>,
    failure: Option<Failure>,
}

impl rocksdb_wal_iterator_t {
    /// Moves to the next batch with an operation of a column family that exists.
    fn advance(&mut self) {
        self.current = None;
        let next = attempt(|| {
            loop {
                let Some(batch) = self.changes.next().transpose()? else { return Ok(None) };
                let rep = rep_of(&self.store, &batch)?;
                if rep.count() > 0 {
                    return Ok(Some((batch.first_sequence, rep)));
                }
            }
        });
        match next {
            Ok(next) => self.current = next,
            Err(failure) => self.failure = Some(failure),
        }
    }
}

/// Returns a batch in RocksDB's format.
fn rep_of(store: &Store, batch: &ChangeBatch) -> Outcome<Rep> {
    let mut rep = Rep::default();
    rep.set_sequence(batch.first_sequence);
    for change in &batch.changes {
        let (Change::Put { keyspace, .. }
        | Change::Merge { keyspace, .. }
        | Change::Delete { keyspace, .. }
        | Change::DeleteRange { keyspace, .. }) = change
        else {
            return Err(Failure {
                code: NOT_IMPLEMENTED,
                message: format!(
                    "the batch at sequence number {} has a change that another interface made and \
                     that RocksDB's batches do not have",
                    batch.first_sequence
                ),
            });
        };
        let Some(family) = store.id_of(keyspace) else { continue };
        rep.push(match change {
            Change::Put { key, value, .. } => Record::Put { family, key, value },
            Change::Merge { key, operand, .. } => Record::Merge { family, key, operand },
            Change::DeleteRange { start, end, .. } => Record::DeleteRange { family, start, end },
            Change::Delete { key, .. } => Record::Delete { family, key },
            _ => continue,
        });
    }
    Ok(rep)
}

/// Returns an iterator at the batch that contains `seq_number`, or at the first batch if that is 0.
/// Checksums are always verified.
///
/// It is an error of the kind `NotFound` if `seq_number` was not written yet, and if its batch is in
/// no log any more. A log is removed after its memtable was flushed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_updates_since(
    db: Option<&rocksdb_t>,
    seq_number: u64,
    _options: Option<&Settings>,
    errptr: Option<&mut *mut c_char>,
) -> Option<Box<rocksdb_wal_iterator_t>> {
    // SAFETY: the caller meets RocksDB's contract for error texts.
    unsafe {
        kept(errptr, || {
            let store = rocksdb_t::open(db)?.clone();
            if seq_number > store.db().metrics().last_seqno {
                let message = "Requested sequence not yet written in the db".to_string();
                return Err(Failure { code: ESKER_NOT_FOUND, message });
            }
            let changes = internals::changes_with(&store.db(), seq_number)?;
            let mut iter =
                Box::new(rocksdb_wal_iterator_t { store, changes, current: None, failure: None });
            iter.advance();
            match iter.failure.take() {
                Some(failure) => Err(failure),
                None => Ok(iter),
            }
        })
    }
}

/// Frees an iterator.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_wal_iter_destroy(iter: Option<Box<rocksdb_wal_iterator_t>>) {
    let _ = attempt(|| {
        drop(iter);
        Ok(())
    });
}

/// Returns whether the iterator is at a batch.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_wal_iter_valid(iter: Option<&rocksdb_wal_iterator_t>) -> u8 {
    u8::from(iter.is_some_and(|iter| iter.current.is_some()))
}

/// Moves to the next batch. After an error the iterator stays where it is, at no batch.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_wal_iter_next(iter: Option<&mut rocksdb_wal_iterator_t>) {
    if let Some(iter) = iter.filter(|iter| iter.failure.is_none()) {
        iter.advance();
    }
}

/// Reports the error that ended the iteration, if there is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_wal_iter_status(
    iter: Option<&rocksdb_wal_iterator_t>,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for error texts.
    unsafe {
        kept(errptr, || match &there(iter, "iterator over the log")?.failure {
            Some(failure) => Err(failure.clone()),
            None => Ok(()),
        });
    }
}

/// Returns a copy of the present batch, to be freed, and stores its sequence number. It is empty if
/// the iterator is at no batch.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_wal_iter_get_batch(
    iter: Option<&rocksdb_wal_iterator_t>,
    seq: Option<&mut u64>,
) -> Box<rocksdb_writebatch_t> {
    let (number, rep) = iter.and_then(|iter| iter.current.clone()).unwrap_or_default();
    if let Some(seq) = seq {
        *seq = number;
    }
    Box::new(rocksdb_writebatch_t::of(rep))
}
