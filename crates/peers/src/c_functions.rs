//! The functions and objects of LevelDB's C interface, which RocksDB repeats under its own prefix.
//!
//! Handles are opaque pointers created and freed by the library.

use std::ffi::{CStr, c_char, c_void};

use esker_lab::error::Result;

use crate::library::functions;

/// A pointer owned by the library.
pub type Handle = *mut c_void;
/// Location for an error text from the library.
pub type ErrorText = *mut *mut c_char;
/// The start of a key or of a value.
pub type Bytes = *const u8;

functions! {
    /// Functions common to LevelDB and RocksDB, without the prefix.
    Common {
        open: fn(Handle, *const c_char, ErrorText) -> Handle,
        close: fn(Handle),
        put: fn(Handle, Handle, Bytes, usize, Bytes, usize, ErrorText),
        delete: fn(Handle, Handle, Bytes, usize, ErrorText),
        get: fn(Handle, Handle, Bytes, usize, *mut usize, ErrorText) -> *mut u8,
        create_iterator: fn(Handle, Handle) -> Handle,
        iter_destroy: fn(Handle),
        iter_valid: fn(Handle) -> u8,
        iter_seek_to_first: fn(Handle),
        iter_seek_to_last: fn(Handle),
        iter_seek: fn(Handle, Bytes, usize),
        iter_next: fn(Handle),
        iter_prev: fn(Handle),
        iter_key: fn(Handle, *mut usize) -> Bytes,
        iter_value: fn(Handle, *mut usize) -> Bytes,
        iter_get_error: fn(Handle, ErrorText),
        property_value: fn(Handle, *const c_char) -> *mut c_char,
        compact_range: fn(Handle, Bytes, usize, Bytes, usize),
        free: fn(*mut c_void),
        write: fn(Handle, Handle, Handle, ErrorText),
        writebatch_create: fn() -> Handle,
        writebatch_destroy: fn(Handle),
        writebatch_clear: fn(Handle),
        writebatch_put: fn(Handle, Bytes, usize, Bytes, usize),
        writebatch_delete: fn(Handle, Bytes, usize),
        options_create: fn() -> Handle,
        options_destroy: fn(Handle),
        options_set_create_if_missing: fn(Handle, u8),
        options_set_write_buffer_size: fn(Handle, usize),
        options_set_compression: fn(Handle, i32),
        cache_create_lru: fn(usize) -> Handle,
        cache_destroy: fn(Handle),
        readoptions_create: fn() -> Handle,
        readoptions_destroy: fn(Handle),
        readoptions_set_verify_checksums: fn(Handle, u8),
        writeoptions_create: fn() -> Handle,
        writeoptions_destroy: fn(Handle),
        writeoptions_set_sync: fn(Handle, u8),
    }
}

functions! {
    /// RocksDB's functions for reads without a copy and for multi-get. Multi-get needs a column
    /// family, which must be named when the store is opened.
    Pinned {
        open_column_families: fn(
            Handle, *const c_char, i32, *const *const c_char, *const Handle, *mut Handle, ErrorText
        ) -> Handle,
        column_family_handle_destroy: fn(Handle),
        batched_multi_get_cf: fn(
            Handle, Handle, Handle, usize, *const Bytes, *const usize, *mut Handle, ErrorText, bool
        ),
        get_pinned: fn(Handle, Handle, Bytes, usize, ErrorText) -> Handle,
        pinnableslice_value: fn(Handle, *mut usize) -> Bytes,
        pinnableslice_destroy: fn(Handle),
    }
}

/// An object that is destroyed after the store is closed.
pub struct Owned {
    pub handle: Handle,
    pub destroy: unsafe extern "C" fn(Handle),
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the handle was created by the library of `destroy`, and is not used afterwards.
        unsafe { (self.destroy)(self.handle) }
    }
}

/// Returns an error text, and frees it.
///
/// # Safety
/// `error` is a C string of the library of `common`, owned by the caller and not used afterwards.
pub unsafe fn text_of(error: *mut c_char, common: &Common) -> String {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let text = CStr::from_ptr(error).to_string_lossy().into_owned();
        (common.free)(error.cast());
        text
    }
}

/// Returns the bytes from `start`.
///
/// # Safety
/// `start` is null or points to `len` bytes that live as long as the result is used.
pub unsafe fn slice<'a>(start: Bytes, len: usize) -> &'a [u8] {
    if start.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts(start, len) }
}

/// An iterator of a store, which is freed with it.
pub struct Walker<'a> {
    common: &'a Common,
    engine: &'a str,
    iter: Handle,
}

impl Drop for Walker<'_> {
    fn drop(&mut self) {
        // SAFETY: created by the library of `common` and not used afterwards.
        unsafe { (self.common.iter_destroy)(self.iter) }
    }
}

impl<'a> Walker<'a> {
    /// Takes over the iterator `iter` of a store that outlives it. `engine` is for messages.
    pub fn new(common: &'a Common, engine: &'a str, iter: Handle) -> Walker<'a> {
        Walker { common, engine, iter }
    }

    /// Returns the iterator's handle.
    #[inline]
    pub fn handle(&self) -> Handle {
        self.iter
    }

    /// Returns the current pair, or `None` at the end.
    #[inline]
    pub fn pair(&self) -> Option<(&[u8], &[u8])> {
        let common = self.common;
        let (mut key_len, mut value_len) = (0usize, 0usize);
        // SAFETY: key and value may be read while the iterator is valid, and stay unchanged until
        // it moves. Callers move it only after their last use of the pair.
        unsafe {
            if (common.iter_valid)(self.iter) == 0 {
                return None;
            }
            let key = (common.iter_key)(self.iter, &raw mut key_len);
            let value = (common.iter_value)(self.iter, &raw mut value_len);
            Some((slice(key, key_len), slice(value, value_len)))
        }
    }

    /// Fails if the iterator has met an error.
    pub fn finish(&self) -> Result<()> {
        let mut error: *mut c_char = std::ptr::null_mut();
        // SAFETY: the iterator is alive; `error` starts null.
        unsafe { (self.common.iter_get_error)(self.iter, &raw mut error) };
        self.common.check(self.engine, error)
    }
}
