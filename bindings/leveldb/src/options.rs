//! `leveldb_options_*`, `leveldb_readoptions_*`, `leveldb_writeoptions_*`. Setting something on a
//! null handle does nothing.

use std::ffi::c_int;
use std::sync::Arc;

use esker::{Compression, ReadOptions, WriteOptions};
use esker_bindings::settings::{Filter, Settings};

use crate::objects::{
    leveldb_cache_t, leveldb_comparator_t, leveldb_env_t, leveldb_filterpolicy_t, leveldb_logger_t,
};
use crate::store::leveldb_snapshot_t;

/// How a store is opened.
#[derive(Default)]
pub struct leveldb_options_t {
    pub(crate) settings: Settings,
}

/// How reads are made. The snapshot must be alive while this is used.
pub struct leveldb_readoptions_t {
    pub(crate) fill_cache: bool,
    pub(crate) snapshot: *const leveldb_snapshot_t,
}

/// How writes are made.
#[derive(Default)]
pub struct leveldb_writeoptions_t {
    pub(crate) sync: bool,
}

impl leveldb_readoptions_t {
    /// Esker's options for these, or for null.
    ///
    /// # Safety
    /// The snapshot set must not have been released.
    pub(crate) unsafe fn of<'a>(options: Option<&'a leveldb_readoptions_t>) -> ReadOptions<'a> {
        let Some(options) = options else { return ReadOptions::default() };
        // SAFETY: the caller's promise; null is no snapshot.
        let snapshot = unsafe { options.snapshot.as_ref() };
        ReadOptions { snapshot: snapshot.map(|s| &s.snapshot), fill_cache: options.fill_cache }
    }
}

impl leveldb_writeoptions_t {
    /// Esker's options for these, or for null.
    #[inline]
    pub(crate) fn of(options: Option<&leveldb_writeoptions_t>) -> WriteOptions {
        match options {
            Some(options) if options.sync => WriteOptions::SYNC,
            _ => WriteOptions::BUFFERED,
        }
    }
}

/// Options with LevelDB's defaults.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_create() -> Box<leveldb_options_t> {
    Box::default()
}

/// Frees options.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_destroy(options: Option<Box<leveldb_options_t>>) {
    drop(options);
}

/// Declares setters: function, argument, its type, the field, what goes into it.
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
    /// The order of keys; null is the bytewise one.
    leveldb_options_set_comparator(comparator: Option<&leveldb_comparator_t>) =>
        comparator = comparator.map(|c| Arc::clone(&c.comparator) as Arc<dyn esker::Comparator>);
    /// The filter policy; null leaves the choice to Esker.
    leveldb_options_set_filter_policy(filter: Option<&leveldb_filterpolicy_t>) =>
        filter = filter.map_or(Filter::Unnamed, |f| f.filter.clone());
    /// Make the store when there is none.
    leveldb_options_set_create_if_missing(yes: u8) => create_if_missing = yes != 0;
    /// Refuse a store that is there.
    leveldb_options_set_error_if_exists(yes: u8) => error_if_exists = yes != 0;
    /// Bytes of writes held in memory before they become a file.
    leveldb_options_set_write_buffer_size(bytes: usize) => write_buffer_size = Some(bytes);
    /// Files held open.
    leveldb_options_set_max_open_files(files: c_int) => max_open_files = Some(files);
    /// The block cache; null is one of 8 MiB.
    leveldb_options_set_cache(cache: Option<&leveldb_cache_t>) =>
        cache_bytes = cache.map_or(Settings::default().cache_bytes, |c| Some(c.capacity_bytes));
    /// Bytes of a block before compression.
    leveldb_options_set_block_size(bytes: usize) => block_size = Some(bytes);
    /// Entries between whole keys in a block.
    leveldb_options_set_block_restart_interval(entries: c_int) => block_restart_interval = Some(entries);
    /// Bytes of a file.
    leveldb_options_set_max_file_size(bytes: usize) => max_file_size = Some(bytes);
    /// 0 is none, 1 is Snappy.
    leveldb_options_set_compression(number: c_int) =>
        compression =
            Some(if number == 0 { Compression::None } else { Compression::Snappy });
}

/// Nothing is to be done: every checksum is always verified.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_paranoid_checks(
    _options: Option<&mut leveldb_options_t>,
    _yes: u8,
) {
}

/// Nothing is to be done: there is one environment.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_env(
    _options: Option<&mut leveldb_options_t>,
    _env: Option<&leveldb_env_t>,
) {
}

/// Nothing is to be done: what happens is told by errors and properties.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_info_log(
    _options: Option<&mut leveldb_options_t>,
    _logger: Option<&leveldb_logger_t>,
) {
}

/// Read options with LevelDB's defaults.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_create() -> Box<leveldb_readoptions_t> {
    Box::new(leveldb_readoptions_t { fill_cache: true, snapshot: std::ptr::null() })
}

/// Frees read options.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_destroy(options: Option<Box<leveldb_readoptions_t>>) {
    drop(options);
}

/// Nothing is to be done: every checksum is always verified.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_set_verify_checksums(
    _options: Option<&mut leveldb_readoptions_t>,
    _yes: u8,
) {
}

/// Whether blocks read enter the cache.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_set_fill_cache(
    options: Option<&mut leveldb_readoptions_t>,
    yes: u8,
) {
    if let Some(options) = options {
        options.fill_cache = yes != 0;
    }
}

/// Reads the store as it was then; null is now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_readoptions_set_snapshot(
    options: Option<&mut leveldb_readoptions_t>,
    snapshot: *const leveldb_snapshot_t,
) {
    if let Some(options) = options {
        options.snapshot = snapshot;
    }
}

/// Write options with LevelDB's defaults.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writeoptions_create() -> Box<leveldb_writeoptions_t> {
    Box::default()
}

/// Frees write options.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writeoptions_destroy(options: Option<Box<leveldb_writeoptions_t>>) {
    drop(options);
}

/// Whether a write survives a power loss once it returned.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writeoptions_set_sync(
    options: Option<&mut leveldb_writeoptions_t>,
    yes: u8,
) {
    if let Some(options) = options {
        options.sync = yes != 0;
    }
}
