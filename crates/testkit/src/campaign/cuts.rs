//! A power cut after every file operation, under every crash model, and power cuts during the
//! recovery from a cut.
//!
//! Invariants: an image is opened once, however many cuts leave it. Every cut is judged by the
//! promises made before it.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::image_check::{Checks, Found, check_image, judge};
use super::ledger::{Bounds, Ledger};
use super::ops::Change;
use super::reader::Reader;
use super::script::{Script, Step, Theme, script};
use super::script_run::{Outcome, PlantedBug, ScriptRun, store_dir};
use super::tally::{Finding, Tally, Verdict, guarded};
use crate::crash::{CrashFs, CrashModel, Flaws, Image};
use crate::rng::SplitMix64;
use esker::fs::Fs;
use esker::{Options, Policy};

/// The extent of a campaign.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Number of seeds of each model at each cut.
    pub seeds: u64,
    /// Average number of images per image that is recovered on a disk with further cuts; 0 for
    /// none.
    pub nest_one_in: u64,
    /// Depth of nesting: 1 is a cut, 2 a cut during its recovery, 3 a cut during the recovery of
    /// that one.
    pub depth: u32,
    /// Deliberate errors of the disk.
    pub flaws: Flaws,
    /// A deliberate error between the script and the store.
    pub bug: PlantedBug,
}

/// One power cut.
struct Cut {
    at: u64,
    model: CrashModel,
    bounds: Bounds,
    digest: u64,
    /// The image, the first time it is seen.
    image: Option<Image>,
}

/// Collects cuts during a run.
#[derive(Default)]
struct Collector {
    at: u64,
    seen: HashSet<u64>,
    manifests: HashSet<PathBuf>,
    value_files: HashSet<PathBuf>,
    cuts: Vec<Cut>,
}

impl Collector {
    fn collect(&mut self, disk: &CrashFs, bounds: Bounds, models: &[CrashModel]) {
        self.at += 1;
        for model in models {
            let image = disk.image(*model);
            // The number of checkpoints decides which one is checked, and the time decides which
            // pairs have expired.
            let (checkpoints, now_ms) = (bounds.checkpoints.0 as u64, bounds.now_ms);
            let digest = image.digest().wrapping_add(checkpoints).wrapping_add(now_ms << 16);
            if *model == CrashModel::Everything {
                let named = |path: &&PathBuf| path.to_string_lossy().contains("manifest-");
                self.manifests.extend(image.files.keys().filter(named).cloned());
                let in_store =
                    |path: &&PathBuf| path.starts_with(store_dir()) && is_value_file(path);
                self.value_files.extend(image.files.keys().filter(in_store).cloned());
            }
            let first = self.seen.insert(digest);
            let image = first.then_some(image);
            self.cuts.push(Cut { at: self.at, model: *model, bounds, digest, image });
        }
    }
}

/// Returns whether a path is that of a value file.
fn is_value_file(path: &Path) -> bool {
    path.extension() == Some("val".as_ref())
}

/// Runs a script and judges every cut of it.
pub fn run(script: &Script, effort: &Effort) -> Tally {
    let disk = CrashFs::seeded(script.seed);
    if disk.create_dir(&PathBuf::from("/data")).is_err() {
        return Tally::default();
    }
    disk.sync_everything();
    let mut campaign = Campaign {
        options: &script.options,
        encrypted: script.encrypted,
        effort: *effort,
        rng: SplitMix64::new(script.seed ^ 0x0063_7574),
        depth: 1,
        context: script.name.clone(),
        tally: Tally::default(),
        found: HashMap::new(),
    };
    campaign.run_steps(ScriptRun::of(disk.clone(), script), disk, &script.steps);
    campaign.tally.count("scripts", 1);
    campaign.tally
}

struct Campaign<'a> {
    options: &'a Options,
    encrypted: bool,
    effort: Effort,
    rng: SplitMix64,
    depth: u32,
    context: String,
    tally: Tally,
    found: HashMap<u64, Result<Found, Finding>>,
}

impl Campaign<'_> {
    fn models(&mut self) -> Vec<CrashModel> {
        let mut models = Vec::new();
        for _ in 0..self.effort.seeds {
            let seed = self.rng.next_u64();
            models.extend(CrashModel::all(seed));
        }
        if self.depth > 1 {
            // Two fixed models, and three of the others.
            let mut some = vec![CrashModel::SyncedOnly, CrashModel::Everything];
            some.extend((0..3).map(|_| models[self.rng.below(models.len() as u64) as usize]));
            models = some;
        }
        models
    }

    /// Runs the steps on `disk`, and judges the cuts after each.
    fn run_steps(&mut self, mut script_run: ScriptRun, disk: Arc<CrashFs>, steps: &[Step]) {
        let ledger = script_run.ledger.clone();
        disk.set_flaws(self.effort.flaws);
        let collector = Arc::new(Mutex::new(Collector::default()));
        let models = Arc::new(Mutex::new(self.models()));
        {
            let (collector, ledger, models) = (collector.clone(), ledger.clone(), models.clone());
            disk.watch(move |disk| {
                let bounds = ledger.lock().bounds;
                collector.lock().collect(disk, bounds, &models.lock());
            });
        }
        let mut process = disk.clone();
        script_run.bug = self.effort.bug;
        // The first step opens the store.
        for step in std::iter::once(&Step::Read).chain(steps) {
            if matches!(step, Step::Kill) {
                process = process.next_process();
                script_run.kill(process.clone());
            }
            let step_ended = guarded(|| script_run.step(step));
            let context = format!("{} step {step:?}", self.context);
            match step_ended {
                Ok(Ok(Outcome::Done)) => {}
                Ok(Ok(Outcome::Failed(error))) => {
                    self.tally.fail(Verdict::Lost, context, error.to_string());
                }
                Ok(Err(violation)) => self.tally.fail(Verdict::Wrong, context, violation.0),
                Err(panic) => self.tally.fail(Verdict::Panic, context, panic),
            }
            let cuts = std::mem::take(&mut collector.lock().cuts);
            for cut in cuts {
                self.judge(cut, &ledger, script_run.reader.as_ref());
            }
            *models.lock() = self.models();
            if self.tally.failures.len() > 50 {
                break;
            }
        }
        disk.unwatch();
        if let Err(error) = script_run.close() {
            self.tally.fail(Verdict::Lost, format!("{} close", self.context), error.to_string());
        }
        if self.depth == 1 {
            script_run.work.iter().for_each(|(what, n)| self.tally.count(what, *n));
            let manifests = collector.lock().manifests.len() as u64;
            self.tally.count("manifests", manifests);
            self.tally.count("value files", collector.lock().value_files.len() as u64);
            self.tally.count("checkpoints", ledger.lock().bounds.checkpoints.1 as u64);
            self.tally.count("changes read", script_run.reader.as_ref().map_or(0, Reader::changes));
        }
    }

    fn judge(&mut self, cut: Cut, ledger: &Arc<Mutex<Ledger>>, reader: Option<&Reader>) {
        self.tally.count(if self.depth == 1 { "cuts" } else { "nested cuts" }, 1);
        let context = format!(
            "{}, cut {} of depth {}, {}",
            self.context,
            cut.at,
            self.depth,
            cut.model.name()
        );
        if let Some(image) = &cut.image {
            let what = match self.depth {
                1 => "images",
                2 => "nested images",
                _ => "images of depth 3",
            };
            self.tally.count(what, 1);
            // Shows whether two runs produced the same images.
            if !self.encrypted {
                self.tally.count("sum of images", image.digest() >> 32);
            }
            let checkpoint = {
                let ledger = ledger.lock();
                let asked = cut.bounds.checkpoints.0;
                asked.checked_sub(1).map(|at| ledger.checkpoints[at].dir.clone())
            };
            let checks = Checks {
                every_read: self.rng.chance(8),
                second_recovery: self.depth == 1 && self.rng.chance(4),
                encrypted: self.encrypted,
                reader: reader.filter(|_| self.rng.chance(if self.depth > 1 { 8 } else { 2 })),
                now_ms: cut.bounds.now_ms,
            };
            if checks.reader.is_some() {
                self.tally.count("copies of the feed", 1);
            }
            let found = check_image(image, self.options, checkpoint.as_deref(), checks);
            self.found.insert(cut.digest, found);
        }
        let Some(found) = self.found.get(&cut.digest) else { return };
        let judged = match found {
            Ok(found) => judge(found, &ledger.lock(), cut.bounds, cut.model),
            Err(bad) => Err(bad.clone()),
        };
        if let Err((verdict, message)) = judged {
            self.tally.fail(verdict, context, message);
            return;
        }
        let deeper = self.depth < self.effort.depth;
        if deeper && let (Some(image), Some(Ok(found))) = (cut.image, self.found.get(&cut.digest)) {
            // Deeper nesting is rarer: each such image has some hundred cuts of its own.
            let one_in = self.effort.nest_one_in * u64::from(self.depth);
            if self.rng.chance(one_in) {
                let found = found.clone();
                self.nest(&image, &found, context, ledger, reader);
            }
        }
    }

    /// Recovers `image` on a disk with further cuts.
    fn nest(
        &mut self,
        image: &Image,
        found: &Found,
        context: String,
        ledger: &Arc<Mutex<Ledger>>,
        reader: Option<&Reader>,
    ) {
        let mut rng = SplitMix64::new(self.rng.next_u64());
        let disk = image.to_disk(rng.next_u64());
        let inner = ledger.lock().recovered(&found.digests, &found.pairs);
        let mut steps = script(Policy::Fluid, Theme::Restarts, rng.next_u64(), 5).steps;
        // Without creations, a slot whose keyspace is not in the image stands for the default one.
        let left_out =
            |step: &Step| matches!(step, Step::Checkpoint | Step::Change(Change::Create(_)));
        steps.retain(|step| !left_out(step));
        // Smaller memtables than the lost ones: the recovery writes tables as it reads.
        let options = Options {
            memtable_size_bytes: Some(4 << 10),
            frozen_memtables_max: 1,
            ..self.options.clone()
        };
        let mut campaign = Campaign {
            options: &options,
            encrypted: self.encrypted,
            effort: self.effort,
            rng,
            depth: self.depth + 1,
            context,
            tally: Tally::default(),
            found: HashMap::new(),
        };
        if image.dirs.iter().any(|dir| dir == store_dir()) {
            let ledger = Arc::new(Mutex::new(inner));
            let mut script_run = ScriptRun::new(disk.clone(), options.clone(), ledger);
            script_run.encrypted = self.encrypted;
            script_run.reader = reader.cloned();
            campaign.run_steps(script_run, disk, &steps);
        }
        self.tally.merge(campaign.tally);
    }
}
