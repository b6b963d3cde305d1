//! `esker_open` and other functions on a whole store.

use std::ffi::c_char;
use std::path::Path;
use std::sync::Arc;

use esker::fs::Fs;
use esker::fs::OsFs;
use esker::{Db, Options};
use esker_bindings::calling::{self, Functions};
use esker_bindings::encryption;
use esker_bindings::handle::{Handle, Opened};
use esker_bindings::orders::Orders;
use esker_bindings::properties;

use super::options::esker_options_t;
use crate::failure::{Failure, Outcome, attempt, there};
use crate::ffi;

/// An open store. Many threads may call functions on it concurrently, except `esker_db_destroy`.
pub struct esker_db_t {
    /// Shared with the handles of keyspaces.
    pub(super) handle: Arc<Handle>,
    /// The key orders that keyspaces may name.
    pub(super) orders: Orders,
}

impl esker_db_t {
    /// Creates a handle to `db`.
    pub fn new(db: Db) -> Box<esker_db_t> {
        esker_db_t::of(db, Functions::default(), Orders::default())
    }

    /// Creates a handle to `db`. It refuses calls from within the store's `functions`.
    pub(super) fn of(db: Db, functions: Functions, orders: Orders) -> Box<esker_db_t> {
        Box::new(esker_db_t { handle: Arc::new(Handle::of(db, functions)), orders })
    }

    /// Returns the store, or a failure if the handle is null or closed.
    #[inline]
    pub fn open(handle: Option<&esker_db_t>) -> Outcome<Opened> {
        Ok(there(handle, "store's handle")?.handle.open()?)
    }
}

/// Returns the file system of stores: an encrypting one if the options have a key.
pub(super) fn fs_of(options: Option<&esker_options_t>) -> Arc<dyn Fs> {
    encryption::file_system(fs_below(options), options.and_then(|o| o.key.as_ref()))
}

/// Returns the file system without encryption.
pub(super) fn fs_below(options: Option<&esker_options_t>) -> Arc<dyn Fs> {
    options.and_then(|o| o.fs.clone()).unwrap_or_else(|| OsFs::shared())
}

fn open_by(
    path: *const c_char,
    options: Option<&esker_options_t>,
    db: Option<&mut *mut esker_db_t>,
    message: Option<&mut *mut c_char>,
    open: impl FnOnce(Arc<dyn Fs>, &Path, Options) -> esker::Result<Db>,
) -> i32 {
    let outcome = attempt(|| {
        let place = there(db, "place for the store's handle")?;
        *place = std::ptr::null_mut();
        // SAFETY: the caller meets the header's contract for strings.
        let path = unsafe { ffi::path(path) }?;
        let chosen = options.map(|o| o.options.clone()).unwrap_or_default();
        let key = options.and_then(|o| o.key.as_ref());
        let (functions, orders) = (calling::functions_of(&chosen).with(key), Orders::of(&chosen));
        let opened = open(fs_of(options), path, chosen)?;
        *place = Box::into_raw(esker_db_t::of(opened, functions, orders));
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Opens the store in the directory `path`. Creates it if it is missing, unless the option
/// `create_if_missing` is off. NULL `options` select the defaults.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_open(
    path: *const c_char,
    options: Option<&esker_options_t>,
    db: Option<&mut *mut esker_db_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    open_by(path, options, db, message, |fs, path, options| Db::open_on(fs, path, options))
}

/// Opens the current state of a store, read-only. The store may be open elsewhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_open_read_only(
    path: *const c_char,
    options: Option<&esker_options_t>,
    db: Option<&mut *mut esker_db_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    open_by(path, options, db, message, |fs, path, options| {
        Db::open_read_only_on(fs, path, options)
    })
}

/// Closes the store and waits for running calls. Later calls, also on its keyspaces and
/// transactions, fail with `ESKER_CLOSED`, as does a call that waits for a lock of another
/// transaction. Transactions that have not ended are never committed. Reads of a snapshot fail with
/// `ESKER_CLOSED` too. Existing iterators stay readable until the store is opened again, removed or
/// repaired. After that they may fail, but they never return wrong data. Closing twice is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_close(
    db: Option<&esker_db_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| Ok(there(db, "store's handle")?.handle.close()?));
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Frees the handle, and closes the store if it is open. No other call may be running on it.
#[unsafe(no_mangle)]
pub extern "C" fn esker_db_destroy(db: Option<Box<esker_db_t>>) {
    let _ = attempt(|| {
        // Handles of keyspaces do not keep the store open.
        Ok(db.map_or(Ok(()), |db| db.handle.close())?)
    });
}

/// Removes a store that is not open: its files, then the directory if it is empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_destroy_store(
    path: *const c_char,
    options: Option<&esker_options_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe {
        let outcome = attempt(|| Ok(Db::destroy_on(fs_of(options), ffi::path(path)?)?));
        ffi::code(outcome, message)
    }
}

/// Rebuilds a store that is not open from the intact parts of its files. Sets `*lost` to a
/// description of the losses, one per line, which must be freed with `esker_free`, or to NULL if
/// nothing was lost or the call failed. `lost` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_repair(
    path: *const c_char,
    options: Option<&esker_options_t>,
    lost: Option<&mut *mut c_char>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let mut lost = lost;
        if let Some(lost) = lost.as_deref_mut() {
            *lost = std::ptr::null_mut();
        }
        // SAFETY: the caller meets the header's contract for strings.
        let path = unsafe { ffi::path(path) }?;
        let chosen = options.map(|o| o.options.clone()).unwrap_or_default();
        let report = Db::repair_on(fs_of(options), path, chosen)?;
        if let Some(lost) = lost {
            let text = report.lost.join("\n");
            if !text.is_empty() {
                *lost = ffi::give_text(&text);
            }
        }
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Runs `act` on the open store.
///
/// # Safety
/// As for [`ffi::code`].
pub(super) unsafe fn on(
    db: Option<&esker_db_t>,
    message: Option<&mut *mut c_char>,
    act: impl FnOnce(&Db) -> Outcome<()>,
) -> i32 {
    let outcome = attempt(|| act(&*esker_db_t::open(db)?));
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Writes all memtables to tables and waits until that is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_flush(
    db: Option<&esker_db_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { on(db, message, |db| Ok(db.flush()?)) }
}

/// Makes all earlier logged writes survive a power loss. Writes without a log
/// (`ESKER_DURABILITY_NONE`) need `esker_flush`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_sync(
    db: Option<&esker_db_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { on(db, message, |db| Ok(db.sync()?)) }
}

/// Waits until no flush or compaction is due.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_wait_idle(
    db: Option<&esker_db_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { on(db, message, |db| Ok(db.wait_idle()?)) }
}

/// Compacts the keys between `start` and `end` into the deepest level and waits until that is done.
/// A NULL `start` or `end` means no bound.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_compact_range(
    db: Option<&esker_db_t>,
    start: *const u8,
    start_len: usize,
    end: *const u8,
    end_len: usize,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        let from = optional(start, start_len);
        let to = optional(end, end_len);
        on(db, message, |db| Ok(db.compact_range(from?, to?)?))
    }
}

/// Sets `*size_bytes` to the approximate size of the keys from `start` (inclusive) to `end`
/// (exclusive) in the tables, in bytes. Data that is only in memory is not counted. It is 0 if `end`
/// is not after `start`. `esker_keyspace_approximate_size` does so for another keyspace than `default`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_approximate_size(
    db: Option<&esker_db_t>,
    start: *const u8,
    start_len: usize,
    end: *const u8,
    end_len: usize,
    size_bytes: Option<&mut u64>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        on(db, message, |db| {
            let from = ffi::bytes(start, start_len, "start")?;
            let to = ffi::bytes(end, end_len, "end")?;
            *there(size_bytes, "place for the size")? = db.approximate_size(from, to)?;
            Ok(())
        })
    }
}

/// Creates a second store with the same content in `path`, by hard links. `path` must not exist.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_checkpoint(
    db: Option<&esker_db_t>,
    path: *const c_char,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe { on(db, message, |db| Ok(db.checkpoint(ffi::path(path)?)?)) }
}

/// Raises the format version of the store to `to`: 2 is the newest one. A store keeps the version with
/// which it was created (option `format_version`), and earlier releases can open it, until this is
/// called. Afterwards they refuse it. The version cannot be lowered. `esker_openmetrics` has the
/// present one. A crash leaves the old or the new version. Fails with `ESKER_INVALID_ARGUMENT` if `to`
/// is unknown or older than the version of the store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_upgrade_format(
    db: Option<&esker_db_t>,
    to: u32,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { on(db, message, |db| Ok(db.upgrade_format(to)?)) }
}

/// Changes an option of the open store. Fails if the option is fixed at open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_set_option(
    db: Option<&esker_db_t>,
    name: *const c_char,
    value: *const c_char,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe {
        on(db, message, |db| {
            Ok(db.set_options(&[(ffi::utf8(name, "name")?, ffi::utf8(value, "value")?)])?)
        })
    }
}

/// Returns a property as text, which must be freed with `esker_free`; NULL for an unknown name or a
/// closed store. The properties are `esker.stats`, `esker.option.NAME`, and LevelDB's
/// `leveldb.stats`, `leveldb.sstables`, `leveldb.num-files-at-levelN` and
/// `leveldb.approximate-memory-usage`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_property(
    db: Option<&esker_db_t>,
    name: *const c_char,
) -> *mut c_char {
    let found = attempt(|| {
        // SAFETY: the caller meets the header's contract for strings.
        let name = unsafe { ffi::utf8(name, "name") }?;
        Ok(properties::property(&*esker_db_t::open(db)?, name))
    });
    found.ok().flatten().map_or(std::ptr::null_mut(), |text| ffi::give_text(&text))
}

/// Sets `*text` to the metrics of the store in the OpenMetrics text format 1.0, with the content type
/// `application/openmetrics-text; version=1.0.0; charset=utf-8`. `docs/metrics.md` lists them. The
/// text must be freed with `esker_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_openmetrics(
    db: Option<&esker_db_t>,
    text: Option<&mut *mut c_char>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let place = there(text, "place for the text")?;
        *place = std::ptr::null_mut();
        *place = ffi::give_text(&esker_db_t::open(db)?.metrics().to_openmetrics());
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Reads and checks every byte of the store. Fails with `ESKER_CORRUPTION` and a message with one
/// line per problem.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_verify(
    db: Option<&esker_db_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { on(db, message, verify) }
}

/// Reads and checks every byte of a store. The failure has a line for each problem.
pub fn verify(db: &Db) -> Outcome<()> {
    let report = db.verify(&mut |_, _| {})?;
    if report.is_whole() {
        return Ok(());
    }
    let lines: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    Err(Failure { code: crate::failure::ESKER_CORRUPTION, message: lines.join("\n") })
}

/// Returns the key, or `None` if the pointer is null and the length is 0.
///
/// # Safety
/// As for [`ffi::bytes`].
pub unsafe fn optional<'a, T>(start: *const T, len: usize) -> Outcome<Option<&'a [u8]>> {
    if start.is_null() && len == 0 {
        return Ok(None);
    }
    // SAFETY: guaranteed by the caller.
    unsafe { ffi::bytes(start, len, "key") }.map(Some)
}
