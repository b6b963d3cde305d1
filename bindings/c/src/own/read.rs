//! `esker_get`, `esker_multi_get` and snapshots.

use std::ffi::{c_char, c_void};

use esker::{ReadOptions, Slice, Snapshot, internals};

use super::store::{esker_db_t, on};
use crate::failure::{Outcome, attempt, there};
use crate::ffi;

/// A snapshot of the store. It may be freed before or after the store.
pub struct esker_snapshot_t {
    pub(crate) snapshot: Snapshot,
}

/// Receives a value: state, value, value length. The value is valid only during the call.
pub type esker_visit_value_t = Option<unsafe extern "C" fn(*mut c_void, *const u8, usize)>;

/// Creates a snapshot of the current state.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_snapshot_create(
    db: Option<&esker_db_t>,
    snapshot: Option<&mut *mut esker_snapshot_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let place = there(snapshot, "place for the snapshot")?;
        *place = std::ptr::null_mut();
        let snapshot = internals::snapshot(&*esker_db_t::open(db)?)?;
        *place = Box::into_raw(Box::new(esker_snapshot_t { snapshot }));
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Frees a snapshot.
#[unsafe(no_mangle)]
pub extern "C" fn esker_snapshot_destroy(snapshot: Option<Box<esker_snapshot_t>>) {
    let _ = attempt(|| {
        drop(snapshot);
        Ok(())
    });
}

/// Returns the sequence number of the last operation that a snapshot shows, as in the change feed; 0 for
/// NULL.
#[unsafe(no_mangle)]
pub extern "C" fn esker_snapshot_position(snapshot: Option<&esker_snapshot_t>) -> u64 {
    snapshot.map_or(0, |own| own.snapshot.seqno())
}

/// Returns the options of a read, at `snapshot` if there is one.
#[inline]
pub(super) fn read_options(
    snapshot: Option<&esker_snapshot_t>,
    fill_cache: bool,
) -> ReadOptions<'_> {
    ReadOptions::default().snapshot(snapshot.map(|s| &s.snapshot)).fill_cache(fill_cache)
}

/// Places for a value and its length.
pub(super) struct ValuePlace<'a>(&'a mut *mut u8, &'a mut usize);

impl<'a> ValuePlace<'a> {
    /// Returns the places of the caller, without a value.
    pub(super) fn new(
        value: Option<&'a mut *mut u8>,
        value_len: Option<&'a mut usize>,
    ) -> Outcome<ValuePlace<'a>> {
        let value = there(value, "place for the value")?;
        let value_len = there(value_len, "place for the value's length")?;
        (*value, *value_len) = (std::ptr::null_mut(), 0);
        Ok(ValuePlace(value, value_len))
    }

    /// Stores a copy of the value that was found.
    pub(super) fn give(self, found: Option<Slice>) {
        if let Some(found) = found {
            self.copy(&found);
        }
    }

    /// Stores a copy of a value.
    pub(super) fn copy(self, value: &[u8]) {
        (*self.0, *self.1) = (ffi::give_bytes(value), value.len());
    }
}

#[inline]
unsafe fn find(
    db: Option<&esker_db_t>,
    snapshot: Option<&esker_snapshot_t>,
    fill_cache: bool,
    key: *const u8,
    key_len: usize,
) -> Outcome<Option<Slice>> {
    // SAFETY: guaranteed by the caller.
    let key = unsafe { ffi::bytes(key, key_len, "key") }?;
    let options = read_options(snapshot, fill_cache);
    Ok(esker_db_t::open(db)?.get_with(key, &options)?)
}

/// Reads the value of a key: the current one, or the one in `snapshot` if that is not NULL. Sets
/// `*value` to a copy, which must be freed with `esker_free`, or to NULL if the key is missing. A
/// missing key is not a failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_get(
    db: Option<&esker_db_t>,
    snapshot: Option<&esker_snapshot_t>,
    key: *const u8,
    key_len: usize,
    value: Option<&mut *mut u8>,
    value_len: Option<&mut usize>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        let outcome = attempt(|| {
            let place = ValuePlace::new(value, value_len)?;
            place.give(find(db, snapshot, true, key, key_len)?);
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// Does the same as `esker_get`. With `fill_cache` 0, the read inserts no blocks into the cache, so
/// that a read of rarely used pairs evicts no others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_get_with(
    db: Option<&esker_db_t>,
    snapshot: Option<&esker_snapshot_t>,
    fill_cache: u8,
    key: *const u8,
    key_len: usize,
    value: Option<&mut *mut u8>,
    value_len: Option<&mut usize>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        let outcome = attempt(|| {
            let place = ValuePlace::new(value, value_len)?;
            place.give(find(db, snapshot, fill_cache != 0, key, key_len)?);
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// Reads the value of a key and passes it to `visit` without a copy. It is not called if the key
/// is missing. With `fill_cache` 0, the read inserts no blocks into the cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_get_visit(
    db: Option<&esker_db_t>,
    snapshot: Option<&esker_snapshot_t>,
    fill_cache: u8,
    key: *const u8,
    key_len: usize,
    state: *mut c_void,
    visit: esker_visit_value_t,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages; the value outlives
    // the call of `visit`.
    unsafe {
        let outcome = attempt(|| {
            let visit = there(visit, "function that receives the value")?;
            if let Some(found) = find(db, snapshot, fill_cache != 0, key, key_len)? {
                visit(state, found.as_ptr(), found.len());
            }
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// The places of the caller for many values. What was given is freed again if the call fails or
/// panics before all of it is.
struct Given<'a> {
    values: &'a mut [*mut u8],
    value_lens: &'a mut [usize],
    kept: bool,
}

impl Drop for Given<'_> {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        for value in &mut *self.values {
            // SAFETY: null, or given by this call and seen by nobody yet.
            unsafe { ffi::free(std::mem::replace(value, std::ptr::null_mut())) };
        }
        self.value_lens.fill(0);
    }
}

/// Stores copies of the values that were found.
fn give_all<V: AsRef<[u8]>>(
    values: &mut [*mut u8],
    value_lens: &mut [usize],
    found: impl Iterator<Item = Option<V>>,
) {
    let mut given = Given { values, value_lens, kept: false };
    let places = given.values.iter_mut().zip(&mut *given.value_lens);
    for ((value, value_len), found) in places.zip(found) {
        if let Some(found) = found {
            ValuePlace(value, value_len).copy(found.as_ref());
        }
    }
    given.kept = true;
}

/// Returns the values of many keys to the caller.
///
/// # Safety
/// As for [`ffi::array`], [`ffi::array_mut`] and [`ffi::bytes`] of each key.
pub(super) unsafe fn multi_get(
    count: usize,
    (keys, key_lens): (*const *const u8, *const usize),
    (values, value_lens): (*mut *mut u8, *mut usize),
    read: impl FnOnce(&[&[u8]]) -> Outcome<Vec<Option<Slice>>>,
) -> Outcome<()> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let values = ffi::array_mut(values, count, "array of values")?;
        let value_lens = ffi::array_mut(value_lens, count, "array of lengths of values")?;
        values.fill(std::ptr::null_mut());
        value_lens.fill(0);
        let starts = ffi::array(keys, count, "array of keys")?;
        let lens = ffi::array(key_lens, count, "array of lengths of keys")?;
        let keys = starts.iter().zip(lens);
        let keys = keys.map(|(start, len)| ffi::bytes(*start, *len, "key"));
        let found = read(&keys.collect::<Outcome<Vec<&[u8]>>>()?)?;
        give_all(values, value_lens, found.into_iter());
        Ok(())
    }
}

/// Reads the values of `count` keys as of one moment: the present one, or that of `snapshot` if that
/// is not NULL. With `fill_cache` 0, the reads insert no blocks into the cache. `keys` and `key_lens`
/// have the keys. `values` and `value_lens` have `count` places each. A place gets a copy of the
/// value, which must be freed with `esker_free`, or NULL if the key is missing. A failed call sets
/// every place to NULL, unless one of the last two arrays is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_multi_get(
    db: Option<&esker_db_t>,
    snapshot: Option<&esker_snapshot_t>,
    fill_cache: u8,
    count: usize,
    keys: *const *const u8,
    key_lens: *const usize,
    values: *mut *mut u8,
    value_lens: *mut usize,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages; the arrays have
    // `count` items.
    unsafe {
        let outcome = attempt(|| {
            multi_get(count, (keys, key_lens), (values, value_lens), |keys| {
                let options = read_options(snapshot, fill_cache != 0);
                Ok(esker_db_t::open(db)?.multi_get_with(keys, &options)?)
            })
        });
        ffi::code(outcome, message)
    }
}

/// Sets `*found` to 1 if the store has the key now, or has it in `snapshot` if that is not NULL, else
/// to 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_contains(
    db: Option<&esker_db_t>,
    snapshot: Option<&esker_snapshot_t>,
    key: *const u8,
    key_len: usize,
    found: Option<&mut u8>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        on(db, message, |db| {
            let place = there(found, "place for the result")?;
            let key = ffi::bytes(key, key_len, "key")?;
            *place = u8::from(match snapshot {
                None => db.contains_key(key)?,
                Some(_) => db.read_with(key, &read_options(snapshot, true), |_| ())?.is_some(),
            });
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_given_before_a_panic_are_taken_back() {
        let (mut values, mut lens) = ([std::ptr::null_mut(); 3], [0; 3]);
        let found = [Some(&b"one"[..]), None, Some(&b"three"[..])];
        give_all(&mut values, &mut lens, found.into_iter());
        assert_eq!(lens, [3, 0, 5]);
        assert!(!values[0].is_null() && values[1].is_null() && !values[2].is_null());
        for value in &mut values {
            // SAFETY: null, or given above and not freed.
            unsafe { ffi::free(std::mem::replace(value, std::ptr::null_mut())) };
        }
        let panics = found.into_iter().enumerate().map(|(at, value)| match at {
            2 => panic!("the third value"),
            _ => value,
        });
        let outcome = attempt(|| {
            give_all(&mut values, &mut lens, panics);
            Ok(())
        });
        assert!(outcome.unwrap_err().message.contains("the third value"));
        assert!(values.iter().all(|value| value.is_null()));
        assert_eq!(lens, [0; 3]);
    }
}
