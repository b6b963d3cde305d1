//! What a caller learns of a function that Esker refuses or accepts without effect.

mod calls;

use std::ffi::{CStr, c_char};
use std::ptr::null_mut;

use calls::{Api, Handle, Start, Store, start};
use esker_rocksdb as _;

unsafe extern "C" {
    fn rocksdb_compaction_options_set_canceled(options: Handle, flag: Handle);
    fn rocksdb_multi_get(
        db: Handle,
        options: Handle,
        count: usize,
        keys: *const Start,
        lens: *const usize,
        values: *mut *mut c_char,
        value_lens: *mut usize,
        errors: *mut *mut c_char,
    );
    fn rocksdb_readoptions_set_readahead_size(options: Handle, bytes: usize);
}

const NAMES: &[&str] = &["default", "other"];

fn opened() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(Api::esker(), &dir.path().join("db"), NAMES).unwrap();
    (dir, store)
}

/// The texts of errors, `None` for a call without one.
type Errors = Vec<Option<String>>;

/// Takes the texts of errors.
fn texts(api: Api, errors: &[*mut c_char]) -> Errors {
    let text = |error: &*mut c_char| {
        // SAFETY: an error text of the library, or null.
        let len = if error.is_null() { 0 } else { unsafe { CStr::from_ptr(*error).count_bytes() } };
        api.take(*error, len).map(|bytes| String::from_utf8(bytes).unwrap())
    };
    errors.iter().map(text).collect()
}

const KEYS: [&[u8]; 2] = [b"a", b"b"];

fn copied(store: &Store) -> Errors {
    let (mut values, mut lengths, mut errors) = ([null_mut(); 2], [0usize; 2], [null_mut(); 2]);
    let (keys, lens) = (KEYS.map(start), [1usize; 2]);
    let (values, lengths) = (values.as_mut_ptr(), lengths.as_mut_ptr());
    let places = errors.as_mut_ptr();
    // SAFETY: objects of this library; the arrays have an item for each key.
    unsafe {
        let (keys, lens) = (keys.as_ptr(), lens.as_ptr());
        rocksdb_multi_get(store.db, store.read, 2, keys, lens, values, lengths, places);
    }
    texts(store.api, &errors)
}

fn of_families(store: &Store) -> Errors {
    let (mut values, mut lengths, mut errors) = ([null_mut(); 2], [0usize; 2], [null_mut(); 2]);
    let (keys, lens, families) = (KEYS.map(start), [1usize; 2], [store.families[0]; 2]);
    let (values, lengths) = (values.as_mut_ptr(), lengths.as_mut_ptr());
    let (places, of) = (errors.as_mut_ptr(), families.as_ptr());
    // SAFETY: as above.
    unsafe {
        let (keys, lens) = (keys.as_ptr(), lens.as_ptr());
        let get = store.api.rocksdb_multi_get_cf;
        get(store.db, store.read, of, 2, keys, lens, values, lengths, places);
    }
    texts(store.api, &errors)
}

fn pinned(store: &Store) -> Errors {
    let (mut values, mut errors) = ([null_mut(); 2], [null_mut(); 2]);
    let (keys, lens, family) = (KEYS.map(start), [1usize; 2], store.families[0]);
    let (values, places) = (values.as_mut_ptr(), errors.as_mut_ptr());
    // SAFETY: as above.
    unsafe {
        let (keys, lens) = (keys.as_ptr(), lens.as_ptr());
        let get = store.api.rocksdb_batched_multi_get_cf;
        get(store.db, store.read, family, 2, keys, lens, values, places, 0);
    }
    texts(store.api, &errors)
}

fn iterator(store: &Store) -> Errors {
    let (api, mut error) = (store.api, null_mut());
    // SAFETY: objects of this library.
    unsafe {
        let iter = (api.rocksdb_create_iterator_cf)(store.db, store.read, store.families[0]);
        (api.rocksdb_iter_seek_to_first)(iter);
        (api.rocksdb_iter_get_error)(iter, &raw mut error);
        (api.rocksdb_iter_destroy)(iter);
    }
    texts(api, &[error])
}

/// A refused function without an error text and without options cannot report anything, so the next
/// call does, of whichever kind it is. The call after it succeeds.
#[test]
fn a_pending_refusal_fails_the_next_read_of_every_kind() {
    let (_dir, store) = opened();
    for (name, call) in [
        ("rocksdb_multi_get", copied as fn(&Store) -> Errors),
        ("rocksdb_multi_get_cf", of_families),
        ("rocksdb_batched_multi_get_cf", pinned),
        ("rocksdb_create_iterator_cf", iterator),
    ] {
        // SAFETY: null for an object that is not used.
        unsafe { rocksdb_compaction_options_set_canceled(null_mut(), null_mut()) };
        for error in call(&store) {
            let error = error.expect(name);
            let refused = "Not implemented: rocksdb_compaction_options_set_canceled: ";
            assert!(error.starts_with(refused), "{name}: {error}");
        }
        assert!(call(&store).iter().all(Option::is_none), "{name}: the refusal was reported");
    }
}

/// The functions called before the opening and those called before the close.
#[test]
fn accepted_functions_are_in_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let api = Api::esker();
    // SAFETY: objects of this library.
    unsafe {
        let options = (api.rocksdb_options_create)();
        (api.rocksdb_options_set_use_fsync)(options, 1);
        (api.rocksdb_options_destroy)(options);
    }
    let store = Store::open(api, &path, NAMES).unwrap();
    // SAFETY: an object of this library.
    unsafe { rocksdb_readoptions_set_readahead_size(store.read, 1 << 20) };
    drop(store);
    let log = std::fs::read_to_string(path.join("LOG")).unwrap();
    let lines: Vec<&str> =
        log.lines().filter(|line| line.contains(" rocksdb: accepted without effect: ")).collect();
    let all = lines.join(", ");
    assert_eq!(all.matches("rocksdb_options_set_use_fsync").count(), 1, "{log}");
    assert_eq!(all.matches("rocksdb_readoptions_set_readahead_size").count(), 1, "{log}");
    // The next store of this process has those of before, too.
    let next = dir.path().join("next");
    drop(Store::open(api, &next, NAMES).unwrap());
    let log = std::fs::read_to_string(next.join("LOG")).unwrap();
    assert!(log.contains("rocksdb_readoptions_set_readahead_size"), "{log}");
}
