//! Entry of the benchmark: resolves names to engines, which the lab runs.

use std::io::Write;

use esker_lab::BenchConfig;
use esker_lab::bench::BenchOutcome;
use esker_lab::error::{LabError, LabErrorKind, Result};
use esker_lab::reference::Reference;
use esker_lab::run::interleave::Candidate;
use esker_lab::target::Engine;

use crate::berkeley::BerkeleyDb;
use crate::leveldb::LevelDb;
use crate::library::trim_memory;
use crate::lmdb::Lmdb;
use crate::rocksdb::{RocksDb, StoreKind};
use crate::sqlite::Sqlite;
use crate::wiredtiger::WiredTiger;

/// Accepted names of engines.
pub const ENGINES: &[&str] = &[
    "esker",
    "esker-pessimistic",
    "leveldb",
    "rocksdb",
    "rocksdb-optimistic",
    "rocksdb-pessimistic",
    "lmdb",
    "sqlite",
    "wiredtiger",
    "wiredtiger-lsm",
    "berkeleydb",
    "fjall",
    "fjall-optimistic",
    "redb",
    "sled",
    "reference",
];

/// Splits an engine in a list: `name`, `name=path` or `name:path`.
pub fn split_spec(spec: &str) -> (&str, Option<&str>) {
    match spec.split_once(['=', ':']) {
        Some((name, path)) => (name.trim(), Some(path.trim())),
        None => (spec.trim(), None),
    }
}

/// Returns the accepted names of engines, and `name`, which may be that of a library at a path.
pub(crate) fn engines_and(name: &str) -> Vec<&str> {
    let mut engines = ENGINES.to_vec();
    engines.push(name);
    engines
}

/// Returns the engine named `name` as [`engine_named`] does, for a command that calls it in this
/// process.
///
/// # Errors
/// Also an engine that runs in another process; `why` ends the sentence about it.
pub(crate) fn in_process(name: &str, path: Option<&str>, why: &str) -> Result<Box<dyn Engine>> {
    let engine = engine_named(name, path)?;
    match engine.subprocess_spec() {
        Some(_) => Err(LabError::usage(format!("{name} runs in a separate process, {why}"))),
        None => Ok(engine),
    }
}

/// fjall's option for the length from which values are kept apart from their keys, in bytes.
pub(crate) const FJALL_SEPARATION: &str = "separation_min_bytes";

/// Returns the default settings, which accept Esker's options by name or alias if Esker is built
/// in.
pub fn config() -> BenchConfig {
    let mut config = BenchConfig::default();
    config.accept_engine_options(crate::leveldb::NAME, crate::leveldb::OWN_OPTIONS.iter().copied());
    config.accept_engine_options(crate::rocksdb_options::NAME, crate::rocksdb_options::names());
    config.accept_engine_options("fjall", [FJALL_SEPARATION]);
    #[cfg(feature = "engine")]
    config.accept_engine_options(crate::esker::NAME, crate::esker::option_names());
    config
}

/// Returns the engine named `name`, one of [`ENGINES`]. With a `path`, the library there is used
/// through the C interface implied by the name (LevelDB's for any other name).
pub fn engine_named(name: &str, path: Option<&str>) -> Result<Box<dyn Engine>> {
    Ok(match (name, path) {
        ("esker", None) => esker(false)?,
        ("esker-pessimistic", None) => esker(true)?,
        ("reference", None) => Box::new(Reference),
        ("berkeleydb", path) => Box::new(BerkeleyDb::load(name, path)?),
        ("fjall", None) => fjall(false)?,
        ("fjall-optimistic", None) => fjall(true)?,
        ("redb", None) => redb()?,
        ("sled", None) => sled()?,
        ("wiredtiger", path) => Box::new(WiredTiger::load(name, path, false)?),
        ("wiredtiger-lsm", path) => Box::new(WiredTiger::load(name, path, true)?),
        ("sqlite", path) => Box::new(Sqlite::load(name, path)?),
        ("lmdb", path) => Box::new(Lmdb::load(name, path)?),
        ("rocksdb", path) => Box::new(RocksDb::load(name, path, StoreKind::Plain)?),
        ("rocksdb-optimistic", path) => Box::new(RocksDb::load(name, path, StoreKind::Optimistic)?),
        ("rocksdb-pessimistic", path) => {
            Box::new(RocksDb::load(name, path, StoreKind::Pessimistic)?)
        }
        ("leveldb", path) | (_, path @ Some(_)) => Box::new(LevelDb::load(name, path)?),
        (_, None) => {
            return Err(LabError::usage(format!(
                "unknown engine {name:?}; there are {}, or {name}=PATH of a library with \
                 LevelDB's C interface",
                ENGINES.join(", ")
            )));
        }
    })
}

/// Returns the engine named `name` for a benchmark. An engine that is not installed may be excluded
/// from the benchmark, so this is the inner result. An unknown engine, and an unusable library at a
/// path, are errors of the caller.
pub fn asked_for(name: &str, path: Option<&str>) -> Result<Result<Box<dyn Engine>>> {
    match engine_named(name, path) {
        Err(error) if error.kind() == LabErrorKind::Usage => Err(error),
        Err(error) if path.is_some() => Err(LabError::usage(format!("engine {name}: {error}"))),
        engine => Ok(engine),
    }
}

#[cfg(feature = "rust-engines")]
fn fjall(optimistic: bool) -> Result<Box<dyn Engine>> {
    Ok(Box::new(crate::fjall::Fjall { optimistic }))
}

#[cfg(feature = "rust-engines")]
fn redb() -> Result<Box<dyn Engine>> {
    Ok(Box::new(crate::redb::Redb))
}

#[cfg(feature = "rust-engines")]
fn sled() -> Result<Box<dyn Engine>> {
    Ok(Box::new(crate::sled::Sled))
}

#[cfg(not(feature = "rust-engines"))]
fn sled() -> Result<Box<dyn Engine>> {
    Err(LabError::new(LabErrorKind::NotInstalled, NOT_BUILT_IN))
}

#[cfg(not(feature = "rust-engines"))]
fn fjall(_: bool) -> Result<Box<dyn Engine>> {
    Err(LabError::new(LabErrorKind::NotInstalled, NOT_BUILT_IN))
}

#[cfg(not(feature = "rust-engines"))]
fn redb() -> Result<Box<dyn Engine>> {
    Err(LabError::new(LabErrorKind::NotInstalled, NOT_BUILT_IN))
}

#[cfg(not(feature = "rust-engines"))]
const NOT_BUILT_IN: &str = "not built in: build with the feature `rust-engines`";

#[cfg(feature = "engine")]
fn esker(pessimistic: bool) -> Result<Box<dyn Engine>> {
    Ok(Box::new(crate::esker::Esker { pessimistic }))
}

#[cfg(not(feature = "engine"))]
fn esker(_: bool) -> Result<Box<dyn Engine>> {
    Err(LabError::new(LabErrorKind::NotInstalled, "not built in: build with the feature `engine`"))
}

/// Runs the benchmark: rows, tables or JSON lines to `out`, messages to `messages`. Unknown tasks,
/// unusable data and an empty list of engines fail before anything runs.
pub fn run(
    config: &BenchConfig,
    out: &mut dyn Write,
    messages: &mut dyn Write,
) -> Result<BenchOutcome> {
    let candidates = candidates(&config.engines)?;
    let mut config = config.clone();
    for entry in config.engines.split(',').map(str::trim) {
        config.engine_specs.insert(split_spec(entry).0.into(), entry.into());
    }
    esker_lab::bench::run_terms(&config, &candidates, &trim_memory, out, messages)
}

/// Returns the engines of a list. An engine that is not installed is among them with the reason.
pub(crate) fn candidates(list: &str) -> Result<Vec<Candidate>> {
    let mut candidates: Vec<Candidate> = Vec::new();
    for entry in list.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let (name, path) = split_spec(entry);
        if candidates.iter().any(|other| other.name == name) {
            return Err(LabError::usage(format!("engine {name:?} is named twice")));
        }
        candidates.push(Candidate { name: name.into(), engine: asked_for(name, path)? });
    }
    if candidates.is_empty() {
        return Err(LabError::usage("no engine is named"));
    }
    Ok(candidates)
}
