//! Backups and the text of the metrics through the C interface, on the file system in memory.
//!
//! Invariants: each handle is freed once, and each code is checked.

#[allow(dead_code, reason = "these tests use a part of the helpers")]
mod common;
#[allow(dead_code, reason = "as above")]
mod keyspace_handles;
#[allow(dead_code, reason = "as above")]
mod transaction_handles;

use std::ffi::{CStr, CString, c_void};
use std::ptr::null_mut;

use common::taken;
use esker_c::own::backup::*;
use esker_c::own::options::*;
use esker_c::own::store::*;
use keyspace_handles::{Store, options_in};
use transaction_handles::{put, value_of};

const OK: i32 = 0;
const INVALID: i32 = 1;
const INCOMPATIBLE: i32 = 6;
const CLOSED: i32 = 8;
const NOT_FOUND: i32 = 10;
const BACKUPS: &CStr = c"/backups";

/// What a call of `esker_backups` has listed.
type Listed = Vec<(u64, String, u64, u64)>;

unsafe extern "C" fn keep(state: *mut c_void, backup: *const esker_backup_info_t) {
    // SAFETY: the state is a list; the backup and its texts are valid during the call.
    unsafe {
        let backup = &*backup;
        assert!(backup.created_ms > 0 && backup.problem.is_null());
        assert!(backup.has_store == 1 && backup.store_id != 0);
        assert_eq!(CStr::from_ptr(backup.store_path), c"/store");
        let path = CStr::from_ptr(backup.path).to_str().unwrap().to_string();
        (*state.cast::<Listed>()).push((backup.number, path, backup.tables, backup.table_bytes));
    }
}

fn listed(options: &esker_options_t) -> Listed {
    let mut list: Listed = Vec::new();
    // SAFETY: a borrowed string; the list outlives the call.
    let code = unsafe {
        let state = (&raw mut list).cast();
        esker_backups(BACKUPS.as_ptr(), Some(options), state, Some(keep), None)
    };
    assert_eq!(code, OK);
    list
}

fn backup(store: &Store, take_over: u8) -> (i32, u64, u64) {
    let (mut number, mut copied) = (0, 0);
    let (n, c) = (Some(&mut number), Some(&mut copied));
    // SAFETY: a borrowed string.
    let code = unsafe { esker_backup(store.get(), BACKUPS.as_ptr(), take_over, n, c, None) };
    (code, number, copied)
}

fn restore(options: &esker_options_t, number: u64, into: &str) -> (i32, u64) {
    let (into, mut from) = (CString::new(into).unwrap(), 7);
    // SAFETY: borrowed strings.
    let code = unsafe {
        let (path, into, from) = (BACKUPS.as_ptr(), into.as_ptr(), Some(&mut from));
        esker_restore(path, number, into, Some(options), from, None)
    };
    (code, from)
}

#[test]
fn backups_are_made_listed_pruned_and_restored() {
    let memory = esker_memory_create();
    let options = options_in(&memory);
    let store = Store::open(&options).unwrap();
    put(&store, "a", "1");
    let (code, number, copied) = backup(&store, 0);
    assert!(code == OK && number == 1 && copied > 0);
    let (code, number, copied) = backup(&store, 0);
    assert_eq!((code, number, copied), (OK, 2, 0), "a table is copied once");
    put(&store, "b", "2");
    assert_eq!(backup(&store, 0).1, 3);
    put(&store, "c", "3");
    let list = listed(&options);
    assert_eq!(list.iter().map(|(number, ..)| *number).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(list[2].1, "/backups/backup-000003");
    assert!(list[2].2 > list[0].2 && list[2].3 > list[0].3);
    let mut removed = 7;
    // SAFETY: a borrowed string.
    unsafe {
        let (path, o) = (BACKUPS.as_ptr(), Some(&*options));
        assert_eq!(esker_prune_backups(path, o, 0, Some(&mut removed), None), INVALID);
        assert_eq!(removed, 7);
        assert_eq!(esker_prune_backups(path, o, 2, Some(&mut removed), None), OK);
        assert_eq!(removed, 1);
        assert_eq!(esker_prune_backups(path, o, 2, None, None), OK);
        let nowhere = c"/nowhere".as_ptr();
        assert_eq!(esker_prune_backups(nowhere, o, 1, None, None), NOT_FOUND);
        assert_eq!(esker_backups(nowhere, o, null_mut(), Some(keep), None), NOT_FOUND);
        assert_eq!(esker_backup(store.get(), c"/store".as_ptr(), 0, None, None, None), INVALID);
    }
    assert_eq!(listed(&options).len(), 2);
    assert_eq!(restore(&options, 1, "/restored"), (NOT_FOUND, 7));
    assert_eq!(restore(&options, 0, "/restored"), (OK, 3));
    assert_eq!(restore(&options, 0, "/restored"), (INVALID, 7), "the directory exists");
    assert_eq!(restore(&options, 2, "/older"), (OK, 2));
    drop(store);
    for (path, b) in [("/restored", "2"), ("/older", "none")] {
        let store = Store::open_at(path, &options).unwrap();
        let values = ["a", "b", "c"].map(|key| value_of(&store, key));
        assert_eq!(values, ["1", b, "none"]);
        assert_eq!(backup(&store, 0).0, INCOMPATIBLE, "the directory is of another store");
    }
    let store = Store::open_at("/restored", &options).unwrap();
    assert_eq!(backup(&store, 1).0, OK, "the store takes the directory over");
    // SAFETY: alive.
    assert_eq!(unsafe { esker_close(store.get(), None) }, OK);
    assert_eq!(backup(&store, 0).0, CLOSED);
}

#[test]
fn metrics_are_given_as_openmetrics_text() {
    let store = Store::new();
    put(&store, "a", "1");
    let (mut text, mut after, mut message) = (null_mut(), null_mut(), null_mut());
    // SAFETY: the text is freed by `taken`.
    unsafe {
        assert_eq!(esker_openmetrics(store.get(), Some(&mut text), None), OK);
        let text = taken(&mut text);
        assert!(text.contains("\nesker_user_ops_total 1\n") && text.ends_with("# EOF\n"), "{text}");
        assert_eq!(esker_close(store.get(), None), OK);
        let code = esker_openmetrics(store.get(), Some(&mut after), Some(&mut message));
        assert!(code == CLOSED && after.is_null());
        assert!(taken(&mut message).contains("closed"));
    }
}
