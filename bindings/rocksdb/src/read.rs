//! Reads of single keys: copied, pinned, and into a caller's buffer.

use std::ffi::c_char;

use esker::Slice;
use esker_c::failure::Outcome;
use esker_c::ffi;
use esker_c::own::iter::borrowed_ptr;

use crate::access::rocksdb_readoptions_t;
use crate::db::rocksdb_column_family_handle_t;
use crate::failure::kept;
use crate::store::{Family, rocksdb_t};

/// A value that is read in place, or that a transaction has not committed yet.
pub enum Value {
    /// A value of the store.
    Pinned(Slice),
    /// A copy.
    Owned(Vec<u8>),
}

impl std::ops::Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Value::Pinned(slice) => slice,
            Value::Owned(bytes) => bytes,
        }
    }
}

/// A pinned value.
pub struct rocksdb_pinnableslice_t {
    value: Value,
}

impl rocksdb_pinnableslice_t {
    /// Returns the object of a value.
    pub(crate) fn give(value: Value) -> *mut rocksdb_pinnableslice_t {
        Box::into_raw(Box::new(rocksdb_pinnableslice_t { value }))
    }
}

/// A pinned value, as the second generation of these functions names it.
pub type rocksdb_pinnable_handle_t = rocksdb_pinnableslice_t;

/// Reads a key of a column family.
///
/// # Safety
/// The arguments meet RocksDB's contract for buffers and snapshots.
#[inline]
pub(crate) unsafe fn find(
    family: &Family,
    options: Option<&rocksdb_readoptions_t>,
    key: *const c_char,
    keylen: usize,
) -> Outcome<Option<Slice>> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let key = ffi::bytes(key, keylen, "key")?;
        Ok(family.keyspace().get_with(key, &rocksdb_readoptions_t::of(options)?)?)
    }
}

/// Returns the object of a value that was found; null for none.
#[inline]
fn pinned(found: Outcome<Option<Slice>>) -> Outcome<*mut rocksdb_pinnableslice_t> {
    let give = |value| rocksdb_pinnableslice_t::give(Value::Pinned(value));
    Ok(found?.map_or(std::ptr::null_mut(), give))
}

/// Returns a copy of a value, allocated with `malloc`, and stores its length; null for no value.
pub(crate) fn give(value: Option<&[u8]>, vallen: Option<&mut usize>) -> *mut c_char {
    if let Some(vallen) = vallen {
        *vallen = value.map_or(0, <[u8]>::len);
    }
    value.map_or(std::ptr::null_mut(), |value| ffi::give_bytes(value).cast())
}

/// Returns the value of a key, allocated with `malloc`, or null if the key is missing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get(
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_readoptions_t>,
    key: *const c_char,
    keylen: usize,
    vallen: Option<&mut usize>,
    errptr: Option<&mut *mut c_char>,
) -> *mut c_char {
    // SAFETY: the caller meets RocksDB's contract for buffers, snapshots and error texts.
    unsafe {
        let found =
            kept(errptr, || find(&rocksdb_t::open(db)?.default, options, key, keylen)).flatten();
        give(found.as_deref(), vallen)
    }
}

/// Returns the value of a key of a column family, allocated with `malloc`, or null if the key is
/// missing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_cf(
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_readoptions_t>,
    family: Option<&rocksdb_column_family_handle_t>,
    key: *const c_char,
    keylen: usize,
    vallen: Option<&mut usize>,
    errptr: Option<&mut *mut c_char>,
) -> *mut c_char {
    // SAFETY: the caller meets RocksDB's contract for buffers, snapshots and error texts.
    unsafe {
        let found = kept(errptr, || {
            rocksdb_t::open(db)?;
            find(rocksdb_column_family_handle_t::of(family)?, options, key, keylen)
        });
        give(found.flatten().as_deref(), vallen)
    }
}

/// Returns the pinned value of a key, or null if the key is missing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_pinned(
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_readoptions_t>,
    key: *const c_char,
    keylen: usize,
    errptr: Option<&mut *mut c_char>,
) -> *mut rocksdb_pinnableslice_t {
    // SAFETY: the caller meets RocksDB's contract for buffers, snapshots and error texts.
    unsafe {
        let found =
            kept(errptr, || pinned(find(&rocksdb_t::open(db)?.default, options, key, keylen)));
        found.unwrap_or(std::ptr::null_mut())
    }
}

/// Returns the pinned value of a key of a column family, or null if the key is missing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_pinned_cf(
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_readoptions_t>,
    family: Option<&rocksdb_column_family_handle_t>,
    key: *const c_char,
    keylen: usize,
    errptr: Option<&mut *mut c_char>,
) -> *mut rocksdb_pinnableslice_t {
    // SAFETY: the caller meets RocksDB's contract for buffers, snapshots and error texts.
    unsafe {
        let found = kept(errptr, || {
            rocksdb_t::open(db)?;
            pinned(find(rocksdb_column_family_handle_t::of(family)?, options, key, keylen))
        });
        found.unwrap_or(std::ptr::null_mut())
    }
}

/// Frees a pinned value.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_pinnableslice_destroy(value: Option<Box<rocksdb_pinnableslice_t>>) {
    drop(value);
}

/// Returns the bytes of a pinned value, which live until it is freed; null for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_pinnableslice_value(
    value: Option<&rocksdb_pinnableslice_t>,
    vallen: Option<&mut usize>,
) -> *const c_char {
    match value {
        Some(value) => borrowed_ptr(&value.value, vallen),
        None => {
            borrowed_ptr(&[], vallen);
            std::ptr::null()
        }
    }
}

/// Does the same as [`rocksdb_get_pinned`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_pinned_v2(
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_readoptions_t>,
    key: *const c_char,
    keylen: usize,
    errptr: Option<&mut *mut c_char>,
) -> *mut rocksdb_pinnable_handle_t {
    // SAFETY: guaranteed by the caller.
    unsafe { rocksdb_get_pinned(db, options, key, keylen, errptr) }
}

/// Does the same as [`rocksdb_get_pinned_cf`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_pinned_cf_v2(
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_readoptions_t>,
    family: Option<&rocksdb_column_family_handle_t>,
    key: *const c_char,
    keylen: usize,
    errptr: Option<&mut *mut c_char>,
) -> *mut rocksdb_pinnable_handle_t {
    // SAFETY: guaranteed by the caller.
    unsafe { rocksdb_get_pinned_cf(db, options, family, key, keylen, errptr) }
}

/// Returns the bytes of a pinned value, which live until it is freed; null for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_pinnable_handle_get_value(
    handle: Option<&rocksdb_pinnable_handle_t>,
    vallen: Option<&mut usize>,
) -> *const c_char {
    rocksdb_pinnableslice_value(handle, vallen)
}

/// Frees a pinned value.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_pinnable_handle_destroy(handle: Option<Box<rocksdb_pinnable_handle_t>>) {
    drop(handle);
}

/// A caller's buffer for a value.
struct Buffer<'a> {
    start: *mut c_char,
    len: usize,
    vallen: Option<&'a mut usize>,
    found: Option<&'a mut u8>,
}

impl Buffer<'_> {
    /// Stores the value if it fits. Returns 1 if it was found and fits, as RocksDB does.
    ///
    /// # Safety
    /// The buffer has its length, and nothing else uses it.
    unsafe fn fill(self, value: Option<&[u8]>) -> u8 {
        if let Some(found) = self.found {
            *found = u8::from(value.is_some());
        }
        if let Some(vallen) = self.vallen {
            *vallen = value.map_or(0, <[u8]>::len);
        }
        match value {
            Some(value) if value.len() <= self.len && !self.start.is_null() => {
                // SAFETY: guaranteed by the caller; the value has no more bytes than the buffer.
                unsafe {
                    self.start.cast::<u8>().copy_from_nonoverlapping(value.as_ptr(), value.len());
                }
                1
            }
            _ => 0,
        }
    }
}

/// Stores the value of a key in a buffer. Returns 1 if the key exists and the value fits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_into_buffer(
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_readoptions_t>,
    key: *const c_char,
    keylen: usize,
    buffer: *mut c_char,
    buffer_size: usize,
    vallen: Option<&mut usize>,
    found: Option<&mut u8>,
    errptr: Option<&mut *mut c_char>,
) -> u8 {
    let buffer = Buffer { start: buffer, len: buffer_size, vallen, found };
    // SAFETY: the caller meets RocksDB's contract for buffers, snapshots and error texts.
    unsafe {
        let found =
            kept(errptr, || find(&rocksdb_t::open(db)?.default, options, key, keylen)).flatten();
        buffer.fill(found.as_deref())
    }
}

/// Stores the value of a key of a column family in a buffer. Returns 1 if the key exists and the
/// value fits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_into_buffer_cf(
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_readoptions_t>,
    family: Option<&rocksdb_column_family_handle_t>,
    key: *const c_char,
    keylen: usize,
    buffer: *mut c_char,
    buffer_size: usize,
    vallen: Option<&mut usize>,
    found: Option<&mut u8>,
    errptr: Option<&mut *mut c_char>,
) -> u8 {
    let buffer = Buffer { start: buffer, len: buffer_size, vallen, found };
    // SAFETY: the caller meets RocksDB's contract for buffers, snapshots and error texts.
    unsafe {
        let found = kept(errptr, || {
            rocksdb_t::open(db)?;
            find(rocksdb_column_family_handle_t::of(family)?, options, key, keylen)
        });
        buffer.fill(found.flatten().as_deref())
    }
}

/// Answers whether a key exists, with its value if that was asked for.
fn may_exist(
    found: Option<Slice>,
    value: Option<&mut *mut c_char>,
    val_len: Option<&mut usize>,
    value_found: Option<&mut u8>,
) -> u8 {
    if let Some(value_found) = value_found {
        *value_found = u8::from(found.is_some());
        if let Some(value) = value {
            *value = give(found.as_deref(), val_len);
        }
    }
    u8::from(found.is_some())
}

/// Returns 1 if a key exists, by a read. A failed read returns 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_key_may_exist(
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_readoptions_t>,
    key: *const c_char,
    key_len: usize,
    value: Option<&mut *mut c_char>,
    val_len: Option<&mut usize>,
    _timestamp: *const c_char,
    _timestamp_len: usize,
    value_found: Option<&mut u8>,
) -> u8 {
    // SAFETY: the caller meets RocksDB's contract for buffers and snapshots.
    unsafe {
        let read = esker_c::failure::attempt(|| {
            find(&rocksdb_t::open(db)?.default, options, key, key_len)
        });
        read.map_or(1, |found| may_exist(found, value, val_len, value_found))
    }
}

/// Returns 1 if a key of a column family exists, by a read. A failed read returns 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_key_may_exist_cf(
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_readoptions_t>,
    family: Option<&rocksdb_column_family_handle_t>,
    key: *const c_char,
    key_len: usize,
    value: Option<&mut *mut c_char>,
    val_len: Option<&mut usize>,
    _timestamp: *const c_char,
    _timestamp_len: usize,
    value_found: Option<&mut u8>,
) -> u8 {
    // SAFETY: the caller meets RocksDB's contract for buffers and snapshots.
    unsafe {
        let read = esker_c::failure::attempt(|| {
            rocksdb_t::open(db)?;
            find(rocksdb_column_family_handle_t::of(family)?, options, key, key_len)
        });
        read.map_or(1, |found| may_exist(found, value, val_len, value_found))
    }
}
