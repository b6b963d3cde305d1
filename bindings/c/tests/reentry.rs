//! Tests caller-supplied functions that use their own store.
//!
//! Invariant: such a call is refused, and does not wait for the enclosing call.

mod common;

use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use common::{c_path, compared, taken};
use esker_c::own::common::*;
use esker_c::own::db::*;
use esker_c::own::iter::*;
use esker_c::own::keyspace::*;
use esker_c::own::keyspace_data::*;
use esker_c::own::options::*;
use esker_c::own::read::*;
use esker_c::own::store::*;
use esker_c::own::transaction::*;
use esker_c::own::transaction_data::*;

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
    let (greedy, (a, b)) = unsafe { (&*state.cast::<Greedy>(), compared(a, a_len, b, b_len)) };
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
            1,
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

/// State of a comparator of a keyspace that uses its own store and keyspace.
#[derive(Default)]
struct GreedyInKeyspace {
    handles: std::sync::Mutex<Option<(usize, usize)>>,
    codes: std::sync::Mutex<Vec<i32>>,
}

unsafe extern "C" fn compare_in_keyspace(
    state: *mut c_void,
    a: *const c_char,
    a_len: usize,
    b: *const c_char,
    b_len: usize,
) -> c_int {
    // SAFETY: the state outlives the store, and the library passes two valid keys.
    let (greedy, (a, b)) =
        unsafe { (&*state.cast::<GreedyInKeyspace>(), compared(a, a_len, b, b_len)) };
    let handles = greedy.handles.lock().unwrap().take();
    if let Some((db, keyspace)) = handles {
        let (mut message, mut other) = (null_mut(), null_mut());
        // SAFETY: handles of an open store and of its keyspace; borrowed bytes, and places for the
        // results.
        let codes = unsafe {
            let db = std::ptr::with_exposed_provenance::<esker_db_t>(db).as_ref();
            let keyspace = std::ptr::with_exposed_provenance::<esker_keyspace_t>(keyspace).as_ref();
            let (key, place) = (b"c".as_ptr(), Some(&mut message));
            [
                esker_keyspace_put(keyspace, key, 1, null(), 0, 0, place),
                esker_keyspace_remove(keyspace, key, 1, None, None),
                esker_keyspace_clear(keyspace, None),
                esker_keyspace_multi_get(
                    keyspace,
                    None,
                    1,
                    0,
                    null(),
                    null(),
                    null_mut(),
                    null_mut(),
                    None,
                ),
                esker_keyspace_find(db, c"default".as_ptr(), Some(&mut other), None),
                esker_keyspace_drop(db, c"greedy".as_ptr(), None),
                esker_put(db, key, 1, null(), 0, 0, None),
                esker_close(db, None),
            ]
        };
        assert!(taken(&mut message).contains("must not use its own store"));
        greedy.codes.lock().unwrap().extend(codes);
    }
    a.cmp(b) as c_int
}

#[test]
fn comparator_of_a_keyspace_that_uses_its_store_or_keyspace_is_refused_without_deadlock() {
    let dir = tempfile::tempdir().unwrap();
    let path = c_path(&dir.path().join("db"));
    let greedy = GreedyInKeyspace::default();
    let mut options = esker_options_t::default();
    let mut in_keyspace = esker_keyspace_options_t::default();
    let (mut db, mut keyspace) = (null_mut(), null_mut());
    // SAFETY: the state, the options and the texts outlive the store.
    unsafe {
        let state = std::ptr::from_ref(&greedy).cast_mut().cast();
        let (compare, name) = (Some(compare_in_keyspace as _), Some(greedy_name as _));
        let added =
            esker_options_add_comparator(Some(&mut options), state, None, compare, 0, name, None);
        assert_eq!(added, 0);
        let name = c"test.greedy".as_ptr();
        assert_eq!(esker_keyspace_options_set_key_order(Some(&mut in_keyspace), name, None), 0);
        assert_eq!(esker_open(path.as_ptr(), Some(&options), Some(&mut db), None), 0);
        let (name, place) = (c"greedy".as_ptr(), Some(&mut keyspace));
        assert_eq!(esker_keyspace_open(db.as_ref(), name, Some(&in_keyspace), place, None), 0);
        let handles = (db.expose_provenance(), keyspace.expose_provenance());
        let put = |key: &[u8]| {
            esker_keyspace_put(keyspace.as_ref(), key.as_ptr(), key.len(), null(), 0, 0, None)
        };
        assert_eq!(put(b"a"), 0);
        *greedy.handles.lock().unwrap() = Some(handles);
        assert_eq!(put(b"b"), 0);
        assert_eq!(*greedy.codes.lock().unwrap(), [INVALID; 8]);
        // A write to another keyspace calls no comparator.
        *greedy.handles.lock().unwrap() = Some(handles);
        assert_eq!(esker_put(db.as_ref(), b"a".as_ptr(), 1, null(), 0, 0, None), 0);
        assert!(greedy.handles.lock().unwrap().take().is_some());
        assert_eq!(esker_close(db.as_ref(), None), 0);
        esker_keyspace_close(Some(Box::from_raw(keyspace)));
        esker_db_destroy(Some(Box::from_raw(db)));
    }
}

/// State of a comparator that uses the transaction whose call compares keys.
#[derive(Default)]
struct GreedyInTransaction {
    /// Addresses of the store, of the transaction and of its iterator.
    handles: std::sync::Mutex<Option<(usize, usize, usize)>>,
    codes: std::sync::Mutex<Vec<i32>>,
}

unsafe extern "C" fn compare_in_transaction(
    state: *mut c_void,
    a: *const c_char,
    a_len: usize,
    b: *const c_char,
    b_len: usize,
) -> c_int {
    // SAFETY: the state outlives the store, and the library passes two valid keys.
    let (greedy, (a, b)) =
        unsafe { (&*state.cast::<GreedyInTransaction>(), compared(a, a_len, b, b_len)) };
    let handles = greedy.handles.lock().unwrap().take();
    if let Some((db, transaction, iter)) = handles {
        let (mut value, mut len, mut message) = (null_mut(), 0, null_mut());
        let (mut other, mut new_iter) = (null_mut(), null_mut());
        // SAFETY: handles of an open store, of its transaction and of an iterator that no other
        // call uses; borrowed bytes, and places for the results.
        let codes = unsafe {
            let db = std::ptr::with_exposed_provenance::<esker_db_t>(db).as_ref();
            let t = std::ptr::with_exposed_provenance::<esker_transaction_t>(transaction).as_ref();
            let iter = std::ptr::with_exposed_provenance_mut::<esker_iter_t>(iter);
            let (k, n, place) = (b"c".as_ptr(), null(), (Some(&mut value), Some(&mut len)));
            esker_iter_seek_to_first(iter.as_mut());
            [
                esker_transaction_put(t, k, 1, n, 0, Some(&mut message)),
                esker_transaction_get(t, k, 1, place.0, place.1, None),
                esker_transaction_delete_range(t, k, 1, k, 1, None),
                esker_transaction_iter_create(t, n, 0, n, 0, Some(&mut new_iter), None),
                esker_transaction_savepoint(t, None),
                esker_transaction_prepare(t, c"name".as_ptr(), None),
                esker_transaction_commit(t, None),
                esker_transaction_rollback(t, None),
                esker_transaction_begin(db, None, Some(&mut other), None),
                esker_iter_failure(iter.as_ref(), None),
            ]
        };
        assert!(taken(&mut message).contains("must not use its own store"));
        assert!(other.is_null() && new_iter.is_null());
        greedy.codes.lock().unwrap().extend(codes);
    }
    a.cmp(b) as c_int
}

#[test]
fn comparator_that_uses_the_transaction_that_called_it_is_refused_without_deadlock() {
    let dir = tempfile::tempdir().unwrap();
    let path = c_path(&dir.path().join("db"));
    let greedy = GreedyInTransaction::default();
    let mut options = esker_options_t::default();
    let (mut db, mut t, mut iter) = (null_mut(), null_mut(), null_mut());
    // SAFETY: the state, the options and the texts outlive the store.
    unsafe {
        let state = std::ptr::from_ref(&greedy).cast_mut().cast();
        let (compare, name) = (Some(compare_in_transaction as _), Some(greedy_name as _));
        let place = Some(&mut options);
        assert_eq!(esker_options_set_comparator(place, state, None, compare, 0, name, None), 0);
        assert_eq!(esker_open(path.as_ptr(), Some(&options), Some(&mut db), None), 0);
        assert_eq!(esker_transaction_begin(db.as_ref(), None, Some(&mut t), None), 0);
        let put = |key: &[u8]| {
            esker_transaction_put(t.as_ref(), key.as_ptr(), key.len(), null(), 0, None)
        };
        assert_eq!((put(b"a"), put(b"d")), (0, 0));
        let (n, place) = (null(), Some(&mut iter));
        assert_eq!(esker_transaction_iter_create(t.as_ref(), n, 0, n, 0, place, None), 0);
        let addresses = (db.expose_provenance(), t.expose_provenance(), iter.expose_provenance());
        *greedy.handles.lock().unwrap() = Some(addresses);
        assert_eq!(put(b"b"), 0);
        assert_eq!(*greedy.codes.lock().unwrap(), [INVALID; 10]);
        esker_iter_seek_to_first(iter.as_mut());
        assert_eq!(
            (esker_iter_failure(iter.as_ref(), None), esker_iter_valid(iter.as_ref())),
            (0, 1)
        );
        *greedy.handles.lock().unwrap() = Some(addresses);
        assert_eq!(esker_transaction_commit(t.as_ref(), None), 0);
        *greedy.handles.lock().unwrap() = None;
        assert_eq!(esker_close(db.as_ref(), None), 0);
        esker_iter_destroy(Some(Box::from_raw(iter)));
        esker_transaction_destroy(Some(Box::from_raw(t)));
        esker_db_destroy(Some(Box::from_raw(db)));
    }
}
