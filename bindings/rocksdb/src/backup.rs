//! Checkpoints, and the backup engine.
//!
//! A backup directory is Esker's: one of RocksDB's is refused by name.

use std::ffi::{c_char, c_int};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use esker::backup::BackupInfo;
use esker::{Db, ErrorKind, Options};
use esker_c::failure::{ESKER_CORRUPTION, ESKER_IO, ESKER_NOT_FOUND, Failure, Outcome, there};
use esker_c::ffi;

use crate::failure::{kept, quiet, refusal};
use crate::objects::{known_orders, rocksdb_env_t};
use crate::options::rocksdb_options_t;
use crate::settings::Settings;
use crate::store::{Store, rocksdb_t};

/// Makes checkpoints of a store.
pub struct rocksdb_checkpoint_t {
    store: Arc<Store>,
}

/// Creates an object for checkpoints.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_checkpoint_object_create(
    db: Option<&rocksdb_t>,
    errptr: Option<&mut *mut c_char>,
) -> Option<Box<rocksdb_checkpoint_t>> {
    // SAFETY: the caller meets RocksDB's contract for error texts.
    unsafe {
        kept(errptr, || {
            let store = rocksdb_t::open(db)?.clone();
            Ok(Box::new(rocksdb_checkpoint_t { store }))
        })
    }
}

/// Creates a second store with the same content in `dir`, which must not exist, by hard links.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_checkpoint_create(
    checkpoint: Option<&rocksdb_checkpoint_t>,
    dir: *const c_char,
    _log_size_for_flush: u64,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for strings and error texts.
    unsafe {
        kept(errptr, || {
            let store = &there(checkpoint, "checkpoint object")?.store;
            Ok(store.db().checkpoint(ffi::path(dir)?)?)
        });
    }
}

/// Frees an object for checkpoints.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_checkpoint_object_destroy(checkpoint: Option<Box<rocksdb_checkpoint_t>>) {
    drop(checkpoint);
}

/// A directory of backups.
pub struct rocksdb_backup_engine_t {
    dir: PathBuf,
}

/// Options of a backup engine. They begin with settings.
#[repr(C)]
pub struct rocksdb_backup_engine_options_t {
    settings: Settings,
    dir: Option<PathBuf>,
}

/// The backups of a directory.
pub struct rocksdb_backup_engine_info_t {
    backups: Vec<BackupInfo>,
}

/// Creates options for the directory `backup_dir`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_options_create(
    backup_dir: *const c_char,
) -> Box<rocksdb_backup_engine_options_t> {
    // SAFETY: the caller meets RocksDB's contract for strings.
    let dir = unsafe { ffi::path(backup_dir) }.ok().map(Path::to_path_buf);
    Box::new(rocksdb_backup_engine_options_t { settings: Settings::default(), dir })
}

/// Frees options.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_backup_engine_options_destroy(
    options: Option<Box<rocksdb_backup_engine_options_t>>,
) {
    drop(options);
}

/// Sets the directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_options_set_backup_dir(
    options: Option<&mut rocksdb_backup_engine_options_t>,
    backup_dir: *const c_char,
) {
    if let Some(options) = options {
        // SAFETY: the caller meets RocksDB's contract for strings.
        options.dir = unsafe { ffi::path(backup_dir) }.ok().map(Path::to_path_buf);
    }
}

/// Opens a directory of backups, which is created with the first backup.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_open(
    _options: Option<&rocksdb_options_t>,
    path: *const c_char,
    errptr: Option<&mut *mut c_char>,
) -> Option<Box<rocksdb_backup_engine_t>> {
    // SAFETY: the caller meets RocksDB's contract for strings and error texts.
    unsafe { kept(errptr, || opened(ffi::path(path)?)) }
}

/// Opens the directory of the options, which is created with the first backup.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_open_opts(
    options: Option<&rocksdb_backup_engine_options_t>,
    _env: Option<&rocksdb_env_t>,
    errptr: Option<&mut *mut c_char>,
) -> Option<Box<rocksdb_backup_engine_t>> {
    // SAFETY: the caller meets RocksDB's contract for error texts.
    unsafe {
        kept(errptr, || {
            let options = there(options, "options")?;
            options.settings.check()?;
            opened(&there(options.dir.clone(), "backup directory")?)
        })
    }
}

fn opened(dir: &Path) -> Outcome<Box<rocksdb_backup_engine_t>> {
    // Refuses a directory that holds anything else than Esker's backups.
    list(dir)?;
    Ok(Box::new(rocksdb_backup_engine_t { dir: dir.to_path_buf() }))
}

/// Returns the backups in a directory; none for a missing one.
fn list(dir: &Path) -> Outcome<Vec<BackupInfo>> {
    match Db::backups(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        other => Ok(other?),
    }
}

fn engine(engine: Option<&rocksdb_backup_engine_t>) -> Outcome<&Path> {
    Ok(&there(engine, "backup engine")?.dir)
}

/// Closes a backup engine.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_backup_engine_close(engine: Option<Box<rocksdb_backup_engine_t>>) {
    drop(engine);
}

fn back_up(be: Option<&rocksdb_backup_engine_t>, db: Option<&rocksdb_t>) -> Outcome<u64> {
    Ok(rocksdb_t::writable(db)?.db().backup(engine(be)?)?.number)
}

/// Adds a backup.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_create_new_backup(
    be: Option<&rocksdb_backup_engine_t>,
    db: Option<&rocksdb_t>,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for error texts.
    unsafe { kept(errptr, || back_up(be, db)) };
}

/// Adds a backup. Memtables are always flushed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_create_new_backup_flush(
    be: Option<&rocksdb_backup_engine_t>,
    db: Option<&rocksdb_t>,
    _flush_before_backup: u8,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the same contract.
    unsafe { rocksdb_backup_engine_create_new_backup(be, db, errptr) }
}

/// Adds a backup and stores its number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_create_new_backup_with_options(
    be: Option<&rocksdb_backup_engine_t>,
    db: Option<&rocksdb_t>,
    options: Option<&Settings>,
    backup_id: Option<&mut u32>,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for error texts.
    unsafe {
        kept(errptr, || {
            options.map_or(Ok(()), Settings::check)?;
            let number = back_up(be, db)?;
            if let Some(backup_id) = backup_id {
                *backup_id = u32::try_from(number).unwrap_or(u32::MAX);
            }
            Ok(())
        });
    }
}

/// Removes the oldest backups until `num_backups_to_keep` are left, which is at least 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_purge_old_backups(
    be: Option<&rocksdb_backup_engine_t>,
    num_backups_to_keep: u32,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for error texts.
    unsafe {
        kept(errptr, || {
            if num_backups_to_keep == 0 {
                let why = "Esker keeps at least one backup; remove the directory instead";
                return Err(refusal("rocksdb_backup_engine_purge_old_backups", why));
            }
            let dir = engine(be)?;
            if !list(dir)?.is_empty() {
                Db::prune_backups(dir, num_backups_to_keep as usize)?;
            }
            Ok(())
        });
    }
}

fn find(dir: &Path, number: u32) -> Outcome<BackupInfo> {
    let found = list(dir)?.into_iter().find(|backup| backup.number == u64::from(number));
    found.ok_or_else(|| Failure {
        code: ESKER_NOT_FOUND,
        message: format!("{}: there is no backup {number}", dir.display()),
    })
}

/// Reads and checks every byte of a backup.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_verify_backup(
    be: Option<&rocksdb_backup_engine_t>,
    backup_id: u32,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for error texts.
    unsafe {
        kept(errptr, || {
            let backup = find(engine(be)?, backup_id)?;
            let db = Db::open_read_only(&backup.path, Options::default())?;
            let report = db.verify(&mut |_, _| {})?;
            match report.problems.first() {
                None => Ok(()),
                Some(problem) => {
                    Err(Failure { code: ESKER_CORRUPTION, message: problem.to_string() })
                }
            }
        });
    }
}

/// Replaces the store in `db_dir` by a backup. The new store is complete before the old one is
/// removed.
fn restore(dir: &Path, number: Option<u64>, db_dir: &Path) -> Outcome<()> {
    let name = db_dir.file_name().unwrap_or_default().to_string_lossy();
    let fresh = db_dir.with_file_name(format!("{name}.restoring-{}", std::process::id()));
    restore_in_any_order(dir, number, &fresh)?;
    let replaced = replace(&fresh, db_dir);
    if replaced.is_err() {
        let _ = Db::destroy(&fresh);
    }
    replaced
}

/// Restores a backup whose keys are ordered bytewise or by a comparator of this process.
fn restore_in_any_order(dir: &Path, number: Option<u64>, into: &Path) -> Outcome<()> {
    let key_orders = known_orders();
    let options = Options { key_orders: key_orders.clone(), ..Options::default() };
    let refused = match Db::restore(dir, number, into, options.clone()) {
        Err(error) if error.kind() == ErrorKind::Incompatible => error,
        other => return Ok(other.map(|_| ())?),
    };
    for key_order in key_orders {
        let options = Options { key_order, ..options.clone() };
        match Db::restore(dir, number, into, options) {
            Err(error) if error.kind() == ErrorKind::Incompatible => {}
            other => return Ok(other.map(|_| ())?),
        }
    }
    Err(refused.into())
}

fn replace(fresh: &Path, db_dir: &Path) -> Outcome<()> {
    let failed = |what: &str, error: std::io::Error| Failure {
        code: ESKER_IO,
        message: format!("{}: cannot {what}: {error}", db_dir.display()),
    };
    if db_dir.exists() {
        match Db::destroy(db_dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            other => other?,
        }
        if db_dir.exists() {
            std::fs::remove_dir(db_dir).map_err(|error| {
                failed("remove the old directory, which has other files", error)
            })?;
        }
    }
    std::fs::rename(fresh, db_dir).map_err(|error| failed("move the restored store there", error))
}

/// Replaces the store in `db_dir` by the newest backup. `wal_dir` has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_restore_db_from_latest_backup(
    be: Option<&rocksdb_backup_engine_t>,
    db_dir: *const c_char,
    _wal_dir: *const c_char,
    options: Option<&Settings>,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for strings and error texts.
    unsafe {
        kept(errptr, || {
            options.map_or(Ok(()), Settings::check)?;
            restore(engine(be)?, None, ffi::path(db_dir)?)
        });
    }
}

/// Replaces the store in `db_dir` by a backup. `wal_dir` has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_restore_db_from_backup(
    be: Option<&rocksdb_backup_engine_t>,
    db_dir: *const c_char,
    _wal_dir: *const c_char,
    options: Option<&Settings>,
    backup_id: u32,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for strings and error texts.
    unsafe {
        kept(errptr, || {
            options.map_or(Ok(()), Settings::check)?;
            restore(engine(be)?, Some(u64::from(backup_id)), ffi::path(db_dir)?)
        });
    }
}

/// Returns the backups of the directory, oldest first.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_backup_engine_get_backup_info(
    be: Option<&rocksdb_backup_engine_t>,
) -> Option<Box<rocksdb_backup_engine_info_t>> {
    let backups = quiet(|| list(engine(be)?));
    backups.map(|backups| Box::new(rocksdb_backup_engine_info_t { backups }))
}

/// Returns the number of backups.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_backup_engine_info_count(
    info: Option<&rocksdb_backup_engine_info_t>,
) -> c_int {
    info.map_or(0, |info| c_int::try_from(info.backups.len()).unwrap_or(c_int::MAX))
}

fn backup(info: Option<&rocksdb_backup_engine_info_t>, index: c_int) -> Option<&BackupInfo> {
    info?.backups.get(usize::try_from(index).ok()?)
}

/// Returns the creation time in seconds since 1970; 0 if it is not known.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_backup_engine_info_timestamp(
    info: Option<&rocksdb_backup_engine_info_t>,
    index: c_int,
) -> i64 {
    let created = backup(info, index).and_then(|backup| backup.created);
    let since = created.and_then(|created| created.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

/// Returns the number of a backup.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_backup_engine_info_backup_id(
    info: Option<&rocksdb_backup_engine_info_t>,
    index: c_int,
) -> u32 {
    backup(info, index).map_or(0, |backup| u32::try_from(backup.number).unwrap_or(u32::MAX))
}

/// Returns the bytes of a backup's tables.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_backup_engine_info_size(
    info: Option<&rocksdb_backup_engine_info_t>,
    index: c_int,
) -> u64 {
    backup(info, index).map_or(0, |backup| backup.table_bytes)
}

/// Returns the number of a backup's tables.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_backup_engine_info_number_files(
    info: Option<&rocksdb_backup_engine_info_t>,
    index: c_int,
) -> u32 {
    backup(info, index).map_or(0, |backup| u32::try_from(backup.tables).unwrap_or(u32::MAX))
}

/// Frees a list of backups.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_backup_engine_info_destroy(
    info: Option<Box<rocksdb_backup_engine_info_t>>,
) {
    drop(info);
}
