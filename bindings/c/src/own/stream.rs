//! `esker_put_reader` and `esker_get_reader`: values that are not in memory as a whole.
//!
//! Invariants:
//! 1. A value whose source fails is not written.
//! 2. A reader keeps its version of the value, and needs no open store.

use std::ffi::{c_char, c_void};
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use esker::ValueReader;
use esker_bindings::handle::Handle;

use super::keyspace::esker_keyspace_t;
use super::store::esker_db_t;
use crate::failure::{ESKER_IO, Failure, Outcome, attempt, there};
use crate::ffi;

/// Gives the next bytes of a value: state, a buffer and its length, which is at least 1. Stores 1 byte or
/// more there and returns their number; returns 0 at the end of the value, and a negative number if the
/// value is not to be written.
pub type esker_read_t = Option<unsafe extern "C" fn(*mut c_void, *mut u8, usize) -> i64>;

/// A reader of one value, in the version that was the newest when the reader was created. It may be used
/// by one thread at a time, and freed before or after the store.
pub struct esker_value_reader_t {
    reader: ValueReader,
    store: Arc<Handle>,
}

/// The bytes of a function in C.
struct Source {
    store: Arc<Handle>,
    state: *mut c_void,
    read: unsafe extern "C" fn(*mut c_void, *mut u8, usize) -> i64,
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        // SAFETY: the function and `state` belong together by the caller's contract; the buffer has
        // that length.
        let given = self
            .store
            .held(|| unsafe { (self.read)(self.state, buffer.as_mut_ptr(), buffer.len()) });
        match usize::try_from(given) {
            Ok(len) if len <= buffer.len() => Ok(len),
            Ok(len) => Err(io::Error::other(format!(
                "the source of the value stored {len} bytes in a buffer of {}",
                buffer.len()
            ))),
            Err(_) => Err(io::Error::other("the source of the value failed")),
        }
    }
}

/// Sets a key to the bytes that `read` gives, and holds less than 2 MiB of them in memory. `read` is
/// called with `state` on this thread, until it returns 0, and must not throw or jump out. It may use the
/// store, but not close it. A value of more than 512 KiB goes past the log and the memtables into a file
/// of its own, and is durable when this returns; a shorter one is put as by `esker_put`. Sets
/// `*value_bytes` to the length of the value; it may be NULL.
///
/// Nothing is changed after a failure: `ESKER_IO` if `read` failed, `ESKER_INVALID_ARGUMENT` for a key of
/// more than 1 MiB or a value of more than 1 GiB, `ESKER_INCOMPATIBLE` for a value of more than 512 KiB
/// in a store with format version 1 (`esker_upgrade_format`); otherwise as `esker_put` and
/// `esker_ingest`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_put_reader(
    db: Option<&esker_db_t>,
    key: *const u8,
    key_len: usize,
    state: *mut c_void,
    read: esker_read_t,
    value_bytes: Option<&mut u64>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        let outcome = attempt(|| {
            let read = there(read, "function that gives the value")?;
            let key = ffi::bytes(key, key_len, "key")?;
            let db = there(db, "store's handle")?;
            let source = Source { store: db.handle.clone(), state, read };
            let written = db.handle.open()?.put_reader(key, source)?;
            if let Some(value_bytes) = value_bytes {
                *value_bytes = written;
            }
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// Does the same as `esker_put_reader`, in a keyspace. Fails with `ESKER_INVALID_ARGUMENT` if the keyspace
/// has a time to live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_put_reader(
    keyspace: Option<&esker_keyspace_t>,
    key: *const u8,
    key_len: usize,
    state: *mut c_void,
    read: esker_read_t,
    value_bytes: Option<&mut u64>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        let outcome = attempt(|| {
            let read = there(read, "function that gives the value")?;
            let key = ffi::bytes(key, key_len, "key")?;
            let keyspace = there(keyspace, "keyspace's handle")?;
            let source = Source { store: keyspace.store.clone(), state, read };
            let written = esker_keyspace_t::open(Some(keyspace))?.put_reader(key, source)?;
            if let Some(value_bytes) = value_bytes {
                *value_bytes = written;
            }
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// Gives a reader to the caller; null if there is no value.
fn give(place: &mut *mut esker_value_reader_t, store: &Arc<Handle>, reader: Option<ValueReader>) {
    if let Some(reader) = reader {
        *place = Box::into_raw(Box::new(esker_value_reader_t { reader, store: store.clone() }));
    }
}

/// Sets `*reader` to a reader of the present value of a key, or to NULL if the key is missing. It returns
/// that value whatever is written later, also after the store was closed. Of a value in a file of its own
/// (`esker_put_reader`) it holds 64 KiB in memory, and the file open; any other value is in memory as a
/// whole. Fails as `esker_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_get_reader(
    db: Option<&esker_db_t>,
    key: *const u8,
    key_len: usize,
    reader: Option<&mut *mut esker_value_reader_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        let outcome = attempt(|| {
            let place = there(reader, "place for the reader")?;
            *place = std::ptr::null_mut();
            let key = ffi::bytes(key, key_len, "key")?;
            let db = there(db, "store's handle")?;
            give(place, &db.handle, db.handle.open()?.get_reader(key)?);
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// Does the same as `esker_get_reader`, in a keyspace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_get_reader(
    keyspace: Option<&esker_keyspace_t>,
    key: *const u8,
    key_len: usize,
    reader: Option<&mut *mut esker_value_reader_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        let outcome = attempt(|| {
            let place = there(reader, "place for the reader")?;
            *place = std::ptr::null_mut();
            let key = ffi::bytes(key, key_len, "key")?;
            let keyspace = there(keyspace, "keyspace's handle")?;
            let found = esker_keyspace_t::open(Some(keyspace))?.get_reader(key)?;
            give(place, &keyspace.store, found);
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// Returns the length of the whole value, in bytes; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn esker_value_reader_len(reader: Option<&esker_value_reader_t>) -> u64 {
    reader.map_or(0, |own| own.reader.len_bytes())
}

/// Copies bytes of the value, from `offset` on, into `buffer`. Sets `*bytes` to their number:
/// `buffer_len`, or less at the end of the value, or 0 behind it. Fails with `ESKER_CORRUPTION` if a
/// piece of the value is damaged; `*bytes` is then the number of bytes before it, and bytes of other
/// pieces can still be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_value_reader_read(
    reader: Option<&mut esker_value_reader_t>,
    offset: u64,
    buffer: *mut u8,
    buffer_len: usize,
    bytes: Option<&mut usize>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages; the buffer has
    // `buffer_len` bytes to be written.
    unsafe {
        let outcome = attempt(|| {
            let bytes = there(bytes, "place for the number of bytes")?;
            *bytes = 0;
            let own = there(reader, "reader")?;
            own.store.check_reentry()?;
            let mut rest = ffi::array_mut(buffer, buffer_len, "buffer")?;
            own.reader.seek(SeekFrom::Start(offset)).map_err(failure_of)?;
            while !rest.is_empty() {
                let len = own.reader.read(rest).map_err(failure_of)?;
                if len == 0 {
                    break;
                }
                *bytes += len;
                rest = &mut rest[len..];
            }
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// Returns the failure of a read: that of the engine, if it has one.
fn failure_of(error: io::Error) -> Failure {
    let message = error.to_string();
    match error.into_inner().map(|inner| inner.downcast::<esker::Error>()) {
        Some(Ok(error)) => Failure::from(*error),
        _ => Failure { code: ESKER_IO, message },
    }
}

/// Frees a reader.
#[unsafe(no_mangle)]
pub extern "C" fn esker_value_reader_destroy(reader: Option<Box<esker_value_reader_t>>) {
    let _: Outcome<()> = attempt(|| {
        drop(reader);
        Ok(())
    });
}
