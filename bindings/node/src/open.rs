//! Opening and closing of stores, and their keyspaces and snapshots.
//!
//! Invariant: a name of an option is one of the option table, or `merge_operator`, or of a
//! keyspace's time to live, `ttl_ms`, or of a key ([`chosen_of`]).

use std::sync::Arc;

use esker::fs::{Fs, OsFs};
use esker::{Db, KeyOrder, KeyspaceOptions, Options, built_in_merge_operator, internals};
use esker_bindings::encryption::{self, Key, KeyOptions};
use napi::bindgen_prelude::AsyncTask;
use napi_derive::napi;

use crate::errors::{caught, invalid};
use crate::objects::{Object, Part, with};
use crate::observe::{Listen, Listener};
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

/// Options from JavaScript.
pub struct Chosen {
    pub options: Options,
    /// The key of an encrypted store.
    pub key: Option<Key>,
}

impl Chosen {
    /// Returns the file system of the store: an encrypting one with a key.
    pub fn fs(&self) -> Arc<dyn Fs> {
        encryption::file_system(OsFs::shared(), self.key.as_ref())
    }

    /// Sets the runtime with this number, if there is one. In the thread of JavaScript.
    pub fn share(&mut self, runtime: Option<u32>) -> napi::Result<()> {
        let Some(number) = runtime else { return Ok(()) };
        self.options.runtime = Some(with(|shared| Ok(shared.runtime(number)?.clone()))?);
        Ok(())
    }
}

/// Returns the options of a store. Those of the key are in [`KeyOptions`].
pub fn chosen_of(pairs: Vec<String>) -> esker::Result<Chosen> {
    let (mut options, mut key) = (Options::default(), KeyOptions::default());
    each(pairs, |name, value| {
        match name {
            "merge_operator" => {
                options.merge_operator = Some(built_in_merge_operator(value).ok_or_else(|| {
                    invalid(format!("{value} is not the name of a built-in merge operator"))
                })?);
            }
            _ if key.set(name, value)? => {}
            _ => options.set(name, value)?,
        }
        Ok(())
    })?;
    options.validate()?;
    Ok(Chosen { options, key: key.key()? })
}

/// Opens a store; with `shared`, the one that other threads have open. `runtime` is the number of a
/// runtime, and `listener` gets the events. Returns the number of the default keyspace.
#[napi]
pub fn open_later(
    path: String,
    options: Vec<String>,
    read_only: bool,
    shared: bool,
    runtime: Option<u32>,
    listener: Option<Listen>,
) -> napi::Result<AsyncTask<Work>> {
    let mut chosen = caught(|| chosen_of(options))?;
    chosen.share(runtime)?;
    chosen.options.listeners.extend(listener.map(Listener::shared));
    Ok(later(move || {
        let fs = chosen.fs();
        let store = match (read_only, shared) {
            (true, true) => {
                return Err(invalid("a database is opened either shared or read-only"));
            }
            (true, false) => Store::own(Db::open_read_only_on(fs, &path, chosen.options)?),
            (false, true) => Store::share(fs, path.as_ref(), chosen.options)?,
            (false, false) => Store::own(Db::open_on(fs, &path, chosen.options)?),
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

/// Opens a keyspace, which is created if it is missing and `create` is true. One that exists must have
/// the options, if there are any. With `only_new`, one that exists is refused instead of opened, if
/// `create` is true. Returns its number, or nothing if it is missing.
#[napi]
pub fn keyspace_later(
    part: u32,
    name: String,
    options: Vec<String>,
    create: bool,
    only_new: bool,
) -> napi::Result<AsyncTask<Work>> {
    let part = with(|shared| Ok(shared.part(part)?.clone()))?;
    Ok(later(move || {
        let is_plain = options.is_empty();
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
        let existing = if is_plain && !only_new { db.existing_keyspace(&name)? } else { None };
        let found = match (existing, create) {
            (Some(keyspace), _) => Some(keyspace),
            (None, false) if is_plain => None,
            (None, false) => internals::existing_keyspace_with(&db, &name, &chosen)?,
            (None, true) if only_new => Some(internals::new_keyspace(&db, &name, &chosen)?),
            (None, true) => Some(db.keyspace(&name, &chosen)?),
        };
        // Ranges of JavaScript, and the end of a `clear`, are of the order of the bytes.
        if let Some(keyspace) = &found
            && keyspace.key_order().name() != KeyOrder::default().name()
        {
            let order = keyspace.key_order().name();
            let text =
                format!("keyspace {name:?} has the key order {order}, which Node.js cannot use");
            return Err(invalid(text));
        }
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
        let snapshot = internals::snapshot(&*shared.part(part)?.open()?)?;
        Ok(shared.add(Object::Snapshot(Arc::new(snapshot))))
    })
}
