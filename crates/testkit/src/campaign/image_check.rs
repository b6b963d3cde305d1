//! Opens the state after a crash and determines its content.

use std::path::Path;

use esker::fs::Fs;
use esker::{Db, Options, WriteOptions};
use std::sync::Arc;

use super::clock::standing_at;
use super::content::{Content, backwards, content};
use super::digests::Digests;
use super::encrypted::view;
use super::keyspaces::{self, Pair, UNLOGGED_PREFIX, is_unlogged};
use super::ledger::{Bounds, Ledger};
use super::reader::Reader;
use super::script_run::store_dir;
use super::tally::{Finding, Verdict, guarded, lost};
use crate::crash::{CrashModel, Image};

/// The content of an image.
#[derive(Debug, Clone)]
pub struct Found {
    /// The digests of the logged pairs of each keyspace.
    pub digests: Digests,
    /// All pairs.
    pub pairs: Arc<Vec<Pair>>,
    /// The digests of the checked checkpoint, if it could be opened.
    pub checkpoint: Option<Digests>,
}

/// The thoroughness of a check.
#[derive(Debug, Clone, Copy, Default)]
pub struct Checks<'a> {
    /// Also check point reads and a backward scan.
    pub every_read: bool,
    /// Also write, die and reopen.
    pub second_recovery: bool,
    /// Whether the store is encrypted.
    pub encrypted: bool,
    /// A reader of the store's change feed, whose copy is compared with the store.
    pub reader: Option<&'a Reader>,
    /// The time at which the store is opened, in milliseconds since 1970.
    pub now_ms: u64,
}

/// Opens the store in `image` and reads it completely.
pub fn check_image(
    image: &Image,
    options: &Options,
    checkpoint: Option<&Path>,
    checks: Checks<'_>,
) -> Result<Found, Finding> {
    guarded(|| open_and_check(image, options, checkpoint, checks))
        .unwrap_or_else(|panic| Err((Verdict::Panic, panic)))
}

fn open_and_check(
    image: &Image,
    options: &Options,
    checkpoint: Option<&Path>,
    checks: Checks<'_>,
) -> Result<Found, Finding> {
    let disk: Arc<dyn Fs> = image.to_mem();
    let options = &standing_at(options, checks.now_ms);
    let fs = view(checks.encrypted, disk.clone());
    let db = Db::open_on(fs.clone(), store_dir(), options.clone()).map_err(lost("open"))?;
    let found = read_all(&db)?;
    check_whole(&db)?;
    if checks.every_read {
        check_reads(&db, &found)?;
    }
    if let Some(reader) = checks.reader {
        reader.check(&db, &found.digests, options)?;
    }
    let copy = checkpoint.and_then(|dir| read_checkpoint(&fs, dir, options).transpose());
    if checks.second_recovery {
        check_second_recovery(&*disk, db, options, &found, checks.encrypted)?;
    }
    Ok(Found {
        digests: found.digests,
        pairs: Arc::new(found.pairs),
        checkpoint: copy.transpose()?,
    })
}

fn read_all(db: &Db) -> Result<Content, Finding> {
    content(db, None).map_err(|error| error.finding("read"))
}

fn check_whole(db: &Db) -> Result<(), Finding> {
    let report = db.verify(&mut |_, _| {}).map_err(lost("verify"))?;
    match report.problems.first() {
        Some(problem) => Err((Verdict::Wrong, format!("verify: {problem}"))),
        None => Ok(()),
    }
}

/// Checks a get of every pair, gets of absent keys, and a backward scan.
fn check_reads(db: &Db, found: &Content) -> Result<(), Finding> {
    for (name, key, value) in keyspaces::stored(&found.pairs) {
        let keyspace = keyspaces::find(db, name).map_err(lost("find a keyspace"))?;
        if keyspace.get(key).map_err(lost("get"))?.as_deref() != Some(value) {
            return Err((Verdict::Wrong, format!("get and scan differ at {}", key.escape_ascii())));
        }
        let absent = [key.as_slice(), b"\0absent"].concat();
        if keyspace.get(&absent).map_err(lost("get"))?.is_some() {
            return Err((Verdict::Wrong, "a get returned a key that was never written".into()));
        }
    }
    let back = backwards(db).map_err(lost("read backwards"))?;
    if !keyspaces::stored(&found.pairs).eq(&back) {
        return Err((Verdict::Wrong, "the forward scan and the backward scan differ".into()));
    }
    Ok(())
}

fn read_checkpoint(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    options: &Options,
) -> Result<Option<Digests>, Finding> {
    if !fs.exists(dir).unwrap_or(false) {
        return Ok(None);
    }
    let options = Options { create_if_missing: false, ..options.clone() };
    let Ok(db) = Db::open_on(fs.clone(), dir, options) else { return Ok(None) };
    check_whole(&db)?;
    // The checkpoint also holds flushed unlogged writes, which are not in the digest.
    Ok(Some(read_all(&db)?.digests))
}

/// Writes, dies without closing, and reopens. The content found before must still be present.
fn check_second_recovery(
    disk: &dyn Fs,
    db: Db,
    options: &Options,
    found: &Content,
    encrypted: bool,
) -> Result<(), Finding> {
    let key = [UNLOGGED_PREFIX, b"after"].concat();
    db.put_with(&key, "crash", &WriteOptions::SYNC).map_err(lost("write after the recovery"))?;
    let left = Image::of(disk, store_dir()).map_err(|e| (Verdict::Lost, e.to_string()))?;
    drop(db);
    let again = view(encrypted, left.to_mem());
    let db = Db::open_on(again, store_dir(), options.clone()).map_err(lost("second open"))?;
    let second = read_all(&db)?;
    if second.digests != found.digests {
        return Err((Verdict::Lost, "the second recovery differs from the first".into()));
    }
    if db.get(&key).map_err(lost("get"))?.as_deref() != Some(b"crash") {
        return Err((Verdict::Lost, "a synced write after the recovery is missing".into()));
    }
    check_whole(&db)
}

/// Compares the content with the states that the ledger allows.
pub fn judge(
    found: &Found,
    ledger: &Ledger,
    bounds: Bounds,
    model: CrashModel,
) -> Result<usize, Finding> {
    let killed = model == CrashModel::Everything;
    let least = if killed { bounds.acknowledged } else { bounds.durable };
    for (_, key, value) in found.pairs.iter().filter(|pair| is_unlogged(pair)) {
        if !ledger.knows_unlogged(key, value) {
            return Err((Verdict::Wrong, "an unlogged pair was never written".into()));
        }
    }
    if let Some(note) = bounds.checkpoints.0.checked_sub(1).map(|at| &ledger.checkpoints[at]) {
        let done = bounds.checkpoints.1 >= bounds.checkpoints.0;
        match &found.checkpoint {
            Some(digests) if !ledger.is_checkpoint(digests, note) => {
                return Err((Verdict::Wrong, "a checkpoint has unexpected content".into()));
            }
            None if done => {
                return Err((Verdict::Lost, "a finished checkpoint does not open".into()));
            }
            _ => {}
        }
    }
    match ledger.index_of(&found.digests, least, &bounds) {
        Some(index) if (least..=bounds.attempted).contains(&index) => Ok(index),
        _ if ledger.is_failed(&found.digests, least, &bounds) => Ok(bounds.attempted),
        Some(index) if index < least => {
            Err((Verdict::Lost, format!("found {index} batches, expected at least {least}")))
        }
        Some(index) => {
            let most = bounds.attempted;
            Err((Verdict::Wrong, format!("found {index} batches, but only {most} were tried")))
        }
        None => {
            let pairs = found.pairs.len();
            Err((
                Verdict::Wrong,
                format!("found {pairs} pairs, which no number of first batches produces"),
            ))
        }
    }
}
