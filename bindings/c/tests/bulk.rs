//! Many operations or pairs in one call of the C interface: packed batches and chunks of pairs.
//!
//! Invariants: each handle is freed once; a wrong call changes nothing.

#[allow(dead_code, reason = "these tests use a part of the helpers")]
mod common;
#[allow(dead_code, reason = "as above")]
mod keyspace_handles;
#[path = "random_calls/model.rs"]
#[allow(dead_code, reason = "as above")]
mod model;

use std::ffi::{c_char, c_void};
use std::ptr::{null, null_mut};

use common::taken;
use esker_c::own::batch::*;
use esker_c::own::bulk::*;
use esker_c::own::iter::*;
use esker_c::own::keyspace::*;
use esker_c::own::merge_and_ttl::*;
use esker_c::own::transaction::*;
use esker_c::own::transaction_data::*;
use keyspace_handles::{Space, Store};
use model::Rng;

const OK: i32 = 0;
const INVALID: i32 = 1;

/// Appends an operation to packed bytes.
fn pack(packed: &mut Vec<u8>, kind: i32, keyspace: u32, first: &[u8], second: &[u8], ttl_ms: u64) {
    packed.push(kind as u8);
    for number in [keyspace, first.len() as u32, second.len() as u32] {
        packed.extend(number.to_le_bytes());
    }
    if kind == ESKER_OPERATION_PUT_WITH_TTL {
        packed.extend(ttl_ms.to_le_bytes());
    }
    packed.extend([first, second].concat());
}

fn add(
    batch: &mut esker_batch_t,
    spaces: &[Option<&esker_keyspace_t>],
    packed: &[u8],
) -> Result<(), String> {
    let mut message = null_mut();
    // SAFETY: borrowed for the call.
    let code = unsafe {
        let (start, len) = (packed.as_ptr(), packed.len());
        let place = Some(&mut message);
        esker_batch_add_packed(Some(batch), spaces.as_ptr(), spaces.len(), start, len, place)
    };
    let text = taken(&mut message);
    assert_eq!(code == OK, text.is_empty(), "{text}");
    assert!([OK, INVALID].contains(&code));
    if code == OK { Ok(()) } else { Err(text) }
}

type Seen = Vec<(u32, i32, Vec<u8>, Vec<u8>, u64)>;

unsafe extern "C" fn see(state: *mut c_void, operation: *const esker_operation_t) {
    // SAFETY: the arguments of this call.
    unsafe {
        let bytes = |start: *const u8, len| match len {
            0 => Vec::new(),
            _ => std::slice::from_raw_parts(start, len).to_vec(),
        };
        let seen = &mut *state.cast::<Seen>();
        let op = &*operation;
        let (key, value) = (bytes(op.key, op.key_len), bytes(op.value, op.value_len));
        seen.push((op.keyspace, op.kind, key, value, op.ttl_ms));
    }
}

/// Returns the operations of a batch.
fn operations(batch: &esker_batch_t) -> Seen {
    let mut seen = Seen::new();
    // SAFETY: the state outlives the call.
    unsafe { esker_batch_visit_keyspaces(Some(batch), (&raw mut seen).cast(), Some(see)) };
    seen
}

/// Adds an operation with a call of its own.
fn add_single(
    batch: &mut esker_batch_t,
    keyspace: Option<&esker_keyspace_t>,
    kind: i32,
    first: &[u8],
    second: &[u8],
    ttl_ms: u64,
) {
    let (a, a_len) = (first.as_ptr(), first.len());
    let (b, b_len) = (second.as_ptr(), second.len());
    let (batch, none): (_, Option<&mut *mut c_char>) = (Some(batch), None);
    // SAFETY: borrowed buffers.
    let code = unsafe {
        match (kind, keyspace) {
            (ESKER_OPERATION_PUT, None) => esker_batch_put(batch, a, a_len, b, b_len, none),
            (ESKER_OPERATION_PUT, to) => esker_batch_put_in(batch, to, a, a_len, b, b_len, none),
            (ESKER_OPERATION_DELETE, None) => esker_batch_delete(batch, a, a_len, none),
            (ESKER_OPERATION_DELETE, to) => esker_batch_delete_in(batch, to, a, a_len, none),
            (ESKER_OPERATION_DELETE_RANGE, None) => {
                esker_batch_delete_range(batch, a, a_len, b, b_len, none)
            }
            (ESKER_OPERATION_DELETE_RANGE, to) => {
                esker_batch_delete_range_in(batch, to, a, a_len, b, b_len, none)
            }
            (ESKER_OPERATION_PUT_WITH_TTL, None) => {
                esker_batch_put_with_ttl(batch, a, a_len, b, b_len, ttl_ms, none)
            }
            (ESKER_OPERATION_PUT_WITH_TTL, to) => {
                esker_batch_put_with_ttl_in(batch, to, a, a_len, b, b_len, ttl_ms, none)
            }
            (_, None) => esker_batch_merge(batch, a, a_len, b, b_len, none),
            (_, to) => esker_batch_merge_in(batch, to, a, a_len, b, b_len, none),
        }
    };
    assert_eq!(code, OK);
}

#[test]
fn packed_operations_are_those_of_single_calls() {
    let store = Store::new();
    let spaces = [store.keyspace("a", None).unwrap(), store.keyspace("b", None).unwrap()];
    let handles = spaces.each_ref().map(Space::get);
    let mut random = Rng(38);
    for _ in 0..200 {
        let (mut packed, mut single) = (Vec::new(), esker_batch_create());
        for _ in 0..random.below(20) {
            let (kind, keyspace) = (1 + random.below(5) as i32, random.below(3));
            let (first, mut second) = (random.key(), random.value());
            if kind == ESKER_OPERATION_DELETE {
                second.clear();
            }
            let ttl_ms = [0, 1, 1 << 40, ESKER_NEVER_MS][random.below(4)];
            pack(&mut packed, kind, keyspace as u32, &first, &second, ttl_ms);
            let to = keyspace.checked_sub(1).and_then(|at| handles[at]);
            add_single(&mut single, to, kind, &first, &second, ttl_ms);
        }
        let mut batch = esker_batch_create();
        add(&mut batch, &handles, &packed).unwrap();
        assert_eq!(operations(&batch), operations(&single));
        assert_eq!(esker_batch_size_bytes(Some(&batch)), esker_batch_size_bytes(Some(&single)));
    }
}

#[test]
fn wrong_packed_bytes_add_nothing() {
    let store = Store::new();
    let space = store.keyspace("a", None).unwrap();
    let mut good = Vec::new();
    pack(&mut good, ESKER_OPERATION_PUT, 0, b"key", b"value", 0);
    pack(&mut good, ESKER_OPERATION_PUT_WITH_TTL, 1, b"k", b"v", 5);
    let first = 13 + 8;
    let refused = |packed: &[u8], spaces: &[Option<&esker_keyspace_t>], reason: &str| {
        let mut batch = esker_batch_create();
        add_single(&mut batch, None, ESKER_OPERATION_DELETE, b"x", b"", 0);
        let failure = add(&mut batch, spaces, packed).unwrap_err();
        assert!(failure.contains(reason), "{failure}: {reason}");
        assert_eq!(operations(&batch).len(), 1);
    };
    let of = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    let handles = [space.get()];
    refused(&good[..good.len() - 1], &handles, "packed operation 2, at byte 21");
    refused(&good[..first + 20], &handles, "longer than the 20 bytes");
    refused(&of(0, 0), &handles, "no kind of operation 0");
    refused(&of(first, 6), &handles, "no kind of operation 6");
    refused(&of(0, 2), &handles, "a delete has no value, but its length is 5");
    refused(&of(1, 2), &handles, "its keyspace is number 2 of 1");
    refused(&good, &[], "its keyspace is number 1 of 0");
    refused(&good, &[None], "keyspace number 1 is NULL");
    refused(&of(8, 0xff), &handles, "longer than");
    // Any bytes are operations or refused, and a refusal changes nothing.
    let mut random = Rng(7);
    for _ in 0..20_000 {
        let mut bytes = good.clone();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len());
            bytes[at] = random.next() as u8 >> random.below(8);
        }
        bytes.truncate(bytes.len() - random.below(2) * random.below(bytes.len()));
        let mut batch = esker_batch_create();
        if add(&mut batch, &handles, &bytes).is_err() {
            assert_eq!(esker_batch_count(Some(&batch)), 0);
        }
    }
}

/// Reads all pairs from the position of an iterator on.
fn read_all(iter: &mut esker_iter_t, backward: u8, rows_max: usize, room: usize) -> Vec<String> {
    let mut buffer = vec![0u8; room];
    let mut pairs = Vec::new();
    loop {
        let (mut rows, mut bytes, mut message) = (9, 9, null_mut());
        // SAFETY: borrowed for the call.
        let code = unsafe {
            let (start, len) = (buffer.as_mut_ptr(), buffer.len());
            let places = (Some(&mut rows), Some(&mut bytes), Some(&mut message));
            let (iter, to) = (Some(&mut *iter), places);
            esker_iter_read(iter, backward, rows_max, start, len, to.0, to.1, to.2)
        };
        assert_eq!((code, taken(&mut message)), (OK, String::new()));
        assert!(rows <= rows_max);
        if rows == 0 && bytes > buffer.len() {
            buffer.resize(bytes, 0);
            continue;
        }
        if rows == 0 {
            assert_eq!(bytes, 0);
            return pairs;
        }
        let mut rest = &buffer[..bytes];
        for _ in 0..rows {
            let number = |at| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap()) as usize;
            let (key, value) = (number(0), number(4));
            let pair = String::from_utf8(rest[8..8 + key + value].to_vec()).unwrap();
            pairs.push(format!("{}={}", &pair[..key], &pair[key..]));
            rest = &rest[8 + key + value..];
        }
        assert!(rest.is_empty());
    }
}

#[test]
fn chunks_have_the_pairs_of_single_moves() {
    let store = Store::new();
    let space = store.keyspace("a", None).unwrap();
    let mut expected = Vec::new();
    for number in 0..300 {
        let (key, value) = (format!("{number:04}"), "v".repeat(number % 7 * number % 90));
        assert_eq!(space.put(&key, &value), OK);
        expected.push(format!("{key}={value}"));
    }
    let back: Vec<String> = expected.iter().rev().cloned().collect();
    for (rows_max, room) in [(1, 200), (3, 64), (1_000, 1 << 16), (7, 0), (usize::MAX, 300)] {
        // SAFETY: the handle is freed once, below.
        let mut iter = unsafe { Box::from_raw(space.iter(None, None)) };
        esker_iter_seek_to_first(Some(&mut iter));
        assert_eq!(read_all(&mut iter, 0, rows_max, room), expected);
        assert_eq!(esker_iter_valid(Some(&iter)), 0);
        esker_iter_seek_to_last(Some(&mut iter));
        assert_eq!(read_all(&mut iter, 1, rows_max, room), back);
        // A chunk begins at the position, and single moves go on behind it.
        // SAFETY: borrowed buffer.
        unsafe { esker_iter_seek(Some(&mut iter), b"0100".as_ptr(), 4) };
        let (mut rows, mut bytes, mut buffer) = (0, 0, [0u8; 4096]);
        // SAFETY: borrowed buffer.
        let code = unsafe {
            let places = (Some(&mut rows), Some(&mut bytes));
            let (start, len) = (buffer.as_mut_ptr(), buffer.len());
            esker_iter_read(Some(&mut iter), 0, 5, start, len, places.0, places.1, None)
        };
        assert_eq!((code, rows), (OK, 5));
        let mut len = 0;
        let key = esker_iter_key(Some(&iter), Some(&mut len));
        // SAFETY: valid until the next move.
        assert_eq!(unsafe { std::slice::from_raw_parts(key, len) }, b"0105");
        esker_iter_destroy(Some(iter));
    }
}

#[test]
fn chunks_of_a_transaction_end_with_it() {
    let store = Store::new();
    let (mut transaction, mut iter) = (null_mut(), null_mut());
    // SAFETY: the handles are freed once, below; buffers are borrowed.
    unsafe {
        assert_eq!(esker_transaction_begin(store.get(), None, Some(&mut transaction), None), OK);
        let t = transaction.as_ref();
        assert_eq!(esker_transaction_put(t, b"a".as_ptr(), 1, b"1".as_ptr(), 1, None), OK);
        let (place, none) = (Some(&mut iter), null());
        assert_eq!(esker_transaction_iter_create(t, none, 0, none, 0, place, None), OK);
        let mut iter = Box::from_raw(iter);
        esker_iter_seek_to_first(Some(&mut iter));
        assert_eq!(read_all(&mut iter, 0, 9, 64), ["a=1"]);
        esker_iter_seek_to_first(Some(&mut iter));
        assert_eq!(esker_transaction_rollback(t, None), OK);
        let (mut rows, mut bytes, mut message) = (9, 9, null_mut());
        let mut buffer = [0u8; 64];
        let mut read = |message: &mut *mut c_char| {
            let (start, len) = (buffer.as_mut_ptr(), buffer.len());
            let places = (Some(&mut rows), Some(&mut bytes), Some(message));
            let iter = Some(&mut *iter);
            let code = esker_iter_read(iter, 0, 9, start, len, places.0, places.1, places.2);
            (code, rows, bytes)
        };
        // The pair at the position is still there; the move behind it fails.
        assert_eq!(read(&mut message), (OK, 1, 10));
        assert_eq!(read(&mut message), (INVALID, 0, 0));
        assert!(taken(&mut message).len() > 10);
        esker_iter_destroy(Some(iter));
        esker_transaction_destroy(Some(Box::from_raw(transaction)));
    }
}
