//! LevelDB's objects that options refer to: comparators, filter policies, caches, environments.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use esker_bindings::settings::Filter;
use esker_c::callbacks::{
    CComparator, CFilter, esker_compare_t, esker_create_filter_t, esker_destructor_t,
    esker_may_match_t, esker_name_t,
};
use esker_c::failure::attempt;
use esker_c::ffi;

/// A key order. Stores and options keep it alive while they use it.
pub struct leveldb_comparator_t {
    pub(crate) comparator: Arc<CComparator>,
}

/// A filter policy. Stores and options keep it alive while they use it.
pub struct leveldb_filterpolicy_t {
    pub(crate) filter: Filter,
}

/// A block cache size. Each store opened with it gets a separate cache of this size.
pub struct leveldb_cache_t {
    pub(crate) capacity_bytes: usize,
}

/// The operating system's file system, which is the only environment of the C interface.
pub struct leveldb_env_t {
    _private: (),
}

/// A logger. The C interface has no function that creates one.
pub struct leveldb_logger_t {
    _private: (),
}

/// Creates a comparator from the caller's functions; null if a required function is missing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_comparator_create(
    state: *mut c_void,
    destructor: esker_destructor_t,
    compare: esker_compare_t,
    name: esker_name_t,
) -> Option<Box<leveldb_comparator_t>> {
    let made = attempt(|| CComparator::new(state, destructor, compare, name));
    made.ok().map(|made| Box::new(leveldb_comparator_t { comparator: Arc::new(made) }))
}

/// Frees a comparator.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_comparator_destroy(comparator: Option<Box<leveldb_comparator_t>>) {
    drop(comparator);
}

/// Creates a filter policy from the caller's functions; null if a required function is missing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_filterpolicy_create(
    state: *mut c_void,
    destructor: esker_destructor_t,
    create_filter: esker_create_filter_t,
    key_may_match: esker_may_match_t,
    name: esker_name_t,
) -> Option<Box<leveldb_filterpolicy_t>> {
    let made = attempt(|| CFilter::new(state, destructor, create_filter, key_may_match, name));
    made.ok()
        .map(|made| Box::new(leveldb_filterpolicy_t { filter: Filter::Custom(Arc::new(made)) }))
}

/// Frees a filter policy.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_filterpolicy_destroy(filter: Option<Box<leveldb_filterpolicy_t>>) {
    drop(filter);
}

/// Creates a policy that selects Esker's own Bloom filter, with `bits_per_key` bits per key.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_filterpolicy_create_bloom(
    bits_per_key: c_int,
) -> Box<leveldb_filterpolicy_t> {
    Box::new(leveldb_filterpolicy_t { filter: Filter::Bloom(bits_per_key) })
}

/// Creates a cache object with a capacity in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_cache_create_lru(capacity: usize) -> Box<leveldb_cache_t> {
    Box::new(leveldb_cache_t { capacity_bytes: capacity })
}

/// Frees a cache.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_cache_destroy(cache: Option<Box<leveldb_cache_t>>) {
    drop(cache);
}

/// Creates a handle to the operating system's file system.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_create_default_env() -> Box<leveldb_env_t> {
    Box::new(leveldb_env_t { _private: () })
}

/// Frees an environment handle.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_env_destroy(env: Option<Box<leveldb_env_t>>) {
    drop(env);
}

/// Returns a directory for tests, created if missing: `$TEST_TMPDIR`, or a directory of this user
/// in the system's temporary directory. Null if it cannot be created.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_env_get_test_directory(env: Option<&leveldb_env_t>) -> *mut c_char {
    let dir = attempt(|| {
        esker_c::failure::there(env, "environment")?;
        Ok(test_directory())
    });
    dir.ok().flatten().map_or(std::ptr::null_mut(), |dir| ffi::give_text(&dir))
}

fn test_directory() -> Option<String> {
    let dir = match std::env::var("TEST_TMPDIR") {
        Ok(dir) if !dir.is_empty() => std::path::PathBuf::from(dir),
        // SAFETY: `geteuid` takes no arguments and cannot fail.
        _ => std::env::temp_dir().join(format!("leveldbtest-{}", unsafe { libc::geteuid() })),
    };
    let fs = esker::fs::OsFs::shared();
    if !fs.exists(&dir).unwrap_or(false) {
        fs.create_dir(&dir).ok()?;
    }
    dir.into_os_string().into_string().ok()
}

/// Frees memory returned by a function of this interface.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_free(memory: *mut c_void) {
    // SAFETY: the caller meets the contract of LevelDB's header.
    unsafe { ffi::free(memory) }
}

/// Major version of the implemented LevelDB interface.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_major_version() -> c_int {
    1
}

/// Minor version of the implemented LevelDB interface.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_minor_version() -> c_int {
    23
}
