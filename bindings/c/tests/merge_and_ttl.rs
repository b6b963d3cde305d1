//! Merges, pairs that expire and compaction filters through the C interface.
//!
//! Invariants: each handle is freed once, and each code is checked. No test waits for a time.

#[allow(dead_code, reason = "these tests use a part of the helpers")]
mod common;
#[allow(dead_code, reason = "as above")]
mod keyspace_handles;

use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::Mutex;

use common::taken;
use esker_c::callbacks::*;
use esker_c::own::batch::*;
use esker_c::own::common::*;
use esker_c::own::keyspace::*;
use esker_c::own::keyspace_data::*;
use esker_c::own::merge_and_ttl::*;
use esker_c::own::options::*;
use esker_c::own::read::*;
use esker_c::own::store::*;
use keyspace_handles::{Space, Store, options_in};

const OK: i32 = 0;
const INVALID: i32 = 1;
const INCOMPATIBLE: i32 = 6;

/// State of the test's functions.
#[derive(Default)]
struct State {
    /// Address of the store, which the next merge uses.
    db: Mutex<Option<usize>>,
    codes: Mutex<Vec<i32>>,
    partial_merges: Mutex<usize>,
    destroyed: Mutex<usize>,
}

unsafe extern "C" fn destroy(state: *mut c_void) {
    // SAFETY: the state outlives every object that uses it.
    *unsafe { &*state.cast::<State>() }.destroyed.lock().unwrap() += 1;
}

unsafe extern "C" fn chain_name(_state: *mut c_void) -> *const c_char {
    c"test.chain".as_ptr()
}

unsafe extern "C" fn filter_name(_state: *mut c_void) -> *const c_char {
    c"test.filter".as_ptr()
}

unsafe extern "C" fn taken_name(_state: *mut c_void) -> *const c_char {
    c"append(;)".as_ptr()
}

unsafe extern "C" fn empty_name(_state: *mut c_void) -> *const c_char {
    c"".as_ptr()
}

/// Returns a copy of `bytes` from `malloc`.
fn given(bytes: &[u8]) -> *mut u8 {
    // SAFETY: the memory has at least the length of the bytes.
    unsafe {
        let copy = libc::malloc(bytes.len().max(1)).cast::<u8>();
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy, bytes.len());
        copy
    }
}

/// Returns the operands of a call.
///
/// # Safety
/// The pointers are those of one call of an operator, within it.
unsafe fn parts<'a>(
    starts: *const *const u8,
    lengths: *const usize,
    count: usize,
) -> Vec<&'a [u8]> {
    // SAFETY: guaranteed by the caller.
    (0..count)
        .map(|at| unsafe { std::slice::from_raw_parts(*starts.add(at), *lengths.add(at)) })
        .collect()
}

/// Chains the existing value, or `none`, and all operands. Fails on the operands `bad` and `mute`.
unsafe extern "C" fn chain(
    state: *mut c_void,
    key: *const u8,
    key_len: usize,
    existing: *const u8,
    existing_len: usize,
    operands: *const *const u8,
    operand_lens: *const usize,
    count: usize,
    value_len: *mut usize,
    reason: *mut *mut c_char,
) -> *mut u8 {
    // SAFETY: the arguments of this call; the state and the store outlive it.
    unsafe {
        let state = &*state.cast::<State>();
        if let Some(db) = state.db.lock().unwrap().take() {
            let db = std::ptr::with_exposed_provenance::<esker_db_t>(db).as_ref();
            let codes = [
                esker_merge(db, key, key_len, null(), 0, 0, None),
                esker_touch(db, key, key_len, 1, None, None),
                esker_flush(db, None),
                esker_close(db, None),
            ];
            state.codes.lock().unwrap().extend(codes);
        }
        let operands = parts(operands, operand_lens, count);
        if operands.iter().any(|operand| operand.ends_with(b"bad")) {
            *reason = given(b"an operand is bad\0").cast();
            return null_mut();
        }
        if operands.iter().any(|operand| operand.ends_with(b"mute")) {
            return null_mut();
        }
        let mut value = match existing.is_null() {
            true => b"none".to_vec(),
            false => std::slice::from_raw_parts(existing, existing_len).to_vec(),
        };
        value.extend(operands.concat());
        *value_len = value.len();
        given(&value)
    }
}

unsafe extern "C" fn chain_operands(
    state: *mut c_void,
    _key: *const u8,
    _key_len: usize,
    operands: *const *const u8,
    operand_lens: *const usize,
    count: usize,
    operand_len: *mut usize,
) -> *mut u8 {
    // SAFETY: the arguments of this call; the state outlives it.
    unsafe {
        *(*state.cast::<State>()).partial_merges.lock().unwrap() += 1;
        let chained = parts(operands, operand_lens, count).concat();
        *operand_len = chained.len();
        given(&chained)
    }
}

/// Adds the operator that chains.
fn add_chain(options: &mut esker_options_t, state: &State) {
    let pointer = std::ptr::from_ref(state).cast_mut().cast();
    let (full, partial) = (Some(chain as _), Some(chain_operands as _));
    // SAFETY: the state outlives the options and the store.
    let code = unsafe {
        let options = Some(options);
        let (destroy, name) = (Some(destroy as _), Some(chain_name as _));
        esker_options_add_merge_operator(options, pointer, destroy, full, partial, name, None)
    };
    assert_eq!(code, OK);
}

fn set_operator(options: &mut esker_options_t, name: &CStr) -> i32 {
    // SAFETY: a borrowed text.
    unsafe { esker_options_set_merge_operator(Some(options), name.as_ptr(), None) }
}

fn merge(store: &Store, key: &str, operand: &str) -> i32 {
    let (k, o) = (key.as_ptr(), operand.as_ptr());
    // SAFETY: borrowed buffers.
    unsafe { esker_merge(store.get(), k, key.len(), o, operand.len(), 0, None) }
}

fn merge_in(space: &Space, key: &str, operand: &str) -> i32 {
    let (k, o) = (key.as_ptr(), operand.as_ptr());
    // SAFETY: borrowed buffers.
    unsafe { esker_keyspace_merge(space.get(), k, key.len(), o, operand.len(), 0, None) }
}

/// Returns the value and the time of a key, or the code and the message.
fn found(space: &Space, key: &str) -> Result<Option<(String, u64)>, (i32, String)> {
    let (mut value, mut len, mut time, mut message) = (null_mut(), 7, 7, null_mut());
    // SAFETY: borrowed buffers; the value is copied and freed.
    unsafe {
        let (places, message_place) = ((Some(&mut value), Some(&mut len)), Some(&mut message));
        let (k, time_place) = (key.as_ptr(), Some(&mut time));
        let code = esker_keyspace_get_with_expiry(
            space.get(),
            None,
            k,
            key.len(),
            places.0,
            places.1,
            time_place,
            message_place,
        );
        if code != OK {
            assert!(value.is_null() && len == 0 && time == ESKER_NEVER_MS);
            return Err((code, taken(&mut message)));
        }
        if value.is_null() {
            assert!(len == 0 && time == ESKER_NEVER_MS);
            return Ok(None);
        }
        let copy = std::slice::from_raw_parts(value, len).to_vec();
        esker_free(value.cast());
        Ok(Some((String::from_utf8(copy).unwrap(), time)))
    }
}

fn default_of(store: &Store) -> Space {
    store.keyspace("default", None).unwrap()
}

fn compact(space: &Space) {
    // SAFETY: nulls mean no bounds.
    let code = unsafe { esker_keyspace_compact_range(space.get(), null(), 0, null(), 0, None) };
    assert_eq!(code, OK);
}

#[test]
fn built_in_operators_are_chosen_by_name() {
    let memory = esker_memory_create();
    let mut options = options_in(&memory);
    assert_eq!(set_operator(&mut options, c"test.unknown"), INVALID);
    assert_eq!(set_operator(&mut options, c"add_i64"), OK);
    let store = Store::open(&options).unwrap();
    let space = default_of(&store);
    for operand in ["40", "-1", "3"] {
        assert_eq!(merge(&store, "n", operand), OK);
    }
    assert_eq!(space.value("n").unwrap(), "42");
    assert_eq!(merge(&store, "n", "seven"), INVALID);
    // SAFETY: a borrowed buffer; an unknown durability is refused.
    unsafe {
        let n = b"1".as_ptr();
        assert_eq!(esker_merge(store.get(), n, 1, n, 1, 3, None), OK);
        assert_eq!(esker_merge(store.get(), n, 1, n, 1, 9, None), INVALID);
    }
    assert_eq!(space.value("1").unwrap(), "1");
    drop((space, store));
    // The store keeps the name of a built-in operator.
    let store = Store::open(&options_in(&memory)).unwrap();
    assert_eq!(merge(&store, "n", "1"), OK);
    assert_eq!(default_of(&store).value("n").unwrap(), "43");
    assert_eq!(merge_in(&store.keyspace("plain", None).unwrap(), "n", "1"), INVALID);
    let mut kind = esker_keyspace_options_create();
    // SAFETY: a borrowed text.
    unsafe {
        let set = esker_keyspace_options_set_merge_operator;
        assert_eq!(set(Some(&mut kind), c"append(,)".as_ptr(), None), OK);
        let list = store.keyspace("list", Some(&kind)).unwrap();
        assert_eq!((merge_in(&list, "k", "a"), merge_in(&list, "k", "b")), (OK, OK));
        assert_eq!(list.value("k").unwrap(), "a,b");
        assert_eq!(set(Some(&mut kind), c"test.unknown".as_ptr(), None), OK);
        assert_eq!(store.keyspace("other", Some(&kind)).unwrap_err().0, INVALID);
    }
}

#[test]
fn operators_of_the_caller_merge_fail_with_a_reason_and_are_freed_once() {
    let (memory, state) = (esker_memory_create(), State::default());
    let mut options = options_in(&memory);
    add_chain(&mut options, &state);
    assert_eq!(set_operator(&mut options, c"test.chain"), OK);
    let store = Store::open(&options).unwrap();
    esker_options_destroy(Some(options));
    let space = default_of(&store);
    assert_eq!(space.put("old", ""), OK);
    for (key, operand) in [("old", "a"), ("old", "b"), ("new", "c"), ("new", "")] {
        assert_eq!(merge(&store, key, operand), OK);
    }
    let values = || (space.value("old").unwrap(), space.value("new").unwrap());
    assert_eq!(values(), ("ab".to_string(), "nonec".to_string()));
    for (operand, why) in [("bad", "an operand is bad"), ("mute", "without a reason")] {
        assert_eq!(merge(&store, operand, "x"), OK);
        assert_eq!(merge(&store, operand, operand), OK);
        let (code, message) = found(&space, operand).unwrap_err();
        assert_eq!(code, INVALID);
        assert!(message.contains(why) && message.contains("test.chain"), "{message}");
    }
    // SAFETY: an open store.
    assert_eq!(unsafe { esker_flush(store.get(), None) }, OK);
    compact(&space);
    assert_eq!(values(), ("ab".to_string(), "nonec".to_string()));
    assert_eq!(found(&space, "bad").unwrap_err().0, INVALID);
    assert_eq!(space.put("bad", "good"), OK);
    assert_eq!(space.value("bad").unwrap(), "good");
    assert!(*state.partial_merges.lock().unwrap() > 0);
    assert_eq!(*state.destroyed.lock().unwrap(), 0);
    drop((space, store));
    assert_eq!(*state.destroyed.lock().unwrap(), 1);
    // Without the operator the store opens, and what needs it is refused.
    let store = Store::open(&options_in(&memory)).unwrap();
    assert_eq!(merge(&store, "old", "c"), INCOMPATIBLE);
    let mut options = options_in(&memory);
    drop(store);
    assert_eq!(set_operator(&mut options, c"add_i64"), OK);
    assert_eq!(Store::open(&options).unwrap_err().0, INCOMPATIBLE);
}

#[test]
fn operator_that_uses_its_own_store_is_refused_without_deadlock() {
    let state = State::default();
    let mut options = options_in(&esker_memory_create());
    add_chain(&mut options, &state);
    assert_eq!(set_operator(&mut options, c"test.chain"), OK);
    let store = Store::open(&options).unwrap();
    assert_eq!(merge(&store, "k", "a"), OK);
    let address = std::ptr::from_ref(store.get().unwrap()).expose_provenance();
    *state.db.lock().unwrap() = Some(address);
    assert_eq!(default_of(&store).value("k").unwrap(), "nonea");
    assert_eq!(*state.codes.lock().unwrap(), [INVALID; 4]);
}

#[test]
fn refused_operators_and_filters_are_freed_once() {
    let (state, mut options) = (State::default(), esker_options_create());
    let pointer = std::ptr::from_ref(&state).cast_mut().cast();
    let mut message = null_mut();
    // SAFETY: the state outlives the options.
    unsafe {
        for (full, name) in [
            (None, Some(chain_name as _)),
            (Some(chain as _), None),
            (Some(chain as _), Some(taken_name as _)),
            (Some(chain as _), Some(empty_name as _)),
        ] {
            let (options, place) = (Some(&mut *options), Some(&mut message));
            let destroy = Some(destroy as _);
            let code = esker_options_add_merge_operator(
                options, pointer, destroy, full, None, name, place,
            );
            assert_eq!(code, INVALID);
            assert!(!taken(&mut message).is_empty());
        }
        let add = esker_options_add_compaction_filter;
        let (none, name) = (None, Some(filter_name as _));
        assert_eq!(add(Some(&mut options), pointer, Some(destroy), none, name, None), INVALID);
        assert_eq!(add(None, pointer, Some(destroy), Some(filter), name, None), INVALID);
        let set = esker_options_set_compaction_filter;
        assert_eq!(set(Some(&mut options), c"test.filter".as_ptr(), None), INVALID);
    }
    assert_eq!(*state.destroyed.lock().unwrap(), 6);
}

#[test]
fn pairs_expire_and_are_touched() {
    let store = Store::new();
    let space = store.keyspace("sessions", None).unwrap();
    let put = |key: &str, ttl_ms: u64| {
        let k = key.as_ptr();
        // SAFETY: borrowed buffers.
        unsafe { esker_keyspace_put_with_ttl(space.get(), k, 1, k, 1, ttl_ms, 0, None) }
    };
    let (day_ms, mut touched) = (86_400_000, 7);
    for (key, ttl_ms) in [("a", 0), ("b", day_ms), ("c", ESKER_NEVER_MS), ("d", 1 << 63)] {
        assert_eq!(put(key, ttl_ms), OK);
    }
    assert_eq!(found(&space, "a").unwrap(), None);
    let (value, first_ms) = found(&space, "b").unwrap().unwrap();
    assert!(value == "b" && first_ms > day_ms && first_ms < ESKER_NEVER_MS);
    assert_eq!(found(&space, "c").unwrap(), Some(("c".to_string(), ESKER_NEVER_MS)));
    assert!(found(&space, "d").unwrap().unwrap().1 > 1 << 63);
    assert_eq!(space.keys(), ["b", "c", "d"]);
    let mut touch = |key: &str, ttl_ms: u64| {
        // SAFETY: borrowed buffers.
        let code = unsafe {
            let (k, place) = (key.as_ptr(), Some(&mut touched));
            esker_keyspace_touch(space.get(), k, 1, ttl_ms, place, None)
        };
        (code, touched)
    };
    assert_eq!(touch("b", 2 * day_ms), (OK, 1));
    assert_eq!(touch("a", 2 * day_ms), (OK, 0));
    assert!(found(&space, "b").unwrap().unwrap().1 >= first_ms + day_ms);
    assert_eq!(touch("b", ESKER_NEVER_MS), (OK, 1));
    assert_eq!(found(&space, "b").unwrap().unwrap().1, ESKER_NEVER_MS);
    assert_eq!(touch("b", 0), (OK, 1));
    assert_eq!(found(&space, "b").unwrap(), None);
    // The same on the keyspace `default`.
    let (mut value, mut len, mut time, k) = (null_mut(), 0, 7, b"k".as_ptr());
    // SAFETY: borrowed buffers; the value is freed.
    unsafe {
        assert_eq!(esker_put_with_ttl(store.get(), k, 1, k, 1, day_ms, 2, None), OK);
        assert_eq!(esker_put_with_ttl(store.get(), k, 1, k, 1, day_ms, 4, None), INVALID);
        let places = (Some(&mut value), Some(&mut len), Some(&mut time));
        let (db, one, two, three) = (store.get(), places.0, places.1, places.2);
        assert_eq!(esker_get_with_expiry(db, None, k, 1, one, two, three, None), OK);
        assert!(!value.is_null() && len == 1 && time > day_ms && time != ESKER_NEVER_MS);
        esker_free(value.cast());
        // A snapshot keeps the pair and its time.
        let (mut snapshot, mut then) = (null_mut(), 7);
        assert_eq!(esker_snapshot_create(db, Some(&mut snapshot), None), OK);
        assert_eq!(esker_touch(store.get(), k, 1, 0, None, None), OK);
        for (at, expected) in [(snapshot.as_ref(), time), (None, ESKER_NEVER_MS)] {
            let (one, two, three) = (Some(&mut value), Some(&mut len), Some(&mut then));
            assert_eq!(esker_get_with_expiry(db, at, k, 1, one, two, three, None), OK);
            assert_eq!((then, value.is_null()), (expected, at.is_none()));
            esker_free(value.cast());
        }
        esker_snapshot_destroy(Some(Box::from_raw(snapshot)));
    }
    assert!(default_of(&store).keys().is_empty());
}

#[test]
fn keyspace_has_a_time_to_live_of_its_own() {
    let store = Store::new();
    let mut kind = esker_keyspace_options_create();
    // SAFETY: no pointers.
    unsafe {
        let set = esker_keyspace_options_set_ttl_ms;
        assert_eq!(set(Some(&mut kind), 0, None), OK);
        let gone = store.keyspace("gone", Some(&kind)).unwrap();
        assert_eq!((gone.put("a", "1"), gone.keys().len()), (OK, 0));
        let b = b"b".as_ptr();
        let put = esker_keyspace_put_with_ttl;
        assert_eq!(put(gone.get(), b, 1, b, 1, ESKER_NEVER_MS, 0, None), OK);
        assert_eq!(gone.keys(), ["b"]);
        assert_eq!(set(Some(&mut kind), ESKER_NEVER_MS, None), OK);
        let kept = store.keyspace("kept", Some(&kind)).unwrap();
        assert_eq!((kept.put("a", "1"), kept.keys().len()), (OK, 1));
        // Other options than those that the keyspace has.
        assert_eq!(store.keyspace("gone", Some(&kind)).unwrap_err().0, INVALID);
    }
}

unsafe extern "C" fn record(state: *mut c_void, operation: *const esker_operation_t) {
    // SAFETY: the state, and the operation and its buffers, of one call.
    unsafe {
        let text = |start, len| String::from_utf8_lossy(std::slice::from_raw_parts(start, len));
        let op = &*operation;
        let (first, second) = (text(op.key, op.key_len), text(op.value, op.value_len));
        let ttl = match op.ttl_ms {
            ESKER_NEVER_MS => String::new(),
            ttl_ms => format!(" for {ttl_ms}"),
        };
        let seen = &mut *state.cast::<Vec<String>>();
        seen.push(format!("{} {} {first} {second}{ttl}", op.keyspace, op.kind));
    }
}

unsafe extern "C" fn record_put(
    state: *mut c_void,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
) {
    let (kind, ttl_ms) = (ESKER_OPERATION_PUT, ESKER_NEVER_MS);
    let put = esker_operation_t { kind, keyspace: 0, key, key_len, value, value_len, ttl_ms };
    // SAFETY: as for `record`.
    unsafe { record(state, &raw const put) }
}

#[test]
fn batches_merge_and_put_pairs_that_expire() {
    let mut options = options_in(&esker_memory_create());
    assert_eq!(set_operator(&mut options, c"add_u64"), OK);
    let store = Store::open(&options).unwrap();
    let (space, plain) = (default_of(&store), store.keyspace("plain", None).unwrap());
    let mut fleeting = esker_keyspace_options_create();
    // SAFETY: a live handle.
    let code = unsafe { esker_keyspace_options_set_ttl_ms(Some(&mut fleeting), 500, None) };
    assert_eq!(code, OK);
    let fleeting = store.keyspace("fleeting", Some(&fleeting)).unwrap();
    let mut batch = esker_batch_create();
    let (k, n, mut seen) = (b"k".as_ptr(), b"7".as_ptr(), Vec::<String>::new());
    // SAFETY: borrowed buffers.
    unsafe {
        for _ in 0..2 {
            assert_eq!(esker_batch_merge(Some(&mut batch), k, 1, n, 1, None), OK);
        }
        let default = space.get();
        assert_eq!(esker_batch_merge_in(Some(&mut batch), default, k, 1, n, 1, None), OK);
        assert_eq!(esker_batch_put_with_ttl(Some(&mut batch), n, 1, k, 1, 0, None), OK);
        let put = esker_batch_put_with_ttl_in;
        assert_eq!(put(Some(&mut batch), plain.get(), n, 1, k, 1, 86_400_000, None), OK);
        let state = (&raw mut seen).cast();
        esker_batch_visit_keyspaces(Some(&batch), state, Some(record));
        let put = format!("{} 4 7 k for 86400000", plain.id());
        assert_eq!(seen, ["0 5 k 7", "0 5 k 7", "0 5 k 7", "0 4 7 k for 0", put.as_str()]);
        // The time to live of a keyspace is one of the put, and one without an end is none.
        let mut others = esker_batch_create();
        let put = esker_batch_put_with_ttl_in;
        assert_eq!(esker_batch_put_in(Some(&mut others), fleeting.get(), k, 1, n, 1, None), OK);
        let never = ESKER_NEVER_MS;
        assert_eq!(put(Some(&mut others), fleeting.get(), k, 1, n, 1, never, None), OK);
        assert_eq!(put(Some(&mut others), fleeting.get(), k, 1, n, 1, never - 1, None), OK);
        seen.clear();
        esker_batch_visit_keyspaces(Some(&others), state, Some(record));
        let id = fleeting.id();
        let ops = ["4 k 7 for 500", "1 k 7", "4 k 7 for 18446744073709551614"];
        assert_eq!(seen, ops.map(|op| format!("{id} {op}")));
        seen.clear();
        esker_batch_iterate(Some(&batch), state, Some(record_put), None, None);
        assert_eq!(seen, ["0 1 7 k", "0 1 7 k"]);
        assert_eq!(store.write(&batch), OK);
        assert_eq!(space.value("k").unwrap(), "21");
        assert_eq!((space.keys().len(), plain.keys().len()), (1, 1));
        assert_ne!(found(&plain, "7").unwrap().unwrap().1, ESKER_NEVER_MS);
        // A refused operand refuses the whole batch.
        assert_eq!(esker_batch_merge_in(Some(&mut batch), plain.get(), k, 1, n, 1, None), OK);
        assert_eq!(store.write(&batch), INVALID);
        esker_batch_clear(Some(&mut batch));
        assert_eq!(esker_batch_merge(Some(&mut batch), k, 1, k, 1, None), OK);
        assert_eq!(store.write(&batch), INVALID);
    }
    assert_eq!(space.value("k").unwrap(), "21");
}

/// Does what the value says.
unsafe extern "C" fn filter(
    _state: *mut c_void,
    _level: usize,
    _key: *const u8,
    _key_len: usize,
    value: *const u8,
    value_len: usize,
    new_value: *mut *mut u8,
    new_value_len: *mut usize,
) -> i32 {
    // SAFETY: the arguments of this call.
    unsafe {
        match std::slice::from_raw_parts(value, value_len) {
            b"remove" => ESKER_FILTER_REMOVE,
            b"replace" => {
                (*new_value, *new_value_len) = (given(b"new"), 3);
                ESKER_FILTER_REPLACE
            }
            b"null" => ESKER_FILTER_REPLACE,
            b"unknown" => 99,
            _ => ESKER_FILTER_KEEP,
        }
    }
}

#[test]
fn compaction_filters_keep_remove_and_replace_and_wrong_answers_keep() {
    let (state, mut options) = (State::default(), options_in(&esker_memory_create()));
    let pointer = std::ptr::from_ref(&state).cast_mut().cast();
    let name = c"test.filter".as_ptr();
    let mut kind = esker_keyspace_options_create();
    // SAFETY: the state outlives the store; borrowed texts.
    unsafe {
        let add = esker_options_add_compaction_filter;
        let code =
            add(Some(&mut options), pointer, Some(destroy), Some(filter), Some(filter_name), None);
        assert_eq!(code, OK);
        assert_eq!(esker_options_set_compaction_filter(Some(&mut options), name, None), OK);
        let set = esker_keyspace_options_set_compaction_filter;
        assert_eq!(set(Some(&mut kind), name, None), OK);
    }
    let store = Store::open(&options).unwrap();
    esker_options_destroy(Some(options));
    let plain = store.keyspace("plain", None).unwrap();
    let filtered = store.keyspace("filtered", Some(&kind)).unwrap();
    for space in [&default_of(&store), &filtered, &plain] {
        for (key, value) in [("a", "keep"), ("b", "remove"), ("c", "replace")] {
            assert_eq!(space.put(key, value), OK);
        }
        // SAFETY: an open store.
        assert_eq!(unsafe { esker_flush(store.get(), None) }, OK);
        compact(space);
    }
    for space in [&default_of(&store), &filtered] {
        assert_eq!(space.keys(), ["a", "c"]);
        assert_eq!(space.value("c").unwrap(), "new");
    }
    assert_eq!(plain.value("c").unwrap(), "replace");
    for wrong in ["null", "unknown"] {
        assert_eq!((filtered.put("d", wrong), filtered.put("e", "keep")), (OK, OK));
        compact(&filtered);
        assert_eq!(filtered.value("d").unwrap(), wrong);
        assert_eq!(filtered.keys(), ["a", "c", "d", "e"]);
    }
    drop((plain, filtered, store));
    assert_eq!(*state.destroyed.lock().unwrap(), 1);
}
