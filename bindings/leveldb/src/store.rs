//! `leveldb_open` and the functions on stores, snapshots and files.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use esker::fs::Fs;
use esker::fs::OsFs;
use esker::{Db, Snapshot};
use esker_bindings::settings::Settings;
use esker_bindings::{properties, removal};

use crate::batch::leveldb_writebatch_t;
use crate::iter::leveldb_iterator_t;
use crate::kept;
use crate::options::{leveldb_options_t, leveldb_readoptions_t, leveldb_writeoptions_t};
use crate::trace::{Op, Recorder, Scan};
use esker_c::failure::{Outcome, attempt, there};
use esker_c::ffi;
use esker_c::own::iter::Walk;
use esker_c::own::store::optional;

/// An open store.
pub struct leveldb_t {
    db: Db,
    trace: Option<Arc<Recorder>>,
}

impl leveldb_t {
    /// Records a call that succeeded, if the calls are recorded.
    fn record(&self, key: &[u8], op: Op) {
        if let Some(trace) = &self.trace {
            trace.add(key, op);
        }
    }
}

/// A snapshot of the store.
pub struct leveldb_snapshot_t {
    pub(crate) snapshot: Snapshot,
}

fn settings(options: Option<&leveldb_options_t>) -> Settings {
    options.map(|options| options.settings.clone()).unwrap_or_default()
}

fn fs_of(settings: &Settings) -> Arc<dyn Fs> {
    settings.fs.clone().unwrap_or_else(|| OsFs::shared())
}

/// Opens the store at `path` with `settings`.
pub(crate) fn open(settings: &Settings, path: &std::path::Path) -> Outcome<Db> {
    if let Some(memory) = &settings.fs {
        make_parents(&**memory, path);
    }
    Ok(Db::open_on(fs_of(settings), path, settings.to_options()?)?)
}

/// Creates the parent directories of `path`, because every directory exists in LevelDB's in-memory
/// environment. The open reports a failure to create one.
fn make_parents(memory: &dyn Fs, path: &std::path::Path) {
    let mut parents: Vec<_> = path.ancestors().skip(1).collect();
    parents.reverse();
    for parent in parents.into_iter().filter(|parent| !parent.as_os_str().is_empty()) {
        if !memory.exists(parent).unwrap_or(true) {
            let _ = memory.create_dir(parent);
        }
    }
}

/// Removes the store at `path`. As in LevelDB, a missing store is not an error, even if the
/// directory holds files of other programs. A directory of another engine is refused.
pub(crate) fn destroy(settings: &Settings, path: &std::path::Path) -> Outcome<()> {
    Ok(removal::destroy(fs_of(settings), path)?)
}

/// Repairs the store at `path`.
pub(crate) fn repair(settings: &Settings, path: &std::path::Path) -> Outcome<()> {
    Db::repair_on(fs_of(settings), path, settings.to_options()?)?;
    Ok(())
}

/// Opens a store. Returns null and reports an error text on failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_open(
    options: Option<&leveldb_options_t>,
    name: *const c_char,
    errptr: Option<&mut *mut c_char>,
) -> Option<Box<leveldb_t>> {
    // SAFETY: the caller meets LevelDB's contract for strings and error texts.
    unsafe {
        let opened = attempt(|| {
            let path = ffi::path(name)?;
            // The recorder is first, so that a wrong variable leaves no new store.
            let trace = Recorder::of_environment(path)?;
            let opened = open(&settings(options), path);
            if let (Err(_), Some(trace)) = (&opened, &trace) {
                trace.discard();
            }
            Ok(leveldb_t { db: opened?, trace })
        });
        kept(opened, errptr).map(Box::new)
    }
}

/// Closes a store.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_close(db: Option<Box<leveldb_t>>) {
    let _ = attempt(|| {
        drop(db);
        Ok(())
    });
}

/// Sets a key to a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_put(
    db: Option<&leveldb_t>,
    options: Option<&leveldb_writeoptions_t>,
    key: *const c_char,
    keylen: usize,
    val: *const c_char,
    vallen: usize,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets LevelDB's contract for buffers and error texts.
    unsafe {
        let done = attempt(|| {
            let (key, value) = (ffi::bytes(key, keylen, "key")?, ffi::bytes(val, vallen, "value")?);
            let options = leveldb_writeoptions_t::of(options);
            let store = there(db, "store")?;
            store.db.put_with(key, value, &options)?;
            store.record(key, Op::Put(value.len()));
            Ok(())
        });
        kept(done, errptr);
    }
}

/// Deletes a key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_delete(
    db: Option<&leveldb_t>,
    options: Option<&leveldb_writeoptions_t>,
    key: *const c_char,
    keylen: usize,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets LevelDB's contract for buffers and error texts.
    unsafe {
        let done = attempt(|| {
            let key = ffi::bytes(key, keylen, "key")?;
            let store = there(db, "store")?;
            store.db.delete_with(key, &leveldb_writeoptions_t::of(options))?;
            store.record(key, Op::Delete);
            Ok(())
        });
        kept(done, errptr);
    }
}

/// Applies a batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_write(
    db: Option<&leveldb_t>,
    options: Option<&leveldb_writeoptions_t>,
    batch: Option<&leveldb_writebatch_t>,
    errptr: Option<&mut *mut c_char>,
) {
    let done = attempt(|| {
        let batch = &there(batch, "batch")?.batch;
        let store = there(db, "store")?;
        store.db.write_with(batch, &leveldb_writeoptions_t::of(options))?;
        if let Some(trace) = &store.trace {
            trace.add_batch(batch);
        }
        Ok(())
    });
    // SAFETY: the caller meets LevelDB's contract for error texts.
    unsafe { kept(done, errptr) };
}

/// Returns the value of a key, allocated with `malloc`, or null if the key is missing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_get(
    db: Option<&leveldb_t>,
    options: Option<&leveldb_readoptions_t>,
    key: *const c_char,
    keylen: usize,
    vallen: Option<&mut usize>,
    errptr: Option<&mut *mut c_char>,
) -> *mut c_char {
    // SAFETY: the caller meets LevelDB's contract for buffers, snapshots and error texts.
    unsafe {
        let found = attempt(|| {
            let key = ffi::bytes(key, keylen, "key")?;
            let store = there(db, "store")?;
            let found = store.db.get_with(key, &leveldb_readoptions_t::of(options))?;
            // A replay reads the present.
            if leveldb_readoptions_t::reads_present(options) {
                store.record(key, Op::Get(found.as_ref().map(|value| value.len())));
            }
            Ok(found)
        });
        let (value, len) = match kept(found, errptr).flatten() {
            Some(found) => (ffi::give_bytes(&found).cast(), found.len()),
            None => (std::ptr::null_mut(), 0),
        };
        if let Some(vallen) = vallen {
            *vallen = len;
        }
        value
    }
}

/// Creates an iterator without a position. Returns null only for a null store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_create_iterator(
    db: Option<&leveldb_t>,
    options: Option<&leveldb_readoptions_t>,
) -> Option<Box<leveldb_iterator_t>> {
    // A replay reads the present, so scans of a snapshot are not recorded.
    let reads_present = leveldb_readoptions_t::reads_present(options);
    let made = attempt(|| {
        // SAFETY: the caller meets LevelDB's contract for snapshots.
        let options = unsafe { leveldb_readoptions_t::of(options) };
        let everything = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        Ok(there(db, "store")?.db.iter_with(&options, everything)?)
    });
    let scan = |db: &leveldb_t| db.trace.clone().filter(|_| reads_present).map(Scan::new);
    db.map(|db| Box::new(leveldb_iterator_t { walk: made.map(Walk::new), scan: scan(db) }))
}

/// Creates a snapshot of the current state.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_create_snapshot(
    db: Option<&leveldb_t>,
) -> Option<Box<leveldb_snapshot_t>> {
    let made = attempt(|| Ok(there(db, "store")?.db.snapshot()));
    made.ok().map(|snapshot| Box::new(leveldb_snapshot_t { snapshot }))
}

/// Releases a snapshot.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_release_snapshot(
    _db: Option<&leveldb_t>,
    snapshot: Option<Box<leveldb_snapshot_t>>,
) {
    drop(snapshot);
}

/// Returns a property, allocated with `malloc`, or null for an unknown name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_property_value(
    db: Option<&leveldb_t>,
    propname: *const c_char,
) -> *mut c_char {
    let found = attempt(|| {
        // SAFETY: the caller meets LevelDB's contract for strings.
        let name = unsafe { ffi::utf8(propname, "property's name") }?;
        Ok(properties::property(&there(db, "store")?.db, name))
    });
    found.ok().flatten().map_or(std::ptr::null_mut(), |text| ffi::give_text(&text))
}

/// Writes the approximate size in the files of each range, in bytes; 0 if it cannot be determined.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_approximate_sizes(
    db: Option<&leveldb_t>,
    num_ranges: c_int,
    range_start_key: *const *const c_char,
    range_start_key_len: *const usize,
    range_limit_key: *const *const c_char,
    range_limit_key_len: *const usize,
    sizes: *mut u64,
) {
    let count = usize::try_from(num_ranges).unwrap_or(0);
    // SAFETY: by LevelDB's contract, each array has `num_ranges` items and `sizes` is writable.
    let _ = attempt(|| unsafe {
        let starts = ffi::array(range_start_key, count, "start keys")?;
        let start_lens = ffi::array(range_start_key_len, count, "start keys' lengths")?;
        let limits = ffi::array(range_limit_key, count, "limit keys")?;
        let limit_lens = ffi::array(range_limit_key_len, count, "limit keys' lengths")?;
        ffi::array(sizes.cast_const(), count, "sizes")?;
        for at in 0..count {
            let size = || {
                let start = ffi::bytes(starts[at], start_lens[at], "start key")?;
                let limit = ffi::bytes(limits[at], limit_lens[at], "limit key")?;
                Ok(there(db, "store")?.db.approximate_size(start, limit)?)
            };
            sizes.add(at).write(attempt(size).unwrap_or(0));
        }
        Ok(())
    });
}

/// Compacts a key range. A null key means no bound.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_compact_range(
    db: Option<&leveldb_t>,
    start_key: *const c_char,
    start_key_len: usize,
    limit_key: *const c_char,
    limit_key_len: usize,
) {
    // SAFETY: the caller meets LevelDB's contract for buffers. This function cannot report a
    // failure; the next affected read or write reports it.
    let _ = attempt(|| unsafe {
        let start = optional(start_key, start_key_len)?;
        let limit = optional(limit_key, limit_key_len)?;
        Ok(there(db, "store")?.db.compact_range(start, limit)?)
    });
}

/// Removes a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_destroy_db(
    options: Option<&leveldb_options_t>,
    name: *const c_char,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets LevelDB's contract for strings and error texts.
    unsafe {
        kept(attempt(|| destroy(&settings(options), ffi::path(name)?)), errptr);
    }
}

/// Rebuilds a store from the intact parts of its files.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_repair_db(
    options: Option<&leveldb_options_t>,
    name: *const c_char,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets LevelDB's contract for strings and error texts.
    unsafe {
        kept(attempt(|| repair(&settings(options), ffi::path(name)?)), errptr);
    }
}
