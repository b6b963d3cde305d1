//! The option table. Each row has the name, type, unit, default, range, mutability, aliases and
//! text.
//!
//! The rows generate the fields of [`Options`], the parser of flags and properties, and
//! `docs/options.md`. An option that is not here does not exist.

use super::kinds::*;
use super::value::{OptionValue, Range};
use crate::base::format_version::FormatVersion;
use crate::base::units::{GIB, KIB, MIB};

/// Mutability of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutability {
    /// Fixed while the store is open. It can differ at each open.
    Open,
    /// Changeable while the store is open, through [`crate::Db::set_options`].
    Live,
}

impl Mutability {
    fn name(self) -> &'static str {
        match self {
            Mutability::Open => "at open",
            Mutability::Live => "while open",
        }
    }
}

impl std::fmt::Display for Mutability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Description of an option for the documentation, the command line and the bindings.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OptionSpec {
    /// Name of the field of [`Options`] and of the flag.
    pub name: &'static str,
    /// Unit of a number; empty for named values and booleans.
    pub unit: &'static str,
    /// Default as text. `auto` is resolved at open.
    pub default: String,
    /// Allowed values.
    pub range: Range,
    /// Mutability.
    pub mutability: Mutability,
    /// Description of the effect.
    pub doc: &'static str,
    /// Names of the same option in other stores and papers.
    pub aliases: &'static [&'static str],
}

/// Generates [`Options`] and its reflection from the rows.
macro_rules! rows {
    ($( $name:ident : $type:ty = $default:expr, $min:expr => $max:expr, $unit:literal, $when:ident,
        [$($alias:literal),*], $doc:literal; )+) => {
        /// Configuration of a store: one field per option (see `docs/options.md`).
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
            /// Key order. Fixed at creation: the manifest stores its name.
            pub key_order: crate::base::order::KeyOrder,
            /// Custom key orders that keyspaces of the store may have. A store with a keyspace of a
            /// custom order is opened only if the order is in this list.
            pub key_orders: Vec<crate::base::order::KeyOrder>,
            /// A user-supplied filter policy in place of the Bloom filter. Each file stores its
            /// name.
            pub filter_policy: Option<std::sync::Arc<dyn crate::base::filter_policy::FilterPolicy>>,
            /// The merge operator of the default keyspace:
            /// [`built_in_merge_operator`](crate::built_in_merge_operator) or a custom one. The
            /// manifest keeps its name. A store with a built-in operator needs no operator here
            /// when it is opened again. Without its custom operator a store opens, merges are
            /// refused, and reads of keys with operands return `Incompatible`. Another operator is
            /// refused.
            pub merge_operator:
                Option<std::sync::Arc<dyn crate::base::merge_operator::MergeOperator>>,
            /// Custom merge operators that keyspaces of the store name
            /// ([`KeyspaceOptions::merge_operator`](crate::KeyspaceOptions::merge_operator)).
            pub merge_operators:
                Vec<std::sync::Arc<dyn crate::base::merge_operator::MergeOperator>>,
            /// The compaction filter of the default keyspace. It is not stored.
            pub compaction_filter:
                Option<std::sync::Arc<dyn crate::base::compaction_filter::CompactionFilter>>,
            /// Compaction filters that keyspaces of the store name
            /// ([`KeyspaceOptions::compaction_filter`](crate::KeyspaceOptions::compaction_filter)).
            /// A keyspace whose filter is missing keeps every pair.
            pub compaction_filters:
                Vec<std::sync::Arc<dyn crate::base::compaction_filter::CompactionFilter>>,
            /// The clock by which pairs expire, and that dates forks. `None`: the clock of the
            /// system.
            pub clock: Option<std::sync::Arc<dyn crate::base::expiry::Clock>>,
            /// Listeners for the events of the store. Default: none.
            pub listeners: Vec<std::sync::Arc<dyn crate::observe::EventListener>>,
            /// What the store shares with other stores: threads, memory budget, block cache, and a
            /// limit on background writes. Default: none, the store has these for itself. With a
            /// runtime, `memory_budget_bytes`, `cache_size_bytes` and `cache_policy` have no effect,
            /// and `background_threads` has none unless it is 0.
            pub runtime: Option<crate::base::runtime::Runtime>,
            /// Thresholds, which tests lower. The field also makes `..Options::default()`
            /// necessary, so that a new option breaks no program.
            #[doc(hidden)]
            pub thresholds: crate::base::thresholds::Thresholds,
        }

        impl Default for Options {
            fn default() -> Options {
                Options {
                    $( $name: $default, )+
                    key_order: crate::base::order::KeyOrder::Bytewise,
                    key_orders: Vec::new(),
                    filter_policy: None,
                    merge_operator: None,
                    merge_operators: Vec::new(),
                    compaction_filter: None,
                    compaction_filters: Vec::new(),
                    clock: None,
                    listeners: Vec::new(),
                    runtime: None,
                    thresholds: crate::base::thresholds::Thresholds::default(),
                }
            }
        }

        /// All options, in the order of the documentation.
        pub static OPTIONS: std::sync::LazyLock<Vec<OptionSpec>> = std::sync::LazyLock::new(|| vec![
            $( OptionSpec {
                name: stringify!($name), unit: $unit,
                default: <$type as OptionValue>::print(&$default),
                range: <$type as OptionValue>::range($min as f64, $max as f64),
                mutability: Mutability::$when, doc: $doc, aliases: &[$($alias),*],
            }, )+
        ]);

        impl Options {
            pub(super) fn set_row(&mut self, name: &str, text: &str) -> Option<()> {
                match name {
                    $( stringify!($name) => {
                        let value = <$type as OptionValue>::parse(text)?;
                        if !<$type as OptionValue>::range($min as f64, $max as f64).allows(&value.measure()) {
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

            /// Returns the first option whose value is out of its range.
            pub(super) fn row_out_of_range(&self) -> Option<&'static str> {
                $( if !<$type as OptionValue>::range($min as f64, $max as f64).allows(&self.$name.measure()) {
                    return Some(stringify!($name));
                } )+
                None
            }
        }
    };
}

const OLDEST_FORMAT: u64 = FormatVersion::OLDEST.number() as u64;
const NEWEST_FORMAT: u64 = FormatVersion::NEWEST.number() as u64;

rows! {
    create_if_missing: bool = true, 0 => 1, "", Open, [],
        "Create the store if the directory does not contain one.";
    error_if_exists: bool = false, 0 => 1, "", Open, [],
        "Refuse to open an existing store.";
    format_version: u64 = NEWEST_FORMAT, OLDEST_FORMAT => NEWEST_FORMAT, "", Open, [],
        "Format version of a store that is created. `1` makes a store that earlier releases read and write too. An existing store keeps its version until `upgrade_format` raises it. docs/format.md says what each version brought.";
    memory_budget_bytes: Option<u64> = None, MIB => 1024 * GIB, "bytes", Open, [],
        "Limit on memtables, block cache, filters and indexes together. Filters and indexes have half of what memtables leave in memory as a whole; the others are read in partitions through the cache. `auto`: a quarter of the memory available to the process, which is the machine's memory or the lowest limit of its control groups (cgroup v1, v2); at least 4 MiB, and at most 1 GiB unless the configured memtables and cache need more. A store opened read-only also keeps the content of the logs in memory, in addition to this limit.";
    durability: Durability = Durability::Buffered, 0 => 0, "", Live, ["sync"],
        "Durability of a write that does not set its own.";
    sync_every_ms: u64 = 0, 0 => 3_600_000, "milliseconds", Live, [],
        "Maximum interval between background syncs of the log. 0 leaves syncing to `sync` writes and the operating system.";
    wal_io: WalIo = WalIo::Mmap, 0 => 0, "", Live, [],
        "Method that moves a log record to the operating system. Applies from the next log on. `mmap` acts as `write` where memory-mapping a log is untested (btrfs, FUSE, network file systems) or impossible. docs/durability.md describes this and the handling of SIGBUS.";
    memtable_size_bytes: Option<u64> = None, 4 * KIB => 4 * GIB, "bytes", Live,
        ["write_buffer_size", "memtable_approximate_max_size_in_bytes", "maxMemtableSize"],
        "Memtable size. A memtable of this size becomes immutable (frozen) and is flushed. `auto`: 64 MiB, but at most an eighth of the memory budget, rounded down to a multiple of 2 MiB if it is at least 2 MiB. An open replays up to `frozen_memtables_max` times this size from the logs into memory (1 + that without background threads) before it writes tables.";
    memtable_kind: MemtableKind = MemtableKind::Btree, 0 => 0, "", Live, ["memtable", "memTableType"],
        "Data structure of the memtable. Applies from the next memtable on.";
    frozen_memtables_max: u64 = 3, 1 => 64, "memtables", Live, ["max_write_buffer_number"],
        "Maximum number of immutable (frozen) memtables that wait for a flush. When the next memtable is full, writers stall.";
    block_size_bytes: u64 = 4 * KIB, 64 => 64 * MIB, "bytes", Live,
        ["block_size", "sstable_index_block_size_in_bytes"],
        "Data block size. A block is closed when its uncompressed entries reach this size.";
    block_layout: BlockLayout = BlockLayout::Columnar, 0 => 0, "", Live, [],
        "Layout of the entries in a data block. `columnar` needs the bytewise order; other orders use `delta`.";
    restart_interval: u64 = 16, 1 => 65_536, "entries", Live, ["block_restart_interval"],
        "Number of entries from one whole key (restart point) to the next in a `delta` block.";
    compression: Compression = Compression::DEFAULT, 0 => 0, "", Live, [],
        "Compression of data blocks.";
    compression_upper: Option<Compression> = None, 0 => 0, "", Live, [],
        "Compression of data blocks in levels 0 and 1. `auto`: the same as `compression`.";
    compression_level: u64 = 3, 1 => 22, "", Live, ["zstd_compression_level"],
        "Compression level of `zstd`.";
    compression_dictionary_max_bytes: u64 = 0, 0 => 1_048_576, "bytes", Live,
        ["max_dict_bytes", "compression_opts.max_dict_bytes"],
        "Maximum size of the dictionary that a table has for the compression `zstd`, trained from its first blocks. It makes tables of small similar values smaller; 16384 suits most. 0: no dictionaries. A table of few blocks, or with blocks that a dictionary does not make smaller, has none. Each open table keeps its dictionary in memory.";
    value_separation_min_bytes: ValueSeparation = ValueSeparation::DEFAULT, 0 => GIB, "bytes", Live,
        ["min_blob_size"],
        "Length from which values are kept in value files, apart from their keys. Flushes and compactions then write a large value once, and move a pointer of about 20 bytes afterwards. 4096 suits values that are overwritten and mostly read one by one. Applies to what flushes and compactions write from then on. Values in value files are not compressed. Their garbage is rewritten in the background when the files hold more than 1.4 times what tables point to. An iterator reads the value of each key that it stops at. Merge operands, pairs that expire and ingested pairs keep their values in tables; a compaction separates the ingested ones. `off`: all values are in tables, and no new ones are separated.";
    index_search: IndexSearch = IndexSearch::Btree, 0 => 0, "", Open, ["sstSearch"],
        "Search method of a table's index.";
    index_fanout: u64 = 16, 2 => 1024, "children", Open, ["btreeFanout"],
        "Fan-out of the `btree` index. Values above 256 act as 256.";
    filter_bits_per_key: f64 = 10.0, 0 => 64, "bits", Live,
        ["bloom_bits", "filter_bits", "filterBitsPerEntry"],
        "Bloom filter bits per key in new files. 0 disables the filter.";
    file_size_max_bytes: u64 = 64 * MIB, 4 * KIB => 64 * GIB, "bytes", Live,
        ["max_file_size", "sstable_approximate_max_size_in_bytes", "target_file_size_base"],
        "Table file size. A table is closed when it reaches this size.";
    keep_files_open: bool = true, 0 => 1, "", Open, ["keep_sstable_file_open"],
        "Keep table files open between reads.";
    direct_io: bool = false, 0 => 1, "", Open, ["use_direct_reads"],
        "Read tables past the page cache of the system, and keep in it nothing of what flushes and compactions write. The block cache is then the only one, so give it the memory. Where data are larger than memory, a read then costs a device read of one or two pages. Logs, value files and encrypted files go through the page cache, as do tables on a file system without such reads.";
    open_files_max: u64 = 1000, 0 => 1_000_000, "files", Open, ["max_open_files"],
        "Maximum number of table files that stay open. The files of further tables are opened for each read.";
    policy: Policy = Policy::Fluid, 0 => 0, "", Live, ["compaction_style"],
        "Compaction policy: the arrangement and merging of files.";
    auto_compaction: bool = true, 0 => 1, "", Live, ["sstManager"],
        "Compact in the background. If off, level 0 grows and only `compact_range` merges.";
    merge_on_seeks: bool = true, 0 => 1, "", Live, ["seek_compaction"],
        "Merge a guard into one run in the background after many seeks into several of its runs. Flush a \
         memtable after many seeks into it while there are no writes.";
    rest_compaction: bool = true, 0 => 1, "", Live, [],
        "While the store is not written for two seconds, flush the memtable if it holds at least a sixteenth of its size and 1 MiB, and merge runs in the background until a read meets one run, as after `compact_range`. Each merge takes about `file_size_max_bytes`. The next write stops it within milliseconds. Until then no key is written twice, and in all rest compactions write no more than flushes wrote. After an opening they also write up to four times what lies unmerged. They do not begin while other programs keep the processors or the device busy. `wait_idle` does not wait for them. No effect without background threads or `auto_compaction`.";
    fan_out: u64 = 8, 2 => 1024, "", Live, ["max_bytes_for_level_multiplier", "level_fan_out"],
        "Size ratio between a level and the level above it. In `tiered` and `lazy`: number of runs that are merged into one run of the next level.";
    l0_runs_max: u64 = 4, 1 => 1024, "runs", Live, ["level0_file_num_compaction_trigger"],
        "Number of level-0 runs that triggers a push to the next level.";
    runs_max: u64 = 8, 1 => 1024, "runs", Live, ["max_files_per_guard", "num_sstable_to_compact"],
        "In `fragmented` and `fluid`: number of runs that triggers a push of an inner-level guard.";
    last_runs_max: u64 = 8, 1 => 1024, "runs", Live, [],
        "In `fluid`: maximum number of runs in a last-level guard. Beyond it, the guard's small runs are merged with each other.";
    base_rewrite_ratio: f64 = 1.0, 0.01 => 100.0, "", Live, ["alpha"],
        "In `fluid`: a last-level guard is merged completely when its small runs reach this fraction of its base.";
    space_amplification_max: Option<f64> = Some(1.6), 1.1 => 100.0, "", Live, ["max_size_amplification_percent"],
        "Bound on the bytes of the tables divided by the bytes of the newest state. Samples of keys in the tables estimate the latter. Merges that reclaim space begin at three quarters of the allowed surplus, and writers are slowed beyond the bound, most at 1.1 times the bound. A lower bound costs write amplification where keys are overwritten or deleted, and nothing where they are not. A tree with less than 1 MiB of tables is not bounded. What snapshots keep, logs, and the output of running compactions come on top. `off`: no bound, the lowest write amplification.";
    guard_size_max_bytes: u64 = 128 * MIB, 4 * KIB => 64 * GIB, "bytes", Live, [],
        "Maximum guard size. A guard that a merge leaves larger is split. The effective minimum is a sixteenth of the memtable size or of `file_size_max_bytes`, whichever is smaller.";
    guard_piece_min_bytes: u64 = 8 * MIB, KIB => GIB, "bytes", Live, [],
        "Minimum size of a new guard. The effective minimum of `guard_size_max_bytes` applies here too.";
    manifest_size_min_bytes: u64 = MIB, 256 => GIB, "bytes", Open, ["max_manifest_file_size"],
        "The manifest is rewritten when it is larger than this and twice the size of its content.";
    verify_tables: bool = true, 0 => 1, "", Live, ["paranoid_file_checks"],
        "Read each new table back before its first use and compare it with the written data.";
    scrub_bytes_per_second: u64 = 0, 0 => 1024 * GIB, "bytes a second", Live, [],
        "Scrub rate. A background thread reads every table, log and manifest at this rate and verifies the checksums. The metrics report the findings. 0 disables the scrub. No effect without background threads.";
    log_file: bool = true, 0 => 1, "", Open, [],
        "Write what the store does, in sentences, to the file `LOG` in its directory: openings with their options and what recovery found, flushes, compactions with their reason, write stalls of 1 ms or more, errors, findings of the scrub, closes. A file that would exceed 1 MiB is renamed to `LOG.old`, which replaces the previous one. Nothing is synced. A line that cannot be written is lost and counted, and no call fails. A store opened read-only writes nothing.";
    status_file: bool = true, 0 => 1, "", Open, [],
        "Publish the metrics in the file `STATUS` in the store's directory, for `esker stats --live` and `esker top`. The file has 8 KiB. It is written when the store is opened, then once a second, or every ten seconds while nothing changes, and removed when the store is closed. With `background_threads=0` it is written only after flushes and compactions. Nothing is synced. A failed update is counted, and no call fails. A store opened read-only writes nothing.";
    background_threads: Option<u64> = None, 0 => 256, "threads", Open, ["max_background_jobs"],
        "Maximum number of compaction threads. One starts when the store is opened, each further one when there is work for it. One more thread flushes. Further threads sync, scrub, remove files, search empty-range hints, and preallocate memory and logs. They start when they are first needed and run until the store is closed. `auto`: the number of cores minus one, at least one. 0 starts no threads: the writer that fills a memtable flushes it, `run_one_job` compacts, and `sync_every_ms` has no effect.";
    debt_limit_bytes: Option<u64> = None, 64 * KIB => 1024 * GIB, "bytes", Live, ["soft_pending_compaction_bytes_limit"],
        "Compaction debt limit. The debt is the number of bytes that still have to be flushed, pushed or merged. As it rises from half of this limit to the limit, the write throttle slows writers gradually. `auto`: the size of 24 memtables.";
    cache_size_bytes: Option<u64> = None, 0 => 1024 * GIB, "bytes", Live,
        ["cache_size", "block_cache_size", "bufferPoolMaxSize"],
        "Size of the block cache. Block sketches take up to a quarter of it; they spare seeks over \
         several runs most of the block reads. `auto`: half the memory budget.";
    cache_policy: CachePolicy = CachePolicy::S3Fifo, 0 => 0, "", Live, ["bufferPoolType"],
        "Replacement policy of the block cache.";
}
