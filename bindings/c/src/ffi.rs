//! Conversion of pointers to Rust arguments, and of results to memory and error texts for C.
//!
//! Invariants:
//! 1. A null pointer is refused before it is read, unless its length is 0.
//! 2. Memory to be freed by the caller is allocated with `malloc`.
//! 3. An earlier error text is freed before it is replaced.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::failure::{ESKER_OK, Failure, Outcome};

/// Returns the bytes at `start`. The caller keeps them valid for the duration of the call.
///
/// # Safety
/// `start` is null or points to `len` readable bytes that do not change during `'a`.
#[inline]
pub unsafe fn bytes<'a, T>(start: *const T, len: usize, what: &str) -> Outcome<&'a [u8]> {
    const { assert!(size_of::<T>() == 1) };
    if len == 0 {
        return Ok(&[]);
    }
    if start.is_null() {
        return Err(Failure::invalid(format!("the {what} is NULL, but its length is {len}")));
    }
    if len > isize::MAX as usize {
        return Err(Failure::invalid(format!("the {what} cannot have {len} bytes")));
    }
    // SAFETY: not null, and within the maximum size of an allocation; otherwise guaranteed by the
    // caller.
    Ok(unsafe { std::slice::from_raw_parts(start.cast(), len) })
}

/// Returns an error if `start` is null, or no allocation can hold `len` items.
fn check_array<T>(start: *const T, len: usize, what: &str) -> Outcome<()> {
    if start.is_null() || len > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(Failure::invalid(format!("the {what} is NULL, or longer than memory")));
    }
    Ok(())
}

/// Returns the array of `len` items at `start`.
///
/// # Safety
/// `start` is null or points to `len` readable items that do not change during `'a`.
pub unsafe fn array<'a, T>(start: *const T, len: usize, what: &str) -> Outcome<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    check_array(start, len, what)?;
    // SAFETY: not null, and within the maximum size of an allocation; otherwise guaranteed by the
    // caller.
    Ok(unsafe { std::slice::from_raw_parts(start, len) })
}

/// Returns the array of `len` places at `start`, to be written.
///
/// # Safety
/// `start` is null or points to `len` initialized items that nothing else uses during `'a`.
pub unsafe fn array_mut<'a, T>(start: *mut T, len: usize, what: &str) -> Outcome<&'a mut [T]> {
    if len == 0 {
        return Ok(&mut []);
    }
    check_array(start, len, what)?;
    // SAFETY: not null, and within the maximum size of an allocation; otherwise guaranteed by the
    // caller.
    Ok(unsafe { std::slice::from_raw_parts_mut(start, len) })
}

/// Returns the C string at `text`.
///
/// # Safety
/// `text` is null or a string that ends with a zero byte and does not change during `'a`.
pub unsafe fn string<'a>(text: *const c_char, what: &str) -> Outcome<&'a CStr> {
    if text.is_null() {
        return Err(Failure::invalid(format!("the {what} is NULL")));
    }
    // SAFETY: not null; otherwise guaranteed by the caller.
    Ok(unsafe { CStr::from_ptr(text) })
}

/// Returns the C string at `text` as UTF-8.
///
/// # Safety
/// As for [`string`].
pub unsafe fn utf8<'a>(text: *const c_char, what: &str) -> Outcome<&'a str> {
    // SAFETY: guaranteed by the caller.
    let text = unsafe { string(text, what) }?;
    text.to_str().map_err(|_| Failure::invalid(format!("the {what} is not UTF-8")))
}

/// Returns the path at `text`.
///
/// # Safety
/// As for [`string`].
pub unsafe fn path<'a>(text: *const c_char) -> Outcome<&'a Path> {
    // SAFETY: guaranteed by the caller.
    let text = unsafe { string(text, "path") }?;
    if text.is_empty() {
        return Err(Failure::invalid("the path is empty"));
    }
    Ok(Path::new(OsStr::from_bytes(text.to_bytes())))
}

/// Returns a copy of `bytes`, allocated with `malloc`. A copy of empty bytes is not null. Returns
/// null if memory is exhausted.
pub fn give_bytes(bytes: &[u8]) -> *mut u8 {
    // SAFETY: `malloc` accepts any size, and its result is null or has at least that size.
    unsafe {
        let copy = libc::malloc(bytes.len().max(1)).cast::<u8>();
        if !copy.is_null() {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy, bytes.len());
        }
        copy
    }
}

/// Returns `report`, in memory allocated with `malloc`, or null if memory is exhausted.
pub fn give<T: Copy>(report: T) -> *mut T {
    const { assert!(align_of::<T>() <= align_of::<u64>()) };
    // SAFETY: the result of `malloc` is null or has the size and the alignment of a report, which
    // has nothing to drop.
    unsafe {
        let place = libc::malloc(size_of::<T>()).cast::<T>();
        if !place.is_null() {
            place.write(report);
        }
        place
    }
}

/// Returns a copy of `text` up to its first zero byte, as a C string allocated with `malloc`.
pub fn give_text(text: &str) -> *mut c_char {
    let mut bytes: Vec<u8> = text.bytes().take_while(|byte| *byte != 0).collect();
    bytes.push(0);
    give_bytes(&bytes).cast()
}

/// Frees memory of [`give_bytes`] or [`give_text`].
///
/// # Safety
/// `memory` is null, or was returned by one of these functions and not freed.
pub unsafe fn free<T>(memory: *mut T) {
    // SAFETY: guaranteed by the caller; `free` accepts null.
    unsafe { libc::free(memory.cast()) }
}

/// Stores a copy of `text` in the caller's `place` for errors, and frees an earlier text there.
///
/// # Safety
/// `*place` is null, or a text from this library that was not freed.
pub unsafe fn report(place: Option<&mut *mut c_char>, text: &str) {
    if let Some(place) = place {
        // SAFETY: guaranteed by the caller.
        unsafe { free(*place) };
        *place = give_text(text);
    }
}

/// Returns the code of `outcome`, and stores its message in `message`.
///
/// # Safety
/// As for [`report`].
#[inline]
pub unsafe fn code(outcome: Outcome<()>, message: Option<&mut *mut c_char>) -> i32 {
    match outcome {
        Ok(()) => ESKER_OK,
        Err(failure) => {
            // SAFETY: guaranteed by the caller.
            unsafe { report(message, &failure.message) };
            failure.code
        }
    }
}
