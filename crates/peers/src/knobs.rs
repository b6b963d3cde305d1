//! The knobs of each engine, as data: names, default values and the values that the tuner tries.
//!
//! Esker's knobs name rows of its option table, which has their defaults. The other engines' knobs are
//! the options that their adapters set.
//! Options that weaken what a write or a read promises (durability, checksums, verification) are no
//! knobs.

use esker_lab::error::{LabError, Result};
use esker_lab::run::config::bytes_of;
use esker_lab::tune::knob::{Knob, KnobTable, Role, powers};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Memory of memtables and cache together, if neither the default set nor the user asks for more.
const MEMORY_BYTES: u64 = 128 * MIB;

/// Values of a knob.
enum Levels {
    /// Powers of two, from and to.
    Powers(u64, u64),
    /// These values, in order.
    Numbers(&'static [&'static str]),
    /// These names.
    Words(&'static [&'static str]),
}

/// One knob: name, flag, default, purpose, values.
type Row = (&'static str, &'static str, &'static str, Role, Levels);

const FILTERS: Levels = Levels::Numbers(&["0", "6", "8", "10", "12", "16"]);
const RESTARTS: Levels = Levels::Powers(1, 64);
const BLOCKS: Levels = Levels::Powers(KIB, 64 * KIB);
const FILES: Levels = Levels::Powers(MIB, 128 * MIB);

/// LevelDB's options (`include/leveldb/options.h`). It holds one memtable and writes another.
const LEVELDB: &[Row] = &[
    (
        "write_buffer_size",
        "write_buffer_size",
        "4194304",
        Role::Memtable(2),
        Levels::Powers(MIB, 64 * MIB),
    ),
    ("max_file_size", "max_file_size", "2097152", Role::File, FILES),
    ("cache_size", "cache_size", "8388608", Role::Cache, Levels::Powers(MIB, 1024 * MIB)),
    ("block_size", "block_size", "4096", Role::Block, BLOCKS),
    ("block_restart_interval", "block_restart_interval", "16", Role::Other, RESTARTS),
    ("filter_bits", "filter_bits", "0", Role::Filter, FILTERS),
    ("compression", "compression", "snappy", Role::Compression, Levels::Words(&["none", "snappy"])),
];

/// RocksDB's options (`include/rocksdb/options.h`, `table.h`), with `max_write_buffer_number` at 2.
const ROCKSDB: &[Row] = &[
    (
        "write_buffer_size",
        "write_buffer_size",
        "67108864",
        Role::Memtable(2),
        Levels::Powers(MIB, 256 * MIB),
    ),
    ("target_file_size_base", "max_file_size", "67108864", Role::File, FILES),
    ("block_cache_size", "cache_size", "8388608", Role::Cache, Levels::Powers(MIB, 1024 * MIB)),
    ("block_size", "block_size", "4096", Role::Block, BLOCKS),
    ("block_restart_interval", "block_restart_interval", "16", Role::Other, RESTARTS),
    ("filter_bits", "filter_bits", "0", Role::Filter, FILTERS),
    (
        "compression",
        "compression",
        "snappy",
        Role::Compression,
        Levels::Words(&["none", "snappy", "lz4"]),
    ),
    (
        "data_block_index_type",
        "rocksdb.data_block_index_type",
        "binary_search",
        Role::Other,
        Levels::Words(&["binary_search", "binary_search_and_hash"]),
    ),
    (
        "compaction_style",
        "rocksdb.compaction_style",
        "level",
        Role::Other,
        Levels::Words(&["level", "universal"]),
    ),
    (
        "level0_file_num_compaction_trigger",
        "rocksdb.level0_file_num_compaction_trigger",
        "4",
        Role::Other,
        Levels::Powers(1, 16),
    ),
    (
        "max_background_jobs",
        "rocksdb.max_background_jobs",
        "2",
        Role::Other,
        Levels::Numbers(&["2", "4", "6"]),
    ),
    (
        "allow_concurrent_memtable_write",
        "rocksdb.allow_concurrent_memtable_write",
        "true",
        Role::Other,
        Levels::Words(&["true", "false"]),
    ),
    (
        "memtable_prefix_bloom_size_ratio",
        "rocksdb.memtable_prefix_bloom_size_ratio",
        "0",
        Role::Other,
        Levels::Numbers(&["0", "0.02", "0.1"]),
    ),
];

/// fjall's options.
const FJALL: &[Row] = &[
    (
        "max_memtable_size",
        "write_buffer_size",
        "16777216",
        Role::Memtable(2),
        Levels::Powers(MIB, 64 * MIB),
    ),
    ("cache_size", "cache_size", "33554432", Role::Cache, Levels::Powers(MIB, 1024 * MIB)),
    ("data_block_size", "block_size", "4096", Role::Block, BLOCKS),
    ("restart_interval", "block_restart_interval", "16", Role::Other, RESTARTS),
    ("filter_bits", "filter_bits", "10", Role::Filter, FILTERS),
    ("compression", "compression", "lz4", Role::Compression, Levels::Words(&["none", "lz4"])),
];

/// WiredTiger's options: `cache_size` of the connection, `leaf_page_max` and `block_compressor` of the
/// table. The adapter gives inner pages the size of the leaves.
const WIREDTIGER: &[Row] = &[
    ("cache_size", "cache_size", "104857600", Role::Cache, Levels::Powers(4 * MIB, 1024 * MIB)),
    ("leaf_page_max", "block_size", "32768", Role::Block, Levels::Powers(KIB, 256 * KIB)),
    (
        "block_compressor",
        "compression",
        "none",
        Role::Compression,
        Levels::Words(&["none", "snappy"]),
    ),
];

/// The further options of WiredTiger's log-structured tree: the size of a chunk, which is its memtable,
/// and the bits of its filters.
const WIREDTIGER_LSM: &[Row] = &[
    (
        "chunk_size",
        "write_buffer_size",
        "10485760",
        Role::Memtable(1),
        Levels::Powers(MIB, 128 * MIB),
    ),
    ("bloom_bit_count", "filter_bits", "16", Role::Filter, FILTERS),
];

/// Esker's knobs: name in the option table, purpose, values.
#[cfg(feature = "engine")]
const ESKER: &[(&str, Role, Levels)] = &[
    ("memtable_size_bytes", Role::Memtable(4), Levels::Powers(MIB, 128 * MIB)),
    ("cache_size_bytes", Role::Cache, Levels::Powers(MIB, 1024 * MIB)),
    ("block_size_bytes", Role::Block, BLOCKS),
    ("file_size_max_bytes", Role::File, Levels::Powers(2 * MIB, 256 * MIB)),
    ("filter_bits_per_key", Role::Filter, FILTERS),
    ("compression", Role::Compression, Levels::Words(&["none", "lz4", "zstd", "snappy"])),
    ("policy", Role::Other, Levels::Words(&["leveled", "tiered", "fragmented", "lazy", "fluid"])),
    ("fan_out", Role::Other, Levels::Numbers(&["4", "6", "8", "10", "12", "16"])),
    ("l0_runs_max", Role::Other, Levels::Powers(1, 16)),
    ("runs_max", Role::Other, Levels::Powers(2, 16)),
    ("last_runs_max", Role::Other, Levels::Powers(2, 16)),
    ("base_rewrite_ratio", Role::Other, Levels::Numbers(&["0.25", "0.5", "1", "2"])),
    ("guard_size_max_bytes", Role::Other, Levels::Powers(16 * MIB, 512 * MIB)),
    ("merge_on_seeks", Role::Other, Levels::Words(&["true", "false"])),
    ("cache_policy", Role::Other, Levels::Words(&["lru", "clock", "sieve", "s3fifo"])),
    ("block_layout", Role::Other, Levels::Words(&["columnar", "delta"])),
    ("index_search", Role::Other, Levels::Words(&["btree", "binary", "interpolation"])),
    ("wal_io", Role::Other, Levels::Words(&["mmap", "write"])),
];

/// Returns the knobs of the engine named `name`. A library at a path has the knobs of the interface
/// that its name implies. Esker's default sizes follow from the wanted `memory_bytes`. The budget is not
/// set yet: see [`set_budget`].
///
/// # Errors
/// The engine has no knobs; the error lists those with knobs.
#[cfg_attr(
    not(feature = "engine"),
    allow(unused_variables, reason = "only Esker's sizes follow from the budget")
)]
pub fn knobs(name: &str, has_path: bool, memory_bytes: Option<u64>) -> Result<KnobTable> {
    Ok(match name {
        #[cfg(feature = "engine")]
        "esker" => esker(memory_bytes),
        "rocksdb" => rocksdb(has_path),
        "fjall" => of_rows(name, FJALL),
        "wiredtiger" => of_rows(name, WIREDTIGER),
        "wiredtiger-lsm" => of_rows(name, WIREDTIGER.iter().chain(WIREDTIGER_LSM)),
        "leveldb" => of_rows(name, LEVELDB),
        _ if has_path => of_rows(name, LEVELDB),
        _ => {
            return Err(LabError::usage(format!(
                "{name} has no knobs to tune; esker, leveldb, rocksdb, fjall, wiredtiger and \
                 wiredtiger-lsm have, and a library NAME:PATH with LevelDB's C interface"
            )));
        }
    })
}

/// Sets the memory budget from the wanted number and the defaults. `memory_bytes` is the limit of
/// memtables and cache together; `None` is 128 MiB, or more if the default set has more.
pub fn set_budget(table: &mut KnobTable, memory_bytes: Option<u64>) {
    let own = table.memory_bytes(&Default::default());
    table.memory_budget_bytes = Some(memory_bytes.unwrap_or(MEMORY_BYTES.max(own)));
}

fn levels(levels: &Levels, default: &str) -> (Vec<String>, bool) {
    let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect();
    let (mut all, ordered) = match levels {
        Levels::Powers(least, most) => (powers(*least, *most), true),
        Levels::Numbers(list) => (texts(list), true),
        Levels::Words(list) => (texts(list), false),
    };
    // The default has its place among the numbers, so that the search can move away from it.
    if ordered
        && !all.iter().any(|level| level == default)
        && let Some(bytes) = bytes_of(default)
    {
        let place = all.iter().position(|level| bytes_of(level).is_some_and(|own| own > bytes));
        all.insert(place.unwrap_or(all.len()), default.into());
    }
    (all, ordered)
}

fn of_rows<'a>(engine: &str, rows: impl IntoIterator<Item = &'a Row>) -> KnobTable {
    let knob = |(name, flag, default, role, values): &Row| {
        let (levels, ordered) = levels(values, default);
        Knob {
            name: name.to_string(),
            flag: flag.to_string(),
            default: default.to_string(),
            default_bytes: None,
            levels,
            ordered,
            role: *role,
        }
    };
    KnobTable {
        engine: engine.into(),
        knobs: rows.into_iter().map(knob).collect(),
        ..KnobTable::default()
    }
}

/// Returns RocksDB's knobs. Since 8.2 its default block cache has 32 MiB; the installed releases are
/// newer, the system's is older. The release of a library with a path is not known: its cache counts as
/// 8 MiB.
fn rocksdb(has_path: bool) -> KnobTable {
    let mut table = of_rows("rocksdb", ROCKSDB);
    // A memtable's filter has whole keys, because the stores have no prefixes.
    table.fixed.push(("rocksdb.memtable_whole_key_filtering".into(), "true".into()));
    if !has_path
        && crate::installed::rocksdb_installed().is_some()
        && let Some(cache) = table.find_mut("block_cache_size")
    {
        cache.set_default(&(32 * MIB).to_string());
    }
    table
}

#[cfg(feature = "engine")]
fn esker(memory_bytes: Option<u64>) -> KnobTable {
    use ::esker::schema::OPTIONS;
    use esker_lab::record::env::machine;
    let installed = machine(&std::env::temp_dir()).memory_bytes.unwrap_or(4 << 30);
    // As the engine's `auto`: a quarter of the memory, from 4 MiB to 1 GiB. The engine also respects
    // the limit of a control group.
    let budget = memory_bytes.unwrap_or((installed / 4).clamp(4 * MIB, 1 << 30));
    let memtable = (budget / 8).min(64 * MIB);
    let knob = |(name, role, values): &(&str, Role, Levels)| {
        let spec = OPTIONS.iter().find(|spec| spec.name == *name)?;
        let (levels, ordered) = levels(values, &spec.default);
        let default_bytes = match role {
            Role::Memtable(_) => Some(memtable),
            Role::Cache => Some(budget / 2),
            _ => None,
        };
        Some(Knob {
            name: name.to_string(),
            flag: format!("esker.{name}"),
            default: spec.default.clone(),
            default_bytes: default_bytes.filter(|_| bytes_of(&spec.default).is_none()),
            levels,
            ordered,
            role: *role,
        })
    };
    KnobTable {
        engine: crate::esker::NAME.into(),
        knobs: ESKER.iter().filter_map(knob).collect(),
        fixed: vec![
            ("terms".into(), "shipped".into()),
            ("esker.memory_budget_bytes".into(), budget.to_string()),
        ],
        memory_budget_bytes: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_lab::experiment::plan::set_for;
    use esker_lab::mix::ycsb::Properties;
    use esker_lab::tune::knob::Setting;

    #[test]
    fn every_value_of_every_knob_is_accepted_by_the_settings() {
        for engine in ["esker", "leveldb", "rocksdb", "fjall", "wiredtiger", "wiredtiger-lsm"] {
            let Ok(mut table) = knobs(engine, false, None) else { continue };
            set_budget(&mut table, None);
            assert!(table.knobs.len() >= 3, "{engine}");
            for knob in &table.knobs {
                for level in knob.levels.iter().chain([&knob.default]) {
                    let mut config = crate::bench::config();
                    for (flag, value) in &table.fixed {
                        config.set(flag, value).expect("a fixed flag");
                    }
                    config.set(&knob.flag, level).expect(&knob.name);
                }
                assert!(knob.levels.len() > 1, "{engine}: {}", knob.name);
            }
            assert!(Some(table.memory_bytes(&Setting::default())) <= table.memory_budget_bytes);
        }
    }

    /// The properties that a tuning prints are taken by `lab ycsb`.
    #[test]
    fn every_property_is_accepted_by_a_ycsb_run() {
        for engine in ["esker", "leveldb", "rocksdb", "fjall", "wiredtiger", "wiredtiger-lsm"] {
            let Ok(table) = knobs(engine, false, None) else { continue };
            let mut properties = Properties::default();
            for (name, value) in table.properties(&Setting::default()) {
                properties.set(&name, &value);
            }
            let given = properties.of_stores(&[engine]);
            assert_eq!(given.len(), table.knobs.len(), "{engine}");
            for (option, value) in given {
                let mut config = crate::bench::config();
                set_for(&mut config, engine, &option, &value).expect(&option);
            }
        }
    }

    #[cfg(feature = "engine")]
    #[test]
    fn every_esker_knob_is_an_option_that_takes_each_value() {
        let table = knobs("esker", false, None).expect("knobs");
        assert_eq!(table.knobs.len(), ESKER.len());
        for knob in &table.knobs {
            for level in &knob.levels {
                let mut options = ::esker::Options::default();
                options.set(&knob.name, level).expect(&knob.name);
            }
        }
        assert!(table.find("policy").is_some_and(|knob| !knob.ordered));
        assert!(table.find("durability").is_none() && table.find("verify_tables").is_none());
    }

    #[test]
    fn engine_without_knobs_is_refused() {
        let error = knobs("lmdb", false, None).expect_err("none").to_string();
        assert!(error.contains("lmdb has no knobs") && error.contains("leveldb"), "{error}");
        assert!(knobs("mine", true, None).is_ok());
    }

    #[test]
    fn default_outside_the_levels_has_its_place() {
        let (all, _) = levels(&Levels::Powers(MIB, 4 * MIB), "3145728");
        assert_eq!(all, ["1048576", "2097152", "3145728", "4194304"]);
    }
}
