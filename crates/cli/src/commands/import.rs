//! `esker import`: copies another engine's store into a new Esker store, with the other engine's
//! own library.
//!
//! Invariants:
//! 1. The new store is kept only if it reads back with the pair count and checksum of the source.
//! 2. Any failure removes the new store.
//! 3. Pairs are only read from the source. LevelDB's library may write there to recover its log;
//!    RocksDB's opens it read-only.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use esker::internals::{DEFAULT_KEYSPACE, checksum, foreign};
use esker::{Batch, Db, ErrorKind, Keyspace, KeyspaceOptions, WriteOptions};
use esker_lab::target::{Direction, VisitPair};
use esker_peers::{FamilyOperator, LevelDb, RocksDbFamilies};
use serde_json::json;

use super::{counted, print};
use crate::args::Global;
use crate::failure::{Failure, Outcome, print_note};
use crate::interrupt;
use crate::keyspaces::name_of;
use crate::progress::{Count, Progress};
use crate::store::{file_system, in_use, options};

/// Size in bytes at which a batch is written.
const BATCH_BYTES: usize = 1 << 20;

/// Engine of the source store.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// LevelDB with bytewise key order
    Leveldb,
    /// RocksDB with bytewise key order; a column family becomes the keyspace of the same name
    Rocksdb,
}

/// Arguments of `import`.
#[derive(Args)]
pub struct ImportArgs {
    /// Engine of the source store
    #[arg(value_enum)]
    engine: Engine,
    /// Directory of the store to read; closed. LevelDB's library recovers its log, so it needs free
    /// space there
    source: PathBuf,
    /// New store directory; must not contain a store
    db: PathBuf,
    /// Engine's shared library [default: the installed one]
    #[arg(long, value_name = "PATH")]
    library: Option<String>,
    /// RocksDB: copy only this column family, to the keyspace of its name. LevelDB: copy the pairs to
    /// this keyspace [default: all column families; `default`]
    #[arg(long, value_name = "NAME")]
    keyspace: Option<OsString>,
    /// RocksDB: merge operator of a column family, if the store's OPTIONS file does not name one of
    /// RocksDB's own; may be repeated
    #[arg(long, value_name = "FAMILY=OPERATOR", value_parser = operator)]
    merge_operator: Vec<FamilyOperator>,
}

/// Parses `FAMILY=OPERATOR`. The operator may contain `=`.
fn operator(text: &str) -> Result<FamilyOperator, String> {
    match text.split_once('=') {
        Some((family, operator)) if !family.is_empty() && !operator.is_empty() => {
            Ok(FamilyOperator { family: family.into(), operator: operator.into() })
        }
        _ => Err("expected FAMILY=OPERATOR, such as default=uint64add".into()),
    }
}

/// Totals of a scan over all pairs: equal for the same pairs in the same order.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Sums {
    pairs: u64,
    bytes: u64,
    checksum: u64,
}

impl Sums {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        self.pairs += 1;
        self.bytes += (key.len() + value.len()) as u64;
        self.checksum = checksum(value, checksum(key, self.checksum));
    }
}

/// The totals of a keyspace, by its name.
type Imported = (String, Sums);

/// Copies the store, reads it back and compares the totals.
pub fn run(args: &ImportArgs, global: &Global) -> Outcome {
    refuse_store(&args.db)?;
    let wanted = args.keyspace.as_deref().map(name_of).transpose()?;
    let library = args.library.as_deref();
    let started = Instant::now();
    let imported = match args.engine {
        Engine::Leveldb => {
            if !args.merge_operator.is_empty() {
                return Err(Failure::usage("--merge-operator: LevelDB has no merge operators"));
            }
            check_source(&args.source, foreign::LEVELDB)?;
            let leveldb = LevelDb::load("LevelDB", library)?;
            let source = leveldb.open_as_it_is(&args.source)?;
            import(args, global, |db| {
                let scan = |visit: VisitPair<'_>| source.scan(Direction::Forward, visit);
                Ok(vec![copy(db, wanted.as_deref().unwrap_or(DEFAULT_KEYSPACE), scan)?])
            })?
        }
        Engine::Rocksdb => {
            check_source(&args.source, foreign::ROCKSDB)?;
            let source = RocksDbFamilies::open(library, &args.source, &args.merge_operator)?;
            let is_wanted = |name: &String| wanted.as_ref().is_none_or(|wanted| wanted == name);
            if !source.names().iter().any(is_wanted) {
                return Err(Failure::usage(format!(
                    "{}: the store has no column family {:?}; it has {}",
                    args.source.display(),
                    wanted.unwrap_or_default(),
                    source.names().join(", ")
                )));
            }
            import(args, global, |db| {
                let names = source.names().iter().enumerate().filter(|(_, name)| is_wanted(name));
                let copied = names.map(|(at, name)| {
                    copy(db, name, |visit: VisitPair<'_>| source.scan(at, visit))
                });
                copied.collect()
            })?
        }
    };
    report(&imported, started.elapsed().as_secs_f64(), global)
}

/// Creates the new store and fills it by `fill`. Removes it after a failure.
fn import(
    args: &ImportArgs,
    global: &Global,
    fill: impl FnOnce(&Db) -> Result<Vec<Imported>, Failure>,
) -> Result<Vec<Imported>, Failure> {
    let mut options = options(global)?;
    options.create_if_missing = true;
    options.error_if_exists = true;
    let db = Db::open_on(file_system(), &args.db, options).map_err(in_use)?;
    interrupt::watch();
    let copied = fill(&db);
    let closed = db.close().map_err(Failure::from);
    match copied.and_then(|imported| closed.map(|()| imported)) {
        Ok(imported) => Ok(imported),
        Err(failure) => {
            Db::destroy(&args.db)?;
            print_note(
                global.json,
                "esker: nothing was imported; the unfinished store was removed",
            );
            Err(failure)
        }
    }
}

/// Prints the totals: of all keyspaces together, and with `--json` also of each.
fn report(imported: &[Imported], seconds: f64, global: &Global) -> Outcome {
    let pairs: u64 = imported.iter().map(|(_, sums)| sums.pairs).sum();
    let bytes: u64 = imported.iter().map(|(_, sums)| sums.bytes).sum();
    // The checksum of a single keyspace is also the checksum of the import.
    let all = imported.iter().fold(0, |all, (_, sums)| match imported.len() {
        1 => sums.checksum,
        _ => checksum(&sums.checksum.to_le_bytes(), all),
    });
    let hex = format!("{all:016x}");
    print(
        global.form(),
        || {
            let keyspaces = imported.iter().map(|(name, sums)| {
                json!({
                    "name": name, "pairs": sums.pairs, "bytes": sums.bytes,
                    "checksum": format!("{:016x}", sums.checksum),
                })
            });
            json!({
                "pairs": pairs, "bytes": bytes, "checksum": hex, "seconds": seconds,
                "keyspaces": keyspaces.collect::<Vec<_>>(),
            })
        },
        || {
            let keyspaces = match imported.len() {
                1 => String::new(),
                count => format!(" in {}", counted(count as u64, "keyspace")),
            };
            format!(
                "imported {}{keyspaces} ({bytes} bytes), read back with the same checksum {hex}, \
                 in {seconds:.2} s",
                counted(pairs, "pair"),
            )
        },
    )?;
    Ok(0)
}

/// Rejects a directory that is not the expected one, before the engine's library touches it.
fn check_source(dir: &Path, expected: &str) -> Result<(), Failure> {
    let entries = std::fs::read_dir(dir).map_err(|error| Failure::file("list", dir, &error))?;
    let names: Vec<String> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match foreign::identify(&names) {
        Some(found) if found == expected => Ok(()),
        other => {
            let has = |start| names.iter().any(|name: &&str| name.starts_with(start));
            let is_ours = has("CURRENT") && has("manifest-");
            let unknown = if is_ours { "an Esker store" } else { "an unknown directory" };
            let what = other.unwrap_or(unknown);
            // `expected` begins with an article.
            let expected = expected.trim_start_matches("a ");
            Err(Failure::usage(format!("{}: this is {what}, not a {expected}", dir.display())))
        }
    }
}

/// Rejects a directory that already holds a store, with advice.
fn refuse_store(dir: &Path) -> Result<(), Failure> {
    if !dir.join("CURRENT").exists() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{0}: a store exists here, and import creates a new store; name another directory, or \
         remove this store first with `esker destroy {0}`",
        dir.display()
    )))
}

/// Copies all pairs that `scan` visits to a keyspace, and reads them back.
fn copy(
    db: &Db,
    name: &str,
    scan: impl FnOnce(VisitPair<'_>) -> esker_lab::error::Result<()>,
) -> Result<Imported, Failure> {
    let keyspace = db.keyspace(name, &KeyspaceOptions::default())?;
    let mut progress = Progress::new("import", None, Count::Pairs);
    let mut sums = Sums::default();
    let mut batch = Batch::new();
    let mut failed: Option<Failure> = None;
    let mut visit = |key: &[u8], value: &[u8]| {
        sums.add(key, value);
        batch.put_in(&keyspace, key, value);
        if batch.size_bytes() >= BATCH_BYTES {
            // These writes skip the WAL; the flush below makes them durable before success is
            // reported.
            failed = db.write_with(&batch, &WriteOptions::NONE).err().map(Failure::from);
            batch.clear();
            progress.set(sums.pairs);
        }
        if interrupt::asked() {
            failed = Some(Failure::interrupted("interrupted"));
        }
        failed.is_none()
    };
    scan(&mut visit)?;
    if let Some(failure) = failed {
        return Err(failure);
    }
    db.write_with(&batch, &WriteOptions::NONE)?;
    db.flush()?;
    Ok((name.to_string(), compare(&keyspace, sums)?))
}

/// Reads a keyspace back; fails if its totals differ from the source's.
fn compare(keyspace: &Keyspace, read: Sums) -> Result<Sums, Failure> {
    let mut held = Sums::default();
    let mut pairs = keyspace.iter()?;
    pairs.seek_to_first()?;
    while pairs.valid() {
        held.add(pairs.key(), pairs.value());
        pairs.move_next()?;
    }
    if held == read {
        return Ok(held);
    }
    let message = format!(
        "the new store holds {} with checksum {:016x}, but {} with checksum {:016x} were read",
        counted(held.pairs, "pair"),
        held.checksum,
        counted(read.pairs, "pair"),
        read.checksum
    );
    Err(Failure::of(ErrorKind::Corruption, message))
}
