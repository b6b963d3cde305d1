//! A RocksDB store with all its column families, opened for reading.
//!
//! Each column family is opened with the options that its newest OPTIONS file names, so that RocksDB
//! resolves the operands of its own merge operators. Options that RocksDB does not know, such as the
//! operator of a program, are left out, and a caller may name the operator of a family.
//!
//! Invariants:
//! 1. Nothing in the store's directory is changed. RocksDB replays the log into memory.
//! 2. Operands without their operator are an error, never a value.

use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use esker_lab::error::{LabError, Result};
use esker_lab::target::VisitPair;

use crate::c_functions::{Common, ErrorText, Handle, Owned, Walker};
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
        create_default_env: fn() -> Handle,
        env_destroy: fn(Handle),
        load_latest_options: fn(
            *const c_char, Handle, bool, Handle, *mut Handle, *mut usize, *mut *mut *mut c_char,
            *mut *mut Handle, ErrorText
        ),
        load_latest_options_destroy: fn(Handle, *mut *mut c_char, *mut Handle, usize),
        get_options_from_string: fn(Handle, *const c_char, Handle, ErrorText),
    }
}

/// Bytes of the cache that RocksDB wants beside the options of a store.
const CACHE_BYTES: usize = 8 << 20;

/// The merge operator of a column family, as RocksDB's option `merge_operator` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyOperator {
    /// Name of the column family.
    pub family: String,
    /// Name of the operator, or `{id=NAME;option=value}`.
    pub operator: String,
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
    /// `path`. `operators` replace those of the store's OPTIONS file. A store with a comparator or a
    /// merge operator of a program cannot be read without that program: RocksDB reports it here or
    /// while the pairs are read.
    pub fn open(
        path: Option<&str>,
        dir: &Path,
        operators: &[FamilyOperator],
    ) -> Result<RocksDbFamilies> {
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
        let loaded = Latest::load(&common, &own, &dir);
        let set = with_operators(&common, &own, &names, (operators, loaded.as_ref(), &options))?;
        let of_families: Vec<Handle> = set.iter().map(FamilyOptions::handle).collect();
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
        let create = self.own.create_iterator_cf;
        // SAFETY: objects of an open store; the iterator is freed before the store.
        let iter = unsafe { create(self.db, self.read.handle, family.handle) };
        let walker = Walker::new(&self.common, ENGINE, iter);
        let name = self.names.get(at).map_or("", String::as_str);
        // SAFETY: the iterator is alive.
        unsafe { (self.common.iter_seek_to_first)(walker.handle()) };
        while let Some((key, value)) = walker.pair() {
            if !visit(key, value) {
                return Ok(());
            }
            // SAFETY: the iterator is valid.
            unsafe { (self.common.iter_next)(walker.handle()) };
        }
        walker.finish().map_err(|error| with_advice(error, name))
    }
}

/// Adds what to do to the error of operands whose operator is not known.
fn with_advice(error: LabError, family: &str) -> LabError {
    let text = error.to_string();
    if !text.to_lowercase().contains("merge") {
        return error;
    }
    LabError::engine(format!(
        "{text}; the column family {family:?} has merge operands: name the operator that wrote them \
         with --merge-operator {family}=NAME, such as uint64add or \
         {{id=StringAppendOperator;delimiter=,}}"
    ))
}

/// The options of a column family: of its own, or shared with others.
enum FamilyOptions {
    Own(Owned),
    Shared(Handle),
}

impl FamilyOptions {
    fn handle(&self) -> Handle {
        match self {
            FamilyOptions::Own(own) => own.handle,
            FamilyOptions::Shared(handle) => *handle,
        }
    }
}

/// Returns the options of each column family. An operator for a family that does not exist, or that
/// RocksDB does not know, is an error.
fn with_operators(
    common: &Common,
    own: &Families,
    names: &[CString],
    (operators, latest, plain): (&[FamilyOperator], Option<&Latest>, &Owned),
) -> Result<Vec<FamilyOptions>> {
    let named = |family: &str| names.iter().any(|name| name.to_string_lossy() == family);
    if let Some(unknown) = operators.iter().find(|given| !named(&given.family)) {
        let known: Vec<_> = names.iter().map(|name| name.to_string_lossy()).collect();
        return Err(LabError::usage(format!(
            "--merge-operator names the column family {:?}, and the store has {}",
            unknown.family,
            known.join(", ")
        )));
    }
    let of_name = |name: &CString| {
        let base = latest.and_then(|latest| latest.of(name)).unwrap_or(plain.handle);
        let given = operators.iter().find(|given| given.family == name.to_string_lossy());
        let Some(given) = given else { return Ok(FamilyOptions::Shared(base)) };
        let text = CString::new(format!("merge_operator={}", given.operator))
            .map_err(|_| LabError::usage("--merge-operator holds a zero byte"))?;
        let mut error: *mut c_char = std::ptr::null_mut();
        // SAFETY: new options, freed with the result; the texts live through the call.
        let made = unsafe {
            let (handle, destroy) = ((common.options_create)(), common.options_destroy);
            (own.get_options_from_string)(base, text.as_ptr(), handle, &raw mut error);
            Owned { handle, destroy }
        };
        common.check(ENGINE, error).map_err(|error| {
            LabError::usage(format!(
                "--merge-operator {}={}: {error}; RocksDB's own are uint64add, put, max, bytesxor \
                 and stringappend",
                given.family, given.operator
            ))
        })?;
        Ok(FamilyOptions::Own(made))
    };
    names.iter().map(of_name).collect()
}

/// The options of the store's newest OPTIONS file.
struct Latest<'a> {
    own: &'a Families,
    options: Handle,
    names: *mut *mut c_char,
    of_families: *mut Handle,
    count: usize,
}

impl<'a> Latest<'a> {
    /// Reads the file. `None` if there is none, or if RocksDB cannot read it: the store then opens
    /// with plain options.
    fn load(common: &Common, own: &'a Families, dir: &CStr) -> Option<Latest<'a>> {
        let (mut options, mut names) = (std::ptr::null_mut(), std::ptr::null_mut());
        let (mut of_families, mut count) = (std::ptr::null_mut(), 0usize);
        let mut error: *mut c_char = std::ptr::null_mut();
        // SAFETY: new objects, which live through the call; the options keep their own reference to
        // the cache.
        unsafe {
            let env = Owned { handle: (own.create_default_env)(), destroy: own.env_destroy };
            let cache = (common.cache_create_lru)(CACHE_BYTES);
            let cache = Owned { handle: cache, destroy: common.cache_destroy };
            (own.load_latest_options)(
                dir.as_ptr(),
                env.handle,
                true,
                cache.handle,
                &raw mut options,
                &raw mut count,
                &raw mut names,
                &raw mut of_families,
                &raw mut error,
            );
        }
        common.check(ENGINE, error).ok()?;
        Some(Latest { own, options, names, of_families, count })
    }

    /// Returns the options of a column family.
    fn of(&self, name: &CStr) -> Option<Handle> {
        // SAFETY: both lists have `count` items, and the names are C strings.
        let place = |at: &usize| unsafe { CStr::from_ptr(*self.names.add(*at)) == name };
        let found = (0..self.count).find(place);
        // SAFETY: as above.
        found.map(|at| unsafe { *self.of_families.add(at) })
    }
}

impl Drop for Latest<'_> {
    fn drop(&mut self) {
        // SAFETY: objects of the same call, which no one uses any more.
        unsafe {
            (self.own.load_latest_options_destroy)(
                self.options,
                self.names,
                self.of_families,
                self.count,
            );
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
