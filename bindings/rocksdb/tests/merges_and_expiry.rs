//! Merge operators, compaction filters and times to live of RocksDB's C interface.

mod calls;

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::Mutex;

use calls::{Api, Handle, Place, Start, kind, start};
use esker_rocksdb as _;

type Name = unsafe extern "C" fn(*mut c_void) -> *const c_char;
type End = unsafe extern "C" fn(*mut c_void);

unsafe extern "C" {
    fn rocksdb_mergeoperator_create(
        state: Handle,
        destructor: Option<End>,
        full: *const c_void,
        partial: *const c_void,
        delete: *const c_void,
        name: Option<Name>,
    ) -> Handle;
    fn rocksdb_options_set_merge_operator(options: Handle, merge: Handle);
    fn rocksdb_options_set_uint64add_merge_operator(options: Handle);
    fn rocksdb_merge(
        db: Handle,
        options: Handle,
        key: Start,
        len: usize,
        value: Start,
        value_len: usize,
        error: Place,
    );
    fn rocksdb_merge_cf(
        db: Handle,
        options: Handle,
        family: Handle,
        key: Start,
        len: usize,
        value: Start,
        value_len: usize,
        error: Place,
    );
    fn rocksdb_writebatch_merge(
        batch: Handle,
        key: Start,
        len: usize,
        value: Start,
        value_len: usize,
    );
    fn rocksdb_writebatch_wi_create(reserved: usize, overwrite: u8) -> Handle;
    fn rocksdb_writebatch_wi_destroy(batch: Handle);
    fn rocksdb_writebatch_wi_merge(
        batch: Handle,
        key: Start,
        len: usize,
        value: Start,
        value_len: usize,
    );
    fn rocksdb_writebatch_wi_get_from_batch_and_db(
        batch: Handle,
        db: Handle,
        options: Handle,
        key: Start,
        len: usize,
        value_len: *mut usize,
        error: Place,
    ) -> *mut c_char;
    fn rocksdb_writebatch_wi_get_from_batch(
        batch: Handle,
        options: Handle,
        key: Start,
        len: usize,
        value_len: *mut usize,
        error: Place,
    ) -> *mut c_char;
    fn rocksdb_compactionfilter_create(
        state: Handle,
        destructor: Option<End>,
        filter: *const c_void,
        name: Option<Name>,
    ) -> Handle;
    fn rocksdb_compactionfilter_destroy(filter: Handle);
    fn rocksdb_options_set_compaction_filter(options: Handle, filter: Handle);
    fn rocksdb_compactionfilterfactory_create(
        state: Handle,
        destructor: Option<End>,
        create: *const c_void,
        name: Option<Name>,
    ) -> Handle;
    fn rocksdb_options_set_compaction_filter_factory(options: Handle, factory: Handle);
    fn rocksdb_compact_range(db: Handle, from: Start, from_len: usize, to: Start, to_len: usize);
    fn rocksdb_open_with_ttl(options: Handle, path: Start, ttl: i32, error: Place) -> Handle;
    fn rocksdb_create_column_family_with_ttl(
        db: Handle,
        options: Handle,
        name: Start,
        ttl: i32,
        error: Place,
    ) -> Handle;
}

/// What the functions below count.
#[derive(Default)]
struct Counts {
    ends: u32,
    deleted: u32,
    filters: u32,
}

unsafe extern "C" fn name(_state: *mut c_void) -> *const c_char {
    c"test.named".as_ptr()
}

/// # Safety
/// `state` is null or a mutex of counts.
unsafe fn count(state: *mut c_void, change: impl FnOnce(&mut Counts)) {
    // SAFETY: guaranteed by the caller.
    if let Some(counts) = unsafe { state.cast::<Mutex<Counts>>().as_ref() } {
        change(&mut counts.lock().unwrap());
    }
}

unsafe extern "C" fn end(state: *mut c_void) {
    // SAFETY: the state of the tests below.
    unsafe { count(state, |counts| counts.ends += 1) }
}

unsafe extern "C" fn delete(state: *mut c_void, value: *const c_char, _len: usize) {
    // SAFETY: the state of the tests below, and a value of `joined`.
    unsafe {
        count(state, |counts| counts.deleted += 1);
        libc::free(value.cast_mut().cast());
    }
}

/// Joins the existing value and the operands. Fails at the operand "bad".
unsafe extern "C" fn full(
    _state: *mut c_void,
    _key: Start,
    _len: usize,
    existing: Start,
    existing_len: usize,
    operands: *const Start,
    lens: *const usize,
    operand_count: i32,
    success: *mut u8,
    out_len: *mut usize,
) -> *mut c_char {
    // SAFETY: the arrays have `operand_count` items; the result is allocated with `malloc`.
    unsafe {
        let mut all = Vec::new();
        if !existing.is_null() {
            all.extend_from_slice(std::slice::from_raw_parts(existing.cast::<u8>(), existing_len));
        }
        for at in 0..operand_count as usize {
            let operand = std::slice::from_raw_parts((*operands.add(at)).cast(), *lens.add(at));
            if operand == b"bad" {
                *success = 0;
                *out_len = 0;
                return null_mut();
            }
            all.extend_from_slice(operand);
        }
        let made = libc::malloc(all.len().max(1)).cast::<u8>();
        made.copy_from(all.as_ptr(), all.len());
        *success = 1;
        *out_len = all.len();
        made.cast()
    }
}

/// Removes the key "r" and replaces the value of the key "s".
unsafe extern "C" fn filter(
    _state: *mut c_void,
    _level: i32,
    key: Start,
    _len: usize,
    _value: Start,
    _value_len: usize,
    new: *mut *const c_char,
    new_len: *mut usize,
    changed: *mut u8,
) -> u8 {
    // SAFETY: the keys of the tests have one byte.
    unsafe {
        if key.cast::<u8>().read() == b's' {
            *new = c"secret".as_ptr();
            *new_len = 6;
            *changed = 1;
        }
        u8::from(key.cast::<u8>().read() == b'r')
    }
}

unsafe extern "C" fn make_filter(state: *mut c_void, _context: Handle) -> Handle {
    // SAFETY: the state of the tests below; the filter has no state but the counts.
    unsafe {
        count(state, |counts| counts.filters += 1);
        rocksdb_compactionfilter_create(state, Some(end), filter as *const c_void, Some(name))
    }
}

/// An open store with the default column family.
struct Opened {
    api: Api,
    db: Handle,
    write: Handle,
    read: Handle,
    options: Handle,
    path: CString,
}

impl Opened {
    fn new(dir: &tempfile::TempDir, set: impl FnOnce(Handle)) -> Opened {
        let api = Api::esker();
        let path = CString::new(dir.path().join("db").to_str().unwrap()).unwrap();
        // SAFETY: objects of this library.
        unsafe {
            let options = (api.rocksdb_options_create)();
            (api.rocksdb_options_set_create_if_missing)(options, 1);
            set(options);
            let db = api.checked(|error| (api.rocksdb_open)(options, path.as_ptr(), error));
            let (write, read) =
                ((api.rocksdb_writeoptions_create)(), (api.rocksdb_readoptions_create)());
            Opened { api, db: db.unwrap(), write, read, options, path }
        }
    }

    fn reopen(&mut self) {
        let api = self.api;
        // SAFETY: objects of this library.
        unsafe {
            (api.rocksdb_close)(self.db);
            let open = |error| (api.rocksdb_open)(self.options, self.path.as_ptr(), error);
            self.db = api.checked(open).unwrap();
        }
    }

    fn put(&self, key: &[u8], value: &[u8]) {
        let (start_key, value_len) = (start(key), value.len());
        // SAFETY: objects of an open store; buffers live through the call.
        self.api
            .checked(|error| unsafe {
                let put = self.api.rocksdb_put;
                put(self.db, self.write, start_key, key.len(), start(value), value_len, error);
            })
            .unwrap();
    }

    fn merge(&self, key: &[u8], operand: &[u8]) -> Result<(), String> {
        let (key, len, operand, operand_len) =
            (start(key), key.len(), start(operand), operand.len());
        // SAFETY: objects of an open store; buffers live through the call.
        self.api.checked(|error| unsafe {
            rocksdb_merge(self.db, self.write, key, len, operand, operand_len, error);
        })
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let mut len = 0usize;
        // SAFETY: objects of an open store; buffers live through the call.
        let value = self.api.checked(|error| unsafe {
            let get = self.api.rocksdb_get;
            get(self.db, self.read, start(key), key.len(), &raw mut len, error)
        })?;
        Ok(self.api.take(value, len))
    }

    fn compact(&self) {
        // SAFETY: an open store; null means no bound.
        unsafe { rocksdb_compact_range(self.db, null(), 0, null(), 0) }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: each object is freed once.
        unsafe {
            (self.api.rocksdb_close)(self.db);
            (self.api.rocksdb_writeoptions_destroy)(self.write);
            (self.api.rocksdb_readoptions_destroy)(self.read);
            (self.api.rocksdb_options_destroy)(self.options);
        }
    }
}

fn some(text: &str) -> Result<Option<Vec<u8>>, String> {
    Ok(Some(text.as_bytes().to_vec()))
}

/// Sets the operator that joins.
fn joins(counts: &Mutex<Counts>, options: Handle) {
    let state = std::ptr::from_ref(counts).cast_mut().cast();
    // SAFETY: the state outlives the options and the store.
    unsafe {
        let full = full as *const c_void;
        let deletes = delete as *const c_void;
        let made =
            rocksdb_mergeoperator_create(state, Some(end), full, null(), deletes, Some(name));
        rocksdb_options_set_merge_operator(options, made);
    }
}

#[test]
fn a_c_operator_merges_in_reads_flushes_and_compactions_and_is_freed_once() {
    let dir = tempfile::tempdir().unwrap();
    let counts = Mutex::new(Counts::default());
    let mut store = Opened::new(&dir, |options| joins(&counts, options));
    store.put(b"k", b"a");
    store.merge(b"k", b"b").unwrap();
    store.merge(b"k", b"c").unwrap();
    store.merge(b"new", b"x").unwrap();
    assert_eq!(store.get(b"k"), some("abc"));
    store.compact();
    store.merge(b"k", b"d").unwrap();
    store.reopen();
    assert_eq!(store.get(b"k"), some("abcd"));
    assert_eq!(store.get(b"new"), some("x"));
    store.merge(b"k", b"bad").unwrap();
    let failed = store.get(b"k").unwrap_err();
    assert!(failed.contains("Merge operator failed") && failed.contains("test.named"), "{failed}");
    // SAFETY: objects of an open store; buffers live through the calls.
    unsafe {
        let api = store.api;
        let batch = (api.rocksdb_writebatch_create)();
        rocksdb_writebatch_merge(batch, start(b"new"), 3, start(b"y"), 1);
        assert_eq!((api.rocksdb_writebatch_count)(batch), 1);
        api.checked(|error| (api.rocksdb_write)(store.db, store.write, batch, error)).unwrap();
        (api.rocksdb_writebatch_destroy)(batch);
    }
    assert_eq!(store.get(b"new"), some("xy"));
    assert!(counts.lock().unwrap().deleted > 0);
    assert_eq!(counts.lock().unwrap().ends, 0);
    drop(store);
    assert_eq!(counts.lock().unwrap().ends, 1);
}

#[test]
fn an_indexed_batch_merges_into_the_value_of_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let counts = Mutex::new(Counts::default());
    let store = Opened::new(&dir, |options| joins(&counts, options));
    store.put(b"k", b"a");
    let api = store.api;
    // SAFETY: objects of an open store; buffers live through the calls.
    unsafe {
        let batch = rocksdb_writebatch_wi_create(0, 1);
        rocksdb_writebatch_wi_merge(batch, start(b"k"), 1, start(b"b"), 1);
        rocksdb_writebatch_wi_merge(batch, start(b"k"), 1, start(b"c"), 1);
        let mut len = 0usize;
        let found = api.checked(|error| {
            let get = rocksdb_writebatch_wi_get_from_batch_and_db;
            get(batch, store.db, store.read, start(b"k"), 1, &raw mut len, error)
        });
        assert_eq!(api.take(found.unwrap(), len), Some(b"abc".to_vec()));
        let alone = api.checked(|error| {
            let get = rocksdb_writebatch_wi_get_from_batch;
            get(batch, store.options, start(b"k"), 1, &raw mut len, error)
        });
        assert_eq!(kind(&alone.unwrap_err()), "Merge in progress");
        rocksdb_writebatch_wi_destroy(batch);
    }
}

#[test]
fn column_families_have_operators_of_their_own_and_others_when_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let counts = Mutex::new(Counts::default());
    let store = Opened::new(&dir, |options| joins(&counts, options));
    let (api, one) = (store.api, 1u64.to_le_bytes());
    // SAFETY: objects of this library; buffers live through the calls.
    unsafe {
        let add = (api.rocksdb_options_create)();
        rocksdb_options_set_uint64add_merge_operator(add);
        let plain = (api.rocksdb_options_create)();
        let create = |options, name: &CStr| {
            let create = api.rocksdb_create_column_family;
            api.checked(|error| create(store.db, options, name.as_ptr(), error)).unwrap()
        };
        let (sums, none) = (create(add, c"sums"), create(plain, c"none"));
        let merge = |db, family, operand: &[u8]| {
            let (operand, len) = (start(operand), operand.len());
            api.checked(|error| {
                rocksdb_merge_cf(db, store.write, family, start(b"k"), 1, operand, len, error);
            })
        };
        merge(store.db, sums, &one).unwrap();
        merge(store.db, sums, &one).unwrap();
        store.merge(b"k", b"a").unwrap();
        let refused = merge(store.db, none, b"x").unwrap_err();
        assert_eq!(refused, "Not implemented: Provide a merge_operator when opening DB");
        let get = |db, family| {
            let mut len = 0usize;
            let get = api.rocksdb_get_cf;
            let read = |error| get(db, store.read, family, start(b"k"), 1, &raw mut len, error);
            let value = api.checked(read).unwrap();
            api.take(value, len)
        };
        assert_eq!(get(store.db, sums), Some(2u64.to_le_bytes().to_vec()));
        for family in [sums, none] {
            (api.rocksdb_column_family_handle_destroy)(family);
        }
        drop(store);
        // Each has another operator now.
        joins(&counts, plain);
        check_other_operators(api, &dir.path().join("db"), add, plain);
        (api.rocksdb_options_destroy)(add);
        (api.rocksdb_options_destroy)(plain);
    }
}

/// Opens the store again: the default column family adds, and the others join.
fn check_other_operators(api: Api, path: &Path, add: Handle, plain: Handle) {
    let one = 1u64.to_le_bytes();
    // SAFETY: objects of this library; buffers live through the calls.
    unsafe {
        let names = [c"default".as_ptr(), c"sums".as_ptr(), c"none".as_ptr()];
        let path = CString::new(path.to_str().unwrap()).unwrap();
        let mut handles = [null_mut(); 3];
        let opened = api.checked(|error| {
            let (open, of) = (api.rocksdb_open_column_families, [add, plain, plain]);
            let handles = handles.as_mut_ptr();
            open(add, path.as_ptr(), 3, names.as_ptr(), of.as_ptr(), handles, error)
        });
        let db = opened.unwrap();
        let (write, read) =
            ((api.rocksdb_writeoptions_create)(), (api.rocksdb_readoptions_create)());
        let merge = |family, operand: &[u8]| {
            let (operand, len) = (start(operand), operand.len());
            let merge = |e| rocksdb_merge_cf(db, write, family, start(b"k"), 1, operand, len, e);
            api.checked(merge).unwrap();
        };
        merge(handles[0], &one);
        merge(handles[1], b"!");
        merge(handles[2], b"y");
        let get = |family| {
            let mut len = 0usize;
            let get = api.rocksdb_get_cf;
            let value = api.checked(|e| get(db, read, family, start(b"k"), 1, &raw mut len, e));
            api.take(value.unwrap(), len).unwrap()
        };
        // The operand "a" counts as 0.
        assert_eq!(get(handles[0]), one);
        assert!(get(handles[1]).ends_with(b"!"));
        assert_eq!(get(handles[2]), b"y");
        for family in handles {
            (api.rocksdb_column_family_handle_destroy)(family);
        }
        (api.rocksdb_close)(db);
        (api.rocksdb_writeoptions_destroy)(write);
        (api.rocksdb_readoptions_destroy)(read);
    }
}

#[test]
fn a_filter_removes_and_replaces_and_may_be_freed_before_its_store() {
    let dir = tempfile::tempdir().unwrap();
    let counts = Mutex::new(Counts::default());
    let state: Handle = (&raw const counts).cast_mut().cast();
    let mut made = null_mut();
    let store = Opened::new(&dir, |options| {
        // SAFETY: the state outlives the store.
        unsafe {
            let function = filter as *const c_void;
            made = rocksdb_compactionfilter_create(state, Some(end), function, Some(name));
            rocksdb_options_set_compaction_filter(options, made);
        }
    });
    // SAFETY: the filter is taken from the options and freed once.
    unsafe {
        rocksdb_options_set_compaction_filter(store.options, null_mut());
        rocksdb_compactionfilter_destroy(made);
    }
    for key in [b"k", b"r", b"s"] {
        store.put(key, b"v");
    }
    store.compact();
    assert_eq!(store.get(b"k"), some("v"));
    assert_eq!(store.get(b"r"), Ok(None));
    assert_eq!(store.get(b"s"), some("secret"));
    assert_eq!(counts.lock().unwrap().ends, 0);
    drop(store);
    assert_eq!(counts.lock().unwrap().ends, 1);
}

#[test]
fn a_factory_makes_a_filter_of_each_compaction() {
    let dir = tempfile::tempdir().unwrap();
    let counts = Mutex::new(Counts::default());
    let state: Handle = (&raw const counts).cast_mut().cast();
    let store = Opened::new(&dir, |options| {
        // SAFETY: the state outlives the store.
        unsafe {
            let make = make_filter as *const c_void;
            let made = rocksdb_compactionfilterfactory_create(state, Some(end), make, Some(name));
            rocksdb_options_set_compaction_filter_factory(options, made);
        }
    });
    for round in 1..=2 {
        store.put(b"r", b"v");
        store.put(b"k", b"v");
        store.compact();
        assert_eq!(store.get(b"r"), Ok(None));
        assert!(counts.lock().unwrap().filters >= round);
    }
    drop(store);
    let counts = counts.into_inner().unwrap();
    assert_eq!(counts.ends, counts.filters + 1);
}

#[test]
fn pairs_expire_after_the_time_to_live_of_the_opening() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Opened::new(&dir, |_| {});
    store.put(b"before", b"v");
    let api = store.api;
    // SAFETY: objects of this library; buffers live through the calls.
    unsafe {
        (api.rocksdb_close)(store.db);
        let open = |error| rocksdb_open_with_ttl(store.options, store.path.as_ptr(), 1, error);
        store.db = api.checked(open).unwrap();
        store.put(b"k", b"v");
        let create = rocksdb_create_column_family_with_ttl;
        let name = c"lasting".as_ptr();
        let made = api.checked(|error| create(store.db, store.options, name, 0, error)).unwrap();
        let put = api.rocksdb_put_cf;
        api.checked(|e| put(store.db, store.write, made, start(b"k"), 1, start(b"v"), 1, e))
            .unwrap();
        // Waits as long as it takes: the pair expires.
        while store.get(b"k").unwrap().is_some() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        store.compact();
        assert_eq!(store.get(b"k"), Ok(None));
        assert_eq!(store.get(b"before"), some("v"));
        let mut len = 0usize;
        let get = api.rocksdb_get_cf;
        let lasting =
            api.checked(|e| get(store.db, store.read, made, start(b"k"), 1, &raw mut len, e));
        assert_eq!(api.take(lasting.unwrap(), len), Some(b"v".to_vec()));
        (api.rocksdb_column_family_handle_destroy)(made);
    }
}
