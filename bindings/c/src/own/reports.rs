//! `esker_verify_with` and `esker_repair_with`: the numbers of a verification and of a repair.
//!
//! Invariants:
//! 1. A report is given for damaged data too: the caller learns how much was read.
//! 2. The function that hears the progress runs within a call on the store, and cannot close it.

use std::ffi::{c_char, c_void};

use esker::Db;

use super::options::esker_options_t;
use super::store::{esker_db_t, fs_of};
use crate::failure::{ESKER_CORRUPTION, Failure, attempt, there};
use crate::ffi;

/// Hears how far a verification is: state, bytes read, and bytes of all files. The last is an estimate.
pub type esker_progress_t = Option<unsafe extern "C" fn(*mut c_void, u64, u64)>;

/// What a verification has read. Later versions may add fields at the end.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct esker_verify_report_t {
    /// Format version of the store.
    pub format_version: u32,
    /// Number of files with problems.
    pub problems: u32,
    /// Number of table files.
    pub files: u64,
    /// Number of value files.
    pub value_files: u64,
    /// Number of logs.
    pub logs: u64,
    /// Bytes of tables, value files, logs and the manifest.
    pub bytes: u64,
    /// Number of entries in tables, with old versions and tombstones.
    pub entries: u64,
    /// Number of range tombstones in tables.
    pub range_deletes: u64,
}

/// What a repair has read and kept. Later versions may add fields at the end.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct esker_repair_report_t {
    /// 1 if the manifest was readable, or 0. Only the manifest says which tables are valid and in
    /// which order.
    pub manifest_readable: u8,
    /// Number of sentences in `*lost`.
    pub losses: u32,
    /// Number of tables read.
    pub tables: u64,
    /// Number of logs read.
    pub logs: u64,
    /// Number of pairs in the repaired store.
    pub pairs: u64,
    /// Maximum number of entries in memory at once.
    pub entries_held_max: u64,
}

/// Does the same as `esker_verify`. Calls `progress`, which may be NULL, with `state` on this thread; it
/// may use the store, but not close it. Sets `*report` to the numbers of what was read, also with
/// `ESKER_CORRUPTION`; they must be freed with `esker_free`. `report` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_verify_with(
    db: Option<&esker_db_t>,
    state: *mut c_void,
    progress: esker_progress_t,
    report: Option<&mut *mut esker_verify_report_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let mut place = report;
        if let Some(place) = place.as_deref_mut() {
            *place = std::ptr::null_mut();
        }
        let handle = &there(db, "store's handle")?.handle;
        let found = handle.open()?.verify(&mut |bytes, of| {
            if let Some(progress) = progress {
                // SAFETY: the function and `state` belong together by the caller's contract.
                handle.held(|| unsafe { progress(state, bytes, of) });
            }
        })?;
        if let Some(place) = place {
            *place = ffi::give(esker_verify_report_t {
                format_version: found.format_version,
                problems: found.problems.len() as u32,
                files: found.files,
                value_files: found.value_files,
                logs: found.logs,
                bytes: found.bytes,
                entries: found.entries,
                range_deletes: found.range_deletes,
            });
        }
        if found.is_whole() {
            return Ok(());
        }
        let lines: Vec<String> = found.problems.iter().map(ToString::to_string).collect();
        Err(Failure { code: ESKER_CORRUPTION, message: lines.join("\n") })
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Does the same as `esker_repair`. Sets `*report` to the numbers of the repair, and `*originals` to the
/// directory that now holds the original files. These and `*lost` must be freed with `esker_free`; they
/// are NULL after a failure. Each of the three places may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_repair_with(
    path: *const c_char,
    options: Option<&esker_options_t>,
    report: Option<&mut *mut esker_repair_report_t>,
    lost: Option<&mut *mut c_char>,
    originals: Option<&mut *mut c_char>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let (mut report, mut lost, mut originals) = (report, lost, originals);
        if let Some(report) = report.as_deref_mut() {
            *report = std::ptr::null_mut();
        }
        for text in [lost.as_deref_mut(), originals.as_deref_mut()].into_iter().flatten() {
            *text = std::ptr::null_mut();
        }
        // SAFETY: the caller meets the header's contract for strings.
        let path = unsafe { ffi::path(path) }?;
        let chosen = options.map(|own| own.options.clone()).unwrap_or_default();
        let found = Db::repair_on(fs_of(options), path, chosen)?;
        if let Some(report) = report {
            *report = ffi::give(esker_repair_report_t {
                manifest_readable: found.manifest_readable.into(),
                losses: found.lost.len() as u32,
                tables: found.tables,
                logs: found.logs,
                pairs: found.pairs,
                entries_held_max: found.entries_held_max,
            });
        }
        if let Some(lost) = lost.filter(|_| !found.lost.is_empty()) {
            *lost = ffi::give_text(&found.lost.join("\n"));
        }
        if let Some(originals) = originals {
            *originals = ffi::give_text(&found.originals.to_string_lossy());
        }
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}
