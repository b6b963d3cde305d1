//! Functions for the C++ shim (`shim/`) beyond `esker.h`. They take LevelDB's options and batches.
//!
//! They are declared in `shim/bridge.h`, not in the public header.

use std::ffi::c_char;
use std::sync::Arc;

use esker::{Batch, Db};

use crate::options::leveldb_options_t;
use crate::store;
use crate::trace::{Op, Recorder, Scan};
use esker_c::failure::{ESKER_CORRUPTION, Failure, Outcome, attempt, there};
use esker_c::ffi;
use esker_c::own::options::esker_memory_t;
use esker_c::own::store::esker_db_t;

/// Size of a batch's header in bytes: sequence number (8) and count (4).
const HEADER_BYTES: usize = 12;
const DELETION: u8 = 0;
const VALUE: u8 = 1;

/// Selects `memory` instead of the disk for opening, destroying and repairing stores.
#[unsafe(no_mangle)]
pub extern "C" fn esker_shim_set_memory(
    options: Option<&mut leveldb_options_t>,
    memory: Option<&esker_memory_t>,
) {
    if let Some(options) = options {
        options.settings.fs = memory.map(esker_memory_t::shared);
    }
}

/// Runs `act` with the settings and the path. Returns the code and reports a failure in `message`.
unsafe fn on_path(
    options: Option<&leveldb_options_t>,
    path: *const c_char,
    message: Option<&mut *mut c_char>,
    act: impl FnOnce(&esker_bindings::settings::Settings, &std::path::Path) -> Outcome<()>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe {
        let outcome = attempt(|| act(&there(options, "options")?.settings, ffi::path(path)?));
        ffi::code(outcome, message)
    }
}

/// Opens a store with LevelDB's options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_shim_open(
    options: Option<&leveldb_options_t>,
    path: *const c_char,
    db: Option<&mut *mut esker_db_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe {
        on_path(options, path, message, |settings, path| {
            let place = there(db, "place for the store's handle")?;
            *place = Box::into_raw(esker_db_t::new(store::open(settings, path)?));
            Ok(())
        })
    }
}

/// Implements `DestroyDB`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_shim_destroy(
    options: Option<&leveldb_options_t>,
    path: *const c_char,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe { on_path(options, path, message, store::destroy) }
}

/// Implements `RepairDB`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_shim_repair(
    options: Option<&leveldb_options_t>,
    path: *const c_char,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe { on_path(options, path, message, store::repair) }
}

/// Applies a batch in LevelDB's layout: sequence number, count, operations.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_shim_write(
    db: Option<&esker_db_t>,
    rep: *const u8,
    rep_len: usize,
    durability: i32,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers and messages.
    unsafe {
        let outcome = attempt(|| {
            let options = esker_c::own::common::write_options(durability)?;
            let db = esker_db_t::open(db)?;
            let batch = decode(ffi::bytes(rep, rep_len, "batch")?)?;
            Ok(Db::write_with(&db, &batch, &options)?)
        });
        ffi::code(outcome, message)
    }
}

/// The recording of a store's calls, for `shim/`.
pub struct esker_shim_trace_t {
    recorder: Arc<Recorder>,
}

/// Writes the recording of the store at `path` to `trace`: null if the environment asks for none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_shim_trace_open(
    path: *const c_char,
    trace: Option<&mut *mut esker_shim_trace_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe {
        let outcome = attempt(|| {
            let place = there(trace, "place for the recording's handle")?;
            let recorder = Recorder::of_environment(ffi::path(path)?)?;
            let handle = |recorder| Box::into_raw(Box::new(esker_shim_trace_t { recorder }));
            *place = recorder.map_or(std::ptr::null_mut(), handle);
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// Ends the recording of a store that was not opened, removes its file, and frees the handle.
#[unsafe(no_mangle)]
pub extern "C" fn esker_shim_trace_discard(trace: Option<Box<esker_shim_trace_t>>) {
    if let Some(trace) = trace {
        trace.recorder.discard();
    }
}

/// Frees a handle. The recording ends with it and with the last scan.
#[unsafe(no_mangle)]
pub extern "C" fn esker_shim_trace_destroy(trace: Option<Box<esker_shim_trace_t>>) {
    drop(trace);
}

/// Records a get of a value of `number` bytes, or of a missing key with a negative `number`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_shim_trace_get(
    trace: Option<&esker_shim_trace_t>,
    key: *const u8,
    key_len: usize,
    number: i64,
) {
    let _ = attempt(|| {
        // SAFETY: the caller meets the header's contract for buffers.
        let key = unsafe { ffi::bytes(key, key_len, "key") }?;
        let found = usize::try_from(number).ok();
        there(trace, "recording")?.recorder.add(key, Op::Get(found));
        Ok(())
    });
}

/// Records the operations of a batch in LevelDB's layout.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_shim_trace_batch(
    trace: Option<&esker_shim_trace_t>,
    rep: *const u8,
    rep_len: usize,
) {
    let _ = attempt(|| {
        // SAFETY: the caller meets the header's contract for buffers.
        let batch = decode(unsafe { ffi::bytes(rep, rep_len, "batch") }?)?;
        there(trace, "recording")?.recorder.add_batch(&batch);
        Ok(())
    });
}

/// The recorded scan of an iterator, for `shim/`.
pub struct esker_shim_scan_t {
    scan: Scan,
}

/// Returns the scan of a new iterator, which may outlive its store; null without a recording.
#[unsafe(no_mangle)]
pub extern "C" fn esker_shim_scan_create(
    trace: Option<&esker_shim_trace_t>,
) -> Option<Box<esker_shim_scan_t>> {
    trace.map(|trace| Box::new(esker_shim_scan_t { scan: Scan::new(trace.recorder.clone()) }))
}

/// Begins a scan at a key, which ends and records the one before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_shim_scan_begin(
    scan: Option<&mut esker_shim_scan_t>,
    key: *const u8,
    key_len: usize,
) {
    let _ = attempt(|| {
        // SAFETY: the caller meets the header's contract for buffers.
        let key = unsafe { ffi::bytes(key, key_len, "key") }?;
        there(scan, "scan")?.scan.begin(key);
        Ok(())
    });
}

/// Counts the pair that a seek or a step has found, if it has found one.
#[unsafe(no_mangle)]
pub extern "C" fn esker_shim_scan_step(scan: Option<&mut esker_shim_scan_t>, is_valid: u8) {
    if let Some(scan) = scan {
        scan.scan.step(is_valid != 0);
    }
}

/// Records the last scan and frees the handle.
#[unsafe(no_mangle)]
pub extern "C" fn esker_shim_scan_destroy(scan: Option<Box<esker_shim_scan_t>>) {
    drop(scan);
}

fn wrong(what: &str) -> Failure {
    Failure { code: ESKER_CORRUPTION, message: format!("the WriteBatch {what}") }
}

/// Decodes a batch in LevelDB's layout.
fn decode(rep: &[u8]) -> Outcome<Batch> {
    let (header, mut rest) =
        rep.split_at_checked(HEADER_BYTES).ok_or_else(|| wrong("is shorter than its header"))?;
    let mut batch = Batch::new();
    let mut found = 0u32;
    while let Some((&tag, after)) = rest.split_first() {
        rest = after;
        found = found.wrapping_add(1);
        let malformed = || wrong("holds a malformed operation");
        let key = take(&mut rest).ok_or_else(malformed)?;
        match tag {
            VALUE => {
                batch.put(key, take(&mut rest).ok_or_else(malformed)?);
            }
            DELETION => {
                batch.delete(key);
            }
            _ => return Err(wrong("holds an operation of an unknown kind")),
        }
    }
    let count = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
    if found != count {
        return Err(wrong("does not hold as many operations as its header states"));
    }
    Ok(batch)
}

/// Takes length-prefixed bytes from `rest`. The length is a varint of at most 5 bytes.
fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let mut len = 0u64;
    for shift in (0..35).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        len |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            let (taken, after) = rest.split_at_checked(usize::try_from(len).ok()?)?;
            *rest = after;
            return Some(taken);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use esker::BatchOp;

    use super::*;

    fn rep(count: u8, operations: &[u8]) -> Vec<u8> {
        let mut rep = vec![0; HEADER_BYTES];
        rep[8] = count;
        rep.extend_from_slice(operations);
        rep
    }

    #[test]
    fn leveldb_batches_are_decoded() {
        let batch = decode(&rep(2, b"\x01\x01k\x02vw\x00\x01d")).unwrap();
        let operations: Vec<_> = batch.operations().collect();
        let (put, deleted) = (
            BatchOp::Put { keyspace: 0, key: b"k", value: b"vw" },
            BatchOp::Delete { keyspace: 0, key: b"d" },
        );
        assert_eq!(operations, [put, deleted]);
        assert!(decode(&rep(0, b"")).unwrap().is_empty());
    }

    #[test]
    fn malformed_batches_are_refused() {
        for bad in [&b"\x01\x01k"[..], b"\x01\x05k", b"\x07\x01k", b"\x00\xff\xff\xff\xff\xff\x01"]
        {
            assert_eq!(decode(&rep(1, bad)).unwrap_err().code, ESKER_CORRUPTION, "{bad:?}");
        }
        assert_eq!(decode(b"short").unwrap_err().code, ESKER_CORRUPTION);
        assert!(decode(&rep(1, b"\x00\x01a\x00\x01b")).is_err());
    }
}
