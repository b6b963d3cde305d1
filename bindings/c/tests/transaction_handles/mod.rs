//! A transaction of a store, for tests of the C interface. Without a keyspace, a method works on
//! the keyspace `default`.
//!
//! Invariant: a handle is freed once, at the end of its value.

use std::ffi::CString;
use std::ptr::{null, null_mut};

use esker_c::own::common::*;
use esker_c::own::db::*;
use esker_c::own::iter::*;
use esker_c::own::read::*;
use esker_c::own::transaction::*;
use esker_c::own::transaction_data::*;

use crate::keyspace_handles::{Refused, Space, Store, checked, keys_of};

const OK: i32 = 0;

/// Returns options of a transaction.
pub fn kind(serializable: bool, pessimistic: bool, lock_timeout_ms: u64) -> Options {
    let mut options = esker_transaction_options_create();
    // SAFETY: no buffers are passed.
    unsafe {
        let (o, isolation) = (Some(&mut *options), i32::from(serializable));
        assert_eq!(esker_transaction_options_set_isolation(o, isolation, None), OK);
        let (o, concurrency) = (Some(&mut *options), i32::from(pessimistic));
        assert_eq!(esker_transaction_options_set_concurrency(o, concurrency, None), OK);
        let o = Some(&mut *options);
        assert_eq!(esker_transaction_options_set_lock_timeout_ms(o, lock_timeout_ms, None), OK);
    }
    options
}

/// Options of a transaction.
pub type Options = Box<esker_transaction_options_t>;

/// A transaction, which is freed at the end.
pub struct Txn(*mut esker_transaction_t);

// SAFETY: the functions accept the handle on any thread, and refuse a call during another one.
unsafe impl Send for Txn {}
// SAFETY: as above.
unsafe impl Sync for Txn {}

/// Returns the value of a key of a store, or `none`.
pub fn value_of(store: &Store, key: &str) -> String {
    let (mut value, mut len) = (null_mut(), 7);
    // SAFETY: borrowed buffers.
    unsafe {
        let (v, l) = (Some(&mut value), Some(&mut len));
        assert_eq!(esker_get(store.get(), None, key.as_ptr(), key.len(), v, l, None), OK);
    }
    text_of(value, len)
}

/// Sets a key of a store.
pub fn put(store: &Store, key: &str, value: &str) {
    let (k, v) = (key.as_ptr(), value.as_ptr());
    // SAFETY: borrowed buffers.
    let code = unsafe { esker_put(store.get(), k, key.len(), v, value.len(), 0, None) };
    assert_eq!(code, OK);
}

/// Returns a copy of a value, or `none`, and frees the original.
fn text_of(value: *mut u8, len: usize) -> String {
    if value.is_null() {
        return "none".into();
    }
    // SAFETY: a value of the library with `len` bytes, freed once.
    unsafe {
        let copy = std::slice::from_raw_parts(value, len).to_vec();
        esker_free(value.cast());
        String::from_utf8(copy).unwrap()
    }
}

impl Txn {
    pub fn begin(store: &Store, options: Option<&esker_transaction_options_t>) -> Txn {
        let (mut raw, mut message) = (null_mut(), null_mut());
        // SAFETY: borrowed for the call.
        let code = unsafe {
            esker_transaction_begin(store.get(), options, Some(&mut raw), Some(&mut message))
        };
        checked(code, message).unwrap();
        Txn(raw)
    }

    pub fn get(&self) -> Option<&esker_transaction_t> {
        // SAFETY: alive until the drop.
        unsafe { self.0.as_ref() }
    }

    pub fn put(&self, space: Option<&Space>, key: &str, value: &str) -> Result<(), Refused> {
        let (mut message, k, v) = (null_mut(), key.as_ptr(), value.as_ptr());
        let (t, k_len, v_len, place) = (self.get(), key.len(), value.len(), Some(&mut message));
        // SAFETY: borrowed buffers.
        let code = unsafe {
            match space {
                None => esker_transaction_put(t, k, k_len, v, v_len, place),
                Some(space) => esker_transaction_put_in(t, space.get(), k, k_len, v, v_len, place),
            }
        };
        checked(code, message)
    }

    pub fn delete(&self, space: Option<&Space>, key: &str) -> Result<(), Refused> {
        let (mut message, k, k_len) = (null_mut(), key.as_ptr(), key.len());
        let (t, place) = (self.get(), Some(&mut message));
        // SAFETY: borrowed buffers.
        let code = unsafe {
            match space {
                None => esker_transaction_delete(t, k, k_len, place),
                Some(space) => esker_transaction_delete_in(t, space.get(), k, k_len, place),
            }
        };
        checked(code, message)
    }

    pub fn delete_range(
        &self,
        space: Option<&Space>,
        start: &str,
        end: &str,
    ) -> Result<(), Refused> {
        let (mut message, s, e) = (null_mut(), start.as_ptr(), end.as_ptr());
        let (t, s_len, e_len, place) = (self.get(), start.len(), end.len(), Some(&mut message));
        // SAFETY: borrowed buffers.
        let code = unsafe {
            match space {
                None => esker_transaction_delete_range(t, s, s_len, e, e_len, place),
                Some(space) => {
                    let space = space.get();
                    esker_transaction_delete_range_in(t, space, s, s_len, e, e_len, place)
                }
            }
        };
        checked(code, message)
    }

    pub fn value(&self, space: Option<&Space>, key: &str) -> Result<String, Refused> {
        self.read(space, key, false)
    }

    pub fn value_for_update(&self, space: Option<&Space>, key: &str) -> Result<String, Refused> {
        self.read(space, key, true)
    }

    fn read(&self, space: Option<&Space>, key: &str, update: bool) -> Result<String, Refused> {
        let (mut value, mut len, mut message) = (null_mut(), 7, null_mut());
        let (k, k_len, t) = (key.as_ptr(), key.len(), self.get());
        let (v, l, m) = (Some(&mut value), Some(&mut len), Some(&mut message));
        // SAFETY: borrowed buffers.
        let code = unsafe {
            match (space.map(Space::get), update) {
                (None, false) => esker_transaction_get(t, k, k_len, v, l, m),
                (None, true) => esker_transaction_get_for_update(t, k, k_len, v, l, m),
                (Some(space), false) => esker_transaction_get_in(t, space, k, k_len, v, l, m),
                (Some(space), true) => {
                    esker_transaction_get_for_update_in(t, space, k, k_len, v, l, m)
                }
            }
        };
        assert!(code == OK || (value.is_null() && len == 0));
        checked(code, message).map(|()| text_of(value, len))
    }

    pub fn iter(&self, space: Option<&Space>) -> Result<*mut esker_iter_t, Refused> {
        let (mut iter, mut message, n) = (null_mut(), null_mut(), null());
        let (t, place, m) = (self.get(), Some(&mut iter), Some(&mut message));
        // SAFETY: no buffers are passed.
        let code = unsafe {
            match space {
                None => esker_transaction_iter_create(t, n, 0, n, 0, place, m),
                Some(space) => {
                    esker_transaction_iter_create_in(t, space.get(), n, 0, n, 0, place, m)
                }
            }
        };
        assert_eq!(code == OK, !iter.is_null());
        checked(code, message).map(|()| iter)
    }

    pub fn keys(&self, space: Option<&Space>) -> Vec<String> {
        keys_of(self.iter(space).unwrap())
    }

    pub fn savepoint(&self) -> Result<(), Refused> {
        let mut message = null_mut();
        // SAFETY: no buffers are passed.
        let code = unsafe { esker_transaction_savepoint(self.get(), Some(&mut message)) };
        checked(code, message)
    }

    pub fn rollback_to_savepoint(&self) -> Result<(), Refused> {
        let (mut message, t) = (null_mut(), self.get());
        // SAFETY: no buffers are passed.
        let code = unsafe { esker_transaction_rollback_to_savepoint(t, Some(&mut message)) };
        checked(code, message)
    }

    pub fn pop_savepoint(&self) -> Result<(), Refused> {
        let mut message = null_mut();
        // SAFETY: no buffers are passed.
        let code = unsafe { esker_transaction_pop_savepoint(self.get(), Some(&mut message)) };
        checked(code, message)
    }

    pub fn commit(&self) -> Result<(), Refused> {
        let mut message = null_mut();
        // SAFETY: no buffers are passed.
        let code = unsafe { esker_transaction_commit(self.get(), Some(&mut message)) };
        checked(code, message)
    }

    pub fn rollback(&self) -> Result<(), Refused> {
        let mut message = null_mut();
        // SAFETY: no buffers are passed.
        let code = unsafe { esker_transaction_rollback(self.get(), Some(&mut message)) };
        checked(code, message)
    }

    pub fn prepare(&self, name: &str) -> Result<(), Refused> {
        let (name, mut message) = (CString::new(name).unwrap(), null_mut());
        // SAFETY: a borrowed string.
        let code =
            unsafe { esker_transaction_prepare(self.get(), name.as_ptr(), Some(&mut message)) };
        checked(code, message)
    }

    pub fn id(&self) -> u64 {
        esker_transaction_id(self.get())
    }
}

impl Drop for Txn {
    fn drop(&mut self) {
        // SAFETY: created by the library, freed only here.
        esker_transaction_destroy(Some(unsafe { Box::from_raw(self.0) }));
    }
}
