//! `leveldb_options_*`, `leveldb_readoptions_*`, `leveldb_writeoptions_*`. A setter on a null
//! handle does nothing.

use std::ffi::c_int;
use std::sync::Arc;

use esker::{Compression, ReadOptions, WriteOptions};
use esker_bindings::settings::{Filter, Settings};

use crate::objects::{
    leveldb_cache_t, leveldb_comparator_t, leveldb_env_t, leveldb_filterpolicy_t, leveldb_logger_t,
};
use crate::store::leveldb_snapshot_t;

/// Options for opening a store.
#[derive(Default)]
pub struct leveldb_options_t {
    pub(crate) settings: Settings,
}

/// Read options. The snapshot must stay alive while they are used.
pub struct leveldb_readoptions_t {
    pub(crate) fill_cache: bool,
    pub(crate) snapshot: *const leveldb_snapshot_t,
}

/// Write options.
#[derive(Default)]
pub struct leveldb_writeoptions_t {
    pub(crate) sync: bool,
}

impl leveldb_readoptions_t {
    /// Converts read options to Esker's; null gives the defaults.
    ///
    /// # Safety
    /// The snapshot must not have been released.
    pub(crate) unsafe fn of<'a>(options: Option<&'a leveldb_readoptions_t>) -> ReadOptions<'a> {
        let Some(options) = options else { return ReadOptions::default() };
        // SAFETY: guaranteed by the caller; null means no snapshot.
        let snapshot = unsafe { options.snapshot.as_ref() };
        ReadOptions::default()
            .snapshot(snapshot.map(|s| &s.snapshot))
            .fill_cache(options.fill_cache)
    }

    /// Returns whether reads with these options read the current state, not a snapshot.
    pub(crate) fn reads_present(options: Option<&leveldb_readoptions_t>) -> bool {
        options.is_none_or(|options| options.snapshot.is_null())
    }
}

impl leveldb_writeoptions_t {
    /// Converts write options to Esker's; null gives the defaults.
    #[inline]
    pub(crate) fn of(options: Option<&leveldb_writeoptions_t>) -> WriteOptions {
        match options {
            Some(options) if options.sync => WriteOptions::SYNC,
            _ => WriteOptions::BUFFERED,
        }
    }
}

/// Creates options with LevelDB's defaults.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_create() -> Box<leveldb_options_t> {
    Box::default()
}

/// Frees options.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_destroy(options: Option<Box<leveldb_options_t>>) {
    drop(options);
}

/// Declares setters: function, argument and its type, field, value of the field.
macro_rules! setters {
    ($($(#[$doc:meta])* $function:ident($argument:ident: $type:ty) => $field:ident = $value:expr;)+) => {
        $($(#[$doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $function(options: Option<&mut leveldb_options_t>, $argument: $type) {
            if let Some(options) = options {
                options.settings.$field = $value;
            }
        })+
    };
}

setters! {
    /// Sets the key order; null selects the bytewise order.
    leveldb_options_set_comparator(comparator: Option<&leveldb_comparator_t>) =>
        comparator = comparator.map(|c| Arc::clone(&c.comparator) as Arc<dyn esker::Comparator>);
    /// Sets the filter policy; null selects Esker's default.
    leveldb_options_set_filter_policy(filter: Option<&leveldb_filterpolicy_t>) =>
        filter = filter.map_or(Filter::Unnamed, |f| f.filter.clone());
    /// Sets whether a missing store is created.
    leveldb_options_set_create_if_missing(yes: u8) => create_if_missing = yes != 0;
    /// Sets whether opening an existing store fails.
    leveldb_options_set_error_if_exists(yes: u8) => error_if_exists = yes != 0;
    /// Sets the memtable size, in bytes.
    leveldb_options_set_write_buffer_size(bytes: usize) => write_buffer_size = Some(bytes);
    /// Sets the maximum number of open files.
    leveldb_options_set_max_open_files(files: c_int) => max_open_files = Some(files);
    /// Sets the block cache; null selects a cache of 8 MiB.
    leveldb_options_set_cache(cache: Option<&leveldb_cache_t>) =>
        cache_bytes = cache.map_or(Settings::default().cache_bytes, |c| Some(c.capacity_bytes));
    /// Sets the block size before compression, in bytes.
    leveldb_options_set_block_size(bytes: usize) => block_size = Some(bytes);
    /// Sets the number of entries between restart points of a block.
    leveldb_options_set_block_restart_interval(entries: c_int) => block_restart_interval = Some(entries);
    /// Sets the maximum file size, in bytes.
    leveldb_options_set_max_file_size(bytes: usize) => max_file_size = Some(bytes);
    /// Sets the compression: 0 for none, 1 for Snappy.
    leveldb_options_set_compression(number: c_int) =>
        compression =
            Some(if number == 0 { Compression::None } else { Compression::Snappy });
}

/// Has no effect: checksums are always verified.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_paranoid_checks(
    _options: Option<&mut leveldb_options_t>,
    _yes: u8,
) {
}

/// Has no effect: there is only one environment.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_env(
    _options: Option<&mut leveldb_options_t>,
    _env: Option<&leveldb_env_t>,
) {
}

/// Has no effect: Esker reports events through errors and properties.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_info_log(
    _options: Option<&mut leveldb_options_t>,
    _logger: Option<&leveldb_logger_t>,
) {
}

/// Creates read options with LevelDB's defaults.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_create() -> Box<leveldb_readoptions_t> {
    Box::new(leveldb_readoptions_t { fill_cache: true, snapshot: std::ptr::null() })
}

/// Frees read options.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_destroy(options: Option<Box<leveldb_readoptions_t>>) {
    drop(options);
}

/// Has no effect: checksums are always verified.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_set_verify_checksums(
    _options: Option<&mut leveldb_readoptions_t>,
    _yes: u8,
) {
}

/// Sets whether reads insert blocks into the cache.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_set_fill_cache(
    options: Option<&mut leveldb_readoptions_t>,
    yes: u8,
) {
    if let Some(options) = options {
        options.fill_cache = yes != 0;
    }
}

/// Sets the snapshot to read; null selects the current state.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_readoptions_set_snapshot(
    options: Option<&mut leveldb_readoptions_t>,
    snapshot: *const leveldb_snapshot_t,
) {
    if let Some(options) = options {
        options.snapshot = snapshot;
    }
}

/// Creates write options with LevelDB's defaults.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writeoptions_create() -> Box<leveldb_writeoptions_t> {
    Box::default()
}

/// Frees write options.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writeoptions_destroy(options: Option<Box<leveldb_writeoptions_t>>) {
    drop(options);
}

/// Sets whether a completed write survives a power loss.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writeoptions_set_sync(
    options: Option<&mut leveldb_writeoptions_t>,
    yes: u8,
) {
    if let Some(options) = options {
        options.sync = yes != 0;
    }
}
