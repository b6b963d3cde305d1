//! Pointers in, memory and failures out.
//!
//! What stays true: a null pointer is refused before it is read, unless its length is 0; memory
//! that the caller is to free comes from `malloc`; an error text that was never fetched is freed
//! before it is replaced.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::failure::{ESKER_OK, Failure, Outcome};

/// The bytes at `start`, for as long as the caller keeps them: the length of the call.
///
/// # Safety
/// `start` is null or points to `len` readable bytes that nobody changes during `'a`.
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
    // SAFETY: not null and not longer than an allocation can be; the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(start.cast(), len) })
}

/// The array of `len` items at `start`.
///
/// # Safety
/// `start` is null or points to `len` readable items that nobody changes during `'a`.
pub unsafe fn array<'a, T>(start: *const T, len: usize, what: &str) -> Outcome<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    if start.is_null() || len > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(Failure::invalid(format!("the {what} is NULL, or longer than memory")));
    }
    // SAFETY: not null and not longer than an allocation can be; the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(start, len) })
}

/// The C string at `text`.
///
/// # Safety
/// `text` is null or a string that ends with a zero byte and is not changed during `'a`.
pub unsafe fn string<'a>(text: *const c_char, what: &str) -> Outcome<&'a CStr> {
    if text.is_null() {
        return Err(Failure::invalid(format!("the {what} is NULL")));
    }
    // SAFETY: not null; the rest is the caller's promise.
    Ok(unsafe { CStr::from_ptr(text) })
}

/// The C string at `text` as UTF-8.
///
/// # Safety
/// As for [`string`].
pub unsafe fn utf8<'a>(text: *const c_char, what: &str) -> Outcome<&'a str> {
    // SAFETY: the caller's promise.
    let text = unsafe { string(text, what) }?;
    text.to_str().map_err(|_| Failure::invalid(format!("the {what} is not UTF-8")))
}

/// The path at `text`.
///
/// # Safety
/// As for [`string`].
pub unsafe fn path<'a>(text: *const c_char) -> Outcome<&'a Path> {
    // SAFETY: the caller's promise.
    let text = unsafe { string(text, "path") }?;
    if text.is_empty() {
        return Err(Failure::invalid("the path is empty"));
    }
    Ok(Path::new(OsStr::from_bytes(text.to_bytes())))
}

/// A copy of `bytes` from `malloc`, never null even when empty; null when memory is exhausted.
pub fn give_bytes(bytes: &[u8]) -> *mut u8 {
    // SAFETY: `malloc` may be asked for any size; what it returns holds that many bytes.
    unsafe {
        let copy = libc::malloc(bytes.len().max(1)).cast::<u8>();
        if !copy.is_null() {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy, bytes.len());
        }
        copy
    }
}

/// A copy of `text` from `malloc` as a C string, up to the first zero byte in it.
pub fn give_text(text: &str) -> *mut c_char {
    let mut bytes: Vec<u8> = text.bytes().take_while(|byte| *byte != 0).collect();
    bytes.push(0);
    give_bytes(&bytes).cast()
}

/// Gives memory of [`give_bytes`] or [`give_text`] back.
///
/// # Safety
/// `memory` is null or came from there and was not given back before.
pub unsafe fn free<T>(memory: *mut T) {
    // SAFETY: the caller's promise; `free` takes null.
    unsafe { libc::free(memory.cast()) }
}

/// Puts `text` where the caller looks for an error, freeing one it left there.
///
/// # Safety
/// `*place` is null or a text from this library that was not freed.
pub unsafe fn report(place: Option<&mut *mut c_char>, text: &str) {
    if let Some(place) = place {
        // SAFETY: the caller's promise.
        unsafe { free(*place) };
        *place = give_text(text);
    }
}

/// The code of `outcome`; its sentence goes to `message`.
///
/// # Safety
/// As for [`report`].
#[inline]
pub unsafe fn code(outcome: Outcome<()>, message: Option<&mut *mut c_char>) -> i32 {
    match outcome {
        Ok(()) => ESKER_OK,
        Err(failure) => {
            // SAFETY: the caller's promise.
            unsafe { report(message, &failure.message) };
            failure.code
        }
    }
}
