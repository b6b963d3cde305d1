//! What a store and its options consist of, by name: metrics, tables, options.
//!
//! Invariants: a metric and an option have the name and the unit of `docs/metrics.md` and
//! `docs/options.md`; texts and keys passed to a function of the caller are valid during its call.

use std::ffi::{c_char, c_void};
use std::os::unix::ffi::OsStrExt;

use esker::internals::is_of_keyspaces;
use esker::report::TableEntry;
use esker::schema::{METRICS, Mutability, OPTIONS};

use super::common::{c_text, data_of};
use super::store::{esker_db_t, on};
use crate::failure::{Failure, Outcome, attempt, there};
use crate::ffi;

/// A table file of a store, from `esker_tables`. The keys are valid during the call. Later versions may
/// add fields at the end.
#[repr(C)]
pub struct esker_table_t {
    /// Number of the file, which is also its name.
    pub number: u64,
    /// Tree of the file; tree 0 holds the keyspace `default`. Keys of other trees begin with four bytes
    /// that stand for their keyspace.
    pub tree: u64,
    /// Level of the file.
    pub level: u64,
    /// Size of the file, in bytes.
    pub size_bytes: u64,
    /// Number of entries: puts, merges and deletes.
    pub entries: u64,
    /// Number of deletes among the entries.
    pub deletes: u64,
    /// Number of range deletions.
    pub range_deletes: u64,
    /// Size of the keys and values before compression, in bytes.
    pub raw_bytes: u64,
    /// The first key.
    pub smallest: *const u8,
    /// Length of the first key.
    pub smallest_len: usize,
    /// The last key.
    pub largest: *const u8,
    /// Length of the last key.
    pub largest_len: usize,
}

/// Receives a table: state, table.
pub type esker_visit_table_t = Option<unsafe extern "C" fn(*mut c_void, *const esker_table_t)>;

/// Returns a table as C gets it.
fn table_of(table: &TableEntry) -> esker_table_t {
    let (smallest, smallest_len) = data_of(&table.smallest);
    let (largest, largest_len) = data_of(&table.largest);
    esker_table_t {
        number: table.number,
        tree: table.tree.into(),
        level: table.level as u64,
        size_bytes: table.size_bytes,
        entries: table.entries,
        deletes: table.deletes,
        range_deletes: table.range_deletes,
        raw_bytes: table.raw_bytes,
        smallest,
        smallest_len,
        largest,
        largest_len,
    }
}

/// Calls `visit` for each table that the store has now, of all keyspaces, by tree, level and number. A file
/// with parts in several levels is passed once for each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_tables(
    db: Option<&esker_db_t>,
    state: *mut c_void,
    visit: esker_visit_table_t,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let visit = there(visit, "function that receives the tables")?;
        // The store is not held during the calls.
        let tables = esker_db_t::open(db)?.tables();
        for table in &tables {
            let table = table_of(table);
            // SAFETY: the function and `state` belong together by the caller's contract; the keys
            // outlive the call.
            unsafe { visit(state, &raw const table) };
        }
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Returns the failure for a name of no metric.
fn no_metric(name: &str, of: &str) -> Failure {
    Failure::invalid(format!("there is no metric {name:?} {of}; docs/metrics.md lists them"))
}

/// Sets `*value` to a metric of the store, by the name of its field in `docs/metrics.md`, such as
/// `user_ops` or `memory.memtable_bytes`, in the unit of that name. Fails with
/// `ESKER_INVALID_ARGUMENT` for a name that is no number of the whole store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_metric(
    db: Option<&esker_db_t>,
    name: *const c_char,
    value: Option<&mut u64>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe {
        on(db, message, |db| {
            let place = there(value, "place for the value")?;
            let name = ffi::utf8(name, "name")?;
            let (part, field) = name.split_once('.').unwrap_or(("", name));
            let spec = METRICS.iter().find(|spec| (spec.part, spec.field) == (part, field));
            let found = spec.and_then(|spec| spec.value(&db.metrics()));
            *place = found.ok_or_else(|| no_metric(name, "of the whole store"))?;
            Ok(())
        })
    }
}

/// Sets `*value` to a metric of one level of the store, by the name of its field in `docs/metrics.md`,
/// such as `levels.bytes`. Fails with `ESKER_INVALID_ARGUMENT` for a name that is no number of levels,
/// and for a level that the store does not have.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_level_metric(
    db: Option<&esker_db_t>,
    level: usize,
    name: *const c_char,
    value: Option<&mut u64>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe {
        on(db, message, |db| {
            let place = there(value, "place for the value")?;
            let name = ffi::utf8(name, "name")?;
            let levels = db.metrics().levels;
            let of = levels.get(level).ok_or_else(|| {
                let last = levels.len().saturating_sub(1);
                Failure::invalid(format!("there is no level {level}; it is 0 to {last}"))
            })?;
            let (part, field) = name.split_once('.').unwrap_or(("", name));
            let spec = METRICS.iter().find(|spec| (spec.part, spec.field) == (part, field));
            let found = spec.and_then(|spec| spec.level_value(of));
            *place = found.ok_or_else(|| no_metric(name, "of levels"))?;
            Ok(())
        })
    }
}

/// A description of an option, from `esker_options_visit`. The texts are valid during the call. Later
/// versions may add fields at the end.
#[repr(C)]
pub struct esker_option_t {
    /// Name, as `esker_options_set` takes it.
    pub name: *const c_char,
    /// Unit of a number; empty for a name or a switch.
    pub unit: *const c_char,
    /// Default, as text.
    pub default_value: *const c_char,
    /// Values that it can have, as text, such as `1 to 8, auto`.
    pub range: *const c_char,
    /// What it does, as Markdown.
    pub description: *const c_char,
    /// 1 if it can be changed while the store is open (`esker_set_option`).
    pub is_changeable: u8,
    /// 1 if a keyspace can have a value of its own (`esker_keyspace_options_set`).
    pub is_of_keyspaces: u8,
}

/// Receives the description of an option: state, option.
pub type esker_visit_option_t = Option<unsafe extern "C" fn(*mut c_void, *const esker_option_t)>;

/// Calls `visit` for each option that `esker_options_set` sets, in the order of `docs/options.md`. Fails
/// with `ESKER_INVALID_ARGUMENT` if `visit` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_options_visit(
    state: *mut c_void,
    visit: esker_visit_option_t,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let visit = there(visit, "function that receives the options")?;
        for spec in OPTIONS.iter() {
            let range = spec.range.to_string();
            let [name, unit, default_value, range, description] =
                [spec.name, spec.unit, &spec.default, &range, spec.doc].map(c_text);
            let shown = esker_option_t {
                name: name.as_ptr(),
                unit: unit.as_ptr(),
                default_value: default_value.as_ptr(),
                range: range.as_ptr(),
                description: description.as_ptr(),
                is_changeable: (spec.mutability == Mutability::Live).into(),
                is_of_keyspaces: is_of_keyspaces(spec.name).into(),
            };
            // SAFETY: the function and `state` belong together by the caller's contract; the texts
            // outlive the call.
            unsafe { visit(state, &raw const shown) };
        }
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Changes `count` options of the open store, all or none of them: options whose values are allowed only
/// together can be changed so. Fails as `esker_set_option`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_set_options(
    db: Option<&esker_db_t>,
    count: usize,
    names: *const *const c_char,
    values: *const *const c_char,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages; the arrays have `count`
    // items.
    unsafe {
        on(db, message, |db| {
            let names = ffi::array(names, count, "array of names")?;
            let values = ffi::array(values, count, "array of values")?;
            let pair = |(name, value): (&*const c_char, &*const c_char)| {
                Ok((ffi::utf8(*name, "name")?, ffi::utf8(*value, "value")?))
            };
            let pairs = names.iter().zip(values).map(pair).collect::<Outcome<Vec<_>>>()?;
            Ok(db.set_options(&pairs)?)
        })
    }
}

/// Compacts all keys of every keyspace, as `esker_compact_range` does for those of `default`. Keyspaces
/// that were compacted before a failure stay compacted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_compact_all(
    db: Option<&esker_db_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { on(db, message, |db| Ok(db.compact_all()?)) }
}

/// Sets `*path` to the absolute path of the store's directory, or in memory to the path with which the
/// store was opened. It must be freed with `esker_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_path(
    db: Option<&esker_db_t>,
    path: Option<&mut *mut c_char>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let place = there(path, "place for the path")?;
        *place = std::ptr::null_mut();
        let db = esker_db_t::open(db)?;
        let bytes = db.path().as_os_str().as_bytes();
        *place = ffi::give_bytes(&[bytes, &[0]].concat()).cast();
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}
