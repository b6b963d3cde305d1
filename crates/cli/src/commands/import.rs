//! `esker import`: copies another engine's store into a new Esker store, with the other engine's
//! own library.
//!
//! Invariants:
//! 1. The new store is kept only if it reads back with the pair count and checksum of the source.
//! 2. Any failure removes the new store.
//! 3. Pairs are only read from the source. The other engine's library may write there to recover
//!    its log.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use esker::internals::checksum;
use esker::internals::foreign;
use esker::{Batch, Db, ErrorKind, WriteOptions};
use esker_lab::target::Direction;
use esker_peers::LevelDb;
use serde_json::json;

use super::{counted, print};
use crate::args::Global;
use crate::failure::{Failure, Outcome, print_note};
use crate::interrupt;
use crate::progress::{Count, Progress};
use crate::store::{in_use, options};

/// Size in bytes at which a batch is written.
const BATCH_BYTES: usize = 1 << 20;

/// Engine of the source store.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// LevelDB with bytewise key order
    Leveldb,
}

/// Arguments of `import`.
#[derive(Args)]
pub struct ImportArgs {
    /// Engine of the source store
    #[arg(value_enum)]
    engine: Engine,
    /// Directory of the store to read; closed, with free space, since its library recovers its log
    source: PathBuf,
    /// New store directory; must not contain a store
    db: PathBuf,
    /// Engine's shared library [default: the installed one]
    #[arg(long, value_name = "PATH")]
    library: Option<String>,
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

/// Copies the store, reads it back and compares the totals.
pub fn run(args: &ImportArgs, global: &Global) -> Outcome {
    let Engine::Leveldb = args.engine;
    check_source(&args.source)?;
    refuse_store(&args.db)?;
    let leveldb = LevelDb::load("LevelDB", args.library.as_deref())?;
    let source = leveldb.open_as_it_is(&args.source)?;
    let mut options = options(global)?;
    options.create_if_missing = true;
    options.error_if_exists = true;
    let db = Db::open(&args.db, options).map_err(in_use)?;
    interrupt::watch();
    let started = Instant::now();
    let copied = copy(&*source, &db).and_then(|read| compare(&db, read));
    let closed = db.close().map_err(Failure::from);
    let sums = match copied.and_then(|sums| closed.map(|()| sums)) {
        Ok(sums) => sums,
        Err(failure) => {
            Db::destroy(&args.db)?;
            print_note(
                global.json,
                "esker: nothing was imported; the unfinished store was removed",
            );
            return Err(failure);
        }
    };
    let seconds = started.elapsed().as_secs_f64();
    let hex = format!("{:016x}", sums.checksum);
    print(
        global.form(),
        || {
            json!({
                "pairs": sums.pairs, "bytes": sums.bytes, "checksum": hex, "seconds": seconds,
            })
        },
        || {
            format!(
                "imported {} ({} bytes), read back with the same checksum {hex}, in {seconds:.2} s",
                counted(sums.pairs, "pair"),
                sums.bytes
            )
        },
    )?;
    Ok(0)
}

/// Rejects a directory not recognized as LevelDB's, before the LevelDB library touches it.
fn check_source(dir: &Path) -> Result<(), Failure> {
    let entries = std::fs::read_dir(dir).map_err(|error| Failure::file("list", dir, &error))?;
    let names: Vec<String> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match foreign::identify(&names) {
        Some(foreign::LEVELDB) => Ok(()),
        other => {
            let what = other.unwrap_or("an unknown directory");
            Err(Failure::usage(format!(
                "{}: this is {what}, not a LevelDB directory",
                dir.display()
            )))
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

/// Copies all pairs; returns their totals.
fn copy(source: &dyn esker_lab::target::Target, db: &Db) -> Result<Sums, Failure> {
    let mut progress = Progress::new("import", None, Count::Pairs);
    let mut sums = Sums::default();
    let mut batch = Batch::new();
    let mut failed: Option<Failure> = None;
    let mut visit = |key: &[u8], value: &[u8]| {
        sums.add(key, value);
        batch.put(key, value);
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
    source.scan(Direction::Forward, &mut visit)?;
    if let Some(failure) = failed {
        return Err(failure);
    }
    db.write_with(&batch, &WriteOptions::NONE)?;
    db.flush()?;
    Ok(sums)
}

/// Reads the new store back; fails if its totals differ from the source's.
fn compare(db: &Db, read: Sums) -> Result<Sums, Failure> {
    let mut held = Sums::default();
    let mut pairs = db.iter()?;
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
