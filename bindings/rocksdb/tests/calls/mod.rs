//! RocksDB's C functions as C declares them: those of Esker, or those of a loaded library. And a
//! store behind them, whose calls return Rust values.
#![allow(dead_code, reason = "each test program uses a part")]

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;

/// A pointer to an object of the library.
pub type Handle = *mut c_void;
/// Place of an error text.
pub type Place = *mut *mut c_char;
/// Start of a buffer.
pub type Start = *const c_char;

macro_rules! api {
    ($($name:ident: fn($($arg:ident: $type:ty),*) $(-> $result:ty)?;)+) => {
        mod linked {
            use super::{Handle, Place, Start, c_char, c_void};

            unsafe extern "C" {
                $(pub fn $name($($arg: $type),*) $(-> $result)?;)+
            }
        }

        /// The functions of a library.
        #[derive(Clone, Copy)]
        pub struct Api {
            $(pub $name: unsafe extern "C" fn($($type),*) $(-> $result)?,)+
        }

        impl Api {
            /// Returns Esker's functions.
            pub fn esker() -> Api {
                Api { $($name: linked::$name,)+ }
            }

            /// Loads the library at `path`, which stays loaded.
            pub fn load(path: &str) -> Result<Api, String> {
                // SAFETY: loading runs the library's initializers; the types are those of RocksDB's
                // header.
                unsafe {
                    let library = libloading::Library::new(path).map_err(|e| e.to_string())?;
                    let api = Api {
                        $($name: *library
                            .get::<unsafe extern "C" fn($($type),*) $(-> $result)?>(
                                stringify!($name).as_bytes(),
                            )
                            .map_err(|e| e.to_string())?,)+
                    };
                    // The functions stay callable as long as the process lives.
                    std::mem::forget(library);
                    Ok(api)
                }
            }
        }
    };
}

api! {
    rocksdb_free: fn(memory: *mut c_void);
    rocksdb_options_create: fn() -> Handle;
    rocksdb_options_destroy: fn(options: Handle);
    rocksdb_options_set_create_if_missing: fn(options: Handle, on: u8);
    rocksdb_options_set_create_missing_column_families: fn(options: Handle, on: u8);
    rocksdb_options_set_prefix_extractor: fn(options: Handle, transform: Handle);
    rocksdb_options_set_write_buffer_size: fn(options: Handle, bytes: usize);
    rocksdb_options_get_write_buffer_size: fn(options: Handle) -> usize;
    rocksdb_options_set_max_open_files: fn(options: Handle, count: i32);
    rocksdb_options_set_use_fsync: fn(options: Handle, on: i32);
    rocksdb_options_set_uint64add_merge_operator: fn(options: Handle);
    rocksdb_merge_cf: fn(db: Handle, options: Handle, family: Handle, key: Start, len: usize, value: Start, value_len: usize, error: Place);
    rocksdb_writebatch_merge_cf: fn(batch: Handle, family: Handle, key: Start, len: usize, value: Start, value_len: usize);
    rocksdb_transaction_merge: fn(txn: Handle, key: Start, len: usize, value: Start, value_len: usize, error: Place);
    rocksdb_slicetransform_create_fixed_prefix: fn(len: usize) -> Handle;
    rocksdb_readoptions_create: fn() -> Handle;
    rocksdb_readoptions_destroy: fn(options: Handle);
    rocksdb_readoptions_set_snapshot: fn(options: Handle, snapshot: Handle);
    rocksdb_readoptions_set_iterate_lower_bound: fn(options: Handle, key: Start, len: usize);
    rocksdb_readoptions_set_iterate_upper_bound: fn(options: Handle, key: Start, len: usize);
    rocksdb_readoptions_set_prefix_same_as_start: fn(options: Handle, on: u8);
    rocksdb_readoptions_set_total_order_seek: fn(options: Handle, on: u8);
    rocksdb_writeoptions_create: fn() -> Handle;
    rocksdb_writeoptions_destroy: fn(options: Handle);
    rocksdb_writeoptions_set_sync: fn(options: Handle, on: u8);
    rocksdb_open: fn(options: Handle, path: Start, error: Place) -> Handle;
    rocksdb_open_column_families: fn(options: Handle, path: Start, count: i32, names: *const Start, of: *const Handle, handles: *mut Handle, error: Place) -> Handle;
    rocksdb_open_as_secondary_column_families: fn(options: Handle, path: Start, secondary: Start, count: i32, names: *const Start, of: *const Handle, handles: *mut Handle, error: Place) -> Handle;
    rocksdb_try_catch_up_with_primary: fn(db: Handle, error: Place);
    rocksdb_list_column_families: fn(options: Handle, path: Start, count: *mut usize, error: Place) -> *mut *mut c_char;
    rocksdb_list_column_families_destroy: fn(list: *mut *mut c_char, count: usize);
    rocksdb_create_column_family: fn(db: Handle, options: Handle, name: Start, error: Place) -> Handle;
    rocksdb_drop_column_family: fn(db: Handle, family: Handle, error: Place);
    rocksdb_column_family_handle_destroy: fn(family: Handle);
    rocksdb_column_family_handle_get_id: fn(family: Handle) -> u32;
    rocksdb_close: fn(db: Handle);
    rocksdb_destroy_db: fn(options: Handle, path: Start, error: Place);
    rocksdb_put_cf: fn(db: Handle, options: Handle, family: Handle, key: Start, len: usize, value: Start, value_len: usize, error: Place);
    rocksdb_delete_cf: fn(db: Handle, options: Handle, family: Handle, key: Start, len: usize, error: Place);
    rocksdb_delete_range_cf: fn(db: Handle, options: Handle, family: Handle, start: Start, start_len: usize, end: Start, end_len: usize, error: Place);
    rocksdb_put: fn(db: Handle, options: Handle, key: Start, len: usize, value: Start, value_len: usize, error: Place);
    rocksdb_get: fn(db: Handle, options: Handle, key: Start, len: usize, value_len: *mut usize, error: Place) -> *mut c_char;
    rocksdb_get_cf: fn(db: Handle, options: Handle, family: Handle, key: Start, len: usize, value_len: *mut usize, error: Place) -> *mut c_char;
    rocksdb_get_pinned_cf: fn(db: Handle, options: Handle, family: Handle, key: Start, len: usize, error: Place) -> Handle;
    rocksdb_pinnableslice_value: fn(value: Handle, len: *mut usize) -> Start;
    rocksdb_pinnableslice_destroy: fn(value: Handle);
    rocksdb_multi_get_cf: fn(db: Handle, options: Handle, families: *const Handle, count: usize, keys: *const Start, lens: *const usize, values: *mut *mut c_char, value_lens: *mut usize, errors: *mut *mut c_char);
    rocksdb_batched_multi_get_cf: fn(db: Handle, options: Handle, family: Handle, count: usize, keys: *const Start, lens: *const usize, values: *mut Handle, errors: *mut *mut c_char, sorted: u8);
    rocksdb_write: fn(db: Handle, options: Handle, batch: Handle, error: Place);
    rocksdb_writebatch_create: fn() -> Handle;
    rocksdb_writebatch_create_from: fn(bytes: Start, len: usize) -> Handle;
    rocksdb_writebatch_destroy: fn(batch: Handle);
    rocksdb_writebatch_count: fn(batch: Handle) -> i32;
    rocksdb_writebatch_put_cf: fn(batch: Handle, family: Handle, key: Start, len: usize, value: Start, value_len: usize);
    rocksdb_writebatch_delete_cf: fn(batch: Handle, family: Handle, key: Start, len: usize);
    rocksdb_writebatch_delete_range_cf: fn(batch: Handle, family: Handle, start: Start, start_len: usize, end: Start, end_len: usize);
    rocksdb_writebatch_set_save_point: fn(batch: Handle);
    rocksdb_writebatch_rollback_to_save_point: fn(batch: Handle, error: Place);
    rocksdb_writebatch_data: fn(batch: Handle, len: *mut usize) -> Start;
    rocksdb_create_iterator_cf: fn(db: Handle, options: Handle, family: Handle) -> Handle;
    rocksdb_iter_destroy: fn(iter: Handle);
    rocksdb_iter_valid: fn(iter: Handle) -> u8;
    rocksdb_iter_seek_to_first: fn(iter: Handle);
    rocksdb_iter_seek_to_last: fn(iter: Handle);
    rocksdb_iter_seek: fn(iter: Handle, key: Start, len: usize);
    rocksdb_iter_seek_for_prev: fn(iter: Handle, key: Start, len: usize);
    rocksdb_iter_next: fn(iter: Handle);
    rocksdb_iter_prev: fn(iter: Handle);
    rocksdb_iter_key: fn(iter: Handle, len: *mut usize) -> Start;
    rocksdb_iter_value: fn(iter: Handle, len: *mut usize) -> Start;
    rocksdb_iter_get_error: fn(iter: Handle, error: Place);
    rocksdb_create_snapshot: fn(db: Handle) -> Handle;
    rocksdb_release_snapshot: fn(db: Handle, snapshot: Handle);
    rocksdb_flush: fn(db: Handle, options: Handle, error: Place);
    rocksdb_flushoptions_create: fn() -> Handle;
    rocksdb_flushoptions_destroy: fn(options: Handle);
    rocksdb_compact_range_cf: fn(db: Handle, family: Handle, start: Start, start_len: usize, end: Start, end_len: usize);
    rocksdb_property_value: fn(db: Handle, name: Start) -> *mut c_char;
    rocksdb_optimistictransactiondb_open_column_families: fn(options: Handle, path: Start, count: i32, names: *const Start, of: *const Handle, handles: *mut Handle, error: Place) -> Handle;
    rocksdb_optimistictransactiondb_get_base_db: fn(db: Handle) -> Handle;
    rocksdb_optimistictransactiondb_close_base_db: fn(db: Handle);
    rocksdb_optimistictransactiondb_close: fn(db: Handle);
    rocksdb_optimistictransaction_options_create: fn() -> Handle;
    rocksdb_optimistictransaction_options_destroy: fn(options: Handle);
    rocksdb_optimistictransaction_begin: fn(db: Handle, write: Handle, options: Handle, old: Handle) -> Handle;
    rocksdb_transaction_put_cf: fn(txn: Handle, family: Handle, key: Start, len: usize, value: Start, value_len: usize, error: Place);
    rocksdb_transaction_delete_cf: fn(txn: Handle, family: Handle, key: Start, len: usize, error: Place);
    rocksdb_transaction_get_cf: fn(txn: Handle, options: Handle, family: Handle, key: Start, len: usize, value_len: *mut usize, error: Place) -> *mut c_char;
    rocksdb_transaction_get_for_update_cf: fn(txn: Handle, options: Handle, family: Handle, key: Start, len: usize, value_len: *mut usize, exclusive: u8, error: Place) -> *mut c_char;
    rocksdb_transaction_create_iterator_cf: fn(txn: Handle, options: Handle, family: Handle) -> Handle;
    rocksdb_transaction_set_savepoint: fn(txn: Handle);
    rocksdb_transaction_rollback_to_savepoint: fn(txn: Handle, error: Place);
    rocksdb_transaction_commit: fn(txn: Handle, error: Place);
    rocksdb_transaction_rollback: fn(txn: Handle, error: Place);
    rocksdb_transaction_destroy: fn(txn: Handle);
}

/// The kind of an error text: what comes before the first colon.
pub fn kind(text: &str) -> &str {
    text.split(':').next().unwrap_or_default()
}

/// A path as C gets it.
fn c_text(path: &Path) -> CString {
    CString::new(path.to_str().unwrap()).unwrap()
}

/// Starts of byte strings.
pub fn start(bytes: &[u8]) -> Start {
    bytes.as_ptr().cast()
}

impl Api {
    /// Calls `body` with a place for an error text, and returns its result or the text.
    pub fn checked<T>(&self, body: impl FnOnce(Place) -> T) -> Result<T, String> {
        let mut error: *mut c_char = std::ptr::null_mut();
        let value = body(&raw mut error);
        if error.is_null() {
            return Ok(value);
        }
        // SAFETY: a text of the library, which is freed by its own function.
        unsafe {
            let text = CStr::from_ptr(error).to_string_lossy().into_owned();
            (self.rocksdb_free)(error.cast());
            Err(text)
        }
    }

    /// Takes a value that was allocated by the library.
    pub fn take(&self, value: *mut c_char, len: usize) -> Option<Vec<u8>> {
        if value.is_null() {
            return None;
        }
        // SAFETY: the value has `len` bytes, and is freed by the library's own function.
        unsafe {
            let bytes = std::slice::from_raw_parts(value.cast::<u8>(), len).to_vec();
            (self.rocksdb_free)(value.cast());
            Some(bytes)
        }
    }
}

/// Read bounds, snapshot and prefix mode of an iterator.
#[derive(Clone, Default)]
pub struct Scan {
    pub lower: Option<Vec<u8>>,
    pub upper: Option<Vec<u8>>,
    pub same_prefix: bool,
}

/// An open store with its column families.
pub struct Store {
    pub api: Api,
    /// The optimistic transaction store, or null if it was opened without transactions.
    pub owner: Handle,
    pub db: Handle,
    pub names: Vec<String>,
    pub families: Vec<Handle>,
    pub write: Handle,
    pub read: Handle,
}

impl Store {
    /// Opens the store at `path` with the column families `names`, which are created if missing, as an
    /// optimistic transaction store.
    pub fn open(api: Api, path: &Path, names: &[&str]) -> Result<Store, String> {
        Store::open_as(api, path, names, true)
    }

    /// Opens the store at `path` with or without transactions.
    pub fn open_as(
        api: Api,
        path: &Path,
        names: &[&str],
        transactions: bool,
    ) -> Result<Store, String> {
        let open = match transactions {
            true => api.rocksdb_optimistictransactiondb_open_column_families,
            false => api.rocksdb_open_column_families,
        };
        let path = c_text(path);
        // SAFETY: the objects are those of `open_by`.
        let mut store =
            Store::open_by(api, names, |options, count, names, of, handles, error| unsafe {
                open(options, path.as_ptr(), count, names, of, handles, error)
            })?;
        if transactions {
            store.owner = store.db;
            // SAFETY: an open store with transactions.
            store.db = unsafe { (api.rocksdb_optimistictransactiondb_get_base_db)(store.owner) };
        }
        Ok(store)
    }

    /// Opens a secondary instance of the store at `path`.
    pub fn open_secondary(
        api: Api,
        path: &Path,
        secondary: &Path,
        names: &[&str],
    ) -> Result<Store, String> {
        let open = api.rocksdb_open_as_secondary_column_families;
        let (path, own) = (c_text(path), c_text(secondary));
        // SAFETY: the objects are those of `open_by`.
        Store::open_by(api, names, |options, count, names, of, handles, error| unsafe {
            // RocksDB demands it of a secondary instance.
            (api.rocksdb_options_set_max_open_files)(options, -1);
            open(options, path.as_ptr(), own.as_ptr(), count, names, of, handles, error)
        })
    }

    /// Calls `open` with options, the number of column families, their names, their options, places
    /// for their handles, and the place of an error.
    fn open_by(
        api: Api,
        names: &[&str],
        open: impl FnOnce(Handle, i32, *const Start, *const Handle, *mut Handle, Place) -> Handle,
    ) -> Result<Store, String> {
        let texts: Vec<CString> = names.iter().map(|name| CString::new(*name).unwrap()).collect();
        let starts: Vec<Start> = texts.iter().map(|text| text.as_ptr()).collect();
        let mut families = vec![std::ptr::null_mut(); names.len()];
        // SAFETY: all objects are of this library and live through the calls; the arrays have
        // `names.len()` items.
        unsafe {
            let options = (api.rocksdb_options_create)();
            (api.rocksdb_options_set_create_if_missing)(options, 1);
            (api.rocksdb_options_set_create_missing_column_families)(options, 1);
            // Stores of a few pairs are opened often: large memtables would be most of the work.
            (api.rocksdb_options_set_write_buffer_size)(options, 1 << 20);
            let transform = (api.rocksdb_slicetransform_create_fixed_prefix)(1);
            (api.rocksdb_options_set_prefix_extractor)(options, transform);
            (api.rocksdb_options_set_uint64add_merge_operator)(options);
            let of = vec![options; names.len()];
            let opened = api.checked(|error| {
                let (names, of, handles) = (starts.as_ptr(), of.as_ptr(), families.as_mut_ptr());
                open(options, starts.len() as i32, names, of, handles, error)
            });
            (api.rocksdb_options_destroy)(options);
            Ok(Store {
                api,
                owner: std::ptr::null_mut(),
                db: opened?,
                names: names.iter().map(ToString::to_string).collect(),
                families,
                write: (api.rocksdb_writeoptions_create)(),
                read: (api.rocksdb_readoptions_create)(),
            })
        }
    }

    /// Lets a secondary instance show what the store has now.
    pub fn catch_up(&self) -> Result<(), String> {
        // SAFETY: an open store.
        self.api.checked(|error| unsafe {
            (self.api.rocksdb_try_catch_up_with_primary)(self.db, error);
        })
    }

    /// Reads a key.
    pub fn get(&self, family: usize, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let (api, mut len) = (self.api, 0usize);
        // SAFETY: objects of an open store; the buffers live through the call.
        let value = api.checked(|error| unsafe {
            let (family, key_start) = (self.families[family], start(key));
            let len = &raw mut len;
            (api.rocksdb_get_cf)(self.db, self.read, family, key_start, key.len(), len, error)
        })?;
        Ok(api.take(value, len))
    }

    /// Sets a key, or deletes it.
    pub fn set(&self, family: usize, key: &[u8], value: Option<&[u8]>) -> Result<(), String> {
        let (api, family) = (self.api, self.families[family]);
        // SAFETY: objects of an open store; the buffers live through the call.
        api.checked(|error| unsafe {
            let (key, len) = (start(key), key.len());
            match value {
                Some(value) => {
                    let value_len = value.len();
                    let value = start(value);
                    let put = api.rocksdb_put_cf;
                    put(self.db, self.write, family, key, len, value, value_len, error);
                }
                None => (api.rocksdb_delete_cf)(self.db, self.write, family, key, len, error),
            }
        })
    }

    /// Merges an operand into the value of a key.
    pub fn merge(&self, family: usize, key: &[u8], operand: &[u8]) -> Result<(), String> {
        let (api, family) = (self.api, self.families[family]);
        let (operand_len, operand) = (operand.len(), start(operand));
        // SAFETY: objects of an open store; the buffers live through the call.
        api.checked(|error| unsafe {
            let (merge, len) = (api.rocksdb_merge_cf, key.len());
            merge(self.db, self.write, family, start(key), len, operand, operand_len, error);
        })
    }

    /// Creates an iterator and calls `visit` with it.
    pub fn scan<T>(&self, family: usize, scan: &Scan, visit: impl FnOnce(&Iter) -> T) -> T {
        let api = self.api;
        // SAFETY: objects of an open store; the bounds live as long as the iterator.
        unsafe {
            let options = self.options_of(scan);
            let family = self.families[family];
            let iter = (api.rocksdb_create_iterator_cf)(self.db, options, family);
            let seen = visit(&Iter { api, iter });
            (api.rocksdb_iter_destroy)(iter);
            (api.rocksdb_readoptions_destroy)(options);
            seen
        }
    }

    /// Returns new read options for a scan.
    pub fn options_of(&self, scan: &Scan) -> Handle {
        let api = self.api;
        // SAFETY: a new object of this library.
        unsafe {
            let options = (api.rocksdb_readoptions_create)();
            // RocksDB may skip keys of other prefixes unless it is told not to.
            (api.rocksdb_readoptions_set_total_order_seek)(options, u8::from(!scan.same_prefix));
            if let Some(key) = &scan.lower {
                let set = api.rocksdb_readoptions_set_iterate_lower_bound;
                set(options, start(key), key.len());
            }
            if let Some(key) = &scan.upper {
                let set = api.rocksdb_readoptions_set_iterate_upper_bound;
                set(options, start(key), key.len());
            }
            let same = u8::from(scan.same_prefix);
            (api.rocksdb_readoptions_set_prefix_same_as_start)(options, same);
            options
        }
    }

    /// Returns every pair of a column family.
    pub fn all(&self, family: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.scan(family, &Scan::default(), |iter| {
            let mut pairs = Vec::new();
            iter.first();
            while let Some(pair) = iter.pair() {
                pairs.push(pair);
                iter.next();
            }
            assert_eq!(iter.error(), Ok(()));
            pairs
        })
    }

    /// Writes all memtables to tables.
    pub fn flush(&self) -> Result<(), String> {
        let api = self.api;
        // SAFETY: objects of an open store.
        unsafe {
            let options = (api.rocksdb_flushoptions_create)();
            let done = api.checked(|error| (api.rocksdb_flush)(self.db, options, error));
            (api.rocksdb_flushoptions_destroy)(options);
            done
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let api = self.api;
        // SAFETY: each object is freed once, the store last.
        unsafe {
            for family in &self.families {
                (api.rocksdb_column_family_handle_destroy)(*family);
            }
            (api.rocksdb_writeoptions_destroy)(self.write);
            (api.rocksdb_readoptions_destroy)(self.read);
            if self.owner.is_null() {
                (api.rocksdb_close)(self.db);
            } else {
                (api.rocksdb_optimistictransactiondb_close_base_db)(self.db);
                (api.rocksdb_optimistictransactiondb_close)(self.owner);
            }
        }
    }
}

/// An iterator.
pub struct Iter {
    pub api: Api,
    pub iter: Handle,
}

impl Iter {
    /// Returns the current pair.
    pub fn pair(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let (mut len, mut value_len) = (0usize, 0usize);
        // SAFETY: a live iterator; key and value are copied before it moves.
        unsafe {
            if (self.api.rocksdb_iter_valid)(self.iter) == 0 {
                return None;
            }
            let key = (self.api.rocksdb_iter_key)(self.iter, &raw mut len);
            let key = std::slice::from_raw_parts(key.cast::<u8>(), len).to_vec();
            let value = (self.api.rocksdb_iter_value)(self.iter, &raw mut value_len);
            let value = std::slice::from_raw_parts(value.cast::<u8>(), value_len).to_vec();
            Some((key, value))
        }
    }

    /// Moves to the first key.
    pub fn first(&self) {
        // SAFETY: a live iterator.
        unsafe { (self.api.rocksdb_iter_seek_to_first)(self.iter) }
    }

    /// Moves to the last key.
    pub fn last(&self) {
        // SAFETY: a live iterator.
        unsafe { (self.api.rocksdb_iter_seek_to_last)(self.iter) }
    }

    /// Moves to the first key at or after `key`.
    pub fn seek(&self, key: &[u8]) {
        // SAFETY: a live iterator; the key lives through the call.
        unsafe { (self.api.rocksdb_iter_seek)(self.iter, start(key), key.len()) }
    }

    /// Moves to the last key at or before `key`.
    pub fn seek_for_prev(&self, key: &[u8]) {
        // SAFETY: a live iterator; the key lives through the call.
        unsafe { (self.api.rocksdb_iter_seek_for_prev)(self.iter, start(key), key.len()) }
    }

    /// Moves to the next key.
    pub fn next(&self) {
        // SAFETY: a live iterator.
        unsafe { (self.api.rocksdb_iter_next)(self.iter) }
    }

    /// Moves to the previous key.
    pub fn prev(&self) {
        // SAFETY: a live iterator.
        unsafe { (self.api.rocksdb_iter_prev)(self.iter) }
    }

    /// Returns the iterator's failure.
    pub fn error(&self) -> Result<(), String> {
        // SAFETY: a live iterator.
        self.api.checked(|error| unsafe { (self.api.rocksdb_iter_get_error)(self.iter, error) })
    }
}
