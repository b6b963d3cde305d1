//! Reads of many keys.
//!
//! Invariant: the values of one call are of one moment.

use std::ffi::c_char;
use std::sync::Arc;

use esker::{ReadOptions, Slice, Snapshot};
use esker_c::failure::{Failure, Outcome, attempt};
use esker_c::ffi;

use crate::access::rocksdb_readoptions_t;
use crate::db::rocksdb_column_family_handle_t;
use crate::failure::text_of;
use crate::iter::rocksdb_slice_t;
use crate::read::{Value, rocksdb_pinnableslice_t};
use crate::store::{Family, Store, rocksdb_t};

type Families = *const *const rocksdb_column_family_handle_t;

/// The keys of a call, as C passes them.
#[derive(Clone, Copy)]
pub(crate) struct Keys {
    pub count: usize,
    pub starts: *const *const c_char,
    pub lengths: *const usize,
}

impl Keys {
    /// Returns the keys.
    ///
    /// # Safety
    /// The arrays have `count` items, and each key has its length.
    pub(crate) unsafe fn get<'a>(self) -> Outcome<Vec<&'a [u8]>> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let starts = ffi::array(self.starts, self.count, "keys")?;
            let lengths = ffi::array(self.lengths, self.count, "lengths of the keys")?;
            let keys = starts.iter().zip(lengths);
            keys.map(|(start, len)| ffi::bytes(*start, *len, "key")).collect()
        }
    }
}

/// Places for copied values and errors, as C passes them.
#[derive(Clone, Copy)]
pub(crate) struct Places {
    pub values: *mut *mut c_char,
    pub lengths: *mut usize,
    pub errors: *mut *mut c_char,
}

impl Places {
    /// Stores copies of the values that were found, or the failure for every key.
    ///
    /// # Safety
    /// Each array has `count` places.
    pub(crate) unsafe fn fill<V: std::ops::Deref<Target = [u8]>>(
        self,
        count: usize,
        mut found: Outcome<Vec<Outcome<Option<V>>>>,
    ) {
        for at in 0..count {
            let found = taken(&mut found, at);
            let (value, len, error) = match found {
                Ok(Some(value)) => {
                    (ffi::give_bytes(&value).cast(), value.len(), std::ptr::null_mut())
                }
                Ok(None) => (std::ptr::null_mut(), 0, std::ptr::null_mut()),
                Err(failure) => (std::ptr::null_mut(), 0, ffi::give_text(&text_of(&failure))),
            };
            // SAFETY: guaranteed by the caller.
            unsafe {
                self.values.add(at).write(value);
                self.lengths.add(at).write(len);
                self.errors.add(at).write(error);
            }
        }
    }
}

/// Returns a snapshot for the reads of one call, unless their options have one.
fn moment_of(store: &Store, options: &ReadOptions<'_>) -> Option<Snapshot> {
    if options.snapshot.is_some() { None } else { store.moment() }
}

/// Reads keys of one column family.
fn read_all(
    store: &Store,
    family: &Family,
    options: &ReadOptions<'_>,
    keys: &[&[u8]],
) -> Outcome<Vec<Outcome<Option<Slice>>>> {
    let keyspace = family.keyspace();
    if options.snapshot.is_none() && options.fill_cache {
        return Ok(keyspace.multi_get(keys)?.into_iter().map(Ok).collect());
    }
    let own = moment_of(store, options);
    let options = if own.is_some() { options.snapshot(own.as_ref()) } else { *options };
    let read = |key: &&[u8]| keyspace.get_with(key, &options).map_err(Failure::from);
    Ok(keys.iter().map(read).collect())
}

/// Takes what was found for the key at a place, or the failure of all keys.
fn taken<V>(found: &mut Outcome<Vec<Outcome<Option<V>>>>, at: usize) -> Outcome<Option<V>> {
    match found {
        Ok(found) => found.get_mut(at).map_or(Ok(None), |one| std::mem::replace(one, Ok(None))),
        Err(failure) => Err(failure.clone()),
    }
}

/// Returns the column family of each key.
///
/// # Safety
/// `families` has one handle for each key.
pub(crate) unsafe fn families_of<'a>(
    families: Families,
    count: usize,
) -> Outcome<Vec<&'a Arc<Family>>> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let families = ffi::array(families, count, "column families")?;
        families.iter().map(|f| rocksdb_column_family_handle_t::of(f.as_ref())).collect()
    }
}

/// Returns copies of the values of many keys.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_multi_get(
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_readoptions_t>,
    num_keys: usize,
    keys_list: *const *const c_char,
    keys_list_sizes: *const usize,
    values_list: *mut *mut c_char,
    values_list_sizes: *mut usize,
    errs: *mut *mut c_char,
) {
    let keys = Keys { count: num_keys, starts: keys_list, lengths: keys_list_sizes };
    let places = Places { values: values_list, lengths: values_list_sizes, errors: errs };
    // SAFETY: by RocksDB's contract, each array has `num_keys` items.
    unsafe {
        let found = attempt(|| {
            let store = rocksdb_t::open(db)?;
            let options = rocksdb_readoptions_t::of(options)?;
            read_all(store, &store.default, &options, &keys.get()?)
        });
        places.fill(num_keys, found);
    }
}

/// Returns copies of the values of many keys, each of its own column family.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_multi_get_cf(
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_readoptions_t>,
    families: Families,
    num_keys: usize,
    keys_list: *const *const c_char,
    keys_list_sizes: *const usize,
    values_list: *mut *mut c_char,
    values_list_sizes: *mut usize,
    errs: *mut *mut c_char,
) {
    let keys = Keys { count: num_keys, starts: keys_list, lengths: keys_list_sizes };
    let places = Places { values: values_list, lengths: values_list_sizes, errors: errs };
    // SAFETY: by RocksDB's contract, each array has `num_keys` items.
    unsafe {
        let found = attempt(|| {
            let store = rocksdb_t::open(db)?;
            let options = rocksdb_readoptions_t::of(options)?;
            let _steady = store.steady();
            let own = moment_of(store, &options);
            let options = if own.is_some() { options.snapshot(own.as_ref()) } else { options };
            let keys = keys.get()?;
            let families = families_of(families, num_keys)?;
            let pairs = families.iter().zip(keys);
            let read = pairs.map(|(family, key)| {
                family.keyspace().get_with(key, &options).map_err(Failure::from)
            });
            Ok(read.collect())
        });
        places.fill(num_keys, found);
    }
}

/// Stores pinned values, or the failure for every key.
///
/// # Safety
/// Each array has `count` places.
unsafe fn pin_all(
    count: usize,
    mut found: Outcome<Vec<Outcome<Option<Slice>>>>,
    values: *mut *mut rocksdb_pinnableslice_t,
    errs: *mut *mut c_char,
) {
    for at in 0..count {
        let found = taken(&mut found, at);
        let (value, error) = match found {
            Ok(Some(value)) => {
                (rocksdb_pinnableslice_t::give(Value::Pinned(value)), std::ptr::null_mut())
            }
            Ok(None) => (std::ptr::null_mut(), std::ptr::null_mut()),
            Err(failure) => (std::ptr::null_mut(), ffi::give_text(&text_of(&failure))),
        };
        // SAFETY: guaranteed by the caller.
        unsafe {
            values.add(at).write(value);
            errs.add(at).write(error);
        }
    }
}

/// Returns the pinned values of many keys of a column family.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_batched_multi_get_cf(
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_readoptions_t>,
    family: Option<&rocksdb_column_family_handle_t>,
    num_keys: usize,
    keys_list: *const *const c_char,
    keys_list_sizes: *const usize,
    values: *mut *mut rocksdb_pinnableslice_t,
    errs: *mut *mut c_char,
    _sorted_input: u8,
) {
    let keys = Keys { count: num_keys, starts: keys_list, lengths: keys_list_sizes };
    // SAFETY: by RocksDB's contract, each array has `num_keys` items.
    unsafe {
        let found = attempt(|| {
            let store = rocksdb_t::open(db)?;
            let options = rocksdb_readoptions_t::of(options)?;
            let family = rocksdb_column_family_handle_t::of(family)?;
            read_all(store, family, &options, &keys.get()?)
        });
        pin_all(num_keys, found, values, errs);
    }
}

/// Returns the pinned values of many keys of a column family.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_batched_multi_get_cf_slice(
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_readoptions_t>,
    family: Option<&rocksdb_column_family_handle_t>,
    num_keys: usize,
    keys_list: *const rocksdb_slice_t,
    values: *mut *mut rocksdb_pinnableslice_t,
    errs: *mut *mut c_char,
    _sorted_input: u8,
) {
    // SAFETY: by RocksDB's contract, each array has `num_keys` items.
    unsafe {
        let found = attempt(|| {
            let store = rocksdb_t::open(db)?;
            let options = rocksdb_readoptions_t::of(options)?;
            let family = rocksdb_column_family_handle_t::of(family)?;
            let keys = ffi::array(keys_list, num_keys, "keys")?;
            let keys: Outcome<Vec<&[u8]>> = keys.iter().map(|key| key.bytes()).collect();
            read_all(store, family, &options, &keys?)
        });
        pin_all(num_keys, found, values, errs);
    }
}
