//! Flushes, compactions, backups, metrics, checks, repairs and changes of keys.
//!
//! Invariant: reports leave as JSON texts, whose names are those of the engine.

use std::sync::Arc;

use esker::Db;
use esker::backup::BackupOptions;
use esker::fs::{Fs, OsFs};
use esker::schema::OPTIONS;
use esker_bindings::encryption;
use napi::bindgen_prelude::{AsyncTask, Buffer};
use napi_derive::napi;

use crate::errors::invalid;
use crate::objects::{Part, with};
use crate::open::chosen_of;
use crate::work::{Answer, Work, later};

fn part_of(part: u32) -> napi::Result<Arc<Part>> {
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

/// Returns about how many bytes of tables hold the keys from `start` to `end`; for a keyspace other
/// than the default one, those of the whole keyspace.
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
            Some(keyspace) => keyspace.size_bytes()?,
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

/// Makes a backup. Returns its number.
#[napi]
pub fn backup_later(
    part: u32,
    directory: String,
    take_over: bool,
) -> napi::Result<AsyncTask<Work>> {
    let part = part_of(part)?;
    Ok(later(move || {
        let options = BackupOptions::default().take_over(take_over);
        let report = part.open()?.backup_with(&directory, &options)?;
        Ok(Answer::Number(report.number as f64))
    }))
}

/// Returns the numbers of the backups of a directory, as text. Of the options only the key counts.
#[napi]
pub fn backups_later(directory: String, options: Vec<String>) -> AsyncTask<Work> {
    later(move || {
        let backups = Db::backups_on(chosen_of(options)?.fs(), &directory)?;
        Ok(Answer::Texts(backups.iter().map(|backup| backup.number.to_string()).collect()))
    })
}

/// Removes all backups but the newest `keep`. Returns the numbers of the removed ones, as text. Of the
/// options only the key counts.
#[napi]
pub fn prune_backups_later(directory: String, keep: u32, options: Vec<String>) -> AsyncTask<Work> {
    later(move || {
        let fs = chosen_of(options)?.fs();
        let report = Db::prune_backups_on(fs, &directory, keep as usize)?;
        Ok(Answer::Texts(report.removed.iter().map(u64::to_string).collect()))
    })
}

/// Makes a store of a backup: of the newest one, or of the one with the number.
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
        made.map(|_| Answer::Nothing)
    })
}

/// Reads everything and checks it. Returns the problems, one sentence each.
#[napi]
pub fn verify_later(part: u32) -> napi::Result<AsyncTask<Work>> {
    let part = part_of(part)?;
    Ok(later(move || {
        let report = part.open()?.verify(&mut |_, _| {})?;
        Ok(Answer::Texts(report.problems.iter().map(ToString::to_string).collect()))
    }))
}

/// Rebuilds a store. Returns what was lost, one sentence each.
#[napi]
pub fn repair_later(path: String, options: Vec<String>) -> AsyncTask<Work> {
    later(move || {
        let chosen = chosen_of(options)?;
        Ok(Answer::Texts(Db::repair_on(chosen.fs(), &path, chosen.options)?.lost))
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

/// Returns the metrics in OpenMetrics' text format.
#[napi]
pub fn openmetrics(part: u32) -> napi::Result<String> {
    with(|shared| Ok(shared.part(part)?.open()?.metrics().to_openmetrics()))
}

/// Returns one of the properties that LevelDB has, or nothing.
#[napi]
pub fn property(part: u32, name: String) -> napi::Result<Option<String>> {
    with(|shared| {
        let db = shared.part(part)?.open()?;
        Ok(esker_bindings::properties::property(&db, &name))
    })
}

/// Returns the value of an option, or nothing.
#[napi]
pub fn option(part: u32, name: String) -> napi::Result<Option<String>> {
    with(|shared| Ok(shared.part(part)?.open()?.option(&name)))
}

/// Changes an option of the open store.
#[napi]
pub fn set_option(part: u32, name: String, value: String) -> napi::Result<()> {
    with(|shared| shared.part(part)?.open()?.set_options(&[(&name, &value)]))
}

/// Returns the names of all options.
#[napi]
pub fn option_names() -> Vec<String> {
    OPTIONS.iter().map(|option| option.name.to_string()).collect()
}

/// Returns the other names of the options.
#[napi]
pub fn option_aliases() -> Vec<String> {
    OPTIONS.iter().flat_map(|option| option.aliases).map(ToString::to_string).collect()
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
