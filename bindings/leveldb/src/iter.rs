//! `leveldb_iter_*`: iterators.

use std::ffi::c_char;

use crate::text_of;
use esker_c::failure::{Failure, Outcome};
use esker_c::ffi;
use esker_c::own::iter::{Walk, borrowed_ptr};

/// An iterator, or the failure of its creation.
pub struct leveldb_iterator_t {
    pub(crate) walk: Outcome<Walk>,
}

fn walk(iter: Option<&mut leveldb_iterator_t>) -> Option<&mut Walk> {
    iter?.walk.as_mut().ok()
}

fn positioned(iter: Option<&leveldb_iterator_t>) -> Option<&Walk> {
    iter?.walk.as_ref().ok()
}

/// Frees an iterator.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_destroy(iter: Option<Box<leveldb_iterator_t>>) {
    drop(iter);
}

/// Returns whether the iterator is positioned at a key.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_valid(iter: Option<&leveldb_iterator_t>) -> u8 {
    u8::from(positioned(iter).is_some_and(Walk::valid))
}

/// Moves to the first key.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_seek_to_first(iter: Option<&mut leveldb_iterator_t>) {
    if let Some(walk) = walk(iter) {
        walk.seek(|iter| Ok(iter.seek_to_first()?));
    }
}

/// Moves to the last key.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_seek_to_last(iter: Option<&mut leveldb_iterator_t>) {
    if let Some(walk) = walk(iter) {
        walk.seek(|iter| Ok(iter.seek_to_last()?));
    }
}

/// Moves to the first key at or after `key`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_seek(
    iter: Option<&mut leveldb_iterator_t>,
    key: *const c_char,
    keylen: usize,
) {
    if let Some(walk) = walk(iter) {
        // SAFETY: the caller meets LevelDB's contract for buffers.
        let key = unsafe { ffi::bytes(key, keylen, "key") };
        walk.seek(|iter| Ok(iter.seek(key?)?));
    }
}

/// Moves to the next key.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_next(iter: Option<&mut leveldb_iterator_t>) {
    if let Some(walk) = walk(iter) {
        walk.run(|iter| Ok(iter.move_next()?));
    }
}

/// Moves to the previous key.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_prev(iter: Option<&mut leveldb_iterator_t>) {
    if let Some(walk) = walk(iter) {
        walk.run(|iter| Ok(iter.move_prev()?));
    }
}

/// Returns the current key, which is valid until the iterator moves.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_key(
    iter: Option<&leveldb_iterator_t>,
    keylen: Option<&mut usize>,
) -> *const c_char {
    borrowed_ptr(positioned(iter).map_or(&[], Walk::key), keylen)
}

/// Returns the current value, which is valid until the iterator moves.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_value(
    iter: Option<&leveldb_iterator_t>,
    vallen: Option<&mut usize>,
) -> *const c_char {
    borrowed_ptr(positioned(iter).map_or(&[], Walk::value), vallen)
}

/// Reports the iterator's failure in `errptr`; leaves `errptr` unchanged if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_get_error(
    iter: Option<&leveldb_iterator_t>,
    errptr: Option<&mut *mut c_char>,
) {
    let missing = Failure::invalid("the iterator is NULL");
    let failure = match iter.map(|iter| &iter.walk) {
        Some(Ok(walk)) => walk.failure(),
        Some(Err(failure)) => Some(failure),
        None => Some(&missing),
    };
    if let Some(failure) = failure {
        // SAFETY: the caller meets LevelDB's contract for error texts.
        unsafe { ffi::report(errptr, &text_of(failure)) };
    }
}
