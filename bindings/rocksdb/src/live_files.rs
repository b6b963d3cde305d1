//! The tables of a store: `rocksdb_livefiles_*`.
//!
//! A table of Esker may hold keys of several column families with the same options. It is listed
//! under the column family of its first key.

use std::ffi::{CString, c_char, c_int};

use esker::report::TableEntry;
use esker_c::own::iter::borrowed_ptr;

use crate::db::rocksdb_column_family_handle_t;
use crate::failure::quiet;
use crate::store::{DEFAULT, Family, Store, rocksdb_t};

/// Bytes that stand for the column family at the beginning of a key outside of tree 0.
const PREFIX_BYTES: usize = 4;

struct File {
    table: TableEntry,
    family: CString,
    name: CString,
}

/// The tables of a store at one moment.
pub struct rocksdb_livefiles_t {
    files: Vec<File>,
    directory: CString,
}

/// Returns a table, with its keys as the user wrote them.
fn file(store: &Store, mut table: TableEntry) -> File {
    let mut family = DEFAULT.to_string();
    if table.tree != 0 {
        let id = table.smallest.first_chunk().map(|bytes| u32::from_be_bytes(*bytes) >> 1);
        let named = id.and_then(|id| store.family(id).ok());
        family = named.map(|family| family.keyspace().name()).unwrap_or_default();
        for key in [&mut table.smallest, &mut table.largest] {
            key.drain(..PREFIX_BYTES.min(key.len()));
        }
    }
    let name = format!("/{:06}.sst", table.number);
    let text = |text: String| CString::new(text).unwrap_or_default();
    File { table, family: text(family), name: text(name) }
}

/// Returns the tables of a store.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_livefiles(db: Option<&rocksdb_t>) -> Option<Box<rocksdb_livefiles_t>> {
    quiet(|| {
        let store = rocksdb_t::open(db)?;
        let files = store.db().tables().into_iter().map(|table| file(store, table)).collect();
        let path = store.db().path().to_string_lossy().into_owned();
        let directory = CString::new(path).unwrap_or_default();
        Ok(Box::new(rocksdb_livefiles_t { files, directory }))
    })
}

type Files<'a> = Option<&'a rocksdb_livefiles_t>;

fn at(files: Files<'_>, index: c_int) -> Option<&File> {
    files?.files.get(usize::try_from(index).ok()?)
}

/// Returns the number of tables.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_livefiles_count(files: Files<'_>) -> c_int {
    files.map_or(0, |files| c_int::try_from(files.files.len()).unwrap_or(c_int::MAX))
}

/// Returns the name of the column family of a table's first key.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_livefiles_column_family_name(
    files: Files<'_>,
    index: c_int,
) -> *const c_char {
    at(files, index).map_or(std::ptr::null(), |file| file.family.as_ptr())
}

/// Returns the name of a table's file, with a slash before it.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_livefiles_name(files: Files<'_>, index: c_int) -> *const c_char {
    at(files, index).map_or(std::ptr::null(), |file| file.name.as_ptr())
}

/// Returns the store's directory.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_livefiles_directory(files: Files<'_>, _index: c_int) -> *const c_char {
    files.map_or(std::ptr::null(), |files| files.directory.as_ptr())
}

/// Returns the level of a table.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_livefiles_level(files: Files<'_>, index: c_int) -> c_int {
    at(files, index).map_or(0, |file| c_int::try_from(file.table.level).unwrap_or(c_int::MAX))
}

/// Returns the bytes of a table.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_livefiles_size(files: Files<'_>, index: c_int) -> usize {
    at(files, index).map_or(0, |file| usize::try_from(file.table.size_bytes).unwrap_or(usize::MAX))
}

/// Returns the first key of a table.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_livefiles_smallestkey(
    files: Files<'_>,
    index: c_int,
    size: Option<&mut usize>,
) -> *const c_char {
    borrowed_ptr(at(files, index).map_or(&[], |file| file.table.smallest.as_slice()), size)
}

/// Returns the last key of a table.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_livefiles_largestkey(
    files: Files<'_>,
    index: c_int,
    size: Option<&mut usize>,
) -> *const c_char {
    borrowed_ptr(at(files, index).map_or(&[], |file| file.table.largest.as_slice()), size)
}

/// Frees a list of tables.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_livefiles_destroy(files: Option<Box<rocksdb_livefiles_t>>) {
    drop(files);
}

/// The tables of a column family by level.
pub struct rocksdb_column_family_metadata_t {
    name: String,
    /// Number and bytes of the tables of each level.
    levels: Vec<(u64, u64)>,
}

/// Returns the tables of the tree that holds a column family. Column families with the same options
/// share a tree.
fn metadata(store: &Store, family: &Family) -> Box<rocksdb_column_family_metadata_t> {
    let mut levels = Vec::new();
    let tree = family.keyspace().tree();
    for table in store.db().tables().into_iter().filter(|table| table.tree == tree) {
        if levels.len() <= table.level {
            levels.resize(table.level + 1, (0, 0));
        }
        levels[table.level].0 += 1;
        levels[table.level].1 += table.size_bytes;
    }
    Box::new(rocksdb_column_family_metadata_t { name: family.keyspace().name(), levels })
}

/// Returns the tables of the default column family by level.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_get_column_family_metadata(
    db: Option<&rocksdb_t>,
) -> Option<Box<rocksdb_column_family_metadata_t>> {
    quiet(|| {
        let store = rocksdb_t::open(db)?;
        Ok(metadata(store, &store.default))
    })
}

/// Returns the tables of a column family by level.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_get_column_family_metadata_cf(
    db: Option<&rocksdb_t>,
    handle: Option<&rocksdb_column_family_handle_t>,
) -> Option<Box<rocksdb_column_family_metadata_t>> {
    quiet(|| {
        let family = rocksdb_column_family_handle_t::of(handle)?;
        Ok(metadata(rocksdb_t::open(db)?, family))
    })
}

type Metadata<'a> = Option<&'a rocksdb_column_family_metadata_t>;

/// Frees a list of tables by level.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_column_family_metadata_destroy(
    metadata: Option<Box<rocksdb_column_family_metadata_t>>,
) {
    drop(metadata);
}

/// Returns the bytes of the tables.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_column_family_metadata_get_size(metadata: Metadata<'_>) -> u64 {
    metadata.map_or(0, |metadata| metadata.levels.iter().map(|(_, bytes)| bytes).sum())
}

/// Returns the number of the tables.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_column_family_metadata_get_file_count(metadata: Metadata<'_>) -> usize {
    let files: u64 = metadata.map_or(0, |m| m.levels.iter().map(|(files, _)| files).sum());
    usize::try_from(files).unwrap_or(usize::MAX)
}

/// Returns the name of the column family, allocated with `malloc`.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_column_family_metadata_get_name(metadata: Metadata<'_>) -> *mut c_char {
    metadata.map_or(std::ptr::null_mut(), |metadata| esker_c::ffi::give_text(&metadata.name))
}

/// Returns the number of levels in use.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_column_family_metadata_get_level_count(metadata: Metadata<'_>) -> usize {
    metadata.map_or(0, |metadata| metadata.levels.len())
}
