//! `rocksdb_options_*` and `rocksdb_block_based_options_*` that are not plain numbers, and the
//! conversion of RocksDB's options to Esker's.
//!
//! Invariants:
//! 1. An option that is not set keeps Esker's default, also where RocksDB's differs.
//! 2. A value outside of Esker's range is clamped.
//! 3. An option that would change results and that Esker does not have makes every open fail.

use std::ffi::{c_char, c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use esker::fs::{Fs, OsFs};
use esker::{CompactionFilter, Comparator, KeyOrder, KeyspaceOptions, MergeOperator, Options};
use esker_c::failure::{Failure, Outcome, there};
use esker_c::ffi;

use crate::failure::{kept, refusal};
use crate::objects::{
    Cache, Transform, cache_size, rocksdb_cache_t, rocksdb_comparator_t, rocksdb_env_t,
    rocksdb_filterpolicy_t, rocksdb_slicetransform_t,
};
use crate::settings::Settings;
use crate::store::Store;
use crate::stubs;

/// The name of RocksDB's bytewise order.
const BYTEWISE: &str = "leveldb.BytewiseComparator";
/// RocksDB's number of the compaction style that Esker does not have.
const FIFO: i64 = 2;

/// Objects that options refer to. Copies of the options share them.
#[derive(Clone, Default)]
pub(crate) struct Objects {
    comparator: Option<Arc<dyn Comparator>>,
    /// Prefix extractor.
    pub prefix: Option<Arc<Transform>>,
    /// Cache of the table options.
    pub cache: Option<Arc<Cache>>,
    /// File system.
    fs: Option<Arc<dyn Fs>>,
    /// Table options.
    table: Settings,
    filter_bits: Option<f64>,
    /// Merge operator.
    pub merge: Option<Arc<dyn MergeOperator>>,
    /// Compaction filter.
    pub filter: Option<Arc<dyn CompactionFilter>>,
    /// Factory of compaction filters.
    pub filters: Option<Arc<dyn CompactionFilter>>,
    /// Write buffer manager.
    pub write_buffers: Option<Arc<crate::memory::WriteBuffers>>,
    /// Manager of table files.
    pub files: Option<Arc<crate::file_manager::FileManager>>,
    /// The store opened last with statistics.
    pub statistics: Option<Arc<Statistics>>,
}

/// The store whose counters options with statistics return.
#[derive(Default)]
pub struct Statistics {
    store: Mutex<Weak<Store>>,
}

impl Statistics {
    /// Sets the store.
    pub fn set(&self, store: &Arc<Store>) {
        *self.store.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(store);
    }

    /// Returns the store, if it is open.
    pub fn store(&self) -> Option<Arc<Store>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }
}

/// Options of a store and of a column family.
#[repr(C)]
#[derive(Clone, Default)]
pub struct rocksdb_options_t {
    pub(crate) settings: Settings,
    pub(crate) objects: Objects,
}

/// Options of tables.
#[repr(C)]
#[derive(Clone, Default)]
pub struct rocksdb_block_based_table_options_t {
    settings: Settings,
    cache: Option<Arc<Cache>>,
    filter_bits: Option<f64>,
}

impl rocksdb_options_t {
    /// Returns the file system.
    pub(crate) fn fs(&self) -> Arc<dyn Fs> {
        self.objects.fs.clone().unwrap_or_else(|| OsFs::shared())
    }

    /// Returns the key order.
    pub(crate) fn order(&self) -> KeyOrder {
        match &self.objects.comparator {
            Some(comparator) if comparator.name() != BYTEWISE => {
                KeyOrder::Custom(comparator.clone())
            }
            _ => KeyOrder::Bytewise,
        }
    }

    /// Fails if the options ask for something that changes results and that Esker does not have.
    pub(crate) fn check(&self) -> Outcome<()> {
        self.settings.check()?;
        self.objects.table.check()?;
        if let Some(files) = &self.objects.files {
            files.check()?;
        }
        if self.settings.number("compaction_style") == Some(FIFO) {
            let why = "Esker has no FIFO compaction, which drops the oldest keys";
            return Err(refusal("rocksdb_options_set_compaction_style", why));
        }
        Ok(())
    }

    /// Returns the merge operator.
    pub(crate) fn merge_operator(&self) -> Option<Arc<dyn MergeOperator>> {
        self.objects.merge.clone()
    }

    /// Returns the compaction filter, or the factory of filters if there is none.
    pub(crate) fn filter(&self) -> Option<Arc<dyn CompactionFilter>> {
        self.objects.filter.clone().or_else(|| self.objects.filters.clone())
    }

    /// Returns the names of the settings that have no effect, for the report.
    pub(crate) fn accepted(&self) -> Vec<&'static str> {
        let names = self.settings.names().chain(self.objects.table.names());
        names.filter(|name| stubs::is_accepted(name)).collect()
    }

    /// Returns Esker's options for the tables and the compaction of a column family, by name.
    fn storage(&self) -> Outcome<Vec<(&'static str, String)>> {
        let mut pairs = Vec::new();
        let table = &self.objects.table;
        let clamped = |value: Option<i64>, min: i64, max: i64| {
            value.map(|value| value.clamp(min, max).to_string())
        };
        let mut add = |name, value: Option<String>| pairs.extend(value.map(|value| (name, value)));
        add("block_size_bytes", clamped(table.number("block_size"), 64, 64 << 20));
        add("restart_interval", clamped(table.number("block_restart_interval"), 1, 65_536));
        let bits = self.objects.filter_bits.map(|bits| bits.clamp(0.0, 64.0).to_string());
        add("filter_bits_per_key", bits);
        let file = self.settings.number("target_file_size_base");
        add("file_size_max_bytes", clamped(file, 4096, 64 << 30));
        if self.settings.number("compaction_style") == Some(1) {
            add("policy", Some("tiered".to_string()));
        }
        let first = self.settings.number("compression");
        let upper = self.settings.number("compression_per_level.first").or(first);
        let lower = self.settings.number("compression_per_level.last").or(first);
        let bottom = self.settings.number("bottommost_compression").filter(|kind| *kind != 255);
        let lower = bottom.or(lower);
        add("compression", lower.map(compression).transpose()?);
        if upper != lower {
            add("compression_upper", upper.map(compression).transpose()?);
        }
        let level = self.settings.number("compression_options.level");
        add(
            "compression_level",
            level.filter(|level| (1..=22).contains(level)).map(|l| l.to_string()),
        );
        let dictionary = self.settings.number("compression_options.max_dict_bytes");
        add("compression_dictionary_max_bytes", clamped(dictionary, 0, 1 << 20));
        Ok(pairs)
    }

    /// Returns the options of a keyspace for a column family.
    pub(crate) fn keyspace_options(&self) -> Outcome<KeyspaceOptions> {
        self.check()?;
        let mut options = KeyspaceOptions::default().key_order(self.order());
        for (name, value) in self.storage()? {
            options = options.set(name, &value)?;
        }
        Ok(options)
    }

    /// Returns the options of a store whose default column family has the options `family`.
    /// `orders` are the key orders of the other column families.
    pub(crate) fn store_options(
        &self,
        family: &rocksdb_options_t,
        orders: Vec<KeyOrder>,
    ) -> Outcome<Options> {
        self.check()?;
        family.check()?;
        let mut options = Options::default();
        let settings = &self.settings;
        let clamped = |name: &str, min: i64, max: i64| {
            settings.number(name).map(|value| value.clamp(min, max).to_string())
        };
        let create = settings.flag("create_if_missing");
        let mut pairs = vec![
            ("create_if_missing", Some(create.to_string())),
            ("error_if_exists", Some(settings.flag("error_if_exists").to_string())),
            ("frozen_memtables_max", clamped("max_write_buffer_number", 1, 64)),
            ("background_threads", clamped("max_background_jobs", 1, 256)),
            ("manifest_size_min_bytes", clamped("max_manifest_file_size", 256, 1 << 30)),
        ];
        // -1 stands for "no limit".
        let files = settings.number("max_open_files").map(|files| match files {
            ..0 => 1_000_000,
            files => files.clamp(20, 1_000_000),
        });
        pairs.push(("open_files_max", files.map(|files| files.to_string())));
        let memtable = family.settings.number("write_buffer_size");
        let memtable = memtable.map(|bytes| bytes.clamp(64 << 10, 4 << 30).to_string());
        pairs.push(("memtable_size_bytes", memtable));
        let debt = family.settings.number("soft_pending_compaction_bytes_limit");
        let debt = debt.filter(|bytes| *bytes > 0);
        let debt = debt.map(|bytes| bytes.clamp(64 << 10, 1 << 40).to_string());
        pairs.push(("debt_limit_bytes", debt));
        let off = family.settings.flag("disable_auto_compactions");
        pairs.push(("auto_compaction", off.then(|| "false".to_string())));
        let cache = match family.objects.table.flag("no_block_cache") {
            true => Some("0".to_string()),
            false => family.objects.cache.as_ref().map(|c| cache_size(c.capacity_bytes())),
        };
        pairs.push(("cache_size_bytes", cache));
        for (name, value) in pairs {
            if let Some(value) = value {
                options.set(name, &value)?;
            }
        }
        for (name, value) in family.storage()? {
            options.set(name, &value)?;
        }
        options.key_order = family.order();
        options.key_orders = orders;
        Ok(options)
    }
}

/// Returns Esker's compression for RocksDB's number.
fn compression(kind: i64) -> Outcome<String> {
    let name = match kind {
        0 => "none",
        1 => "snappy",
        4 | 5 => "lz4",
        // zlib, bzip2 and zstd: the compression with the best ratio.
        2 | 3 | 7 => "zstd",
        other => {
            let message = format!("Compression type {other} is not linked with the binary.");
            return Err(Failure::invalid(message));
        }
    };
    Ok(name.to_string())
}

/// Creates options with RocksDB's defaults.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_options_create() -> Box<rocksdb_options_t> {
    Box::default()
}

/// Frees options.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_options_destroy(options: Option<Box<rocksdb_options_t>>) {
    drop(options);
}

/// Copies options. The copy shares the objects that they refer to.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_options_create_copy(
    options: Option<&rocksdb_options_t>,
) -> Box<rocksdb_options_t> {
    Box::new(options.cloned().unwrap_or_default())
}

/// Sets the key order. NULL is the bytewise order.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_options_set_comparator(
    options: Option<&mut rocksdb_options_t>,
    comparator: Option<&rocksdb_comparator_t>,
) {
    if let Some(options) = options {
        let comparator = comparator.map(|c| c.comparator.clone() as Arc<dyn Comparator>);
        options.objects.comparator = comparator;
    }
}

/// Sets the environment. NULL is the operating system's.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_options_set_env(
    options: Option<&mut rocksdb_options_t>,
    env: Option<&rocksdb_env_t>,
) {
    if let Some(options) = options {
        options.objects.fs = env.map(|env| env.fs.clone());
    }
}

/// Takes ownership of a prefix extractor.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_options_set_prefix_extractor(
    options: Option<&mut rocksdb_options_t>,
    transform: Option<Box<rocksdb_slicetransform_t>>,
) {
    if let Some(options) = options {
        options.objects.prefix = transform.map(|transform| transform.transform.clone());
    }
}

/// Sets a compression for each level: the first is for levels 0 and 1, the last for the others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_compression_per_level(
    options: Option<&mut rocksdb_options_t>,
    level_values: *const c_int,
    num_levels: usize,
) {
    // SAFETY: by RocksDB's contract, the array has `num_levels` items.
    let levels = unsafe { ffi::array(level_values, num_levels, "compressions") }.unwrap_or(&[]);
    if let (Some(options), Some(first), Some(last)) = (options, levels.first(), levels.last()) {
        let bits = |kind: &c_int| i64::from(*kind) as u64;
        options.settings.set("compression_per_level.first", bits(first));
        options.settings.set("compression_per_level.last", bits(last));
    }
}

/// Sets the compression level and the maximum size of a table's dictionary, which Esker uses for
/// zstd. The other values have no effect.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_options_set_compression_options(
    options: Option<&mut rocksdb_options_t>,
    _window_bits: c_int,
    level: c_int,
    _strategy: c_int,
    max_dict_bytes: c_int,
) {
    if let Some(options) = options {
        options.settings.set("compression_options.level", i64::from(level) as u64);
        options
            .settings
            .set("compression_options.max_dict_bytes", i64::from(max_dict_bytes) as u64);
    }
}

/// Sets the number of background threads.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_options_increase_parallelism(
    options: Option<&mut rocksdb_options_t>,
    total_threads: c_int,
) {
    if let Some(options) = options {
        options.settings.set("max_background_jobs", i64::from(total_threads) as u64);
    }
}

/// Sets the size of the block cache, in MiB.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_options_optimize_for_point_lookup(
    options: Option<&mut rocksdb_options_t>,
    block_cache_size_mb: u64,
) {
    if let Some(options) = options {
        let bytes = usize::try_from(block_cache_size_mb.saturating_mul(1 << 20));
        let cache = crate::objects::rocksdb_cache_create_lru(bytes.unwrap_or(usize::MAX));
        options.objects.cache = Some(cache.cache.clone());
    }
}

impl rocksdb_options_t {
    /// Divides `budget_bytes` among memtables, as RocksDB does for both of its styles.
    fn share_among_memtables(&mut self, budget_bytes: u64) {
        self.settings.set("write_buffer_size", budget_bytes / 4);
        self.settings.set("min_write_buffer_number_to_merge", 2);
        self.settings.set("max_write_buffer_number", 6);
    }
}

/// Sets the sizes of memtables, tables and levels for a budget of bytes, and leveled compaction.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_options_optimize_level_style_compaction(
    options: Option<&mut rocksdb_options_t>,
    memtable_memory_budget: u64,
) {
    if let Some(options) = options {
        options.share_among_memtables(memtable_memory_budget);
        let settings = &mut options.settings;
        settings.set("level0_file_num_compaction_trigger", 2);
        settings.set("target_file_size_base", memtable_memory_budget / 8);
        settings.set("max_bytes_for_level_base", memtable_memory_budget);
        settings.set("compaction_style", 0);
        // Levels 0 and 1 are not compressed, the others with LZ4.
        settings.set("compression_per_level.first", 0);
        settings.set("compression_per_level.last", 4);
    }
}

/// Sets the sizes of memtables for a budget of bytes, and universal compaction.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_options_optimize_universal_style_compaction(
    options: Option<&mut rocksdb_options_t>,
    memtable_memory_budget: u64,
) {
    if let Some(options) = options {
        options.share_among_memtables(memtable_memory_budget);
        options.settings.set("compaction_style", 1);
    }
}

/// Sets a write buffer manager. It reports the memory of memtables, and does not limit it.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_options_set_write_buffer_manager(
    options: Option<&mut rocksdb_options_t>,
    manager: Option<&crate::memory::rocksdb_write_buffer_manager_t>,
) {
    if let Some(options) = options {
        options.objects.write_buffers = manager.map(|manager| manager.buffers.clone());
    }
}

/// Makes the options return the counters of the store that is opened with them.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_options_enable_statistics(options: Option<&mut rocksdb_options_t>) {
    if let Some(options) = options {
        options.objects.statistics = Some(Arc::default());
    }
}

/// Creates table options with RocksDB's defaults.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_block_based_options_create() -> Box<rocksdb_block_based_table_options_t> {
    Box::default()
}

/// Frees table options.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_block_based_options_destroy(
    options: Option<Box<rocksdb_block_based_table_options_t>>,
) {
    drop(options);
}

/// Takes ownership of a filter policy. NULL is no filter.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_block_based_options_set_filter_policy(
    options: Option<&mut rocksdb_block_based_table_options_t>,
    filter: Option<Box<rocksdb_filterpolicy_t>>,
) {
    if let Some(options) = options {
        options.filter_bits = Some(filter.map_or(0.0, |filter| filter.bits_per_key));
    }
}

/// Sets the cache, whose capacity becomes that of the store's cache.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_block_based_options_set_block_cache(
    options: Option<&mut rocksdb_block_based_table_options_t>,
    cache: Option<&rocksdb_cache_t>,
) {
    if let Some(options) = options {
        options.cache = cache.map(|cache| cache.cache.clone());
    }
}

/// Copies table options into options.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_options_set_block_based_table_factory(
    options: Option<&mut rocksdb_options_t>,
    table: Option<&rocksdb_block_based_table_options_t>,
) {
    if let (Some(options), Some(table)) = (options, table) {
        options.objects.table = table.settings.clone();
        options.objects.filter_bits = table.filter_bits;
        options.objects.cache = table.cache.clone();
    }
}

/// Sets numbers and flags from text such as `write_buffer_size=1048576;max_open_files=100`, over
/// `base`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_options_from_string(
    base: Option<&rocksdb_options_t>,
    text: *const c_char,
    options: Option<&mut rocksdb_options_t>,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for strings and error texts.
    unsafe {
        kept(errptr, || {
            let mut made = there(base, "base options")?.clone();
            let text = ffi::utf8(text, "options")?;
            for pair in text.split(';').map(str::trim).filter(|pair| !pair.is_empty()) {
                let (name, value) = pair.split_once('=').ok_or_else(|| {
                    Failure::invalid(format!("Mismatched key value pair, '=' expected in {pair:?}"))
                })?;
                let (name, value) = (name.trim(), value.trim());
                let (key, bits) = crate::stubs::parse(name, value)?;
                made.settings.set(key, bits);
            }
            *there(options, "new options")? = made;
            Ok(())
        });
    }
}

/// Frees nothing: the list of options that were loaded is never made.
///
/// # Safety
/// All pointers are null, because `rocksdb_load_latest_options` is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_load_latest_options_destroy(
    _db_options: *mut c_void,
    _list_column_family_names: *mut c_void,
    _list_column_family_options: *mut c_void,
    _len: usize,
) {
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&'static str, i64)]) -> rocksdb_options_t {
        let mut options = rocksdb_options_t::default();
        for (name, value) in pairs {
            options.settings.set(name, *value as u64);
        }
        options
    }

    #[test]
    fn options_are_converted_and_clamped() {
        let options = with(&[
            ("create_if_missing", 1),
            ("write_buffer_size", 1),
            ("max_open_files", -1),
            ("max_background_jobs", 0),
            ("target_file_size_base", i64::MAX),
            ("compression", 7),
            ("bottommost_compression", 0),
            ("disable_auto_compactions", 1),
            ("compaction_style", 1),
            ("compression_options.max_dict_bytes", 16_384),
        ]);
        let made = options.store_options(&options, Vec::new()).unwrap();
        made.validate().unwrap();
        let get = |name: &str| made.get(name).unwrap();
        assert_eq!(get("memtable_size_bytes"), "65536");
        assert_eq!(get("open_files_max"), "1000000");
        assert_eq!(get("background_threads"), "1");
        assert_eq!(get("file_size_max_bytes"), (64u64 << 30).to_string());
        assert_eq!((get("compression_upper"), get("compression")), ("zstd".into(), "none".into()));
        assert_eq!((get("auto_compaction"), get("policy")), ("false".into(), "tiered".into()));
        assert_eq!(get("compression_dictionary_max_bytes"), "16384");
        assert!(made.create_if_missing);
        options.keyspace_options().unwrap();
    }

    #[test]
    fn unset_options_are_eskers_defaults() {
        let options = rocksdb_options_t::default();
        let made = options.store_options(&options, Vec::new()).unwrap();
        let plain = Options::default();
        for option in esker::schema::OPTIONS.iter().filter(|o| o.name != "create_if_missing") {
            assert_eq!(made.get(option.name), plain.get(option.name), "{}", option.name);
        }
        assert!(!made.create_if_missing);
    }

    #[test]
    fn options_that_change_results_are_refused() {
        let fifo = with(&[("compaction_style", 2)]);
        let failure = fifo.check().unwrap_err();
        assert!(failure.message.contains("rocksdb_options_set_compaction_style"));
        let unknown = with(&[("compression", 6)]);
        let failure = unknown.store_options(&unknown, Vec::new()).map(|_| ()).unwrap_err();
        assert!(failure.message.contains("Compression type 6"), "{}", failure.message);
    }
}
