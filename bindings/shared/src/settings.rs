//! Conversion of LevelDB's options to Esker's: by alias, clamped to LevelDB's ranges.
//!
//! Invariants:
//! 1. An unset option keeps Esker's default.
//! 2. [`Settings::default`] has the defaults of LevelDB's headers.

use std::sync::Arc;

use esker::fs::Fs;
use esker::{Comparator, Compression, FilterPolicy, KeyOrder, Options, Result};

/// LevelDB's name of the bytewise order.
const BYTEWISE: &str = "leveldb.BytewiseComparator";
/// Size of LevelDB's default block cache, in bytes.
const CACHE_BYTES: usize = 8 << 20;
/// LevelDB's default file size, in bytes. This value counts as unset, so Esker's default applies.
const FILE_BYTES: usize = 2 << 20;

/// Filter of the tables.
#[derive(Clone, Default)]
pub enum Filter {
    /// Unset: Esker's default filter.
    #[default]
    Unnamed,
    /// A Bloom filter, in bits per key.
    Bloom(i32),
    /// The caller's filter policy.
    Custom(Arc<dyn FilterPolicy>),
}

/// LevelDB's options. `None` keeps Esker's default.
#[derive(Clone)]
pub struct Settings {
    /// Key order; bytewise if `None`.
    pub comparator: Option<Arc<dyn Comparator>>,
    /// Filter of the tables.
    pub filter: Filter,
    /// Create the store if it is missing.
    pub create_if_missing: bool,
    /// Fail if the store exists.
    pub error_if_exists: bool,
    /// Memtable size, in bytes.
    pub write_buffer_size: Option<usize>,
    /// Maximum number of open files.
    pub max_open_files: Option<i32>,
    /// Block cache size, in bytes.
    pub cache_bytes: Option<usize>,
    /// Block size before compression, in bytes.
    pub block_size: Option<usize>,
    /// Number of entries between restart points of a block.
    pub block_restart_interval: Option<i32>,
    /// Maximum file size, in bytes.
    pub max_file_size: Option<usize>,
    /// Block compression.
    pub compression: Option<Compression>,
    /// File system of the store; the operating system's if `None`.
    pub fs: Option<Arc<dyn Fs>>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            write_buffer_size: Some(4 << 20),
            max_open_files: Some(1000),
            cache_bytes: Some(CACHE_BYTES),
            block_size: Some(4 << 10),
            block_restart_interval: Some(16),
            max_file_size: Some(FILE_BYTES),
            compression: Some(Compression::Snappy),
            ..Settings::unset()
        }
    }
}

impl Settings {
    /// Returns settings with everything unset, except that `create_if_missing` is off.
    pub fn unset() -> Settings {
        Settings {
            comparator: None,
            filter: Filter::Unnamed,
            create_if_missing: false,
            error_if_exists: false,
            write_buffer_size: None,
            max_open_files: None,
            cache_bytes: None,
            block_size: None,
            block_restart_interval: None,
            max_file_size: None,
            compression: None,
            fs: None,
        }
    }

    /// Converts the settings to Esker's options.
    ///
    /// # Errors
    /// `InvalidArgument` if a range here disagrees with the option table.
    pub fn to_options(&self) -> Result<Options> {
        let mut options = Options::default();
        let mut set = |name: &str, value: Option<String>| match value {
            Some(value) => options.set(name, &value),
            None => Ok(()),
        };
        let bytes = |size: Option<usize>, min: usize, max: usize| {
            size.map(|size| size.clamp(min, max).to_string())
        };
        let count = |number: Option<i32>, min: i32, max: i32| {
            number.map(|number| number.clamp(min, max).to_string())
        };
        set("create_if_missing", Some(self.create_if_missing.to_string()))?;
        set("error_if_exists", Some(self.error_if_exists.to_string()))?;
        set("write_buffer_size", bytes(self.write_buffer_size, 64 << 10, 1 << 30))?;
        set("max_open_files", count(self.max_open_files, 74, 50_000))?;
        set("cache_size", bytes(self.cache_bytes, 0, 1 << 40))?;
        set("block_size", bytes(self.block_size, 1 << 10, 4 << 20))?;
        set("block_restart_interval", count(self.block_restart_interval, 1, 65_536))?;
        let file = self.max_file_size.filter(|size| *size != FILE_BYTES);
        set("max_file_size", bytes(file, 1 << 20, 1 << 30))?;
        set("compression", self.compression.map(|kind| kind.name().to_string()))?;
        let order = self.order();
        set("bloom_bits", self.filter_bits(&order).map(|bits| bits.to_string()))?;
        options.key_order = order;
        if let Filter::Custom(policy) = &self.filter {
            options.filter_policy = Some(policy.clone());
        }
        Ok(options)
    }

    fn filter_bits(&self, order: &KeyOrder) -> Option<i32> {
        match &self.filter {
            Filter::Bloom(bits) => Some((*bits).clamp(1, 64)),
            // Keys that are equal in a custom order may differ in bytes. Only a filter chosen by
            // the caller for that order can handle such keys.
            Filter::Unnamed if matches!(order, KeyOrder::Custom(_)) => Some(0),
            Filter::Unnamed | Filter::Custom(_) => None,
        }
    }

    fn order(&self) -> KeyOrder {
        match &self.comparator {
            Some(comparator) if comparator.name() != BYTEWISE => {
                KeyOrder::Custom(comparator.clone())
            }
            _ => KeyOrder::Bytewise,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_clamped_and_set_their_options() {
        let settings = Settings {
            write_buffer_size: Some(1),
            max_open_files: Some(-1),
            cache_bytes: Some(usize::MAX),
            block_size: Some(usize::MAX),
            block_restart_interval: Some(-3),
            max_file_size: Some(0),
            compression: Some(Compression::None),
            filter: Filter::Bloom(-2),
            ..Settings::default()
        };
        let options = settings.to_options().unwrap();
        options.validate().unwrap();
        let text = |name: &str| options.get(name).unwrap();
        assert_eq!(options.memtable_size_bytes, Some(64 << 10));
        assert_eq!(options.open_files_max, 74);
        assert_eq!(options.cache_size_bytes, Some(1 << 40));
        assert_eq!(options.block_size_bytes, 4 << 20);
        assert_eq!(options.restart_interval, 1);
        assert_eq!(options.file_size_max_bytes, 1 << 20);
        assert_eq!(text("compression"), "none");
        assert_eq!(options.filter_bits_per_key, 1.0);
        assert!(!options.create_if_missing);
    }

    #[test]
    fn default_settings_keep_esker_file_size_and_filter() {
        let options = Settings::default().to_options().unwrap();
        let plain = Options::default();
        assert_eq!(options.file_size_max_bytes, plain.file_size_max_bytes);
        assert_eq!(options.filter_bits_per_key, plain.filter_bits_per_key);
        assert_eq!(options.get("compression").unwrap(), "snappy");
        assert_eq!(format!("{:?}", options.key_order), "KeyOrder(esker.bytewise)");
    }

    #[test]
    fn unset_settings_equal_esker_defaults() {
        let (unset_options, plain) = (Settings::unset().to_options().unwrap(), Options::default());
        for option in
            esker::schema::OPTIONS.iter().filter(|option| option.name != "create_if_missing")
        {
            assert_eq!(unset_options.get(option.name), plain.get(option.name), "{}", option.name);
        }
    }
}
