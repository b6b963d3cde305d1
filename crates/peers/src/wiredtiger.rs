//! WiredTiger 3.2: a B-tree (or, as `wiredtiger-lsm`, its log-structured tree) with its log.
//!
//! Its handles are structures of functions, with the layout of the published header of version 3.2.
//! A library that reports another version is rejected.
//!
//! Contract: a connection may be used from many threads, but a session and its cursor by one at a
//! time, so each call takes a session from a pool. Data returned by a cursor is valid until the
//! cursor is moved or reset.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;

use esker_lab::error::{LabError, LabErrorKind, Result};
use esker_lab::target::{
    Capabilities, Compression, Direction, Durability, Engine, StoreOptions, Target, VisitPair,
};

use crate::library::{Loaded, functions, load_installed, load_path, spec};

type Text = *const c_char;
type Place = *const c_void;

functions! {
    /// The exported functions; all other functions are in the handles.
    Api {
        open: fn(Text, Place, Text, *mut *mut Connection) -> c_int,
        strerror: fn(c_int) -> Text,
        version: fn(*mut c_int, *mut c_int, *mut c_int) -> Text,
    }
}

/// A key or value. Unused parts are placeholders, as in the other structures.
#[repr(C)]
#[allow(dead_code, reason = "the layout is the library's")]
struct Item {
    data: *const c_void,
    size: usize,
    own: [usize; 3],
}

type OnCursor = unsafe extern "C" fn(*mut Cursor) -> c_int;

#[repr(C)]
#[allow(dead_code, reason = "the layout is the library's")]
struct Cursor {
    head: [usize; 4],
    get_key: unsafe extern "C" fn(*mut Cursor, ...) -> c_int,
    get_value: unsafe extern "C" fn(*mut Cursor, ...) -> c_int,
    set_key: unsafe extern "C" fn(*mut Cursor, ...),
    set_value: unsafe extern "C" fn(*mut Cursor, ...),
    compare: [usize; 2],
    next: OnCursor,
    prev: OnCursor,
    reset: OnCursor,
    search: OnCursor,
    search_near: unsafe extern "C" fn(*mut Cursor, *mut c_int) -> c_int,
    insert: OnCursor,
    modify: [usize; 2],
    remove: OnCursor,
}

#[repr(C)]
#[allow(dead_code, reason = "the layout is the library's")]
struct Session {
    head: [usize; 2],
    close: unsafe extern "C" fn(*mut Session, Text) -> c_int,
    reconfigure: [usize; 2],
    open_cursor:
        unsafe extern "C" fn(*mut Session, Text, *mut Cursor, Text, *mut *mut Cursor) -> c_int,
    alter: usize,
    create: unsafe extern "C" fn(*mut Session, Text, Text) -> c_int,
    import: usize,
    compact: unsafe extern "C" fn(*mut Session, Text, Text) -> c_int,
    drop: [usize; 2],
    log_flush: unsafe extern "C" fn(*mut Session, Text) -> c_int,
}

/// An open environment.
#[repr(C)]
#[allow(dead_code, reason = "the layout is the library's")]
pub struct Connection {
    asynchronous: [usize; 2],
    close: unsafe extern "C" fn(*mut Connection, Text) -> c_int,
    debug_info: [usize; 5],
    open_session: unsafe extern "C" fn(*mut Connection, Place, Text, *mut *mut Session) -> c_int,
}

const NAMES: &[&str] = &["libwiredtiger.so.0", "libwiredtiger-3.2.1.so", "libwiredtiger.so"];
const SNAPPY: &str = "/usr/lib/x86_64-linux-gnu/libwiredtiger_snappy.so";
const NOT_FOUND: c_int = -31803;
/// Minimum cache size in bytes, required by the library.
const CACHE_BYTES_MIN: u64 = 4 << 20;
const TABLE: &CStr = c"table:pairs";

/// A WiredTiger library.
pub struct WiredTiger {
    name: String,
    spec: String,
    library: Loaded,
    api: Api,
    lsm: bool,
}

impl WiredTiger {
    /// Loads the system's WiredTiger, or the library at `path`; `lsm` selects its log-structured
    /// tree.
    pub fn load(name: &str, path: Option<&str>, lsm: bool) -> Result<WiredTiger> {
        let library = match path {
            Some(path) => load_path(path)?,
            None => load_installed(NAMES, "libwiredtiger0")?,
        };
        let api = Api::load(&library, "wiredtiger_")?;
        let (mut major, mut minor, mut patch) = (0, 0, 0);
        // SAFETY: the three pointers live through the call.
        unsafe { (api.version)(&raw mut major, &raw mut minor, &raw mut patch) };
        if (major, minor) != (3, 2) {
            let found = format!("{} is version {major}.{minor}.{patch}", library.origin);
            let message = format!("not usable: {found}; the adapter knows 3.2 only");
            return Err(LabError::new(LabErrorKind::NotInstalled, message));
        }
        Ok(WiredTiger { name: name.into(), spec: spec(name, path), library, api, lsm })
    }

    fn snappy(options: &StoreOptions) -> bool {
        options.compression == Compression::Snappy && Path::new(SNAPPY).exists()
    }

    fn connection_text(options: &StoreOptions) -> String {
        let log = options.durability != Durability::None;
        let sync = options.durability == Durability::Sync;
        if options.as_shipped {
            return format!(
                "create,session_max=1100,log=(enabled={log}),\
                 transaction_sync=(enabled={sync},method=fsync)"
            );
        }
        // Log files as large as the other engines'; the default would allocate 100 MB at once.
        let log_file = options.memtable_bytes.max(100 << 10);
        let snappy =
            if Self::snappy(options) { format!(",extensions=[{SNAPPY}]") } else { "".into() };
        format!(
            "create,session_max=1100,cache_size={}B,log=(enabled={log},file_max={log_file}B,prealloc=false),\
             transaction_sync=(enabled={sync},method=fsync){snappy}",
            cache_bytes(options)
        )
    }

    fn table_text(&self, options: &StoreOptions) -> String {
        if options.as_shipped {
            let kind = if self.lsm { "lsm" } else { "file" };
            return format!("key_format=u,value_format=u,type={kind}");
        }
        let page = page_bytes(options);
        let kind = if self.lsm {
            let bits = options.filter_bits_per_key;
            // The cache must have space for several chunks.
            let chunk = options.memtable_bytes.min(cache_bytes(options) / 5).max(512 << 10);
            format!(
                "type=lsm,lsm=(chunk_size={chunk}B,bloom={},bloom_bit_count={},bloom_hash_count=8)",
                bits > 0,
                bits.max(2)
            )
        } else {
            "type=file".into()
        };
        let snappy = if Self::snappy(options) { "snappy" } else { "" };
        format!(
            "key_format=u,value_format=u,{kind},allocation_size=512B,checksum=on,\
             leaf_page_max={page}B,internal_page_max={page}B,block_compressor={snappy}"
        )
    }
}

fn page_bytes(options: &StoreOptions) -> u64 {
    (options.block_bytes.next_multiple_of(512)).clamp(512, 1 << 20)
}

fn cache_bytes(options: &StoreOptions) -> u64 {
    options.cache_and_memtable_bytes().max(CACHE_BYTES_MIN)
}

impl Engine for WiredTiger {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> String {
        let (mut a, mut b, mut c) = (0, 0, 0);
        // SAFETY: the three pointers live through the call.
        unsafe { (self.api.version)(&raw mut a, &raw mut b, &raw mut c) };
        let kind = if self.lsm { "log-structured tree" } else { "B-tree" };
        format!("WiredTiger {a}.{b}.{c} {kind} ({}), in a child process", self.library.origin)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            sync: true,
            compact: true,
            checksums: true,
            concurrent_writers: true,
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
        let durability = match options.durability {
            Durability::Sync => "transaction_sync, fsync",
            Durability::Buffered => {
                "log without sync: a killed process loses what its buffers held"
            }
            Durability::None => "none: no log",
        };
        let compression = if Self::snappy(options) { "snappy" } else { "none" };
        options.given(vec![
            pair("cache_size", format!("{} (cache and memtable)", cache_bytes(options))),
            pair("leaf_page_max", page_bytes(options).to_string()),
            pair("compression", compression.into()),
            pair("durability", durability.into()),
            pair("checksums", "on".into()),
        ])
    }

    fn open(&self, dir: &Path, options: &StoreOptions) -> Result<Box<dyn Target>> {
        let zero = |_| LabError::engine("the path holds a zero byte");
        let home = CString::new(dir.as_os_str().as_bytes()).map_err(zero)?;
        let config = CString::new(Self::connection_text(options)).map_err(zero)?;
        let table = CString::new(self.table_text(options)).map_err(zero)?;
        let mut store = Store {
            api: self.api,
            name: self.name.clone(),
            connection: std::ptr::null_mut(),
            idle: Mutex::new(Vec::new()),
            log: options.durability != Durability::None,
        };
        // SAFETY: the texts live through the call; dropping `store` closes the connection.
        let code = unsafe {
            (self.api.open)(
                home.as_ptr(),
                std::ptr::null(),
                config.as_ptr(),
                &raw mut store.connection,
            )
        };
        store.check(code)?;
        let session = store.session()?;
        // SAFETY: the session was just opened; the texts live through the calls.
        let code = unsafe { ((*session).create)(session, TABLE.as_ptr(), table.as_ptr()) };
        store.check(code)?;
        // SAFETY: the session is open and not used afterwards.
        store.check(unsafe { ((*session).close)(session, std::ptr::null()) })?;
        Ok(Box::new(store))
    }
}

/// A session and its cursor, used by one thread at a time.
struct Hand {
    session: *mut Session,
    cursor: *mut Cursor,
}

// SAFETY: a session may move between threads if used by one at a time.
unsafe impl Send for Hand {}

struct Store {
    api: Api,
    name: String,
    connection: *mut Connection,
    idle: Mutex<Vec<Hand>>,
    log: bool,
}

// SAFETY: a connection may be used from many threads.
unsafe impl Send for Store {}
// SAFETY: as above; each pooled session is taken by one thread at a time.
unsafe impl Sync for Store {}

fn item(bytes: &[u8]) -> Item {
    Item { data: bytes.as_ptr().cast(), size: bytes.len(), own: [0; 3] }
}

impl Item {
    /// Returns the bytes of the item.
    ///
    /// # Safety
    /// The bytes must be valid for as long as the slice is used.
    unsafe fn bytes<'a>(&self) -> &'a [u8] {
        if self.size == 0 {
            return &[];
        }
        // SAFETY: guaranteed by the caller.
        unsafe { std::slice::from_raw_parts(self.data.cast(), self.size) }
    }
}

impl Store {
    fn check(&self, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the text is constant and owned by the library.
        let text = unsafe { CStr::from_ptr((self.api.strerror)(code)) };
        Err(LabError::engine(format!("{}: {}", self.name, text.to_string_lossy())))
    }

    fn session(&self) -> Result<*mut Session> {
        let mut session = std::ptr::null_mut();
        let (none, connection) = (std::ptr::null(), self.connection);
        // SAFETY: the connection is open.
        let code = unsafe {
            ((*connection).open_session)(connection, none, none.cast(), &raw mut session)
        };
        self.check(code)?;
        Ok(session)
    }

    /// Calls `act` with a pooled session, or a new one, and returns it to the pool with its cursor
    /// reset.
    fn with<R>(&self, act: impl FnOnce(&Hand) -> Result<R>) -> Result<R> {
        let pool = || self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let idle = pool().pop();
        let hand = match idle {
            Some(hand) => hand,
            None => {
                let (session, mut cursor) = (self.session()?, std::ptr::null_mut());
                let (none, all) = (std::ptr::null_mut(), std::ptr::null());
                // SAFETY: the session is open; the cursor is closed with its session.
                self.check(unsafe {
                    ((*session).open_cursor)(session, TABLE.as_ptr(), none, all, &raw mut cursor)
                })?;
                Hand { session, cursor }
            }
        };
        let done = act(&hand);
        // SAFETY: the cursor is open; data returned by it is not used afterwards.
        let reset = self.check(unsafe { ((*hand.cursor).reset)(hand.cursor) });
        pool().push(hand);
        let done = done?;
        reset.map(|()| done)
    }

    fn set_key(&self, hand: &Hand, key: &Item) {
        // SAFETY: the key is one item and lives until the cursor has been used.
        unsafe { ((*hand.cursor).set_key)(hand.cursor, std::ptr::from_ref(key)) }
    }

    /// Passes pairs to `visit`, from the cursor's position on, until `visit` returns false.
    fn walk(
        &self,
        hand: &Hand,
        mut code: c_int,
        step: OnCursor,
        visit: VisitPair<'_>,
    ) -> Result<()> {
        let cursor = hand.cursor;
        loop {
            if code == NOT_FOUND {
                return Ok(());
            }
            self.check(code)?;
            let (mut key, mut value) = (item(&[]), item(&[]));
            // SAFETY: the cursor is on a pair; both items are filled with bytes that are valid
            // until it moves, which happens after `visit` has returned.
            unsafe {
                self.check(((*cursor).get_key)(cursor, &raw mut key))?;
                self.check(((*cursor).get_value)(cursor, &raw mut value))?;
                if !visit(key.bytes(), value.bytes()) {
                    return Ok(());
                }
                code = step(cursor);
            }
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if !self.connection.is_null() {
            // SAFETY: the connection is closed once; this also closes its sessions and cursors.
            unsafe { ((*self.connection).close)(self.connection, std::ptr::null()) };
        }
    }
}

impl Target for Store {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        self.with(|hand| {
            let (key, value) = (item(key), item(value));
            self.set_key(hand, &key);
            let cursor = hand.cursor;
            // SAFETY: key and value live through the insert, which copies them.
            self.check(unsafe {
                ((*cursor).set_value)(cursor, &raw const value);
                ((*cursor).insert)(cursor)
            })?;
            if sync && self.log {
                // SAFETY: the session is open.
                let code =
                    unsafe { ((*hand.session).log_flush)(hand.session, c"sync=on".as_ptr()) };
                self.check(code)?;
            }
            Ok(())
        })
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.with(|hand| {
            self.set_key(hand, &item(key));
            // SAFETY: the key lives through the call.
            match unsafe { ((*hand.cursor).remove)(hand.cursor) } {
                NOT_FOUND => Ok(()),
                code => self.check(code),
            }
        })
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.with(|hand| {
            let key = item(key);
            self.set_key(hand, &key);
            let (cursor, mut value) = (hand.cursor, item(&[]));
            // SAFETY: the key lives through the search; the value until the cursor is reset.
            unsafe {
                match ((*cursor).search)(cursor) {
                    NOT_FOUND => return Ok(false),
                    code => self.check(code)?,
                }
                self.check(((*cursor).get_value)(cursor, &raw mut value))?;
                visit(value.bytes());
            }
            Ok(true)
        })
    }

    fn scan(&self, direction: Direction, visit: VisitPair<'_>) -> Result<()> {
        self.with(|hand| {
            // SAFETY: the cursor is open and has no position, so the first step goes to an end.
            let (step, code) = unsafe {
                let step = match direction {
                    Direction::Forward => (*hand.cursor).next,
                    Direction::Reverse => (*hand.cursor).prev,
                };
                (step, step(hand.cursor))
            };
            self.walk(hand, code, step, visit)
        })
    }

    fn scan_from(&self, start: &[u8], visit: VisitPair<'_>) -> Result<()> {
        if start.is_empty() {
            return self.scan(Direction::Forward, visit);
        }
        self.with(|hand| {
            let (key, mut side) = (item(start), 0);
            self.set_key(hand, &key);
            // SAFETY: the key lives through the search.
            let (step, mut code) = unsafe {
                let code = ((*hand.cursor).search_near)(hand.cursor, &raw mut side);
                ((*hand.cursor).next, code)
            };
            if code == 0 && side < 0 {
                // SAFETY: the cursor is before the key.
                code = unsafe { step(hand.cursor) };
            }
            self.walk(hand, code, step, visit)
        })
    }

    fn compact(&self) -> Result<()> {
        self.with(|hand| {
            // SAFETY: the session is open; its cursor was reset.
            let code = unsafe {
                ((*hand.session).compact)(hand.session, TABLE.as_ptr(), std::ptr::null())
            };
            self.check(code)
        })
    }

    fn stats(&self) -> Option<String> {
        None
    }

    fn close(self: Box<Self>) -> Result<()> {
        let mut store = *self;
        let connection = std::mem::replace(&mut store.connection, std::ptr::null_mut());
        // SAFETY: the connection is open and closed once; this also closes its sessions.
        let code = unsafe { ((*connection).close)(connection, std::ptr::null()) };
        store.check(code)
    }
}
