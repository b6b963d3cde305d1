//! Flushes, compactions, backups, metrics, checks and repairs.
//!
//! Invariant: reports leave as JSON texts, whose names are those of the engine.

use std::sync::Arc;

use esker::Db;
use esker::backup::BackupOptions;
use esker::schema::OPTIONS;
use napi::bindgen_prelude::{AsyncTask, Buffer};
use napi_derive::napi;

use crate::errors::invalid;
use crate::objects::{Part, with};
use crate::open::options_of;
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

/// Returns the numbers of the backups of a directory, as text.
#[napi]
pub fn backups_later(directory: String) -> AsyncTask<Work> {
    later(move || {
        let backups = Db::backups(&directory)?;
        Ok(Answer::Texts(backups.iter().map(|backup| backup.number.to_string()).collect()))
    })
}

/// Removes all backups but the newest `keep`. Returns the numbers of the removed ones, as text.
#[napi]
pub fn prune_backups_later(directory: String, keep: u32) -> AsyncTask<Work> {
    later(move || {
        let report = Db::prune_backups(&directory, keep as usize)?;
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
        Db::restore(&directory, number, &into, options_of(options)?).map(|_| Answer::Nothing)
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
    later(move || Ok(Answer::Texts(Db::repair(&path, options_of(options)?)?.lost)))
}

/// Removes a store. A missing one is not an error.
#[napi]
pub fn destroy_later(path: String) -> AsyncTask<Work> {
    later(move || {
        let fs = esker::fs::OsFs::shared();
        esker_bindings::removal::destroy(fs, path.as_ref()).map(|()| Answer::Nothing)
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

/// Returns the names of all options, and their other names.
#[napi]
pub fn option_names() -> Vec<String> {
    let names = OPTIONS
        .iter()
        .flat_map(|option| [option.name].into_iter().chain(option.aliases.iter().copied()));
    names.map(str::to_string).collect()
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
