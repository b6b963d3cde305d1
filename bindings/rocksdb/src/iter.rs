//! `rocksdb_iter_*` and `rocksdb_create_iterator`.

use std::ffi::c_char;
use std::sync::{Arc, Mutex};

use esker::{DbIterator, KeyBounds, ReadOptions};
use esker_c::failure::{Failure, Outcome, attempt, there};
use esker_c::ffi;
use esker_c::own::iter::borrowed_ptr;

use crate::access::rocksdb_readoptions_t;
use crate::db::rocksdb_column_family_handle_t;
use crate::failure::{kept, text_of, unless_refused};
use crate::merged::Merged;
use crate::objects::Transform;
use crate::overlay::Overlay;
use crate::store::{Family, rocksdb_t};

/// An iterator, or the failure of its creation.
pub struct rocksdb_iterator_t {
    pub(crate) walk: Outcome<Walk>,
}

enum Cursor {
    Plain(DbIterator),
    Merged(Box<Merged>),
}

/// An iterator with its first failure since the last seek.
pub(crate) struct Walk {
    cursor: Cursor,
    failed: Option<Failure>,
    family: Arc<Family>,
    bounds: KeyBounds,
    fill_cache: bool,
    /// Whether each seek reads the newest state.
    is_tailing: bool,
    /// Extractor of the prefix to which the iterator is limited.
    limit: Option<Arc<Transform>>,
    /// The prefix of the last seek.
    prefix: Option<Vec<u8>>,
    is_inside: bool,
}

impl Cursor {
    fn seek(&mut self, key: Option<&[u8]>, forward: bool) -> Outcome<()> {
        match (self, key, forward) {
            (Cursor::Merged(merged), key, forward) => merged.seek(key, forward)?,
            (Cursor::Plain(iter), None, true) => iter.seek_to_first()?,
            (Cursor::Plain(iter), None, false) => iter.seek_to_last()?,
            (Cursor::Plain(iter), Some(key), true) => iter.seek(key)?,
            (Cursor::Plain(iter), Some(key), false) => iter.seek_for_prev(key)?,
        }
        Ok(())
    }

    #[inline]
    fn step(&mut self, forward: bool) -> Outcome<()> {
        match self {
            Cursor::Plain(iter) if forward => iter.move_next()?,
            Cursor::Plain(iter) => iter.move_prev()?,
            Cursor::Merged(merged) => merged.step(forward)?,
        }
        Ok(())
    }

    #[inline]
    fn valid(&self) -> bool {
        match self {
            Cursor::Plain(iter) => iter.valid(),
            Cursor::Merged(merged) => merged.valid(),
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        match self {
            Cursor::Plain(iter) => iter.key(),
            Cursor::Merged(merged) => merged.key(),
        }
    }

    #[inline]
    fn value(&self) -> &[u8] {
        match self {
            Cursor::Plain(iter) => iter.value(),
            Cursor::Merged(merged) => merged.value(),
        }
    }
}

impl Walk {
    /// Creates an iterator over a column family.
    ///
    /// # Safety
    /// The snapshot of the options was not released.
    pub(crate) unsafe fn new(
        family: &Arc<Family>,
        options: Option<&rocksdb_readoptions_t>,
    ) -> Outcome<Walk> {
        // SAFETY: guaranteed by the caller.
        let read = unsafe { rocksdb_readoptions_t::of(options) }?;
        let bounds = rocksdb_readoptions_t::bounds(options);
        let iter = family.keyspace().iter_with(&read, bounds.clone())?;
        let is_limited = rocksdb_readoptions_t::flag(options, "prefix_same_as_start");
        Ok(Walk {
            cursor: Cursor::Plain(iter),
            failed: None,
            family: family.clone(),
            bounds,
            fill_cache: read.fill_cache,
            is_tailing: rocksdb_readoptions_t::flag(options, "tailing"),
            limit: family.prefix.clone().filter(|_| is_limited),
            prefix: None,
            is_inside: true,
        })
    }

    /// Puts the writes of `overlay` in a column family over an iterator of the store.
    pub(crate) fn over(self, overlay: Arc<Mutex<Overlay>>, family: u32) -> Outcome<Walk> {
        let Cursor::Plain(base) = self.cursor else {
            return Err(Failure::invalid("the base iterator has the writes of a batch over it"));
        };
        let order = self.family.keyspace().key_order().clone();
        let merged = Merged::new(base, overlay, (family, order), self.bounds.clone())
            .with_operator(self.family.share_operator());
        Ok(Walk { cursor: Cursor::Merged(Box::new(merged)), is_tailing: false, ..self })
    }

    fn run(&mut self, advance: impl FnOnce(&mut Cursor) -> Outcome<()>) {
        let cursor = &mut self.cursor;
        if let Err(failure) = attempt(|| advance(cursor)) {
            self.failed.get_or_insert(failure);
        }
    }

    fn seek(&mut self, key: Outcome<Option<&[u8]>>, forward: bool) {
        self.failed = None;
        if self.is_tailing
            && let Err(failure) = attempt(|| self.renew())
        {
            self.failed = Some(failure);
            return;
        }
        let key = match key {
            Ok(key) => key,
            Err(failure) => {
                self.failed = Some(failure);
                return;
            }
        };
        self.run(|cursor| cursor.seek(key, forward));
        if let Some(limit) = &self.limit {
            let found = self.cursor.valid().then(|| self.cursor.key());
            self.prefix = key.or(found).and_then(|key| limit.prefix(key));
            self.check_prefix();
        }
    }

    #[inline]
    fn step(&mut self, forward: bool) {
        if self.is_tailing && forward {
            return self.step_to_newest();
        }
        self.run(|cursor| cursor.step(forward));
        if self.limit.is_some() {
            self.check_prefix();
        }
    }

    /// Moves to the next key of the newest state.
    #[cold]
    fn step_to_newest(&mut self) {
        if !self.cursor.valid() {
            return;
        }
        let current = self.cursor.key().to_vec();
        self.seek(Ok(Some(&current)), true);
        if self.valid() && self.cursor.key() == current {
            self.run(|cursor| cursor.step(true));
        }
    }

    fn check_prefix(&mut self) {
        let own = || self.limit.as_ref().and_then(|limit| limit.prefix(self.cursor.key()));
        self.is_inside = self.prefix.is_none() || !self.cursor.valid() || self.prefix == own();
    }

    /// Makes the iterator read the newest state, without a position.
    fn renew(&mut self) -> Outcome<()> {
        let options = ReadOptions::default().fill_cache(self.fill_cache);
        if matches!(self.cursor, Cursor::Merged(_)) {
            return Err(Failure::invalid("Refresh is not supported with a write batch over it"));
        }
        let iter = self.family.keyspace().iter_with(&options, self.bounds.clone())?;
        self.cursor = Cursor::Plain(iter);
        Ok(())
    }

    #[inline]
    fn valid(&self) -> bool {
        self.failed.is_none() && self.is_inside && self.cursor.valid()
    }
}

impl rocksdb_iterator_t {
    /// Returns the object of an iterator.
    pub(crate) fn give(walk: Outcome<Walk>) -> *mut rocksdb_iterator_t {
        Box::into_raw(Box::new(rocksdb_iterator_t { walk }))
    }
}

fn walk(iter: Option<&mut rocksdb_iterator_t>) -> Option<&mut Walk> {
    iter?.walk.as_mut().ok()
}

#[inline]
fn positioned(iter: Option<&rocksdb_iterator_t>) -> Option<&Walk> {
    iter?.walk.as_ref().ok()
}

/// Creates an iterator without a position.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_create_iterator(
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_readoptions_t>,
) -> *mut rocksdb_iterator_t {
    let made = unless_refused(|| {
        // SAFETY: the caller meets RocksDB's contract for snapshots.
        unsafe { Walk::new(&rocksdb_t::open(db)?.default, options) }
    });
    rocksdb_iterator_t::give(made)
}

/// Creates an iterator over a column family, without a position.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_create_iterator_cf(
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_readoptions_t>,
    family: Option<&rocksdb_column_family_handle_t>,
) -> *mut rocksdb_iterator_t {
    let made = unless_refused(|| {
        rocksdb_t::open(db)?;
        // SAFETY: the caller meets RocksDB's contract for snapshots.
        unsafe { Walk::new(rocksdb_column_family_handle_t::of(family)?, options) }
    });
    rocksdb_iterator_t::give(made)
}

/// Creates an iterator for each column family, all of them over one moment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_create_iterators(
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_readoptions_t>,
    families: *const *const rocksdb_column_family_handle_t,
    iterators: *mut *mut rocksdb_iterator_t,
    size: usize,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: by RocksDB's contract, both arrays have `size` items.
    unsafe {
        kept(errptr, || {
            let store = rocksdb_t::open(db)?;
            let families = ffi::array(families, size, "column families")?;
            let places = ffi::array_mut(iterators, size, "places for the iterators")?;
            let (snapshot, _steady) = (store.moment(), store.steady());
            for (family, place) in families.iter().zip(places) {
                let family = rocksdb_column_family_handle_t::of(family.as_ref())?;
                let mut made = Walk::new(family, options)?;
                let read = rocksdb_readoptions_t::of(options)?;
                if read.snapshot.is_none() {
                    let read = read.snapshot(snapshot.as_ref());
                    let iter = family.keyspace().iter_with(&read, made.bounds.clone())?;
                    made.cursor = Cursor::Plain(iter);
                }
                *place = rocksdb_iterator_t::give(Ok(made));
            }
            Ok(())
        });
    }
}

/// Frees an iterator.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_iter_destroy(iter: Option<Box<rocksdb_iterator_t>>) {
    let _ = attempt(|| {
        drop(iter);
        Ok(())
    });
}

/// Returns whether the iterator is positioned at a key.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_iter_valid(iter: Option<&rocksdb_iterator_t>) -> u8 {
    u8::from(positioned(iter).is_some_and(Walk::valid))
}

/// Moves to the first key.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_iter_seek_to_first(iter: Option<&mut rocksdb_iterator_t>) {
    if let Some(walk) = walk(iter) {
        walk.seek(Ok(None), true);
    }
}

/// Moves to the last key.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_iter_seek_to_last(iter: Option<&mut rocksdb_iterator_t>) {
    if let Some(walk) = walk(iter) {
        walk.seek(Ok(None), false);
    }
}

/// Moves to the first key at or after `key`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_iter_seek(
    iter: Option<&mut rocksdb_iterator_t>,
    key: *const c_char,
    klen: usize,
) {
    if let Some(walk) = walk(iter) {
        // SAFETY: the caller meets RocksDB's contract for buffers.
        walk.seek(unsafe { ffi::bytes(key, klen, "key") }.map(Some), true);
    }
}

/// Moves to the last key at or before `key`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_iter_seek_for_prev(
    iter: Option<&mut rocksdb_iterator_t>,
    key: *const c_char,
    klen: usize,
) {
    if let Some(walk) = walk(iter) {
        // SAFETY: the caller meets RocksDB's contract for buffers.
        walk.seek(unsafe { ffi::bytes(key, klen, "key") }.map(Some), false);
    }
}

/// Moves to the next key.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_iter_next(iter: Option<&mut rocksdb_iterator_t>) {
    if let Some(walk) = walk(iter) {
        walk.step(true);
    }
}

/// Moves to the previous key.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_iter_prev(iter: Option<&mut rocksdb_iterator_t>) {
    if let Some(walk) = walk(iter) {
        walk.step(false);
    }
}

/// Returns the current key, which is valid until the iterator moves.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_iter_key(
    iter: Option<&rocksdb_iterator_t>,
    klen: Option<&mut usize>,
) -> *const c_char {
    borrowed_ptr(positioned(iter).map_or(&[], |walk| walk.cursor.key()), klen)
}

/// Returns the current value, which is valid until the iterator moves.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_iter_value(
    iter: Option<&rocksdb_iterator_t>,
    vlen: Option<&mut usize>,
) -> *const c_char {
    borrowed_ptr(positioned(iter).map_or(&[], |walk| walk.cursor.value()), vlen)
}

/// Bytes, as C receives them by value.
#[repr(C)]
pub struct rocksdb_slice_t {
    data: *const c_char,
    size: usize,
}

impl rocksdb_slice_t {
    /// Returns the bytes.
    ///
    /// # Safety
    /// As for [`ffi::bytes`].
    pub(crate) unsafe fn bytes<'a>(&self) -> Outcome<&'a [u8]> {
        // SAFETY: guaranteed by the caller.
        unsafe { ffi::bytes(self.data, self.size, "key") }
    }
}

fn slice(bytes: &[u8]) -> rocksdb_slice_t {
    rocksdb_slice_t { data: bytes.as_ptr().cast(), size: bytes.len() }
}

/// Returns the current key, which is valid until the iterator moves.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_iter_key_slice(iter: Option<&rocksdb_iterator_t>) -> rocksdb_slice_t {
    slice(positioned(iter).map_or(&[], |walk| walk.cursor.key()))
}

/// Returns the current value, which is valid until the iterator moves.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_iter_value_slice(iter: Option<&rocksdb_iterator_t>) -> rocksdb_slice_t {
    slice(positioned(iter).map_or(&[], |walk| walk.cursor.value()))
}

/// Returns no bytes: no key has a timestamp.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_iter_timestamp_slice(
    _iter: Option<&rocksdb_iterator_t>,
) -> rocksdb_slice_t {
    slice(&[])
}

/// Returns no bytes: no key has a timestamp.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_iter_timestamp(
    _iter: Option<&rocksdb_iterator_t>,
    tslen: Option<&mut usize>,
) -> *const c_char {
    borrowed_ptr(&[], tslen)
}

/// Reports the iterator's failure in `errptr`; leaves `errptr` unchanged if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_iter_get_error(
    iter: Option<&rocksdb_iterator_t>,
    errptr: Option<&mut *mut c_char>,
) {
    let missing = Failure::invalid("the iterator is NULL");
    let failure = match iter.map(|iter| &iter.walk) {
        Some(Ok(walk)) => walk.failed.as_ref(),
        Some(Err(failure)) => Some(failure),
        None => Some(&missing),
    };
    if let Some(failure) = failure {
        // SAFETY: the caller meets RocksDB's contract for error texts.
        unsafe { ffi::report(errptr, &text_of(failure)) };
    }
}

/// Makes the iterator read the newest state. It has no position afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_iter_refresh(
    iter: Option<&mut rocksdb_iterator_t>,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for error texts.
    unsafe {
        kept(errptr, || {
            let walk = there(iter, "iterator")?.walk.as_mut().map_err(|failure| failure.clone())?;
            walk.failed = None;
            walk.renew()
        });
    }
}
