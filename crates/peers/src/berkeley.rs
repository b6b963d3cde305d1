//! Berkeley DB 5.3: its B-tree with the cache and locks of a private environment, without a log.
//!
//! The library exports the functions behind its handles' methods under their own names. These are
//! called, so that no layout of its structures is assumed.
//!
//! Contract: an environment opened with threads and concurrent access may be used from many
//! threads; data is returned in buffers of the caller; a cursor stays on its creating thread.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use esker_lab::error::{LabError, Result};
use esker_lab::target::{
    Capabilities, Direction, Engine, StoreOptions, Target, VisitPair, not_offered,
};

use crate::library::{Loaded, functions, load_installed, load_path, spec};

type Handle = *mut c_void;
type Text = *const c_char;

functions! {
    /// Functions in use.
    Api {
        db_env_create: fn(*mut Handle, u32) -> c_int,
        db_create: fn(*mut Handle, Handle, u32) -> c_int,
        db_strerror: fn(c_int) -> Text,
        __memp_set_cachesize: fn(Handle, u32, u32, c_int) -> c_int,
        __env_open_pp: fn(Handle, Text, u32, c_int) -> c_int,
        __env_close_pp: fn(Handle, u32) -> c_int,
        __db_open_pp: fn(Handle, Handle, Text, Text, c_int, u32, c_int) -> c_int,
        __db_close_pp: fn(Handle, u32) -> c_int,
        __db_set_pagesize: fn(Handle, u32) -> c_int,
        __db_put_pp: fn(Handle, Handle, *mut Dbt, *mut Dbt, u32) -> c_int,
        __db_get_pp: fn(Handle, Handle, *mut Dbt, *mut Dbt, u32) -> c_int,
        __db_del_pp: fn(Handle, Handle, *mut Dbt, u32) -> c_int,
        __db_cursor_pp: fn(Handle, Handle, *mut Handle, u32) -> c_int,
        __dbc_get_pp: fn(Handle, *mut Dbt, *mut Dbt, u32) -> c_int,
        __dbc_close_pp: fn(Handle) -> c_int,
    }
}

/// Key or value, as in the published header.
#[repr(C)]
pub struct Dbt {
    data: *mut c_void,
    size: u32,
    room: u32,
    partial_size: u32,
    partial_start: u32,
    application: *mut c_void,
    flags: u32,
}

// Constants of the 5.3 header.
const CREATE: u32 = 0x1;
const THREAD: u32 = 0x20;
const PRIVATE: u32 = 0x10000;
const INIT_CDB: u32 = 0x80;
const INIT_MPOOL: u32 = 0x400;
const BTREE: c_int = 1;
const USER_MEMORY: u32 = 0x800;
const NOT_FOUND: c_int = -30988;
const BUFFER_SMALL: c_int = -30999;
const CURSOR_FIRST: u32 = 7;
const CURSOR_LAST: u32 = 15;
const CURSOR_NEXT: u32 = 16;
const CURSOR_PREV: u32 = 23;
const CURSOR_SET_RANGE: u32 = 27;

const NAMES: &[&str] = &["libdb-5.3.so", "libdb-5.3.so.0"];
/// Minimum cache size in bytes, required by the library.
const CACHE_BYTES_MIN: u64 = 64 << 10;

thread_local! {
    /// Buffers for returned keys and values.
    static BUFFERS: RefCell<(Vec<u8>, Vec<u8>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// A Berkeley DB library.
pub struct BerkeleyDb {
    name: String,
    spec: String,
    library: Loaded,
    api: Api,
}

impl BerkeleyDb {
    /// Loads the system's Berkeley DB, or the library at `path`, named `name` in the benchmark.
    pub fn load(name: &str, path: Option<&str>) -> Result<BerkeleyDb> {
        let library = match path {
            Some(path) => load_path(path)?,
            None => load_installed(NAMES, "libdb5.3")?,
        };
        Ok(BerkeleyDb {
            name: name.into(),
            spec: spec(name, path),
            api: Api::load(&library, "")?,
            library,
        })
    }
}

fn page_bytes(options: &StoreOptions) -> u32 {
    (options.block_bytes.next_power_of_two() as u32).clamp(512, 65536)
}

fn cache_bytes(options: &StoreOptions) -> u64 {
    options.cache_and_memtable_bytes().max(CACHE_BYTES_MIN)
}

impl Engine for BerkeleyDb {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> String {
        format!(
            "Berkeley DB 5.3 B-tree, no log: not crash-safe ({}), in a child process",
            self.library.origin
        )
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            sync: false,
            compact: false,
            checksums: false,
            concurrent_writers: false,
            persistent: true,
            transactions: false,
            merge: false,
            bulk_load: false,
        }
    }

    fn subprocess_spec(&self) -> Option<String> {
        Some(self.spec.clone())
    }

    fn given(&self, options: &StoreOptions) -> Vec<(String, String)> {
        let pair = |name: &str, value: String| (name.to_string(), value);
        options.given(vec![
            pair("page_size", page_bytes(options).to_string()),
            pair("cache_size", format!("{} (cache and memtable)", cache_bytes(options))),
            pair("compression", "none (not offered)".into()),
            pair("durability", "none: no log".into()),
            pair("checksums", "none".into()),
        ])
    }

    fn open(&self, dir: &Path, options: &StoreOptions) -> Result<Box<dyn Target>> {
        let home = CString::new(dir.as_os_str().as_bytes())
            .map_err(|_| LabError::engine("the path holds a zero byte"))?;
        let api = self.api;
        let null = std::ptr::null_mut();
        let mut store = Store { api, name: self.name.clone(), env: null, db: null };
        let cache = cache_bytes(options);
        // SAFETY: the handles are new and configured before they are opened. Dropping `store`
        // closes the created handles. The paths live through the calls.
        unsafe {
            let code = (api.db_env_create)(&raw mut store.env, 0);
            store.check(code)?;
            let (whole, rest) = ((cache >> 30) as u32, (cache & ((1 << 30) - 1)) as u32);
            if !options.as_shipped {
                store.check((api.__memp_set_cachesize)(store.env, whole, rest, 1))?;
            }
            let flags = CREATE | THREAD | PRIVATE | INIT_CDB | INIT_MPOOL;
            store.check((api.__env_open_pp)(store.env, home.as_ptr(), flags, 0))?;
            let code = (api.db_create)(&raw mut store.db, store.env, 0);
            store.check(code)?;
            if !options.as_shipped {
                store.check((api.__db_set_pagesize)(store.db, page_bytes(options)))?;
            }
            let (file, none) = (c"store.db".as_ptr(), std::ptr::null());
            let flags = CREATE | THREAD;
            store.check((api.__db_open_pp)(store.db, null, file, none, BTREE, flags, 0o600))?;
        }
        Ok(Box::new(store))
    }
}

struct Store {
    api: Api,
    name: String,
    env: Handle,
    db: Handle,
}

// SAFETY: environment and database are opened for use from many threads.
unsafe impl Send for Store {}
// SAFETY: as above.
unsafe impl Sync for Store {}

fn given(bytes: &[u8]) -> Dbt {
    Dbt {
        data: bytes.as_ptr().cast_mut().cast(),
        size: bytes.len() as u32,
        room: 0,
        partial_size: 0,
        partial_start: 0,
        application: std::ptr::null_mut(),
        flags: 0,
    }
}

/// Returns a slot for a result: the whole buffer.
fn room(buffer: &mut Vec<u8>) -> Dbt {
    if buffer.len() < 256 {
        buffer.resize(256, 0);
    }
    let (data, room) = (buffer.as_mut_ptr().cast(), buffer.len() as u32);
    Dbt { data, size: 0, room, flags: USER_MEMORY, ..given(&[]) }
}

/// Returns a slot with the start of a scan, in a buffer that also receives the result.
fn start_in(buffer: &mut Vec<u8>, start: &[u8]) -> Dbt {
    if buffer.len() < start.len() {
        buffer.resize(start.len(), 0);
    }
    let mut place = room(buffer);
    buffer[..start.len()].copy_from_slice(start);
    place.size = start.len() as u32;
    place
}

impl Store {
    fn check(&self, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the text is constant and owned by the library.
        let text = unsafe { CStr::from_ptr((self.api.db_strerror)(code)) };
        Err(LabError::engine(format!("{}: {}", self.name, text.to_string_lossy())))
    }

    fn walk(&self, start: &[u8], first: u32, next: u32, visit: VisitPair<'_>) -> Result<bool> {
        let mut cursor = std::ptr::null_mut();
        let none = std::ptr::null_mut();
        // SAFETY: the database is open.
        self.check(unsafe { (self.api.__db_cursor_pp)(self.db, none, &raw mut cursor, 0) })?;
        let walked = BUFFERS.with_borrow_mut(|(key, value)| {
            let (mut step, mut any) = (first, false);
            loop {
                let mut at = start_in(key, if step == first { start } else { b"" });
                let mut found = room(value);
                // SAFETY: the cursor is open; both slots point to the buffers, which are not
                // resized before the call returns.
                let code =
                    unsafe { (self.api.__dbc_get_pp)(cursor, &raw mut at, &raw mut found, step) };
                match code {
                    BUFFER_SMALL => {
                        let (key_size, value_size) = (at.size as usize, found.size as usize);
                        key.resize(key_size.max(key.len()), 0);
                        value.resize(value_size.max(value.len()), 0);
                        continue;
                    }
                    NOT_FOUND => return Ok(any),
                    code => self.check(code)?,
                }
                any = true;
                step = next;
                if !visit(&key[..at.size as usize], &value[..found.size as usize]) {
                    return Ok(any);
                }
            }
        });
        // SAFETY: the cursor is open and not used afterwards.
        let closed = self.check(unsafe { (self.api.__dbc_close_pp)(cursor) });
        let any = walked?;
        closed.map(|()| any)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // SAFETY: the created handles are closed once, the database before its environment.
        unsafe {
            if !self.db.is_null() {
                (self.api.__db_close_pp)(self.db, 0);
            }
            if !self.env.is_null() {
                (self.api.__env_close_pp)(self.env, 0);
            }
        }
    }
}

impl Target for Store {
    fn put(&self, key: &[u8], value: &[u8], _sync: bool) -> Result<()> {
        let (mut key, mut value) = (given(key), given(value));
        let none = std::ptr::null_mut();
        // SAFETY: key and value live through the call, which copies them.
        self.check(unsafe {
            (self.api.__db_put_pp)(self.db, none, &raw mut key, &raw mut value, 0)
        })
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        let mut key = given(key);
        // SAFETY: the key lives through the call.
        match unsafe { (self.api.__db_del_pp)(self.db, std::ptr::null_mut(), &raw mut key, 0) } {
            NOT_FOUND => Ok(()),
            code => self.check(code),
        }
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        BUFFERS.with_borrow_mut(|(_, buffer)| {
            loop {
                let (mut at, mut found) = (given(key), room(buffer));
                let none = std::ptr::null_mut();
                // SAFETY: the key lives through the call; the slot points to the buffer.
                let code = unsafe {
                    (self.api.__db_get_pp)(self.db, none, &raw mut at, &raw mut found, 0)
                };
                match code {
                    BUFFER_SMALL => buffer.resize(found.size as usize, 0),
                    NOT_FOUND => return Ok(false),
                    code => {
                        self.check(code)?;
                        visit(&buffer[..found.size as usize]);
                        return Ok(true);
                    }
                }
            }
        })
    }

    fn seek(&self, key: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<bool> {
        self.walk(key, CURSOR_SET_RANGE, CURSOR_NEXT, &mut |key, value| {
            visit(key, value);
            false
        })
    }

    fn scan(&self, direction: Direction, visit: VisitPair<'_>) -> Result<()> {
        let (first, next) = match direction {
            Direction::Forward => (CURSOR_FIRST, CURSOR_NEXT),
            Direction::Reverse => (CURSOR_LAST, CURSOR_PREV),
        };
        self.walk(b"", first, next, visit).map(|_| ())
    }

    fn scan_from(&self, start: &[u8], visit: VisitPair<'_>) -> Result<()> {
        self.walk(start, CURSOR_SET_RANGE, CURSOR_NEXT, visit).map(|_| ())
    }

    fn compact(&self) -> Result<()> {
        Err(not_offered(&self.name, "compaction of an open store"))
    }

    fn stats(&self) -> Option<String> {
        None
    }

    fn close(self: Box<Self>) -> Result<()> {
        let mut store = *self;
        let db = std::mem::replace(&mut store.db, std::ptr::null_mut());
        // SAFETY: the database is open and closed once; the close writes its pages.
        let code = unsafe { (store.api.__db_close_pp)(db, 0) };
        store.check(code)
    }
}
