//! Opening and closing of stores, and their keyspaces and snapshots.
//!
//! Invariant: a name of an option is one of the option table, or `merge_operator`, or of a
//! keyspace's time to live, `ttl_ms`.

use std::sync::Arc;

use esker::{Db, KeyspaceOptions, Options, built_in_merge_operator};
use napi::bindgen_prelude::AsyncTask;
use napi_derive::napi;

use crate::errors::invalid;
use crate::objects::{Object, Part, with};
use crate::shared::Store;
use crate::work::{Answer, Work, later};
use crate::write;

/// Calls `set` with each name and value of a list of names and values.
fn each(
    pairs: Vec<String>,
    mut set: impl FnMut(&str, &str) -> esker::Result<()>,
) -> esker::Result<()> {
    pairs.chunks(2).try_for_each(|pair| match pair {
        [name, value] => set(name, value),
        _ => Err(invalid("an option has no value")),
    })
}

/// Returns the options of a store.
pub fn options_of(pairs: Vec<String>) -> esker::Result<Options> {
    let mut options = Options::default();
    each(pairs, |name, value| match name {
        "merge_operator" => {
            options.merge_operator = Some(built_in_merge_operator(value).ok_or_else(|| {
                invalid(format!("{value} is not the name of a built-in merge operator"))
            })?);
            Ok(())
        }
        _ => options.set(name, value),
    })?;
    options.validate()?;
    Ok(options)
}

/// Opens a store; with `shared`, the one that other threads have open. Returns the number of its
/// default keyspace.
#[napi]
pub fn open_later(
    path: String,
    options: Vec<String>,
    read_only: bool,
    shared: bool,
) -> napi::Result<AsyncTask<Work>> {
    Ok(later(move || {
        let options = options_of(options)?;
        let store = match (read_only, shared) {
            (true, true) => {
                return Err(invalid("a database is opened either shared or read-only"));
            }
            (true, false) => Store::own(Db::open_read_only(&path, options)?),
            (false, true) => Store::share(path.as_ref(), options)?,
            (false, false) => Store::own(Db::open(&path, options)?),
        };
        let part = Part { store: Arc::new(store), keyspace: None };
        Ok(Answer::Object(Object::Part(Arc::new(part))))
    }))
}

/// Closes a store and waits for the calls that run on it.
#[napi]
pub fn close_later(part: u32) -> napi::Result<AsyncTask<Work>> {
    let part = with(|shared| Ok(shared.part(part)?.clone()))?;
    Ok(later(move || part.store.close().map(|()| Answer::Nothing)))
}

/// Opens a keyspace, which is created if it is missing and `create` is true. Returns its number, or
/// nothing if it is missing.
#[napi]
pub fn keyspace_later(
    part: u32,
    name: String,
    options: Vec<String>,
    create: bool,
) -> napi::Result<AsyncTask<Work>> {
    let part = with(|shared| Ok(shared.part(part)?.clone()))?;
    Ok(later(move || {
        let mut chosen = KeyspaceOptions::default();
        each(options, |option, value| {
            let now = std::mem::take(&mut chosen);
            chosen = match option {
                "merge_operator" => now.merge_operator(value),
                "ttl_ms" => now.ttl(write::time(value.parse().unwrap_or(f64::NAN))?),
                _ => now.set(option, value)?,
            };
            Ok(())
        })?;
        let db = part.open()?;
        let found = match create {
            true => Some(db.keyspace(&name, &chosen)?),
            false => db.existing_keyspace(&name)?,
        };
        Ok(found.map_or(Answer::Nothing, |keyspace| {
            let part = Part { store: part.store.clone(), keyspace: Some(keyspace) };
            Answer::Object(Object::Part(Arc::new(part)))
        }))
    }))
}

/// Returns the names of all keyspaces.
#[napi]
pub fn keyspaces(part: u32) -> napi::Result<Vec<String>> {
    with(|shared| Ok(shared.part(part)?.open()?.keyspaces()))
}

/// Drops a keyspace.
#[napi]
pub fn drop_keyspace_later(part: u32, name: String) -> napi::Result<AsyncTask<Work>> {
    let part = with(|shared| Ok(shared.part(part)?.clone()))?;
    Ok(later(move || part.open()?.drop_keyspace(&name).map(|()| Answer::Nothing)))
}

/// Renames a keyspace.
#[napi]
pub fn rename_keyspace_later(
    part: u32,
    name: String,
    new_name: String,
) -> napi::Result<AsyncTask<Work>> {
    let part = with(|shared| Ok(shared.part(part)?.clone()))?;
    Ok(later(move || part.open()?.rename_keyspace(&name, &new_name).map(|()| Answer::Nothing)))
}

/// Takes a snapshot. Returns its number.
#[napi]
pub fn snapshot(part: u32) -> napi::Result<u32> {
    with(|shared| {
        let snapshot = shared.part(part)?.open()?.snapshot();
        Ok(shared.add(Object::Snapshot(Arc::new(snapshot))))
    })
}
