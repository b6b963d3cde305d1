//! Every operation on files that a chore makes, failing: opening what a killed process left, reading,
//! verifying, closing, checkpoints, backups, restoring, repairing, removing, creating.
//!
//! What stays true: positions are tried from the first on until one is beyond the chore's end. A
//! chore that says it is done is done; one that fails leaves every store that was there, and can be
//! done again.

use std::collections::HashSet;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use esker::fs::Fs;
use esker::fs::mem::MemFs;
use esker::{Db, ErrorKind, Options, WriteOptions};
use parking_lot::Mutex;

use super::faults::{Cause, Wrap};
use super::ledger::{Digest, Ledger, WEAK_PREFIX};
use super::life::{Life, Outcome, ReadError, content, store_dir};
use super::script::{Script, Step};
use super::tally::{Tally, Verdict, guarded, in_parallel};
use crate::crash::{CrashFs, CrashModel, Image};
use crate::fault::FaultFs;

const BACKUPS: &str = "/data/backups";
/// Where a chore puts something new, and where it is put when the chore is done again.
const NEW: [&str; 2] = ["/data/new", "/data/new-again"];

/// What is done while operations fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chore {
    /// Opening a store whose process was killed.
    Open,
    /// Opening it to be read.
    ReadOnly,
    /// Reading everything, by scans both ways and by keys.
    Read,
    /// Reading from keys on, back and forth, and between bounds.
    Seek,
    /// `Db::verify`.
    Verify,
    /// `Db::compact_range` of everything, and all that is due then.
    Merge,
    /// Closing, with a write that is in no log.
    Close,
    /// `Db::checkpoint`.
    Checkpoint,
    /// `Db::backup` beside a whole one and half of one.
    Backup,
    /// `Db::backup` to where nothing is, with a write that is in no log.
    FirstBackup,
    /// `Db::restore` of the whole one.
    Restore,
    /// `Db::prune_backups` of all but the newest, and of half of one.
    Prune,
    /// `Db::repair`.
    Repair,
    /// `Db::destroy`.
    Destroy,
    /// Opening where nothing is.
    Create,
}

impl Chore {
    /// Every chore.
    pub const ALL: [Chore; 15] = [
        Chore::Open,
        Chore::ReadOnly,
        Chore::Read,
        Chore::Seek,
        Chore::Verify,
        Chore::Merge,
        Chore::Close,
        Chore::Checkpoint,
        Chore::Backup,
        Chore::FirstBackup,
        Chore::Restore,
        Chore::Prune,
        Chore::Repair,
        Chore::Destroy,
        Chore::Create,
    ];

    /// Whether it is done to an open store.
    fn needs_open(self) -> bool {
        use Chore::{Backup, Checkpoint, Close, FirstBackup, Merge, Read, Seek, Verify};
        matches!(self, Read | Seek | Verify | Merge | Close | Checkpoint | Backup | FirstBackup)
    }
}

/// A store that a process left when it was killed, backups of two earlier moments, and half of one.
pub struct World {
    name: String,
    image: Image,
    options: Options,
    now: Digest,
    backed_up: [Digest; 2],
    /// Whether there may be no store yet.
    may_create: bool,
}

impl World {
    /// Makes it by a script.
    ///
    /// # Panics
    /// If the store does not get through the script.
    pub fn make(script: &Script) -> World {
        let disk = CrashFs::seeded(script.seed);
        disk.create_dir(Path::new("/data")).unwrap_or_else(|e| panic!("a fresh disk: {e}"));
        let ledger = Arc::new(Mutex::new(Ledger::new(&[])));
        let options = Options { cache_size_bytes: Some(0), ..script.options.clone() };
        let mut life = Life::new(disk.clone(), options.clone(), ledger.clone());
        let mut backed_up = [Digest::default(); 2];
        let skipped =
            |s: &&Step| !matches!(s, Step::Kill | Step::Weak(..) | Step::Checkpoint | Step::Reopen);
        let steps: Vec<&Step> = script.steps.iter().filter(skipped).collect();
        for (at, step) in std::iter::once(&Step::Read).chain(steps.iter().copied()).enumerate() {
            match life.step(step) {
                Ok(Outcome::Done) => {}
                other => panic!("{} {step:?}: {other:?}", script.name),
            }
            for (which, digest) in backed_up.iter_mut().enumerate() {
                if at != (2 + which) * steps.len() / 4 {
                    continue;
                }
                let made = life.db().map(|db| db.backup(BACKUPS));
                made.transpose().unwrap_or_else(|e| panic!("{}: {e}", script.name));
                *digest = ledger.lock().digest();
            }
        }
        let half = Path::new(BACKUPS).join("backup-000003");
        let table = half.join("000009.sst");
        let made = disk.create_dir(&half).and_then(|()| disk.create_new(&table));
        drop(made.unwrap_or_else(|e| panic!("half a backup: {e}")));
        let image = disk.image(CrashModel::Everything);
        let now = ledger.lock().digest();
        World { name: script.name.clone(), image, options, now, backed_up, may_create: false }
    }

    /// What cuts of the power left of the store of a script: the first ones, and `count` of the
    /// others. What each holds is what it shows when it is opened without a fault.
    ///
    /// # Panics
    /// If the store does not get through the script, or does not open after a cut.
    pub fn after_cuts(script: &Script, count: usize) -> Vec<World> {
        let images = images_of(script);
        let later = images.len().saturating_sub(FIRST_CUTS);
        let chosen = |at: &usize| at.is_multiple_of((later / count.max(1)).max(1));
        let images = images.into_iter().enumerate();
        let some = images.filter(|(at, _)| *at < FIRST_CUTS || chosen(at));
        let world = |(at, image): (usize, Image)| {
            let name = format!("{}, image {at}", script.name);
            let opened = Db::open_on(image.to_mem(), store_dir(), script.options.clone());
            let found = opened.map_err(ReadError::Store).and_then(|db| content(db.iter()));
            let now = found.unwrap_or_else(|e| panic!("{name}: {e:?}")).digest;
            let (options, backed_up) = (script.options.clone(), Default::default());
            World { name, image, options, now, backed_up, may_create: true }
        };
        some.map(world).collect()
    }
}

/// So many cuts are all taken: the store is being created.
const FIRST_CUTS: usize = 12;

/// The different images that cuts of the power leave while a store goes through a script.
fn images_of(script: &Script) -> Vec<Image> {
    let disk = CrashFs::seeded(script.seed);
    disk.create_dir(Path::new("/data")).unwrap_or_else(|e| panic!("a fresh disk: {e}"));
    disk.sync_everything();
    let images: Arc<Mutex<Vec<Image>>> = Arc::default();
    let collected = images.clone();
    let seen: Mutex<(u64, HashSet<u64>)> = Mutex::default();
    disk.watch(move |disk| {
        let (seed, seen) = &mut *seen.lock();
        *seed += 1;
        let seed = *seed;
        let all = [
            CrashModel::Prefix { seed },
            CrashModel::Pages { seed },
            CrashModel::StrictNames { seed },
        ];
        let image = disk.image(all[(seed % 3) as usize]);
        if seen.insert(image.digest()) {
            collected.lock().push(image);
        }
    });
    let ledger = Arc::new(Mutex::new(Ledger::new(&[])));
    let mut life = Life::new(disk.clone(), script.options.clone(), ledger);
    let kept = |step: &&Step| !matches!(step, Step::Kill | Step::Checkpoint);
    for step in std::iter::once(&Step::Read).chain(script.steps.iter().filter(kept)) {
        match life.step(step) {
            Ok(Outcome::Done) => {}
            other => panic!("{} {step:?}: {other:?}", script.name),
        }
    }
    disk.unwatch();
    std::mem::take(&mut *images.lock())
}

/// Every position of every cause in every chore, once and for ever, on all cores.
pub fn run(world: &World, chores: &[Chore], wrap: Wrap) -> Tally {
    let causes = [Cause::Full, Cause::Broken, Cause::Short, Cause::Truncated];
    let all: Vec<(Chore, Cause, bool)> = chores
        .iter()
        .flat_map(|chore| causes.map(|cause| [(*chore, cause, false), (*chore, cause, true)]))
        .flatten()
        .collect();
    in_parallel(&all, |(chore, cause, for_ever)| {
        let mut tally = Tally::default();
        let mut nth = 1;
        while one(world, *chore, *cause, nth, *for_ever, wrap, &mut tally) {
            nth += 1;
        }
        tally
    })
}

/// One position; `false` when the chore ended before it.
fn one(
    world: &World,
    chore: Chore,
    cause: Cause,
    nth: u64,
    for_ever: bool,
    wrap: Wrap,
    tally: &mut Tally,
) -> bool {
    let often = if for_ever { "for ever" } else { "once" };
    let place = format!("{}, {chore:?}, {cause:?} {often} from operation {nth}", world.name);
    let disk = world.image.to_mem();
    let faults = FaultFs::new(disk.clone());
    let trial = Trial { world, chore, cause, for_ever, disk };
    let outcome = guarded(|| trial.run(&faults, wrap(faults.clone()), nth));
    let hits = faults.hits();
    match outcome {
        Ok(Ok(())) => {}
        Ok(Err((verdict, message))) => tally.fail(verdict, place, message),
        Err(panic) => tally.fail(Verdict::Panic, place, panic),
    }
    tally.count_position(hits);
    hits > 0 && tally.failures.len() < 20
}

type Bad = (Verdict, String);

fn lost(what: &str) -> impl Fn(esker::Error) -> Bad {
    move |error| (Verdict::Lost, format!("{what}: {error}"))
}

fn wrong(message: &str) -> Bad {
    (Verdict::Wrong, message.to_string())
}

struct Trial<'a> {
    world: &'a World,
    chore: Chore,
    cause: Cause,
    for_ever: bool,
    disk: Arc<MemFs>,
}

impl Trial<'_> {
    fn run(&self, faults: &FaultFs, fs: Arc<dyn Fs>, nth: u64) -> Result<(), Bad> {
        let mut db = None;
        if self.chore.needs_open() {
            let opened = Db::open_on(fs.clone(), store_dir(), self.world.options.clone());
            db = Some(opened.map_err(lost("open before the fault"))?);
        }
        if let Some(fault) = self.cause.fault(nth, self.for_ever) {
            faults.arm(fault);
        }
        let outcome = self.act(&fs, db, NEW[0]);
        faults.disarm();
        if faults.hits() == 0 {
            return outcome
                .map_err(|bad| (bad.0, format!("without a fault: {}", bad.1)))?
                .map_err(|error| (Verdict::Lost, format!("without a fault: {error}")));
        }
        let outcome = outcome?;
        if let Err(error) = &outcome {
            self.check_error(error)?;
        }
        self.check_after(outcome.is_ok())
    }

    /// The error is of a kind that fits and says something.
    fn check_error(&self, error: &esker::Error) -> Result<(), Bad> {
        let fits = match error.kind() {
            ErrorKind::Io | ErrorKind::NoSpace | ErrorKind::ReadOnly => true,
            // A file that ends early looks like damage, a name that is not shown like none.
            ErrorKind::Corruption => matches!(self.cause, Cause::Truncated | Cause::Broken),
            _ => false,
        };
        if fits && error.to_string().len() >= 10 {
            return Ok(());
        }
        Err((Verdict::Wrong, format!("{:?}: {error}", error.kind())))
    }

    /// Does the chore; whatever it says it did is compared with the oracle.
    fn act(&self, fs: &Arc<dyn Fs>, db: Option<Db>, new: &str) -> Result<esker::Result<()>, Bad> {
        let (dir, options) = (store_dir(), self.world.options.clone());
        match (self.chore, db) {
            (Chore::Open, _) => match Db::open_on(fs.clone(), dir, options) {
                Ok(db) => self.read(&db),
                Err(error) => Ok(Err(error)),
            },
            (Chore::ReadOnly, _) => match Db::open_read_only_on(fs.clone(), dir, options) {
                Ok(db) => self.read(&db),
                Err(error) => Ok(Err(error)),
            },
            (Chore::Restore, _) => {
                Ok(Db::restore_on(fs.clone(), BACKUPS, Some(1), new, options).map(drop))
            }
            (Chore::Prune, _) => Ok(Db::prune_backups_on(fs.clone(), BACKUPS, 1).map(drop)),
            (Chore::Repair, _) => match Db::repair_on(fs.clone(), dir, options) {
                Ok(report) if report.lost.is_empty() => self.holds(dir, self.world.now).map(Ok),
                Ok(_) => Ok(Ok(())),
                Err(error) => Ok(Err(error)),
            },
            (Chore::Destroy, _) => Ok(Db::destroy_on(fs.clone(), dir)),
            (Chore::Create, _) => Ok(create(fs, new, options)),
            (_, None) => Err(wrong("the chore needs an open store")),
            (Chore::Read, Some(db)) => self.read(&db),
            (Chore::Seek, Some(db)) => match seek(&db) {
                Ok(true) => Ok(Ok(())),
                Ok(false) => Err(wrong("reads from a key on differ from the scan")),
                Err(error) => Ok(Err(error)),
            },
            (Chore::FirstBackup, Some(db)) => {
                let key = [WEAK_PREFIX, b"backup"].concat();
                let put = db.put_with(key, "1", &WriteOptions::NONE);
                Ok(put.and_then(|()| db.backup(new)).map(drop))
            }
            (Chore::Verify, Some(db)) => Ok(db
                .verify(&mut |_, _| {})
                .and_then(|mut report| report.problems.pop().map_or(Ok(()), Err))),
            (Chore::Merge, Some(db)) => {
                Ok(db.compact_range(None, None).and_then(|()| db.wait_idle()))
            }
            (Chore::Close, Some(db)) => {
                let key = [WEAK_PREFIX, b"closing"].concat();
                Ok(db.put_with(key, "1", &WriteOptions::NONE).and_then(|()| db.close()))
            }
            (Chore::Checkpoint, Some(db)) => Ok(db.checkpoint(new)),
            (Chore::Backup, Some(db)) => Ok(db.backup(BACKUPS).map(drop)),
        }
    }

    /// Reads everything each way.
    fn read(&self, db: &Db) -> Result<esker::Result<()>, Bad> {
        let found = match content(db.iter()) {
            Ok(found) => found,
            Err(ReadError::Store(error)) => return Ok(Err(error)),
            Err(ReadError::Wrong(what)) => return Err((Verdict::Wrong, what.0)),
        };
        if found.digest != self.world.now {
            return Err(wrong("a scan shows something else than was written"));
        }
        let back: esker::Result<Vec<_>> = match db.iter() {
            Ok(iter) => iter.into_reverse().collect(),
            Err(error) => return Ok(Err(error)),
        };
        let keys: Vec<&[u8]> = found.pairs.iter().map(|(key, _)| key.as_slice()).collect();
        let by_keys = back.and_then(|back| {
            let each: esker::Result<Vec<_>> = keys.iter().map(|key| db.get(key)).collect();
            Ok((back, each?, db.multi_get(&keys)?))
        });
        let (mut back, each, many) = match by_keys {
            Ok(read) => read,
            Err(error) => return Ok(Err(error)),
        };
        back.reverse();
        let same = |got: &[Option<esker::Slice>]| {
            found.pairs.iter().zip(got).all(|((_, value), got)| got.as_deref() == Some(value))
        };
        if back == found.pairs && same(&each) && same(&many) {
            return Ok(Ok(()));
        }
        Err(wrong("a read differs from the scan"))
    }

    /// What is there when the fault is over, and the chore done again.
    fn check_after(&self, done: bool) -> Result<(), Bad> {
        let fs: Arc<dyn Fs> = self.disk.clone();
        let (dir, options) = (store_dir(), self.world.options.clone());
        let world = self.world;
        match self.chore {
            Chore::Destroy => return self.check_destroyed(done),
            Chore::Repair => return self.check_repaired(done),
            Chore::Create if done => self.holds(Path::new(NEW[0]), Digest::default())?,
            Chore::Create => create(&fs, NEW[0], options).map_err(lost("create again"))?,
            Chore::Checkpoint | Chore::Restore => {
                let want =
                    if self.chore == Chore::Restore { world.backed_up[0] } else { world.now };
                let whole = Path::new(NEW[0]).join("CURRENT");
                if done || self.disk.exists(&whole).unwrap_or(false) {
                    self.holds(Path::new(NEW[0]), want)?;
                }
                let mut db = None;
                if self.chore.needs_open() {
                    db = Some(Db::open_on(fs.clone(), dir, options).map_err(lost("open again"))?);
                }
                self.act(&fs, db, NEW[1])?.map_err(lost("done again"))?;
                self.holds(Path::new(NEW[1]), want)?;
            }
            Chore::FirstBackup => {
                let first = Path::new(NEW[0]).join("backup-000001");
                if done || self.disk.exists(&first.join("CURRENT")).unwrap_or(false) {
                    self.holds(&first, world.now)?;
                }
                let db = Db::open_on(fs.clone(), dir, options).map_err(lost("open again"))?;
                let made = db.backup(NEW[0]).map_err(lost("done again"))?;
                self.holds(&made.path, world.now)?;
            }
            Chore::Backup => {
                let db = Db::open_on(fs.clone(), dir, options).map_err(lost("open again"))?;
                let made = db.backup(BACKUPS).map_err(lost("done again"))?;
                self.holds(&made.path, world.now)?;
                self.holds(&Path::new(BACKUPS).join("backup-000001"), world.backed_up[0])?;
                self.check_backups()?;
            }
            Chore::Prune => {
                self.check_backups()?;
                let again = Db::prune_backups_on(fs, BACKUPS, 1).map_err(lost("done again"))?;
                if again.kept != [2] || done && !again.removed.is_empty() {
                    return Err(wrong("it keeps others than the newest backup"));
                }
                self.check_backups()?;
            }
            _ => {}
        }
        self.holds(dir, world.now)
    }

    /// The newest backup of those there were is whole, and so is the other one if it is there.
    fn check_backups(&self) -> Result<(), Bad> {
        for (at, backed_up) in self.world.backed_up.iter().enumerate() {
            let path = Path::new(BACKUPS).join(format!("backup-{:06}", at + 1));
            if at == 1 || self.disk.exists(&path.join("CURRENT")).unwrap_or(false) {
                self.holds(&path, *backed_up)?;
            }
        }
        Ok(())
    }

    fn check_destroyed(&self, done: bool) -> Result<(), Bad> {
        let there = self.disk.exists(&store_dir().join("CURRENT")).unwrap_or(false);
        match (done, there) {
            (true, true) => return Err(wrong("it says the store is gone, and it is there")),
            (false, true) => self.holds(store_dir(), self.world.now)?,
            _ => {}
        }
        match Db::destroy_on(self.disk.clone(), store_dir()) {
            Err(error) if error.kind() != ErrorKind::NotFound || there => {
                Err((Verdict::Lost, format!("destroyed again: {error}")))
            }
            _ => Ok(()),
        }
    }

    /// What was not proved was listed, and then the originals are there.
    fn check_repaired(&self, done: bool) -> Result<(), Bad> {
        if done {
            return Ok(());
        }
        let again = Db::repair_on(self.disk.clone(), store_dir(), self.world.options.clone());
        let report = again.map_err(lost("repair again"))?;
        match report.lost.first() {
            Some(what) => Err((Verdict::Lost, format!("repaired again: {what}"))),
            None => self.holds(store_dir(), self.world.now),
        }
    }

    /// Opens a store and compares it.
    fn holds(&self, dir: &Path, want: Digest) -> Result<(), Bad> {
        let name = dir.display().to_string();
        let create_if_missing = self.world.may_create;
        let options = Options { create_if_missing, ..self.world.options.clone() };
        let db = Db::open_on(self.disk.clone(), dir, options).map_err(lost(&name))?;
        let found = content(db.iter()).map_err(|error| (Verdict::Lost, format!("{error:?}")))?;
        if found.digest != want {
            return Err((Verdict::Lost, format!("{name} holds something else")));
        }
        let report = db.verify(&mut |_, _| {}).map_err(lost(&name))?;
        match report.problems.first() {
            Some(problem) => Err((Verdict::Wrong, format!("{name}: {problem}"))),
            None => Ok(()),
        }
    }
}

/// Reads from some keys on, back and forth, and between bounds; whether it is what a scan shows.
fn seek(db: &Db) -> esker::Result<bool> {
    let all: Vec<_> = db.iter()?.collect::<esker::Result<_>>()?;
    let mut right = true;
    for (at, (key, value)) in all.iter().enumerate().step_by(5) {
        let (from, to) = (at.saturating_sub(2), (at + 3).min(all.len()));
        let mut iter = db.iter()?;
        iter.seek(key)?;
        right &= iter.valid() && iter.key() == &key[..] && iter.value() == &value[..];
        iter.advance()?;
        right &= iter.valid() == (at + 1 < all.len());
        iter.seek_for_prev(key)?;
        right &= iter.valid() && iter.key() == &key[..];
        iter.retreat()?;
        right &= iter.valid() == (at > 0);
        if iter.valid() {
            iter.advance()?;
            right &= iter.key() == &key[..];
        }
        let bounds = [
            (Bound::Included(&all[from].0), Bound::Included(&all[to - 1].0), from..to),
            (Bound::Excluded(&all[from].0), Bound::Excluded(&all[to - 1].0), from + 1..to - 1),
        ];
        for (lo, hi, want) in bounds {
            let want = all.get(want).unwrap_or_default();
            let there: Vec<_> = db.range::<Vec<u8>>((lo, hi))?.collect::<esker::Result<_>>()?;
            let mut back: Vec<_> =
                db.range::<Vec<u8>>((lo, hi))?.into_reverse().collect::<esker::Result<_>>()?;
            back.reverse();
            right &= there == want && back == want;
        }
        let snapshot = db.snapshot();
        let mut read = Vec::new();
        right &= db.get_into(key, &mut read)? && read == value[..];
        right &= db.contains_key(key)? && snapshot.contains_key(key)?;
    }
    Ok(right)
}

/// A new store with a pair that counts in no digest.
fn create(fs: &Arc<dyn Fs>, dir: &str, options: Options) -> esker::Result<()> {
    let db = Db::open_on(fs.clone(), dir, options)?;
    db.put_with([WEAK_PREFIX, b"new"].concat(), "1", &WriteOptions::SYNC)?;
    db.close()
}
