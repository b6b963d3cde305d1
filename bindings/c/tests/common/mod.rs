//! Helpers of the tests that call the C interface.

use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::ptr::null_mut;

use esker_c::own::common::esker_free;

/// Returns the text at `message`, and frees it.
pub fn taken(message: &mut *mut c_char) -> String {
    if message.is_null() {
        return String::new();
    }
    // SAFETY: a text returned by this library.
    unsafe {
        let text = CStr::from_ptr(*message).to_string_lossy().into_owned();
        esker_free((*message).cast());
        *message = null_mut();
        text
    }
}

/// Returns a path as C takes it.
pub fn c_path(path: &Path) -> CString {
    CString::new(path.to_str().unwrap()).unwrap()
}

/// Returns the two keys that a comparator gets.
///
/// # Safety
/// The pointers are those of one call of a comparator, within it.
pub unsafe fn compared<'a>(
    a: *const c_char,
    a_len: usize,
    b: *const c_char,
    b_len: usize,
) -> (&'a [u8], &'a [u8]) {
    // SAFETY: the library passes two valid keys.
    unsafe {
        (
            std::slice::from_raw_parts(a.cast::<u8>(), a_len),
            std::slice::from_raw_parts(b.cast::<u8>(), b_len),
        )
    }
}
