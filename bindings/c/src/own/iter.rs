//! `esker_iter_*`: iterators over keys in order.

use std::ffi::c_char;
use std::ops::Bound;
use std::sync::Arc;

use esker::{KeyBounds, KeyspaceOptions, TransactionIterator, internals};
use esker_bindings::cursor::Cursor;
use esker_bindings::handle::Handle;

use super::merge_and_ttl::ESKER_NEVER_MS;
use super::read::{esker_snapshot_t, read_options};
use super::store::{esker_db_t, optional};
use crate::failure::{Failure, Outcome, attempt, there};
use crate::ffi;

/// An iterator over the keys of a keyspace. It reads the state at its creation, or the given
/// snapshot, or a transaction. It may be used by one thread at a time, and freed before or after
/// the store and the transaction.
pub struct esker_iter_t {
    walk: Walk,
    /// The store of a transaction. A move of such an iterator uses the state of the transaction,
    /// which a call of the transaction may have locked when it calls a comparator.
    store: Option<Arc<Handle>>,
}

impl esker_iter_t {
    /// Returns the handle of a new iterator.
    pub(super) fn give(iter: impl Into<Cursor>) -> *mut esker_iter_t {
        Box::into_raw(Box::new(esker_iter_t { walk: Walk::new(iter), store: None }))
    }

    /// Returns the handle of a new iterator of a transaction.
    pub(super) fn give_of_transaction(
        iter: TransactionIterator,
        store: Arc<Handle>,
    ) -> *mut esker_iter_t {
        Box::into_raw(Box::new(esker_iter_t { walk: Walk::new(iter), store: Some(store) }))
    }

    /// Fails within a comparator or filter of the transaction's store.
    #[inline]
    fn check(&self) -> Outcome<()> {
        Ok(self.store.as_ref().map_or(Ok(()), |store| store.check_reentry())?)
    }

    /// Returns the iterator and its failure. Fails within a comparator or filter of the
    /// transaction's store.
    pub(super) fn checked_walk(&mut self) -> Outcome<&mut Walk> {
        self.check()?;
        Ok(&mut self.walk)
    }

    /// Moves to an absolute position.
    fn seek(&mut self, seek: impl FnOnce(&mut Cursor) -> Outcome<()>) {
        let checked = self.check();
        self.walk.seek(|cursor| checked.and_then(|()| seek(cursor)));
    }

    /// Moves by one key.
    #[inline]
    fn run(&mut self, advance: impl FnOnce(&mut Cursor) -> Outcome<()>) {
        let checked = self.check();
        self.walk.run(|cursor| checked.and_then(|()| advance(cursor)));
    }
}

/// An iterator and its first failure since the last seek.
pub struct Walk {
    cursor: Cursor,
    failed: Option<Failure>,
}

impl Walk {
    /// Wraps `iter` at its current position.
    pub fn new(iter: impl Into<Cursor>) -> Walk {
        Walk { cursor: iter.into(), failed: None }
    }

    /// Moves to an absolute position, and clears an earlier failure.
    pub fn seek(&mut self, seek: impl FnOnce(&mut Cursor) -> Outcome<()>) {
        self.failed = None;
        self.run(seek);
    }

    /// Runs a move and keeps its first failure.
    #[inline]
    pub fn run(&mut self, advance: impl FnOnce(&mut Cursor) -> Outcome<()>) {
        let cursor = &mut self.cursor;
        if let Err(failure) = attempt(|| advance(cursor)) {
            self.failed.get_or_insert(failure);
        }
    }

    /// Returns whether the iterator is at a key and no move has failed.
    #[inline]
    pub fn valid(&self) -> bool {
        self.failed.is_none() && self.cursor.valid()
    }

    /// Returns the current key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.cursor.key()
    }

    /// Returns the current value.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.cursor.value()
    }

    /// Returns the first failure since the last seek.
    pub fn failure(&self) -> Option<&Failure> {
        self.failed.as_ref()
    }
}

/// Returns the bounds from `start` (inclusive) to `end` (exclusive); null means no bound.
///
/// # Safety
/// As for [`ffi::bytes`].
pub(super) unsafe fn bounds(
    start: *const u8,
    start_len: usize,
    end: *const u8,
    end_len: usize,
) -> Outcome<KeyBounds> {
    // SAFETY: guaranteed by the caller.
    let (start, end) = unsafe { (optional(start, start_len)?, optional(end, end_len)?) };
    let owned = |key: Option<&[u8]>| key.map(<[u8]>::to_vec);
    let from = owned(start).map_or(Bound::Unbounded, Bound::Included);
    Ok((from, owned(end).map_or(Bound::Unbounded, Bound::Excluded)))
}

/// Creates an iterator over the keys from `start` (inclusive) to `end` (exclusive); NULL means no
/// bound. It reads the store's state at its creation, or the given snapshot if that is not NULL. It
/// has no position until the first seek. With `fill_cache` 0, its reads insert no blocks into the
/// cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_iter_create(
    db: Option<&esker_db_t>,
    snapshot: Option<&esker_snapshot_t>,
    start: *const u8,
    start_len: usize,
    end: *const u8,
    end_len: usize,
    fill_cache: u8,
    iter: Option<&mut *mut esker_iter_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        let outcome = attempt(|| {
            let place = there(iter, "place for the iterator")?;
            *place = std::ptr::null_mut();
            let bounds = bounds(start, start_len, end, end_len)?;
            let options = read_options(snapshot, fill_cache != 0);
            *place = esker_iter_t::give(esker_db_t::open(db)?.iter_with(&options, bounds)?);
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// Does the same as `esker_iter_create`, over the keys that start with `prefix`; all keys if it is
/// empty. Fails with `ESKER_INVALID_ARGUMENT` under a key order of the program, which need not keep such
/// keys together.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_iter_create_prefix(
    db: Option<&esker_db_t>,
    snapshot: Option<&esker_snapshot_t>,
    prefix: *const u8,
    prefix_len: usize,
    fill_cache: u8,
    iter: Option<&mut *mut esker_iter_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        let outcome = attempt(|| {
            let place = there(iter, "place for the iterator")?;
            *place = std::ptr::null_mut();
            let prefix = ffi::bytes(prefix, prefix_len, "prefix")?;
            let db = esker_db_t::open(db)?;
            let default = db.keyspace("default", &KeyspaceOptions::default())?;
            let bounds = internals::bounds_of_prefix(default.key_order(), prefix)?;
            *place =
                esker_iter_t::give(db.iter_with(&read_options(snapshot, fill_cache != 0), bounds)?);
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// Frees an iterator. An iterator of a transaction is not freed within a comparator or filter of
/// its store.
#[unsafe(no_mangle)]
pub extern "C" fn esker_iter_destroy(iter: Option<Box<esker_iter_t>>) {
    let _ = attempt(|| {
        if let Some(iter) = iter {
            match iter.check() {
                Ok(()) => drop(iter),
                Err(_) => std::mem::forget(iter),
            }
        }
        Ok(())
    });
}

/// Returns 1 if the iterator is at a key; 0 past either end, after a failure, and for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn esker_iter_valid(iter: Option<&esker_iter_t>) -> u8 {
    u8::from(iter.is_some_and(|iter| iter.walk.valid()))
}

/// Moves to the first key.
#[unsafe(no_mangle)]
pub extern "C" fn esker_iter_seek_to_first(iter: Option<&mut esker_iter_t>) {
    if let Some(iter) = iter {
        iter.seek(|cursor| Ok(cursor.seek_to_first()?));
    }
}

/// Moves to the last key.
#[unsafe(no_mangle)]
pub extern "C" fn esker_iter_seek_to_last(iter: Option<&mut esker_iter_t>) {
    if let Some(iter) = iter {
        iter.seek(|cursor| Ok(cursor.seek_to_last()?));
    }
}

/// Moves to the first key at or after `key`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_iter_seek(
    iter: Option<&mut esker_iter_t>,
    key: *const u8,
    key_len: usize,
) {
    if let Some(iter) = iter {
        // SAFETY: the caller meets the header's contract for buffers.
        let key = unsafe { ffi::bytes(key, key_len, "key") };
        iter.seek(|cursor| Ok(cursor.seek(key?)?));
    }
}

/// Moves to the last key at or before `key`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_iter_seek_for_prev(
    iter: Option<&mut esker_iter_t>,
    key: *const u8,
    key_len: usize,
) {
    if let Some(iter) = iter {
        // SAFETY: the caller meets the header's contract for buffers.
        let key = unsafe { ffi::bytes(key, key_len, "key") };
        iter.seek(|cursor| Ok(cursor.seek_for_prev(key?)?));
    }
}

/// Moves to the next key. Does nothing if the iterator is not at a key.
#[unsafe(no_mangle)]
pub extern "C" fn esker_iter_next(iter: Option<&mut esker_iter_t>) {
    if let Some(iter) = iter {
        iter.run(|cursor| Ok(cursor.move_next()?));
    }
}

/// Moves to the previous key. Does nothing if the iterator is not at a key.
#[unsafe(no_mangle)]
pub extern "C" fn esker_iter_prev(iter: Option<&mut esker_iter_t>) {
    if let Some(iter) = iter {
        iter.run(|cursor| Ok(cursor.move_prev()?));
    }
}

/// Returns the current key, valid until the iterator is moved or destroyed; empty if it is not at a
/// key.
#[unsafe(no_mangle)]
pub extern "C" fn esker_iter_key(
    iter: Option<&esker_iter_t>,
    key_len: Option<&mut usize>,
) -> *const u8 {
    borrowed_ptr(iter.map_or(&[], |iter| iter.walk.key()), key_len).cast()
}

/// Returns the current value, valid until the iterator is moved or destroyed; empty if it is not at
/// a key.
#[unsafe(no_mangle)]
pub extern "C" fn esker_iter_value(
    iter: Option<&esker_iter_t>,
    value_len: Option<&mut usize>,
) -> *const u8 {
    borrowed_ptr(iter.map_or(&[], |iter| iter.walk.value()), value_len).cast()
}

/// Returns the time at which the current pair expires, in milliseconds since 1970; `ESKER_NEVER_MS` if
/// it does not expire, if the iterator is not at a key, for NULL, and always for an iterator of a
/// transaction.
#[unsafe(no_mangle)]
pub extern "C" fn esker_iter_expires_ms(iter: Option<&esker_iter_t>) -> u64 {
    let time = iter.filter(|iter| iter.walk.valid()).and_then(|iter| iter.walk.cursor.expires_ms());
    time.unwrap_or(ESKER_NEVER_MS)
}

/// Returns the iterator's failure, which stays until the next seek; `ESKER_OK` if there is none,
/// also past either end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_iter_failure(
    iter: Option<&esker_iter_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| match there(iter, "iterator")?.walk.failure() {
        Some(failure) => Err(failure.clone()),
        None => Ok(()),
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Returns a pointer to `bytes`, and stores their length in `len`.
#[inline]
pub fn borrowed_ptr(bytes: &[u8], len: Option<&mut usize>) -> *const c_char {
    if let Some(len) = len {
        *len = bytes.len();
    }
    bytes.as_ptr().cast()
}
