//! `esker_options_*`: how a store is opened.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use esker::fs::Fs;
use esker::fs::mem::MemFs;
use esker::{KeyOrder, Options};

use crate::callbacks::{
    CComparator, CFilter, esker_compare_t, esker_create_filter_t, esker_destructor_t,
    esker_may_match_t, esker_name_t,
};
use crate::failure::{attempt, there};
use crate::ffi;

/// How a store is opened: every option of `docs/options.md`, and the caller's functions.
#[derive(Default)]
pub struct esker_options_t {
    pub(crate) options: Options,
    pub(crate) fs: Option<Arc<dyn Fs>>,
}

/// A file system in memory. Stores in it are gone when the last handle and store let it go.
pub struct esker_memory_t {
    pub(crate) fs: Arc<MemFs>,
}

impl esker_memory_t {
    /// The file system, for a store that is to live in it.
    pub fn shared(&self) -> Arc<dyn Fs> {
        self.fs.clone()
    }
}

/// Options with every default.
#[unsafe(no_mangle)]
pub extern "C" fn esker_options_create() -> Box<esker_options_t> {
    Box::default()
}

/// Frees options; stores opened with them are not concerned.
#[unsafe(no_mangle)]
pub extern "C" fn esker_options_destroy(options: Option<Box<esker_options_t>>) {
    drop(options);
}

/// Sets an option by its name or an alias from text, such as `"block_size"` to `"8KiB"`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_options_set(
    options: Option<&mut esker_options_t>,
    name: *const c_char,
    value: *const c_char,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the header's contract for strings and messages.
    unsafe {
        let outcome = attempt(|| {
            let (name, value) = (ffi::utf8(name, "name")?, ffi::utf8(value, "value")?);
            Ok(there(options, "options handle")?.options.set(name, value)?)
        });
        ffi::code(outcome, message)
    }
}

/// The value of an option as text, to be freed with `esker_free`; NULL when there is none of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_options_get(
    options: Option<&esker_options_t>,
    name: *const c_char,
) -> *mut c_char {
    let found = attempt(|| {
        // SAFETY: the header's contract for strings.
        let name = unsafe { ffi::utf8(name, "name") }?;
        Ok(there(options, "options handle")?.options.get(name))
    });
    found.ok().flatten().map_or(std::ptr::null_mut(), |text| ffi::give_text(&text))
}

/// Orders keys by `compare`, which returns a negative, zero or positive number. The order must
/// never change for a name. `state` goes to each call, which may come from any thread, and to
/// `destructor` (which may be NULL) at the end, also when this fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_options_set_comparator(
    options: Option<&mut esker_options_t>,
    state: *mut c_void,
    destructor: esker_destructor_t,
    compare: esker_compare_t,
    name: esker_name_t,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let comparator = CComparator::new(state, destructor, compare, name)?;
        there(options, "options handle")?.options.key_order =
            KeyOrder::Custom(Arc::new(comparator));
        Ok(())
    });
    // SAFETY: the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Filters files by the caller's functions instead of the Bloom filter. `create` returns memory
/// from `malloc`; `may_match` must not return 0 for a key the filter was made from.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_options_set_filter(
    options: Option<&mut esker_options_t>,
    state: *mut c_void,
    destructor: esker_destructor_t,
    create: esker_create_filter_t,
    may_match: esker_may_match_t,
    name: esker_name_t,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let filter = CFilter::new(state, destructor, create, may_match, name)?;
        there(options, "options handle")?.options.filter_policy = Some(Arc::new(filter));
        Ok(())
    });
    // SAFETY: the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// An empty file system in memory.
#[unsafe(no_mangle)]
pub extern "C" fn esker_memory_create() -> Box<esker_memory_t> {
    Box::new(esker_memory_t { fs: MemFs::new() })
}

/// Lets the file system go; stores open in it stay open.
#[unsafe(no_mangle)]
pub extern "C" fn esker_memory_destroy(memory: Option<Box<esker_memory_t>>) {
    drop(memory);
}

/// Opens stores in `memory` instead of on disk; NULL is the disk again.
#[unsafe(no_mangle)]
pub extern "C" fn esker_options_set_memory(
    options: Option<&mut esker_options_t>,
    memory: Option<&esker_memory_t>,
) {
    if let Some(options) = options {
        options.fs = memory.map(|memory| memory.fs.clone() as Arc<dyn Fs>);
    }
}
