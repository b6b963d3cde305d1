//! Merge operators: those of C programs, and RocksDB's addition of numbers.
//!
//! Invariants:
//! 1. A result of a C function is copied and freed at once: with the operator's `delete_value`, or
//!    with `free` if it has none.
//! 2. A failure of a C function is an error of the call, and changes nothing.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use esker::MergeOperator;
use esker_bindings::parts::starts_and_lengths;
use esker_c::callbacks::{State, esker_destructor_t, esker_name_t};
use esker_c::failure::{Failure, Outcome, attempt};
use esker_c::ffi;

use crate::failure::NOT_IMPLEMENTED;
use crate::options::rocksdb_options_t;

type FullMerge = unsafe extern "C" fn(
    *mut c_void,
    *const c_char,
    usize,
    *const c_char,
    usize,
    *const *const c_char,
    *const usize,
    c_int,
    *mut u8,
    *mut usize,
) -> *mut c_char;
type PartialMerge = unsafe extern "C" fn(
    *mut c_void,
    *const c_char,
    usize,
    *const *const c_char,
    *const usize,
    c_int,
    *mut u8,
    *mut usize,
) -> *mut c_char;
type DeleteValue = unsafe extern "C" fn(*mut c_void, *const c_char, usize);

/// A merge operator. Options and stores keep it alive while they use it.
pub struct rocksdb_mergeoperator_t {
    pub(crate) operator: Arc<dyn MergeOperator>,
}

/// A merge operator of a C program.
struct COperator {
    state: State,
    full: Option<FullMerge>,
    partial: Option<PartialMerge>,
    delete: Option<DeleteValue>,
    name: String,
}

/// Operands as C takes them.
struct Operands {
    starts: Vec<*const c_char>,
    lengths: Vec<usize>,
    count: c_int,
}

impl Operands {
    fn of(operands: &[&[u8]]) -> Operands {
        let (starts, lengths) = starts_and_lengths(operands);
        Operands { starts, lengths, count: c_int::try_from(operands.len()).unwrap_or(c_int::MAX) }
    }
}

impl COperator {
    /// Copies a result to `out` and frees it. Returns whether it is one.
    ///
    /// # Safety
    /// `value` is null or a result of a function of this operator, with `len` bytes.
    unsafe fn take(
        &self,
        value: *mut c_char,
        len: usize,
        is_success: bool,
        out: &mut Vec<u8>,
    ) -> bool {
        // SAFETY: guaranteed by the caller; the result is freed once, after the copy.
        unsafe {
            let copied = ffi::bytes(value.cast_const(), len, "merged value");
            let is_value = is_success && copied.is_ok();
            if is_value {
                out.extend_from_slice(copied.unwrap_or_default());
            }
            match self.delete {
                Some(delete) => delete(self.state.pointer, value, len),
                None => libc::free(value.cast()),
            }
            is_value
        }
    }
}

impl MergeOperator for COperator {
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
        let failed = || format!("Merge operator failed: {:?} has no result", self.name);
        let full = self.full.ok_or_else(failed)?;
        let list = Operands::of(operands);
        let (mut is_success, mut len) = (0u8, 0usize);
        let start = existing.map_or(std::ptr::null(), |existing| existing.as_ptr().cast());
        // SAFETY: the function and the pointer belong together; all bytes outlive the call.
        let is_value = unsafe {
            let value = full(
                self.state.pointer,
                key.as_ptr().cast(),
                key.len(),
                start,
                existing.map_or(0, <[u8]>::len),
                list.starts.as_ptr(),
                list.lengths.as_ptr(),
                list.count,
                &raw mut is_success,
                &raw mut len,
            );
            self.take(value, len, is_success != 0, out)
        };
        if is_value { Ok(()) } else { Err(failed()) }
    }

    fn partial_merge(&self, key: &[u8], operands: &[&[u8]], out: &mut Vec<u8>) -> bool {
        let Some(partial) = self.partial else { return false };
        let list = Operands::of(operands);
        let (mut is_success, mut len) = (0u8, 0usize);
        // SAFETY: the function and the pointer belong together; all bytes outlive the call.
        unsafe {
            let value = partial(
                self.state.pointer,
                key.as_ptr().cast(),
                key.len(),
                list.starts.as_ptr(),
                list.lengths.as_ptr(),
                list.count,
                &raw mut is_success,
                &raw mut len,
            );
            self.take(value, len, is_success != 0, out)
        }
    }
}

/// RocksDB's `UInt64AddOperator`: adds numbers of eight bytes, little endian, which wrap around. A
/// value or operand of another length counts as 0.
pub struct Uint64Add;

impl Uint64Add {
    fn sum<'v>(values: impl Iterator<Item = &'v [u8]>) -> [u8; 8] {
        let numbers = values.map(|value| value.try_into().map_or(0, u64::from_le_bytes));
        numbers.fold(0, u64::wrapping_add).to_le_bytes()
    }
}

impl MergeOperator for Uint64Add {
    fn name(&self) -> &str {
        "UInt64AddOperator"
    }

    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let values = existing.into_iter().chain(operands.iter().copied());
        out.extend_from_slice(&Uint64Add::sum(values));
        Ok(())
    }

    fn partial_merge(&self, _key: &[u8], operands: &[&[u8]], out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(&Uint64Add::sum(operands.iter().copied()));
        true
    }
}

/// Returns the failure of a merge in a column family that was opened without a merge operator.
pub fn no_operator() -> Failure {
    Failure {
        code: NOT_IMPLEMENTED,
        message: "Provide a merge_operator when opening DB".to_string(),
    }
}

/// Returns the value of `key` after `operands` were merged into `existing`.
///
/// # Errors
/// Without an operator, or if it fails.
pub fn merge(
    operator: Option<&dyn MergeOperator>,
    key: &[u8],
    existing: Option<&[u8]>,
    operands: &[Vec<u8>],
) -> Outcome<Vec<u8>> {
    let operator = operator.ok_or_else(no_operator)?;
    let operands: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
    let mut out = Vec::new();
    attempt(|| operator.full_merge(key, existing, &operands, &mut out).map_err(Failure::invalid))?;
    Ok(out)
}

/// Creates a merge operator from the caller's functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_mergeoperator_create(
    state: *mut c_void,
    destructor: esker_destructor_t,
    full_merge: Option<FullMerge>,
    partial_merge: Option<PartialMerge>,
    delete_value: Option<DeleteValue>,
    name: esker_name_t,
) -> Box<rocksdb_mergeoperator_t> {
    let state = State { pointer: state, destructor };
    // SAFETY: the caller meets RocksDB's contract for the functions of an object.
    let name = unsafe { state.name(name) };
    let (full, partial, delete) = (full_merge, partial_merge, delete_value);
    let operator = Arc::new(COperator { state, full, partial, delete, name });
    Box::new(rocksdb_mergeoperator_t { operator })
}

/// Frees a merge operator that no options own.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_mergeoperator_destroy(merge: Option<Box<rocksdb_mergeoperator_t>>) {
    drop(merge);
}

/// Takes ownership of a merge operator. NULL is none.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_options_set_merge_operator(
    options: Option<&mut rocksdb_options_t>,
    merge: Option<Box<rocksdb_mergeoperator_t>>,
) {
    if let Some(options) = options {
        options.objects.merge = merge.map(|merge| merge.operator.clone());
    }
}

/// Sets the operator that adds numbers of eight bytes, little endian.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_options_set_uint64add_merge_operator(
    options: Option<&mut rocksdb_options_t>,
) {
    if let Some(options) = options {
        options.objects.merge = Some(Arc::new(Uint64Add));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_and_other_lengths_count_as_zero() {
        let sum = |values: &[&[u8]]| u64::from_le_bytes(Uint64Add::sum(values.iter().copied()));
        let number = |number: u64| number.to_le_bytes();
        assert_eq!(sum(&[]), 0);
        assert_eq!(sum(&[&number(7), &number(300)]), 307);
        assert_eq!(sum(&[&number(u64::MAX), &number(2)]), 1);
        assert_eq!(sum(&[b"1", &number(5), b"", &[1; 9]]), 5);
    }
}
