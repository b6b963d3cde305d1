//! What a store and its options consist of, through the C interface.
//!
//! Invariants: each handle and each text is freed once, and each code is checked.

#[allow(dead_code, reason = "these tests use a part of the helpers")]
mod common;
#[allow(dead_code, reason = "as above")]
mod keyspace_handles;

use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};

use common::taken;
use esker_c::own::inspect::*;
use esker_c::own::options::*;
use esker_c::own::store::*;
use keyspace_handles::{Space, Store, options_in};

const OK: i32 = 0;
const INVALID: i32 = 1;
const CLOSED: i32 = 8;

/// Tree, level, smallest and largest key of each table.
type Tables = Vec<(u64, u64, Vec<u8>, Vec<u8>)>;

unsafe extern "C" fn keep_table(state: *mut c_void, table: *const esker_table_t) {
    // SAFETY: the state is a list; the table and its keys are valid during the call.
    unsafe {
        let table = &*table;
        assert!(table.number > 0 && table.size_bytes > 0 && table.raw_bytes > 0);
        assert!(table.entries == 2 && table.deletes == 1 && table.range_deletes == 0);
        let smallest = std::slice::from_raw_parts(table.smallest, table.smallest_len).to_vec();
        let largest = std::slice::from_raw_parts(table.largest, table.largest_len).to_vec();
        (*state.cast::<Tables>()).push((table.tree, table.level, smallest, largest));
    }
}

fn tables(store: &Store) -> Tables {
    let mut list = Tables::new();
    // SAFETY: the list outlives the call.
    let code = unsafe { esker_tables(store.get(), (&raw mut list).cast(), Some(keep_table), None) };
    assert_eq!(code, OK);
    list
}

fn metric(store: &Store, level: Option<usize>, name: &CStr) -> Result<u64, String> {
    let (mut value, mut message) = (7, null_mut());
    let (place, report) = (Some(&mut value), Some(&mut message));
    // SAFETY: a borrowed string.
    let code = unsafe {
        match level {
            None => esker_metric(store.get(), name.as_ptr(), place, report),
            Some(level) => esker_level_metric(store.get(), level, name.as_ptr(), place, report),
        }
    };
    assert_eq!(code == OK, message.is_null());
    if code == OK { Ok(value) } else { Err(taken(&mut message)) }
}

/// Writes an entry and a delete to a keyspace.
fn fill(space: &Space) {
    assert_eq!(space.put("a", "1"), OK);
    // SAFETY: a borrowed buffer.
    let code = unsafe {
        esker_c::own::keyspace_data::esker_keyspace_delete(space.get(), b"b".as_ptr(), 1, 0, None)
    };
    assert_eq!(code, OK);
}

#[test]
fn tables_and_metrics_of_all_keyspaces_are_shown() {
    let store = Store::new();
    assert!(tables(&store).is_empty());
    let (own, default) = (store.keyspace("own", None).unwrap(), store.find("default").unwrap());
    fill(&own);
    fill(&default);
    // SAFETY: an open store.
    unsafe { assert_eq!(esker_flush(store.get(), None), OK) };
    let found = tables(&store);
    assert_eq!(found.len(), 2);
    assert_eq!((found[0].0, &found[0].2[..], &found[0].3[..]), (0, &b"a"[..], &b"b"[..]));
    assert!(found[1].0 > 0 && found[1].2.len() == 5 && found[1].2.ends_with(b"a"));
    assert_eq!(metric(&store, None, c"user_ops"), Ok(4));
    assert!(metric(&store, None, c"memory.cache_capacity_bytes").is_ok_and(|bytes| bytes > 0));
    let level = found[0].1 as usize;
    assert!(metric(&store, Some(level), c"levels.bytes").is_ok_and(|bytes| bytes > 0));
    for name in [c"none", c"levels.bytes", c"memory.none", c"cache_capacity_bytes", c""] {
        let message = metric(&store, None, name).unwrap_err();
        assert!(message.contains("docs/metrics.md"), "{message}");
    }
    assert!(metric(&store, Some(0), c"user_ops").unwrap_err().contains("of levels"));
    assert!(metric(&store, Some(99), c"levels.bytes").unwrap_err().contains("no level 99"));
    // SAFETY: an open store.
    unsafe { assert_eq!(esker_compact_all(store.get(), None), OK) };
    // Deletes are dropped at the deepest level.
    assert_eq!(metric(&store, Some(0), c"levels.bytes"), Ok(0));
    let (mut path, mut after) = (null_mut(), null_mut());
    // SAFETY: texts are freed by `taken`.
    unsafe {
        assert_eq!(esker_path(store.get(), Some(&mut path), None), OK);
        assert_eq!(taken(&mut path), "/store");
        assert_eq!(esker_close(store.get(), None), OK);
        assert_eq!(esker_path(store.get(), Some(&mut after), None), CLOSED);
        assert_eq!(esker_compact_all(store.get(), None), CLOSED);
        assert_eq!(esker_tables(store.get(), null_mut(), Some(keep_table), None), CLOSED);
        assert!(after.is_null());
    }
    assert!(metric(&store, None, c"user_ops").unwrap_err().contains("closed"));
}

fn option(store: &Store, name: &CStr) -> String {
    // SAFETY: a borrowed string; the text is freed.
    taken(&mut unsafe { esker_property(store.get(), name.as_ptr()) })
}

#[test]
fn several_options_are_changed_together_or_not_at_all() {
    let store = Store::new();
    let set = |pairs: &[(&CStr, &CStr)]| {
        let names: Vec<*const c_char> = pairs.iter().map(|pair| pair.0.as_ptr()).collect();
        let values: Vec<*const c_char> = pairs.iter().map(|pair| pair.1.as_ptr()).collect();
        let (mut message, n, v) = (null_mut(), names.as_ptr(), values.as_ptr());
        // SAFETY: arrays of borrowed strings.
        let code = unsafe { esker_set_options(store.get(), pairs.len(), n, v, Some(&mut message)) };
        (code, taken(&mut message))
    };
    assert_eq!(set(&[(c"policy", c"leveled"), (c"fan_out", c"7")]), (OK, String::new()));
    assert_eq!(option(&store, c"esker.option.fan_out"), "7");
    let (code, message) = set(&[(c"fan_out", c"9"), (c"format_version", c"2")]);
    assert!(code == INVALID && message.contains("format_version"), "{message}");
    assert_eq!(set(&[(c"fan_out", c"9"), (c"none", c"1")]).0, INVALID);
    assert_eq!(option(&store, c"esker.option.fan_out"), "7");
    assert_eq!(set(&[]).0, OK);
    // SAFETY: null arrays are refused.
    unsafe {
        assert_eq!(esker_set_options(store.get(), 0, null(), null(), None), OK);
        assert_eq!(esker_set_options(store.get(), 1, null(), null(), None), INVALID);
        let names = [null()];
        assert_eq!(
            esker_set_options(store.get(), 1, names.as_ptr(), names.as_ptr(), None),
            INVALID
        );
    }
}

/// Name, default, and whether it can be changed and be of keyspaces.
type Options = Vec<(String, String, bool, bool)>;

unsafe extern "C" fn keep_option(state: *mut c_void, option: *const esker_option_t) {
    // SAFETY: the state is a list; the option and its texts are valid during the call.
    unsafe {
        let option = &*option;
        let text = |text: *const c_char| CStr::from_ptr(text).to_str().unwrap().to_string();
        assert!(!text(option.range).is_empty() && !text(option.description).is_empty());
        let _ = text(option.unit);
        let is = (option.is_changeable == 1, option.is_of_keyspaces == 1);
        (*state.cast::<Options>()).push((
            text(option.name),
            text(option.default_value),
            is.0,
            is.1,
        ));
    }
}

#[test]
fn every_option_is_described_as_it_is() {
    let mut list = Options::new();
    // SAFETY: the list outlives the call.
    unsafe {
        assert_eq!(esker_options_visit((&raw mut list).cast(), Some(keep_option), None), OK);
        assert_eq!(esker_options_visit(null_mut(), None, None), INVALID);
    }
    let is = |name: &str| list.iter().find(|option| option.0 == name).map(|o| (o.2, o.3)).unwrap();
    assert_eq!((is("fan_out"), is("format_version")), ((true, true), (false, false)));
    let options = options_in(&esker_memory_create());
    for (name, default, ..) in list {
        let name = std::ffi::CString::new(name).unwrap();
        // SAFETY: a borrowed string; the text is freed.
        let mut value = unsafe { esker_options_get(Some(&options), name.as_ptr()) };
        assert_eq!(taken(&mut value), default, "{name:?}");
    }
}
