//! Comparators and filters implemented by C functions.
//!
//! Invariants:
//! 1. The functions are called only while the object is alive, from any thread.
//! 2. They cannot use their own store through its handle (`esker_db_t`) of `esker_open`.
//! 3. The destructor runs once, after the last store, keyspace, iterator and option that uses the
//!    object is freed.

use std::cmp::Ordering;
use std::ffi::{CStr, c_char, c_int, c_void};

use esker::{Comparator, FilterPolicy};
use esker_bindings::calling;

use crate::failure::{Failure, Outcome};
use crate::ffi;

/// Frees a callback's state.
pub type esker_destructor_t = Option<unsafe extern "C" fn(*mut c_void)>;
/// Compares two keys. Returns a negative number, zero or a positive number.
pub type esker_compare_t =
    Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int>;
/// Returns the name, which lives as long as the state.
pub type esker_name_t = Option<unsafe extern "C" fn(*mut c_void) -> *const c_char>;
/// Creates a filter over keys, allocated with `malloc`, and stores its length.
pub type esker_create_filter_t = Option<
    unsafe extern "C" fn(
        *mut c_void,
        *const *const c_char,
        *const usize,
        c_int,
        *mut usize,
    ) -> *mut c_char,
>;
/// Returns whether a filter may contain a key; 0 means that it does not.
pub type esker_may_match_t =
    Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> u8>;

/// The caller's state, which is passed to each of its functions.
struct State {
    pointer: *mut c_void,
    destructor: esker_destructor_t,
}

// SAFETY: the interface requires that the caller's functions accept this pointer on any thread.
// This crate does not dereference it.
unsafe impl Send for State {}
// SAFETY: as above; the interface also requires that concurrent calls are allowed.
unsafe impl Sync for State {}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            // SAFETY: the function and the pointer belong together; this is the only call.
            unsafe { destructor(self.pointer) }
        }
    }
}

/// Returns the name of a comparator or filter.
fn name_of(state: &State, name: esker_name_t) -> Outcome<String> {
    let name = name.ok_or_else(|| Failure::invalid("the function for the name is NULL"))?;
    // SAFETY: the function and the pointer belong together.
    let text = unsafe { name(state.pointer) };
    if text.is_null() {
        return Err(Failure::invalid("the name is NULL"));
    }
    // SAFETY: the interface requires a C string.
    Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// A key order implemented in C.
pub struct CComparator {
    state: State,
    compare: unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int,
    name: String,
}

impl CComparator {
    /// Takes ownership of `pointer`. `destructor` receives it at the end, also if this fails.
    pub fn new(
        pointer: *mut c_void,
        destructor: esker_destructor_t,
        compare: esker_compare_t,
        name: esker_name_t,
    ) -> Outcome<CComparator> {
        let state = State { pointer, destructor };
        let compare = compare.ok_or_else(|| Failure::invalid("the comparing function is NULL"))?;
        let name = name_of(&state, name)?;
        Ok(CComparator { state, compare, name })
    }
}

impl Comparator for CComparator {
    fn name(&self) -> &str {
        &self.name
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        calling::within(self, || {
            // SAFETY: the function and the pointer belong together; the bytes outlive the call.
            let sign = unsafe {
                (self.compare)(
                    self.state.pointer,
                    a.as_ptr().cast(),
                    a.len(),
                    b.as_ptr().cast(),
                    b.len(),
                )
            };
            sign.cmp(&0)
        })
    }
}

/// A filter policy implemented in C.
pub struct CFilter {
    state: State,
    create: unsafe extern "C" fn(
        *mut c_void,
        *const *const c_char,
        *const usize,
        c_int,
        *mut usize,
    ) -> *mut c_char,
    may_match: unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> u8,
    name: String,
}

impl CFilter {
    /// Takes ownership of `pointer`. `destructor` receives it at the end, also if this fails.
    pub fn new(
        pointer: *mut c_void,
        destructor: esker_destructor_t,
        create: esker_create_filter_t,
        may_match: esker_may_match_t,
        name: esker_name_t,
    ) -> Outcome<CFilter> {
        let state = State { pointer, destructor };
        let create =
            create.ok_or_else(|| Failure::invalid("the filter-making function is NULL"))?;
        let may_match =
            may_match.ok_or_else(|| Failure::invalid("the matching function is NULL"))?;
        let name = name_of(&state, name)?;
        Ok(CFilter { state, create, may_match, name })
    }
}

impl FilterPolicy for CFilter {
    fn name(&self) -> &str {
        &self.name
    }

    fn create(&self, keys: &[&[u8]]) -> Vec<u8> {
        let starts: Vec<*const c_char> = keys.iter().map(|key| key.as_ptr().cast()).collect();
        let lengths: Vec<usize> = keys.iter().map(|key| key.len()).collect();
        let count = c_int::try_from(keys.len()).unwrap_or(c_int::MAX);
        let mut len = 0usize;
        // SAFETY: the function and the pointer belong together; the arrays have `count` items and
        // outlive the call. The result has `len` bytes, is allocated with `malloc`, and belongs to
        // this function, which frees it.
        calling::within(self, || unsafe {
            let filter = (self.create)(
                self.state.pointer,
                starts.as_ptr(),
                lengths.as_ptr(),
                count,
                &raw mut len,
            );
            let copy = ffi::bytes(filter, len, "filter").map(<[u8]>::to_vec).unwrap_or_default();
            ffi::free(filter);
            copy
        })
    }

    fn may_contain(&self, key: &[u8], filter: &[u8]) -> bool {
        calling::within(self, || {
            // SAFETY: the function and the pointer belong together; the bytes outlive the call.
            let answer = unsafe {
                (self.may_match)(
                    self.state.pointer,
                    key.as_ptr().cast(),
                    key.len(),
                    filter.as_ptr().cast(),
                    filter.len(),
                )
            };
            answer != 0
        })
    }
}
