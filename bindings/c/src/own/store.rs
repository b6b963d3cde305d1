//! `esker_open` and what else concerns a store as a whole.

use std::ffi::c_char;
use std::path::Path;
use std::sync::Arc;

use esker::fs::Fs;
use esker::fs::os::OsFs;
use esker::{Db, Options};
use esker_bindings::calling::{self, Functions};
use esker_bindings::handle::{Handle, Opened};
use esker_bindings::properties;

use super::options::esker_options_t;
use crate::failure::{Failure, Outcome, attempt, there};
use crate::ffi;

/// An open store. Every function may be called on it from many threads at once, except
/// `esker_db_destroy`.
pub struct esker_db_t {
    handle: Handle,
}

impl esker_db_t {
    /// A handle to `db`.
    pub fn new(db: Db) -> Box<esker_db_t> {
        Box::new(esker_db_t { handle: Handle::new(db) })
    }

    /// A handle to `db`, refused to these functions of the store's.
    fn of(db: Db, functions: Functions) -> Box<esker_db_t> {
        Box::new(esker_db_t { handle: Handle::of(db, functions) })
    }

    /// The store, if it was not closed.
    #[inline]
    pub fn open(handle: Option<&esker_db_t>) -> Outcome<Opened> {
        Ok(there(handle, "store's handle")?.handle.open()?)
    }
}

fn fs_of(options: Option<&esker_options_t>) -> Arc<dyn Fs> {
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
        // SAFETY: the header's contract for strings.
        let path = unsafe { ffi::path(path) }?;
        let chosen = options.map(|o| o.options.clone()).unwrap_or_default();
        let functions = calling::functions_of(&chosen);
        *place = Box::into_raw(esker_db_t::of(open(fs_of(options), path, chosen)?, functions));
        Ok(())
    });
    // SAFETY: the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Opens the store in the directory `path`, making it if it is not there (unless the option
/// `create_if_missing` is off). `options` may be NULL for every default.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_open(
    path: *const c_char,
    options: Option<&esker_options_t>,
    db: Option<&mut *mut esker_db_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    open_by(path, options, db, message, |fs, path, options| Db::open_on(fs, path, options))
}

/// Opens a store for reading, as it is at this moment; it may be open elsewhere.
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

/// Closes the store and waits for calls that run on it. Later calls fail with `ESKER_CLOSED`;
/// iterators and snapshots made before stay readable until the store is opened again, removed or
/// repaired: then they may fail, but show nothing else. Closing twice is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_close(
    db: Option<&esker_db_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| Ok(there(db, "store's handle")?.handle.close()?));
    // SAFETY: the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Frees the handle, closing the store if that was not done. No other call may be running on it.
#[unsafe(no_mangle)]
pub extern "C" fn esker_db_destroy(db: Option<Box<esker_db_t>>) {
    let _ = attempt(|| {
        drop(db);
        Ok(())
    });
}

/// Removes a store that is not open: its own files, then the directory if it is empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_destroy_store(
    path: *const c_char,
    options: Option<&esker_options_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the header's contract for strings and messages.
    unsafe {
        let outcome = attempt(|| Ok(Db::destroy_on(fs_of(options), ffi::path(path)?)?));
        ffi::code(outcome, message)
    }
}

/// Rebuilds a store that is not open from what its files still prove. What was lost is told in
/// `*lost` (a line each, to be freed with `esker_free`; NULL when nothing was); `lost` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_repair(
    path: *const c_char,
    options: Option<&esker_options_t>,
    lost: Option<&mut *mut c_char>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        // SAFETY: the header's contract for strings.
        let path = unsafe { ffi::path(path) }?;
        let chosen = options.map(|o| o.options.clone()).unwrap_or_default();
        let report = Db::repair_on(fs_of(options), path, chosen)?;
        if let Some(lost) = lost {
            let text = report.lost.join("\n");
            *lost = if text.is_empty() { std::ptr::null_mut() } else { ffi::give_text(&text) };
        }
        Ok(())
    });
    // SAFETY: the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Runs `act` on the open store.
unsafe fn on(
    db: Option<&esker_db_t>,
    message: Option<&mut *mut c_char>,
    act: impl FnOnce(&Db) -> Outcome<()>,
) -> i32 {
    let outcome = attempt(|| act(&*esker_db_t::open(db)?));
    // SAFETY: the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Writes everything in memory to tables and waits for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_flush(
    db: Option<&esker_db_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the header's contract for messages.
    unsafe { on(db, message, |db| Ok(db.flush()?)) }
}

/// Makes everything written so far survive a power loss.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_sync(
    db: Option<&esker_db_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the header's contract for messages.
    unsafe { on(db, message, |db| Ok(db.sync()?)) }
}

/// Waits until no flush or compaction is due.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_wait_idle(
    db: Option<&esker_db_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the header's contract for messages.
    unsafe { on(db, message, |db| Ok(db.wait_idle()?)) }
}

/// Merges the keys between `start` and `end` into the deepest level and waits for it. A NULL
/// `start` is before every key, a NULL `end` behind every key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_compact_range(
    db: Option<&esker_db_t>,
    start: *const u8,
    start_len: usize,
    end: *const u8,
    end_len: usize,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the header's contract for buffers and messages.
    unsafe {
        let from = optional(start, start_len);
        let to = optional(end, end_len);
        on(db, message, |db| Ok(db.compact_range(from?, to?)?))
    }
}

/// Roughly how many bytes of tables hold the keys from `start` up to but without `end`.
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
    // SAFETY: the header's contract for buffers and messages.
    unsafe {
        on(db, message, |db| {
            let from = ffi::bytes(start, start_len, "start")?;
            let to = ffi::bytes(end, end_len, "end")?;
            *there(size_bytes, "place for the size")? = db.approximate_size(from, to)?;
            Ok(())
        })
    }
}

/// Makes a second store of the same content in `path`, which must not exist, by hard links.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_checkpoint(
    db: Option<&esker_db_t>,
    path: *const c_char,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the header's contract for strings and messages.
    unsafe { on(db, message, |db| Ok(db.checkpoint(ffi::path(path)?)?)) }
}

/// Changes an option that can change while the store is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_set_option(
    db: Option<&esker_db_t>,
    name: *const c_char,
    value: *const c_char,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the header's contract for strings and messages.
    unsafe {
        on(db, message, |db| {
            Ok(db.set_option(ffi::utf8(name, "name")?, ffi::utf8(value, "value")?)?)
        })
    }
}

/// A property as text, to be freed with `esker_free`; NULL when there is none of that name or the
/// store was closed. Properties are `esker.stats`, `esker.option.NAME`, and LevelDB's
/// `leveldb.stats`, `leveldb.sstables`, `leveldb.num-files-at-levelN` and
/// `leveldb.approximate-memory-usage`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_property(
    db: Option<&esker_db_t>,
    name: *const c_char,
) -> *mut c_char {
    let found = attempt(|| {
        // SAFETY: the header's contract for strings.
        let name = unsafe { ffi::utf8(name, "name") }?;
        Ok(properties::property(&*esker_db_t::open(db)?, name))
    });
    found.ok().flatten().map_or(std::ptr::null_mut(), |text| ffi::give_text(&text))
}

/// Reads every byte of the store and checks it; `ESKER_CORRUPTION` with a line for each problem.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_verify(
    db: Option<&esker_db_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let check = |db: &Db| {
        let report = db.verify(&mut |_, _| {})?;
        if report.is_whole() {
            return Ok(());
        }
        let lines: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
        Err(Failure { code: crate::failure::ESKER_CORRUPTION, message: lines.join("\n") })
    };
    // SAFETY: the header's contract for messages.
    unsafe { on(db, message, check) }
}

/// A key that is not there when the pointer is null.
///
/// # Safety
/// As for [`ffi::bytes`].
pub unsafe fn optional<'a, T>(start: *const T, len: usize) -> Outcome<Option<&'a [u8]>> {
    if start.is_null() && len == 0 {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    unsafe { ffi::bytes(start, len, "key") }.map(Some)
}
