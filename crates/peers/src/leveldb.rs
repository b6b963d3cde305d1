//! LevelDB, and any other library with LevelDB's C interface.

use std::path::Path;

use esker_lab::error::{LabError, LabErrorKind, Result};
use esker_lab::target::{Capabilities, Compression, Durability, Engine, StoreOptions, Target};

use crate::c_functions::{Common, Handle, Owned};
use crate::capi::Opening;
use crate::library::{Loaded, functions, load_installed, load_path};

functions! {
    /// LevelDB's own functions.
    Own {
        options_set_cache: fn(Handle, Handle),
        options_set_block_size: fn(Handle, usize),
        options_set_block_restart_interval: fn(Handle, i32),
        options_set_max_file_size: fn(Handle, usize),
        options_set_filter_policy: fn(Handle, Handle),
        options_set_paranoid_checks: fn(Handle, u8),
        filterpolicy_create_bloom: fn(i32) -> Handle,
        filterpolicy_destroy: fn(Handle),
        major_version: fn() -> i32,
        minor_version: fn() -> i32,
    }
}

/// A library with LevelDB's C interface.
pub struct LevelDb {
    name: String,
    library: Loaded,
    common: Common,
    own: Own,
}

/// Name of LevelDB in benchmarks.
pub const NAME: &str = "leveldb";
/// Whether reads verify checksums: LevelDB's own default is `false`, that of a benchmark `true`, as
/// for every engine that can.
const VERIFY_CHECKSUMS: &str = "verify_checksums";
/// Options of LevelDB alone.
pub const OWN_OPTIONS: &[&str] = &[VERIFY_CHECKSUMS];

const NAMES: &[&str] = &["libleveldb.so.1d", "libleveldb.so.1", "libleveldb.so"];

impl LevelDb {
    /// Loads the system's LevelDB, or the library at `path`, named `name` in the benchmark.
    pub fn load(name: &str, path: Option<&str>) -> Result<LevelDb> {
        let library = match path {
            Some(path) => load_path(path)?,
            None => load_installed(NAMES, "libleveldb1d")?,
        };
        Ok(LevelDb {
            name: name.into(),
            common: Common::load(&library, "leveldb_")?,
            own: Own::load(&library, "leveldb_")?,
            library,
        })
    }

    /// Opens the existing store in `dir` with all consistency checks. A missing store is an error.
    /// The library recovers its log, and may therefore write files in `dir`.
    ///
    /// Fails if the library is Esker's own under LevelDB's name, which reads no LevelDB store.
    pub fn open_as_it_is(&self, dir: &Path) -> Result<Box<dyn Target>> {
        if self.library.exports("esker_version") {
            let message = format!(
                "{} is Esker's own library, which reads no LevelDB store: unset LD_LIBRARY_PATH, \
                 or name LevelDB's library",
                self.library.origin
            );
            return Err(LabError::new(LabErrorKind::NotInstalled, message));
        }
        // SAFETY: a new options object, kept in an `Owned` that outlives the call.
        let handle = unsafe {
            let handle = (self.common.options_create)();
            (self.common.options_set_create_if_missing)(handle, 0);
            (self.own.options_set_paranoid_checks)(handle, 1);
            handle
        };
        let owned = Owned { handle, destroy: self.common.options_destroy };
        self.common.open_store(dir, self.opening(owned, Vec::new(), (false, true)))
    }

    fn opening(
        &self,
        options: Owned,
        parts: Vec<Owned>,
        (sync_always, verify_checksums): (bool, bool),
    ) -> Opening<'_> {
        Opening {
            engine: &self.name,
            options,
            parts,
            sync_always,
            verify_checksums,
            tune_writes: &|_| {},
            pinned: None,
            transactions: None,
            merge: None,
            bulk: None,
            stats_property: c"leveldb.stats",
        }
    }

    /// Returns whether reads verify checksums.
    fn verifies(options: &StoreOptions) -> Result<bool> {
        let own = options.own_options(NAME).rfind(|(name, _)| *name == VERIFY_CHECKSUMS);
        match own.map(|(_, value)| value) {
            None | Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(other) => Err(LabError::usage(format!(
                "{NAME}.{VERIFY_CHECKSUMS} must be true or false, found {other:?}"
            ))),
        }
    }

    fn compression(options: &StoreOptions) -> Compression {
        match options.compression {
            Compression::None => Compression::None,
            _ => Compression::Snappy,
        }
    }
}

impl Engine for LevelDb {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> String {
        // SAFETY: both functions take no argument and return a number.
        let (major, minor) = unsafe { ((self.own.major_version)(), (self.own.minor_version)()) };
        format!("LevelDB C interface {major}.{minor} ({})", self.library.origin)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            sync: true,
            compact: true,
            checksums: true,
            concurrent_writers: true,
            persistent: true,
            transactions: false,
            merge: false,
            bulk_load: false,
        }
    }

    fn given(&self, options: &StoreOptions) -> Vec<(String, String)> {
        let mut compression = LevelDb::compression(options).name().to_string();
        if LevelDb::compression(options) != options.compression {
            compression.push_str(&format!(" ({} is not offered)", options.compression.name()));
        }
        let durability = match options.durability {
            Durability::Sync => "sync=true",
            Durability::Buffered => "sync=false",
            Durability::None => "sync=false (it cannot go without its log)",
        };
        let pair = |name: &str, value: String| (name.to_string(), value);
        options.given(vec![
            pair("write_buffer_size", options.memtable_bytes.to_string()),
            pair("cache_size", options.cache_bytes.to_string()),
            pair("block_size", options.block_bytes.to_string()),
            pair("block_restart_interval", options.restart_interval.to_string()),
            pair("max_file_size", options.file_max_bytes.to_string()),
            pair("filter_bits", options.filter_bits_per_key.to_string()),
            pair("compression", compression),
            pair("durability", durability.into()),
            pair("verify_checksums", LevelDb::verifies(options).unwrap_or(true).to_string()),
        ])
    }

    fn open(&self, dir: &Path, options: &StoreOptions) -> Result<Box<dyn Target>> {
        let common = self.common;
        let verifies = LevelDb::verifies(options)?;
        let mut parts = Vec::new();
        // SAFETY: a new object, kept in an `Owned` that outlives its use.
        let handle = unsafe {
            let handle = (common.options_create)();
            (common.options_set_create_if_missing)(handle, 1);
            handle
        };
        if !options.as_shipped {
            self.set(handle, options, &mut parts);
        }
        let owned = Owned { handle, destroy: common.options_destroy };
        let sync_always = options.durability == Durability::Sync;
        common.open_store(dir, self.opening(owned, parts, (sync_always, verifies)))
    }
}

impl LevelDb {
    /// Sets the options given to every engine of a benchmark alike.
    fn set(&self, handle: Handle, options: &StoreOptions, parts: &mut Vec<Owned>) {
        let (common, own) = (self.common, self.own);
        // SAFETY: `handle` is a live options object; cache and filter are kept in `parts`, which
        // live as long as the store.
        unsafe {
            (common.options_set_write_buffer_size)(handle, options.memtable_bytes as usize);
            (own.options_set_block_size)(handle, options.block_bytes as usize);
            (own.options_set_block_restart_interval)(handle, options.restart_interval as i32);
            (own.options_set_max_file_size)(handle, options.file_max_bytes as usize);
            let snappy = LevelDb::compression(options) == Compression::Snappy;
            (common.options_set_compression)(handle, i32::from(snappy));
            let cache = (common.cache_create_lru)(options.cache_bytes as usize);
            (own.options_set_cache)(handle, cache);
            parts.push(Owned { handle: cache, destroy: common.cache_destroy });
            if options.filter_bits_per_key > 0 {
                let filter = (own.filterpolicy_create_bloom)(options.filter_bits_per_key as i32);
                (own.options_set_filter_policy)(handle, filter);
                parts.push(Owned { handle: filter, destroy: own.filterpolicy_destroy });
            }
        }
    }
}
