//! Calls every entry point with nulls, with empty and oversized arguments, and on a closed store.
//!
//! Invariants: a failure is a code with a message, or a null; no call crashes.

mod common;
mod null_arguments;

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};

use common::{c_path, compared, taken};
use esker_c::own::batch::*;
use esker_c::own::common::*;
use esker_c::own::db::*;
use esker_c::own::iter::*;
use esker_c::own::keyspace::*;
use esker_c::own::keyspace_data::*;
use esker_c::own::options::*;
use esker_c::own::read::*;
use esker_c::own::store::*;
use esker_leveldb::batch::*;
use esker_leveldb::iter::*;
use esker_leveldb::objects::*;
use esker_leveldb::options::*;
use esker_leveldb::shim::*;
use esker_leveldb::store::*;
use proptest::prelude::*;

const INVALID: i32 = 1;
const CLOSED: i32 = 8;

/// Asserts that calls fail with `ESKER_INVALID_ARGUMENT` and a message.
macro_rules! refused {
    ($($function:ident($($argument:expr),*);)+) => {$({
        let mut message = null_mut();
        // SAFETY: only null pointers and borrowed texts, which the contract allows.
        #[allow(unused_unsafe, reason = "some of these functions take no raw pointers")]
        let code = unsafe { $function($($argument,)* Some(&mut message)) };
        let text = if message.is_null() { String::new() } else { taken(&mut message) };
        assert_eq!(code, INVALID, "{}: {text}", stringify!($function));
        assert!(text.contains("NULL"), "{}: {text}", stringify!($function));
        // SAFETY: as above; without a place for the message.
        #[allow(unused_unsafe, reason = "some of these functions take no raw pointers")]
        let again = unsafe { $function($($argument,)* None) };
        assert_eq!(again, INVALID, "{}", stringify!($function));
    })+};
}
pub(crate) use refused;

#[test]
fn null_handles_return_error_from_esker_functions() {
    refused! {
        esker_options_set(None, c"block_size".as_ptr(), c"1".as_ptr());
        esker_options_set(Some(&mut esker_options_t::default()), null(), null());
        esker_options_set_comparator(None, null_mut(), None, None, 0, None);
        esker_options_set_filter(None, null_mut(), None, None, None, None);
        esker_open(null(), None, Some(&mut null_mut()));
        esker_open(c"x".as_ptr(), None, None);
        esker_open_read_only(null(), None, Some(&mut null_mut()));
        esker_close(None);
        esker_destroy_store(null(), None);
        esker_repair(null(), None, None);
        esker_flush(None);
        esker_sync(None);
        esker_wait_idle(None);
        esker_compact_range(None, null(), 0, null(), 0);
        esker_approximate_size(None, null(), 0, null(), 0, None);
        esker_checkpoint(None, null());
        esker_upgrade_format(None, 2);
        esker_set_option(None, null(), null());
        esker_verify(None);
        esker_put(None, null(), 0, null(), 0, 0);
        esker_delete(None, null(), 0, 0);
        esker_write(None, None, 0);
        esker_batch_put(None, null(), 0, null(), 0);
        esker_batch_put(Some(&mut esker_batch_t::default()), null(), 1, null(), 0);
        esker_batch_delete(None, null(), 0);
        esker_batch_delete(Some(&mut esker_batch_t::default()), null(), usize::MAX);
        esker_batch_delete_range(None, null(), 0, null(), 0);
        esker_batch_append(null_mut(), null());
        esker_snapshot_create(None, Some(&mut null_mut()));
        esker_get(None, None, null(), 0, Some(&mut null_mut()), Some(&mut 0));
        esker_get_visit(None, None, 1, null(), 0, null_mut(), None);
        esker_iter_create(None, None, null(), 0, null(), 0, 1, Some(&mut null_mut()));
        esker_iter_failure(None);
        esker_shim_open(None, null(), None);
        esker_shim_destroy(None, null());
        esker_shim_repair(None, null());
        esker_shim_write(None, null(), 0, 0);
        esker_shim_trace_open(null(), None);
        esker_shim_trace_open(null(), Some(&mut null_mut()));
    }
}

#[test]
fn null_handles_return_error_from_keyspace_functions() {
    refused! {
        esker_options_add_comparator(None, null_mut(), None, None, 0, None);
        esker_options_set_key_order(None, c"esker.reverse".as_ptr());
        esker_options_set_key_order(Some(&mut esker_options_t::default()), null());
        esker_keyspace_options_set(None, c"block_size".as_ptr(), c"1".as_ptr());
        esker_keyspace_options_set(Some(&mut esker_keyspace_options_t::default()), null(), null());
        esker_keyspace_options_set_key_order(None, c"x".as_ptr());
        esker_keyspace_options_set_key_order(
            Some(&mut esker_keyspace_options_t::default()), null());
        esker_keyspace_open(None, c"x".as_ptr(), None, Some(&mut null_mut()));
        esker_keyspace_open(None, c"x".as_ptr(), None, None);
        esker_keyspace_find(None, c"x".as_ptr(), Some(&mut null_mut()));
        esker_keyspace_find(None, null(), Some(&mut null_mut()));
        esker_keyspaces(None, Some(&mut null_mut()));
        esker_keyspace_rename(None, null(), null());
        esker_keyspace_drop(None, null());
        esker_keyspace_put(None, null(), 0, null(), 0, 0);
        esker_keyspace_delete(None, null(), 0, 0);
        esker_keyspace_remove(None, null(), 0, None);
        esker_keyspace_delete_range(None, null(), 0, null(), 0, 0);
        esker_keyspace_clear(None);
        esker_keyspace_get(None, None, null(), 0, Some(&mut null_mut()), Some(&mut 0));
        esker_keyspace_get_visit(None, None, 1, null(), 0, null_mut(), None);
        esker_keyspace_multi_get(None, None, 1, 0, null(), null(), null_mut(), null_mut());
        esker_keyspace_multi_get(None, None, 1, 1, null(), null(), null_mut(), null_mut());
        esker_keyspace_contains(None, None, null(), 0, Some(&mut 0));
        esker_keyspace_iter_create(None, None, null(), 0, null(), 0, 1, Some(&mut null_mut()));
        esker_keyspace_compact_range(None, null(), 0, null(), 0);
        esker_keyspace_size_bytes(None, Some(&mut 0));
        esker_batch_put_in(None, None, null(), 0, null(), 0);
        esker_batch_put_in(Some(&mut esker_batch_t::default()), None, null(), 0, null(), 0);
        esker_batch_delete_in(Some(&mut esker_batch_t::default()), None, null(), 0);
        esker_batch_delete_range_in(None, None, null(), 0, null(), 0);
        esker_batch_delete_range_in(
            Some(&mut esker_batch_t::default()), None, null(), 0, null(), 0);
    }
}

#[test]
fn null_handles_are_ignored_by_functions_without_error_code() {
    let mut len = 7;
    // SAFETY: only null pointers.
    unsafe {
        esker_free(null_mut());
        assert!(esker_property(None, null()).is_null());
        assert!(esker_options_get(None, null()).is_null());
        esker_iter_seek(None, null(), 3);
        esker_iter_seek_for_prev(None, null(), 3);
        esker_batch_iterate(None, null_mut(), None, None, None);
        esker_batch_visit_keyspaces(None, null_mut(), None);
        esker_shim_trace_get(None, null(), 3, 0);
        esker_shim_scan_begin(None, null(), 3);
        esker_shim_trace_batch(None, null(), 3);
    }
    assert!(esker_shim_scan_create(None).is_none());
    esker_shim_scan_step(None, 1);
    esker_shim_scan_destroy(None);
    esker_shim_trace_discard(None);
    esker_shim_trace_destroy(None);
    assert!(esker_keyspace_name(None).is_null());
    assert!(esker_keyspace_key_order(None).is_null());
    assert!(esker_keyspace_own_options(None).is_null());
    assert_eq!((esker_keyspace_id(None), esker_keyspace_tree(None)), (0, 0));
    esker_keyspace_close(None);
    esker_keyspace_options_destroy(None);
    esker_options_destroy(None);
    esker_memory_destroy(None);
    esker_options_set_memory(None, None);
    esker_db_destroy(None);
    esker_batch_destroy(None);
    esker_batch_clear(None);
    assert_eq!((esker_batch_count(None), esker_batch_size_bytes(None)), (0, 0));
    esker_snapshot_destroy(None);
    esker_iter_destroy(None);
    for step in
        [esker_iter_seek_to_first, esker_iter_seek_to_last, esker_iter_next, esker_iter_prev]
    {
        step(None);
    }
    assert_eq!(esker_iter_valid(None), 0);
    esker_iter_key(None, Some(&mut len));
    assert_eq!(len, 0);
    esker_iter_value(None, None);
    esker_shim_set_memory(None, None);
}

#[test]
fn null_handles_return_message_or_nothing_from_leveldb_functions() {
    let mut err: *mut c_char = null_mut();
    let mut size = 9u64;
    // SAFETY: only null pointers; each text is freed before the next call.
    unsafe {
        assert!(leveldb_open(None, null(), Some(&mut err)).is_none());
        assert!(taken(&mut err).starts_with("Invalid argument: the path is NULL"));
        leveldb_put(None, None, null(), 0, null(), 0, Some(&mut err));
        assert!(taken(&mut err).contains("the store is NULL"));
        leveldb_put(None, None, null(), 5, null(), 0, Some(&mut err));
        assert!(taken(&mut err).contains("the key is NULL"));
        leveldb_delete(None, None, null(), 0, Some(&mut err));
        assert!(taken(&mut err).contains("NULL"));
        leveldb_write(None, None, None, Some(&mut err));
        assert!(taken(&mut err).contains("NULL"));
        assert!(leveldb_get(None, None, null(), 0, None, Some(&mut err)).is_null());
        assert!(taken(&mut err).contains("NULL"));
        leveldb_destroy_db(None, null(), Some(&mut err));
        assert!(taken(&mut err).contains("NULL"));
        leveldb_repair_db(None, null(), Some(&mut err));
        assert!(taken(&mut err).contains("NULL"));
        leveldb_iter_get_error(None, Some(&mut err));
        assert!(taken(&mut err).contains("NULL"));
        leveldb_put(None, None, null(), 0, null(), 0, None);
        assert!(leveldb_create_iterator(None, None).is_none());
        assert!(leveldb_property_value(None, null()).is_null());
        leveldb_approximate_sizes(None, 1, null(), null(), null(), null(), &raw mut size);
        leveldb_approximate_sizes(None, -1, null(), null(), null(), null(), null_mut());
        leveldb_compact_range(None, null(), 0, null(), 0);
        leveldb_iter_seek(None, null(), 3);
        leveldb_writebatch_put(None, null(), 1, null(), 1);
        leveldb_writebatch_delete(None, null(), 1);
        leveldb_writebatch_iterate(None, null_mut(), None, None);
        leveldb_readoptions_set_snapshot(None, null());
        leveldb_free(null_mut());
        assert!(leveldb_comparator_create(null_mut(), None, None, None).is_none());
        assert!(leveldb_filterpolicy_create(null_mut(), None, None, None, None).is_none());
    }
    assert_eq!(size, 9, "nothing was written without the other arrays");
    leveldb_nulls_that_are_nothing();
}

fn leveldb_nulls_that_are_nothing() {
    leveldb_close(None);
    assert!(leveldb_create_snapshot(None).is_none());
    leveldb_release_snapshot(None, None);
    leveldb_iter_destroy(None);
    assert_eq!(leveldb_iter_valid(None), 0);
    for step in [
        leveldb_iter_seek_to_first,
        leveldb_iter_seek_to_last,
        leveldb_iter_next,
        leveldb_iter_prev,
    ] {
        step(None);
    }
    leveldb_iter_key(None, None);
    leveldb_iter_value(None, None);
    leveldb_writebatch_destroy(None);
    leveldb_writebatch_clear(None);
    // SAFETY: only null pointers.
    unsafe { leveldb_writebatch_append(null_mut(), null()) };
    leveldb_options_destroy(None);
    leveldb_options_set_comparator(None, None);
    leveldb_options_set_filter_policy(None, None);
    leveldb_options_set_create_if_missing(None, 1);
    leveldb_options_set_error_if_exists(None, 1);
    leveldb_options_set_paranoid_checks(None, 1);
    leveldb_options_set_env(None, None);
    leveldb_options_set_info_log(None, None);
    leveldb_options_set_write_buffer_size(None, 1);
    leveldb_options_set_max_open_files(None, 1);
    leveldb_options_set_cache(None, None);
    leveldb_options_set_block_size(None, 1);
    leveldb_options_set_block_restart_interval(None, 1);
    leveldb_options_set_max_file_size(None, 1);
    leveldb_options_set_compression(None, 9);
    leveldb_comparator_destroy(None);
    leveldb_filterpolicy_destroy(None);
    leveldb_filterpolicy_destroy(Some(leveldb_filterpolicy_create_bloom(-5)));
    leveldb_readoptions_destroy(None);
    leveldb_readoptions_set_verify_checksums(None, 1);
    leveldb_readoptions_set_fill_cache(None, 1);
    leveldb_writeoptions_destroy(None);
    leveldb_writeoptions_set_sync(None, 1);
    leveldb_cache_destroy(None);
    leveldb_cache_destroy(Some(leveldb_cache_create_lru(usize::MAX)));
    leveldb_env_destroy(None);
    assert!(leveldb_env_get_test_directory(None).is_null());
    assert_eq!((leveldb_major_version(), leveldb_minor_version()), (1, 23));
}

/// An open in-memory store.
struct Store {
    db: *mut esker_db_t,
}

impl Store {
    fn open() -> Store {
        let memory = esker_memory_create();
        let mut options = esker_options_create();
        esker_options_set_memory(Some(&mut options), Some(&memory));
        let (mut db, mut message) = (null_mut(), null_mut());
        // SAFETY: borrowed for the call.
        let code = unsafe {
            esker_open(c"/store".as_ptr(), Some(&options), Some(&mut db), Some(&mut message))
        };
        assert_eq!(code, 0, "{}", taken(&mut message));
        Store { db }
    }

    fn get(&self) -> Option<&esker_db_t> {
        // SAFETY: the store is alive until it is dropped.
        unsafe { self.db.as_ref() }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // SAFETY: created by `esker_open`, and no call is running on it.
        esker_db_destroy(Some(unsafe { Box::from_raw(self.db) }));
    }
}

#[test]
fn closed_store_refuses_calls_and_its_results_stay_readable() {
    let store = Store::open();
    let db = store.get();
    let (mut iter, mut snapshot, mut message) = (null_mut(), null_mut(), null_mut());
    // SAFETY: borrowed buffers; handles are freed once, at the end.
    unsafe {
        assert_eq!(esker_put(db, b"k".as_ptr(), 1, b"v".as_ptr(), 1, 3, None), 0);
        assert_eq!(esker_snapshot_create(db, Some(&mut snapshot), None), 0);
        let made = esker_iter_create(db, None, null(), 0, null(), 0, 1, Some(&mut iter), None);
        assert_eq!(made, 0);
        assert_eq!(esker_close(db, None), 0);
        assert_eq!(esker_close(db, None), 0);
        let code = esker_put(db, b"k".as_ptr(), 1, b"v".as_ptr(), 1, 0, Some(&mut message));
        assert_eq!(code, CLOSED);
        assert!(taken(&mut message).contains("closed"));
        let (mut value, mut len) = (null_mut(), 0);
        let place = (Some(&mut value), Some(&mut len));
        assert_eq!(esker_get(db, None, b"k".as_ptr(), 1, place.0, place.1, None), CLOSED);
        assert_eq!(esker_flush(db, None), CLOSED);
        assert!(esker_property(db, c"leveldb.stats".as_ptr()).is_null());
        esker_iter_seek_to_first(iter.as_mut());
        assert_eq!(esker_iter_valid(iter.as_ref()), 1);
        let mut len = 0;
        let key = esker_iter_key(iter.as_ref(), Some(&mut len));
        assert_eq!(std::slice::from_raw_parts(key, len), b"k");
        esker_iter_destroy(Some(Box::from_raw(iter)));
        esker_snapshot_destroy(Some(Box::from_raw(snapshot)));
    }
}

#[test]
fn out_of_range_arguments_are_refused() {
    let store = Store::open();
    let db = store.get();
    let long = vec![b'x'; esker::internals::KEY_BYTES_MAX + 1];
    let mut message = null_mut();
    // SAFETY: borrowed buffers; an impossible length is refused before the buffer is read.
    unsafe {
        let code = esker_put(db, long.as_ptr(), long.len(), null(), 0, 0, Some(&mut message));
        assert_eq!(code, INVALID);
        assert!(taken(&mut message).contains("bytes"));
        let code = esker_put(db, long.as_ptr(), usize::MAX, null(), 0, 0, Some(&mut message));
        assert_eq!(code, INVALID);
        assert!(taken(&mut message).contains("cannot have"));
        assert_eq!(esker_put(db, null(), 0, null(), 0, 77, Some(&mut message)), INVALID);
        assert!(taken(&mut message).contains("durability 77"));
        assert_eq!(esker_put(db, null(), 0, null(), 0, 0, None), 0, "an empty key is a key");
        let mut batch = esker_batch_t::default();
        esker_batch_put(Some(&mut batch), long.as_ptr(), long.len(), null(), 0, None);
        assert_eq!(esker_write(db, Some(&batch), 0, None), INVALID);
        assert!(esker_property(db, c"leveldb.num-files-at-level7".as_ptr()).is_null());
        assert!(esker_property(db, c"leveldb.num-files-at-level-1".as_ptr()).is_null());
        assert!(esker_property(db, c"".as_ptr()).is_null());
    }
}

#[test]
fn leveldb_properties_are_supported() {
    let store = Store::open();
    let property = |name: &CStr| {
        // SAFETY: a borrowed string; the returned text is freed.
        let mut text = unsafe { esker_property(store.get(), name.as_ptr()) };
        assert!(!text.is_null(), "{name:?}");
        taken(&mut text)
    };
    // SAFETY: borrowed buffers.
    unsafe {
        assert_eq!(esker_put(store.get(), b"apple".as_ptr(), 5, b"v".as_ptr(), 1, 0, None), 0);
        assert_eq!(esker_flush(store.get(), None), 0);
    }
    let levels = [
        c"leveldb.num-files-at-level0",
        c"leveldb.num-files-at-level1",
        c"leveldb.num-files-at-level2",
        c"leveldb.num-files-at-level6",
    ];
    let files: u64 = levels.iter().map(|name| property(name).parse::<u64>().unwrap()).sum();
    assert_eq!(files, 1);
    assert!(property(c"leveldb.stats").contains("Level  Files Size(MB)"));
    assert!(property(c"leveldb.sstables").contains("['apple' .. 'apple']"));
    assert!(property(c"leveldb.approximate-memory-usage").parse::<u64>().unwrap() > 0);
    assert_eq!(property(c"esker.option.block_size"), "4096");
}

unsafe extern "C" fn backwards(
    _state: *mut c_void,
    a: *const c_char,
    a_len: usize,
    b: *const c_char,
    b_len: usize,
) -> c_int {
    // SAFETY: the arguments of this call.
    let (a, b) = unsafe { compared(a, a_len, b, b_len) };
    b.cmp(a) as c_int
}

unsafe extern "C" fn count_down(state: *mut c_void) {
    // SAFETY: the test passes a counter that outlives the store.
    unsafe { *state.cast::<i32>() -= 1 }
}

unsafe extern "C" fn backwards_name(_state: *mut c_void) -> *const c_char {
    c"test.backwards".as_ptr()
}

#[test]
fn comparator_orders_store_is_checked_by_name_and_freed_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = c_path(&dir.path().join("db"));
    let mut alive = 1;
    let mut err: *mut c_char = null_mut();
    let mut options = leveldb_options_create();
    leveldb_options_set_create_if_missing(Some(&mut options), 1);
    // SAFETY: borrowed buffers; the counter outlives every object that may decrement it.
    unsafe {
        let state = (&raw mut alive).cast();
        let comparator = leveldb_comparator_create(
            state,
            Some(count_down),
            Some(backwards),
            Some(backwards_name),
        );
        leveldb_options_set_comparator(Some(&mut options), comparator.as_deref());
        let db = leveldb_open(Some(&options), path.as_ptr(), Some(&mut err)).unwrap();
        for key in [b"a", b"c", b"b"] {
            let value = b"v".as_ptr().cast();
            leveldb_put(Some(&db), None, key.as_ptr().cast(), 1, value, 1, Some(&mut err));
            assert!(err.is_null());
        }
        let mut iter = leveldb_create_iterator(Some(&db), None);
        leveldb_iter_seek_to_first(iter.as_deref_mut());
        let mut len = 0;
        let key = leveldb_iter_key(iter.as_deref(), Some(&mut len));
        assert_eq!(std::slice::from_raw_parts(key.cast::<u8>(), len), b"c");
        leveldb_iter_destroy(iter);
        leveldb_close(Some(db));
        leveldb_comparator_destroy(comparator);
        leveldb_options_destroy(Some(options));
        assert_eq!(alive, 0, "the destructor ran once");
        assert!(leveldb_open(None, path.as_ptr(), Some(&mut err)).is_none());
        let text = taken(&mut err);
        assert!(
            text.starts_with("Invalid argument: ") && text.contains("test.backwards"),
            "{text}"
        );
    }
}

#[test]
fn leveldb_directory_is_refused_with_import_command() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["CURRENT", "MANIFEST-000002", "000003.log", "LOCK", "LOG"] {
        std::fs::File::create(dir.path().join(name)).unwrap();
    }
    let path = c_path(dir.path());
    let mut err: *mut c_char = null_mut();
    // SAFETY: borrowed for the call.
    unsafe {
        assert!(leveldb_open(None, path.as_ptr(), Some(&mut err)).is_none());
        let text = taken(&mut err);
        let command = format!("esker import leveldb {}", dir.path().display());
        assert!(text.contains("a LevelDB directory") && text.contains(&command), "{text}");
        leveldb_destroy_db(None, path.as_ptr(), Some(&mut err));
        assert!(taken(&mut err).contains("left untouched"));
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 5);
}

#[test]
fn destroy_without_store_succeeds_and_removes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("note.txt"), "mine").unwrap();
    let (here, nowhere) = (c_path(dir.path()), c_path(&dir.path().join("nowhere")));
    let mut err: *mut c_char = null_mut();
    for path in [here, nowhere] {
        // SAFETY: borrowed for the call.
        unsafe { leveldb_destroy_db(None, path.as_ptr(), Some(&mut err)) };
        assert_eq!(taken(&mut err), "");
    }
    assert_eq!(std::fs::read(dir.path().join("note.txt")).unwrap(), b"mine");
}

#[test]
fn unused_objects_are_freed() {
    esker_batch_destroy(Some(esker_batch_create()));
    esker_keyspace_options_destroy(Some(esker_keyspace_options_create()));
    leveldb_env_destroy(Some(leveldb_create_default_env()));
    leveldb_readoptions_destroy(Some(leveldb_readoptions_create()));
    leveldb_writebatch_destroy(Some(leveldb_writebatch_create()));
    leveldb_writeoptions_destroy(Some(leveldb_writeoptions_create()));
    // SAFETY: a static text.
    let version = unsafe { CStr::from_ptr(esker_version()) };
    assert_eq!(version.to_str(), Ok(env!("CARGO_PKG_VERSION")));
}

/// Collects all files under `folder`.
fn files(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

#[test]
fn every_entry_point_is_called_in_these_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let words = |text: &str| -> BTreeSet<String> {
        let word = |c: char| c.is_alphanumeric() || c == '_';
        text.split(|c| !word(c)).map(ToString::to_string).collect()
    };
    let mut met = BTreeSet::new();
    for file in ["tests/invalid_arguments.rs", "tests/null_arguments/mod.rs"] {
        met.extend(words(&std::fs::read_to_string(root.join(file)).unwrap()));
    }
    let (mut sources, mut entries) = (Vec::new(), BTreeSet::new());
    files(&root.join("src"), &mut sources);
    files(&root.join("../leveldb/src"), &mut sources);
    for source in sources {
        let text = std::fs::read_to_string(source).unwrap();
        // A macro defines the setters of options.
        let made = words(&text).into_iter().filter(|w| w.starts_with("leveldb_options_set_"));
        entries.extend(made);
        let named = text.split("extern \"C\" fn ").skip(1);
        let names = named.filter_map(|rest| rest.split(['(', '<']).next());
        entries.extend(names.filter(|n| n.contains('_') && !n.contains('$')).map(str::to_string));
    }
    assert!(entries.len() > 190, "only {} entry points were found", entries.len());
    assert_eq!(entries.difference(&met).collect::<Vec<_>>(), Vec::<&String>::new());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Arbitrary bytes as a LevelDB batch, as an option text and as a key give a result, not a
    /// crash.
    #[test]
    fn random_bytes_return_without_crash(
        rep in proptest::collection::vec(any::<u8>(), 0..64),
        key in proptest::collection::vec(any::<u8>(), 0..64),
        name in "[ -~]{0,24}", value in "[ -~]{0,24}",
    ) {
        let store = Store::open();
        let db = store.get();
        let (name, value) = (CString::new(name).unwrap(), CString::new(value).unwrap());
        // SAFETY: borrowed buffers and strings.
        unsafe {
            let code = esker_shim_write(db, rep.as_ptr(), rep.len(), 0, None);
            prop_assert!((0..=8).contains(&code));
            let (n, v) = (name.as_ptr(), value.as_ptr());
            prop_assert!((0..=8).contains(&esker_set_option(db, n, v, None)));
            esker_free(esker_property(db, n).cast());
            let put = esker_put(db, key.as_ptr(), key.len(), rep.as_ptr(), rep.len(), 0, None);
            prop_assert_eq!(put, 0);
            let (mut found, mut len) = (null_mut(), 0);
            let place = (Some(&mut found), Some(&mut len));
            prop_assert_eq!(esker_get(db, None, key.as_ptr(), key.len(), place.0, place.1, None), 0);
            prop_assert_eq!(std::slice::from_raw_parts(found, len), rep.as_slice());
            esker_free(found.cast());
        }
    }
}
