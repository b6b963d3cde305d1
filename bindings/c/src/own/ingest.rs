//! `esker_sorted_writer_*`, `esker_ingest` and `esker_bulk_load`: much data at once.
//!
//! Invariants:
//! 1. A file that was not finished is removed with its writer.
//! 2. The source of a bulk load may use the store, but cannot close it. After its failure nothing is
//!    changed.

use std::ffi::{c_char, c_void};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use esker::ingest::{IngestOptions, IngestReport, SortedFile, SortedWriter};
use esker_bindings::handle::Handle;

use super::common::data_of;
use super::keyspace::esker_keyspace_t;
use super::options::esker_options_t;
use super::store::{esker_db_t, fs_below};
use crate::failure::{Failure, Outcome, attempt, there};
use crate::ffi;

/// Result of the source of a bulk load: there are no more pairs.
pub const ESKER_SOURCE_END: i32 = 0;
/// Result of the source of a bulk load: the places have the next pair.
pub const ESKER_SOURCE_PAIR: i32 = 1;
/// Result of the source of a bulk load: it failed; nothing is to be loaded.
pub const ESKER_SOURCE_FAILED: i32 = -1;

/// Gives the next pair of a bulk load: state, the places for the key, its length, the value and its
/// length. Returns `ESKER_SOURCE_PAIR`, `ESKER_SOURCE_END` or `ESKER_SOURCE_FAILED`. The buffers are
/// read before the next call.
pub type esker_source_t = Option<
    unsafe extern "C" fn(
        *mut c_void,
        *mut *const u8,
        *mut usize,
        *mut *const u8,
        *mut usize,
    ) -> i32,
>;

/// A finished file of a sorted writer. Later versions may add fields at the end.
#[repr(C)]
pub struct esker_sorted_file_t {
    /// Number of entries.
    pub entries: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Smallest key; empty without entries.
    pub smallest: *const u8,
    /// Length of the smallest key.
    pub smallest_len: usize,
    /// Largest key; empty without entries.
    pub largest: *const u8,
    /// Length of the largest key.
    pub largest_len: usize,
}

/// What an ingest or a bulk load did. Later versions may add fields at the end.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct esker_ingest_report_t {
    /// The sequence number of all entries; 0 if there was none.
    pub sequence: u64,
    /// Number of tables that were installed.
    pub files: u64,
    /// Number of entries in them.
    pub entries: u64,
    /// Bytes of the tables.
    pub bytes: u64,
    /// 1 if the call waited for a flush of what was written before.
    pub flushed: u8,
    /// Number of these tables at each level.
    pub levels: [u64; 8],
}

/// A writer of a table file outside of a store, for `esker_ingest`. It may be used by one thread at a
/// time.
pub struct esker_sorted_writer_t {
    /// `None` after the file was finished, or could not be.
    writer: Option<SortedWriter>,
    entries: u64,
    finished: Option<(Box<esker_sorted_file_t>, SortedFile)>,
}

impl esker_sorted_writer_t {
    fn writer(this: Option<&mut esker_sorted_writer_t>) -> Outcome<&mut SortedWriter> {
        there(this, "sorted writer")?
            .writer
            .as_mut()
            .ok_or_else(|| Failure::invalid("the file of the sorted writer is finished already"))
    }
}

/// Creates a writer of the table file `path`, which must not exist. Several writers can run at the
/// same time, also in other processes. The file has the key order, compression, block size and filter
/// of the `options`, which may be NULL; only the key order must be the one of the store. The file is not
/// encrypted, also if the options have a key: an ingest into an encrypted store encrypts it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_sorted_writer_create(
    path: *const c_char,
    options: Option<&esker_options_t>,
    writer: Option<&mut *mut esker_sorted_writer_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe {
        let outcome = attempt(|| {
            let place = there(writer, "place for the sorted writer")?;
            *place = std::ptr::null_mut();
            let chosen = options.map(|options| options.options.clone()).unwrap_or_default();
            let made = SortedWriter::create_on(fs_below(options), ffi::path(path)?, &chosen)?;
            let made = esker_sorted_writer_t { writer: Some(made), entries: 0, finished: None };
            *place = Box::into_raw(Box::new(made));
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// Adds a pair. Fails with `ESKER_INVALID_ARGUMENT` for a key that is not after all keys so far: it
/// is not written, and the next one can be.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_sorted_writer_put(
    writer: Option<&mut esker_sorted_writer_t>,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        let outcome = attempt(|| {
            let key = ffi::bytes(key, key_len, "key")?;
            let value = ffi::bytes(value, value_len, "value")?;
            Ok(esker_sorted_writer_t::writer(writer)?.put(key, value)?)
        });
        ffi::code(outcome, message)
    }
}

/// Adds a pair that expires after `ttl_ms` milliseconds, from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_sorted_writer_put_with_ttl(
    writer: Option<&mut esker_sorted_writer_t>,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    ttl_ms: u64,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        let outcome = attempt(|| {
            let key = ffi::bytes(key, key_len, "key")?;
            let value = ffi::bytes(value, value_len, "value")?;
            let ttl = Duration::from_millis(ttl_ms);
            Ok(esker_sorted_writer_t::writer(writer)?.put_with_ttl(key, value, ttl)?)
        });
        ffi::code(outcome, message)
    }
}

/// Adds an operand, which the ingest merges into the value of the key. Fails with
/// `ESKER_INVALID_ARGUMENT` if the options of the writer have no merge operator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_sorted_writer_merge(
    writer: Option<&mut esker_sorted_writer_t>,
    key: *const u8,
    key_len: usize,
    operand: *const u8,
    operand_len: usize,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        let outcome = attempt(|| {
            let key = ffi::bytes(key, key_len, "key")?;
            let operand = ffi::bytes(operand, operand_len, "operand")?;
            Ok(esker_sorted_writer_t::writer(writer)?.merge(key, operand)?)
        });
        ffi::code(outcome, message)
    }
}

/// Adds a delete: the ingest deletes the key from the store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_sorted_writer_delete(
    writer: Option<&mut esker_sorted_writer_t>,
    key: *const u8,
    key_len: usize,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        let outcome = attempt(|| {
            let key = ffi::bytes(key, key_len, "key")?;
            Ok(esker_sorted_writer_t::writer(writer)?.delete(key)?)
        });
        ffi::code(outcome, message)
    }
}

/// Returns the number of entries so far; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn esker_sorted_writer_entries(writer: Option<&esker_sorted_writer_t>) -> u64 {
    writer.map_or(0, |own| own.writer.as_ref().map_or(own.entries, SortedWriter::entries))
}

/// Returns the approximate length of the file so far, in bytes, for a program that begins another file
/// at some size; 0 for NULL and after `esker_sorted_writer_finish`.
#[unsafe(no_mangle)]
pub extern "C" fn esker_sorted_writer_estimated_bytes(
    writer: Option<&esker_sorted_writer_t>,
) -> u64 {
    writer.and_then(|own| own.writer.as_ref()).map_or(0, SortedWriter::estimated_bytes)
}

/// Completes the file and makes it durable. No entry can be added after this. Sets `*file` to what
/// was written, valid until the writer is freed; `file` may be NULL. After a failure there is no
/// file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_sorted_writer_finish(
    writer: Option<&mut esker_sorted_writer_t>,
    file: Option<&mut *const esker_sorted_file_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let own = there(writer, "sorted writer")?;
        esker_sorted_writer_t::writer(Some(own))?;
        let Some(writer) = own.writer.take() else { return Ok(()) };
        let made = writer.finish()?;
        own.entries = made.entries;
        let (smallest, smallest_len) = data_of(&made.smallest);
        let (largest, largest_len) = data_of(&made.largest);
        let (entries, bytes) = (made.entries, made.bytes);
        let shown =
            esker_sorted_file_t { entries, bytes, smallest, smallest_len, largest, largest_len };
        let (shown, _) = own.finished.insert((Box::new(shown), made));
        if let Some(place) = file {
            *place = &raw const **shown;
        }
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Frees a writer. Removes its file if that was not finished.
#[unsafe(no_mangle)]
pub extern "C" fn esker_sorted_writer_destroy(writer: Option<Box<esker_sorted_writer_t>>) {
    let _ = attempt(|| {
        drop(writer);
        Ok(())
    });
}

/// Gives a report to the caller.
fn report(place: Option<&mut *mut esker_ingest_report_t>, made: &IngestReport) {
    if let Some(place) = place {
        *place = ffi::give(esker_ingest_report_t {
            sequence: made.seqno,
            files: made.files,
            entries: made.entries,
            bytes: made.bytes,
            flushed: made.flushed.into(),
            levels: made.levels,
        });
    }
}

/// Reads the arguments of an ingest.
///
/// # Safety
/// As for [`ffi::array`] and [`ffi::path`].
unsafe fn ingest_arguments(
    files: *const *const c_char,
    count: usize,
    copy: u8,
    verify: u8,
) -> Outcome<(Vec<PathBuf>, IngestOptions)> {
    // SAFETY: guaranteed by the caller.
    let files = unsafe { ffi::array(files, count, "array of files") }?;
    // SAFETY: as above.
    let paths = files.iter().map(|file| Ok(unsafe { ffi::path(*file) }?.to_path_buf()));
    let options = IngestOptions::default().copy(copy != 0).verify(verify != 0);
    Ok((paths.collect::<Outcome<Vec<PathBuf>>>()?, options))
}

/// Makes `count` files of sorted writers part of the store, all of them at once. Their entries become
/// the newest versions of their keys. Readers see all of them or none, and a crash leaves all of them
/// in the store or none. The files are durable in the store when this returns. The store takes the
/// files; with a `copy` other than 0 they stay where they are, and the store gets copies. With a
/// `verify` other than 0 each file is read and checked as a whole first. Sets `*report`, which must
/// be freed with `esker_free`; `report` may be NULL.
///
/// Nothing is changed after a failure: `ESKER_INVALID_ARGUMENT` if two files share keys or a file was
/// not made by a sorted writer, `ESKER_INCOMPATIBLE` for another key order, `ESKER_CORRUPTION` for a
/// file that is damaged or was not finished.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_ingest(
    db: Option<&esker_db_t>,
    files: *const *const c_char,
    count: usize,
    copy: u8,
    verify: u8,
    report: Option<&mut *mut esker_ingest_report_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for arrays, strings and messages.
    unsafe {
        let outcome = attempt(|| {
            let (files, options) = ingest_arguments(files, count, copy, verify)?;
            self::report(report, &esker_db_t::open(db)?.ingest(&files, &options)?);
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// Does the same as `esker_ingest`, into a keyspace. Unless it is the keyspace `default`, the files
/// are read and written once. Pairs do not get the keyspace's time to live, but that of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_ingest(
    keyspace: Option<&esker_keyspace_t>,
    files: *const *const c_char,
    count: usize,
    copy: u8,
    verify: u8,
    report: Option<&mut *mut esker_ingest_report_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for arrays, strings and messages.
    unsafe {
        let outcome = attempt(|| {
            let (files, options) = ingest_arguments(files, count, copy, verify)?;
            self::report(report, &esker_keyspace_t::open(keyspace)?.ingest(&files, &options)?);
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// The pairs of a source in C.
struct Source<'a> {
    store: Arc<Handle>,
    state: *mut c_void,
    next: unsafe extern "C" fn(
        *mut c_void,
        *mut *const u8,
        *mut usize,
        *mut *const u8,
        *mut usize,
    ) -> i32,
    is_over: bool,
    _pairs: std::marker::PhantomData<&'a [u8]>,
}

impl<'a> Source<'a> {
    fn new(store: Arc<Handle>, state: *mut c_void, next: esker_source_t) -> Outcome<Source<'a>> {
        let next = there(next, "function that gives the pairs")?;
        Ok(Source { store, state, next, is_over: false, _pairs: std::marker::PhantomData })
    }

    fn pair(&self) -> Outcome<Option<(&'a [u8], &'a [u8])>> {
        let (mut key, mut key_len) = (std::ptr::null::<u8>(), 0);
        let (mut value, mut value_len) = (std::ptr::null::<u8>(), 0);
        // SAFETY: the function and `state` belong together by the caller's contract.
        let given = self.store.held(|| unsafe {
            let places = (&raw mut key, &raw mut key_len, &raw mut value, &raw mut value_len);
            (self.next)(self.state, places.0, places.1, places.2, places.3)
        });
        match given {
            ESKER_SOURCE_END => Ok(None),
            // SAFETY: the interface requires that the buffers stay valid until the next call.
            ESKER_SOURCE_PAIR => unsafe {
                let key = ffi::bytes(key, key_len, "key of the source")?;
                Ok(Some((key, ffi::bytes(value, value_len, "value of the source")?)))
            },
            ESKER_SOURCE_FAILED => Err(Failure::invalid("the source of the bulk load failed")),
            other => {
                let message =
                    format!("the source of the bulk load returned {other}; it is -1 to 1");
                Err(Failure::invalid(message))
            }
        }
    }
}

impl<'a> Iterator for Source<'a> {
    type Item = Outcome<(&'a [u8], &'a [u8])>;

    fn next(&mut self) -> Option<Outcome<(&'a [u8], &'a [u8])>> {
        if self.is_over {
            return None;
        }
        let pair = self.pair().transpose();
        self.is_over = !matches!(pair, Some(Ok(_)));
        pair
    }
}

/// Writes sorted pairs as tables of the store, without the log and the memtable. `next` is called with
/// `state` for each pair, on this thread, and must not throw or jump out. It may use the store, but
/// not close it. The keys must be strictly ascending in the key order of the store. The pairs become
/// visible and durable together when the source ends. Sets `*report`, which must be freed with
/// `esker_free`; `report` may be NULL. Nothing is changed after a failure: `ESKER_INVALID_ARGUMENT`
/// for a key that is not after the one before it, or if the source failed; otherwise as
/// `esker_ingest`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_bulk_load(
    db: Option<&esker_db_t>,
    state: *mut c_void,
    next: esker_source_t,
    report: Option<&mut *mut esker_ingest_report_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let db = there(db, "store's handle")?;
        let source = Source::new(db.handle.clone(), state, next)?;
        self::report(report, &db.handle.open()?.try_bulk_load(source)?);
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Does the same as `esker_bulk_load`, into a keyspace. Pairs get the keyspace's time to live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_bulk_load(
    keyspace: Option<&esker_keyspace_t>,
    state: *mut c_void,
    next: esker_source_t,
    report: Option<&mut *mut esker_ingest_report_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let keyspace = there(keyspace, "keyspace's handle")?;
        let source = Source::new(keyspace.store.clone(), state, next)?;
        let opened = esker_keyspace_t::open(Some(keyspace))?;
        self::report(report, &opened.try_bulk_load(source)?);
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}
