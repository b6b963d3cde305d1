//! Compaction filters of C programs, and factories of them.
//!
//! Invariants:
//! 1. A factory makes a filter for each compaction that asks about a pair. One thread at a time
//!    calls that filter, and it is freed at the end of the compaction.
//! 2. A filter that options or stores use lives on after it was freed.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use esker::{CompactionFilter, FilterDecision};
use esker_c::callbacks::{State, esker_destructor_t, esker_name_t};
use esker_c::ffi;

use crate::options::rocksdb_options_t;
use crate::settings::Settings;

type Filter = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    *const c_char,
    usize,
    *const c_char,
    usize,
    *mut *mut c_char,
    *mut usize,
    *mut u8,
) -> u8;
type Create = unsafe extern "C" fn(
    *mut c_void,
    *mut rocksdb_compactionfiltercontext_t,
) -> Option<Box<rocksdb_compactionfilter_t>>;

/// A compaction filter. It begins with settings, because `ignore_snapshots` is one.
#[repr(C)]
pub struct rocksdb_compactionfilter_t {
    /// Whether it ignores snapshots.
    pub settings: Settings,
    pub(crate) filter: Arc<dyn CompactionFilter>,
}

/// A factory of compaction filters.
pub struct rocksdb_compactionfilterfactory_t {
    pub(crate) factory: Arc<dyn CompactionFilter>,
}

/// What a factory is told about a compaction, which is nothing.
#[repr(C)]
pub struct rocksdb_compactionfiltercontext_t {
    unused: u8,
}

/// A filter of a C program.
struct CFilter {
    state: State,
    filter: Option<Filter>,
    name: String,
}

impl CompactionFilter for CFilter {
    fn name(&self) -> &str {
        &self.name
    }

    fn filter(&self, level: usize, key: &[u8], value: &[u8]) -> FilterDecision {
        let Some(filter) = self.filter else { return FilterDecision::Keep };
        let level = c_int::try_from(level).unwrap_or(c_int::MAX);
        let (mut new, mut new_len, mut is_changed) = (std::ptr::null_mut(), 0usize, 0u8);
        // SAFETY: the function and the pointer belong together; key and value outlive the call.
        // The new value belongs to the program, and is copied before the next call.
        unsafe {
            let removes = filter(
                self.state.pointer,
                level,
                key.as_ptr().cast(),
                key.len(),
                value.as_ptr().cast(),
                value.len(),
                &raw mut new,
                &raw mut new_len,
                &raw mut is_changed,
            );
            if removes != 0 {
                return FilterDecision::Remove;
            }
            match ffi::bytes(new.cast_const(), new_len, "new value") {
                Ok(new) if is_changed != 0 => FilterDecision::Replace(new.to_vec()),
                _ => FilterDecision::Keep,
            }
        }
    }
}

/// A factory of a C program.
struct CFactory {
    state: State,
    create: Option<Create>,
    name: String,
}

impl CompactionFilter for CFactory {
    fn name(&self) -> &str {
        &self.name
    }

    /// Called only if the factory made no filter.
    fn filter(&self, _level: usize, _key: &[u8], _value: &[u8]) -> FilterDecision {
        FilterDecision::Keep
    }

    fn for_compaction(&self) -> Option<Arc<dyn CompactionFilter>> {
        let mut context = rocksdb_compactionfiltercontext_t { unused: 0 };
        // SAFETY: the function and the pointer belong together; the context outlives the call. The
        // result is null or an object of this library that is given to the caller.
        let made = unsafe { self.create?(self.state.pointer, &raw mut context) };
        made.map(|made| made.filter.clone())
    }
}

/// Creates a compaction filter from the caller's functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compactionfilter_create(
    state: *mut c_void,
    destructor: esker_destructor_t,
    filter: Option<Filter>,
    name: esker_name_t,
) -> Box<rocksdb_compactionfilter_t> {
    let state = State { pointer: state, destructor };
    // SAFETY: the caller meets RocksDB's contract for the functions of an object.
    let name = unsafe { state.name(name) };
    let filter = Arc::new(CFilter { state, filter, name });
    Box::new(rocksdb_compactionfilter_t { settings: Settings::default(), filter })
}

/// Frees a compaction filter. Stores that use it keep it alive.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_compactionfilter_destroy(
    filter: Option<Box<rocksdb_compactionfilter_t>>,
) {
    drop(filter);
}

/// Creates a factory of compaction filters from the caller's functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compactionfilterfactory_create(
    state: *mut c_void,
    destructor: esker_destructor_t,
    create_compaction_filter: Option<Create>,
    name: esker_name_t,
) -> Box<rocksdb_compactionfilterfactory_t> {
    let state = State { pointer: state, destructor };
    // SAFETY: the caller meets RocksDB's contract for the functions of an object.
    let name = unsafe { state.name(name) };
    let factory = Arc::new(CFactory { state, create: create_compaction_filter, name });
    Box::new(rocksdb_compactionfilterfactory_t { factory })
}

/// Frees a factory of compaction filters that no options own.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_compactionfilterfactory_destroy(
    factory: Option<Box<rocksdb_compactionfilterfactory_t>>,
) {
    drop(factory);
}

/// Sets a compaction filter, which goes before a factory. NULL is none.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_options_set_compaction_filter(
    options: Option<&mut rocksdb_options_t>,
    filter: Option<&rocksdb_compactionfilter_t>,
) {
    if let Some(options) = options {
        options.objects.filter = filter.map(|filter| filter.filter.clone());
    }
}

/// Takes ownership of a factory of compaction filters. NULL is none.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_options_set_compaction_filter_factory(
    options: Option<&mut rocksdb_options_t>,
    factory: Option<Box<rocksdb_compactionfilterfactory_t>>,
) {
    if let Some(options) = options {
        options.objects.filters = factory.map(|factory| factory.factory.clone());
    }
}
