//! A store that RocksDB's own library writes, through its C functions.
//!
//! It has the column families `default` (with deletions and a range tombstone), `counts` (merge
//! operands of RocksDB's `uint64add`) and `plain`. A part of it is in tables, the rest in the log.

use std::ffi::{CStr, CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr::null_mut;

use libloading::{Library, Symbol};

type Handle = *mut c_void;
type Error = *mut *mut c_char;
type Put = unsafe extern "C" fn(Handle, Handle, Handle, *const u8, usize, *const u8, usize, Error);
type Delete = unsafe extern "C" fn(Handle, Handle, Handle, *const u8, usize, Error);
type Flush = unsafe extern "C" fn(Handle, Handle, Handle, Error);
type Open = unsafe extern "C" fn(
    Handle,
    *const c_char,
    i32,
    *const *const c_char,
    *const Handle,
    *mut Handle,
    Error,
) -> Handle;

/// Returns the path or name of an installed library of RocksDB that is not Esker's.
pub fn installed() -> Option<String> {
    let release = esker_peers::rocksdb_installed().map(|path| path.display().to_string());
    let system = ["librocksdb.so.7.8", "librocksdb.so"].map(str::to_string);
    release.into_iter().chain(system).find(|name| load(name).is_some())
}

fn load(name: &str) -> Option<Library> {
    // SAFETY: RocksDB's initialisers have no requirements.
    unsafe { Library::new(name) }.ok()
}

struct Functions<'a>(&'a Library);

impl<'a> Functions<'a> {
    /// Returns a function, whose type is that of RocksDB's header.
    fn get<F>(&self, name: &str) -> Symbol<'a, F> {
        // SAFETY: guaranteed by the callers, which name the type of the header.
        unsafe { self.0.get(name.as_bytes()) }.unwrap()
    }

    fn made_by(&self, name: &str) -> Handle {
        // SAFETY: a constructor without arguments.
        unsafe { self.get::<unsafe extern "C" fn() -> Handle>(name)() }
    }
}

/// Runs a call that reports an error text.
fn checked<T>(call: impl FnOnce(Error) -> T) -> T {
    let mut error = null_mut();
    let result = call(&raw mut error);
    if !error.is_null() {
        // SAFETY: an error text is a C string.
        panic!("{}", unsafe { CStr::from_ptr(error) }.to_string_lossy());
    }
    result
}

/// Creates the store in `dir` with the library at `path`.
pub fn create(path: &str, dir: &Path) {
    let library = load(path).unwrap();
    let c = Functions(&library);
    let dir = CString::new(dir.as_os_str().as_bytes()).unwrap();
    let names = [c"default", c"counts", c"plain"];
    let starts = names.map(CStr::as_ptr);
    // SAFETY: the types are those of RocksDB's header; buffers and objects live through the calls.
    unsafe {
        let (options, counting) =
            (c.made_by("rocksdb_options_create"), c.made_by("rocksdb_options_create"));
        let flag = |name: &str| c.get::<unsafe extern "C" fn(Handle, u8)>(name)(options, 1);
        flag("rocksdb_options_set_create_if_missing");
        flag("rocksdb_options_set_create_missing_column_families");
        let one = |name: &str, of: Handle| c.get::<unsafe extern "C" fn(Handle)>(name)(of);
        one("rocksdb_options_set_uint64add_merge_operator", counting);
        let open = c.get::<Open>("rocksdb_open_column_families");
        let (of, mut families) = ([options, counting, options], [null_mut(); 3]);
        let families_start = families.as_mut_ptr();
        let db = checked(|error| {
            open(options, dir.as_ptr(), 3, starts.as_ptr(), of.as_ptr(), families_start, error)
        });
        let write = c.made_by("rocksdb_writeoptions_create");
        let (put, merge) = (c.get::<Put>("rocksdb_put_cf"), c.get::<Put>("rocksdb_merge_cf"));
        let set = |call: &Put, family: usize, key: &str, value: &[u8]| {
            let (start, len) = (key.as_ptr(), key.len());
            let (value, value_len) = (value.as_ptr(), value.len());
            checked(|error| call(db, write, families[family], start, len, value, value_len, error));
        };
        let delete = c.get::<Delete>("rocksdb_delete_cf");
        let flush = c.get::<Flush>("rocksdb_flush_cf");
        let flush_options = c.made_by("rocksdb_flushoptions_create");
        let key = |number: u32| format!("key{number:04}");
        for number in 0..1500 {
            set(&put, 0, &key(number), format!("value {number}").as_bytes());
        }
        for round in 0..3 {
            (0..1000).for_each(|number| set(&merge, 1, &key(number), &1u64.to_le_bytes()));
            if round < 2 {
                let flush = |family| checked(|error| flush(db, flush_options, family, error));
                families.iter().for_each(|family| flush(*family));
            }
        }
        for number in (7..1000).step_by(10) {
            let key = key(number);
            let (start, len) = (key.as_ptr(), key.len());
            checked(|error| delete(db, write, families[0], start, len, error));
        }
        let delete_range = c.get::<Put>("rocksdb_delete_range_cf");
        set(&delete_range, 0, &key(100), key(211).as_bytes());
        set(&put, 2, "k", b"v");
        let destroy = |family: &Handle| one("rocksdb_column_family_handle_destroy", *family);
        families.iter().for_each(destroy);
        one("rocksdb_close", db);
        one("rocksdb_flushoptions_destroy", flush_options);
        one("rocksdb_writeoptions_destroy", write);
        one("rocksdb_options_destroy", options);
        one("rocksdb_options_destroy", counting);
    }
}
