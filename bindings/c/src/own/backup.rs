//! `esker_backup` and the other functions on a directory of backups.
//!
//! Invariants: the engine defines the rules of a backup directory; a failed call makes no backup and
//! no store.

use std::ffi::{CStr, CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::time::UNIX_EPOCH;

use esker::Db;
use esker::backup::{BackupInfo, BackupOptions};

use super::common::c_text;
use super::options::esker_options_t;
use super::store::{esker_db_t, fs_of, on};
use crate::failure::{Failure, Outcome, attempt, there};
use crate::ffi;

/// A backup, from `esker_backups`. The texts are valid during the call. Later versions may add fields
/// at the end.
#[repr(C)]
pub struct esker_backup_info_t {
    /// Number of the backup in its directory.
    pub number: u64,
    /// Directory of the backup, which is a store.
    pub path: *const c_char,
    /// Number of its tables, also of those that other backups share.
    pub tables: u64,
    /// Size of these tables, in bytes.
    pub table_bytes: u64,
    /// Time of its creation, in milliseconds since 1970, by the clock of the machine that made it;
    /// -1 if it is unknown because of the `problem`.
    pub created_ms: i64,
    /// 1 if the store of the backup is known, 0 if not, because of the `problem`.
    pub has_store: u8,
    /// Identity of the store that was backed up (`esker_store_id`); 0 if it is unknown.
    pub store_id: u64,
    /// Directory of the store that was backed up, at that time; NULL if it is unknown.
    pub store_path: *const c_char,
    /// Why the identity of the store and the time could not be read; NULL if they could. The content
    /// of the backup may be intact: a restore checks it.
    pub problem: *const c_char,
}

/// Receives a backup: state, backup.
pub type esker_visit_backup_t =
    Option<unsafe extern "C" fn(*mut c_void, *const esker_backup_info_t)>;

/// Adds a backup of all writes so far to the backup directory `path`, which is created if it is
/// missing. Copies only tables that the previous backup does not have, and reads all tables back. A
/// backup directory belongs to one store; a `take_over` other than 0 assigns it to this store. Sets
/// `*number` to the number of the backup, and `*copied_bytes` to the size of the copied tables, in
/// bytes; both may be NULL. Fails with `ESKER_INCOMPATIBLE` if the directory belongs to another
/// store, with `ESKER_INVALID_ARGUMENT` if it has other content or is inside a store, and with
/// `ESKER_LOCKED` during another backup into it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_backup(
    db: Option<&esker_db_t>,
    path: *const c_char,
    take_over: u8,
    number: Option<&mut u64>,
    copied_bytes: Option<&mut u64>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe {
        on(db, message, |db| {
            let options = BackupOptions::default().take_over(take_over != 0);
            let report = db.backup_with(ffi::path(path)?, &options)?;
            if let Some(number) = number {
                *number = report.number;
            }
            if let Some(copied_bytes) = copied_bytes {
                *copied_bytes = report.copied_bytes;
            }
            Ok(())
        })
    }
}

/// Calls `visit` for each backup in the backup directory `path`, oldest first. Of the `options`,
/// which may be NULL, only the file system and the key are used. Fails with `ESKER_NOT_FOUND` if
/// there is no such directory, and with `ESKER_INVALID_ARGUMENT` if it has other content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_backups(
    path: *const c_char,
    options: Option<&esker_options_t>,
    state: *mut c_void,
    visit: esker_visit_backup_t,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let visit = there(visit, "function that receives the backups")?;
        // SAFETY: the caller meets the header's contract for strings.
        let path = unsafe { ffi::path(path) }?;
        for backup in Db::backups_on(fs_of(options), path)? {
            let problem = backup.problem.as_ref().map(|problem| c_text(&problem.to_string()));
            let path = text(backup.path.as_os_str().as_bytes())?;
            let store_path = backup.store_path.as_ref();
            let store_path =
                store_path.map(|path| text(path.as_os_str().as_bytes())).transpose()?;
            let info = esker_backup_info_t {
                number: backup.number,
                path: path.as_ptr(),
                tables: backup.tables,
                table_bytes: backup.table_bytes,
                created_ms: created_ms(&backup),
                has_store: backup.store_id.is_some().into(),
                store_id: backup.store_id.unwrap_or(0),
                store_path: pointer(store_path.as_deref()),
                problem: pointer(problem.as_deref()),
            };
            // SAFETY: the function and `state` belong together by the caller's contract; the texts
            // outlive the call.
            unsafe { visit(state, &raw const info) };
        }
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

fn pointer(text: Option<&CStr>) -> *const c_char {
    text.map_or(std::ptr::null(), CStr::as_ptr)
}

fn text(bytes: &[u8]) -> Outcome<CString> {
    CString::new(bytes).map_err(|_| Failure::invalid("a text of the backup has a zero byte"))
}

/// Returns the time of creation in milliseconds since 1970, or -1 if it is unknown.
fn created_ms(backup: &BackupInfo) -> i64 {
    let since = backup.created.and_then(|created| created.duration_since(UNIX_EPOCH).ok());
    since.and_then(|since| i64::try_from(since.as_millis()).ok()).unwrap_or(-1)
}

/// Removes the oldest backups in the backup directory `path` until `keep` are left. The remaining
/// backups stay complete. Sets `*removed` to the number of removed backups; it may be NULL. Of the
/// `options`, which may be NULL, only the file system and the key are used. Fails with
/// `ESKER_INVALID_ARGUMENT` if `keep` is 0 or the directory has other content, and with
/// `ESKER_NOT_FOUND` if there is no such directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_prune_backups(
    path: *const c_char,
    options: Option<&esker_options_t>,
    keep: usize,
    removed: Option<&mut u64>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe {
        let outcome = attempt(|| {
            let report = Db::prune_backups_on(fs_of(options), ffi::path(path)?, keep)?;
            if let Some(removed) = removed {
                *removed = report.removed.len() as u64;
            }
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// Creates a store in the directory `into`, which must not exist, from the backup `number` in the
/// backup directory `path`, or from the newest backup if `number` is 0. Every table is read back
/// and compared. Sets `*restored` to the number of the backup; it may be NULL. Of the `options`,
/// which may be NULL, only the file system, the key and the key orders are used. Fails with
/// `ESKER_NOT_FOUND` if there is no such backup, with `ESKER_INVALID_ARGUMENT` if `into` exists,
/// and with `ESKER_CORRUPTION` if the backup is damaged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_restore(
    path: *const c_char,
    number: u64,
    into: *const c_char,
    options: Option<&esker_options_t>,
    restored: Option<&mut u64>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe {
        let outcome = attempt(|| {
            let (path, into) = (ffi::path(path)?, ffi::path(into)?);
            let chosen = options.map(|options| options.options.clone()).unwrap_or_default();
            let number = Some(number).filter(|number| *number != 0);
            let from = Db::restore_on(fs_of(options), path, number, into, chosen)?;
            if let Some(restored) = restored {
                *restored = from;
            }
            Ok(())
        });
        ffi::code(outcome, message)
    }
}
