//! Every file operation of a maintenance task fails. The tasks: opening the store of a killed
//! process, reading, verifying, closing, checkpoints, backups, restoring, repairing, removing,
//! creating.
//!
//! Invariants: positions are tried from the first on until one is beyond the task's end. A task
//! that reports success is complete. A failed task leaves every existing store intact and can be
//! repeated.

use std::collections::HashSet;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use esker::fs::Fs;
use esker::fs::MemFs;
use esker::{Db, ErrorKind, Options, WriteOptions};
use parking_lot::Mutex;

use super::clock::standing_at;
use super::content::{ReadError, backwards, content};
use super::digests::Digests;
use super::faults::{Cause, Wrap};
use super::keyspaces::{self, Pair, UNLOGGED_PREFIX};
use super::ledger::Ledger;
use super::script::{Script, Step};
use super::script_run::{Outcome, ScriptRun, store_dir};
use super::tally::{Finding, Tally, Verdict, guarded, in_parallel, lost};
use crate::crash::{CrashFs, CrashModel, Image};
use crate::fault::FaultFs;

const BACKUPS: &str = "/data/backups";
/// Directories for a task's new store: for the first attempt, and for the repetition.
const NEW: [&str; 2] = ["/data/new", "/data/new-again"];

/// The task during which operations fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Opening the store of a killed process.
    Open,
    /// Opening it read-only.
    ReadOnly,
    /// Reading everything, by scans in both directions and by keys.
    Read,
    /// Seeks to keys, with steps in both directions, and reads between bounds.
    Seek,
    /// `Db::verify`.
    Verify,
    /// `Db::compact_range` of everything, and all pending work afterwards.
    Merge,
    /// Closing, with an unlogged write.
    Close,
    /// `Db::checkpoint`.
    Checkpoint,
    /// `Db::backup` next to a complete backup and an incomplete one.
    Backup,
    /// `Db::backup` into a new directory, with an unlogged write.
    FirstBackup,
    /// `Db::restore` of the complete backup.
    Restore,
    /// `Db::prune_backups` of all backups except the newest, and of an incomplete one.
    Prune,
    /// `Db::repair`.
    Repair,
    /// `Db::destroy`.
    Destroy,
    /// Opening a new store.
    Create,
}

impl Task {
    /// Every maintenance task.
    pub const ALL: [Task; 15] = [
        Task::Open,
        Task::ReadOnly,
        Task::Read,
        Task::Seek,
        Task::Verify,
        Task::Merge,
        Task::Close,
        Task::Checkpoint,
        Task::Backup,
        Task::FirstBackup,
        Task::Restore,
        Task::Prune,
        Task::Repair,
        Task::Destroy,
        Task::Create,
    ];

    /// Returns whether the task needs an open store.
    fn needs_open(self) -> bool {
        use Task::{Backup, Checkpoint, Close, FirstBackup, Merge, Read, Seek, Verify};
        matches!(self, Read | Seek | Verify | Merge | Close | Checkpoint | Backup | FirstBackup)
    }
}

/// The initial state of a task: the store of a killed process, backups of two earlier moments, and
/// an incomplete backup.
pub struct InitialState {
    name: String,
    image: Image,
    options: Options,
    now: Digests,
    backed_up: [Digests; 2],
    /// Whether the store may not exist yet.
    may_create: bool,
}

impl InitialState {
    /// Makes the initial state by a script.
    ///
    /// # Panics
    /// When an operation of the script fails.
    pub fn make(script: &Script) -> InitialState {
        let disk = CrashFs::seeded(script.seed);
        disk.create_dir(Path::new("/data"))
            .unwrap_or_else(|e| panic!("cannot create a directory on a new disk: {e}"));
        let ledger = Arc::new(Mutex::new(Ledger::default()));
        let options = Options { cache_size_bytes: Some(0), ..script.options.clone() };
        let mut script_run = ScriptRun::new(disk.clone(), options.clone(), ledger.clone());
        let mut backed_up = [Digests::default(), Digests::default()];
        let skipped = |s: &&Step| {
            !matches!(s, Step::Kill | Step::Unlogged(..) | Step::Checkpoint | Step::Reopen)
        };
        let mut steps: Vec<&Step> = script.steps.iter().filter(skipped).collect();
        // The digests of the backups are those at the end, so no time passes after the first one.
        let mut at = 0..steps.len();
        let half = steps.len() / 2;
        steps.retain(|step| at.next() < Some(half) || !matches!(step, Step::Turn(_)));
        for (at, step) in std::iter::once(&Step::Read).chain(steps.iter().copied()).enumerate() {
            match script_run.step(step) {
                Ok(Outcome::Done) => {}
                other => panic!("{} {step:?}: {other:?}", script.name),
            }
            for (which, digest) in backed_up.iter_mut().enumerate() {
                if at != (2 + which) * steps.len() / 4 {
                    continue;
                }
                let made = script_run.db().map(|db| db.backup(BACKUPS));
                made.transpose().unwrap_or_else(|e| panic!("{}: {e}", script.name));
                *digest = ledger.lock().digests();
            }
        }
        let half = Path::new(BACKUPS).join("backup-000003");
        let table = half.join("000009.sst");
        let made = disk.create_dir(&half).and_then(|()| disk.create_new(&table));
        drop(made.unwrap_or_else(|e| panic!("cannot create an incomplete backup: {e}")));
        let image = disk.image(CrashModel::Everything);
        let now = ledger.lock().digests();
        let options = standing_at(&options, ledger.lock().bounds.now_ms);
        InitialState {
            name: script.name.clone(),
            image,
            options,
            now,
            backed_up,
            may_create: false,
        }
    }

    /// Returns the states that power cuts left of a script's store: the first ones, and `count` of
    /// the others. The expected content is the content shown by an opening without a fault.
    ///
    /// # Panics
    /// If the store fails during the script, or does not open after a cut.
    pub fn after_cuts(script: &Script, count: usize) -> Vec<InitialState> {
        let images = images_of(script);
        let later = images.len().saturating_sub(FIRST_CUTS);
        let chosen = |at: &usize| at.is_multiple_of((later / count.max(1)).max(1));
        let images = images.into_iter().enumerate();
        let some = images.filter(|(at, _)| *at < FIRST_CUTS || chosen(at));
        let initial = |(at, image): (usize, Image)| {
            let name = format!("{}, image {at}", script.name);
            let opened = Db::open_on(image.to_mem(), store_dir(), script.options.clone());
            let found = opened.map_err(ReadError::Store).and_then(|db| content(&db, None));
            let now = found.unwrap_or_else(|e| panic!("{name}: {e:?}")).digests;
            let (options, backed_up) = (script.options.clone(), Default::default());
            InitialState { name, image, options, now, backed_up, may_create: true }
        };
        some.map(initial).collect()
    }
}

/// Number of first cuts that are all used: the store is being created during them.
const FIRST_CUTS: usize = 12;

/// Returns the distinct images that power cuts leave while a store runs a script.
fn images_of(script: &Script) -> Vec<Image> {
    let disk = CrashFs::seeded(script.seed);
    disk.create_dir(Path::new("/data"))
        .unwrap_or_else(|e| panic!("cannot create a directory on a new disk: {e}"));
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
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let mut script_run = ScriptRun::new(disk.clone(), script.options.clone(), ledger);
    let kept = |step: &&Step| !matches!(step, Step::Kill | Step::Checkpoint);
    for step in std::iter::once(&Step::Read).chain(script.steps.iter().filter(kept)) {
        match script_run.step(step) {
            Ok(Outcome::Done) => {}
            other => panic!("{} {step:?}: {other:?}", script.name),
        }
    }
    disk.unwatch();
    std::mem::take(&mut *images.lock())
}

/// Tries every position of every cause in every task, once and forever, on all cores.
pub fn run(initial: &InitialState, tasks: &[Task], wrap: Wrap) -> Tally {
    let causes = [Cause::Full, Cause::Broken, Cause::Short, Cause::Truncated];
    let all: Vec<(Task, Cause, bool)> = tasks
        .iter()
        .flat_map(|task| causes.map(|cause| [(*task, cause, false), (*task, cause, true)]))
        .flatten()
        .collect();
    in_parallel(&all, |(task, cause, for_ever)| {
        let mut tally = Tally::default();
        let mut nth = 1;
        while one(initial, *task, *cause, nth, *for_ever, wrap, &mut tally) {
            nth += 1;
        }
        tally
    })
}

/// Tries one position. Returns `false` when the task ended before it.
fn one(
    initial: &InitialState,
    task: Task,
    cause: Cause,
    nth: u64,
    for_ever: bool,
    wrap: Wrap,
    tally: &mut Tally,
) -> bool {
    let often = if for_ever { "permanently" } else { "once" };
    let context = format!("{}, {task:?}, {cause:?} {often} from operation {nth}", initial.name);
    let disk = initial.image.to_mem();
    let faults = FaultFs::new(disk.clone());
    let trial = Trial { initial, task, cause, for_ever, disk };
    let outcome = guarded(|| trial.run(&faults, wrap(faults.clone()), nth));
    let hits = faults.hits();
    match outcome {
        Ok(Ok(())) => {}
        Ok(Err((verdict, message))) => tally.fail(verdict, context, message),
        Err(panic) => tally.fail(Verdict::Panic, context, panic),
    }
    tally.count_position(hits);
    hits > 0 && tally.failures.len() < 20
}

fn wrong(message: &str) -> Finding {
    (Verdict::Wrong, message.to_string())
}

struct Trial<'a> {
    initial: &'a InitialState,
    task: Task,
    cause: Cause,
    for_ever: bool,
    disk: Arc<MemFs>,
}

impl Trial<'_> {
    fn run(&self, faults: &FaultFs, fs: Arc<dyn Fs>, nth: u64) -> Result<(), Finding> {
        let mut db = None;
        if self.task.needs_open() {
            let opened = Db::open_on(fs.clone(), store_dir(), self.initial.options.clone());
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

    /// Checks that the error has a suitable kind and a message.
    fn check_error(&self, error: &esker::Error) -> Result<(), Finding> {
        let fits = match error.kind() {
            ErrorKind::Io | ErrorKind::NoSpace | ErrorKind::ReadOnly => true,
            // A file that ends early looks like damage, and an unlisted name looks like a missing
            // file.
            ErrorKind::Corruption => matches!(self.cause, Cause::Truncated | Cause::Broken),
            _ => false,
        };
        if fits && error.to_string().len() >= 10 {
            return Ok(());
        }
        Err((Verdict::Wrong, format!("{:?}: {error}", error.kind())))
    }

    /// Runs the task, and compares its reported result with the oracle.
    fn act(
        &self,
        fs: &Arc<dyn Fs>,
        db: Option<Db>,
        new: &str,
    ) -> Result<esker::Result<()>, Finding> {
        let (dir, options) = (store_dir(), self.initial.options.clone());
        match (self.task, db) {
            (Task::Open, _) => match Db::open_on(fs.clone(), dir, options) {
                Ok(db) => self.read(&db),
                Err(error) => Ok(Err(error)),
            },
            (Task::ReadOnly, _) => match Db::open_read_only_on(fs.clone(), dir, options) {
                Ok(db) => self.read(&db),
                Err(error) => Ok(Err(error)),
            },
            (Task::Restore, _) => {
                Ok(Db::restore_on(fs.clone(), BACKUPS, Some(1), new, options).map(drop))
            }
            (Task::Prune, _) => Ok(Db::prune_backups_on(fs.clone(), BACKUPS, 1).map(drop)),
            (Task::Repair, _) => match Db::repair_on(fs.clone(), dir, options) {
                Ok(report) if report.lost.is_empty() => self.holds(dir, &self.initial.now).map(Ok),
                Ok(_) => Ok(Ok(())),
                Err(error) => Ok(Err(error)),
            },
            (Task::Destroy, _) => Ok(Db::destroy_on(fs.clone(), dir)),
            (Task::Create, _) => Ok(create(fs, new, options)),
            (_, None) => Err(wrong("the task needs an open store")),
            (Task::Read, Some(db)) => self.read(&db),
            (Task::Seek, Some(db)) => match seek(&db) {
                Ok(true) => Ok(Ok(())),
                Ok(false) => Err(wrong("seeks and the scan return different pairs")),
                Err(error) => Ok(Err(error)),
            },
            (Task::FirstBackup, Some(db)) => {
                let key = [UNLOGGED_PREFIX, b"backup"].concat();
                let put = db.put_with(key, "1", &WriteOptions::NONE);
                Ok(put.and_then(|()| db.backup(new)).map(drop))
            }
            (Task::Verify, Some(db)) => Ok(db
                .verify(&mut |_, _| {})
                .and_then(|mut report| report.problems.pop().map_or(Ok(()), Err))),
            (Task::Merge, Some(db)) => {
                Ok(db.compact_range(None, None).and_then(|()| db.wait_idle()))
            }
            (Task::Close, Some(db)) => {
                let key = [UNLOGGED_PREFIX, b"closing"].concat();
                Ok(db.put_with(key, "1", &WriteOptions::NONE).and_then(|()| db.close()))
            }
            (Task::Checkpoint, Some(db)) => Ok(db.checkpoint(new)),
            (Task::Backup, Some(db)) => Ok(db.backup(BACKUPS).map(drop)),
        }
    }

    /// Reads everything by each method.
    fn read(&self, db: &Db) -> Result<esker::Result<()>, Finding> {
        let found = match content(db, None) {
            Ok(found) => found,
            Err(ReadError::Store(error)) => return Ok(Err(error)),
            Err(ReadError::Violation(violation)) => return Err((Verdict::Wrong, violation.0)),
        };
        if found.digests != self.initial.now {
            return Err(wrong("a scan returns other pairs than the written pairs"));
        }
        match same_by_other_reads(db, &found.pairs) {
            Ok(true) => return Ok(Ok(())),
            Ok(false) => {}
            Err(error) => return Ok(Err(error)),
        }
        Err(wrong("reads and the scan return different pairs"))
    }

    /// Checks the state after the fault, and repeats the task.
    fn check_after(&self, done: bool) -> Result<(), Finding> {
        let fs: Arc<dyn Fs> = self.disk.clone();
        let (dir, options) = (store_dir(), self.initial.options.clone());
        let initial = self.initial;
        match self.task {
            Task::Destroy => return self.check_destroyed(done),
            Task::Repair => return self.check_repaired(done),
            Task::Create if done => self.holds(Path::new(NEW[0]), &Digests::default())?,
            Task::Create => create(&fs, NEW[0], options).map_err(lost("second create"))?,
            Task::Checkpoint | Task::Restore => {
                let want =
                    if self.task == Task::Restore { &initial.backed_up[0] } else { &initial.now };
                let whole = Path::new(NEW[0]).join("CURRENT");
                if done || self.disk.exists(&whole).unwrap_or(false) {
                    self.holds(Path::new(NEW[0]), want)?;
                }
                let mut db = None;
                if self.task.needs_open() {
                    db = Some(
                        Db::open_on(fs.clone(), dir, options)
                            .map_err(lost("open after the fault"))?,
                    );
                }
                self.act(&fs, db, NEW[1])?.map_err(lost("second run of the task"))?;
                self.holds(Path::new(NEW[1]), want)?;
            }
            Task::FirstBackup => {
                let first = Path::new(NEW[0]).join("backup-000001");
                if done || self.disk.exists(&first.join("CURRENT")).unwrap_or(false) {
                    self.holds(&first, &initial.now)?;
                }
                let db =
                    Db::open_on(fs.clone(), dir, options).map_err(lost("open after the fault"))?;
                let made = db.backup(NEW[0]).map_err(lost("second run of the task"))?;
                self.holds(&made.path, &initial.now)?;
            }
            Task::Backup => {
                let db =
                    Db::open_on(fs.clone(), dir, options).map_err(lost("open after the fault"))?;
                let made = db.backup(BACKUPS).map_err(lost("second run of the task"))?;
                self.holds(&made.path, &initial.now)?;
                self.holds(&Path::new(BACKUPS).join("backup-000001"), &initial.backed_up[0])?;
                self.check_backups()?;
            }
            Task::Prune => {
                self.check_backups()?;
                let again =
                    Db::prune_backups_on(fs, BACKUPS, 1).map_err(lost("second run of the task"))?;
                if again.kept != [2] || done && !again.removed.is_empty() {
                    return Err(wrong("the prune kept other backups than the newest"));
                }
                self.check_backups()?;
            }
            _ => {}
        }
        self.holds(dir, &initial.now)
    }

    /// Checks that the newest original backup is intact, and the other one too if it is present.
    fn check_backups(&self) -> Result<(), Finding> {
        for (at, backed_up) in self.initial.backed_up.iter().enumerate() {
            let path = Path::new(BACKUPS).join(format!("backup-{:06}", at + 1));
            if at == 1 || self.disk.exists(&path.join("CURRENT")).unwrap_or(false) {
                self.holds(&path, backed_up)?;
            }
        }
        Ok(())
    }

    fn check_destroyed(&self, done: bool) -> Result<(), Finding> {
        let there = self.disk.exists(&store_dir().join("CURRENT")).unwrap_or(false);
        match (done, there) {
            (true, true) => return Err(wrong("the destroy succeeded, but the store still exists")),
            (false, true) => self.holds(store_dir(), &self.initial.now)?,
            _ => {}
        }
        match Db::destroy_on(self.disk.clone(), store_dir()) {
            Err(error) if error.kind() != ErrorKind::NotFound || there => {
                Err((Verdict::Lost, format!("second destroy: {error}")))
            }
            _ => Ok(()),
        }
    }

    /// Checks a repair. If data was not proved, it was listed, and then the originals are present.
    fn check_repaired(&self, done: bool) -> Result<(), Finding> {
        if done {
            return Ok(());
        }
        let again = Db::repair_on(self.disk.clone(), store_dir(), self.initial.options.clone());
        let report = again.map_err(lost("second repair"))?;
        match report.lost.first() {
            Some(what) => Err((Verdict::Lost, format!("the second repair reports a loss: {what}"))),
            None => self.holds(store_dir(), &self.initial.now),
        }
    }

    /// Opens a store and compares its content.
    fn holds(&self, dir: &Path, want: &Digests) -> Result<(), Finding> {
        let name = dir.display().to_string();
        let create_if_missing = self.initial.may_create;
        let options = Options { create_if_missing, ..self.initial.options.clone() };
        let db = Db::open_on(self.disk.clone(), dir, options).map_err(lost(&name))?;
        let found = content(&db, None).map_err(|error| (Verdict::Lost, format!("{error:?}")))?;
        if found.digests != *want {
            return Err((Verdict::Lost, format!("{name} has unexpected content")));
        }
        let report = db.verify(&mut |_, _| {}).map_err(lost(&name))?;
        match report.problems.first() {
            Some(problem) => Err((Verdict::Wrong, format!("{name}: {problem}"))),
            None => Ok(()),
        }
    }
}

/// Reads all pairs backwards, by gets and by a multi-get of each keyspace. Returns whether the
/// result matches a scan.
fn same_by_other_reads(db: &Db, pairs: &[Pair]) -> esker::Result<bool> {
    let mut right = keyspaces::stored(pairs).eq(&backwards(db)?);
    for name in db.keyspaces() {
        let keyspace = keyspaces::find(db, &name)?;
        let own: Vec<&Pair> = pairs.iter().filter(|(other, ..)| *other == name).collect();
        let keys: Vec<&[u8]> = own.iter().map(|(_, key, _)| key.as_slice()).collect();
        let many = keyspace.multi_get(&keys)?;
        for ((key, (.., value)), found) in keys.iter().zip(&own).zip(&many) {
            right &= keyspace.get(key)?.as_deref() == Some(value);
            right &= found.as_deref() == Some(value);
        }
    }
    Ok(right)
}

/// Reads from some keys in both directions, and between bounds. Returns whether the result matches
/// a scan.
fn seek(db: &Db) -> esker::Result<bool> {
    let all: Vec<_> = db.iter()?.collect::<esker::Result<_>>()?;
    let mut right = true;
    for (at, (key, value)) in all.iter().enumerate().step_by(5) {
        let (from, to) = (at.saturating_sub(2), (at + 3).min(all.len()));
        let mut iter = db.iter()?;
        iter.seek(key)?;
        right &= iter.valid() && iter.key() == &key[..] && iter.value() == &value[..];
        iter.move_next()?;
        right &= iter.valid() == (at + 1 < all.len());
        iter.seek_for_prev(key)?;
        right &= iter.valid() && iter.key() == &key[..];
        iter.move_prev()?;
        right &= iter.valid() == (at > 0);
        if iter.valid() {
            iter.move_next()?;
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
                db.range::<Vec<u8>>((lo, hi))?.rev().collect::<esker::Result<_>>()?;
            back.reverse();
            right &= there == want && back == want;
        }
        let snapshot = db.snapshot();
        right &= db.read(key, |found| found == &value[..])? == Some(true);
        right &= db.contains_key(key)? && snapshot.contains_key(key)?;
    }
    Ok(right)
}

/// Creates a store with a pair that counts in no digest.
fn create(fs: &Arc<dyn Fs>, dir: &str, options: Options) -> esker::Result<()> {
    let db = Db::open_on(fs.clone(), dir, options)?;
    db.put_with([UNLOGGED_PREFIX, b"new"].concat(), "1", &WriteOptions::SYNC)?;
    db.close()
}
