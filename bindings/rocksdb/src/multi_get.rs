//! Reads of many keys.
//!
//! Invariant: the values of one call are of one moment.

use std::ffi::c_char;
use std::ops::Deref;
use std::ptr::null_mut;
use std::sync::Arc;

use esker::{ReadOptions, Slice, Snapshot};
use esker_c::failure::{Failure, Outcome};
use esker_c::ffi;

use crate::access::rocksdb_readoptions_t;
use crate::db::rocksdb_column_family_handle_t;
use crate::failure::{text_of, unless_refused};
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
    /// Stores a copy of the value that was found for the key at a place, or the failure.
    ///
    /// # Safety
    /// Each array has more than `at` places.
    pub(crate) unsafe fn put<V: Deref<Target = [u8]>>(self, at: usize, found: Outcome<Option<V>>) {
        let (value, len, error) = match found {
            Ok(Some(value)) => (ffi::give_bytes(&value).cast(), value.len(), null_mut()),
            Ok(None) => (null_mut(), 0, null_mut()),
            Err(failure) => (null_mut(), 0, ffi::give_text(&text_of(&failure))),
        };
        // SAFETY: guaranteed by the caller.
        unsafe {
            self.values.add(at).write(value);
            self.lengths.add(at).write(len);
            self.errors.add(at).write(error);
        }
    }
}

/// Places for pinned values and errors, as C passes them.
#[derive(Clone, Copy)]
struct Pins {
    values: *mut *mut rocksdb_pinnableslice_t,
    errors: *mut *mut c_char,
}

impl Pins {
    /// Stores the pinned value that was found for the key at a place, or the failure.
    ///
    /// # Safety
    /// Each array has more than `at` places.
    #[inline]
    unsafe fn put(self, at: usize, found: Outcome<Option<Slice>>) {
        let (value, error) = match found {
            Ok(Some(value)) => (rocksdb_pinnableslice_t::give(Value::Pinned(value)), null_mut()),
            Ok(None) => (null_mut(), null_mut()),
            Err(failure) => (null_mut(), ffi::give_text(&text_of(&failure))),
        };
        // SAFETY: guaranteed by the caller.
        unsafe {
            self.values.add(at).write(value);
            self.errors.add(at).write(error);
        }
    }
}

/// Runs `read`, which gives what it finds for each key, and gives its failure to every key.
#[inline]
pub(crate) fn answer<V, G: Fn(usize, Outcome<Option<V>>)>(
    count: usize,
    give: G,
    read: impl FnOnce(&G) -> Outcome<()>,
) {
    if let Err(failure) = unless_refused(|| read(&give)) {
        (0..count).for_each(|at| give(at, Err(failure.clone())));
    }
}

/// Returns a snapshot for the reads of one call, unless their options have one.
fn moment_of(store: &Store, options: &ReadOptions<'_>) -> Option<Snapshot> {
    if options.snapshot.is_some() { None } else { store.moment() }
}

/// Reads keys of one column family, and gives what is found for each. If it fails, nothing was given.
/// After an error the keys are read one by one, so that each gets its own.
fn read_each(
    store: &Store,
    family: &Family,
    options: &ReadOptions<'_>,
    keys: &[&[u8]],
    give: &impl Fn(usize, Outcome<Option<Slice>>),
) -> Outcome<()> {
    let keyspace = family.keyspace();
    if let Ok(found) = keyspace.multi_get_with(keys, options) {
        found.into_iter().enumerate().for_each(|(at, found)| give(at, Ok(found)));
        return Ok(());
    }
    let own = moment_of(store, options);
    let options = if own.is_some() { options.snapshot(own.as_ref()) } else { *options };
    for (at, key) in keys.iter().enumerate() {
        give(at, keyspace.get_with(key, &options).map_err(Failure::from));
    }
    Ok(())
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
        answer(
            num_keys,
            |at, found| places.put(at, found),
            |give| {
                let store = rocksdb_t::open(db)?;
                let options = rocksdb_readoptions_t::of(options)?;
                read_each(store, &store.default, &options, &keys.get()?, give)
            },
        );
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
        answer(
            num_keys,
            |at, found| places.put(at, found),
            |give| {
                let store = rocksdb_t::open(db)?;
                let options = rocksdb_readoptions_t::of(options)?;
                let _steady = store.steady();
                let own = moment_of(store, &options);
                let options = if own.is_some() { options.snapshot(own.as_ref()) } else { options };
                let keys = keys.get()?;
                let families = families_of(families, num_keys)?;
                for (at, (family, key)) in families.iter().zip(keys).enumerate() {
                    give(at, family.keyspace().get_with(key, &options).map_err(Failure::from));
                }
                Ok(())
            },
        );
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
    let pins = Pins { values, errors: errs };
    // SAFETY: by RocksDB's contract, each array has `num_keys` items.
    unsafe {
        answer(
            num_keys,
            |at, found| pins.put(at, found),
            |give| {
                let store = rocksdb_t::open(db)?;
                let options = rocksdb_readoptions_t::of(options)?;
                let family = rocksdb_column_family_handle_t::of(family)?;
                read_each(store, family, &options, &keys.get()?, give)
            },
        );
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
    let pins = Pins { values, errors: errs };
    // SAFETY: by RocksDB's contract, each array has `num_keys` items.
    unsafe {
        answer(
            num_keys,
            |at, found| pins.put(at, found),
            |give| {
                let store = rocksdb_t::open(db)?;
                let options = rocksdb_readoptions_t::of(options)?;
                let family = rocksdb_column_family_handle_t::of(family)?;
                let keys = ffi::array(keys_list, num_keys, "keys")?;
                let keys: Outcome<Vec<&[u8]>> = keys.iter().map(|key| key.bytes()).collect();
                read_each(store, family, &options, &keys?, give)
            },
        );
    }
}
