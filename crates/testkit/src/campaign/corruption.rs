//! Damage to a store's files: every bit of a small store, and random mutations of a larger one,
//! some hidden behind a recomputed checksum.
//!
//! Invariants: the answer to damage is correct data or an error. Behind a forged checksum the
//! damage cannot be detected. There a store must only not panic, hang or take more memory than the
//! file justifies (the program that runs this campaign limits its memory).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker::internals::RecordHeader;
use esker::{Db, Options, Policy};
use parking_lot::Mutex;

use super::checksum_range::{ChecksumRange, checksum_ranges};
use super::clock::standing_at;
use super::content::{ReadError, content};
use super::encrypted::view;
use super::keyspaces::{self, are_same};
use super::ledger::Ledger;
use super::script::{Script, Step, Theme, script};
use super::script_run::{Outcome, ScriptRun, store_dir};
use super::tally::{Tally, Verdict, guarded, in_parallel};
use crate::crash::{CrashFs, CrashModel, Image};
use crate::rng::SplitMix64;
use esker::fs::Fs;

/// A store's files, and their content.
pub struct Store {
    /// The name of its script, for messages.
    pub name: String,
    /// The files.
    pub image: Image,
    /// The record of the store's writes.
    pub ledger: Ledger,
    /// The options for opening it.
    pub options: Options,
    /// Number of batches that must be present after any damage that the files prove.
    least: usize,
    closed: bool,
    encrypted: bool,
    ranges: Vec<(PathBuf, Vec<ChecksumRange>)>,
}

impl Store {
    /// Makes a store by a script, and closes it or leaves it as a killed process does.
    ///
    /// # Panics
    /// If the store fails during the script.
    pub fn make(policy: Policy, theme: Theme, seed: u64, steps: usize, closed: bool) -> Store {
        Store::of(script(policy, theme, seed, steps), closed)
    }

    /// Makes a store by this script, as [`Store::make`] does.
    ///
    /// # Panics
    /// If the store fails during the script.
    pub fn of(script: Script, closed: bool) -> Store {
        let (seed, encrypted) = (script.seed, script.encrypted);
        let end = if closed { "closed" } else { "killed" };
        let name = format!("{} {end}", script.name);
        let disk = CrashFs::seeded(seed);
        disk.create_dir(Path::new("/data"))
            .unwrap_or_else(|e| panic!("cannot create a directory on a new disk: {e}"));
        let ledger = Arc::new(Mutex::new(Ledger::default()));
        let mut script_run = ScriptRun::new(disk.clone(), script.options.clone(), ledger.clone());
        script_run.encrypted = encrypted;
        let mut steps = script.steps;
        let skipped = |s: &Step| {
            matches!(s, Step::Kill | Step::Unlogged(..) | Step::Checkpoint | Step::Reopen)
        };
        steps.retain(|step| !skipped(step));
        let last = |value: &str, synced| {
            let op = super::ops::Op::Put(0, b"last".to_vec(), value.as_bytes().to_vec());
            Step::Write(vec![op], synced)
        };
        // The log shows that every write is durable, or every write except the last.
        steps.extend([last("but one", true), last("of all", seed % 2 == 1)]);
        for step in std::iter::once(&Step::Read).chain(&steps) {
            match script_run.step(step) {
                Ok(Outcome::Done) => {}
                other => panic!("{} {step:?}: {other:?}", script.name),
            }
        }
        if closed {
            script_run.close().unwrap_or_else(|e| panic!("{name}: {e}"));
        }
        let image = disk.image(CrashModel::Everything);
        let ledger = ledger.lock().clone();
        let bounds = ledger.bounds;
        let least = if closed { bounds.acknowledged } else { bounds.durable };
        let mut store = Store {
            name,
            image,
            ledger,
            options: standing_at(&script.options, bounds.now_ms),
            least,
            closed,
            encrypted,
            ranges: Vec::new(),
        };
        store.ranges = store.files().map(|p| (p.clone(), store.ranges_of(p))).collect();
        store
    }

    /// Returns the files, without the lock.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let store_files =
            |path: &&PathBuf| path.starts_with(store_dir()) && !path.ends_with("LOCK");
        self.image.files.keys().filter(store_files)
    }

    fn ranges_of(&self, path: &Path) -> Vec<ChecksumRange> {
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        checksum_ranges(&name, self.image.bytes(path).unwrap_or_default())
    }

    /// Returns whether the remaining files prove that the logs are damaged. A closed store records
    /// the length of its log. In a killed store, only records after the damage can prove it, which
    /// this does not see in an encrypted log.
    fn proves(&self, image: &Image) -> bool {
        if self.closed {
            return true;
        }
        // A missing log is named by the manifest or by the previous log.
        let logs = self.ranges.iter().filter(|(path, _)| path.extension() == Some("wal".as_ref()));
        let proved = |(path, ranges): &(PathBuf, Vec<ChecksumRange>)| {
            let (was, is) = (self.image.bytes(path), image.bytes(path));
            let Some(was) = was else { return false };
            let Some(is) = is else { return true };
            let first_difference = was.iter().zip(is).take_while(|(a, b)| a == b).count();
            if first_difference == was.len() {
                return true;
            }
            // Records before the damaged one do not count. A later record counts if it proves the
            // damaged one durable.
            let damaged =
                ranges.partition_point(|checked| checked.at <= first_difference).max(1) - 1;
            let start = ranges[damaged].at as u64;
            ranges[damaged + 1..].iter().any(|checked| {
                let record = is.get(checked.at..).and_then(RecordHeader::decode);
                checked.holds(is) && record.is_some_and(|r| r.durable_bytes > start)
            })
        };
        let mut logs = logs.peekable();
        logs.peek().is_none() || logs.all(proved)
    }

    fn len(&self, path: &Path) -> usize {
        self.image.bytes(path).map_or(0, <[u8]>::len)
    }
}

/// The outcome of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DamageOutcome {
    /// Some call returned an error.
    Detected,
    /// Every answer was correct.
    Harmless,
    /// The newest writes of a log, not proved durable, are missing.
    Tail,
}

/// Opens and reads a damaged store. `image` has the damage, and `shown` is the image for the
/// engine. With `forged` any answer is accepted.
fn judge(
    store: &Store,
    image: &Image,
    shown: &Image,
    forged: bool,
) -> Result<DamageOutcome, (Verdict, String)> {
    let least = if store.proves(image) { store.least } else { 0 };
    let fs = view(store.encrypted, shown.to_mem());
    let db = match Db::open_on(fs, store_dir(), store.options.clone()) {
        Ok(db) => db,
        Err(error) if error.to_string().len() < 10 => {
            return Err((Verdict::Wrong, "the error message is too short".into()));
        }
        Err(_) => return Ok(DamageOutcome::Detected),
    };
    let whole = content(&db, None);
    let mut detected = db.verify(&mut |_, _| {}).map_or(true, |report| !report.is_whole());
    // Point reads must return the same pairs as a scan.
    let mut now = store.ledger.pairs();
    let mut answer = DamageOutcome::Harmless;
    match whole {
        Ok(found) if found.digests == store.ledger.digests() => {}
        Ok(found) if !forged => {
            match store.ledger.index_of(&found.digests, least, &store.ledger.bounds) {
                Some(index) if index >= least => answer = DamageOutcome::Tail,
                Some(index) => {
                    let message = format!(
                        "found {index} batches and no error, expected at least {least} batches"
                    );
                    return Err((Verdict::Lost, message));
                }
                None => return Err((Verdict::Wrong, "wrong data without an error".into())),
            }
            now = found.pairs;
        }
        Ok(_) => {}
        Err(ReadError::Store(_)) => detected = true,
        Err(ReadError::Violation(_)) if forged => {}
        Err(ReadError::Violation(violation)) => return Err((Verdict::Wrong, violation.0)),
    }
    for (name, key, value) in keyspaces::stored(&now) {
        match keyspaces::find(&db, name).and_then(|keyspace| keyspace.get(key)) {
            Ok(found) if forged || are_same(key, found.as_deref(), Some(value)) => {}
            Ok(_) => {
                return Err((
                    Verdict::Wrong,
                    format!("a get of {} returned a wrong value", key.escape_ascii()),
                ));
            }
            Err(_) => detected = true,
        }
    }
    Ok(if detected { DamageOutcome::Detected } else { answer })
}

fn count(
    tally: &mut Tally,
    store: &Store,
    (image, shown): (&Image, &Image),
    context: String,
    forged: bool,
) {
    tally.count(if forged { "forged" } else { "mutations" }, 1);
    let answer = guarded(|| judge(store, image, shown, forged))
        .unwrap_or_else(|panic| Err((Verdict::Panic, panic)));
    match answer {
        Ok(DamageOutcome::Detected) => tally.count("detected", 1),
        Ok(DamageOutcome::Harmless) => tally.count("harmless", 1),
        Ok(DamageOutcome::Tail) => tally.count("unproven tail", 1),
        Err((verdict, message)) => {
            tally.fail(verdict, format!("{}: {context}", store.name), message)
        }
    }
}

/// Flips every bit of every file, one at a time.
pub fn every_bit(store: &Store) -> Tally {
    let positions: Vec<(PathBuf, usize)> = store
        .files()
        .flat_map(|path| (0..store.len(path)).map(move |at| (path.clone(), at)))
        .collect();
    let chunks: Vec<&[(PathBuf, usize)]> = positions.chunks(64).collect();
    in_parallel(&chunks, |chunk| {
        let mut tally = Tally::default();
        for (path, at) in *chunk {
            for bit in 0..8 {
                let mut image = store.image.clone();
                if let Some(bytes) = image.bytes_mut(path) {
                    bytes[*at] ^= 1 << bit;
                }
                let context = format!("bit {bit} of byte {at} of {}", path.display());
                count(&mut tally, store, (&image, &image), context, false);
            }
        }
        tally
    })
}

/// Mutates a store `times` times at random, a third of the times behind a forged checksum.
pub fn random(store: &Store, seed: u64, times: u64) -> Tally {
    let seeds: Vec<u64> = (0..times).map(|n| seed.wrapping_mul(1_000_003) + n).collect();
    let chunks: Vec<&[u64]> = seeds.chunks(64).collect();
    in_parallel(&chunks, |chunk| {
        let mut tally = Tally::default();
        for seed in *chunk {
            let mut rng = SplitMix64::new(*seed);
            let mut image = store.image.clone();
            // Nobody without the key can forge the checks of an encrypted file.
            let forged = rng.chance(3) && !store.encrypted;
            let what = if forged {
                forge(store, &mut image, &mut rng)
            } else {
                mutate(store, &mut image, &mut rng)
            };
            if image.digest() != store.image.digest() {
                let context = format!("{what} (seed {seed})");
                count(&mut tally, store, (&image, &image), context, forged);
            }
        }
        tally
    })
}

/// Damages a store at random and repairs it, `times` times, a third of the times behind a forged
/// checksum. A repair ends with an intact store next to every original file, or with an error.
pub fn repaired(store: &Store, seed: u64, times: u64) -> Tally {
    let seeds: Vec<u64> = (0..times).map(|n| seed.wrapping_mul(1_000_003) + n).collect();
    in_parallel(&seeds, |seed| {
        let (mut tally, mut rng) = (Tally::default(), SplitMix64::new(*seed));
        let mut image = store.image.clone();
        let forged = rng.chance(3) && !store.encrypted;
        let what = match forged {
            true => forge(store, &mut image, &mut rng),
            false => mutate(store, &mut image, &mut rng),
        };
        let context = format!("{}: {what} (seed {seed}), repaired", store.name);
        match guarded(|| repair_one(store, &image, forged)) {
            Ok(Ok(outcome)) => tally.count(outcome, 1),
            Ok(Err((verdict, message))) => tally.fail(verdict, context, message),
            Err(panic) => tally.fail(Verdict::Panic, context, panic),
        }
        tally
    })
}

fn repair_one(
    store: &Store,
    image: &Image,
    forged: bool,
) -> Result<&'static str, (Verdict, String)> {
    let lost = |error: esker::Error| (Verdict::Lost, error.to_string());
    let disk = image.to_mem();
    let fs = view(store.encrypted, disk.clone());
    let report = match Db::repair_on(fs.clone(), store_dir(), store.options.clone()) {
        Ok(report) => report,
        Err(error) if error.to_string().len() < 10 => {
            return Err((Verdict::Wrong, "the error message is too short".into()));
        }
        Err(_) => return Ok("refused"),
    };
    let kept = Image::of(&*disk, &report.originals).map_err(|e| (Verdict::Lost, e.to_string()))?;
    let missing = |path: &&PathBuf| {
        let name = path.file_name().unwrap_or_default();
        let there = kept.bytes(&report.originals.join(name));
        path.starts_with(store_dir()) && !path.ends_with("LOCK") && there != image.bytes(path)
    };
    if let Some(path) = image.files.keys().find(missing) {
        return Err((Verdict::Lost, format!("the original file {} is missing", path.display())));
    }
    let options = Options { create_if_missing: false, ..store.options.clone() };
    // A repair does not read what keys and values mean, and a right checksum vouches for them.
    let db = match Db::open_on(fs, store_dir(), options) {
        Ok(db) => db,
        Err(_) if forged => return Ok("repaired partly"),
        Err(error) => return Err(lost(error)),
    };
    let found = match content(&db, None) {
        Ok(found) => found,
        Err(_) if forged => return Ok("repaired partly"),
        Err(error) => return Err((Verdict::Lost, format!("{error:?}"))),
    };
    let verified = db.verify(&mut |_, _| {}).map_err(lost)?;
    if let Some(problem) = verified.problems.first() {
        return Err((Verdict::Wrong, problem.to_string()));
    }
    let all = found.digests == store.ledger.digests();
    if report.lost.is_empty() && !all && !forged {
        // The newest writes of a log, not proved durable, may be missing.
        let least = if store.proves(image) { store.least } else { 0 };
        let index = store.ledger.index_of(&found.digests, least, &store.ledger.bounds);
        if index.is_none_or(|at| at < least) {
            let pairs = found.pairs.len();
            return Err((
                Verdict::Wrong,
                format!("found only {pairs} pairs, but the repair listed no loss"),
            ));
        }
    }
    Ok(if all { "repaired completely" } else { "repaired partly" })
}

/// Applies damage as if the store had no checksums: a canary, which must fail.
pub fn without_checksums(store: &Store, seed: u64, times: u64) -> Tally {
    let mut tally = Tally::default();
    for seed in seed..seed + times {
        let mut rng = SplitMix64::new(seed);
        let mut image = store.image.clone();
        let what = forge(store, &mut image, &mut rng);
        count(&mut tally, store, (&image, &image), format!("{what} (seed {seed})"), false);
    }
    tally
}

/// Applies damage as if a log reader stopped at the first bad record, whatever later records prove:
/// a canary, which must fail.
pub fn without_sync_markers(store: &Store) -> Tally {
    let mut tally = Tally::default();
    let logs = store.ranges.iter().filter(|(path, _)| path.extension() == Some("wal".as_ref()));
    for (path, ranges) in logs {
        for checked in ranges.iter().skip(1) {
            let (mut image, mut shown) = (store.image.clone(), store.image.clone());
            if let (Some(bytes), Some(cut)) = (image.bytes_mut(path), shown.bytes_mut(path)) {
                bytes[checked.start] ^= 1;
                cut.truncate(checked.at);
            }
            let context = format!("{} cut at {}", path.display(), checked.at);
            count(&mut tally, store, (&image, &shown), context, false);
        }
    }
    tally
}

fn pick<'a, T>(rng: &mut SplitMix64, all: &'a [T]) -> Option<&'a T> {
    all.get(rng.below(all.len() as u64) as usize)
}

/// Changes bytes under one checksum, and recomputes the checksum.
fn forge(store: &Store, image: &mut Image, rng: &mut SplitMix64) -> String {
    let Some((path, ranges)) = pick(rng, &store.ranges) else { return String::new() };
    let Some(checked) = pick(rng, ranges) else { return String::new() };
    let Some(bytes) = image.bytes_mut(path) else { return String::new() };
    for _ in 0..1 + rng.below(3) {
        let at = checked.start + rng.below((checked.end - checked.start) as u64) as usize;
        let extremes = [0, 1, 0x7f, 0x80, 0xff, rng.next_u64() as u8];
        match rng.below(3) {
            0 => bytes[at] ^= 1 << rng.below(8),
            1 => bytes[at] = *pick(rng, &extremes).unwrap_or(&0),
            _ => {
                // A field of four bytes: small, large, or larger than the file.
                let fields =
                    [0, 1, u32::MAX, 1 << 31, bytes.len() as u32 + 1, rng.next_u64() as u32];
                let field = pick(rng, &fields).unwrap_or(&0).to_le_bytes();
                let end = (at + 4).min(checked.end);
                bytes[at..end].copy_from_slice(&field[..end - at]);
            }
        }
    }
    checked.recompute(bytes);
    format!("bytes {}..{} of {} forged", checked.start, checked.end, path.display())
}

/// Changes a file as devices, copies or users may do.
fn mutate(store: &Store, image: &mut Image, rng: &mut SplitMix64) -> String {
    let files: Vec<PathBuf> = store.files().cloned().collect();
    let (Some(path), Some(other)) = (pick(rng, &files), pick(rng, &files)) else {
        return String::new();
    };
    let (len, donor) = (store.len(path), image.bytes(other).unwrap_or_default().to_vec());
    let (at, kind) = (rng.below(len as u64) as usize, rng.below(12));
    let context = format!("mutation {kind} at {at} of {}", path.display());
    if kind == 0 {
        image.files.remove(path);
        return context;
    }
    let Some(bytes) = image.bytes_mut(path) else { return context };
    let block = |rng: &mut SplitMix64| {
        let size = [8, 64, 512, 4096][rng.below(4) as usize];
        let start = at / size * size;
        start..(start + size).min(len)
    };
    match kind {
        1 => bytes.truncate(at),
        2 => bytes.extend_from_slice(&donor[..donor.len().min(1 + at)]),
        3 => bytes[block(rng)].fill(0),
        4 => {
            let range = block(rng);
            rng.fill(&mut bytes[range]);
        }
        5 => {
            let range = block(rng);
            let to = rng.below((len - range.len() + 1) as u64) as usize;
            bytes.copy_within(range, to);
        }
        6 => {
            let range = block(rng);
            let taken = donor.get(range.clone()).unwrap_or_default();
            bytes[range.start..range.start + taken.len()].copy_from_slice(taken);
        }
        7 => bytes.clone_from(&donor),
        8 => {
            let end = (at + 4).min(len);
            let value = (rng.next_u64() as u32 >> rng.below(32)).to_le_bytes();
            bytes[at..end].copy_from_slice(&value[..end - at]);
        }
        9 => bytes.insert(at, rng.next_u64() as u8),
        10 => drop(bytes.remove(at)),
        _ => bytes[at] ^= 1 << rng.below(8),
    }
    context
}
