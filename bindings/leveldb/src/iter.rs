//! `leveldb_iter_*`.

use std::ffi::c_char;

use crate::text_of;
use esker_c::failure::{Failure, Outcome};
use esker_c::ffi;
use esker_c::own::iter::{Walk, lend};

/// An iterator, or what was met when it was made.
pub struct leveldb_iterator_t {
    pub(crate) walk: Outcome<Walk>,
}

fn walk(iter: Option<&mut leveldb_iterator_t>) -> Option<&mut Walk> {
    iter?.walk.as_mut().ok()
}

fn standing(iter: Option<&leveldb_iterator_t>) -> Option<&Walk> {
    iter?.walk.as_ref().ok()
}

/// Frees an iterator.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_destroy(iter: Option<Box<leveldb_iterator_t>>) {
    drop(iter);
}

/// Whether it stands on a key.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_valid(iter: Option<&leveldb_iterator_t>) -> u8 {
    u8::from(standing(iter).is_some_and(Walk::valid))
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

/// Moves to the first key at or behind this one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_seek(
    iter: Option<&mut leveldb_iterator_t>,
    key: *const c_char,
    keylen: usize,
) {
    if let Some(walk) = walk(iter) {
        // SAFETY: LevelDB's contract for buffers.
        let key = unsafe { ffi::bytes(key, keylen, "key") };
        walk.seek(|iter| Ok(iter.seek(key?)?));
    }
}

/// Moves to the next key.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_next(iter: Option<&mut leveldb_iterator_t>) {
    if let Some(walk) = walk(iter) {
        walk.step(|iter| Ok(iter.advance()?));
    }
}

/// Moves to the previous key.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_prev(iter: Option<&mut leveldb_iterator_t>) {
    if let Some(walk) = walk(iter) {
        walk.step(|iter| Ok(iter.retreat()?));
    }
}

/// The key it stands on, until it moves.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_key(
    iter: Option<&leveldb_iterator_t>,
    keylen: Option<&mut usize>,
) -> *const c_char {
    lend(standing(iter).map_or(&[], Walk::key), keylen)
}

/// The value of that key, until it moves.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_value(
    iter: Option<&leveldb_iterator_t>,
    vallen: Option<&mut usize>,
) -> *const c_char {
    lend(standing(iter).map_or(&[], Walk::value), vallen)
}

/// Puts what the iterator met into `errptr`; leaves it alone when that is nothing.
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
        // SAFETY: LevelDB's contract for error texts.
        unsafe { ffi::report(errptr, &text_of(failure)) };
    }
}
