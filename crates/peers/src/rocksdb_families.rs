//! A RocksDB store with all its column families, opened for reading.
//!
//! Nothing in the store's directory is changed. RocksDB replays the log into memory.

use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use esker_lab::error::{LabError, Result};
use esker_lab::target::VisitPair;

use crate::c_functions::{Common, ErrorText, Handle, Owned, slice};
use crate::library::functions;
use crate::rocksdb::library;

/// Name of the engine, for messages.
const ENGINE: &str = "RocksDB";

functions! {
    /// RocksDB's functions for column families.
    Families {
        list_column_families: fn(
            Handle, *const c_char, *mut usize, ErrorText
        ) -> *mut *mut c_char,
        list_column_families_destroy: fn(*mut *mut c_char, usize),
        open_for_read_only_column_families: fn(
            Handle, *const c_char, i32, *const *const c_char, *const Handle, *mut Handle, u8,
            ErrorText
        ) -> Handle,
        column_family_handle_destroy: fn(Handle),
        create_iterator_cf: fn(Handle, Handle, Handle) -> Handle,
        readoptions_set_total_order_seek: fn(Handle, u8),
    }
}

/// An open store.
pub struct RocksDbFamilies {
    common: Common,
    own: Families,
    names: Vec<String>,
    /// Freed before the store.
    handles: Vec<Owned>,
    db: Handle,
    read: Owned,
}

impl RocksDbFamilies {
    /// Opens the store in `dir` for reading, through the installed RocksDB or the library at
    /// `path`. A store with a comparator or a merge operator of a program cannot be read without
    /// that program: RocksDB reports it here or while the pairs are read.
    pub fn open(path: Option<&str>, dir: &Path) -> Result<RocksDbFamilies> {
        let library = library(path)?;
        let common = Common::load(&library, "rocksdb_")?;
        let own = Families::load(&library, "rocksdb_")?;
        let dir = CString::new(dir.as_os_str().as_bytes())
            .map_err(|_| LabError::engine("the path holds a zero byte"))?;
        // SAFETY: new option objects, kept until the end of the calls that use them.
        let (options, read) = unsafe {
            let read = (common.readoptions_create)();
            (common.readoptions_set_verify_checksums)(read, 1);
            (own.readoptions_set_total_order_seek)(read, 1);
            (
                Owned { handle: (common.options_create)(), destroy: common.options_destroy },
                Owned { handle: read, destroy: common.readoptions_destroy },
            )
        };
        let names = names(&common, &own, options.handle, &dir)?;
        let starts: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
        let of_families = vec![options.handle; names.len()];
        let mut handles: Vec<Handle> = vec![std::ptr::null_mut(); names.len()];
        let mut error: *mut c_char = std::ptr::null_mut();
        // SAFETY: each array has an item for each name; options and names live through the call.
        let db = unsafe {
            (own.open_for_read_only_column_families)(
                options.handle,
                dir.as_ptr(),
                i32::try_from(names.len()).unwrap_or(i32::MAX),
                starts.as_ptr(),
                of_families.as_ptr(),
                handles.as_mut_ptr(),
                0,
                &raw mut error,
            )
        };
        common.check(ENGINE, error)?;
        let destroy = own.column_family_handle_destroy;
        let handles = handles.into_iter().map(|handle| Owned { handle, destroy }).collect();
        let names = names.iter().map(|name| name.to_string_lossy().into_owned()).collect();
        Ok(RocksDbFamilies { common, own, names, handles, db, read })
    }

    /// Returns the names of the column families.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Calls `visit` with each pair of the column family at a position of [`Self::names`], in key
    /// order, until it returns `false`.
    pub fn scan(&self, at: usize, visit: VisitPair<'_>) -> Result<()> {
        let Some(family) = self.handles.get(at) else {
            return Err(LabError::engine("there is no such column family"));
        };
        let common = &self.common;
        // SAFETY: objects of an open store; the iterator is freed before the store. Key and value
        // may be read while the iterator is valid, until it moves.
        unsafe {
            let create = self.own.create_iterator_cf;
            let handle = create(self.db, self.read.handle, family.handle);
            let iter = Owned { handle, destroy: common.iter_destroy };
            (common.iter_seek_to_first)(iter.handle);
            while (common.iter_valid)(iter.handle) != 0 {
                let (mut key_len, mut value_len) = (0usize, 0usize);
                let key = (common.iter_key)(iter.handle, &raw mut key_len);
                let value = (common.iter_value)(iter.handle, &raw mut value_len);
                if !visit(slice(key, key_len), slice(value, value_len)) {
                    return Ok(());
                }
                (common.iter_next)(iter.handle);
            }
            let mut error: *mut c_char = std::ptr::null_mut();
            (common.iter_get_error)(iter.handle, &raw mut error);
            common.check(ENGINE, error)
        }
    }
}

/// Returns the names of a store's column families.
fn names(common: &Common, own: &Families, options: Handle, dir: &CStr) -> Result<Vec<CString>> {
    let mut error: *mut c_char = std::ptr::null_mut();
    let mut count = 0usize;
    // SAFETY: options and path live through the calls; the list has `count` texts, which are copied
    // before it is freed.
    unsafe {
        let list =
            (own.list_column_families)(options, dir.as_ptr(), &raw mut count, &raw mut error);
        common.check(ENGINE, error)?;
        let texts = (0..count).map(|at| CStr::from_ptr(*list.add(at)).to_owned());
        let texts: Vec<CString> = texts.collect();
        (own.list_column_families_destroy)(list, count);
        Ok(texts)
    }
}

impl Drop for RocksDbFamilies {
    fn drop(&mut self) {
        self.handles.clear();
        // SAFETY: the store is open, and no call on it is running.
        unsafe { (self.common.close)(self.db) }
    }
}
