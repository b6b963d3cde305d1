//! A store in memory and the handles of its keyspaces, for tests of the C interface.
//!
//! Invariant: a handle is freed once, at the end of its value.

use std::ffi::{CString, c_char};
use std::path::Path;
use std::ptr::{null, null_mut};

use esker_c::own::batch::*;
use esker_c::own::common::*;
use esker_c::own::db::*;
use esker_c::own::iter::*;
use esker_c::own::keyspace::*;
use esker_c::own::keyspace_data::*;
use esker_c::own::options::*;
use esker_c::own::read::*;
use esker_c::own::store::*;

use crate::common::{c_path, taken};

const OK: i32 = 0;

/// Code and message of a failed call.
pub type Refused = (i32, String);

/// Returns an error for a failed call.
pub fn checked(code: i32, mut message: *mut c_char) -> Result<(), Refused> {
    let text = taken(&mut message);
    assert_eq!(code == OK, text.is_empty(), "code {code}: {text}");
    if code == OK { Ok(()) } else { Err((code, text)) }
}

/// Options of a store in memory.
pub fn options_in(memory: &esker_memory_t) -> Box<esker_options_t> {
    let mut options = esker_options_create();
    esker_options_set_memory(Some(&mut options), Some(memory));
    options
}

/// An open store, which is freed at the end.
#[derive(Debug)]
pub struct Store(*mut esker_db_t);

impl Store {
    pub fn open(options: &esker_options_t) -> Result<Store, Refused> {
        Store::open_at("/store", options)
    }

    pub fn open_at(path: &str, options: &esker_options_t) -> Result<Store, Refused> {
        let path = c_path(Path::new(path));
        let (mut db, mut message) = (null_mut(), null_mut());
        // SAFETY: borrowed for the call.
        let code =
            unsafe { esker_open(path.as_ptr(), Some(options), Some(&mut db), Some(&mut message)) };
        checked(code, message).map(|()| Store(db))
    }

    /// Opens a store in a memory of its own.
    pub fn new() -> Store {
        Store::open(&options_in(&esker_memory_create())).unwrap()
    }

    pub fn get(&self) -> Option<&esker_db_t> {
        // SAFETY: alive until the drop.
        unsafe { self.0.as_ref() }
    }

    pub fn keyspace(
        &self,
        name: &str,
        options: Option<&esker_keyspace_options_t>,
    ) -> Result<Space, Refused> {
        let name = CString::new(name).unwrap();
        let (mut handle, mut message) = (null_mut(), null_mut());
        // SAFETY: borrowed for the call.
        let code = unsafe {
            let place = Some(&mut handle);
            esker_keyspace_open(self.get(), name.as_ptr(), options, place, Some(&mut message))
        };
        assert_eq!(code == OK, !handle.is_null());
        checked(code, message).map(|()| Space(handle))
    }

    pub fn find(&self, name: &str) -> Option<Space> {
        let name = CString::new(name).unwrap();
        let mut handle = null_mut();
        // SAFETY: borrowed for the call.
        let code =
            unsafe { esker_keyspace_find(self.get(), name.as_ptr(), Some(&mut handle), None) };
        assert_eq!(code, OK);
        (!handle.is_null()).then(|| Space(handle))
    }

    pub fn names(&self) -> String {
        let mut names = null_mut();
        // SAFETY: the text is freed by `taken`.
        assert_eq!(unsafe { esker_keyspaces(self.get(), Some(&mut names), None) }, OK);
        taken(&mut names)
    }

    pub fn rename(&self, name: &str, new_name: &str) -> Result<(), Refused> {
        let (name, new_name) = (CString::new(name).unwrap(), CString::new(new_name).unwrap());
        let mut message = null_mut();
        // SAFETY: borrowed for the call.
        let code = unsafe {
            let (name, new_name) = (name.as_ptr(), new_name.as_ptr());
            esker_keyspace_rename(self.get(), name, new_name, Some(&mut message))
        };
        checked(code, message)
    }

    pub fn drop_keyspace(&self, name: &str) -> Result<(), Refused> {
        let name = CString::new(name).unwrap();
        let mut message = null_mut();
        // SAFETY: borrowed for the call.
        let code = unsafe { esker_keyspace_drop(self.get(), name.as_ptr(), Some(&mut message)) };
        checked(code, message)
    }

    pub fn write(&self, batch: &esker_batch_t) -> i32 {
        // SAFETY: borrowed for the call.
        unsafe { esker_write(self.get(), Some(batch), 0, None) }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // SAFETY: created by `esker_open`, freed only here.
        esker_db_destroy(Some(unsafe { Box::from_raw(self.0) }));
    }
}

/// A handle of a keyspace, which is closed at the end.
#[derive(Debug)]
pub struct Space(*mut esker_keyspace_t);

impl Space {
    pub fn get(&self) -> Option<&esker_keyspace_t> {
        // SAFETY: alive until the drop.
        unsafe { self.0.as_ref() }
    }

    pub fn put(&self, key: &str, value: &str) -> i32 {
        let (k, v) = (key.as_ptr(), value.as_ptr());
        // SAFETY: borrowed buffers.
        unsafe { esker_keyspace_put(self.get(), k, key.len(), v, value.len(), 0, None) }
    }

    pub fn value_at(&self, snapshot: Option<&esker_snapshot_t>, key: &str) -> Result<String, i32> {
        let (mut value, mut len) = (null_mut(), 7);
        // SAFETY: borrowed buffers; the value is copied and freed.
        unsafe {
            let (k, place) = (key.as_ptr(), (Some(&mut value), Some(&mut len)));
            let code =
                esker_keyspace_get(self.get(), snapshot, k, key.len(), place.0, place.1, None);
            if code != OK {
                assert!(value.is_null() && len == 0);
                return Err(code);
            }
            if value.is_null() {
                return Ok("none".into());
            }
            let copy = std::slice::from_raw_parts(value, len).to_vec();
            esker_free(value.cast());
            Ok(String::from_utf8(copy).unwrap())
        }
    }

    pub fn value(&self, key: &str) -> Result<String, i32> {
        self.value_at(None, key)
    }

    pub fn iter(&self, start: Option<&str>, end: Option<&str>) -> *mut esker_iter_t {
        let bound = |key: Option<&str>| key.map_or((null(), 0), |key| (key.as_ptr(), key.len()));
        let ((s, s_len), (e, e_len)) = (bound(start), bound(end));
        let mut iter = null_mut();
        // SAFETY: borrowed buffers.
        let code = unsafe {
            let place = Some(&mut iter);
            esker_keyspace_iter_create(self.get(), None, s, s_len, e, e_len, 1, place, None)
        };
        assert_eq!(code, OK);
        iter
    }

    pub fn keys(&self) -> Vec<String> {
        keys_of(self.iter(None, None))
    }

    pub fn id(&self) -> u32 {
        esker_keyspace_id(self.get())
    }

    pub fn name(&self) -> String {
        taken(&mut esker_keyspace_name(self.get()))
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        // SAFETY: created by the library, freed only here.
        esker_keyspace_close(Some(unsafe { Box::from_raw(self.0) }));
    }
}

/// Returns the keys of an iterator, and frees it.
pub fn keys_of(iter: *mut esker_iter_t) -> Vec<String> {
    let mut keys = Vec::new();
    // SAFETY: created by the library and freed here; keys are copied before it moves.
    unsafe {
        esker_iter_seek_to_first(iter.as_mut());
        while esker_iter_valid(iter.as_ref()) == 1 {
            let mut len = 0;
            let key = esker_iter_key(iter.as_ref(), Some(&mut len));
            let key = std::slice::from_raw_parts(key, len).to_vec();
            keys.push(String::from_utf8(key).unwrap());
            esker_iter_next(iter.as_mut());
        }
        assert_eq!(esker_iter_failure(iter.as_ref(), None), OK);
        esker_iter_destroy(Some(Box::from_raw(iter)));
    }
    keys
}
