//! `rocksdb_readoptions_*` and `rocksdb_writeoptions_*`, as reads and writes use them. A setter on a
//! null handle does nothing.

use std::ffi::{c_char, c_int};
use std::ops::Bound;

use esker::{KeyBounds, ReadOptions, Snapshot, WriteOptions};
use esker_c::failure::{Failure, Outcome};
use esker_c::ffi;

use crate::settings::Settings;
use crate::store::{bounds, rocksdb_snapshot_t};

/// Read options. The snapshot must stay alive while they are used.
#[repr(C)]
pub struct rocksdb_readoptions_t {
    settings: Settings,
    fill_cache: bool,
    snapshot: *const Snapshot,
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
}

/// Write options.
#[repr(C)]
#[derive(Default)]
pub struct rocksdb_writeoptions_t {
    settings: Settings,
    sync: bool,
    disable_wal: bool,
}

impl rocksdb_readoptions_t {
    /// Converts read options to Esker's; null gives the defaults.
    ///
    /// # Safety
    /// The snapshot must not have been released.
    #[inline]
    pub(crate) unsafe fn of<'a>(
        options: Option<&'a rocksdb_readoptions_t>,
    ) -> Outcome<ReadOptions<'a>> {
        let Some(options) = options else { return Ok(ReadOptions::default()) };
        options.settings.check()?;
        // SAFETY: guaranteed by the caller; null means no snapshot.
        let snapshot = unsafe { options.snapshot.as_ref() };
        Ok(ReadOptions::default().snapshot(snapshot).fill_cache(options.fill_cache))
    }

    /// Returns the bounds of iterators.
    pub(crate) fn bounds(options: Option<&rocksdb_readoptions_t>) -> KeyBounds {
        match options {
            Some(options) => bounds(options.lower.as_deref(), options.upper.as_deref()),
            None => (Bound::Unbounded, Bound::Unbounded),
        }
    }

    /// Returns a flag of the options.
    pub(crate) fn flag(options: Option<&rocksdb_readoptions_t>, name: &str) -> bool {
        options.is_some_and(|options| options.settings.flag(name))
    }
}

impl rocksdb_writeoptions_t {
    /// Converts write options to Esker's; null gives the defaults.
    #[inline]
    pub(crate) fn of(options: Option<&rocksdb_writeoptions_t>) -> Outcome<WriteOptions> {
        let Some(options) = options else { return Ok(WriteOptions::BUFFERED) };
        options.settings.check()?;
        match (options.sync, options.disable_wal) {
            (false, false) => Ok(WriteOptions::BUFFERED),
            (true, false) => Ok(WriteOptions::SYNC),
            (false, true) => Ok(WriteOptions::NONE),
            (true, true) => Err(Failure::invalid("Sync writes has to enable WAL.")),
        }
    }
}

/// Creates read options with RocksDB's defaults.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_readoptions_create() -> Box<rocksdb_readoptions_t> {
    Box::new(rocksdb_readoptions_t {
        settings: Settings::default(),
        fill_cache: true,
        snapshot: std::ptr::null(),
        lower: None,
        upper: None,
    })
}

/// Frees read options.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_readoptions_destroy(options: Option<Box<rocksdb_readoptions_t>>) {
    drop(options);
}

/// Sets whether blocks that are read enter the cache.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_readoptions_set_fill_cache(
    options: Option<&mut rocksdb_readoptions_t>,
    fill_cache: u8,
) {
    if let Some(options) = options {
        options.fill_cache = fill_cache != 0;
    }
}

/// Returns whether blocks that are read enter the cache.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_readoptions_get_fill_cache(
    options: Option<&rocksdb_readoptions_t>,
) -> u8 {
    u8::from(options.is_some_and(|options| options.fill_cache))
}

/// Sets the snapshot to read. NULL is the current state.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_readoptions_set_snapshot(
    options: Option<&mut rocksdb_readoptions_t>,
    snapshot: Option<&rocksdb_snapshot_t>,
) {
    if let Some(options) = options {
        options.snapshot = snapshot.map_or(std::ptr::null(), |snapshot| snapshot.snapshot);
    }
}

/// # Safety
/// `key` is null or has `len` bytes.
unsafe fn bound(key: *const c_char, len: usize) -> Option<Vec<u8>> {
    if key.is_null() {
        return None;
    }
    // SAFETY: guaranteed by the caller.
    unsafe { ffi::bytes(key, len, "bound") }.ok().map(<[u8]>::to_vec)
}

/// Sets the end (exclusive) of iterators. NULL removes it. The key is copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_readoptions_set_iterate_upper_bound(
    options: Option<&mut rocksdb_readoptions_t>,
    key: *const c_char,
    len: usize,
) {
    if let Some(options) = options {
        // SAFETY: the caller meets RocksDB's contract for buffers.
        options.upper = unsafe { bound(key, len) };
    }
}

/// Sets the start (inclusive) of iterators. NULL removes it. The key is copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_readoptions_set_iterate_lower_bound(
    options: Option<&mut rocksdb_readoptions_t>,
    key: *const c_char,
    len: usize,
) {
    if let Some(options) = options {
        // SAFETY: the caller meets RocksDB's contract for buffers.
        options.lower = unsafe { bound(key, len) };
    }
}

/// Creates write options with RocksDB's defaults.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_writeoptions_create() -> Box<rocksdb_writeoptions_t> {
    Box::default()
}

/// Frees write options.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_writeoptions_destroy(options: Option<Box<rocksdb_writeoptions_t>>) {
    drop(options);
}

/// Sets whether a write survives a power loss once it has returned.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_writeoptions_set_sync(
    options: Option<&mut rocksdb_writeoptions_t>,
    sync: u8,
) {
    if let Some(options) = options {
        options.sync = sync != 0;
    }
}

/// Returns whether a write survives a power loss once it has returned.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_writeoptions_get_sync(options: Option<&rocksdb_writeoptions_t>) -> u8 {
    u8::from(options.is_some_and(|options| options.sync))
}

/// Sets whether a write goes without the log. A crash loses it unless it was flushed.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_writeoptions_disable_WAL(
    options: Option<&mut rocksdb_writeoptions_t>,
    disable: c_int,
) {
    if let Some(options) = options {
        options.disable_wal = disable != 0;
    }
}

/// Returns whether a write goes without the log.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_writeoptions_get_disable_WAL(
    options: Option<&rocksdb_writeoptions_t>,
) -> u8 {
    u8::from(options.is_some_and(|options| options.disable_wal))
}
