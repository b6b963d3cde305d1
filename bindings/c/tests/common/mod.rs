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
