//! `leveldb_iter_*`: iterators.

use std::ffi::c_char;

use crate::text_of;
use crate::trace::Scan;
use esker_c::failure::{Failure, Outcome};
use esker_c::ffi;
use esker_c::own::iter::{Walk, borrowed_ptr};

/// An iterator, or the failure of its creation.
pub struct leveldb_iterator_t {
    pub(crate) walk: Outcome<Walk>,
    /// What is recorded of it, if the calls of its store are recorded.
    pub(crate) scan: Option<Scan>,
}

impl leveldb_iterator_t {
    /// Moves to an absolute position, which begins the record of a scan from `key`. An iterator
    /// whose creation failed reads nothing, and nothing of it is recorded.
    fn seek(&mut self, key: &[u8], seek: impl FnOnce(&mut Walk)) {
        if self.walk.is_err() {
            return;
        }
        // The key may point into the iterator's own key, so it is copied before the move.
        if let Some(scan) = &mut self.scan {
            scan.begin(key);
        }
        self.step(seek);
    }

    /// Moves, and counts the pair that it found.
    fn step(&mut self, step: impl FnOnce(&mut Walk)) {
        let Ok(walk) = &mut self.walk else { return };
        step(walk);
        if let Some(scan) = &mut self.scan {
            scan.step(walk.valid());
        }
    }
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
    if let Some(iter) = iter {
        iter.seek(b"", |walk| walk.seek(|cursor| Ok(cursor.seek_to_first()?)));
    }
}

/// Moves to the last key.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_seek_to_last(iter: Option<&mut leveldb_iterator_t>) {
    if let Some(iter) = iter {
        iter.seek(b"", |walk| walk.seek(|cursor| Ok(cursor.seek_to_last()?)));
    }
}

/// Moves to the first key at or after `key`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_seek(
    iter: Option<&mut leveldb_iterator_t>,
    key: *const c_char,
    keylen: usize,
) {
    if let Some(iter) = iter {
        // SAFETY: the caller meets LevelDB's contract for buffers.
        match unsafe { ffi::bytes(key, keylen, "key") } {
            Ok(key) => iter.seek(key, |walk| walk.seek(|cursor| Ok(cursor.seek(key)?))),
            Err(failure) => iter.step(|walk| walk.seek(|_| Err(failure))),
        }
    }
}

/// Moves to the next key.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_next(iter: Option<&mut leveldb_iterator_t>) {
    if let Some(iter) = iter {
        iter.step(|walk| walk.run(|cursor| Ok(cursor.move_next()?)));
    }
}

/// Moves to the previous key.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_prev(iter: Option<&mut leveldb_iterator_t>) {
    if let Some(iter) = iter {
        iter.step(|walk| walk.run(|cursor| Ok(cursor.move_prev()?)));
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
