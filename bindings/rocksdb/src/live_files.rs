//! The tables of a store: `rocksdb_livefiles_*`.
//!
//! A table of Esker may hold keys of several column families with the same options. It is listed
//! under the column family of its first key.

use std::ffi::{CString, c_char, c_int};

use esker::TableEntry;
use esker_c::own::iter::borrowed_ptr;

use crate::failure::quiet;
use crate::store::{DEFAULT, Store, rocksdb_t};

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
        family = named.map(|family| family.keyspace.name()).unwrap_or_default();
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
        let files = store.db.tables().into_iter().map(|table| file(store, table)).collect();
        let path = store.db.path().to_string_lossy().into_owned();
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
