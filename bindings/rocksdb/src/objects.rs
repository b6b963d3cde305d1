//! Objects that options refer to: comparators, prefix extractors, filter policies, caches, and
//! environments.
//!
//! Invariants:
//! 1. The destructor of a user's state runs once, after the last option object and store that uses
//!    the state is freed.
//! 2. A store gets a block cache of its own, with the capacity of the cache object.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use esker::KeyOrder;
use esker::fs::{Fs, MemFs, OsFs};
use esker_c::callbacks::{CComparator, State, esker_compare_t, esker_destructor_t, esker_name_t};
use esker_c::failure::{Failure, Outcome, attempt};

use crate::failure::quiet;
use crate::settings::Settings;
use crate::store::Store;

/// A key order. Stores and options keep it alive while they use it.
pub struct rocksdb_comparator_t {
    pub(crate) comparator: Arc<CComparator>,
}

/// The comparators of the process. A restore reads the store of a backup in its key orders, which
/// RocksDB's functions do not pass.
static COMPARATORS: Mutex<Vec<Weak<CComparator>>> = Mutex::new(Vec::new());

/// Returns the key orders of the comparators that the process has.
pub(crate) fn known_orders() -> Vec<KeyOrder> {
    let known = COMPARATORS.lock().unwrap_or_else(PoisonError::into_inner);
    known.iter().filter_map(Weak::upgrade).map(|known| KeyOrder::Custom(known)).collect()
}

type Transforming =
    unsafe extern "C" fn(*mut c_void, *const c_char, usize, *mut usize) -> *mut c_char;
type InDomain = unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> u8;

/// Extracts the prefix of a key.
pub enum Transform {
    /// The first bytes; shorter keys have no prefix.
    Fixed(usize),
    /// The whole key.
    Noop,
    /// A user's functions.
    Custom(CTransform),
}

/// A user's functions that extract a prefix.
pub struct CTransform {
    state: State,
    transform: Transforming,
    in_domain: InDomain,
}

impl Transform {
    /// Returns the prefix of `key`, or `None` if the key has none.
    pub fn prefix(&self, key: &[u8]) -> Option<Vec<u8>> {
        match self {
            Transform::Fixed(len) => key.get(..*len).map(<[u8]>::to_vec),
            Transform::Noop => Some(key.to_vec()),
            Transform::Custom(custom) => {
                let (start, len) = (key.as_ptr().cast(), key.len());
                // SAFETY: the functions and the pointer belong together; the key outlives the
                // calls. The result points into the key or to memory of the state, and is copied.
                unsafe {
                    if (custom.in_domain)(custom.state.pointer, start, len) == 0 {
                        return None;
                    }
                    let mut prefix_len = 0usize;
                    let pointer = custom.state.pointer;
                    let prefix = (custom.transform)(pointer, start, len, &raw mut prefix_len);
                    let prefix = esker_c::ffi::bytes(prefix.cast_const(), prefix_len, "prefix");
                    prefix.ok().map(<[u8]>::to_vec)
                }
            }
        }
    }
}

/// A prefix extractor.
pub struct rocksdb_slicetransform_t {
    pub(crate) transform: Arc<Transform>,
}

/// A filter policy: a number of bits per key.
pub struct rocksdb_filterpolicy_t {
    pub(crate) bits_per_key: f64,
}

/// The capacity of a cache object, and the stores that use it.
#[derive(Default)]
pub struct Cache {
    capacity_bytes: AtomicUsize,
    stores: Mutex<Vec<Weak<Store>>>,
}

impl Cache {
    /// Returns the capacity, in bytes.
    pub fn capacity_bytes(&self) -> usize {
        self.capacity_bytes.load(Ordering::Relaxed)
    }

    /// Adds a store that has a cache of this capacity.
    pub fn add(&self, store: &Arc<Store>) {
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores.retain(|store| store.strong_count() > 0);
        stores.push(Arc::downgrade(store));
    }

    fn stores(&self) -> Vec<Arc<Store>> {
        let stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores.iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns the bytes of blocks in the caches of its stores.
    pub fn usage_bytes(&self) -> u64 {
        self.stores().iter().map(|store| store.db().metrics().memory.cache_bytes).sum()
    }

    /// Changes the capacity, also that of the caches of its stores.
    fn set_capacity(&self, bytes: usize) -> Outcome<()> {
        self.capacity_bytes.store(bytes, Ordering::Relaxed);
        let text = cache_size(bytes);
        for store in self.stores() {
            store.db().set_options(&[("cache_size_bytes", &text)])?;
        }
        Ok(())
    }
}

/// Returns a capacity as a value of Esker's option `cache_size_bytes`.
pub fn cache_size(bytes: usize) -> String {
    bytes.min(1 << 40).to_string()
}

/// A block cache object.
pub struct rocksdb_cache_t {
    pub(crate) cache: Arc<Cache>,
}

/// An environment: a file system. It begins with settings, because its numbers of threads are some.
#[repr(C)]
pub struct rocksdb_env_t {
    /// Numbers of threads.
    pub settings: Settings,
    pub(crate) fs: Arc<dyn Fs>,
}

/// Creates a comparator from the caller's functions; null if a required function is missing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_comparator_create(
    state: *mut c_void,
    destructor: esker_destructor_t,
    compare: esker_compare_t,
    name: esker_name_t,
) -> Option<Box<rocksdb_comparator_t>> {
    let made = quiet(|| CComparator::new(state, destructor, compare, name));
    made.map(|made| {
        let comparator = Arc::new(made);
        let mut known = COMPARATORS.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|comparator| comparator.strong_count() > 0);
        known.push(Arc::downgrade(&comparator));
        Box::new(rocksdb_comparator_t { comparator })
    })
}

/// Frees a comparator.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_comparator_destroy(comparator: Option<Box<rocksdb_comparator_t>>) {
    drop(comparator);
}

/// Creates a prefix extractor from the caller's functions; null if a required function is missing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_slicetransform_create(
    state: *mut c_void,
    destructor: esker_destructor_t,
    transform: Option<Transforming>,
    in_domain: Option<InDomain>,
    _name: esker_name_t,
) -> Option<Box<rocksdb_slicetransform_t>> {
    let state = State { pointer: state, destructor };
    let made = quiet(|| {
        let missing = || Failure::invalid("a function of the prefix extractor is NULL");
        let transform = transform.ok_or_else(missing)?;
        let in_domain = in_domain.ok_or_else(missing)?;
        Ok(Transform::Custom(CTransform { state, transform, in_domain }))
    });
    made.map(given)
}

fn given(transform: Transform) -> Box<rocksdb_slicetransform_t> {
    Box::new(rocksdb_slicetransform_t { transform: Arc::new(transform) })
}

/// Creates the extractor of the first `len` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_slicetransform_create_fixed_prefix(
    len: usize,
) -> Box<rocksdb_slicetransform_t> {
    given(Transform::Fixed(len))
}

/// Creates the extractor of the whole key.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_slicetransform_create_noop() -> Box<rocksdb_slicetransform_t> {
    given(Transform::Noop)
}

/// Frees a prefix extractor that no options own.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_slicetransform_destroy(transform: Option<Box<rocksdb_slicetransform_t>>) {
    drop(transform);
}

/// Creates a filter policy with this number of bits per key.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_filterpolicy_create_bloom(bits: f64) -> Box<rocksdb_filterpolicy_t> {
    Box::new(rocksdb_filterpolicy_t { bits_per_key: bits })
}

/// Creates a filter policy with this number of bits per key.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_filterpolicy_create_bloom_full(bits: f64) -> Box<rocksdb_filterpolicy_t> {
    rocksdb_filterpolicy_create_bloom(bits)
}

/// Creates a filter policy with this number of bits per key. The filter is a Bloom filter.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_filterpolicy_create_ribbon(bits: f64) -> Box<rocksdb_filterpolicy_t> {
    rocksdb_filterpolicy_create_bloom(bits)
}

/// Creates a filter policy with this number of bits per key. The filter is a Bloom filter at every
/// level.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_filterpolicy_create_ribbon_hybrid(
    bits: f64,
    _bloom_before_level: c_int,
) -> Box<rocksdb_filterpolicy_t> {
    rocksdb_filterpolicy_create_bloom(bits)
}

/// Frees a filter policy that no options own.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_filterpolicy_destroy(filter: Option<Box<rocksdb_filterpolicy_t>>) {
    drop(filter);
}

/// Creates a cache object with a capacity in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_cache_create_lru(capacity: usize) -> Box<rocksdb_cache_t> {
    let cache = Arc::new(Cache::default());
    cache.capacity_bytes.store(capacity, Ordering::Relaxed);
    Box::new(rocksdb_cache_t { cache })
}

/// Creates a cache object with a capacity in bytes. Esker never exceeds it.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_cache_create_lru_with_strict_capacity_limit(
    capacity: usize,
) -> Box<rocksdb_cache_t> {
    rocksdb_cache_create_lru(capacity)
}

/// Creates a cache object with the options' capacity.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_cache_create_lru_opts(
    options: Option<&Settings>,
) -> Box<rocksdb_cache_t> {
    let capacity = options.and_then(|options| options.get("capacity")).unwrap_or(0);
    rocksdb_cache_create_lru(usize::try_from(capacity).unwrap_or(usize::MAX))
}

/// Creates a cache object with a capacity in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_cache_create_hyper_clock(
    capacity: usize,
    _estimated_entry_charge: usize,
) -> Box<rocksdb_cache_t> {
    rocksdb_cache_create_lru(capacity)
}

/// Creates a cache object with the options' capacity.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_cache_create_hyper_clock_opts(
    options: Option<&Settings>,
) -> Box<rocksdb_cache_t> {
    rocksdb_cache_create_lru_opts(options)
}

/// Creates the options of a cache with a capacity in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_hyper_clock_cache_options_create(
    capacity: usize,
    _estimated_entry_charge: usize,
) -> Box<Settings> {
    let mut settings = Settings::default();
    settings.set("capacity", capacity as u64);
    Box::new(settings)
}

/// Frees a cache object.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_cache_destroy(cache: Option<Box<rocksdb_cache_t>>) {
    drop(cache);
}

/// Changes the capacity of a cache, also in open stores.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_cache_set_capacity(cache: Option<&rocksdb_cache_t>, capacity: usize) {
    if let Some(cache) = cache {
        quiet(|| cache.cache.set_capacity(capacity));
    }
}

/// Returns the capacity of a cache, in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_cache_get_capacity(cache: Option<&rocksdb_cache_t>) -> usize {
    cache.map_or(0, |cache| cache.cache.capacity_bytes())
}

/// Returns the bytes of the blocks in the caches of the stores that use this object.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_cache_get_usage(cache: Option<&rocksdb_cache_t>) -> usize {
    let usage = attempt(|| Ok(cache.map_or(0, |cache| cache.cache.usage_bytes())));
    usage.ok().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0)
}

fn env(fs: Arc<dyn Fs>) -> Box<rocksdb_env_t> {
    Box::new(rocksdb_env_t { settings: Settings::default(), fs })
}

/// Creates a handle to the operating system's file system.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_create_default_env() -> Box<rocksdb_env_t> {
    env(OsFs::shared())
}

/// Creates a file system in memory, which lives as long as the handle and its stores.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_create_mem_env() -> Box<rocksdb_env_t> {
    env(MemFs::new())
}

/// Frees an environment handle.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_env_destroy(env: Option<Box<rocksdb_env_t>>) {
    drop(env);
}

/// Creates a directory unless it exists.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_create_dir_if_missing(
    env: Option<&rocksdb_env_t>,
    path: *const c_char,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for strings and error texts.
    unsafe {
        crate::failure::kept(errptr, || {
            let env = esker_c::failure::there(env, "environment")?;
            let path = esker_c::ffi::path(path)?;
            let made = match env.fs.exists(path) {
                Ok(true) => Ok(()),
                Ok(false) => env.fs.create_dir(path),
                Err(error) => Err(error),
            };
            made.map_err(|error| Failure {
                code: esker_c::failure::ESKER_IO,
                message: format!("{}: cannot create the directory: {error}", path.display()),
            })
        });
    }
}

/// Frees memory returned by a function of this interface.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_free(memory: *mut c_void) {
    // SAFETY: the caller meets the contract of RocksDB's header.
    unsafe { esker_c::ffi::free(memory) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_fixed_length_need_that_many_bytes() {
        assert_eq!(Transform::Fixed(2).prefix(b"abc").as_deref(), Some(&b"ab"[..]));
        assert_eq!(Transform::Fixed(2).prefix(b"a"), None);
        assert_eq!(Transform::Noop.prefix(b"a").as_deref(), Some(&b"a"[..]));
    }

    #[test]
    fn capacities_are_kept() {
        let cache = rocksdb_cache_create_lru(1 << 20);
        assert_eq!(rocksdb_cache_get_capacity(Some(&cache)), 1 << 20);
        rocksdb_cache_set_capacity(Some(&cache), 5);
        assert_eq!(rocksdb_cache_get_capacity(Some(&cache)), 5);
        assert_eq!(rocksdb_cache_get_usage(Some(&cache)), 0);
        assert_eq!(rocksdb_cache_get_capacity(None), 0);
    }
}
