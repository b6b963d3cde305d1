//! RocksDB's C functions over Esker, called as a C program calls them.

mod calls;
mod files_and_log;

use std::ffi::{CString, c_char};
use std::ptr::null_mut;

use calls::{Api, Handle, Iter, Place, Scan, Start, Store, kind, start};
use esker_rocksdb as _;

unsafe extern "C" {
    fn rocksdb_writebatch_put_cf_with_ts(
        batch: Handle,
        family: Handle,
        key: Start,
        len: usize,
        ts: Start,
        ts_len: usize,
        value: Start,
        value_len: usize,
    );
    fn rocksdb_options_set_db_paths(options: Handle, paths: *const Handle, count: usize);
    fn rocksdb_transactiondb_options_create() -> Handle;
    fn rocksdb_transactiondb_options_destroy(options: Handle);
    fn rocksdb_transaction_options_create() -> Handle;
    fn rocksdb_transaction_options_destroy(options: Handle);
    fn rocksdb_transaction_options_set_lock_timeout(options: Handle, ms: i64);
    fn rocksdb_transactiondb_open(
        options: Handle,
        of_db: Handle,
        path: Start,
        error: Place,
    ) -> Handle;
    fn rocksdb_transactiondb_close(db: Handle);
    fn rocksdb_transaction_begin(db: Handle, write: Handle, options: Handle, old: Handle)
    -> Handle;
    fn rocksdb_transaction_put(
        txn: Handle,
        key: Start,
        len: usize,
        value: Start,
        value_len: usize,
        error: Place,
    );
    fn rocksdb_transaction_set_name(txn: Handle, name: Start, len: usize, error: Place);
    fn rocksdb_transaction_prepare(txn: Handle, error: Place);
    fn rocksdb_transactiondb_get_prepared_transactions(
        db: Handle,
        count: *mut usize,
    ) -> *mut Handle;
    fn rocksdb_transactiondb_get(
        db: Handle,
        options: Handle,
        key: Start,
        len: usize,
        value_len: *mut usize,
        error: Place,
    ) -> *mut c_char;
    fn rocksdb_backup_engine_open(options: Handle, path: Start, error: Place) -> Handle;
    fn rocksdb_backup_engine_create_new_backup(engine: Handle, db: Handle, error: Place);
    fn rocksdb_backup_engine_restore_db_from_latest_backup(
        engine: Handle,
        db_dir: Start,
        wal_dir: Start,
        options: Handle,
        error: Place,
    );
    fn rocksdb_backup_engine_close(engine: Handle);
    fn rocksdb_restore_options_create() -> Handle;
    fn rocksdb_restore_options_destroy(options: Handle);
    fn rocksdb_options_get_max_open_files(options: Handle) -> i32;
    fn rocksdb_options_get_max_bytes_for_level_multiplier(options: Handle) -> f64;
    fn rocksdb_options_set_max_bytes_for_level_multiplier(options: Handle, value: f64);
    fn rocksdb_get_options_from_string(base: Handle, text: Start, new: Handle, error: Place);
}

const NAMES: &[&str] = &["default", "other"];

fn text(text: &str) -> CString {
    CString::new(text).unwrap()
}

fn opened() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(Api::esker(), &dir.path().join("db"), NAMES).unwrap();
    (dir, store)
}

#[test]
fn writes_survive_a_reopen_in_their_column_families() {
    let (dir, store) = opened();
    store.set(0, b"a", Some(b"1")).unwrap();
    store.set(1, b"a", Some(b"2")).unwrap();
    store.set(1, b"", Some(b"")).unwrap();
    store.set(0, b"b", Some(b"3")).unwrap();
    store.set(0, b"b", None).unwrap();
    drop(store);
    let store = Store::open(Api::esker(), &dir.path().join("db"), NAMES).unwrap();
    assert_eq!(store.get(0, b"a"), Ok(Some(b"1".to_vec())));
    assert_eq!(store.get(1, b"a"), Ok(Some(b"2".to_vec())));
    assert_eq!(store.get(1, b""), Ok(Some(Vec::new())));
    assert_eq!(store.get(0, b"b"), Ok(None));
}

#[test]
fn every_column_family_must_be_opened() {
    let (dir, store) = opened();
    let api = store.api;
    let path = text(dir.path().join("db").to_str().unwrap());
    // SAFETY: objects of this library; the list has `count` names.
    unsafe {
        let id = (api.rocksdb_column_family_handle_get_id)(store.families[1]);
        assert_ne!(id, 0);
        let options = (api.rocksdb_options_create)();
        let mut count = 0usize;
        let list = api.checked(|error| {
            (api.rocksdb_list_column_families)(options, path.as_ptr(), &raw mut count, error)
        });
        assert_eq!(count, 2);
        (api.rocksdb_list_column_families_destroy)(list.unwrap(), count);
        drop(store);
        let alone = api.checked(|error| (api.rocksdb_open)(options, path.as_ptr(), error));
        let message = alone.unwrap_err();
        assert_eq!(message, "Invalid argument: Column families not opened: other");
        (api.rocksdb_options_destroy)(options);
    }
    let store = Store::open(api, &dir.path().join("db"), NAMES).unwrap();
    // SAFETY: the family is dropped, and its handle freed with the store.
    unsafe {
        let dropped = |error| (api.rocksdb_drop_column_family)(store.db, store.families[1], error);
        api.checked(dropped).unwrap();
        assert!(store.set(1, b"a", Some(b"1")).is_err());
        let own = |error| (api.rocksdb_drop_column_family)(store.db, store.families[0], error);
        assert_eq!(kind(&api.checked(own).unwrap_err()), "Invalid argument");
    }
    drop(store);
    Store::open(api, &dir.path().join("db"), &NAMES[..1]).unwrap();
}

#[test]
fn a_missing_store_is_an_invalid_argument() {
    let dir = tempfile::tempdir().unwrap();
    let api = Api::esker();
    let path = text(dir.path().join("db").to_str().unwrap());
    // SAFETY: objects of this library.
    unsafe {
        let options = (api.rocksdb_options_create)();
        let opened = api.checked(|error| (api.rocksdb_open)(options, path.as_ptr(), error));
        assert_eq!(kind(&opened.unwrap_err()), "Invalid argument");
        let destroyed = |error| (api.rocksdb_destroy_db)(options, path.as_ptr(), error);
        api.checked(destroyed).unwrap();
        (api.rocksdb_options_destroy)(options);
    }
}

#[test]
fn batches_are_atomic_and_keep_their_bytes() {
    let (_dir, store) = opened();
    let api = store.api;
    // SAFETY: objects of this library; buffers live through the calls.
    unsafe {
        let batch = (api.rocksdb_writebatch_create)();
        let put = |family: usize, key: &[u8], value: &[u8]| {
            let (family, value_len) = (store.families[family], value.len());
            let (key, len) = (start(key), key.len());
            (api.rocksdb_writebatch_put_cf)(batch, family, key, len, start(value), value_len);
        };
        put(0, b"a", b"1");
        put(1, b"b", b"2");
        (api.rocksdb_writebatch_set_save_point)(batch);
        put(0, b"c", b"3");
        api.checked(|error| (api.rocksdb_writebatch_rollback_to_save_point)(batch, error)).unwrap();
        let again = api.checked(|e| (api.rocksdb_writebatch_rollback_to_save_point)(batch, e));
        assert_eq!(kind(&again.unwrap_err()), "NotFound");
        let mut len = 0usize;
        let bytes = (api.rocksdb_writebatch_data)(batch, &raw mut len);
        let copy = (api.rocksdb_writebatch_create_from)(bytes, len);
        assert_eq!((api.rocksdb_writebatch_count)(copy), 2);
        api.checked(|error| (api.rocksdb_write)(store.db, store.write, copy, error)).unwrap();
        assert_eq!(store.all(0), [(b"a".to_vec(), b"1".to_vec())]);
        assert_eq!(store.all(1), [(b"b".to_vec(), b"2".to_vec())]);
        let damaged = (api.rocksdb_writebatch_create_from)(bytes, len - 1);
        let written = api.checked(|error| {
            (api.rocksdb_write)(store.db, store.write, damaged, error);
        });
        assert_eq!(kind(&written.unwrap_err()), "Corruption");
        for batch in [batch, copy, damaged] {
            (api.rocksdb_writebatch_destroy)(batch);
        }
    }
}

#[test]
fn iterators_stay_within_bounds_and_prefix() {
    let (_dir, store) = opened();
    for key in ["a1", "a2", "b1", "b2", "c1"] {
        store.set(0, key.as_bytes(), Some(b"v")).unwrap();
    }
    let keys = |scan: &Scan, from: &[u8]| {
        store.scan(0, scan, |iter: &Iter| {
            iter.seek(from);
            let mut keys = Vec::new();
            while let Some((key, _)) = iter.pair() {
                keys.push(String::from_utf8(key).unwrap());
                iter.next();
            }
            keys.join(" ")
        })
    };
    let bounded =
        Scan { lower: Some(b"a2".to_vec()), upper: Some(b"b2".to_vec()), same_prefix: false };
    assert_eq!(keys(&bounded, b"a"), "a2 b1");
    let same = Scan { same_prefix: true, ..Scan::default() };
    assert_eq!(keys(&same, b"a2"), "a2");
    assert_eq!(keys(&same, b"b"), "b1 b2");
    store.scan(0, &bounded, |iter| {
        iter.last();
        assert_eq!(iter.pair().unwrap().0, b"b1");
        iter.seek_for_prev(b"zz");
        assert_eq!(iter.pair().unwrap().0, b"b1");
        iter.prev();
        iter.prev();
        assert_eq!((iter.pair(), iter.error()), (None, Ok(())));
    });
}

#[test]
fn refusals_name_the_function() {
    let (dir, store) = opened();
    let api = store.api;
    let expect = |result: Result<(), String>, function: &str| {
        let message = result.unwrap_err();
        assert!(message.starts_with(&format!("Not implemented: {function}: ")), "{message}");
    };
    // SAFETY: objects of this library; buffers live through the calls.
    unsafe {
        let (db, write) = (store.db, store.write);
        let options = (api.rocksdb_options_create)();
        let path = text(dir.path().join("paths").to_str().unwrap());
        let batch = (api.rocksdb_writebatch_create)();
        let (family, ts) = (store.families[0], start(b"12345678"));
        rocksdb_writebatch_put_cf_with_ts(batch, family, start(b"k"), 1, ts, 8, start(b"v"), 1);
        let written = api.checked(|error| (api.rocksdb_write)(db, write, batch, error));
        expect(written, "rocksdb_writebatch_put_cf_with_ts");
        (api.rocksdb_writebatch_destroy)(batch);
        rocksdb_options_set_db_paths(options, [null_mut()].as_ptr(), 1);
        (api.rocksdb_options_set_create_if_missing)(options, 1);
        let opened = api.checked(|error| {
            (api.rocksdb_open)(options, path.as_ptr(), error);
        });
        expect(opened, "rocksdb_options_set_db_paths");
        (api.rocksdb_options_destroy)(options);
        assert!(!dir.path().join("paths").exists());
    }
}

/// Begins an optimistic transaction.
fn begin(store: &Store) -> Handle {
    let api = store.api;
    // SAFETY: objects of an open store.
    unsafe {
        let options = (api.rocksdb_optimistictransaction_options_create)();
        let begin = api.rocksdb_optimistictransaction_begin;
        let txn = begin(store.owner, store.write, options, null_mut());
        (api.rocksdb_optimistictransaction_options_destroy)(options);
        txn
    }
}

#[test]
fn optimistic_transactions_read_their_writes_and_conflict() {
    let (_dir, store) = opened();
    let api = store.api;
    let family = store.families[1];
    store.set(1, b"a", Some(b"old")).unwrap();
    let (one, two) = (begin(&store), begin(&store));
    let put = |txn, key: &[u8], value: &[u8]| {
        let (value, value_len) = (start(value), value.len());
        let (key, len) = (start(key), key.len());
        // SAFETY: objects of an open store; buffers live through the call.
        api.checked(|error| unsafe {
            (api.rocksdb_transaction_put_cf)(txn, family, key, len, value, value_len, error);
        })
    };
    put(one, b"a", b"one").unwrap();
    put(one, b"b", b"one").unwrap();
    put(two, b"a", b"two").unwrap();
    // SAFETY: objects of an open store.
    unsafe {
        let mut len = 0usize;
        let read = |error| {
            let get = api.rocksdb_transaction_get_cf;
            get(one, store.read, family, start(b"a"), 1, &raw mut len, error)
        };
        let value = api.checked(read).unwrap();
        assert_eq!(api.take(value, len), Some(b"one".to_vec()));
        let iter = (api.rocksdb_transaction_create_iterator_cf)(one, store.read, family);
        let walk = Iter { api, iter };
        walk.last();
        assert_eq!(walk.pair(), Some((b"b".to_vec(), b"one".to_vec())));
        walk.prev();
        assert_eq!(walk.pair(), Some((b"a".to_vec(), b"one".to_vec())));
        (api.rocksdb_iter_destroy)(iter);
        (api.rocksdb_transaction_set_savepoint)(one);
        put(one, b"c", b"undone").unwrap();
        let back = |error| (api.rocksdb_transaction_rollback_to_savepoint)(one, error);
        api.checked(back).unwrap();
        api.checked(|error| (api.rocksdb_transaction_commit)(one, error)).unwrap();
        let lost = api.checked(|error| (api.rocksdb_transaction_commit)(two, error));
        assert_eq!(kind(&lost.unwrap_err()), "Resource busy");
        let again = api.checked(|error| (api.rocksdb_transaction_commit)(two, error));
        assert!(again.is_err());
        api.checked(|error| (api.rocksdb_transaction_rollback)(two, error)).unwrap();
        (api.rocksdb_transaction_destroy)(one);
        (api.rocksdb_transaction_destroy)(two);
    }
    let pair = |key: &str| (key.as_bytes().to_vec(), b"one".to_vec());
    assert_eq!(store.all(1), [pair("a"), pair("b")]);
}

#[test]
fn locks_time_out_and_prepared_transactions_survive_a_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let api = Api::esker();
    let path = text(dir.path().join("db").to_str().unwrap());
    // SAFETY: objects of this library; buffers live through the calls.
    unsafe {
        let options = (api.rocksdb_options_create)();
        (api.rocksdb_options_set_create_if_missing)(options, 1);
        let of_db = rocksdb_transactiondb_options_create();
        let of_txn = rocksdb_transaction_options_create();
        rocksdb_transaction_options_set_lock_timeout(of_txn, 1);
        let (write, read) =
            ((api.rocksdb_writeoptions_create)(), (api.rocksdb_readoptions_create)());
        let open = |error| rocksdb_transactiondb_open(options, of_db, path.as_ptr(), error);
        let db = api.checked(open).unwrap();
        let one = rocksdb_transaction_begin(db, write, of_txn, null_mut());
        let two = rocksdb_transaction_begin(db, write, of_txn, null_mut());
        let put = |txn, value: &[u8]| {
            let value = (start(value), value.len());
            api.checked(|error| {
                rocksdb_transaction_put(txn, start(b"k"), 1, value.0, value.1, error);
            })
        };
        put(one, b"1").unwrap();
        assert_eq!(kind(&put(two, b"2").unwrap_err()), "Operation timed out");
        (api.rocksdb_transaction_destroy)(two);
        let unnamed = api.checked(|error| rocksdb_transaction_prepare(one, error));
        assert_eq!(kind(&unnamed.unwrap_err()), "Invalid argument");
        api.checked(|error| rocksdb_transaction_set_name(one, start(b"xid"), 3, error)).unwrap();
        api.checked(|error| rocksdb_transaction_prepare(one, error)).unwrap();
        (api.rocksdb_transaction_destroy)(one);
        rocksdb_transactiondb_close(db);
        let db = api.checked(open).unwrap();
        let mut count = 0usize;
        let list = rocksdb_transactiondb_get_prepared_transactions(db, &raw mut count);
        assert_eq!(count, 1);
        let prepared = *list;
        (api.rocksdb_free)(list.cast());
        api.checked(|error| (api.rocksdb_transaction_commit)(prepared, error)).unwrap();
        (api.rocksdb_transaction_destroy)(prepared);
        let mut len = 0usize;
        let get = |error| rocksdb_transactiondb_get(db, read, start(b"k"), 1, &raw mut len, error);
        let value = api.checked(get).unwrap();
        assert_eq!(api.take(value, len), Some(b"1".to_vec()));
        rocksdb_transactiondb_close(db);
        (api.rocksdb_writeoptions_destroy)(write);
        (api.rocksdb_readoptions_destroy)(read);
        rocksdb_transaction_options_destroy(of_txn);
        rocksdb_transactiondb_options_destroy(of_db);
        (api.rocksdb_options_destroy)(options);
    }
}

#[test]
fn a_backup_replaces_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let api = Api::esker();
    let place = dir.path().join("db");
    let (path, backups) =
        (text(place.to_str().unwrap()), text(dir.path().join("backups").to_str().unwrap()));
    let store = Store::open(api, &place, NAMES).unwrap();
    store.set(1, b"a", Some(b"kept")).unwrap();
    // SAFETY: objects of this library; strings live through the calls.
    unsafe {
        let options = (api.rocksdb_options_create)();
        let open = |error| rocksdb_backup_engine_open(options, backups.as_ptr(), error);
        let engine = api.checked(open).unwrap();
        let back_up = |error| rocksdb_backup_engine_create_new_backup(engine, store.db, error);
        api.checked(back_up).unwrap();
        store.set(1, b"a", Some(b"lost")).unwrap();
        drop(store);
        let of = rocksdb_restore_options_create();
        api.checked(|error| {
            let restore = rocksdb_backup_engine_restore_db_from_latest_backup;
            restore(engine, path.as_ptr(), path.as_ptr(), of, error);
        })
        .unwrap();
        rocksdb_restore_options_destroy(of);
        rocksdb_backup_engine_close(engine);
        (api.rocksdb_options_destroy)(options);
    }
    let store = Store::open(api, &place, NAMES).unwrap();
    assert_eq!(store.get(1, b"a"), Ok(Some(b"kept".to_vec())));
}

#[test]
fn settings_are_kept_and_parsed() {
    let api = Api::esker();
    // SAFETY: objects of this library.
    unsafe {
        let options = (api.rocksdb_options_create)();
        assert_eq!((api.rocksdb_options_get_write_buffer_size)(options), 64 << 20);
        (api.rocksdb_options_set_write_buffer_size)(options, 1 << 20);
        assert_eq!((api.rocksdb_options_get_write_buffer_size)(options), 1 << 20);
        assert_eq!(rocksdb_options_get_max_open_files(options), -1);
        assert_eq!(rocksdb_options_get_max_bytes_for_level_multiplier(options), 10.0);
        rocksdb_options_set_max_bytes_for_level_multiplier(options, 2.5);
        assert_eq!(rocksdb_options_get_max_bytes_for_level_multiplier(options), 2.5);
        let new = (api.rocksdb_options_create)();
        let good = text("max_open_files=7;write_buffer_size=2M");
        let parse = |text: &CString, error| {
            rocksdb_get_options_from_string(options, text.as_ptr(), new, error)
        };
        api.checked(|error| parse(&good, error)).unwrap();
        assert_eq!(rocksdb_options_get_max_open_files(new), 7);
        assert_eq!((api.rocksdb_options_get_write_buffer_size)(new), 2 << 20);
        assert_eq!(rocksdb_options_get_max_bytes_for_level_multiplier(new), 2.5);
        let bad = text("no_such_option=1");
        let failed = api.checked(|error| parse(&bad, error));
        assert_eq!(kind(&failed.unwrap_err()), "Invalid argument");
        (api.rocksdb_options_destroy)(new);
        (api.rocksdb_options_destroy)(options);
    }
}

#[test]
fn properties_are_numbers_and_texts() {
    let dir = tempfile::tempdir().unwrap();
    let api = Api::esker();
    let path = text(dir.path().join("db").to_str().unwrap());
    // SAFETY: objects of this library.
    unsafe {
        let options = (api.rocksdb_options_create)();
        (api.rocksdb_options_set_create_if_missing)(options, 1);
        (api.rocksdb_options_set_use_fsync)(options, 1);
        let db = api.checked(|error| (api.rocksdb_open)(options, path.as_ptr(), error)).unwrap();
        let write = (api.rocksdb_writeoptions_create)();
        for key in [b"a", b"b", b"c"] {
            let put = api.rocksdb_put;
            api.checked(|error| put(db, write, start(key), 1, start(b"v"), 1, error)).unwrap();
        }
        let property = |name: &str| {
            let value = (api.rocksdb_property_value)(db, text(name).as_ptr());
            if value.is_null() {
                return None;
            }
            let len = std::ffi::CStr::from_ptr(value).count_bytes();
            api.take(value, len).map(|bytes| String::from_utf8(bytes).unwrap())
        };
        assert_eq!(property("rocksdb.estimate-num-keys").as_deref(), Some("3"));
        assert_eq!(property("rocksdb.num-files-at-level0").as_deref(), Some("0"));
        assert_eq!(property("esker.rocksdb-accepted").as_deref(), Some("use_fsync"));
        assert!(property("rocksdb.stats").is_some_and(|text| text.contains("Compaction Stats")));
        assert_eq!(property("rocksdb.no-such-property"), None);
        (api.rocksdb_writeoptions_destroy)(write);
        (api.rocksdb_close)(db);
        (api.rocksdb_options_destroy)(options);
    }
}

#[test]
fn null_handles_are_failures() {
    let api = Api::esker();
    let null = null_mut();
    let mut len = 0usize;
    // SAFETY: null handles are allowed.
    unsafe {
        let put = |error| (api.rocksdb_put)(null, null, start(b"k"), 1, start(b"v"), 1, error);
        assert_eq!(kind(&api.checked(put).unwrap_err()), "Invalid argument");
        let get = |error| (api.rocksdb_get)(null, null, start(b"k"), 1, &raw mut len, error);
        assert!(api.checked(get).is_err());
        let write = |error| (api.rocksdb_write)(null, null, null, error);
        assert!(api.checked(write).is_err());
        let commit = |error| (api.rocksdb_transaction_commit)(null, error);
        assert!(api.checked(commit).is_err());
        (api.rocksdb_close)(null);
        (api.rocksdb_options_destroy)(null);
        (api.rocksdb_writebatch_destroy)(null);
        (api.rocksdb_iter_destroy)(null);
        (api.rocksdb_release_snapshot)(null, null);
        (api.rocksdb_transaction_destroy)(null);
        (api.rocksdb_free)(null);
        assert_eq!((api.rocksdb_iter_valid)(null), 0);
    }
}
