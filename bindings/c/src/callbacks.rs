//! Comparators, filters, merge operators, compaction filters and sources of keys implemented by C
//! functions.
//!
//! Invariants:
//! 1. The functions are called only while the object is alive, from any thread.
//! 2. They cannot use their own store through its handle (`esker_db_t`) of `esker_open`.
//! 3. The destructor runs once, after the last store, keyspace, iterator and option that uses the
//!    object is freed.

use std::cmp::Ordering;
use std::ffi::{CStr, CString, c_char, c_int, c_void};

use esker::encryption::{KeyError, KeyProvider, MASTER_KEY_BYTES, MasterKey};
use esker::{CompactionFilter, Comparator, FilterDecision, FilterPolicy, MergeOperator};
use esker_bindings::calling;
use esker_bindings::encryption;
use esker_bindings::parts::starts_and_lengths;

use crate::failure::{Failure, Outcome};
use crate::ffi;

/// Frees a callback's state.
pub type esker_destructor_t = Option<unsafe extern "C" fn(*mut c_void)>;
/// Compares two keys. Returns a negative number, zero or a positive number.
pub type esker_compare_t =
    Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int>;
/// Returns the name, which lives as long as the state.
pub type esker_name_t = Option<unsafe extern "C" fn(*mut c_void) -> *const c_char>;
/// Creates the filter of a table: state, the keys, their lengths, the number of keys, and the place for
/// the length of the filter. Returns the filter, allocated with `malloc`, and stores its length. See
/// `esker_options_set_filter`.
pub type esker_create_filter_t = Option<
    unsafe extern "C" fn(
        *mut c_void,
        *const *const c_char,
        *const usize,
        c_int,
        *mut usize,
    ) -> *mut c_char,
>;
/// Returns whether a filter may contain a key: state, key, its length, filter, its length. 0 means that
/// it does not contain the key; any other value that it may.
pub type esker_may_match_t =
    Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> u8>;

/// The caller's state, which is passed to each of its functions.
pub struct State {
    /// What each function gets.
    pub pointer: *mut c_void,
    /// Called with the pointer at the end.
    pub destructor: esker_destructor_t,
}

// SAFETY: the interface requires that the caller's functions accept this pointer on any thread.
// This crate does not dereference it.
unsafe impl Send for State {}
// SAFETY: as above; the interface also requires that concurrent calls are allowed.
unsafe impl Sync for State {}

impl State {
    /// Returns the name that a function of the caller gives; empty if there is none.
    ///
    /// # Safety
    /// `name` belongs to the state and returns a C string or null.
    pub unsafe fn name(&self, name: esker_name_t) -> String {
        // SAFETY: guaranteed by the caller.
        let text = name.map_or(std::ptr::null(), |name| unsafe { name(self.pointer) });
        if text.is_null() {
            return String::new();
        }
        // SAFETY: not null; otherwise guaranteed by the caller.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}

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
    equal_is_identical: bool,
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
        Ok(CComparator { state, compare, equal_is_identical: false, name })
    }

    /// Says whether keys that compare as equal always have the same bytes.
    pub fn with_identical_equals(self, equal_is_identical: bool) -> CComparator {
        CComparator { equal_is_identical, ..self }
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

    fn equal_keys_are_identical(&self) -> bool {
        self.equal_is_identical
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
        // A table of more keys gets a filter without bytes, which allows all of them.
        let Ok(count) = c_int::try_from(keys.len()) else { return Vec::new() };
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

/// Makes the value of a key: state, key, its length, the existing value (NULL if the key does not
/// exist or has expired), its length, the operands, their lengths, the number of operands (at least
/// 1, oldest first), the place for the length of the value, and the place for a reason. Returns the
/// value, allocated with `malloc`, and stores its length; an empty value is not NULL either. NULL
/// means that there is no such value: the function may then store a reason, a UTF-8 string
/// allocated with `malloc`.
pub type esker_full_merge_t = Option<
    unsafe extern "C" fn(
        *mut c_void,
        *const u8,
        usize,
        *const u8,
        usize,
        *const *const u8,
        *const usize,
        usize,
        *mut usize,
        *mut *mut c_char,
    ) -> *mut u8,
>;
/// Makes one operand that has the effect of several: state, key, its length, the operands, their
/// lengths, the number of operands (at least 2, oldest first), and the place for the length of the
/// result. Returns the operand, allocated with `malloc`, and stores its length; NULL if there is
/// none.
pub type esker_partial_merge_t = Option<
    unsafe extern "C" fn(
        *mut c_void,
        *const u8,
        usize,
        *const *const u8,
        *const usize,
        usize,
        *mut usize,
    ) -> *mut u8,
>;
/// Decides about a pair: state, level that the pair is written to, key, its length, value, its
/// length, the place for a new value and the place for its length. Returns `ESKER_FILTER_KEEP`,
/// `ESKER_FILTER_REMOVE` or `ESKER_FILTER_REPLACE`. Only for the last one, it stores a value that
/// is allocated with `malloc`, and its length; an empty value is not NULL either.
pub type esker_compaction_filter_t = Option<
    unsafe extern "C" fn(
        *mut c_void,
        usize,
        *const u8,
        usize,
        *const u8,
        usize,
        *mut *mut u8,
        *mut usize,
    ) -> i32,
>;

/// Decision of a compaction filter: the pair stays as it is.
pub const ESKER_FILTER_KEEP: i32 = 0;
/// Decision of a compaction filter: the pair is deleted.
pub const ESKER_FILTER_REMOVE: i32 = 1;
/// Decision of a compaction filter: the pair gets a new value.
pub const ESKER_FILTER_REPLACE: i32 = 2;

/// Memory allocated by a function of the caller with `malloc`, which is freed at the end.
struct Given<T>(*mut T);

impl<T> Drop for Given<T> {
    fn drop(&mut self) {
        // SAFETY: the interface requires memory of `malloc`; this is the only call.
        unsafe { ffi::free(self.0) }
    }
}

impl Given<u8> {
    /// Appends the `len` bytes to `out`.
    ///
    /// # Safety
    /// The pointer is null or points to `len` readable bytes.
    unsafe fn append_to(&self, len: usize, out: &mut Vec<u8>) -> Result<(), String> {
        // SAFETY: guaranteed by the caller.
        let bytes = unsafe { ffi::bytes(self.0, len, "result of the function") };
        out.extend_from_slice(bytes.map_err(|failure| failure.message)?);
        Ok(())
    }
}

/// A merge operator implemented in C.
pub struct CMergeOperator {
    state: State,
    full_merge: unsafe extern "C" fn(
        *mut c_void,
        *const u8,
        usize,
        *const u8,
        usize,
        *const *const u8,
        *const usize,
        usize,
        *mut usize,
        *mut *mut c_char,
    ) -> *mut u8,
    partial_merge: esker_partial_merge_t,
    name: String,
}

impl CMergeOperator {
    /// Takes ownership of `pointer`. `destructor` receives it at the end, also if this fails.
    pub fn new(
        pointer: *mut c_void,
        destructor: esker_destructor_t,
        full_merge: esker_full_merge_t,
        partial_merge: esker_partial_merge_t,
        name: esker_name_t,
    ) -> Outcome<CMergeOperator> {
        let state = State { pointer, destructor };
        let full_merge =
            full_merge.ok_or_else(|| Failure::invalid("the merging function is NULL"))?;
        let name = name_of(&state, name)?;
        Ok(CMergeOperator { state, full_merge, partial_merge, name })
    }
}

impl MergeOperator for CMergeOperator {
    fn name(&self) -> &str {
        &self.name
    }

    fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let (starts, lengths) = starts_and_lengths(operands);
        let (start, length) =
            existing.map_or((std::ptr::null(), 0), |value| (value.as_ptr(), value.len()));
        let (mut len, mut reason) = (0usize, std::ptr::null_mut::<c_char>());
        // SAFETY: the function and the pointer belong together; the buffers and arrays outlive the
        // call. The result has `len` bytes, and the result and the reason were allocated with
        // `malloc` for this function, which frees both.
        calling::within(self, || unsafe {
            let value = Given((self.full_merge)(
                self.state.pointer,
                key.as_ptr(),
                key.len(),
                start,
                length,
                starts.as_ptr(),
                lengths.as_ptr(),
                operands.len(),
                &raw mut len,
                &raw mut reason,
            ));
            let reason = Given(reason);
            if !value.0.is_null() {
                return value.append_to(len, out);
            }
            if reason.0.is_null() {
                return Err("the function returned NULL without a reason".to_string());
            }
            Err(CStr::from_ptr(reason.0).to_string_lossy().into_owned())
        })
    }

    fn partial_merge(&self, key: &[u8], operands: &[&[u8]], out: &mut Vec<u8>) -> bool {
        let Some(partial_merge) = self.partial_merge else { return false };
        let (starts, lengths) = starts_and_lengths(operands);
        let mut len = 0usize;
        // SAFETY: as for `full_merge`.
        calling::within(self, || unsafe {
            let operand = Given(partial_merge(
                self.state.pointer,
                key.as_ptr(),
                key.len(),
                starts.as_ptr(),
                lengths.as_ptr(),
                operands.len(),
                &raw mut len,
            ));
            !operand.0.is_null() && operand.append_to(len, out).is_ok()
        })
    }
}

/// A compaction filter implemented in C.
pub struct CCompactionFilter {
    state: State,
    filter: unsafe extern "C" fn(
        *mut c_void,
        usize,
        *const u8,
        usize,
        *const u8,
        usize,
        *mut *mut u8,
        *mut usize,
    ) -> i32,
    name: String,
}

impl CCompactionFilter {
    /// Takes ownership of `pointer`. `destructor` receives it at the end, also if this fails.
    pub fn new(
        pointer: *mut c_void,
        destructor: esker_destructor_t,
        filter: esker_compaction_filter_t,
        name: esker_name_t,
    ) -> Outcome<CCompactionFilter> {
        let state = State { pointer, destructor };
        let filter = filter.ok_or_else(|| Failure::invalid("the filtering function is NULL"))?;
        let name = name_of(&state, name)?;
        Ok(CCompactionFilter { state, filter, name })
    }

    fn decide(&self, level: usize, key: &[u8], value: &[u8]) -> Result<FilterDecision, String> {
        let (mut new_value, mut len) = (std::ptr::null_mut(), 0usize);
        // SAFETY: the function and the pointer belong together; the buffers outlive the call. A new
        // value has `len` bytes, is allocated with `malloc`, and belongs to this function, which
        // frees it.
        calling::within(self, || unsafe {
            let decision = (self.filter)(
                self.state.pointer,
                level,
                key.as_ptr(),
                key.len(),
                value.as_ptr(),
                value.len(),
                &raw mut new_value,
                &raw mut len,
            );
            let new_value = Given(new_value);
            match decision {
                ESKER_FILTER_KEEP => Ok(FilterDecision::Keep),
                ESKER_FILTER_REMOVE => Ok(FilterDecision::Remove),
                ESKER_FILTER_REPLACE if new_value.0.is_null() => {
                    Err("the function replaces a value by NULL".to_string())
                }
                ESKER_FILTER_REPLACE => {
                    let mut copy = Vec::new();
                    new_value.append_to(len, &mut copy)?;
                    Ok(FilterDecision::Replace(copy))
                }
                other => Err(format!("there is no decision {other}; it is 0 to 2")),
            }
        })
    }
}

impl CompactionFilter for CCompactionFilter {
    fn name(&self) -> &str {
        &self.name
    }

    fn filter(&self, level: usize, key: &[u8], value: &[u8]) -> FilterDecision {
        // The engine catches the unwinding, and takes it for a failure of the filter.
        self.decide(level, key, value)
            .unwrap_or_else(|why| std::panic::resume_unwind(Box::new(why)))
    }
}

/// Gives a master key: state, the name of the key that is needed (NULL: the key of a new store), the
/// place for its `ESKER_KEY_BYTES` bytes, the place for its name, and the place for a reason. Returns 1
/// if it has stored the bytes. It may then store a name, a UTF-8 string of 1 to 64 bytes allocated with
/// `malloc`; without one the key is named by its fingerprint. Returns 0 if it has no such key: it may
/// then store a reason, a UTF-8 string allocated with `malloc`.
pub type esker_key_source_t = Option<
    unsafe extern "C" fn(
        *mut c_void,
        *const c_char,
        *mut u8,
        *mut *mut c_char,
        *mut *mut c_char,
    ) -> u8,
>;

/// A source of keys implemented in C.
pub struct CKeySource {
    state: State,
    give: unsafe extern "C" fn(
        *mut c_void,
        *const c_char,
        *mut u8,
        *mut *mut c_char,
        *mut *mut c_char,
    ) -> u8,
}

impl CKeySource {
    /// Takes ownership of `pointer`. `destructor` receives it at the end, also if this fails.
    pub fn new(
        pointer: *mut c_void,
        destructor: esker_destructor_t,
        give: esker_key_source_t,
    ) -> Outcome<CKeySource> {
        let state = State { pointer, destructor };
        let give = give.ok_or_else(|| Failure::invalid("the function for the key is NULL"))?;
        Ok(CKeySource { state, give })
    }
}

impl KeyProvider for CKeySource {
    fn master_key(&self, id: Option<&str>) -> Result<MasterKey, KeyError> {
        // The name of a key has no zero byte.
        let wanted = id.map(CString::new).transpose()?;
        let wanted = wanted.as_ref().map_or(std::ptr::null(), |wanted| wanted.as_ptr());
        let mut bytes = [0u8; MASTER_KEY_BYTES];
        let (mut name, mut reason) = (std::ptr::null_mut::<c_char>(), std::ptr::null_mut());
        // SAFETY: the function and the pointer belong together; the texts and places outlive the
        // call. The name and the reason were allocated with `malloc` for this function, which frees
        // both.
        let key = calling::within(self, || unsafe {
            let pointer = self.state.pointer;
            let has =
                (self.give)(pointer, wanted, bytes.as_mut_ptr(), &raw mut name, &raw mut reason);
            let (name, reason) = (Given(name), Given(reason));
            if has == 0 {
                let why = match reason.0.is_null() {
                    true => "the function has no such key".to_string(),
                    false => CStr::from_ptr(reason.0).to_string_lossy().into_owned(),
                };
                return Err(KeyError::from(why));
            }
            let name = (!name.0.is_null()).then(|| CStr::from_ptr(name.0).to_str()).transpose()?;
            encryption::given(&bytes, name)
        });
        bytes.fill(0);
        std::hint::black_box(&bytes);
        key
    }
}
