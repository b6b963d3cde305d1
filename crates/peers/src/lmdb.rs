//! LMDB: a copy-on-write B+tree in a memory map, with one transaction per write.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;

use esker_lab::error::{LabError, Result};
use esker_lab::target::{
    Capabilities, Direction, Durability, Engine, StoreOptions, Target, Transaction,
    TransactionKind, TransactionResult, TransactionWork, VisitMany, VisitPair, Writes, get_each,
    not_offered,
};

use crate::library::{Loaded, functions, load_installed, load_path};

type Handle = *mut c_void;

/// LMDB's `MDB_val`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Value {
    size: usize,
    data: *const u8,
}

/// LMDB's `MDB_stat`.
#[repr(C)]
#[derive(Default)]
pub struct Stat {
    _page_size_and_depth: [c_uint; 2],
    _pages: [usize; 3],
    entries: usize,
}

functions! {
    /// LMDB's functions.
    Api {
        env_create: fn(*mut Handle) -> c_int,
        env_set_mapsize: fn(Handle, usize) -> c_int,
        env_set_maxreaders: fn(Handle, c_uint) -> c_int,
        env_open: fn(Handle, *const c_char, c_uint, c_uint) -> c_int,
        env_sync: fn(Handle, c_int) -> c_int,
        env_close: fn(Handle),
        txn_begin: fn(Handle, Handle, c_uint, *mut Handle) -> c_int,
        txn_commit: fn(Handle) -> c_int,
        txn_abort: fn(Handle),
        txn_reset: fn(Handle),
        txn_renew: fn(Handle) -> c_int,
        dbi_open: fn(Handle, *const c_char, c_uint, *mut c_uint) -> c_int,
        get: fn(Handle, c_uint, *mut Value, *mut Value) -> c_int,
        put: fn(Handle, c_uint, *mut Value, *mut Value, c_uint) -> c_int,
        del: fn(Handle, c_uint, *mut Value, *mut Value) -> c_int,
        cursor_open: fn(Handle, c_uint, *mut Handle) -> c_int,
        cursor_close: fn(Handle),
        cursor_get: fn(Handle, *mut Value, *mut Value, c_uint) -> c_int,
        stat: fn(Handle, c_uint, *mut Stat) -> c_int,
        strerror: fn(c_int) -> *const c_char,
        version: fn(*mut c_int, *mut c_int, *mut c_int) -> *const c_char,
    }
}

// Constants of lmdb.h.
const NO_SYNC: c_uint = 0x1_0000;
const NO_TLS: c_uint = 0x20_0000;
const READ_ONLY: c_uint = 0x2_0000;
const NOT_FOUND: c_int = -30798;
const CURSOR_FIRST: c_uint = 0;
const CURSOR_LAST: c_uint = 6;
const CURSOR_NEXT: c_uint = 8;
const CURSOR_PREV: c_uint = 12;
const CURSOR_SET_RANGE: c_uint = 17;
/// Map size beyond the data, in bytes. It uses only address space; the file grows as it is written.
const MAP_BYTES_SPARE: u64 = 16 << 30;
const READERS_MAX: c_uint = 2048;

/// The LMDB library.
pub struct Lmdb {
    name: String,
    library: Loaded,
    api: Api,
}

impl Lmdb {
    /// Loads the system's LMDB, or the library at `path`, named `name` in the benchmark.
    pub fn load(name: &str, path: Option<&str>) -> Result<Lmdb> {
        let library = match path {
            Some(path) => load_path(path)?,
            None => load_installed(&["liblmdb.so.0", "liblmdb.so"], "liblmdb0")?,
        };
        Ok(Lmdb { name: name.into(), api: Api::load(&library, "mdb_")?, library })
    }
}

impl Engine for Lmdb {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> String {
        let null = std::ptr::null_mut;
        // SAFETY: null pointers are allowed; the result is a constant C string.
        let version = unsafe { CStr::from_ptr((self.api.version)(null(), null(), null())) };
        format!("{} ({})", version.to_string_lossy(), self.library.origin)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            sync: true,
            compact: false,
            checksums: false,
            concurrent_writers: false,
            persistent: true,
            transactions: true,
            merge: false,
            bulk_load: false,
        }
    }

    fn given(&self, options: &StoreOptions) -> Vec<(String, String)> {
        let durability = match options.durability {
            Durability::Sync => "synced commits",
            Durability::Buffered | Durability::None => "MDB_NOSYNC",
        };
        let pair = |name: &str, value: &str| (name.to_string(), value.to_string());
        options.given(vec![
            pair("mapsize", &map_bytes(options).to_string()),
            pair("durability", durability),
            pair("cache", "the page cache of the system, without a limit"),
            pair("compression", "none (not offered)"),
            pair("filter", "none (it needs none)"),
            pair("checksums", "none (not offered)"),
            pair("write", "one transaction each"),
        ])
    }

    fn open(&self, dir: &Path, options: &StoreOptions) -> Result<Box<dyn Target>> {
        let path = CString::new(dir.as_os_str().as_bytes())
            .map_err(|_| LabError::engine("the path holds a zero byte"))?;
        let mut store = LmdbStore {
            api: self.api,
            engine: self.name.clone(),
            env: std::ptr::null_mut(),
            dbi: 0,
            idle_readers: Mutex::new(Vec::new()),
        };
        let sync = if options.durability == Durability::Sync { 0 } else { NO_SYNC };
        // SAFETY: calls in the order required by lmdb.h; a failure drops `store`, which closes
        // `env`.
        unsafe {
            let created = (self.api.env_create)(&raw mut store.env);
            store.check(created)?;
            store.check((self.api.env_set_mapsize)(store.env, map_bytes(options) as usize))?;
            store.check((self.api.env_set_maxreaders)(store.env, READERS_MAX))?;
            store.check((self.api.env_open)(store.env, path.as_ptr(), NO_TLS | sync, 0o600))?;
            let mut txn = std::ptr::null_mut();
            let none = std::ptr::null_mut();
            store.check((self.api.txn_begin)(store.env, none, 0, &raw mut txn))?;
            let mut dbi = 0;
            let opened = (self.api.dbi_open)(txn, std::ptr::null(), 0, &raw mut dbi);
            store.finish(txn, opened)?;
            store.dbi = dbi;
        }
        Ok(Box::new(store))
    }
}

fn map_bytes(options: &StoreOptions) -> u64 {
    (options.data_bytes_expected.saturating_mul(8).saturating_add(MAP_BYTES_SPARE) >> 20) << 20
}

struct LmdbStore {
    api: Api,
    engine: String,
    env: Handle,
    dbi: c_uint,
    /// Reset read transactions, reused by the next reader; they hold no snapshot.
    idle_readers: Mutex<Vec<Reader>>,
}

struct Reader(Handle);

// SAFETY: with MDB_NOTLS a read transaction may move between threads, used by one at a time.
unsafe impl Send for Reader {}
// SAFETY: an environment may be used by many threads; LMDB serialises writers itself.
unsafe impl Send for LmdbStore {}
// SAFETY: as above.
unsafe impl Sync for LmdbStore {}

impl Drop for LmdbStore {
    fn drop(&mut self) {
        let idle = self.idle_readers.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        for reader in idle.drain(..) {
            // SAFETY: a reset transaction of this environment, not used afterwards.
            unsafe { (self.api.txn_abort)(reader.0) }
        }
        if !self.env.is_null() {
            // SAFETY: all transactions have ended.
            unsafe { (self.api.env_close)(self.env) }
        }
    }
}

fn value(bytes: &[u8]) -> Value {
    Value { size: bytes.len(), data: bytes.as_ptr() }
}

const NO_VALUE: Value = Value { size: 0, data: std::ptr::null() };

/// # Safety
/// `value` was filled by LMDB within a transaction that stays open while the result is used.
unsafe fn bytes<'a>(value: Value) -> &'a [u8] {
    if value.data.is_null() || value.size == 0 {
        return &[];
    }
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts(value.data, value.size) }
}

impl LmdbStore {
    fn check(&self, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: strerror returns a constant C string for any number.
        let text = unsafe { CStr::from_ptr((self.api.strerror)(code)) };
        Err(LabError::engine(format!("{}: {}", self.engine, text.to_string_lossy())))
    }

    /// Commits `txn`, or aborts it if `code` is an error.
    fn finish(&self, txn: Handle, code: c_int) -> Result<()> {
        if code == 0 {
            // SAFETY: an open transaction, not used afterwards.
            return self.check(unsafe { (self.api.txn_commit)(txn) });
        }
        // SAFETY: as above.
        unsafe { (self.api.txn_abort)(txn) };
        self.check(code)
    }

    /// Syncs all commits so far, if `sync`.
    fn sync_if(&self, sync: bool) -> Result<()> {
        if sync {
            // SAFETY: the environment is open.
            self.check(unsafe { (self.api.env_sync)(self.env, 1) })?;
        }
        Ok(())
    }

    fn write(&self, change: impl FnOnce(Handle) -> c_int) -> Result<()> {
        let mut txn = std::ptr::null_mut();
        let none = std::ptr::null_mut();
        // SAFETY: the environment is open.
        self.check(unsafe { (self.api.txn_begin)(self.env, none, 0, &raw mut txn) })?;
        let code = change(txn);
        self.finish(txn, code)
    }

    /// Stores a pair in an open write transaction, and returns LMDB's code.
    fn put_in(&self, txn: Handle, key: &[u8], new: &[u8]) -> c_int {
        let (mut key, mut new) = (value(key), value(new));
        // SAFETY: the transaction is open; key and value live through the call, which copies them.
        unsafe { (self.api.put)(txn, self.dbi, &raw mut key, &raw mut new, 0) }
    }

    /// Removes a key, present or not, in an open write transaction, and returns LMDB's code.
    fn delete_in(&self, txn: Handle, key: &[u8]) -> c_int {
        let mut key = value(key);
        // SAFETY: the transaction is open, and the key lives through the call.
        match unsafe { (self.api.del)(txn, self.dbi, &raw mut key, std::ptr::null_mut()) } {
            NOT_FOUND => 0,
            code => code,
        }
    }

    /// Passes the value of `key` in an open read transaction to `visit`.
    fn get_in(&self, txn: Handle, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let (mut key, mut found) = (value(key), NO_VALUE);
        // SAFETY: the transaction is open while `visit` runs.
        unsafe {
            match (self.api.get)(txn, self.dbi, &raw mut key, &raw mut found) {
                NOT_FOUND => Ok(false),
                0 => {
                    visit(bytes(found));
                    Ok(true)
                }
                code => self.check(code).map(|()| false),
            }
        }
    }

    fn read<T, E: From<LabError>>(
        &self,
        look: impl FnOnce(Handle) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let idle = || self.idle_readers.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let resting = idle().pop();
        let reader = match resting {
            Some(reader) => {
                // SAFETY: a reset transaction of this environment.
                self.check(unsafe { (self.api.txn_renew)(reader.0) })?;
                reader
            }
            None => {
                let mut txn = std::ptr::null_mut();
                let none = std::ptr::null_mut();
                // SAFETY: the environment is open.
                let code = unsafe { (self.api.txn_begin)(self.env, none, READ_ONLY, &raw mut txn) };
                self.check(code)?;
                Reader(txn)
            }
        };
        let result = look(reader.0);
        // SAFETY: an open read transaction; its values are not used afterwards.
        unsafe { (self.api.txn_reset)(reader.0) };
        idle().push(reader);
        result
    }

    /// Moves a cursor by `first`, then by `next` while `visit` returns true; returns whether there
    /// was a pair.
    fn walk(
        &self,
        start: &[u8],
        first: c_uint,
        next: c_uint,
        visit: VisitPair<'_>,
    ) -> Result<bool> {
        self.read(|txn| {
            let mut cursor = std::ptr::null_mut();
            // SAFETY: the transaction is open, and the cursor is closed before the transaction
            // ends. Keys and values stay in the map until the transaction ends.
            unsafe {
                self.check((self.api.cursor_open)(txn, self.dbi, &raw mut cursor))?;
                let (mut key, mut found) = (value(start), NO_VALUE);
                let mut any = false;
                let mut code = (self.api.cursor_get)(cursor, &raw mut key, &raw mut found, first);
                while code == 0 {
                    any = true;
                    if !visit(bytes(key), bytes(found)) {
                        break;
                    }
                    code = (self.api.cursor_get)(cursor, &raw mut key, &raw mut found, next);
                }
                (self.api.cursor_close)(cursor);
                if code != NOT_FOUND {
                    self.check(code)?;
                }
                Ok(any)
            }
        })
    }
}

/// An open transaction, which reads, or reads and writes.
struct Open<'a> {
    store: &'a LmdbStore,
    txn: Handle,
}

impl Transaction for Open<'_> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> TransactionResult<bool> {
        Ok(self.store.get_in(self.txn, key, visit)?)
    }

    fn put(&mut self, key: &[u8], new: &[u8]) -> TransactionResult<()> {
        Ok(self.store.check(self.store.put_in(self.txn, key, new))?)
    }
}

impl Target for LmdbStore {
    fn put(&self, key: &[u8], new: &[u8], sync: bool) -> Result<()> {
        self.write(|txn| self.put_in(txn, key, new))?;
        self.sync_if(sync)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.write(|txn| self.delete_in(txn, key))
    }

    fn write_many(&self, writes: Writes<'_, '_>, sync: bool) -> Result<bool> {
        self.write(|txn| {
            for (key, new) in writes {
                let code = match new {
                    Some(new) => self.put_in(txn, key, new),
                    None => self.delete_in(txn, key),
                };
                if code != 0 {
                    return code;
                }
            }
            0
        })?;
        self.sync_if(sync)?;
        Ok(true)
    }

    fn count(&self) -> Result<u64> {
        self.read(|txn| {
            let mut stat = Stat::default();
            // SAFETY: the transaction is open, and the structure is LMDB's.
            self.check(unsafe { (self.api.stat)(txn, self.dbi, &raw mut stat) })?;
            Ok(stat.entries as u64)
        })
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.read(|txn| self.get_in(txn, key, visit))
    }

    fn get_many(&self, keys: &[&[u8]], visit: VisitMany<'_>) -> Result<()> {
        self.read(|txn| get_each(keys, visit, |key, visit| self.get_in(txn, key, visit)))
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
        // LMDB cannot search for an empty key; every key follows it.
        let first = if start.is_empty() { CURSOR_FIRST } else { CURSOR_SET_RANGE };
        self.walk(start, first, CURSOR_NEXT, visit).map(|_| ())
    }

    fn compact(&self) -> Result<()> {
        Err(not_offered(&self.engine, "compaction of an open store"))
    }

    fn transact(&self, kind: TransactionKind, work: TransactionWork<'_>) -> TransactionResult<()> {
        let TransactionKind::ReadWrite { sync } = kind else {
            return self.read(|txn| work(&mut Open { store: self, txn }));
        };
        let mut txn = std::ptr::null_mut();
        let none = std::ptr::null_mut();
        // SAFETY: the environment is open.
        self.check(unsafe { (self.api.txn_begin)(self.env, none, 0, &raw mut txn) })?;
        if let Err(error) = work(&mut Open { store: self, txn }) {
            // SAFETY: an open transaction, not used afterwards.
            unsafe { (self.api.txn_abort)(txn) };
            return Err(error);
        }
        self.finish(txn, 0)?;
        Ok(self.sync_if(sync)?)
    }

    fn stats(&self) -> Option<String> {
        None
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
