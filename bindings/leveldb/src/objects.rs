//! Comparators, filter policies, caches, environments: LevelDB's objects that options refer to.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use esker_bindings::settings::Filter;
use esker_c::callbacks::{
    CComparator, CFilter, esker_compare_t, esker_create_filter_t, esker_destructor_t,
    esker_may_match_t, esker_name_t,
};
use esker_c::failure::attempt;
use esker_c::ffi;

/// An order of keys. Stores and options that use it keep it alive.
pub struct leveldb_comparator_t {
    pub(crate) comparator: Arc<CComparator>,
}

/// A filter policy. Stores and options that use it keep it alive.
pub struct leveldb_filterpolicy_t {
    pub(crate) filter: Filter,
}

/// How large a block cache is to be; each store opened with it gets one of its own.
pub struct leveldb_cache_t {
    pub(crate) capacity_bytes: usize,
}

/// The operating system's files: the only environment of the C interface.
pub struct leveldb_env_t {
    _private: (),
}

/// A logger; the C interface has no function that makes one.
pub struct leveldb_logger_t {
    _private: (),
}

/// An order by the caller's functions; null when one of them is missing.
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

/// A filter policy by the caller's functions; null when one of them is missing.
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

/// A Bloom filter of this many bits a key, which is Esker's own.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_filterpolicy_create_bloom(
    bits_per_key: c_int,
) -> Box<leveldb_filterpolicy_t> {
    Box::new(leveldb_filterpolicy_t { filter: Filter::Bloom(bits_per_key) })
}

/// A block cache of this many bytes.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_cache_create_lru(capacity: usize) -> Box<leveldb_cache_t> {
    Box::new(leveldb_cache_t { capacity_bytes: capacity })
}

/// Frees a cache.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_cache_destroy(cache: Option<Box<leveldb_cache_t>>) {
    drop(cache);
}

/// The operating system's files.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_create_default_env() -> Box<leveldb_env_t> {
    Box::new(leveldb_env_t { _private: () })
}

/// Frees an environment's handle.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_env_destroy(env: Option<Box<leveldb_env_t>>) {
    drop(env);
}

/// A directory for tests, made if it is not there: `$TEST_TMPDIR`, or one of this user's in the
/// system's directory for temporary files. Null when it cannot be made.
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
        // SAFETY: asks for a number and cannot fail.
        _ => std::env::temp_dir().join(format!("leveldbtest-{}", unsafe { libc::geteuid() })),
    };
    let fs = esker::fs::os::OsFs::shared();
    if !fs.exists(&dir).unwrap_or(false) {
        fs.create_dir(&dir).ok()?;
    }
    dir.into_os_string().into_string().ok()
}

/// Frees what a function of this interface gave out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_free(memory: *mut c_void) {
    // SAFETY: LevelDB's header says what may be passed.
    unsafe { ffi::free(memory) }
}

/// The version of LevelDB whose interface this is.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_major_version() -> c_int {
    1
}

/// The version of LevelDB whose interface this is.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_minor_version() -> c_int {
    23
}
