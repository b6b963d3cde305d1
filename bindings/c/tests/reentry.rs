//! Tests caller-supplied functions that use their own store.
//!
//! Invariant: such a call is refused, and does not wait for the enclosing call.

mod common;

use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use common::{c_path, taken};
use esker_c::own::common::*;
use esker_c::own::db::*;
use esker_c::own::options::*;
use esker_c::own::read::*;
use esker_c::own::store::*;

const INVALID: i32 = 1;

/// State of a comparator that uses its own store, and the results of its calls.
#[derive(Default)]
struct Greedy {
    db: std::sync::atomic::AtomicPtr<esker_db_t>,
    codes: std::sync::Mutex<Vec<i32>>,
}

unsafe extern "C" fn greedy_name(_: *mut c_void) -> *const c_char {
    c"test.greedy".as_ptr()
}

unsafe extern "C" fn greedy_compare(
    state: *mut c_void,
    a: *const c_char,
    a_len: usize,
    b: *const c_char,
    b_len: usize,
) -> c_int {
    // SAFETY: the state outlives the store, and the library passes two valid keys.
    let (greedy, a, b) = unsafe {
        (
            &*state.cast::<Greedy>(),
            std::slice::from_raw_parts(a.cast::<u8>(), a_len),
            std::slice::from_raw_parts(b.cast::<u8>(), b_len),
        )
    };
    let db = greedy.db.swap(null_mut(), std::sync::atomic::Ordering::Relaxed);
    // SAFETY: null, or an open store.
    if let Some(db) = unsafe { db.as_ref() } {
        let (mut value, mut len, mut message) = (null_mut(), 0, null_mut());
        // SAFETY: borrowed bytes, and places for the results.
        let codes = unsafe {
            [
                esker_get(
                    Some(db),
                    None,
                    b"a".as_ptr(),
                    1,
                    Some(&mut value),
                    Some(&mut len),
                    Some(&mut message),
                ),
                esker_put(Some(db), b"c".as_ptr(), 1, null(), 0, 0, None),
                esker_flush(Some(db), None),
                esker_close(Some(db), None),
            ]
        };
        assert!(taken(&mut message).contains("must not use its own store"));
        greedy.codes.lock().unwrap().extend(codes);
    }
    a.cmp(b) as c_int
}

#[test]
fn comparator_that_calls_its_own_store_is_refused_without_deadlock() {
    let dir = tempfile::tempdir().unwrap();
    let path = c_path(&dir.path().join("db"));
    let greedy = Greedy::default();
    let mut options = esker_options_t::default();
    let mut db = null_mut();
    // SAFETY: the state, the options and the texts outlive the store.
    unsafe {
        let state = std::ptr::from_ref(&greedy).cast_mut().cast();
        let given = esker_options_set_comparator(
            Some(&mut options),
            state,
            None,
            Some(greedy_compare),
            Some(greedy_name),
            None,
        );
        assert_eq!(given, 0);
        assert_eq!(esker_open(path.as_ptr(), Some(&options), Some(&mut db), None), 0);
        assert_eq!(esker_put(db.as_ref(), b"a".as_ptr(), 1, null(), 0, 0, None), 0);
        greedy.db.store(db, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(esker_put(db.as_ref(), b"b".as_ptr(), 1, null(), 0, 0, None), 0);
        assert_eq!(*greedy.codes.lock().unwrap(), [INVALID; 4]);
        let (mut value, mut len) = (null_mut(), 0);
        greedy.db.store(db, std::sync::atomic::Ordering::Relaxed);
        let got =
            esker_get(db.as_ref(), None, b"b".as_ptr(), 1, Some(&mut value), Some(&mut len), None);
        assert!(got == 0 && !value.is_null());
        esker_free(value.cast());
        assert_eq!(*greedy.codes.lock().unwrap(), [INVALID; 8]);
        assert_eq!(esker_close(db.as_ref(), None), 0);
        esker_db_destroy(Some(Box::from_raw(db)));
    }
}
