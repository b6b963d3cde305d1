//! `rocksdb_open` and its relatives, column families, and whole stores.

use std::ffi::{CString, c_char, c_int};
use std::sync::Arc;

use esker::Db;
use esker_bindings::removal;
use esker_c::failure::{Failure, Outcome, attempt, there};
use esker_c::ffi;

use crate::access_mode::Access;
use crate::failure::{kept, missing_is_invalid};
use crate::options::rocksdb_options_t;
use crate::store::{self, DEFAULT, Family, Opening, Store, rocksdb_t};

/// A handle of a column family.
pub struct rocksdb_column_family_handle_t {
    pub(crate) family: Arc<Family>,
}

impl rocksdb_column_family_handle_t {
    /// Returns the column family of a handle.
    #[inline]
    pub(crate) fn of(handle: Option<&rocksdb_column_family_handle_t>) -> Outcome<&Arc<Family>> {
        Ok(&there(handle, "column family handle")?.family)
    }

    pub(crate) fn give(family: Arc<Family>) -> *mut rocksdb_column_family_handle_t {
        Box::into_raw(Box::new(rocksdb_column_family_handle_t { family }))
    }
}

pub(crate) type Handles = *mut *mut rocksdb_column_family_handle_t;

/// The column families that are to be opened, as C passes them.
#[derive(Clone, Copy)]
pub(crate) struct Named {
    pub count: c_int,
    pub names: *const *const c_char,
    pub options: *const *const rocksdb_options_t,
    pub handles: Handles,
}

/// Opens a store with its default column family.
///
/// # Safety
/// The arguments meet RocksDB's contract for strings and option objects.
pub(crate) unsafe fn open_default(
    options: Option<&rocksdb_options_t>,
    path: *const c_char,
    access: Access,
) -> Outcome<Arc<Store>> {
    // SAFETY: guaranteed by the caller.
    unsafe { open_expiring(options, path, &[], access) }
}

/// Opens a store with its default column family, whose pairs have the time to live in `ttls`.
///
/// # Safety
/// As for [`open_default`].
unsafe fn open_expiring(
    options: Option<&rocksdb_options_t>,
    path: *const c_char,
    ttls: &[c_int],
    access: Access,
) -> Outcome<Arc<Store>> {
    let options = there(options, "options")?;
    // SAFETY: guaranteed by the caller.
    let path = unsafe { ffi::path(path) }?;
    let families = vec![(DEFAULT.to_string(), options)];
    Ok(Opening { options, path, families, ttls, access }.open()?.0)
}

/// Opens a store with the named column families and stores their handles.
///
/// # Safety
/// The arguments meet RocksDB's contract: the arrays have `count` items.
pub(crate) unsafe fn open_named(
    options: Option<&rocksdb_options_t>,
    path: *const c_char,
    named: Named,
    access: Access,
) -> Outcome<Arc<Store>> {
    // SAFETY: guaranteed by the caller.
    unsafe { open_named_expiring(options, path, named, &[], access) }
}

/// Opens a store with the named column families, whose pairs have the times to live in `ttls`.
///
/// # Safety
/// As for [`open_named`].
unsafe fn open_named_expiring(
    options: Option<&rocksdb_options_t>,
    path: *const c_char,
    named: Named,
    ttls: &[c_int],
    access: Access,
) -> Outcome<Arc<Store>> {
    let options = there(options, "options")?;
    let count = usize::try_from(named.count).unwrap_or(0);
    // SAFETY: guaranteed by the caller.
    unsafe {
        let path = ffi::path(path)?;
        let names = ffi::array(named.names, count, "column family names")?;
        let of_families = ffi::array(named.options, count, "column family options")?;
        let mut families = Vec::with_capacity(count);
        for (name, options) in names.iter().zip(of_families) {
            let name = ffi::utf8(*name, "column family name")?.to_string();
            families.push((name, there(options.as_ref(), "column family options")?));
        }
        let handles = ffi::array_mut(named.handles, count, "places for the handles")?;
        let (store, opened) = Opening { options, path, families, ttls, access }.open()?;
        for (place, family) in handles.iter_mut().zip(opened) {
            *place = rocksdb_column_family_handle_t::give(family);
        }
        Ok(store)
    }
}

pub(crate) fn given(store: Arc<Store>) -> Box<rocksdb_t> {
    Box::new(rocksdb_t { store })
}

/// Opens a store that has the default column family alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_open(
    options: Option<&rocksdb_options_t>,
    name: *const c_char,
    errptr: Option<&mut *mut c_char>,
) -> Option<Box<rocksdb_t>> {
    // SAFETY: the caller meets RocksDB's contract for strings, options and error texts.
    unsafe { kept(errptr, || open_default(options, name, Access::Write)).map(given) }
}

/// Opens a store whose pairs expire `ttl` seconds after they were put. They do not expire if `ttl`
/// is not positive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_open_with_ttl(
    options: Option<&rocksdb_options_t>,
    name: *const c_char,
    ttl: c_int,
    errptr: Option<&mut *mut c_char>,
) -> Option<Box<rocksdb_t>> {
    // SAFETY: the caller meets RocksDB's contract for strings, options and error texts.
    unsafe { kept(errptr, || open_expiring(options, name, &[ttl], Access::Write)).map(given) }
}

/// Opens a store with its column families. The pairs of each expire its number of seconds after
/// they were put, or do not expire if that is not positive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_open_column_families_with_ttl(
    options: Option<&rocksdb_options_t>,
    name: *const c_char,
    count: c_int,
    names: *const *const c_char,
    of_families: *const *const rocksdb_options_t,
    handles: Handles,
    ttls: *const c_int,
    errptr: Option<&mut *mut c_char>,
) -> Option<Box<rocksdb_t>> {
    let named = Named { count, names, options: of_families, handles };
    // SAFETY: the caller meets RocksDB's contract for strings, options, arrays and error texts.
    unsafe {
        let opened = kept(errptr, || {
            let count = usize::try_from(count).unwrap_or(0);
            let ttls = ffi::array(ttls, count, "times to live")?;
            open_named_expiring(options, name, named, ttls, Access::Write)
        });
        opened.map(given)
    }
}

/// Opens the current state of a store, for reading.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_open_for_read_only(
    options: Option<&rocksdb_options_t>,
    name: *const c_char,
    _error_if_wal_file_exists: u8,
    errptr: Option<&mut *mut c_char>,
) -> Option<Box<rocksdb_t>> {
    // SAFETY: the caller meets RocksDB's contract for strings, options and error texts.
    unsafe { kept(errptr, || open_default(options, name, Access::Read)).map(given) }
}

/// Opens a store with its column families.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_open_column_families(
    options: Option<&rocksdb_options_t>,
    name: *const c_char,
    count: c_int,
    names: *const *const c_char,
    of_families: *const *const rocksdb_options_t,
    handles: Handles,
    errptr: Option<&mut *mut c_char>,
) -> Option<Box<rocksdb_t>> {
    let named = Named { count, names, options: of_families, handles };
    // SAFETY: the caller meets RocksDB's contract for strings, options, arrays and error texts.
    unsafe { kept(errptr, || open_named(options, name, named, Access::Write)).map(given) }
}

/// Opens the current state of some column families of a store, for reading.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_open_for_read_only_column_families(
    options: Option<&rocksdb_options_t>,
    name: *const c_char,
    count: c_int,
    names: *const *const c_char,
    of_families: *const *const rocksdb_options_t,
    handles: Handles,
    _error_if_wal_file_exists: u8,
    errptr: Option<&mut *mut c_char>,
) -> Option<Box<rocksdb_t>> {
    let named = Named { count, names, options: of_families, handles };
    // SAFETY: the caller meets RocksDB's contract for strings, options, arrays and error texts.
    unsafe { kept(errptr, || open_named(options, name, named, Access::Read)).map(given) }
}

/// Closes a store. Handles of its column families may be freed later.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_close(db: Option<Box<rocksdb_t>>) {
    if let Some(db) = db {
        // As in RocksDB, errors of a close cannot be reported; the next open finds what is wrong.
        let _ = attempt(|| db.store.close());
    }
}

/// Removes a store. A missing store is not an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_destroy_db(
    options: Option<&rocksdb_options_t>,
    name: *const c_char,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for strings and error texts.
    unsafe {
        kept(errptr, || {
            let fs = options.cloned().unwrap_or_default().fs();
            let path = ffi::path(name)?;
            if !fs.exists(path).unwrap_or(true) {
                return Ok(());
            }
            Ok(removal::destroy(fs, path)?)
        });
    }
}

/// Rebuilds a store from the intact parts of its files.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_repair_db(
    options: Option<&rocksdb_options_t>,
    name: *const c_char,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for strings and error texts.
    unsafe {
        kept(errptr, || {
            let options = options.cloned().unwrap_or_default();
            let made = options.store_options(&options, Vec::new())?;
            missing_is_invalid(
                Db::repair_on(options.fs(), ffi::path(name)?, made).map_err(Failure::from),
            )?;
            Ok(())
        });
    }
}

/// Returns the names of a store's column families, to be freed with
/// `rocksdb_list_column_families_destroy`. The store may be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_list_column_families(
    options: Option<&rocksdb_options_t>,
    name: *const c_char,
    lencf: Option<&mut usize>,
    errptr: Option<&mut *mut c_char>,
) -> *mut *mut c_char {
    // SAFETY: the caller meets RocksDB's contract for strings, options and error texts.
    unsafe {
        let listed = kept(errptr, || {
            let options = options.cloned().unwrap_or_default();
            let made = options.store_options(&options, Vec::new())?;
            let path = ffi::path(name)?;
            let db = Db::open_read_only_on(options.fs(), path, made).map_err(Failure::from);
            let db =
                db.map_err(|failure| Failure { code: esker_c::failure::ESKER_IO, ..failure })?;
            Ok(db.keyspaces())
        });
        let count = listed.as_ref().map_or(0, Vec::len);
        if let Some(lencf) = lencf {
            *lencf = count;
        }
        listed.map_or(std::ptr::null_mut(), |names| give_texts(&names))
    }
}

/// Returns an array of C strings, allocated with `malloc`.
pub(crate) fn give_texts(texts: &[String]) -> *mut *mut c_char {
    let texts: Vec<*mut c_char> = texts.iter().map(|text| ffi::give_text(text)).collect();
    // SAFETY: pointers are plain bytes; the array lives through the call.
    let bytes = unsafe {
        std::slice::from_raw_parts(texts.as_ptr().cast::<u8>(), size_of_val(texts.as_slice()))
    };
    ffi::give_bytes(bytes).cast()
}

/// Frees the names of column families.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_list_column_families_destroy(list: *mut *mut c_char, len: usize) {
    // SAFETY: by RocksDB's contract, the list is null or has `len` texts of this library.
    unsafe {
        for text in ffi::array(list.cast_const(), len, "list").unwrap_or(&[]) {
            ffi::free(*text);
        }
        ffi::free(list);
    }
}

/// Creates a column family.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_create_column_family(
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_options_t>,
    name: *const c_char,
    errptr: Option<&mut *mut c_char>,
) -> *mut rocksdb_column_family_handle_t {
    // SAFETY: the caller meets RocksDB's contract for strings, options and error texts.
    unsafe {
        let made = kept(errptr, || {
            let name = ffi::utf8(name, "column family name")?;
            rocksdb_t::writable(db)?.create_family(name, there(options, "options")?, None)
        });
        made.map_or(std::ptr::null_mut(), rocksdb_column_family_handle_t::give)
    }
}

/// Creates a column family whose pairs expire `ttl` seconds after they were put. They do not expire
/// if `ttl` is not positive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_create_column_family_with_ttl(
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_options_t>,
    name: *const c_char,
    ttl: c_int,
    errptr: Option<&mut *mut c_char>,
) -> *mut rocksdb_column_family_handle_t {
    // SAFETY: the caller meets RocksDB's contract for strings, options and error texts.
    unsafe {
        let made = kept(errptr, || {
            let name = ffi::utf8(name, "column family name")?;
            let options = there(options, "options")?;
            rocksdb_t::writable(db)?.create_family(name, options, store::ttl(ttl))
        });
        made.map_or(std::ptr::null_mut(), rocksdb_column_family_handle_t::give)
    }
}

/// Creates several column families. Those created before a failure stay.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_create_column_families(
    db: Option<&rocksdb_t>,
    options: Option<&rocksdb_options_t>,
    count: c_int,
    names: *const *const c_char,
    lencfs: Option<&mut usize>,
    errptr: Option<&mut *mut c_char>,
) -> Handles {
    let mut made = Vec::new();
    // SAFETY: the caller meets RocksDB's contract for strings, options, arrays and error texts.
    unsafe {
        kept(errptr, || {
            let count = usize::try_from(count).unwrap_or(0);
            for name in ffi::array(names, count, "column family names")? {
                let name = ffi::utf8(*name, "column family name")?;
                let store = rocksdb_t::writable(db)?;
                let family = store.create_family(name, there(options, "options")?, None)?;
                made.push(rocksdb_column_family_handle_t::give(family));
            }
            Ok(())
        });
        if let Some(lencfs) = lencfs {
            *lencfs = made.len();
        }
        let bytes =
            std::slice::from_raw_parts(made.as_ptr().cast::<u8>(), size_of_val(made.as_slice()));
        ffi::give_bytes(bytes).cast()
    }
}

/// Frees the array of handles, but not the handles.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_create_column_families_destroy(list: Handles) {
    // SAFETY: by RocksDB's contract, the list is null or an array of this library.
    unsafe { ffi::free(list) }
}

/// Drops a column family. Iterators that exist go on; every other use of it fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_drop_column_family(
    db: Option<&rocksdb_t>,
    handle: Option<&rocksdb_column_family_handle_t>,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for error texts.
    unsafe {
        kept(errptr, || {
            let family = rocksdb_column_family_handle_t::of(handle)?;
            rocksdb_t::writable(db)?.drop_family(family)
        });
    }
}

/// Returns a handle of the default column family, which must be freed.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_get_default_column_family_handle(
    db: Option<&rocksdb_t>,
) -> *mut rocksdb_column_family_handle_t {
    db.map_or(std::ptr::null_mut(), |db| {
        rocksdb_column_family_handle_t::give(db.store.default.clone())
    })
}

/// Frees a handle of a column family.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_column_family_handle_destroy(
    handle: Option<Box<rocksdb_column_family_handle_t>>,
) {
    let _ = attempt(|| {
        drop(handle);
        Ok(())
    });
}

/// Returns the number of a column family.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_column_family_handle_get_id(
    handle: Option<&rocksdb_column_family_handle_t>,
) -> u32 {
    handle.map_or(0, |handle| handle.family.id())
}

/// Returns the name of a column family, allocated with `malloc`.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_column_family_handle_get_name(
    handle: Option<&rocksdb_column_family_handle_t>,
    name_len: Option<&mut usize>,
) -> *mut c_char {
    let name = handle.map(|handle| handle.family.keyspace().name()).unwrap_or_default();
    if let Some(name_len) = name_len {
        *name_len = name.len();
    }
    CString::new(name)
        .map_or(std::ptr::null_mut(), |name| ffi::give_bytes(name.as_bytes_with_nul()).cast())
}

/// Returns the identity of a store as text, allocated with `malloc`.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_get_db_identity(
    db: Option<&rocksdb_t>,
    id_len: Option<&mut usize>,
) -> *mut c_char {
    let id = attempt(|| Ok(format!("{:016x}", rocksdb_t::open(db)?.db().store_id())));
    let id = id.unwrap_or_default();
    if let Some(id_len) = id_len {
        *id_len = id.len();
    }
    ffi::give_text(&id)
}
