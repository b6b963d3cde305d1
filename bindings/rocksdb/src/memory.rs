//! Write buffer managers, and the memory of stores and caches.

use std::ffi::c_char;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use esker::report::MemoryMetrics;
use esker_c::failure::{attempt, there};

use crate::failure::kept;
use crate::objects::{Cache, rocksdb_cache_t};
use crate::store::{Store, rocksdb_t};

/// The numbers of a write buffer manager, and the stores that use it.
#[derive(Default)]
pub struct WriteBuffers {
    size_bytes: AtomicUsize,
    costs_cache: bool,
    /// Stores that were opened with the manager.
    pub stores: Stores,
}

/// Stores that share an object. It does not keep them open.
#[derive(Default)]
pub struct Stores(Mutex<Vec<Weak<Store>>>);

impl Stores {
    /// Adds a store, unless it is there.
    pub fn add(&self, store: &Arc<Store>) {
        let mut stores = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let added = Arc::downgrade(store);
        stores.retain(|store| store.strong_count() > 0 && !store.ptr_eq(&added));
        stores.push(added);
    }

    /// Returns the stores that have handles.
    pub fn open(&self) -> Vec<Arc<Store>> {
        let stores = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stores.iter().filter_map(Weak::upgrade).collect()
    }
}

impl WriteBuffers {
    fn sum(&self, of: fn(&MemoryMetrics) -> u64) -> usize {
        let bytes = attempt(|| {
            let open = self.stores.open().into_iter();
            Ok(open.map(|store| of(&store.db().metrics().memory)).sum::<u64>())
        });
        bytes.ok().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0)
    }
}

/// A write buffer manager.
pub struct rocksdb_write_buffer_manager_t {
    pub(crate) buffers: Arc<WriteBuffers>,
}

/// Returns the bytes of all memtables.
pub(crate) fn memtables(memory: &MemoryMetrics) -> u64 {
    memory.active_memtable_bytes + memory.frozen_memtables_bytes
}

fn manager(size_bytes: usize, costs_cache: bool) -> Box<rocksdb_write_buffer_manager_t> {
    let buffers = WriteBuffers {
        size_bytes: AtomicUsize::new(size_bytes),
        costs_cache,
        stores: Stores::default(),
    };
    Box::new(rocksdb_write_buffer_manager_t { buffers: Arc::new(buffers) })
}

/// Creates a write buffer manager. Each store has its own limit of memory, which
/// `memory_budget_bytes` sets.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_write_buffer_manager_create(
    buffer_size: usize,
    _allow_stall: u8,
) -> Box<rocksdb_write_buffer_manager_t> {
    manager(buffer_size, false)
}

/// Creates a write buffer manager. The memory of memtables is not taken from the cache.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_write_buffer_manager_create_with_cache(
    buffer_size: usize,
    cache: Option<&rocksdb_cache_t>,
    _allow_stall: u8,
) -> Box<rocksdb_write_buffer_manager_t> {
    manager(buffer_size, cache.is_some())
}

/// Frees a write buffer manager.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_write_buffer_manager_destroy(
    manager: Option<Box<rocksdb_write_buffer_manager_t>>,
) {
    drop(manager);
}

/// Returns whether the manager has a size.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_write_buffer_manager_enabled(
    manager: Option<&rocksdb_write_buffer_manager_t>,
) -> u8 {
    u8::from(rocksdb_write_buffer_manager_buffer_size(manager) > 0)
}

/// Returns whether the manager was created with a cache.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_write_buffer_manager_cost_to_cache(
    manager: Option<&rocksdb_write_buffer_manager_t>,
) -> u8 {
    u8::from(manager.is_some_and(|manager| manager.buffers.costs_cache))
}

/// Returns the bytes of the memtables of the manager's stores.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_write_buffer_manager_memory_usage(
    manager: Option<&rocksdb_write_buffer_manager_t>,
) -> usize {
    manager.map_or(0, |manager| manager.buffers.sum(memtables))
}

/// Returns the bytes of the active memtables of the manager's stores.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_write_buffer_manager_mutable_memtable_memory_usage(
    manager: Option<&rocksdb_write_buffer_manager_t>,
) -> usize {
    manager.map_or(0, |manager| manager.buffers.sum(|memory| memory.active_memtable_bytes))
}

/// Returns the size of the manager, in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_write_buffer_manager_buffer_size(
    manager: Option<&rocksdb_write_buffer_manager_t>,
) -> usize {
    manager.map_or(0, |manager| manager.buffers.size_bytes.load(Ordering::Relaxed))
}

/// Changes the size of the manager, in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_write_buffer_manager_set_buffer_size(
    manager: Option<&rocksdb_write_buffer_manager_t>,
    new_size: usize,
) {
    if let Some(manager) = manager {
        manager.buffers.size_bytes.store(new_size, Ordering::Relaxed);
    }
}

/// Stores and caches whose memory is asked for.
#[derive(Default)]
pub struct rocksdb_memory_consumers_t {
    stores: Vec<Weak<Store>>,
    caches: Vec<Arc<Cache>>,
}

/// The memory of stores and caches at one moment, in bytes.
#[derive(Default)]
pub struct rocksdb_memory_usage_t {
    memtables: u64,
    unflushed: u64,
    tables: u64,
    caches: u64,
}

/// Creates an empty list of consumers.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_memory_consumers_create() -> Box<rocksdb_memory_consumers_t> {
    Box::default()
}

/// Adds a store.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_memory_consumers_add_db(
    consumers: Option<&mut rocksdb_memory_consumers_t>,
    db: Option<&rocksdb_t>,
) {
    if let (Some(consumers), Some(db)) = (consumers, db) {
        consumers.stores.push(Arc::downgrade(&db.store));
    }
}

/// Adds a cache.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_memory_consumers_add_cache(
    consumers: Option<&mut rocksdb_memory_consumers_t>,
    cache: Option<&rocksdb_cache_t>,
) {
    if let (Some(consumers), Some(cache)) = (consumers, cache) {
        consumers.caches.push(cache.cache.clone());
    }
}

/// Frees a list of consumers.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_memory_consumers_destroy(
    consumers: Option<Box<rocksdb_memory_consumers_t>>,
) {
    drop(consumers);
}

/// Measures the memory of the consumers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_approximate_memory_usage_create(
    consumers: Option<&rocksdb_memory_consumers_t>,
    errptr: Option<&mut *mut c_char>,
) -> Option<Box<rocksdb_memory_usage_t>> {
    // SAFETY: the caller meets RocksDB's contract for error texts.
    unsafe {
        kept(errptr, || {
            let consumers = there(consumers, "list of consumers")?;
            let mut usage = rocksdb_memory_usage_t::default();
            for store in consumers.stores.iter().filter_map(Weak::upgrade) {
                let memory = store.db().metrics().memory;
                usage.memtables += memtables(&memory) + memory.pooled_bytes;
                usage.unflushed += memtables(&memory);
                usage.tables += memory.tables_bytes;
            }
            usage.caches = consumers.caches.iter().map(|cache| cache.usage_bytes()).sum();
            Ok(Box::new(usage))
        })
    }
}

/// Frees a measurement.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_approximate_memory_usage_destroy(
    usage: Option<Box<rocksdb_memory_usage_t>>,
) {
    drop(usage);
}

/// Returns the bytes of memtables and of the memory kept for them.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_approximate_memory_usage_get_mem_table_total(
    usage: Option<&rocksdb_memory_usage_t>,
) -> u64 {
    usage.map_or(0, |usage| usage.memtables)
}

/// Returns the bytes of memtables.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_approximate_memory_usage_get_mem_table_unflushed(
    usage: Option<&rocksdb_memory_usage_t>,
) -> u64 {
    usage.map_or(0, |usage| usage.unflushed)
}

/// Returns the bytes of the indexes and filters of open tables.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_approximate_memory_usage_get_mem_table_readers_total(
    usage: Option<&rocksdb_memory_usage_t>,
) -> u64 {
    usage.map_or(0, |usage| usage.tables)
}

/// Returns the bytes of blocks in caches.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_approximate_memory_usage_get_cache_total(
    usage: Option<&rocksdb_memory_usage_t>,
) -> u64 {
    usage.map_or(0, |usage| usage.caches)
}
