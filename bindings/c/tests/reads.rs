//! Reads at a snapshot, of times of expiry, of the sizes of ranges and of streamed values, through the C
//! interface.
//!
//! Invariants: each handle and each value is freed once, and each code is checked.

#[allow(dead_code, reason = "these tests use a part of the helpers")]
mod common;
#[allow(dead_code, reason = "as above")]
mod keyspace_handles;

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use common::taken;
use esker_c::own::common::*;
use esker_c::own::iter::*;
use esker_c::own::keyspace::*;
use esker_c::own::keyspace_data::*;
use esker_c::own::merge_and_ttl::*;
use esker_c::own::read::*;
use esker_c::own::store::*;
use esker_c::own::stream::*;
use keyspace_handles::{Space, Store};

const OK: i32 = 0;
const INVALID: i32 = 1;
const IO: i32 = 3;
const NOT_FOUND: i32 = 10;

/// Returns which of some keys of one byte a keyspace has, by each function that can tell.
fn all_find(
    store: &Store,
    space: &Space,
    snapshot: Option<&esker_snapshot_t>,
    keys: &[u8],
) -> Vec<bool> {
    let starts: Vec<*const u8> = keys.iter().map(std::ptr::from_ref).collect();
    let (lens, count) = (vec![1; keys.len()], keys.len());
    let mut values = vec![null_mut(); count];
    let mut value_lens = vec![7; count];
    let (k, l, v, v_len) =
        (starts.as_ptr(), lens.as_ptr(), values.as_mut_ptr(), value_lens.as_mut_ptr());
    let is_default = space.id() == 0;
    let mut found = Vec::new();
    // SAFETY: borrowed buffers and arrays of `count` items; values are freed.
    unsafe {
        let code = esker_keyspace_multi_get(space.get(), snapshot, 0, count, k, l, v, v_len, None);
        assert_eq!(code, OK);
        for (at, key) in starts.into_iter().enumerate() {
            let is_there = !values[at].is_null();
            esker_free(values[at].cast());
            let (mut value, mut len, mut time, mut has) = (null_mut(), 7, 7, 7);
            for fill_cache in [0, 1] {
                let place = (Some(&mut value), Some(&mut len));
                let get = esker_keyspace_get_with;
                assert_eq!(
                    get(space.get(), snapshot, fill_cache, key, 1, place.0, place.1, None),
                    OK
                );
                assert_eq!(!value.is_null(), is_there);
                esker_free(value.cast());
                let place = (Some(&mut value), Some(&mut len));
                let get = esker_get_with;
                assert_eq!(
                    get(store.get(), snapshot, fill_cache, key, 1, place.0, place.1, None),
                    OK
                );
                assert!(!is_default || value.is_null() != is_there);
                esker_free(value.cast());
            }
            let (contains, place) = (esker_keyspace_contains, Some(&mut has));
            assert_eq!(contains(space.get(), snapshot, key, 1, place, None), OK);
            assert_eq!(has == 1, is_there);
            assert_eq!(esker_contains(store.get(), snapshot, key, 1, Some(&mut has), None), OK);
            assert!(!is_default || (has == 1) == is_there);
            let (v, len, time) = (Some(&mut value), Some(&mut len), Some(&mut time));
            let get = esker_keyspace_get_with_expiry;
            assert_eq!(get(space.get(), snapshot, key, 1, v, len, time, None), OK);
            esker_free(value.cast());
            found.push(is_there);
        }
    }
    found
}

#[test]
fn every_read_can_be_at_a_snapshot() {
    let (store, other) = (Store::new(), Store::new());
    let spaces = [store.keyspace("space", None).unwrap(), store.find("default").unwrap()];
    let mut snapshot = null_mut();
    // SAFETY: borrowed buffers; the snapshot is freed at the end.
    unsafe {
        for space in &spaces {
            assert_eq!((space.put("a", "old"), space.put("b", "old")), (OK, OK));
        }
        assert_eq!(esker_snapshot_create(store.get(), Some(&mut snapshot), None), OK);
        let before = snapshot.as_ref();
        for space in &spaces {
            assert_eq!(esker_keyspace_delete(space.get(), b"a".as_ptr(), 1, 0, None), OK);
            assert_eq!(space.put("c", "new"), OK);
            assert_eq!(all_find(&store, space, before, b"abcd"), [true, true, false, false]);
            assert_eq!(all_find(&store, space, None, b"abcd"), [false, true, true, false]);
        }
        // A snapshot of another store.
        let space = other.find("default").unwrap();
        let (mut has, mut value, mut len, mut time) = (7, null_mut(), 7, 7);
        let (key, mut message) = (b"a".as_ptr(), null_mut());
        let (contains, place) = (esker_contains, Some(&mut has));
        assert_eq!(contains(other.get(), before, key, 1, place, Some(&mut message)), INVALID);
        assert!(taken(&mut message).contains("another store"));
        assert_eq!(
            esker_keyspace_contains(space.get(), before, key, 1, Some(&mut has), None),
            INVALID
        );
        let (value, len, time) = (Some(&mut value), Some(&mut len), Some(&mut time));
        let get = esker_get_with_expiry;
        assert_eq!(get(other.get(), before, key, 1, value, len, time, None), INVALID);
        let (mut values, mut lens) = ([null_mut(); 1], [7; 1]);
        let (v, l) = (values.as_mut_ptr(), lens.as_mut_ptr());
        let (keys, key_lens) = ([key], [1]);
        let (k, k_len) = (keys.as_ptr(), key_lens.as_ptr());
        assert_eq!(esker_multi_get(other.get(), before, 1, 1, k, k_len, v, l, None), INVALID);
        assert!(values[0].is_null() && lens[0] == 0);
        esker_snapshot_destroy(Some(Box::from_raw(snapshot)));
    }
}

#[test]
fn ranges_of_keyspaces_are_measured_in_their_key_order() {
    let store = Store::new();
    let mut down = esker_keyspace_options_create();
    // SAFETY: borrowed names and buffers.
    unsafe {
        let set = esker_keyspace_options_set_key_order;
        assert_eq!(set(Some(&mut down), c"esker.reverse".as_ptr(), None), OK);
        let up = store.keyspace("up", None).unwrap();
        let down = store.keyspace("down", Some(&down)).unwrap();
        let size = |space: &Space, start: &str, end: &str| {
            let mut size = 7;
            let (s, s_len, e, e_len) = (start.as_ptr(), start.len(), end.as_ptr(), end.len());
            let measure = esker_keyspace_approximate_size;
            let place = Some(&mut size);
            (measure(space.get(), s, s_len, e, e_len, place, None), size)
        };
        for number in 0..2_000 {
            let (key, value) = (format!("{number:06}"), "v".repeat(40));
            assert_eq!((up.put(&key, &value), down.put(&key, &value)), (OK, OK));
        }
        assert_eq!(size(&up, "", "z"), (OK, 0));
        assert_eq!(esker_flush(store.get(), None), OK);
        for (space, least, greatest) in [(&up, "", "z"), (&down, "z", "")] {
            let (all, half) = (size(space, least, greatest).1, size(space, least, "001000").1);
            let mut whole = 0;
            assert_eq!(esker_keyspace_size_bytes(space.get(), Some(&mut whole), None), OK);
            assert!(all > 10_000 && all <= whole, "{all} of {whole}");
            assert!(half.abs_diff(all / 2) < all / 4, "{half} of {all}");
            assert_eq!((size(space, greatest, least), size(space, "a", "a")), ((OK, 0), (OK, 0)));
        }
        assert_eq!(size(&store.find("default").unwrap(), "", "z"), (OK, 0));
        let (measure, z) = (esker_keyspace_approximate_size, b"z".as_ptr());
        assert_eq!(measure(up.get(), null(), 0, z, 1, None, None), INVALID);
        let mut bytes = 0;
        assert_eq!(measure(up.get(), null(), 1, z, 1, Some(&mut bytes), None), INVALID);
        store.drop_keyspace("up").unwrap();
        assert_eq!(size(&up, "", "z").0, NOT_FOUND);
    }
}

#[test]
fn iterators_and_snapshots_tell_times_and_positions() {
    let store = Store::new();
    let space = store.keyspace("space", None).unwrap();
    let (k, mut snapshot) = (b"k".as_ptr(), null_mut());
    // SAFETY: borrowed buffers; handles are freed at the end.
    unsafe {
        let put = esker_keyspace_put_with_ttl;
        assert_eq!(put(space.get(), k, 1, k, 1, 86_400_000, 0, None), OK);
        assert_eq!(space.put("l", "1"), OK);
        let iter = space.iter(None, None);
        assert_eq!(esker_iter_expires_ms(iter.as_ref()), ESKER_NEVER_MS, "at no key");
        esker_iter_seek_to_first(iter.as_mut());
        let time = esker_iter_expires_ms(iter.as_ref());
        assert!(time > 86_400_000 && time < ESKER_NEVER_MS);
        esker_iter_next(iter.as_mut());
        assert_eq!(esker_iter_valid(iter.as_ref()), 1);
        assert_eq!(esker_iter_expires_ms(iter.as_ref()), ESKER_NEVER_MS);
        esker_iter_destroy(Some(Box::from_raw(iter)));
        assert_eq!(esker_snapshot_create(store.get(), Some(&mut snapshot), None), OK);
        assert_eq!(esker_snapshot_position(snapshot.as_ref()), 2);
        assert_eq!(space.put("m", "1"), OK);
        assert_eq!(esker_snapshot_position(snapshot.as_ref()), 2);
        esker_snapshot_destroy(Some(Box::from_raw(snapshot)));
    }
}

/// A value of `len` bytes, of which `fails_at` is not given.
struct Bytes {
    given: usize,
    len: usize,
    fails_at: usize,
    /// What to return instead of the length.
    wrong: i64,
}

unsafe extern "C" fn give(state: *mut c_void, buffer: *mut u8, len: usize) -> i64 {
    // SAFETY: the state of the test, and a buffer of that length.
    unsafe {
        let own = &mut *state.cast::<Bytes>();
        if own.given >= own.fails_at {
            return own.wrong;
        }
        let count = len.min(own.len - own.given).min(10_000);
        for at in 0..count {
            buffer.add(at).write(((own.given + at) % 251) as u8);
        }
        own.given += count;
        count as i64
    }
}

fn stream(
    store: &Store,
    space: Option<&Space>,
    key: &[u8],
    mut value: Bytes,
) -> (i32, u64, String) {
    let (mut bytes, mut message) = (7, null_mut());
    let (k, state) = (key.as_ptr(), (&raw mut value).cast());
    let (place, report) = (Some(&mut bytes), Some(&mut message));
    // SAFETY: borrowed buffers; the state outlives the call.
    let code = unsafe {
        match space {
            None => esker_put_reader(store.get(), k, key.len(), state, Some(give), place, report),
            Some(space) => {
                let put = esker_keyspace_put_reader;
                put(space.get(), k, key.len(), state, Some(give), place, report)
            }
        }
    };
    (code, bytes, taken(&mut message))
}

/// Returns the bytes that a reader returns from `offset` on.
fn read(reader: &mut esker_value_reader_t, offset: u64, len: usize) -> Vec<u8> {
    let (mut buffer, mut bytes) = (vec![0; len], 7);
    // SAFETY: a buffer of `len` bytes.
    let code = unsafe {
        let place = (buffer.as_mut_ptr(), Some(&mut bytes));
        esker_value_reader_read(Some(reader), offset, place.0, len, place.1, None)
    };
    assert_eq!(code, OK);
    buffer.truncate(bytes);
    buffer
}

#[test]
fn values_are_streamed_and_read_in_parts() {
    let store = Store::new();
    let spaces = [None, Some(store.keyspace("space", None).unwrap())];
    let content =
        |range: std::ops::Range<usize>| range.map(|at| (at % 251) as u8).collect::<Vec<_>>();
    let whole = |len| Bytes { given: 0, len, fails_at: usize::MAX, wrong: 0 };
    let mut kept: Option<Box<esker_value_reader_t>> = None;
    for space in &spaces {
        for len in [0, 5, 3 << 20] {
            assert_eq!(
                stream(&store, space.as_ref(), b"k", whole(len)),
                (OK, len as u64, String::new())
            );
            let mut reader = null_mut();
            // SAFETY: borrowed buffers; the reader is owned here.
            let mut reader = unsafe {
                let (k, place) = (b"k".as_ptr(), Some(&mut reader));
                let code = match space {
                    None => esker_get_reader(store.get(), k, 1, place, None),
                    Some(space) => esker_keyspace_get_reader(space.get(), k, 1, place, None),
                };
                assert_eq!(code, OK);
                Box::from_raw(reader)
            };
            assert_eq!(esker_value_reader_len(Some(&reader)), len as u64);
            assert_eq!(read(&mut reader, 0, 4 << 20), content(0..len));
            let from = len.saturating_sub(2);
            assert_eq!(read(&mut reader, from as u64, 9), content(from..len));
            assert!(read(&mut reader, len as u64, 9).is_empty());
            assert!(
                read(&mut reader, u64::MAX, 9).is_empty() && read(&mut reader, 0, 0).is_empty()
            );
            esker_value_reader_destroy(kept.replace(reader));
        }
        // A source that fails, or says that it has stored more than there was room for.
        for (fails_at, wrong) in [(0, -1), (1 << 20, i64::MIN), (0, i64::MAX), (1 << 20, 1 << 40)] {
            let value = Bytes { given: 0, len: 3 << 20, fails_at, wrong };
            let (code, bytes, message) = stream(&store, space.as_ref(), b"k", value);
            assert!(code == IO && bytes == 7, "{code} {message}");
            assert!(message.contains("the source of the value"), "{message}");
        }
    }
    let mut fleeting = esker_keyspace_options_create();
    // SAFETY: live handles; borrowed buffers.
    unsafe {
        assert_eq!(esker_keyspace_options_set_ttl_ms(Some(&mut fleeting), 500, None), OK);
        let space = store.keyspace("fleeting", Some(&fleeting)).unwrap();
        assert_eq!(stream(&store, Some(&space), b"k", whole(1)).0, INVALID);
        let (mut reader, k) = (null_mut(), b"none".as_ptr());
        assert_eq!(esker_get_reader(store.get(), k, 4, Some(&mut reader), None), OK);
        assert!(reader.is_null());
        assert_eq!(esker_put_reader(store.get(), k, 4, null_mut(), None, None, None), INVALID);
    }
    drop((spaces, store));
    // The last reader keeps its value, also after the store was freed.
    let mut kept = kept.unwrap();
    assert_eq!(read(&mut kept, 1 << 20, 100), content(1 << 20..(1 << 20) + 100));
    let (mut bytes, mut byte) = (7, 0);
    // SAFETY: null pointers are refused.
    unsafe {
        let (read, place) = (esker_value_reader_read, &raw mut byte);
        assert_eq!(read(Some(&mut kept), 0, place, 1, None, None), INVALID);
        assert_eq!(read(Some(&mut kept), 0, null_mut(), 1, Some(&mut bytes), None), INVALID);
        assert_eq!(bytes, 0);
    }
    esker_value_reader_destroy(Some(kept));
}
