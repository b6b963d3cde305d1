//! Flushes, compactions, backups, checks, repairs and changes of keys.
//!
//! Invariant: a report leaves as the texts of its fields, in a fixed order.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use esker::Db;
use esker::backup::{BackupInfo, BackupOptions};
use esker::fs::{Fs, OsFs};
use esker_bindings::encryption;
use napi::Status;
use napi::bindgen_prelude::{AsyncTask, Buffer};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi_derive::napi;

use crate::errors::invalid;
use crate::objects::{Part, with};
use crate::open::chosen_of;
use crate::work::{Answer, Work, later};

/// Returns a store or keyspace for work in another thread.
pub fn part_of(part: u32) -> napi::Result<Arc<Part>> {
    with(|shared| Ok(shared.part(part)?.clone()))
}

/// Does what `what` names, and waits for it: `flush`, `sync`, `wait_idle`, `compact_all`.
#[napi]
pub fn maintain_later(part: u32, what: String) -> napi::Result<AsyncTask<Work>> {
    let part = part_of(part)?;
    Ok(later(move || {
        let db = part.open()?;
        match &*what {
            "flush" => db.flush()?,
            "sync" => db.sync()?,
            "wait_idle" => db.wait_idle()?,
            "compact_all" => db.compact_all()?,
            _ => return Err(invalid(format!("there is no work {what}"))),
        }
        Ok(Answer::Nothing)
    }))
}

/// Runs one flush or compaction that is due, in a store without threads. Returns whether there was one.
#[napi]
pub fn run_one_job_later(part: u32) -> napi::Result<AsyncTask<Work>> {
    let part = part_of(part)?;
    Ok(later(move || Ok(Answer::Truth(part.open()?.run_one_job()?))))
}

/// Compacts the keys from `start` to `end`.
#[napi(strict)]
pub fn compact_range_later(part: u32, start: Buffer, end: Buffer) -> napi::Result<AsyncTask<Work>> {
    let (part, start, end) = (part_of(part)?, start.to_vec(), end.to_vec());
    Ok(later(move || {
        let db = part.open()?;
        match &part.keyspace {
            None => db.compact_range(Some(&start), Some(&end))?,
            Some(keyspace) => keyspace.compact_range(Some(&start), Some(&end))?,
        }
        Ok(Answer::Nothing)
    }))
}

/// Returns about how many bytes of tables hold the keys from `start` to `end`.
#[napi(strict)]
pub fn approximate_size_later(
    part: u32,
    start: Buffer,
    end: Buffer,
) -> napi::Result<AsyncTask<Work>> {
    let (part, start, end) = (part_of(part)?, start.to_vec(), end.to_vec());
    Ok(later(move || {
        let db = part.open()?;
        Ok(Answer::Number(match &part.keyspace {
            None => db.approximate_size(&start, &end)?,
            Some(keyspace) => keyspace.approximate_size(&start, &end)?,
        } as f64))
    }))
}

/// Makes a copy of the store in a new directory.
#[napi]
pub fn checkpoint_later(part: u32, directory: String) -> napi::Result<AsyncTask<Work>> {
    let part = part_of(part)?;
    Ok(later(move || part.open()?.checkpoint(&directory).map(|()| Answer::Nothing)))
}

/// Raises the format version.
#[napi]
pub fn upgrade_format_later(part: u32, to: u32) -> napi::Result<AsyncTask<Work>> {
    let part = part_of(part)?;
    Ok(later(move || part.open()?.upgrade_format(to).map(|()| Answer::Nothing)))
}

/// Makes a backup. Returns its number and path, and the numbers of the report.
#[napi]
pub fn backup_later(
    part: u32,
    directory: String,
    take_over: bool,
) -> napi::Result<AsyncTask<Work>> {
    let part = part_of(part)?;
    Ok(later(move || {
        let options = BackupOptions::default().take_over(take_over);
        let made = part.open()?.backup_with(&directory, &options)?;
        let mut texts = vec![made.number.to_string(), made.path.display().to_string()];
        let numbers = [made.copied_files, made.copied_bytes, made.linked_files, made.linked_bytes];
        texts.extend(numbers.iter().map(u64::to_string));
        Ok(Answer::Texts(texts))
    }))
}

/// Returns eight texts for a backup: number, path, tables, bytes of tables, and the time of its creation
/// in milliseconds since 1970, the identity and the path of its store, and the problem, or nothing.
fn backup_texts(backup: BackupInfo) -> [String; 8] {
    let text = |given: Option<u64>| given.map_or(String::new(), |number| number.to_string());
    [
        backup.number.to_string(),
        backup.path.display().to_string(),
        backup.tables.to_string(),
        backup.table_bytes.to_string(),
        text(backup.created.map(unix_ms)),
        text(backup.store_id),
        backup.store_path.map_or(String::new(), |path| path.display().to_string()),
        backup.problem.map_or(String::new(), |problem| problem.to_string()),
    ]
}

/// Returns a time in milliseconds since 1970.
pub fn unix_ms(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Returns eight texts for each backup of a directory. Of the options only the key counts.
#[napi]
pub fn backups_later(directory: String, options: Vec<String>) -> AsyncTask<Work> {
    later(move || {
        let backups = Db::backups_on(chosen_of(options)?.fs(), &directory)?;
        Ok(Answer::Texts(backups.into_iter().flat_map(backup_texts).collect()))
    })
}

/// Removes all backups but the newest `keep`. Returns the number of the removed ones, their numbers and
/// those of the others. Of the options only the key counts.
#[napi]
pub fn prune_backups_later(directory: String, keep: u32, options: Vec<String>) -> AsyncTask<Work> {
    later(move || {
        let fs = chosen_of(options)?.fs();
        let report = Db::prune_backups_on(fs, &directory, keep as usize)?;
        let numbers = report.removed.iter().chain(&report.kept).map(u64::to_string);
        let count = report.removed.len().to_string();
        Ok(Answer::Texts(std::iter::once(count).chain(numbers).collect()))
    })
}

/// Makes a store of a backup: of the newest one, or of the one with the number. Returns the number.
#[napi]
pub fn restore_later(
    directory: String,
    number: Option<f64>,
    into: String,
    options: Vec<String>,
) -> AsyncTask<Work> {
    later(move || {
        let number = number.map(|number| number as u64);
        let chosen = chosen_of(options)?;
        let made = Db::restore_on(chosen.fs(), &directory, number, &into, chosen.options);
        made.map(|number| Answer::Number(number as f64))
    })
}

/// Progress that may wait for the thread of JavaScript. More of it is dropped.
const WAITING_PROGRESS_MAX: usize = 1000;

/// A function of JavaScript that hears the bytes that were read, and those of all files.
pub type Progress =
    ThreadsafeFunction<Vec<f64>, (), Vec<f64>, Status, false, true, WAITING_PROGRESS_MAX>;

/// Reads everything and checks it. Returns the seven numbers of the report, and the problems, one
/// sentence each.
#[napi]
pub fn verify_later(part: u32, progress: Option<Progress>) -> napi::Result<AsyncTask<Work>> {
    let part = part_of(part)?;
    Ok(later(move || {
        let found = part.open()?.verify(&mut |bytes, of| {
            if let Some(progress) = &progress {
                let told = vec![bytes as f64, of as f64];
                progress.call(told, ThreadsafeFunctionCallMode::NonBlocking);
            }
        })?;
        let numbers = [
            found.format_version.into(),
            found.files,
            found.value_files,
            found.logs,
            found.bytes,
            found.entries,
            found.range_deletes,
        ];
        let numbers = numbers.iter().map(u64::to_string);
        let problems = found.problems.iter().map(ToString::to_string);
        Ok(Answer::Texts(numbers.chain(problems).collect()))
    }))
}

/// Rebuilds a store. Returns whether its manifest was readable, four numbers, the directory of the
/// original files, and what was lost, one sentence each.
#[napi]
pub fn repair_later(path: String, options: Vec<String>) -> AsyncTask<Work> {
    later(move || {
        let chosen = chosen_of(options)?;
        let found = Db::repair_on(chosen.fs(), &path, chosen.options)?;
        let numbers = [found.tables, found.logs, found.pairs, found.entries_held_max];
        let mut texts = vec![found.manifest_readable.to_string()];
        texts.extend(numbers.iter().map(u64::to_string));
        texts.push(found.originals.display().to_string());
        texts.extend(found.lost);
        Ok(Answer::Texts(texts))
    })
}

/// Returns the name of the key that opens a store or the newest backup of a directory, or nothing if it
/// is not encrypted or does not exist.
#[napi]
pub fn wanted_key_later(path: String) -> AsyncTask<Work> {
    later(move || {
        let wanted = encryption::wanted(&(OsFs::shared() as Arc<dyn Fs>), path.as_ref())?;
        Ok(wanted.map_or(Answer::Nothing, |name| Answer::Texts(vec![name])))
    })
}

/// Changes the key of a store that is not open, from that of the options to that of the others. Returns
/// the names of the keys before and now, and the numbers of data keys that are needed and that were
/// removed.
#[napi]
pub fn rekey_later(path: String, options: Vec<String>, next: Vec<String>) -> AsyncTask<Work> {
    later(move || {
        let (from, to) = (chosen_of(options)?.key, chosen_of(next)?.key);
        let made = encryption::rekey(OsFs::shared(), path.as_ref(), from.as_ref(), to.as_ref())?;
        let numbers = [made.data_keys, made.removed_data_keys].map(|number| number.to_string());
        Ok(Answer::Texts([made.from, made.to].into_iter().chain(numbers).collect()))
    })
}

/// Removes a store. A missing one is not an error.
#[napi]
pub fn destroy_later(path: String) -> AsyncTask<Work> {
    later(move || {
        esker_bindings::removal::destroy(OsFs::shared(), path.as_ref()).map(|()| Answer::Nothing)
    })
}

/// Ends a prepared transaction, by a commit or a rollback.
#[napi]
pub fn end_prepared_later(part: u32, name: String, commit: bool) -> napi::Result<AsyncTask<Work>> {
    let part = part_of(part)?;
    Ok(later(move || {
        let db = part.open()?;
        match commit {
            true => db.commit_prepared(&name)?,
            false => db.rollback_prepared(&name)?,
        }
        Ok(Answer::Nothing)
    }))
}

/// Returns the names of the prepared transactions.
#[napi]
pub fn prepared(part: u32) -> napi::Result<Vec<String>> {
    with(|shared| Ok(shared.part(part)?.open()?.prepared_transactions()))
}
