//! Options of RocksDB alone, as data: the name, the object that has it, and its values.
//!
//! Invariant: each option is set by the function `rocksdb_options_set_NAME` or
//! `rocksdb_block_based_options_set_NAME` of RocksDB's C interface, with the type in the table. None
//! weakens what a write or a read promises.

use esker_lab::error::{LabError, Result};
use esker_lab::run::config::bytes_of;
use esker_lab::target::StoreOptions;

use crate::c_functions::Handle;
use crate::library::Loaded;

/// Name of the engine in the names of its own options.
pub const NAME: &str = "rocksdb";

/// The object that has an option.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// `rocksdb_options_t`.
    Store,
    /// `rocksdb_block_based_table_options_t`.
    Table,
}

/// Values of an option.
#[derive(Clone, Copy)]
enum Values {
    /// `true` or `false`.
    Flag,
    /// A C `int`.
    Int,
    /// A number of bytes.
    Bytes,
    /// A `double`.
    Real,
    /// Names, with their numbers in the C interface.
    Words(&'static [(&'static str, i32)]),
}

const STYLES: &[(&str, i32)] = &[("level", 0), ("universal", 1)];
const COMPRESSIONS: &[(&str, i32)] = &[("none", 0), ("snappy", 1), ("lz4", 4), ("zstd", 7)];
const PRIORITIES: &[(&str, i32)] = &[
    ("by_compensated_size", 0),
    ("oldest_largest_seq_first", 1),
    ("oldest_smallest_seq_first", 2),
    ("min_overlapping_ratio", 3),
    ("round_robin", 4),
];
const INDEXES: &[(&str, i32)] =
    &[("binary_search", 0), ("hash_search", 1), ("two_level_index_search", 2)];
const BLOCK_INDEXES: &[(&str, i32)] = &[("binary_search", 0), ("binary_search_and_hash", 1)];

use Of::{Store, Table};
use Values::{Bytes, Flag, Int, Real, Words};

/// The options. Their defaults are the library's own.
const OPTIONS: &[(&str, Of, Values)] = &[
    ("compaction_style", Store, Words(STYLES)),
    ("level_compaction_dynamic_level_bytes", Store, Flag),
    ("compaction_pri", Store, Words(PRIORITIES)),
    ("level0_file_num_compaction_trigger", Store, Int),
    ("max_bytes_for_level_base", Store, Bytes),
    ("bottommost_compression", Store, Words(COMPRESSIONS)),
    ("max_write_buffer_number", Store, Int),
    ("max_background_jobs", Store, Int),
    ("bytes_per_sync", Store, Bytes),
    ("allow_concurrent_memtable_write", Store, Flag),
    ("enable_pipelined_write", Store, Flag),
    ("memtable_prefix_bloom_size_ratio", Store, Real),
    ("memtable_whole_key_filtering", Store, Flag),
    ("use_direct_reads", Store, Flag),
    ("use_direct_io_for_flush_and_compaction", Store, Flag),
    ("enable_blob_files", Store, Flag),
    ("min_blob_size", Store, Bytes),
    ("blob_compression_type", Store, Words(COMPRESSIONS)),
    ("enable_blob_gc", Store, Flag),
    ("blob_gc_age_cutoff", Store, Real),
    ("index_type", Table, Words(INDEXES)),
    ("partition_filters", Table, Flag),
    ("data_block_index_type", Table, Words(BLOCK_INDEXES)),
    ("cache_index_and_filter_blocks", Table, Flag),
    ("pin_l0_filter_and_index_blocks_in_cache", Table, Flag),
    ("format_version", Table, Int),
];

/// Returns the names of the options, which are also set if the others are left as shipped.
pub fn names() -> impl Iterator<Item = &'static str> {
    OPTIONS.iter().map(|(name, ..)| *name)
}

/// Returns the options of RocksDB alone, in the order in which they were given.
pub fn given(options: &StoreOptions) -> impl Iterator<Item = (&str, &str)> {
    options.own_options(NAME)
}

/// Returns whether an option of the tables was given.
pub fn has_table_options(options: &StoreOptions) -> bool {
    let is_of_tables = |name: &str| OPTIONS.iter().any(|(own, of, _)| *own == name && *of == Table);
    given(options).any(|(name, _)| is_of_tables(name))
}

/// A value as the C interface takes it.
#[derive(Clone, Copy)]
enum Value {
    Flag(u8),
    Int(i32),
    Bytes(u64),
    Real(f64),
}

impl Values {
    fn parse(self, value: &str) -> Result<Value> {
        let (parsed, expected) = match self {
            Flag => (value.parse().ok().map(|on: bool| Value::Flag(on.into())), "true or false"),
            Int => (value.parse().ok().filter(|i| *i >= 0).map(Value::Int), "a number from 0 on"),
            Bytes => (bytes_of(value).map(Value::Bytes), "a number of bytes"),
            Real => {
                let real = value.parse().ok().filter(|real| (0.0..=1e9).contains(real));
                (real.map(Value::Real), "a number from 0 on")
            }
            Words(words) => {
                let found = words.iter().find(|(word, _)| *word == value);
                let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                let found = found.map(|(_, number)| Value::Int(*number));
                return found.ok_or_else(|| refused(&all.join(" or "), value));
            }
        };
        parsed.ok_or_else(|| refused(expected, value))
    }
}

fn refused(expected: &str, value: &str) -> LabError {
    LabError::usage(format!("expected {expected}, found {value:?}"))
}

/// Checks the value of an option that has this name. Any other name is right.
///
/// # Errors
/// The value is not one of the option's.
pub fn check(name: &str, value: &str) -> Result<()> {
    let own = name.strip_prefix(NAME).and_then(|rest| rest.strip_prefix('.'));
    let Some((.., values)) = OPTIONS.iter().find(|(known, ..)| Some(*known) == own) else {
        return Ok(());
    };
    values.parse(value).map(drop).map_err(|error| LabError::usage(format!("{name}: {error}")))
}

/// Sets the given options of one object.
///
/// # Errors
/// A value is not one of its option's, or the library does not have the option.
///
/// # Safety
/// `object` is a live object of this kind, of this library.
pub unsafe fn set(library: &Loaded, options: &StoreOptions, of: Of, object: Handle) -> Result<()> {
    for (name, value) in given(options) {
        let known = OPTIONS.iter().find(|(own, own_of, _)| *own == name && *own_of == of);
        let Some((.., values)) = known else { continue };
        let prefix = if of == Store { "rocksdb_options" } else { "rocksdb_block_based_options" };
        let function = format!("{prefix}_set_{name}");
        // SAFETY: the function has the type of the table, and the caller guarantees the object.
        let set = values
            .parse(value)
            .and_then(|value| unsafe { set_one(library, &function, object, value) });
        set.map_err(|error| LabError::new(error.kind(), format!("{NAME}.{name}: {error}")))?;
    }
    Ok(())
}

/// Calls the function that sets an option to a value.
///
/// # Safety
/// The function of this name takes an object such as `object`, and such a value.
unsafe fn set_one(library: &Loaded, function: &str, object: Handle, value: Value) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match value {
            Value::Flag(on) => {
                library.function::<unsafe extern "C" fn(Handle, u8)>(function)?(object, on);
            }
            Value::Int(number) => {
                library.function::<unsafe extern "C" fn(Handle, i32)>(function)?(object, number);
            }
            Value::Bytes(bytes) => {
                library.function::<unsafe extern "C" fn(Handle, u64)>(function)?(object, bytes);
            }
            Value::Real(real) => {
                library.function::<unsafe extern "C" fn(Handle, f64)>(function)?(object, real);
            }
        }
    }
    Ok(())
}
