//! SQLite: a B-tree of pages in one file, with a write-ahead log. Each pair is a row of a table
//! that is clustered by its key (`WITHOUT ROWID`).
//!
//! Each call uses a connection of a pool, as an application with several threads would. A single
//! thread always meets the same connection and its cache. Several threads each have a cache of the
//! whole size, and writes prefer one connection, because a commit empties the caches of the others.
//!
//! Invariants: a connection is used by one thread at a time; its statements are reset, and its
//! transaction has ended, before it is returned to the pool; writers take turns, since SQLite
//! has one writer.

use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::{Mutex, MutexGuard};

use esker_lab::error::{LabError, LabErrorKind, Result};
use esker_lab::target::{
    Capabilities, Direction, Durability, Engine, StoreOptions, Target, Transaction,
    TransactionKind, TransactionResult, TransactionWork, VisitMany, VisitPair, Writes, get_each,
};

use crate::library::{Loaded, functions, load_installed, load_path};

type Handle = *mut c_void;

functions! {
    /// SQLite's functions.
    Api {
        open_v2: fn(*const c_char, *mut Handle, c_int, *const c_char) -> c_int,
        close_v2: fn(Handle) -> c_int,
        exec: fn(Handle, *const c_char, *const c_void, *mut c_void, *mut c_void) -> c_int,
        prepare_v3: fn(Handle, *const c_char, c_int, c_uint, *mut Handle, *mut c_void) -> c_int,
        bind_blob64: fn(Handle, c_int, *const u8, u64, *const c_void) -> c_int,
        step: fn(Handle) -> c_int,
        reset: fn(Handle) -> c_int,
        clear_bindings: fn(Handle) -> c_int,
        finalize: fn(Handle) -> c_int,
        column_blob: fn(Handle, c_int) -> *const u8,
        column_bytes: fn(Handle, c_int) -> c_int,
        errmsg: fn(Handle) -> *const c_char,
        libversion: fn() -> *const c_char,
        threadsafe: fn() -> c_int,
    }
}

// Constants of sqlite3.h.
const OPEN_READ_WRITE: c_int = 0x2;
const OPEN_CREATE: c_int = 0x4;
const OPEN_NO_MUTEX: c_int = 0x8000;
const PREPARE_PERSISTENT: c_uint = 0x1;
const OK: c_int = 0;
const ROW: c_int = 100;
const DONE: c_int = 101;

/// `PRAGMA synchronous` of commits that survive power loss.
const SYNCED: &str = "FULL";
/// Name of the database file in the store's directory.
const FILE: &str = "store.sqlite3";
/// Time for which a connection waits for the locks of another, in ms.
const BUSY_TIMEOUT_MS: u64 = 60_000;
/// Page sizes that SQLite accepts, in bytes.
const PAGE_BYTES: std::ops::RangeInclusive<u64> = 512..=65536;

/// The SQLite library.
pub struct Sqlite {
    name: String,
    library: Loaded,
    api: Api,
}

impl Sqlite {
    /// Loads the system's SQLite, or the library at `path`, named `name` in the benchmark.
    pub fn load(name: &str, path: Option<&str>) -> Result<Sqlite> {
        let library = match path {
            Some(path) => load_path(path)?,
            None => load_installed(&["libsqlite3.so.0", "libsqlite3.so"], "libsqlite3-0")?,
        };
        let api = Api::load(&library, "sqlite3_")?;
        // SAFETY: the function may be called at any time.
        if unsafe { (api.threadsafe)() } == 0 {
            let message = format!("{} was built for one thread only", library.origin);
            return Err(LabError::new(LabErrorKind::NotInstalled, message));
        }
        Ok(Sqlite { name: name.into(), api, library })
    }
}

impl Engine for Sqlite {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> String {
        // SAFETY: the result is a constant C string.
        let version = unsafe { CStr::from_ptr((self.api.libversion)()) };
        format!("SQLite {} ({})", version.to_string_lossy(), self.library.origin)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            sync: true,
            compact: true,
            checksums: false,
            concurrent_writers: false,
            persistent: true,
            transactions: true,
            merge: false,
            bulk_load: false,
        }
    }

    fn given(&self, options: &StoreOptions) -> Vec<(String, String)> {
        let pair = |name: &str, value: String| (name.to_string(), value);
        options.given(vec![
            pair("durability", format!("a write-ahead log, synchronous={}", synchronous(options))),
            pair("page_size", page_bytes(options).to_string()),
            pair("cache_size", format!("{} KiB for each connection", cache_kib(options))),
            pair("wal_autocheckpoint", format!("{} pages", checkpoint_pages(options))),
            pair("compression", "none (not offered)".into()),
            pair("filter", "none (it needs none)".into()),
            pair("checksums", "of the log only".into()),
            pair("write", "one transaction each, by one prepared statement".into()),
            pair("table", "clustered by the key; a long value has pages of its own".into()),
        ])
    }

    fn open(&self, dir: &Path, options: &StoreOptions) -> Result<Box<dyn Target>> {
        let path = CString::new(dir.join(FILE).as_os_str().as_bytes())
            .map_err(|_| LabError::engine("the path holds a zero byte"))?;
        let factory = Factory {
            api: self.api,
            engine: self.name.clone(),
            path,
            settings: settings(options),
            unsynced: synchronous(options),
        };
        let mut first = factory.connect()?;
        first.execute(
            "CREATE TABLE IF NOT EXISTS pairs (key BLOB PRIMARY KEY, value BLOB NOT NULL) \
             WITHOUT ROWID",
        )?;
        first.prepare()?;
        Ok(Box::new(SqliteStore {
            factory,
            idle: Mutex::new(VecDeque::from([first])),
            writing: Mutex::new(()),
        }))
    }
}

/// Returns the value of `PRAGMA synchronous` for writes that request no sync themselves. With
/// `NORMAL`, a power loss takes the last commits but does not damage the database. With `OFF` it
/// may, also where later commits were synced. The log stays, since a rollback needs one.
fn synchronous(options: &StoreOptions) -> &'static str {
    match options.durability {
        Durability::Sync => SYNCED,
        Durability::Buffered => "NORMAL",
        Durability::None => "OFF",
    }
}

fn page_bytes(options: &StoreOptions) -> u64 {
    options.block_bytes.clamp(*PAGE_BYTES.start(), *PAGE_BYTES.end()).next_power_of_two()
}

fn cache_kib(options: &StoreOptions) -> u64 {
    (options.cache_and_memtable_bytes() / 1024).max(1)
}

/// Returns the size of the log, in pages, from which a commit copies it into the database: the
/// memtable's size.
fn checkpoint_pages(options: &StoreOptions) -> u64 {
    (options.memtable_bytes / page_bytes(options)).max(1)
}

/// Returns the statements that prepare a new connection.
fn settings(options: &StoreOptions) -> String {
    let mut settings = format!("PRAGMA busy_timeout={BUSY_TIMEOUT_MS}; ");
    if !options.as_shipped {
        // The page size must be set before the log is, and has no effect on an existing database.
        settings += &format!(
            "PRAGMA page_size={}; PRAGMA cache_size=-{}; PRAGMA wal_autocheckpoint={}; ",
            page_bytes(options),
            cache_kib(options),
            checkpoint_pages(options)
        );
    }
    settings + &format!("PRAGMA synchronous={}", synchronous(options))
}

/// Opens connections to one database.
struct Factory {
    api: Api,
    engine: String,
    path: CString,
    settings: String,
    /// `PRAGMA synchronous` of writes that request no sync themselves.
    unsynced: &'static str,
}

impl Factory {
    /// Opens a connection without statements.
    fn connect(&self) -> Result<Connection> {
        let mut connection = Connection {
            api: self.api,
            engine: self.engine.clone(),
            handle: null_mut(),
            statements: [null_mut(); Sql::ALL.len()],
            synchronous: self.unsynced,
        };
        let flags = OPEN_READ_WRITE | OPEN_CREATE | OPEN_NO_MUTEX;
        // SAFETY: the path is a C string. A failed open returns a handle with the error, which
        // the connection closes when it is dropped.
        let code = unsafe {
            (self.api.open_v2)(self.path.as_ptr(), &raw mut connection.handle, flags, null())
        };
        connection.check(code)?;
        connection.execute(&self.settings)?;
        let mode = connection.text(c"PRAGMA journal_mode=WAL")?;
        match mode.as_str() {
            "wal" => Ok(connection),
            _ => Err(LabError::engine(format!(
                "{}: no write-ahead log is possible here: the journal mode is {mode}",
                self.engine
            ))),
        }
    }
}

/// The prepared statements of a connection.
#[derive(Clone, Copy)]
enum Sql {
    Get,
    Put,
    Delete,
    Forward,
    Reverse,
    From,
    Begin,
    BeginWrite,
    Commit,
    Rollback,
}

impl Sql {
    const ALL: [&CStr; 10] = [
        c"SELECT value FROM pairs WHERE key = ?1",
        c"INSERT INTO pairs VALUES (?1, ?2) \
          ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        c"DELETE FROM pairs WHERE key = ?1",
        c"SELECT key, value FROM pairs ORDER BY key",
        c"SELECT key, value FROM pairs ORDER BY key DESC",
        c"SELECT key, value FROM pairs WHERE key >= ?1 ORDER BY key",
        c"BEGIN",
        c"BEGIN IMMEDIATE",
        c"COMMIT",
        c"ROLLBACK",
    ];
}

/// An open connection with its statements.
struct Connection {
    api: Api,
    engine: String,
    handle: Handle,
    statements: [Handle; Sql::ALL.len()],
    /// Its current `PRAGMA synchronous`.
    synchronous: &'static str,
}

// SAFETY: a connection without its own mutex may move between threads; it is used by one at a time.
unsafe impl Send for Connection {}

impl Drop for Connection {
    fn drop(&mut self) {
        for statement in self.statements {
            // SAFETY: a statement of this connection, or null, not used afterwards.
            unsafe { (self.api.finalize)(statement) };
        }
        // SAFETY: all statements are finalized; null is allowed.
        unsafe { (self.api.close_v2)(self.handle) };
    }
}

impl Connection {
    fn check(&self, code: c_int) -> Result<()> {
        if matches!(code, OK | ROW | DONE) {
            return Ok(());
        }
        // SAFETY: the connection's last error, as a C string that is copied at once.
        let text = unsafe { CStr::from_ptr((self.api.errmsg)(self.handle)) };
        Err(LabError::engine(format!("{}: {} ({code})", self.engine, text.to_string_lossy())))
    }

    /// Runs statements that return nothing of interest.
    fn execute(&self, sql: &str) -> Result<()> {
        let sql =
            CString::new(sql).map_err(|_| LabError::engine("a statement with a zero byte"))?;
        // SAFETY: the connection is open, and the text lives through the call.
        self.check(unsafe {
            (self.api.exec)(self.handle, sql.as_ptr(), null(), null_mut(), null_mut())
        })
    }

    /// Returns a statement, which the caller finalizes before it drops the connection.
    fn statement(&self, sql: &CStr) -> Result<Handle> {
        let mut statement = null_mut();
        let out = &raw mut statement;
        // SAFETY: the connection is open, and the text, which ends with a zero byte, lives through
        // the call.
        let code = unsafe {
            let (text, flags) = (sql.as_ptr(), PREPARE_PERSISTENT);
            (self.api.prepare_v3)(self.handle, text, -1, flags, out, null_mut())
        };
        self.check(code).map(|()| statement)
    }

    /// Prepares the statements; the table must exist.
    fn prepare(&mut self) -> Result<()> {
        for (index, sql) in Sql::ALL.iter().enumerate() {
            self.statements[index] = self.statement(sql)?;
        }
        Ok(())
    }

    /// Returns the first column of the first row of a query; empty if there is none.
    fn text(&self, sql: &CStr) -> Result<String> {
        let statement = self.statement(sql)?;
        let mut text = String::new();
        // SAFETY: the statement is prepared; the column is copied before the next call.
        let code = unsafe {
            let code = (self.api.step)(statement);
            if code == ROW {
                text = String::from_utf8_lossy(self.column(statement, 0)).into_owned();
            }
            code
        };
        let checked = self.check(code);
        // SAFETY: the statement is not used afterwards.
        unsafe { (self.api.finalize)(statement) };
        checked.map(|()| text)
    }

    /// Runs a statement with `arguments`, and passes the connection to `row` for each row until
    /// it returns false. Returns whether there was a row.
    fn run(
        &self,
        sql: Sql,
        arguments: &[&[u8]],
        row: &mut dyn FnMut(&Connection, Handle) -> bool,
    ) -> Result<bool> {
        let statement = self.statements[sql as usize];
        let mut any = false;
        let mut code = OK;
        for (index, argument) in arguments.iter().enumerate() {
            // SAFETY: the statement is reset. The bytes live until the bindings are cleared below,
            // so they are not copied (a null destructor). A slice's pointer is never null, which
            // would mean NULL.
            code = unsafe {
                (self.api.bind_blob64)(
                    statement,
                    index as c_int + 1,
                    argument.as_ptr(),
                    argument.len() as u64,
                    null(),
                )
            };
            if code != OK {
                break;
            }
        }
        while code == OK || code == ROW {
            // SAFETY: the statement is prepared and its arguments are bound.
            code = unsafe { (self.api.step)(statement) };
            if code == ROW {
                any = true;
                if !row(self, statement) {
                    break;
                }
            }
        }
        let result = self.check(code);
        // SAFETY: the statement is prepared; the code of its last step is `code`. Afterwards it has
        // no pointer to the arguments.
        unsafe {
            (self.api.reset)(statement);
            if !arguments.is_empty() {
                (self.api.clear_bindings)(statement);
            }
        }
        result.map(|()| any)
    }

    fn execute_prepared(&self, sql: Sql, arguments: &[&[u8]]) -> Result<()> {
        self.run(sql, arguments, &mut |_, _| true).map(|_| ())
    }

    /// Returns a column of the current row.
    ///
    /// # Safety
    /// The statement is at a row, and stays there while the result is used.
    unsafe fn column<'a>(&self, statement: Handle, index: c_int) -> &'a [u8] {
        // SAFETY: guaranteed by the caller; the blob is read before its size, as sqlite3.h asks.
        unsafe {
            let data = (self.api.column_blob)(statement, index);
            let size = (self.api.column_bytes)(statement, index);
            if data.is_null() || size <= 0 {
                return &[];
            }
            std::slice::from_raw_parts(data, size as usize)
        }
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.run(Sql::Get, &[key], &mut |connection, statement| {
            // SAFETY: the statement stays at its row while `visit` runs.
            visit(unsafe { connection.column(statement, 0) });
            false
        })
    }

    fn walk(&self, sql: Sql, arguments: &[&[u8]], visit: VisitPair<'_>) -> Result<bool> {
        self.run(sql, arguments, &mut |connection, statement| {
            // SAFETY: the statement stays at its row while `visit` runs.
            unsafe { visit(connection.column(statement, 0), connection.column(statement, 1)) }
        })
    }

    /// Runs `work` between `begin` and a commit; rolls back after an error.
    fn transact<T, E: From<LabError>>(
        &self,
        begin: Sql,
        work: impl FnOnce(&Connection) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        self.execute_prepared(begin, &[])?;
        let done = work(self).and_then(|done| {
            self.execute_prepared(Sql::Commit, &[])?;
            Ok(done)
        });
        if done.is_err() {
            // The first error is the one to report.
            let _ = self.execute_prepared(Sql::Rollback, &[]);
        }
        done
    }
}

struct SqliteStore {
    factory: Factory,
    /// Connections that are not in use. Writes take and return the first, reads the last.
    idle: Mutex<VecDeque<Connection>>,
    /// Held by the writer.
    writing: Mutex<()>,
}

impl SqliteStore {
    fn idle(&self) -> MutexGuard<'_, VecDeque<Connection>> {
        self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns the connection, or a new one if there is none.
    fn connected(&self, idle: Option<Connection>) -> Result<Connection> {
        if let Some(connection) = idle {
            return Ok(connection);
        }
        let mut connection = self.factory.connect()?;
        connection.prepare()?;
        Ok(connection)
    }

    fn read<T, E: From<LabError>>(
        &self,
        look: impl FnOnce(&Connection) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let resting = self.idle().pop_back();
        let connection = self.connected(resting)?;
        let result = look(&connection);
        self.idle().push_back(connection);
        result
    }

    /// Calls `change` with a connection whose commits survive power loss if `sync`.
    fn write<T, E: From<LabError>>(
        &self,
        sync: bool,
        change: impl FnOnce(&Connection) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let _turn = self.writing.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let wanted = if sync { SYNCED } else { self.factory.unsynced };
        let resting = self.idle().pop_front();
        let mut connection = self.connected(resting)?;
        if connection.synchronous != wanted {
            connection.execute(&format!("PRAGMA synchronous={wanted}"))?;
            connection.synchronous = wanted;
        }
        let result = change(&connection);
        self.idle().push_front(connection);
        result
    }
}

/// An open transaction.
struct Open<'a>(&'a Connection);

impl Transaction for Open<'_> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> TransactionResult<bool> {
        Ok(self.0.get(key, visit)?)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> TransactionResult<()> {
        Ok(self.0.execute_prepared(Sql::Put, &[key, value])?)
    }
}

impl Target for SqliteStore {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        self.write(sync, |connection| connection.execute_prepared(Sql::Put, &[key, value]))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.write(false, |connection| connection.execute_prepared(Sql::Delete, &[key]))
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.read(|connection| connection.get(key, visit))
    }

    fn get_many(&self, keys: &[&[u8]], visit: VisitMany<'_>) -> Result<()> {
        self.read(|connection| {
            connection.transact(Sql::Begin, |connection| {
                get_each(keys, visit, |key, visit| connection.get(key, visit))
            })
        })
    }

    fn scan(&self, direction: Direction, visit: VisitPair<'_>) -> Result<()> {
        let sql = match direction {
            Direction::Forward => Sql::Forward,
            Direction::Reverse => Sql::Reverse,
        };
        self.read(|connection| connection.walk(sql, &[], visit).map(|_| ()))
    }

    fn scan_from(&self, start: &[u8], visit: VisitPair<'_>) -> Result<()> {
        self.read(|connection| connection.walk(Sql::From, &[start], visit).map(|_| ()))
    }

    fn compact(&self) -> Result<()> {
        self.write(false, |connection| {
            connection.execute("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)")
        })
    }

    fn write_many(&self, writes: Writes<'_, '_>, sync: bool) -> Result<bool> {
        self.write(sync, |connection| {
            connection.transact(Sql::BeginWrite, |connection| {
                for (key, value) in writes {
                    match value {
                        Some(value) => connection.execute_prepared(Sql::Put, &[key, value])?,
                        None => connection.execute_prepared(Sql::Delete, &[key])?,
                    }
                }
                Ok(true)
            })
        })
    }

    fn transact(&self, kind: TransactionKind, work: TransactionWork<'_>) -> TransactionResult<()> {
        match kind {
            TransactionKind::ReadOnly => self.read(|connection| {
                connection.transact(Sql::Begin, |connection| work(&mut Open(connection)))
            }),
            TransactionKind::ReadWrite { sync } => self.write(sync, |connection| {
                connection.transact(Sql::BeginWrite, |connection| work(&mut Open(connection)))
            }),
        }
    }

    fn stats(&self) -> Option<String> {
        None
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
