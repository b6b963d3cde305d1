//! A power cut after every operation of a repair, under every crash model, and power cuts during
//! the next repair.
//!
//! [`faults`] instead makes every operation of a repair fail, including a repair after a killed
//! one.
//!
//! Invariants:
//! 1. Whatever a cut leaves, the next repair gives the result of an uninterrupted one, and every
//!    original file is present with all its bytes.
//! 2. Opening instead gives the store as it was or as repaired, or is refused. A store that was
//!    opened and written to keeps that state through a repair.
//! 3. After a repair that reported success, no repair is necessary.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use esker::fs::Fs;
use esker::fs::MemFs;
use esker::{Db, ErrorKind, Options, WriteOptions};
use parking_lot::Mutex;

use super::content::{ReadError, content};
use super::corruption::Store;
use super::cuts::Effort;
use super::faults::Cause;
use super::keyspaces::{DEFAULT, Pair};
use super::script_run::store_dir;
use super::tally::{Tally, Verdict, guarded, in_parallel};
use crate::crash::{CrashFs, CrashModel, Image};
use crate::fault::FaultFs;
use crate::rng::SplitMix64;

/// The damage of the store before the repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// Nothing.
    None,
    /// `CURRENT` is missing.
    NoCurrent,
    /// One byte of one file is changed.
    Flipped,
}

impl Damage {
    /// Every kind of damage.
    pub const ALL: [Damage; 3] = [Damage::None, Damage::NoCurrent, Damage::Flipped];

    fn to(self, store: &Store, rng: &mut SplitMix64) -> Image {
        let mut image = store.image.clone();
        match self {
            Damage::None => {}
            Damage::NoCurrent => {
                image.files.remove(&store_dir().join("CURRENT"));
            }
            Damage::Flipped => {
                let files: Vec<&PathBuf> = store.files().collect();
                let file = files[rng.below(files.len() as u64) as usize];
                if let Some(bytes) = image.bytes_mut(file)
                    && !bytes.is_empty()
                {
                    let at = rng.below(bytes.len() as u64) as usize;
                    bytes[at] ^= 1 << rng.below(8);
                }
            }
        }
        image
    }
}

type Finding = (Verdict, String);
type Pairs = Vec<Pair>;

fn lost(what: &str) -> impl Fn(esker::Error) -> Finding {
    move |error| (Verdict::Lost, format!("{what}: {error}"))
}

/// A damaged store, the result of its repair, its name, and its own random numbers.
type RepairedStore = (Image, ReferenceRepair, String, SplitMix64);

/// Damages `store` with `damage` and repairs it once. Counts errors of that repair.
fn damage_and_repair(store: &Store, damage: Damage, tally: &mut Tally) -> Option<RepairedStore> {
    let mut rng = SplitMix64::new(store.ledger.bounds.attempted as u64 ^ damage as u64);
    let image = damage.to(store, &mut rng);
    let context = format!("{}, {damage:?}", store.name);
    match guarded(|| ReferenceRepair::new(&image, &store.options, damage)) {
        Ok(Ok(reference)) => return Some((image, reference, context, rng)),
        Ok(Err((verdict, message))) => tally.fail(verdict, context, message),
        Err(panic) => tally.fail(Verdict::Panic, context, panic),
    }
    None
}

/// Runs every cut of the repair of `store`, for each kind of damage.
pub fn cuts(store: &Store, effort: &Effort) -> Tally {
    in_parallel(&Damage::ALL, |damage| {
        let mut tally = Tally::default();
        if let Some((image, reference, context, mut rng)) =
            damage_and_repair(store, *damage, &mut tally)
        {
            reference.cut(&image, effort, 1, &context, &mut rng, &mut tally);
        }
        tally
    })
}

/// Makes every operation of the repair of `store` fail once, for each kind of damage. Does the same
/// for the repairs after some killed ones.
pub fn faults(store: &Store) -> Tally {
    let mut all = Tally::default();
    for damage in Damage::ALL {
        let Some((image, reference, context, mut rng)) = damage_and_repair(store, damage, &mut all)
        else {
            continue;
        };
        let disk = image.to_disk(rng.next_u64());
        let (mut cuts, _) = reference.repair_watched(&disk, vec![CrashModel::Everything], &mut all);
        cuts.retain(|cut| matches!(reference.opened(&cut.image.to_mem()), Ok(None)));
        let each = (cuts.len() / INTERRUPTED_MAX).max(1);
        let killed = cuts.into_iter().step_by(each).map(|cut| (cut.at, cut.image));
        let images: Vec<(u64, Image)> = std::iter::once((0, image)).chain(killed).collect();
        all.merge(in_parallel(&images, |(at, image)| {
            let context =
                format!("{context}, repaired after a repair that was killed at operation {at}");
            reference.fail_each(image, &context)
        }));
    }
    all
}

/// Maximum number of killed repairs per store whose next repair meets every fault.
const INTERRUPTED_MAX: usize = 6;

/// A power cut.
struct Cut {
    at: u64,
    model: CrashModel,
    done: bool,
    image: Image,
}

/// Collects cuts during a repair.
#[derive(Default)]
struct Collector {
    at: u64,
    seen: HashSet<(u64, bool)>,
    cuts: Vec<Cut>,
}

/// The result of an uninterrupted repair, and the state before it.
struct ReferenceRepair {
    options: Options,
    damage: Damage,
    originals: Vec<Vec<u8>>,
    /// The content before the repair; `None` if opening or a read failed.
    before: Option<Pairs>,
    pairs: Pairs,
    lost: Vec<String>,
}

impl ReferenceRepair {
    fn new(image: &Image, options: &Options, damage: Damage) -> Result<ReferenceRepair, Finding> {
        let kept = |path: &&PathBuf| path.starts_with(store_dir()) && !path.ends_with("LOCK");
        let paths = image.files.keys().filter(kept);
        let originals = paths.filter_map(|path| image.bytes(path)).map(<[u8]>::to_vec).collect();
        let mut reference = ReferenceRepair {
            options: options.clone(),
            damage,
            originals,
            before: None,
            pairs: Pairs::new(),
            lost: Vec::new(),
        };
        reference.before = reference.opened(&image.to_mem())?.and_then(|db| read(&db).ok());
        let fs = image.to_mem();
        let report = Db::repair_on(fs.clone(), store_dir(), options.clone());
        reference.lost = report.map_err(lost("repair"))?.lost;
        let db = Db::open_on(fs, store_dir(), options.clone())
            .map_err(lost("open the repaired store"))?;
        reference.pairs = read(&db)?;
        Ok(reference)
    }

    /// Repairs `image` on a disk, and judges the state that a cut after each operation leaves.
    fn cut(
        &self,
        image: &Image,
        effort: &Effort,
        depth: u32,
        context: &str,
        rng: &mut SplitMix64,
        tally: &mut Tally,
    ) {
        let (disk, models) = (image.to_disk(rng.next_u64()), models(effort, depth, rng));
        disk.set_flaws(effort.flaws);
        let (cuts, done) = self.repair_watched(&disk, models, tally);
        if let Err(message) = done {
            return tally.fail(Verdict::Lost, context, format!("repair: {message}"));
        }
        for Cut { at, model, done, image } in cuts {
            let what = ["images", "nested images", "images of depth 3"][depth.min(3) as usize - 1];
            tally.count(what, 1);
            let context = format!("{context}, cut {at} of depth {depth}, {}", model.name());
            match guarded(|| self.judge(&image, done)) {
                Ok(Ok(shown)) => tally.count(shown, 1),
                Ok(Err((verdict, message))) => tally.fail(verdict, context.clone(), message),
                Err(panic) => tally.fail(Verdict::Panic, context.clone(), panic),
            }
            let one_in = effort.nest_one_in * u64::from(depth);
            if depth < effort.depth && !done && rng.chance(one_in) {
                self.cut(&image, effort, depth + 1, &context, rng, tally);
            }
            if tally.failures.len() > 20 {
                return;
            }
        }
    }

    /// Returns the distinct images that a cut can leave, during and after the repair.
    fn repair_watched(
        &self,
        disk: &Arc<CrashFs>,
        models: Vec<CrashModel>,
        tally: &mut Tally,
    ) -> (Vec<Cut>, Result<(), String>) {
        let cuts: Arc<Mutex<Collector>> = Arc::default();
        let is_done = Arc::new(AtomicBool::new(false));
        let collect = {
            let (cuts, is_done) = (cuts.clone(), is_done.clone());
            move |disk: &CrashFs| {
                let Collector { at, seen, cuts } = &mut *cuts.lock();
                *at += 1;
                let done = is_done.load(Ordering::Relaxed);
                for model in &models {
                    let image = disk.image(*model);
                    if seen.insert((image.digest(), done)) {
                        cuts.push(Cut { at: *at, model: *model, done, image });
                    }
                }
            }
        };
        disk.watch(collect.clone());
        let repaired = Db::repair_on(disk.clone(), store_dir(), self.options.clone());
        disk.unwatch();
        is_done.store(true, Ordering::Relaxed);
        collect(disk);
        let Collector { at, cuts, .. } = std::mem::take(&mut *cuts.lock());
        tally.count("operations cut", at);
        (cuts, repaired.map(drop).map_err(|error| error.to_string()))
    }

    /// Opens the store; `None` if it is refused as damaged.
    fn opened(&self, fs: &Arc<MemFs>) -> Result<Option<Db>, Finding> {
        match Db::open_on(fs.clone(), store_dir(), self.options.clone()) {
            Ok(db) => Ok(Some(db)),
            Err(error) if error.kind() == ErrorKind::Corruption => Ok(None),
            Err(error) => Err((Verdict::Wrong, format!("open: {:?}: {error}", error.kind()))),
        }
    }

    fn judge(&self, image: &Image, done: bool) -> Result<&'static str, Finding> {
        // Repaired without opening it first.
        let fs = image.to_mem();
        self.repaired(&fs, &self.pairs, true)?;
        self.has_originals(&fs)?;
        // Opened, possibly written to, and then repaired.
        let fs = image.to_mem();
        let Some(db) = self.opened(&fs)? else {
            if done {
                return Err((
                    Verdict::Lost,
                    "the repair succeeded, but the open was refused".into(),
                ));
            }
            self.repaired(&fs, &self.pairs, true)?;
            return Ok("refused");
        };
        let shown = read(&db).ok();
        if done && shown.as_ref() != Some(&self.pairs) {
            return Err((
                Verdict::Lost,
                "the repair succeeded, but the opened store has other content".into(),
            ));
        }
        if shown.as_ref() != Some(&self.pairs) && shown != self.before {
            return Err((Verdict::Wrong, "the opened store has content that never existed".into()));
        }
        if self.damage == Damage::None || done {
            let (key, value) = (b"since the cut".to_vec(), b"1".to_vec());
            db.put_with(&key, &value, &WriteOptions::SYNC).map_err(lost("write after the cut"))?;
            db.flush().map_err(lost("flush after the cut"))?;
            drop(db);
            let mut want = self.pairs.clone();
            want.push((DEFAULT.to_string(), key, value));
            want.sort();
            self.repaired(&fs, &want, false)?;
        }
        Ok("opened")
    }

    /// Repairs the store, and compares its content.
    fn repaired(&self, fs: &Arc<MemFs>, want: &Pairs, same_losses: bool) -> Result<(), Finding> {
        let dir = store_dir();
        let report = Db::repair_on(fs.clone(), dir, self.options.clone());
        let report = report.map_err(lost("the next repair"))?;
        if same_losses && !report.lost.is_empty() && report.lost != self.lost {
            return Err((
                Verdict::Lost,
                format!("the next repair reports other losses: {:?}", report.lost),
            ));
        }
        let options = Options { create_if_missing: false, ..self.options.clone() };
        let db =
            Db::open_on(fs.clone(), dir, options).map_err(lost("open after the next repair"))?;
        if read(&db)? != *want {
            return Err((Verdict::Lost, "the next repair restored other content".into()));
        }
        let report = db.verify(&mut |_, _| {}).map_err(lost("verify"))?;
        match report.problems.first() {
            Some(problem) => Err((Verdict::Wrong, format!("verify: {problem}"))),
            None => Ok(()),
        }
    }

    /// Repairs `image` with each operation failing once.
    fn fail_each(&self, image: &Image, context: &str) -> Tally {
        let mut tally = Tally::default();
        for cause in [Cause::Full, Cause::Broken, Cause::Short, Cause::Truncated] {
            for nth in 1.. {
                let context = format!("{context}, {cause:?} at operation {nth}");
                let disk = image.to_mem();
                let fs = FaultFs::new(disk.clone());
                if let Some(fault) = cause.fault(nth, false) {
                    fs.arm(fault);
                }
                match guarded(|| self.fail_one(&disk, &fs)) {
                    Ok(Ok(())) => {}
                    Ok(Err((verdict, message))) => tally.fail(verdict, context, message),
                    Err(panic) => tally.fail(Verdict::Panic, context, panic),
                }
                tally.count_position(fs.hits());
                if fs.hits() == 0 || tally.failures.len() > 5 {
                    break;
                }
            }
        }
        tally
    }

    fn fail_one(&self, disk: &Arc<MemFs>, fs: &Arc<FaultFs>) -> Result<(), Finding> {
        match Db::repair_on(fs.clone(), store_dir(), self.options.clone()) {
            // Unreadable data is listed, and the originals are present.
            Ok(report) if report.lost.iter().any(|what| !self.lost.contains(what)) => {}
            Ok(_) => {
                let options = Options { create_if_missing: false, ..self.options.clone() };
                let db = Db::open_on(disk.clone(), store_dir(), options).map_err(lost("open"))?;
                if read(&db)? != self.pairs {
                    return Err((Verdict::Lost, "the repair lost data and listed no loss".into()));
                }
            }
            Err(error) => {
                use ErrorKind::{Corruption, Io, NoSpace};
                let fits = matches!(error.kind(), Corruption | Io | NoSpace);
                if !fits || error.path().is_none() || error.to_string().len() < 10 {
                    return Err((Verdict::Wrong, format!("{:?}: {error}", error.kind())));
                }
                self.repaired(disk, &self.pairs, true)?;
            }
        }
        self.has_originals(disk)
    }

    /// Checks that every original file is next to the repaired store.
    fn has_originals(&self, fs: &Arc<MemFs>) -> Result<(), Finding> {
        let files = |dir: &Path| Image::of(&**fs, dir).map(|image| image.contents);
        let failed = |e: std::io::Error| (Verdict::Lost, e.to_string());
        let mut there = Vec::new();
        for entry in fs.list(store_dir()).map_err(failed)?.iter().filter(|e| !e.is_file) {
            there.extend(files(&store_dir().join(&entry.name)).map_err(failed)?);
        }
        let missing = |bytes: &&Vec<u8>| !there.iter().any(|one| **one == **bytes);
        match self.originals.iter().find(missing) {
            Some(bytes) => Err((
                Verdict::Lost,
                format!("an original file of {} bytes is missing", bytes.len()),
            )),
            None => Ok(()),
        }
    }
}

fn models(effort: &Effort, depth: u32, rng: &mut SplitMix64) -> Vec<CrashModel> {
    let mut models: Vec<CrashModel> =
        (0..effort.seeds).flat_map(|_| CrashModel::all(rng.next_u64())).collect();
    if depth > 1 {
        // Two fixed models, and the models that choose among the names.
        models.retain(|model| {
            use CrashModel::{Everything, Prefix, StrictNames, SyncedOnly};
            matches!(model, SyncedOnly | Everything | Prefix { .. } | StrictNames { .. })
        });
    }
    models
}

fn read(db: &Db) -> Result<Pairs, Finding> {
    match content(db, None) {
        Ok(found) => Ok(found.pairs),
        Err(ReadError::Store(error)) => Err((Verdict::Lost, format!("read: {error}"))),
        Err(ReadError::Violation(violation)) => Err((Verdict::Wrong, violation.0)),
    }
}
