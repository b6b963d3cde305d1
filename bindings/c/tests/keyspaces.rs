//! Keyspaces through the C interface: handles, data, batches, snapshots, key orders, and what
//! wrong calls get.
//!
//! Invariants: each handle is freed once, and each code is checked.

mod common;
mod keyspace_handles;

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use common::{compared, taken};
use esker_c::own::batch::*;
use esker_c::own::common::*;
use esker_c::own::keyspace::*;
use esker_c::own::keyspace_data::*;
use esker_c::own::merge_and_ttl::*;
use esker_c::own::options::*;
use esker_c::own::read::*;
use keyspace_handles::{Space, Store, keys_of, options_in};

const OK: i32 = 0;
const INVALID: i32 = 1;
const INCOMPATIBLE: i32 = 6;
const CLOSED: i32 = 8;
const NOT_FOUND: i32 = 10;

unsafe extern "C" fn by_length(
    _state: *mut c_void,
    a: *const c_char,
    a_len: usize,
    b: *const c_char,
    b_len: usize,
) -> c_int {
    // SAFETY: the arguments of this call.
    let (a, b) = unsafe { compared(a, a_len, b, b_len) };
    a_len.cmp(&b_len).then_with(|| a.cmp(b)) as c_int
}

unsafe extern "C" fn by_length_name(_state: *mut c_void) -> *const c_char {
    c"test.by_length".as_ptr()
}

unsafe extern "C" fn count_down(state: *mut c_void) {
    // SAFETY: the test passes a counter that outlives the store.
    unsafe { *state.cast::<i32>() -= 1 }
}

/// Adds the order by length to `options`. Its destructor decrements `alive`.
fn add_by_length(options: &mut esker_options_t, alive: *mut i32) {
    // SAFETY: the counter outlives every object that may decrement it.
    let added = unsafe {
        esker_options_add_comparator(
            Some(options),
            alive.cast(),
            Some(count_down),
            Some(by_length),
            1,
            Some(by_length_name),
            None,
        )
    };
    assert_eq!(added, OK);
}

/// Returns options of a keyspace with a key order and an option.
fn kind(order: Option<&str>, option: Option<(&str, &str)>) -> Box<esker_keyspace_options_t> {
    let mut options = esker_keyspace_options_create();
    // SAFETY: borrowed strings.
    unsafe {
        if let Some(order) = order {
            let order = CString::new(order).unwrap();
            let set =
                esker_keyspace_options_set_key_order(Some(&mut options), order.as_ptr(), None);
            assert_eq!(set, OK);
        }
        if let Some((name, value)) = option {
            let (name, value) = (CString::new(name).unwrap(), CString::new(value).unwrap());
            let (name, value) = (name.as_ptr(), value.as_ptr());
            assert_eq!(esker_keyspace_options_set(Some(&mut options), name, value, None), OK);
        }
    }
    options
}

#[test]
fn keyspaces_hold_their_own_pairs() {
    let store = Store::new();
    let (users, mails) =
        (store.keyspace("users", None).unwrap(), store.keyspace("mails", None).unwrap());
    let default = store.keyspace("default", None).unwrap();
    assert_eq!((default.id(), default.name().as_str()), (0, "default"));
    for key in ["a", "b", "c", "d"] {
        assert_eq!(users.put(key, "user"), OK);
    }
    assert_eq!(mails.put("a", "mail"), OK);
    assert_eq!(default.put("a", "default"), OK);
    assert_eq!(users.value("a").unwrap(), "user");
    assert_eq!(mails.value("a").unwrap(), "mail");
    assert_eq!(mails.value("b").unwrap(), "none");
    let (mut found, mut existed) = (7, 7);
    // SAFETY: borrowed buffers.
    unsafe {
        let has = |space: &Space, key: &str, found: &mut u8| {
            esker_keyspace_contains(space.get(), None, key.as_ptr(), key.len(), Some(found), None)
        };
        assert_eq!((has(&users, "b", &mut found), found), (OK, 1));
        assert_eq!((has(&mails, "b", &mut found), found), (OK, 0));
        let key = b"a".as_ptr();
        for expected in [1, 0] {
            let place = Some(&mut existed);
            assert_eq!(esker_keyspace_remove(users.get(), key, 1, place, None), OK);
            assert_eq!(existed, expected);
        }
        assert_eq!(esker_keyspace_remove(users.get(), key, 1, None, None), OK);
        assert_eq!(esker_keyspace_delete(users.get(), b"b".as_ptr(), 1, 3, None), OK);
        assert_eq!(esker_keyspace_delete(users.get(), b"none".as_ptr(), 4, 0, None), OK);
        assert_eq!(users.keys(), ["c", "d"]);
        let (c, d) = (b"c".as_ptr(), b"d".as_ptr());
        assert_eq!(esker_keyspace_delete_range(users.get(), c, 1, d, 1, 2, None), OK);
        assert_eq!(users.keys(), ["d"]);
        assert_eq!(esker_keyspace_clear(users.get(), None), OK);
        let mut message = null_mut();
        assert_eq!(esker_keyspace_clear(default.get(), Some(&mut message)), INVALID);
        assert!(taken(&mut message).contains("greatest key"));
    }
    assert!(users.keys().is_empty());
    assert_eq!((mails.keys().len(), default.keys().len()), (1, 1));
}

unsafe extern "C" fn keep(state: *mut c_void, value: *const u8, len: usize) {
    // SAFETY: the state is a buffer; the value is valid during the call.
    unsafe {
        let value = std::slice::from_raw_parts(value, len);
        (*state.cast::<Vec<u8>>()).extend_from_slice(value);
    }
}

#[test]
fn reads_of_a_keyspace_are_copied_visited_and_of_many_keys() {
    let store = Store::new();
    let space = store.keyspace("space", None).unwrap();
    for key in ["a", "b", "c"] {
        assert_eq!(space.put(key, &format!("value of {key}")), OK);
    }
    let mut seen: Vec<u8> = Vec::new();
    let keys = [b"c".as_ptr(), b"none".as_ptr(), b"a".as_ptr(), null()];
    let lens = [1, 4, 1, 0];
    let (mut values, mut value_lens) = ([null_mut(); 4], [7; 4]);
    // SAFETY: borrowed buffers and arrays of four items; values are freed.
    unsafe {
        let state = (&raw mut seen).cast();
        let visit = |key: &[u8]| {
            let (space, visit) = (space.get(), Some(keep as _));
            esker_keyspace_get_visit(space, None, 0, key.as_ptr(), key.len(), state, visit, None)
        };
        assert_eq!((visit(b"b"), visit(b"none")), (OK, OK));
        let (v, v_len) = (values.as_mut_ptr(), value_lens.as_mut_ptr());
        let many = |count, keys, lens, message: Option<&mut *mut c_char>| {
            esker_keyspace_multi_get(space.get(), None, 1, count, keys, lens, v, v_len, message)
        };
        assert_eq!(many(4, keys.as_ptr(), lens.as_ptr(), None), OK);
        let text = |at: usize| std::slice::from_raw_parts(*v.add(at), *v_len.add(at));
        assert_eq!((text(0), text(2)), (&b"value of c"[..], &b"value of a"[..]));
        assert!((*v.add(1)).is_null() && (*v.add(3)).is_null());
        assert_eq!((*v_len.add(1), *v_len.add(3)), (0, 0));
        (0..4).for_each(|at| esker_free((*v.add(at)).cast()));
        assert_eq!(many(0, null(), null(), None), OK);
        // Wrong arguments: no place keeps a value.
        let mut message = null_mut();
        let wrong = [1, usize::MAX, 1, 0];
        assert_eq!(many(4, keys.as_ptr(), wrong.as_ptr(), Some(&mut message)), INVALID);
        assert!(taken(&mut message).contains("cannot have"));
        assert!((0..4).all(|at| (*v.add(at)).is_null() && *v_len.add(at) == 0));
        assert_eq!(many(4, null(), lens.as_ptr(), None), INVALID);
        assert_eq!(many(4, keys.as_ptr(), null(), None), INVALID);
        let none: *mut usize = null_mut();
        let (k, l) = (keys.as_ptr(), lens.as_ptr());
        assert_eq!(esker_keyspace_multi_get(space.get(), None, 1, 4, k, l, v, none, None), INVALID);
        let count = usize::MAX;
        assert_eq!(
            esker_keyspace_multi_get(space.get(), None, 1, count, k, l, v, v_len, None),
            INVALID
        );
    }
    assert_eq!(seen, b"value of b");
    assert_eq!(keys_of(space.iter(Some("b"), Some("c"))), ["b"]);
    assert_eq!(keys_of(space.iter(None, Some("c"))), ["a", "b"]);
}

#[test]
fn keyspaces_are_found_listed_renamed_and_dropped() {
    let store = Store::new();
    assert_eq!(store.names(), "default");
    let first = store.keyspace("zebra", None).unwrap();
    let second = store.keyspace("antelope", None).unwrap();
    assert_eq!(store.names(), "default\nantelope\nzebra");
    assert_eq!(store.keyspace("zebra", None).unwrap().id(), first.id());
    assert_eq!(store.find("zebra").unwrap().id(), first.id());
    assert!(store.find("horse").is_none() && first.id() != second.id());
    store.rename("zebra", "horse").unwrap();
    assert_eq!(first.name(), "horse");
    assert_eq!(store.names(), "default\nantelope\nhorse");
    assert!(store.find("zebra").is_none());
    assert_eq!(store.rename("zebra", "x").unwrap_err().0, NOT_FOUND);
    assert_eq!(store.rename("horse", "antelope").unwrap_err().0, INVALID);
    assert_eq!(store.rename("default", "x").unwrap_err().0, INVALID);

    assert_eq!(first.put("k", "v"), OK);
    let open = first.iter(None, None);
    store.drop_keyspace("horse").unwrap();
    assert_eq!(store.drop_keyspace("horse").unwrap_err().0, NOT_FOUND);
    assert_eq!(store.drop_keyspace("default").unwrap_err().0, INVALID);
    assert_eq!((first.put("k", "v"), first.value("k")), (NOT_FOUND, Err(NOT_FOUND)));
    assert_eq!(first.name(), "horse");
    assert_eq!(keys_of(open), ["k"], "an iterator goes on");
    // SAFETY: no buffers are passed.
    assert_eq!(unsafe { esker_keyspace_clear(first.get(), None) }, NOT_FOUND);
    let again = store.keyspace("horse", None).unwrap();
    assert!(again.id() != first.id() && again.keys().is_empty());
    assert_eq!(store.names(), "default\nantelope\nhorse");
}

#[test]
fn keyspaces_are_compacted_and_measured() {
    let store = Store::new();
    let space = store.keyspace("space", Some(&kind(None, Some(("compression", "none"))))).unwrap();
    for number in 0..100 {
        assert_eq!(space.put(&format!("{number:03}"), &"v".repeat(1000)), OK);
    }
    let mut bytes = 0;
    // SAFETY: borrowed buffers.
    unsafe {
        let compact = |start: Option<&str>, end: Option<&str>| {
            let bound =
                |key: Option<&str>| key.map_or((null(), 0), |key| (key.as_ptr(), key.len()));
            let ((s, s_len), (e, e_len)) = (bound(start), bound(end));
            esker_keyspace_compact_range(space.get(), s, s_len, e, e_len, None)
        };
        assert_eq!(compact(None, None), OK);
        assert_eq!(esker_keyspace_size_bytes(space.get(), Some(&mut bytes), None), OK);
        assert!(bytes > 50_000, "{bytes}");
        assert_eq!(esker_keyspace_clear(space.get(), None), OK);
        assert_eq!((compact(Some("000"), Some("050")), compact(Some("050"), None)), (OK, OK));
        assert_eq!(compact(None, None), OK);
        assert_eq!(esker_keyspace_size_bytes(space.get(), Some(&mut bytes), None), OK);
        assert!(bytes < 50_000, "{bytes}");
        let default = store.find("default").unwrap();
        let code = esker_keyspace_size_bytes(default.get(), Some(&mut bytes), None);
        assert_eq!((code, bytes), (OK, 0));
    }
}

/// Records the operations of a batch as text.
unsafe extern "C" fn record(state: *mut c_void, operation: *const esker_operation_t) {
    // SAFETY: the state is a list; the operation and its buffers are valid during the call.
    unsafe {
        let esker_operation_t { kind, keyspace, key, key_len, value, value_len, ttl_ms } =
            *operation;
        assert_eq!(value.is_null(), kind == ESKER_OPERATION_DELETE);
        assert_eq!(ttl_ms, ESKER_NEVER_MS);
        let first = std::slice::from_raw_parts(key, key_len);
        let second = match value.is_null() {
            true => &[][..],
            false => std::slice::from_raw_parts(value, value_len),
        };
        let (first, second) = (first.escape_ascii(), second.escape_ascii());
        (*state.cast::<Vec<String>>()).push(format!("{keyspace} {kind} {first} {second}"));
    }
}

fn recorded(batch: &esker_batch_t) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    // SAFETY: the list outlives the call.
    unsafe {
        esker_batch_visit_keyspaces(Some(batch), (&raw mut seen).cast(), Some(record));
        esker_batch_visit_keyspaces(Some(batch), null_mut(), None);
    }
    seen
}

fn put_in(batch: &mut esker_batch_t, space: &Space, key: &str, value: &str) {
    let (k, v) = (key.as_ptr(), value.as_ptr());
    let (batch, space) = (Some(batch), space.get());
    // SAFETY: borrowed buffers.
    let code = unsafe { esker_batch_put_in(batch, space, k, key.len(), v, value.len(), None) };
    assert_eq!(code, OK);
}

#[test]
fn batch_over_keyspaces_is_applied_as_a_whole_and_shows_their_numbers() {
    let (store, other) = (Store::new(), Store::new());
    let (left, right) =
        (store.keyspace("left", None).unwrap(), store.keyspace("right", None).unwrap());
    let default = store.find("default").unwrap();
    for key in ["a", "b", "c"] {
        assert_eq!((left.put(key, "1"), right.put(key, "1")), (OK, OK));
    }
    let mut snapshot = null_mut();
    let mut batch = esker_batch_t::default();
    // SAFETY: borrowed buffers and handles; the snapshot is freed at the end.
    unsafe {
        assert_eq!(esker_snapshot_create(store.get(), Some(&mut snapshot), None), OK);
        put_in(&mut batch, &left, "a", "2");
        put_in(&mut batch, &default, "a", "2");
        let (b, d) = (b"b".as_ptr(), b"d".as_ptr());
        assert_eq!(esker_batch_delete_in(Some(&mut batch), right.get(), b, 1, None), OK);
        let place = Some(&mut batch);
        assert_eq!(esker_batch_delete_range_in(place, left.get(), b, 1, d, 1, None), OK);
        assert_eq!(esker_batch_put(Some(&mut batch), d, 1, null(), 0, None), OK);
    }
    let (l, r) = (left.id(), right.id());
    let expected =
        [format!("{l} 1 a 2"), "0 1 a 2".into(), format!("{r} 2 b "), format!("{l} 3 b d")];
    assert_eq!(recorded(&batch)[..4], expected);
    assert_eq!(recorded(&batch)[4], "0 1 d ");
    assert_eq!(store.write(&batch), OK);
    assert_eq!(left.keys(), ["a"]);
    assert_eq!(right.keys(), ["a", "c"]);
    assert_eq!(default.keys(), ["a", "d"]);
    // SAFETY: alive until it is freed here.
    unsafe {
        let before = snapshot.as_ref();
        let values = [left.value_at(before, "a"), left.value_at(before, "b")];
        assert_eq!(values.map(Result::unwrap), ["1", "1"]);
        assert_eq!(right.value_at(before, "b").unwrap(), "1");
        assert_eq!(default.value_at(before, "a").unwrap(), "none");
        esker_snapshot_destroy(Some(Box::from_raw(snapshot)));
    }
    assert_eq!(other.write(&batch), INVALID, "the keyspaces are of another store");
    store.drop_keyspace("right").unwrap();
    esker_batch_clear(Some(&mut batch));
    put_in(&mut batch, &left, "new", "3");
    put_in(&mut batch, &right, "new", "3");
    assert_eq!(store.write(&batch), NOT_FOUND, "a keyspace was dropped");
    assert_eq!(left.value("new").unwrap(), "none");
}

#[test]
fn key_orders_of_keyspaces_are_named_and_their_functions_are_freed_once() {
    let memory = esker_memory_create();
    let mut alive = 2;
    let mut options = options_in(&memory);
    add_by_length(&mut options, &raw mut alive);
    let store = Store::open(&options).unwrap();
    let sizes = store.keyspace("sizes", Some(&kind(Some("test.by_length"), None))).unwrap();
    let backwards = store.keyspace("backwards", Some(&kind(Some("esker.reverse"), None))).unwrap();
    let plain = store.keyspace("plain", Some(&kind(Some("esker.bytewise"), None))).unwrap();
    for key in ["bb", "a", "ccc", "", "c"] {
        assert_eq!((sizes.put(key, "v"), backwards.put(key, "v")), (OK, OK));
        assert_eq!(plain.put(key, "v"), OK);
    }
    assert_eq!(sizes.keys(), ["", "a", "c", "bb", "ccc"]);
    assert_eq!(backwards.keys(), ["ccc", "c", "bb", "a", ""]);
    assert_eq!(plain.keys(), ["", "a", "bb", "c", "ccc"]);
    assert_eq!(keys_of(sizes.iter(Some("b"), Some("ccc"))), ["c", "bb"]);
    let unknown = store.keyspace("x", Some(&kind(Some("test.unknown"), None))).unwrap_err();
    assert_eq!(unknown.0, INVALID);
    assert!(unknown.1.contains("test.unknown") && unknown.1.contains("test.by_length"));
    let other = store.keyspace("sizes", None).unwrap_err();
    assert!(other.0 == INVALID && other.1.contains("test.by_length"), "{other:?}");
    assert_eq!(store.find("sizes").unwrap().keys().len(), 5);

    drop(store);
    esker_options_destroy(Some(options));
    assert_eq!(alive, 2, "a keyspace holds the functions of its order");
    drop((sizes, backwards, plain));
    assert_eq!(alive, 1, "the destructor ran once");

    let without = Store::open(&options_in(&memory)).unwrap_err();
    assert!(without.0 == INCOMPATIBLE && without.1.contains("test.by_length"), "{without:?}");
    let mut options = options_in(&memory);
    add_by_length(&mut options, &raw mut alive);
    let store = Store::open(&options).unwrap();
    esker_options_destroy(Some(options));
    assert_eq!(store.find("sizes").unwrap().keys(), ["", "a", "c", "bb", "ccc"]);
    drop(store);
    assert_eq!(alive, 0);
}

#[test]
fn keyspace_handles_outlive_their_store_and_do_not_keep_it_open() {
    let memory = esker_memory_create();
    let options = options_in(&memory);
    let store = Store::open(&options).unwrap();
    let space = store.keyspace("space", None).unwrap();
    assert_eq!(space.put("k", "v"), OK);
    let open = space.iter(None, None);
    drop(store);
    assert_eq!(keys_of(open), ["k"], "an iterator goes on");
    let again = Store::open(&options).expect("the first opening has ended");
    let (mut message, mut found, mut bytes) = (null_mut(), 0, 0);
    let mut iter = null_mut();
    // SAFETY: borrowed buffers.
    unsafe {
        let (k, space) = (b"k".as_ptr(), space.get());
        let codes = [
            esker_keyspace_put(space, k, 1, k, 1, 0, Some(&mut message)),
            esker_keyspace_delete(space, k, 1, 0, None),
            esker_keyspace_remove(space, k, 1, None, None),
            esker_keyspace_delete_range(space, k, 1, k, 1, 0, None),
            esker_keyspace_clear(space, None),
            esker_keyspace_get_visit(space, None, 1, k, 1, null_mut(), Some(keep), None),
            esker_keyspace_multi_get(
                space,
                None,
                1,
                0,
                null(),
                null(),
                null_mut(),
                null_mut(),
                None,
            ),
            esker_keyspace_contains(space, None, k, 1, Some(&mut found), None),
            esker_keyspace_iter_create(space, None, k, 1, k, 1, 1, Some(&mut iter), None),
            esker_keyspace_compact_range(space, null(), 0, null(), 0, None),
            esker_keyspace_size_bytes(space, Some(&mut bytes), None),
        ];
        assert_eq!(codes, [CLOSED; 11]);
        assert!(taken(&mut message).contains("closed"));
    }
    assert_eq!(space.value("k"), Err(CLOSED));
    assert_eq!(space.name(), "space");
    // The handle is of an earlier opening.
    let mut batch = esker_batch_t::default();
    put_in(&mut batch, &space, "k", "w");
    assert_eq!(again.write(&batch), INVALID);
    assert_eq!(again.find("space").unwrap().value("k").unwrap(), "v");
}

#[test]
fn wrong_arguments_of_keyspace_functions_are_refused() {
    let store = Store::new();
    let space = store.keyspace("space", None).unwrap();
    let long_name = "n".repeat(256);
    for (name, word) in [("", "empty"), (long_name.as_str(), "256"), ("a\nb", "control")] {
        let (opened, renamed) = (store.keyspace(name, None), store.rename("space", name));
        for refused in [opened.unwrap_err(), renamed.unwrap_err()] {
            assert!(refused.0 == INVALID && refused.1.contains(word), "{refused:?}");
        }
    }
    let options = kind(None, Some(("block_size", "8KiB")));
    let other = store.keyspace("space", Some(&options)).unwrap_err();
    assert!(other.0 == INVALID && other.1.contains("other options"), "{other:?}");
    assert!(store.keyspace("default", Some(&options)).is_err());
    let long = vec![b'x'; esker::internals::KEY_BYTES_MAX + 1];
    let mut message = null_mut();
    // SAFETY: borrowed buffers and strings; an impossible length is refused before the read.
    unsafe {
        let mut handle = null_mut();
        let (latin, place) = (c"\xe9".as_ptr(), Some(&mut handle));
        assert_eq!(esker_keyspace_open(store.get(), latin, None, place, None), INVALID);
        assert_eq!(esker_keyspace_find(store.get(), latin, Some(&mut handle), None), INVALID);
        assert!(handle.is_null());
        assert_eq!(esker_keyspace_rename(store.get(), latin, latin, None), INVALID);
        assert_eq!(esker_keyspace_drop(store.get(), latin, None), INVALID);
        let mut options = esker_keyspace_options_t::default();
        for (name, value) in [(c"wal_io", c"write"), (c"block_size", c"1"), (c"nothing", c"1")] {
            let (o, place) = (Some(&mut options), Some(&mut message));
            let code = esker_keyspace_options_set(o, name.as_ptr(), value.as_ptr(), place);
            assert_eq!(code, INVALID, "{name:?}");
            assert!(!taken(&mut message).is_empty());
        }
        let (space, k, x) = (space.get(), b"k".as_ptr(), long.as_ptr());
        let place = Some(&mut message);
        assert_eq!(esker_keyspace_put(space, k, 1, null(), 0, 77, place), INVALID);
        assert!(taken(&mut message).contains("durability 77"));
        let codes = [
            esker_keyspace_put(space, x, long.len(), null(), 0, 0, None),
            esker_keyspace_put(space, x, usize::MAX, null(), 0, 0, None),
            esker_keyspace_put(space, k, 1, null(), 9, 0, None),
            esker_keyspace_delete(space, null(), 1, 0, None),
            esker_keyspace_remove(space, x, long.len(), None, None),
            esker_keyspace_delete_range(space, k, 1, null(), 1, 0, None),
            esker_keyspace_delete_range(space, k, 1, k, 1, -1, None),
            esker_keyspace_get_visit(space, None, 1, k, 1, null_mut(), None, None),
            esker_keyspace_contains(space, None, k, 1, None, None),
            esker_keyspace_iter_create(space, None, null(), 1, null(), 0, 1, None, None),
            esker_keyspace_compact_range(space, null(), 1, null(), 0, None),
            esker_keyspace_size_bytes(space, None, None),
        ];
        assert_eq!(codes, [INVALID; 12]);
        assert_eq!(esker_keyspace_put(space, null(), 0, null(), 0, 0, None), OK);
    }
    assert_eq!(space.keys(), [""]);
}

#[test]
fn handles_show_their_key_order_their_own_options_and_their_tree() {
    let mut alive = 1;
    let mut options = options_in(&esker_memory_create());
    add_by_length(&mut options, &raw mut alive);
    let store = Store::open(&options).unwrap();
    let long = kind(Some("test.by_length"), Some(("policy", "leveled")));
    let [a, b] = ["a", "b"].map(|name| store.keyspace(name, Some(&long)).unwrap());
    let down = store.keyspace("c", Some(&kind(Some("esker.reverse"), None))).unwrap();
    let default = store.find("default").unwrap();
    let shown = |space: &Space| {
        let (order, own) =
            (esker_keyspace_key_order(space.get()), esker_keyspace_own_options(space.get()));
        let [order, own] = [order, own].map(|mut text| taken(&mut text));
        (order, own, esker_keyspace_tree(space.get()))
    };
    let expected = |order: &str, own: &str, tree: u32| (order.into(), own.into(), tree);
    assert_eq!(shown(&a), expected("test.by_length", "policy=leveled", 1));
    assert_eq!(shown(&b), shown(&a), "equal keyspaces share a tree");
    assert_eq!(shown(&down), expected("esker.reverse", "", 2));
    assert_eq!(shown(&default), expected("esker.bytewise", "", 0));
    store.drop_keyspace("a").unwrap();
    assert_eq!(shown(&a), shown(&b), "also after the drop");
}

#[test]
fn key_order_of_a_store_is_set_by_its_name_and_never_changes() {
    let memory = esker_memory_create();
    let mut alive = 1;
    let set = |options: &mut esker_options_t, name: &str| {
        let (name, mut message) = (CString::new(name).unwrap(), null_mut());
        let place = Some(&mut message);
        // SAFETY: a borrowed string.
        let code = unsafe { esker_options_set_key_order(Some(options), name.as_ptr(), place) };
        (code, taken(&mut message))
    };
    for (path, name, keys) in [
        ("/up", "esker.bytewise", ["a", "bb", "c"]),
        ("/down", "esker.reverse", ["c", "bb", "a"]),
        ("/long", "test.by_length", ["a", "c", "bb"]),
    ] {
        let mut options = options_in(&memory);
        add_by_length(&mut options, &raw mut alive);
        alive += 1;
        assert_eq!(set(&mut options, name), (OK, String::new()));
        let store = Store::open_at(path, &options).unwrap();
        let default = store.find("default").unwrap();
        assert!(["c", "bb", "a"].iter().all(|key| default.put(key, "1") == OK));
        assert_eq!(default.keys(), keys);
        assert_eq!(taken(&mut esker_keyspace_key_order(default.get())), name);
        drop((default, store));
        let other = if path == "/up" { "esker.reverse" } else { "esker.bytewise" };
        assert_eq!(set(&mut options, other).0, OK);
        assert_eq!(Store::open_at(path, &options).unwrap_err().0, INCOMPATIBLE);
        let (code, message) = set(&mut options, "test.unknown");
        assert!(code == INVALID && message.contains("test.by_length"), "{message}");
        // SAFETY: null arguments are allowed.
        unsafe {
            let none = esker_options_set_key_order(Some(&mut options), null(), None);
            assert_eq!((none, esker_options_set_key_order(None, null(), None)), (INVALID, INVALID));
        }
    }
    assert_eq!(alive, 1);
}
