//! Files that are made outside of a store and ingested, the batches of the log, and the sizes of
//! tables.

use std::ffi::{CString, c_char};
use std::path::Path;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use super::calls::{Api, Handle, Place, Start, Store, kind, start};
use super::{NAMES, opened, text};

unsafe extern "C" {
    fn rocksdb_envoptions_create() -> Handle;
    fn rocksdb_envoptions_destroy(options: Handle);
    fn rocksdb_sstfilewriter_create(env: Handle, options: Handle) -> Handle;
    fn rocksdb_sstfilewriter_destroy(writer: Handle);
    fn rocksdb_sstfilewriter_open(writer: Handle, name: Start, error: Place);
    fn rocksdb_sstfilewriter_put(
        w: Handle,
        k: Start,
        k_len: usize,
        v: Start,
        v_len: usize,
        error: Place,
    );
    fn rocksdb_sstfilewriter_merge(
        w: Handle,
        k: Start,
        k_len: usize,
        v: Start,
        v_len: usize,
        error: Place,
    );
    fn rocksdb_sstfilewriter_delete(w: Handle, k: Start, k_len: usize, error: Place);
    fn rocksdb_sstfilewriter_delete_range(
        w: Handle,
        b: Start,
        b_len: usize,
        e: Start,
        e_len: usize,
        error: Place,
    );
    fn rocksdb_sstfilewriter_finish(writer: Handle, error: Place);
    fn rocksdb_sstfilewriter_file_size(writer: Handle, bytes: *mut u64);
    fn rocksdb_ingestexternalfileoptions_create() -> Handle;
    fn rocksdb_ingestexternalfileoptions_destroy(options: Handle);
    fn rocksdb_ingestexternalfileoptions_set_move_files(options: Handle, on: u8);
    fn rocksdb_ingestexternalfileoptions_set_ingest_behind(options: Handle, on: u8);
    fn rocksdb_ingest_external_file(
        db: Handle,
        list: *const Start,
        len: usize,
        options: Handle,
        error: Place,
    );
    fn rocksdb_ingest_external_file_cf(
        db: Handle,
        family: Handle,
        list: *const Start,
        len: usize,
        options: Handle,
        error: Place,
    );
    fn rocksdb_get_latest_sequence_number(db: Handle) -> u64;
    fn rocksdb_get_updates_since(db: Handle, seq: u64, options: Handle, error: Place) -> Handle;
    fn rocksdb_wal_iter_valid(iter: Handle) -> u8;
    fn rocksdb_wal_iter_next(iter: Handle);
    fn rocksdb_wal_iter_status(iter: Handle, error: Place);
    fn rocksdb_wal_iter_get_batch(iter: Handle, seq: *mut u64) -> Handle;
    fn rocksdb_wal_iter_destroy(iter: Handle);
    fn rocksdb_sst_file_manager_create(env: Handle) -> Handle;
    fn rocksdb_sst_file_manager_destroy(manager: Handle);
    fn rocksdb_sst_file_manager_get_total_size(manager: Handle) -> u64;
    fn rocksdb_sst_file_manager_set_max_allowed_space_usage(manager: Handle, bytes: u64);
    fn rocksdb_sst_file_manager_is_max_allowed_space_reached(manager: Handle) -> u8;
    fn rocksdb_options_set_sst_file_manager(options: Handle, manager: Handle);
}

/// A writer of files and its options.
struct Writer {
    api: Api,
    env: Handle,
    options: Handle,
    writer: Handle,
}

impl Writer {
    fn new(api: Api) -> Writer {
        // SAFETY: objects of this library.
        unsafe {
            let (env, options) = (rocksdb_envoptions_create(), (api.rocksdb_options_create)());
            (api.rocksdb_options_set_uint64add_merge_operator)(options);
            let writer = rocksdb_sstfilewriter_create(env, options);
            Writer { api, env, options, writer }
        }
    }

    fn open(&self, path: &Path) -> Result<(), String> {
        let path = text(path.to_str().unwrap());
        // SAFETY: the path lives through the call.
        self.api.checked(|e| unsafe { rocksdb_sstfilewriter_open(self.writer, path.as_ptr(), e) })
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let (k, k_len, v, v_len) = (start(key), key.len(), start(value), value.len());
        // SAFETY: the buffers live through the call.
        self.api
            .checked(|e| unsafe { rocksdb_sstfilewriter_put(self.writer, k, k_len, v, v_len, e) })
    }

    fn merge(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let (k, k_len, v, v_len) = (start(key), key.len(), start(value), value.len());
        // SAFETY: the buffers live through the call.
        self.api
            .checked(|e| unsafe { rocksdb_sstfilewriter_merge(self.writer, k, k_len, v, v_len, e) })
    }

    fn delete(&self, key: &[u8]) -> Result<(), String> {
        let (k, len) = (start(key), key.len());
        // SAFETY: the buffers live through the call.
        self.api.checked(|e| unsafe { rocksdb_sstfilewriter_delete(self.writer, k, len, e) })
    }

    fn delete_range(&self, begin: &[u8], end: &[u8]) -> Result<(), String> {
        let (b, b_len, end, end_len) = (start(begin), begin.len(), start(end), end.len());
        // SAFETY: the buffers live through the call.
        self.api.checked(|e| unsafe {
            rocksdb_sstfilewriter_delete_range(self.writer, b, b_len, end, end_len, e);
        })
    }

    fn finish(&self) -> Result<(), String> {
        // SAFETY: an object of this library.
        self.api.checked(|e| unsafe { rocksdb_sstfilewriter_finish(self.writer, e) })
    }

    fn bytes(&self) -> u64 {
        let mut bytes = 0;
        // SAFETY: an object of this library, and a place for the result.
        unsafe { rocksdb_sstfilewriter_file_size(self.writer, &raw mut bytes) };
        bytes
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // SAFETY: each object is freed once.
        unsafe {
            rocksdb_sstfilewriter_destroy(self.writer);
            rocksdb_envoptions_destroy(self.env);
            (self.api.rocksdb_options_destroy)(self.options);
        }
    }
}

/// Ingests files into a column family; `None` is the store's default one.
fn ingest(
    store: &Store,
    family: Option<usize>,
    paths: &[&Path],
    set: unsafe extern "C" fn(Handle, u8),
) -> Result<(), String> {
    let texts: Vec<CString> = paths.iter().map(|path| text(path.to_str().unwrap())).collect();
    let list: Vec<Start> = texts.iter().map(|text| text.as_ptr()).collect();
    // SAFETY: objects of an open store; the list lives through the call.
    unsafe {
        let options = rocksdb_ingestexternalfileoptions_create();
        set(options, 1);
        let (list, len) = (list.as_ptr(), list.len());
        let done = store.api.checked(|error| match family {
            None => rocksdb_ingest_external_file(store.db, list, len, options, error),
            Some(at) => {
                let family = store.families[at];
                rocksdb_ingest_external_file_cf(store.db, family, list, len, options, error);
            }
        });
        rocksdb_ingestexternalfileoptions_destroy(options);
        done
    }
}

unsafe extern "C" fn keep(_options: Handle, _on: u8) {}

#[test]
fn files_are_made_and_ingested_into_each_column_family() {
    let (dir, store) = opened();
    let path = dir.path().join("first");
    std::fs::write(&path, "an older file of this name").unwrap();
    store.set(0, b"k3", Some(b"old")).unwrap();
    let writer = Writer::new(store.api);
    assert_eq!(writer.put(b"a", b"b").unwrap_err(), "Invalid argument: File is not opened");
    writer.open(&path).unwrap();
    writer.put(b"k1", b"v1").unwrap();
    writer.put(b"k2", b"v2").unwrap();
    assert_eq!(kind(&writer.put(b"k2", b"again").unwrap_err()), "Invalid argument");
    assert_eq!(kind(&writer.delete_range(b"z", b"y").unwrap_err()), "Invalid argument");
    assert_eq!(kind(&writer.delete_range(b"y", b"z").unwrap_err()), "Not implemented");
    writer.delete(b"k3").unwrap();
    writer.finish().unwrap();
    assert_eq!(writer.bytes(), std::fs::metadata(&path).unwrap().len());
    ingest(&store, None, &[&path], keep).unwrap();
    assert_eq!(store.all(0), [(b"k1".to_vec(), b"v1".to_vec()), (b"k2".to_vec(), b"v2".to_vec())]);
    ingest(&store, Some(1), &[&path], rocksdb_ingestexternalfileoptions_set_move_files).unwrap();
    assert!(!path.exists());
    assert_eq!(store.get(1, b"k2"), Ok(Some(b"v2".to_vec())));
    let (second, third) = (dir.path().join("second"), dir.path().join("third"));
    writer.open(&second).unwrap();
    writer.merge(b"k4", &7u64.to_le_bytes()).unwrap();
    writer.finish().unwrap();
    store.merge(0, b"k4", &5u64.to_le_bytes()).unwrap();
    ingest(&store, Some(0), &[&second], keep).unwrap();
    assert_eq!(store.get(0, b"k4"), Ok(Some(12u64.to_le_bytes().to_vec())));
    writer.open(&third).unwrap();
    let empty = writer.finish().unwrap_err();
    assert_eq!(empty, "Invalid argument: Cannot create sst file with no entries");
    drop(writer);
    assert!(!third.exists(), "an unfinished file is removed");
    drop(store);
    let store = Store::open(Api::esker(), &dir.path().join("db"), NAMES).unwrap();
    assert_eq!(store.get(1, b"k1"), Ok(Some(b"v1".to_vec())));
    assert_eq!(store.get(0, b"k4"), Ok(Some(12u64.to_le_bytes().to_vec())));
}

#[test]
fn files_that_do_not_fit_change_nothing() {
    let (dir, store) = opened();
    let (file, other, foreign) =
        (dir.path().join("file"), dir.path().join("other"), dir.path().join("foreign"));
    let writer = Writer::new(store.api);
    for path in [&file, &other] {
        writer.open(path).unwrap();
        writer.put(b"k", b"v").unwrap();
        writer.finish().unwrap();
    }
    std::fs::write(&foreign, [7u8; 3000]).unwrap();
    let behind = rocksdb_ingestexternalfileoptions_set_ingest_behind;
    let error = ingest(&store, None, &[&file], behind).unwrap_err();
    assert_eq!(kind(&error), "Not implemented", "{error}");
    for paths in [&[&*file, &*other][..], &[&*file, &*foreign], &[&*dir.path().join("absent")]] {
        ingest(&store, None, paths, keep).unwrap_err();
    }
    assert!(store.all(0).is_empty() && file.exists());
    assert_eq!(kind(&ingest(&store, None, &[], keep).unwrap_err()), "Invalid argument");
    ingest(&store, None, &[&file], keep).unwrap();
    assert_eq!(store.all(0).len(), 1);
}

/// An iterator over the log.
struct Log<'a> {
    store: &'a Store,
    iter: Handle,
}

impl Log<'_> {
    fn since(store: &Store, seq: u64) -> Result<Log<'_>, String> {
        // SAFETY: objects of an open store.
        let iter = store.api.checked(|error| unsafe {
            rocksdb_get_updates_since(store.db, seq, null_mut(), error)
        })?;
        Ok(Log { store, iter })
    }

    /// Returns the sequence numbers and the bytes of the batches up to the present.
    fn batches(&self) -> Vec<(u64, Vec<u8>)> {
        let (api, mut batches) = (self.store.api, Vec::new());
        // SAFETY: objects of an open store; the bytes live as long as their batch.
        unsafe {
            while rocksdb_wal_iter_valid(self.iter) == 1 {
                let (mut seq, mut len) = (0, 0usize);
                let batch = rocksdb_wal_iter_get_batch(self.iter, &raw mut seq);
                let bytes: *const c_char = (api.rocksdb_writebatch_data)(batch, &raw mut len);
                let bytes = std::slice::from_raw_parts(bytes.cast::<u8>(), len).to_vec();
                batches.push((seq, bytes));
                (api.rocksdb_writebatch_destroy)(batch);
                rocksdb_wal_iter_next(self.iter);
            }
            api.checked(|error| rocksdb_wal_iter_status(self.iter, error)).unwrap();
        }
        batches
    }

    fn numbers(&self) -> Vec<u64> {
        self.batches().into_iter().map(|(seq, _)| seq).collect()
    }
}

impl Drop for Log<'_> {
    fn drop(&mut self) {
        // SAFETY: freed once.
        unsafe { rocksdb_wal_iter_destroy(self.iter) }
    }
}

#[test]
fn batches_of_the_log_follow_a_sequence_number() {
    let (dir, store) = opened();
    assert!(Log::since(&store, 0).unwrap().numbers().is_empty());
    // SAFETY: objects of an open store.
    let latest = || unsafe { rocksdb_get_latest_sequence_number(store.db) };
    let first = latest() + 1;
    store.set(0, b"a", Some(b"1")).unwrap();
    // SAFETY: objects of an open store; the buffers live through the calls.
    unsafe {
        let (api, db, write) = (store.api, store.db, store.write);
        let batch = (api.rocksdb_writebatch_create)();
        let (default, other) = (store.families[0], store.families[1]);
        (api.rocksdb_writebatch_put_cf)(batch, other, start(b"b"), 1, start(b"22"), 2);
        (api.rocksdb_writebatch_delete_cf)(batch, default, start(b"a"), 1);
        let ends = (start(b"c"), start(b"d"));
        (api.rocksdb_writebatch_delete_range_cf)(batch, default, ends.0, 1, ends.1, 1);
        api.checked(|error| (api.rocksdb_write)(db, write, batch, error)).unwrap();
        (api.rocksdb_writebatch_destroy)(batch);
    }
    assert_eq!(latest(), first + 3);
    let log = Log::since(&store, first).unwrap();
    let batches = log.batches();
    // SAFETY: a handle of an open store.
    let other = unsafe { (store.api.rocksdb_column_family_handle_get_id)(store.families[1]) } as u8;
    let head = |seq: u64, count: u8| [&seq.to_le_bytes()[..], &[count, 0, 0, 0]].concat();
    let puts = [head(first, 1), b"\x01\x01a\x011".to_vec()].concat();
    let records = [&[5, other][..], b"\x01b\x0222\0\x01a\x0f\x01c\x01d"].concat();
    assert_eq!(batches, [(first, puts), (first + 1, [head(first + 1, 3), records].concat())]);
    store.set(0, b"e", Some(b"")).unwrap();
    // SAFETY: an iterator of an open store.
    unsafe { rocksdb_wal_iter_next(log.iter) };
    assert_eq!(log.numbers(), [first + 4], "the iterator goes on with newer batches");
    drop(log);
    // A number within a batch stands for the whole batch.
    for (from, expected) in [(first + 3, &[first + 1, first + 4][..]), (first + 4, &[first + 4])] {
        assert_eq!(Log::since(&store, from).unwrap().numbers(), expected, "{from}");
    }
    let error = Log::since(&store, first + 5).map(drop).unwrap_err();
    assert_eq!(error, "NotFound: Requested sequence not yet written in the db");
    // SAFETY: the family is dropped, and its handle freed with the store.
    let dropped = store.api.checked(|error| unsafe {
        (store.api.rocksdb_drop_column_family)(store.db, store.families[1], error);
    });
    dropped.unwrap();
    let counts: Vec<u8> =
        Log::since(&store, first).unwrap().batches().iter().map(|b| b.1[8]).collect();
    assert_eq!(counts, [1, 2, 1], "without the operations of a dropped column family");
    store.flush().unwrap();
    store.set(0, b"f", Some(b"1")).unwrap();
    // A thread of the store removes the log.
    let deadline = Instant::now() + Duration::from_secs(60);
    let error = loop {
        match Log::since(&store, first) {
            Err(error) => break error,
            Ok(_) => assert!(Instant::now() < deadline, "the log of a flushed memtable is there"),
        }
    };
    assert_eq!(kind(&error), "NotFound");
    assert_eq!(Log::since(&store, latest()).unwrap().numbers(), [latest()]);
    drop(store);
    drop(dir);
}

#[test]
fn sizes_of_tables_are_summed_and_a_limit_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let api = Api::esker();
    let path = text(dir.path().join("db").to_str().unwrap());
    // SAFETY: objects of this library; the buffers live through the calls.
    unsafe {
        let manager = rocksdb_sst_file_manager_create(null_mut());
        let options = (api.rocksdb_options_create)();
        (api.rocksdb_options_set_create_if_missing)(options, 1);
        rocksdb_options_set_sst_file_manager(options, manager);
        let open = || api.checked(|error| (api.rocksdb_open)(options, path.as_ptr(), error));
        let db = open().unwrap();
        assert_eq!(rocksdb_sst_file_manager_get_total_size(manager), 0);
        let file = dir.path().join("file");
        let writer = Writer::new(api);
        writer.open(&file).unwrap();
        writer.put(b"k", b"v").unwrap();
        writer.finish().unwrap();
        let name = text(file.to_str().unwrap());
        let list = [name.as_ptr()];
        let ingest = rocksdb_ingestexternalfileoptions_create();
        api.checked(|e| rocksdb_ingest_external_file(db, list.as_ptr(), 1, ingest, e)).unwrap();
        rocksdb_ingestexternalfileoptions_destroy(ingest);
        assert_eq!(rocksdb_sst_file_manager_get_total_size(manager), writer.bytes());
        assert_eq!(rocksdb_sst_file_manager_is_max_allowed_space_reached(manager), 0);
        (api.rocksdb_close)(db);
        rocksdb_sst_file_manager_set_max_allowed_space_usage(manager, 1);
        let refused = open().unwrap_err();
        assert_eq!(kind(&refused), "Not implemented", "{refused}");
        rocksdb_sst_file_manager_destroy(manager);
        (api.rocksdb_options_destroy)(options);
    }
}
