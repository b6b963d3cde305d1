//! One row per knob: name, type, unit, default, range, when it can change, other names, words.
//!
//! The rows make the fields of [`Options`], the parser of flags and properties, and
//! `docs/options.md`. A knob that is not here does not exist.

use super::kinds::*;
use super::value::{KnobValue, Range};
use crate::base::units::{GIB, KIB, MIB};

/// When a knob can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// At each opening of the store.
    Open,
    /// Also while the store is open, through [`crate::Db::set_option`].
    Live,
}

impl When {
    /// The word in the documentation.
    pub fn name(self) -> &'static str {
        match self {
            When::Open => "at open",
            When::Live => "while open",
        }
    }
}

/// What the documentation, the command line and the bindings know of a knob.
#[derive(Debug, Clone)]
pub struct Knob {
    /// The field of [`Options`] and the flag.
    pub name: &'static str,
    /// What a number counts; empty for words and switches.
    pub unit: &'static str,
    /// The default as text; `auto` is worked out at open.
    pub default: String,
    /// What is allowed.
    pub range: Range,
    /// When it can change.
    pub when: When,
    /// What it does.
    pub doc: &'static str,
    /// The names other stores and papers give it.
    pub aliases: &'static [&'static str],
}

/// Makes [`Options`] and its reflection from the rows.
macro_rules! rows {
    ($( $name:ident : $type:ty = $default:expr, $min:expr => $max:expr, $unit:literal, $when:ident,
        [$($alias:literal),*], $doc:literal; )+) => {
        /// How a store is opened and behaves: one field per knob (see `docs/options.md`).
        ///
        /// ```
        /// let mut options = esker::Options::default();
        /// options.block_size_bytes = 8192;
        /// options.set("bloom_bits", "12").unwrap();
        /// assert_eq!(options.get("filter_bits_per_key").unwrap(), "12");
        /// ```
        #[derive(Clone)]
        pub struct Options {
            $( #[doc = $doc] pub $name: $type, )+
            /// The order of keys. Fixed at creation: its name is kept in the manifest.
            pub key_order: crate::base::order::KeyOrder,
            /// A filter of the user's own instead of the Bloom filter. Its name is kept in each file.
            pub filter_policy: Option<std::sync::Arc<dyn crate::base::filter_policy::FilterPolicy>>,
        }

        impl Default for Options {
            fn default() -> Options {
                Options {
                    $( $name: $default, )+
                    key_order: crate::base::order::KeyOrder::Bytewise,
                    filter_policy: None,
                }
            }
        }

        /// Every knob, in the order of the documentation.
        pub static KNOBS: std::sync::LazyLock<Vec<Knob>> = std::sync::LazyLock::new(|| vec![
            $( Knob {
                name: stringify!($name), unit: $unit,
                default: <$type as KnobValue>::print(&$default),
                range: <$type as KnobValue>::range($min as f64, $max as f64),
                when: When::$when, doc: $doc, aliases: &[$($alias),*],
            }, )+
        ]);

        impl Options {
            pub(super) fn set_row(&mut self, name: &str, text: &str) -> Option<()> {
                match name {
                    $( stringify!($name) => {
                        let value = <$type as KnobValue>::parse(text)?;
                        if !<$type as KnobValue>::range($min as f64, $max as f64).allows(&value.measure()) {
                            return None;
                        }
                        self.$name = value;
                    } )+
                    _ => return None,
                }
                Some(())
            }

            pub(super) fn get_row(&self, name: &str) -> Option<String> {
                match name { $( stringify!($name) => Some(self.$name.print()), )+ _ => None }
            }

            /// The first knob whose value is out of its range.
            pub(super) fn row_out_of_range(&self) -> Option<&'static str> {
                $( if !<$type as KnobValue>::range($min as f64, $max as f64).allows(&self.$name.measure()) {
                    return Some(stringify!($name));
                } )+
                None
            }
        }
    };
}

rows! {
    create_if_missing: bool = true, 0 => 1, "", Open, [],
        "Create the store when the directory does not hold one.";
    error_if_exists: bool = false, 0 => 1, "", Open, [],
        "Refuse to open a store that exists.";
    memory_budget_bytes: Option<u64> = None, MIB => 1024 * GIB, "bytes", Open, [],
        "Bounds memtables, block cache, filters and indexes together. `auto`: a quarter of the machine's memory, at most 1 GiB, or what the memtables and the cache asked for need.";
    durability: Durability = Durability::Buffered, 0 => 0, "", Live, ["sync"],
        "How a write survives unless it says otherwise.";
    sync_every_ms: u64 = 0, 0 => 3_600_000, "milliseconds", Live, [],
        "Sync the log in the background at least this often; 0 leaves it to `sync` writes and the operating system.";
    wal_io: WalIo = WalIo::Mmap, 0 => 0, "", Live, [],
        "How a log record reaches the operating system; applies from the next log on. `mmap` is `write` where mapping a log was not tried (btrfs, FUSE, network file systems) or cannot be done: see docs/durability.md, which also says what it does with SIGBUS.";
    memtable_size_bytes: Option<u64> = None, 4 * KIB => 4 * GIB, "bytes", Live,
        ["write_buffer_size", "memtable_approximate_max_size_in_bytes", "maxMemtableSize"],
        "A memtable of this size is frozen and flushed. `auto`: 64 MiB, at most an eighth of the memory budget.";
    memtable_kind: MemtableKind = MemtableKind::Btree, 0 => 0, "", Live, ["memtable", "memTableType"],
        "The structure that takes the writes in memory; applies from the next memtable on.";
    frozen_memtables_max: u64 = 3, 1 => 64, "memtables", Live, ["max_write_buffer_number"],
        "How many frozen memtables may wait for their flush before writers wait too.";
    block_size_bytes: u64 = 4 * KIB, 64 => 64 * MIB, "bytes", Live,
        ["block_size", "sstable_index_block_size_in_bytes"],
        "A data block is closed when its uncompressed entries reach this size.";
    block_layout: BlockLayout = BlockLayout::Columnar, 0 => 0, "", Live, [],
        "How entries lie in a data block; `columnar` needs the bytewise order, other orders take `delta`.";
    restart_interval: u64 = 16, 1 => 65_536, "entries", Live, ["block_restart_interval"],
        "In a `delta` block, how many entries lie between whole keys.";
    compression: Compression = Compression::Lz4, 0 => 0, "", Live, [],
        "Compression of blocks.";
    compression_upper: Option<Compression> = None, 0 => 0, "", Live, [],
        "Compression of blocks in levels 0 and 1; `auto` is that of the others.";
    compression_level: u64 = 3, 1 => 22, "", Live, ["zstd_compression_level"],
        "The effort of `zstd`.";
    index_search: IndexSearch = IndexSearch::Btree, 0 => 0, "", Open, ["sstSearch"],
        "How a table's index is searched.";
    index_fanout: u64 = 16, 2 => 1024, "children", Open, ["btreeFanout"],
        "The fan-out of the `btree` index; more than 256 count as 256.";
    filter_bits_per_key: f64 = 10.0, 0 => 64, "bits", Live,
        ["bloom_bits", "filter_bits", "filterBitsPerEntry"],
        "Bloom filter bits per key in new files; 0 makes none.";
    file_size_max_bytes: u64 = 64 * MIB, 4 * KIB => 64 * GIB, "bytes", Live,
        ["max_file_size", "sstable_approximate_max_size_in_bytes", "target_file_size_base"],
        "A table is closed when it reaches this size.";
    keep_files_open: bool = true, 0 => 1, "", Open, ["keep_sstable_file_open"],
        "Keep table files open between reads.";
    open_files_max: u64 = 1000, 0 => 1_000_000, "files", Open, ["max_open_files"],
        "Above this many open tables, further ones are opened for each read.";
    policy: Policy = Policy::Fluid, 0 => 0, "", Live, ["compaction_style"],
        "How files are arranged and merged.";
    auto_compaction: bool = true, 0 => 1, "", Live, ["sstManager"],
        "Compact in the background. Off, level 0 grows and only `compact_range` merges.";
    merge_on_seeks: bool = true, 0 => 1, "", Live, ["seek_compaction"],
        "Merge a guard into one run in the background once it was sought often in several, and flush a \
         memtable that is sought often while nobody writes.";
    fan_out: u64 = 8, 2 => 1024, "", Live, ["max_bytes_for_level_multiplier", "level_fan_out"],
        "How many times larger each level is than the one above; in `tiered` and `lazy` how many runs make the next level's.";
    l0_runs_max: u64 = 4, 1 => 1024, "runs", Live, ["level0_file_num_compaction_trigger"],
        "Level 0 is pushed down at this many runs.";
    runs_max: u64 = 8, 1 => 1024, "runs", Live, ["max_files_per_guard", "num_sstable_to_compact"],
        "In `fragmented` and `fluid`, a guard of an inner level is pushed at this many runs.";
    last_runs_max: u64 = 8, 1 => 1024, "runs", Live, [],
        "In `fluid`, small runs of a last-level guard are merged among themselves beyond this many runs.";
    alpha: f64 = 1.0, 0.01 => 100.0, "", Live, [],
        "In `fluid`, a last-level guard is merged whole once its small runs reach this share of its base.";
    guard_size_max_bytes: u64 = 128 * MIB, 4 * KIB => 64 * GIB, "bytes", Live, [],
        "A guard is split when a merge leaves it larger than this.";
    guard_piece_min_bytes: u64 = 8 * MIB, KIB => GIB, "bytes", Live, [],
        "New guards are not cut smaller than this.";
    manifest_size_min_bytes: u64 = MIB, 256 => GIB, "bytes", Open, ["max_manifest_file_size"],
        "The manifest is rewritten beyond this size, once it is twice its content.";
    verify_tables: bool = true, 0 => 1, "", Live, ["paranoid_file_checks"],
        "Read each new table back and compare it with what was written before it is used.";
    scrub_bytes_per_second: u64 = 0, 0 => 1024 * GIB, "bytes a second", Live, [],
        "How fast every table, log and manifest is read again in the background and compared with its checksums; what is found is in the metrics. 0 reads none. Has no effect without background threads.";
    background_threads: Option<u64> = None, 0 => 256, "threads", Open, ["max_background_jobs"],
        "Threads that compact; one more flushes, and others that mostly sleep sync, scrub, remove files, look for skip hints and make memory and logs ahead. `auto`: the machine's cores less one, at least one. 0 starts none: the writer that fills a memtable flushes, compaction is done by `run_one_job`, and `sync_every_ms` has no effect.";
    debt_limit_bytes: Option<u64> = None, 64 * KIB => 1024 * GIB, "bytes", Live, ["soft_pending_compaction_bytes_limit"],
        "Writers are slowed smoothly as the bytes waiting to be pushed approach this. `auto`: 24 memtables.";
    cache_size_bytes: Option<u64> = None, 0 => 1024 * GIB, "bytes", Live,
        ["cache_size", "block_cache_size", "bufferPoolMaxSize"],
        "The block cache, up to a quarter of it for outlines that spare seeks into several runs most \
         of the blocks. `auto`: half the memory budget.";
    cache_policy: CachePolicy = CachePolicy::S3Fifo, 0 => 0, "", Live, ["bufferPoolType"],
        "Which block leaves a full cache.";
}
