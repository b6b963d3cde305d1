//! Properties of a store and of a column family, from Esker's metrics.
//!
//! Invariant: an unknown property is null or -1. No property is guessed.

use std::ffi::{c_char, c_int};
use std::fmt::Write;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use esker::{Metrics, ReadOptions};
use esker_bindings::properties::{LEVELS, files_at_level};
use esker_c::failure::{Outcome, attempt};
use esker_c::ffi;

use crate::db::rocksdb_column_family_handle_t;
use crate::memory::memtables;
use crate::store::{Family, Store, rocksdb_t};

/// Keys that an estimate of the number of keys reads.
const KEYS_READ: u64 = 100_000;

/// Returns a property that is a number.
fn number(metrics: &Metrics, family: &Family, name: &str) -> Outcome<Option<u64>> {
    let memory = &metrics.memory;
    let memtables = memtables(memory);
    let count = |yes: bool| u64::from(yes);
    Ok(Some(match name {
        "rocksdb.num-immutable-mem-table" => metrics.frozen_memtables,
        "rocksdb.mem-table-flush-pending" => count(metrics.frozen_memtables > 0),
        "rocksdb.compaction-pending" => count(metrics.debt_bytes > 0),
        "rocksdb.cur-size-active-mem-table" => memory.active_memtable_bytes,
        "rocksdb.cur-size-all-mem-tables" => memtables,
        "rocksdb.size-all-mem-tables" => memtables + memory.pooled_bytes,
        "rocksdb.estimate-num-keys" => keys(family)?,
        "rocksdb.estimate-table-readers-mem" => memory.tables_bytes,
        "rocksdb.is-file-deletions-enabled" => 1,
        "rocksdb.num-snapshots" => metrics.snapshots,
        "rocksdb.total-sst-files-size" | "rocksdb.live-sst-files-size" => metrics.table_bytes,
        "rocksdb.estimate-live-data-size" => family.keyspace().size_bytes()?,
        "rocksdb.estimate-pending-compaction-bytes" => metrics.debt_bytes,
        "rocksdb.block-cache-capacity" => memory.cache_capacity_bytes,
        "rocksdb.block-cache-usage" => memory.cache_bytes,
        "rocksdb.is-write-stopped" => 0,
        _ => return Ok(None),
    }))
}

/// Estimates the number of keys of a column family: reads up to [`KEYS_READ`] of them, and takes the
/// rest from the size of the tables.
fn keys(family: &Family) -> Outcome<u64> {
    let options = ReadOptions::default().fill_cache(false);
    let everything = (Bound::Unbounded, Bound::Unbounded);
    let mut iter = family.keyspace().iter_with(&options, everything)?;
    let (mut count, mut bytes) = (0u64, 0u64);
    iter.for_each_forward(|key, value| {
        count += 1;
        bytes += (key.len() + value.len()) as u64;
        if count < KEYS_READ { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    if count < KEYS_READ {
        return Ok(count);
    }
    let bytes_of_key = (bytes / count).max(1);
    Ok(count.max(family.keyspace().size_bytes()? / bytes_of_key))
}

/// Returns a property as text.
fn text(store: &Store, family: &Family, name: &str) -> Outcome<Option<String>> {
    let metrics = store.db().metrics();
    if let Some(number) = number(&metrics, family, name)? {
        return Ok(Some(number.to_string()));
    }
    if let Some(level) = name.strip_prefix("rocksdb.num-files-at-level") {
        return Ok(files_at_level(&metrics, level));
    }
    Ok(match name {
        "rocksdb.stats" => Some(stats(&metrics)),
        "rocksdb.levelstats" => Some(level_stats(&metrics)),
        "rocksdb.sstables" => Some(tables(store)),
        "esker.rocksdb-accepted" => Some(store.accepted.join("\n")),
        _ => None,
    })
}

/// Returns a table of the levels in RocksDB's columns, and Esker's own report.
fn stats(metrics: &Metrics) -> String {
    let mut text = String::from("** Compaction Stats [default] **\nLevel    Files   Size\n");
    for level in &metrics.levels {
        let _ = writeln!(text, "  L{} {:8} {:8} bytes", level.level, level.files, level.bytes);
    }
    let _ = writeln!(text, "\n** DB Stats **\n{metrics}");
    text
}

fn level_stats(metrics: &Metrics) -> String {
    let mut text = String::from("Level Files Size(MB)\n--------------------\n");
    for level in 0..LEVELS {
        let at = metrics.levels.iter().filter(|l| l.level.min(LEVELS - 1) == level);
        let (files, bytes) =
            at.fold((0, 0), |(files, bytes), l| (files + l.files, bytes + l.bytes));
        let _ = writeln!(text, "{level:5} {files:8} {:8.0}", bytes as f64 / f64::from(1 << 20));
    }
    text
}

fn tables(store: &Store) -> String {
    let mut text = String::new();
    for table in store.db().tables() {
        let _ = writeln!(
            text,
            "level {} {}:{}['{}' .. '{}']",
            table.level,
            table.number,
            table.size_bytes,
            table.smallest.escape_ascii(),
            table.largest.escape_ascii(),
        );
    }
    text
}

/// # Safety
/// `name` is null or a C string.
unsafe fn value<'a>(
    store: Outcome<&'a Store>,
    family: Option<Outcome<&'a Arc<Family>>>,
    name: *const c_char,
) -> *mut c_char {
    let found = attempt(|| {
        let store = store?;
        let family = family.unwrap_or(Ok(&store.default))?;
        // SAFETY: guaranteed by the caller.
        text(store, family, unsafe { ffi::utf8(name, "property's name") }?)
    });
    found.ok().flatten().map_or(std::ptr::null_mut(), |text| ffi::give_text(&text))
}

/// # Safety
/// `name` is null or a C string.
unsafe fn int<'a>(
    store: Outcome<&'a Store>,
    family: Option<Outcome<&'a Arc<Family>>>,
    name: *const c_char,
    out: Option<&mut u64>,
) -> c_int {
    let found = attempt(|| {
        let store = store?;
        let family = family.unwrap_or(Ok(&store.default))?;
        // SAFETY: guaranteed by the caller.
        let name = unsafe { ffi::utf8(name, "property's name") }?;
        number(&store.db().metrics(), family, name)
    });
    match (found, out) {
        (Ok(Some(number)), Some(out)) => {
            *out = number;
            0
        }
        _ => -1,
    }
}

fn opened(db: Option<&rocksdb_t>) -> Outcome<&Store> {
    rocksdb_t::open(db).map(|store| &**store)
}

/// Returns a property, allocated with `malloc`, or null for an unknown name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_property_value(
    db: Option<&rocksdb_t>,
    propname: *const c_char,
) -> *mut c_char {
    // SAFETY: the caller meets RocksDB's contract for strings.
    unsafe { value(opened(db), None, propname) }
}

/// Returns a property of a column family, allocated with `malloc`, or null for an unknown name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_property_value_cf(
    db: Option<&rocksdb_t>,
    family: Option<&rocksdb_column_family_handle_t>,
    propname: *const c_char,
) -> *mut c_char {
    let family = Some(rocksdb_column_family_handle_t::of(family));
    // SAFETY: the caller meets RocksDB's contract for strings.
    unsafe { value(opened(db), family, propname) }
}

/// Stores a property that is a number. Returns -1 for an unknown name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_property_int(
    db: Option<&rocksdb_t>,
    propname: *const c_char,
    out_val: Option<&mut u64>,
) -> c_int {
    // SAFETY: the caller meets RocksDB's contract for strings.
    unsafe { int(opened(db), None, propname, out_val) }
}

/// Stores a property of a column family that is a number. Returns -1 for an unknown name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_property_int_cf(
    db: Option<&rocksdb_t>,
    family: Option<&rocksdb_column_family_handle_t>,
    propname: *const c_char,
    out_val: Option<&mut u64>,
) -> c_int {
    let family = Some(rocksdb_column_family_handle_t::of(family));
    // SAFETY: the caller meets RocksDB's contract for strings.
    unsafe { int(opened(db), family, propname, out_val) }
}
