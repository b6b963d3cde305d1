//! `rocksdb_sst_file_manager_*`: the sizes of the tables of the stores that share a manager.
//!
//! Invariants:
//! 1. Rates of deletion are kept without effect: a thread of each store removes its files.
//! 2. A limit of space makes every open with the manager fail, because Esker has none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use esker_c::failure::{Outcome, attempt};

use crate::failure::{pend, refusal};
use crate::memory::Stores;
use crate::objects::rocksdb_env_t;
use crate::options::rocksdb_options_t;
use crate::settings::Settings;

/// What options share with their manager.
#[derive(Default)]
pub struct FileManager {
    /// Stores that were opened with the manager.
    pub stores: Stores,
    space_bytes_max: AtomicU64,
}

const LIMIT: &str = "rocksdb_sst_file_manager_set_max_allowed_space_usage";
const WHY: &str = "Esker does not limit the size of a store";

impl FileManager {
    /// Fails if the manager limits space.
    pub fn check(&self) -> Outcome<()> {
        match self.space_bytes_max.load(Ordering::Relaxed) {
            0 => Ok(()),
            _ => Err(refusal(LIMIT, WHY)),
        }
    }

    /// Returns the bytes of the tables of all stores.
    fn total_bytes(&self) -> u64 {
        let sizes = |store: Arc<crate::store::Store>| -> u64 {
            store.db().tables().iter().map(|table| table.size_bytes).sum()
        };
        attempt(|| Ok(self.stores.open().into_iter().map(sizes).sum())).unwrap_or(0)
    }
}

/// A manager of table files. It begins with settings, because its rates are some.
#[repr(C)]
pub struct rocksdb_sst_file_manager_t {
    /// Rates that have no effect.
    pub settings: Settings,
    shared: Arc<FileManager>,
}

type Manager<'a> = Option<&'a rocksdb_sst_file_manager_t>;

/// Creates a manager without a limit.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_sst_file_manager_create(
    _env: Option<&rocksdb_env_t>,
) -> Box<rocksdb_sst_file_manager_t> {
    Box::new(rocksdb_sst_file_manager_t { settings: Settings::default(), shared: Arc::default() })
}

/// Frees a manager. Options and stores with it go on.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_sst_file_manager_destroy(
    manager: Option<Box<rocksdb_sst_file_manager_t>>,
) {
    drop(manager);
}

/// Sets the manager of the tables of a store. NULL is none.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_options_set_sst_file_manager(
    options: Option<&mut rocksdb_options_t>,
    manager: Manager<'_>,
) {
    if let Some(options) = options {
        options.objects.files = manager.map(|manager| manager.shared.clone());
    }
}

/// Limits the bytes of the tables; 0 is no limit. With a limit, opens with the manager fail, and if a
/// store is open with it, so does the next call that reports errors.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_sst_file_manager_set_max_allowed_space_usage(
    manager: Manager<'_>,
    max_allowed_space: u64,
) {
    if let Some(manager) = manager {
        manager.shared.space_bytes_max.store(max_allowed_space, Ordering::Relaxed);
        if max_allowed_space > 0 && !manager.shared.stores.open().is_empty() {
            pend(refusal(LIMIT, WHY));
        }
    }
}

/// Returns whether the tables have the bytes of the limit.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_sst_file_manager_is_max_allowed_space_reached(
    manager: Manager<'_>,
) -> u8 {
    let is_reached = |shared: &FileManager| {
        let limit = shared.space_bytes_max.load(Ordering::Relaxed);
        limit > 0 && shared.total_bytes() >= limit
    };
    u8::from(manager.is_some_and(|manager| is_reached(&manager.shared)))
}

/// Returns whether the tables have the bytes of the limit, with those of running compactions.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_sst_file_manager_is_max_allowed_space_reached_including_compactions(
    manager: Manager<'_>,
) -> u8 {
    rocksdb_sst_file_manager_is_max_allowed_space_reached(manager)
}

/// Returns the bytes of the tables of the manager's stores.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_sst_file_manager_get_total_size(manager: Manager<'_>) -> u64 {
    manager.map_or(0, |manager| manager.shared.total_bytes())
}
