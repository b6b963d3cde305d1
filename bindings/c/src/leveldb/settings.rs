//! LevelDB's options as Esker's: each by its alias, brought into the range LevelDB allows.

use std::sync::Arc;

use esker::fs::Fs;
use esker::{Comparator, FilterPolicy, KeyOrder, Options};

use crate::failure::Outcome;

/// The name by which LevelDB knows the bytewise order.
const BYTEWISE: &str = "leveldb.BytewiseComparator";
/// LevelDB's block cache when none is given.
const CACHE_BYTES: usize = 8 << 20;
/// LevelDB's file size; one that was not chosen is Esker's to choose.
const FILE_BYTES: usize = 2 << 20;

/// Which filter the files get.
#[derive(Clone, Default)]
pub enum Filter {
    /// None was named: Esker's own.
    #[default]
    Unnamed,
    /// A Bloom filter of this many bits a key.
    Bloom(i32),
    /// The caller's.
    Custom(Arc<dyn FilterPolicy>),
}

/// LevelDB's options, with its defaults.
#[derive(Clone)]
pub struct Settings {
    pub comparator: Option<Arc<dyn Comparator>>,
    pub filter: Filter,
    pub create_if_missing: bool,
    pub error_if_exists: bool,
    pub write_buffer_size: usize,
    pub max_open_files: i32,
    pub cache_bytes: Option<usize>,
    pub block_size: usize,
    pub block_restart_interval: i32,
    pub max_file_size: usize,
    pub compression: i32,
    pub fs: Option<Arc<dyn Fs>>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            comparator: None,
            filter: Filter::Unnamed,
            create_if_missing: false,
            error_if_exists: false,
            write_buffer_size: 4 << 20,
            max_open_files: 1000,
            cache_bytes: None,
            block_size: 4 << 10,
            block_restart_interval: 16,
            max_file_size: FILE_BYTES,
            compression: 1,
            fs: None,
        }
    }
}

impl Settings {
    /// Esker's options for these.
    pub fn to_options(&self) -> Outcome<Options> {
        let mut options = Options::default();
        let mut set = |name: &str, value: String| options.set(name, &value);
        set("create_if_missing", self.create_if_missing.to_string())?;
        set("error_if_exists", self.error_if_exists.to_string())?;
        set("write_buffer_size", self.write_buffer_size.clamp(64 << 10, 1 << 30).to_string())?;
        set("max_open_files", self.max_open_files.clamp(74, 50_000).to_string())?;
        set("cache_size", self.cache_bytes.unwrap_or(CACHE_BYTES).min(1 << 40).to_string())?;
        set("block_size", self.block_size.clamp(1 << 10, 4 << 20).to_string())?;
        set("block_restart_interval", self.block_restart_interval.clamp(1, 65_536).to_string())?;
        if self.max_file_size != FILE_BYTES {
            set("max_file_size", self.max_file_size.clamp(1 << 20, 1 << 30).to_string())?;
        }
        let compression = if self.compression == 0 { "none" } else { "snappy" };
        set("compression", compression.into())?;
        let order = self.order();
        let bits = match &self.filter {
            Filter::Bloom(bits) => Some((*bits).clamp(1, 64)),
            // Keys that a foreign order calls equal may differ in bytes; only a filter that the
            // caller chose for that order can know.
            Filter::Unnamed if matches!(order, KeyOrder::Custom(_)) => Some(0),
            Filter::Unnamed | Filter::Custom(_) => None,
        };
        if let Some(bits) = bits {
            set("bloom_bits", bits.to_string())?;
        }
        options.key_order = order;
        if let Filter::Custom(policy) = &self.filter {
            options.filter_policy = Some(policy.clone());
        }
        Ok(options)
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
    fn values_are_brought_into_range_and_reach_their_knobs() {
        let settings = Settings {
            write_buffer_size: 1,
            max_open_files: -1,
            cache_bytes: Some(usize::MAX),
            block_size: usize::MAX,
            block_restart_interval: -3,
            max_file_size: 0,
            compression: 0,
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
    fn what_was_not_chosen_is_eskers_to_choose() {
        let options = Settings::default().to_options().unwrap();
        let plain = Options::default();
        assert_eq!(options.file_size_max_bytes, plain.file_size_max_bytes);
        assert_eq!(options.filter_bits_per_key, plain.filter_bits_per_key);
        assert_eq!(options.get("compression").unwrap(), "snappy");
        assert_eq!(options.key_order.name(), "esker.bytewise");
    }
}
