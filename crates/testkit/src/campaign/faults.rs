//! Every file operation of a script fails, either once or from then on.
//!
//! Invariants: positions are tried from the first on until one is beyond the script's end, so none
//! is left out. A store may refuse a call, but it must not lie. Its acknowledged data is checked
//! while the fault lasts, after the fault, and after a power cut at that time.

use std::sync::Arc;

use parking_lot::Mutex;

use super::image_check::{Checks, check_image, judge};
use super::ledger::Ledger;
use super::script::{Script, Step};
use super::script_run::{Outcome, ScriptRun};
use super::tally::{Tally, Verdict, guarded, in_parallel};
use crate::crash::{CrashFs, CrashModel};
use crate::fault::{Fault, FaultFs, FaultKind, Op, OpMask};
use esker::ErrorKind;
use esker::fs::Fs;

/// The cause of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The device is full or a quota is used up: creating, writing and growing files fail with
    /// `ENOSPC`, and from every second position on with `EDQUOT`.
    Full,
    /// Any operation fails with `EIO`.
    Broken,
    /// A write omits its last byte.
    Short,
    /// A read ends early.
    Truncated,
    /// A sync fails and drops its pages, although they can still be read.
    SyncDrops,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Cause; 5] =
        [Cause::Full, Cause::Broken, Cause::Short, Cause::Truncated, Cause::SyncDrops];

    /// Returns the fault; `None` where the disk itself must fail.
    pub(super) fn fault(self, nth: u64, for_ever: bool) -> Option<Fault> {
        let (ops, kind) = match self {
            Cause::Full if nth.is_multiple_of(2) => (OpMask::GROWTH, FaultKind::Quota),
            Cause::Full => (OpMask::GROWTH, FaultKind::NoSpace),
            Cause::Broken => (OpMask::ALL, FaultKind::Io),
            Cause::Short => (OpMask::of(&[Op::Write]), FaultKind::ShortWrite),
            Cause::Truncated => (OpMask::of(&[Op::Read, Op::Open]), FaultKind::UnexpectedEof),
            Cause::SyncDrops => return None,
        };
        Some(Fault { for_ever, ..Fault::once(ops, nth, kind) })
    }

    fn arm(self, disk: &CrashFs, fs: &FaultFs, nth: u64, for_ever: bool) {
        match self.fault(nth, for_ever) {
            Some(fault) => fs.arm(fault),
            None => disk.fail_sync(nth, for_ever),
        }
    }

    fn disarm(self, disk: &CrashFs, fs: &FaultFs) {
        fs.disarm();
        disk.heal_syncs();
    }

    fn hits(self, disk: &CrashFs, fs: &FaultFs) -> u64 {
        if self == Cause::SyncDrops { disk.failed_syncs() } else { fs.hits() }
    }
}

/// Wrapper between the store and the disk. A canary inserts a broken one.
pub type Wrap = fn(Arc<FaultFs>) -> Arc<dyn Fs>;

/// Tries every position of every cause, once and forever, on all cores.
pub fn run(script: &Script, causes: &[Cause], wrap: Wrap) -> Tally {
    let mut all = Tally::default();
    for cause in causes {
        for for_ever in [false, true] {
            // Each worker takes every fourth position, so each finds the end of the script.
            let stride = 4;
            let firsts: Vec<u64> = (1..=stride).collect();
            all.merge(in_parallel(&firsts, |first| {
                let mut tally = Tally::default();
                let mut nth = *first;
                while one(script, *cause, nth, for_ever, wrap, &mut tally) {
                    nth += stride;
                }
                tally
            }));
        }
    }
    all
}

/// Tries one position. Returns `false` when the script ended before it.
fn one(
    script: &Script,
    cause: Cause,
    nth: u64,
    for_ever: bool,
    wrap: Wrap,
    tally: &mut Tally,
) -> bool {
    let often = if for_ever { "permanently" } else { "once" };
    let context = format!("{}, {cause:?} {often} from operation {nth}", script.name);
    let mut trial = Trial::new(script, cause, wrap, context);
    let ended = guarded(|| trial.run(nth, for_ever));
    if let Err(panic) = ended {
        trial.tally.fail(Verdict::Panic, trial.context.clone(), panic);
    }
    let hits = trial.hits;
    trial.tally.count_position(hits);
    tally.merge(trial.tally);
    hits > 0 && tally.failures.len() < 50
}

struct Trial<'a> {
    script: &'a Script,
    cause: Cause,
    wrap: Wrap,
    disk: Arc<CrashFs>,
    fs: Arc<FaultFs>,
    ledger: Arc<Mutex<Ledger>>,
    script_run: ScriptRun,
    context: String,
    tally: Tally,
    hits: u64,
}

impl<'a> Trial<'a> {
    fn new(script: &'a Script, cause: Cause, wrap: Wrap, context: String) -> Trial<'a> {
        let disk = CrashFs::seeded(script.seed);
        let made = disk.create_dir(std::path::Path::new("/data"));
        made.unwrap_or_else(|e| panic!("cannot create a directory on a new disk: {e}"));
        disk.sync_everything();
        let fs = FaultFs::new(disk.clone());
        let script_run = ScriptRun::of(wrap(fs.clone()), script);
        let ledger = script_run.ledger.clone();
        let tally = Tally::default();
        Trial { script, cause, wrap, disk, fs, ledger, script_run, context, tally, hits: 0 }
    }

    fn run(&mut self, nth: u64, for_ever: bool) {
        self.cause.arm(&self.disk, &self.fs, nth, for_ever);
        let mut failures = 0;
        for step in &self.script.steps {
            let was_open = self.script_run.db().is_some();
            match self.script_run.step(step) {
                Ok(Outcome::Done) => {}
                Ok(Outcome::Failed(error)) => {
                    failures += 1;
                    self.check_error(&error, step);
                }
                Err(violation) => self.tally.fail(Verdict::Wrong, self.at(step), violation.0),
            }
            let opened =
                self.script_run.db().is_some() && (!was_open || matches!(step, Step::Reopen));
            if opened && failures > 0 {
                self.adopt(step);
            }
            if failures <= 3 && failures > 0 {
                self.read_on(step);
            }
        }
        self.hits = self.cause.hits(&self.disk, &self.fs);
        if self.hits == 0 {
            return;
        }
        self.cause.disarm(&self.disk, &self.fs);
        self.check_images("before the next write");
        self.resume();
        self.check_images("after the next write");
    }

    fn at(&self, step: &Step) -> String {
        format!("{} at {step:?}", self.context)
    }

    /// Checks that the error has a suitable kind and a message.
    fn check_error(&mut self, error: &esker::Error, step: &Step) {
        let fits = match error.kind() {
            ErrorKind::Io | ErrorKind::NoSpace | ErrorKind::ReadOnly => true,
            // A file that ends early looks like damage.
            ErrorKind::Corruption => self.cause == Cause::Truncated,
            _ => false,
        };
        if !fits || error.to_string().len() < 10 {
            let message = format!("{:?}: {error}", error.kind());
            self.tally.fail(Verdict::Wrong, self.at(step), message);
        }
    }

    /// Checks that reads are correct, or return an error while reads fail.
    fn read_on(&mut self, step: &Step) {
        match self.script_run.read() {
            Ok(Outcome::Done) => {}
            Ok(Outcome::Failed(_)) if matches!(self.cause, Cause::Broken | Cause::Truncated) => {}
            Ok(Outcome::Failed(error)) => {
                self.tally.fail(Verdict::Lost, self.at(step), format!("a read failed: {error}"));
            }
            Err(violation) => self.tally.fail(Verdict::Wrong, self.at(step), violation.0),
        }
    }

    /// Accepts the content of a store opened after a failed write, which may hold that write.
    fn adopt(&mut self, step: &Step) {
        let Some(db) = self.script_run.db() else { return };
        let Ok(found) = super::content::content(db, None) else { return };
        let mut ledger = self.ledger.lock();
        let bounds = ledger.bounds;
        if found.digests != ledger.digests() && ledger.is_failed(&found.digests, 0, &bounds) {
            *ledger = ledger.recovered(&found.digests, &found.pairs);
        } else if found.digests != ledger.digests() {
            let context = format!("{} at {step:?}", self.context);
            self.tally.fail(
                Verdict::Wrong,
                context,
                "the opened store has other content than the written pairs",
            );
        }
    }

    /// Checks that the store accepts writes after the fault, at the latest after a reopening.
    fn resume(&mut self) {
        let op = super::ops::Op::Put(0, b"on".to_vec(), b"again".to_vec());
        let step = Step::Write(vec![op], true);
        if let Ok(Outcome::Done) = self.script_run.step(&step) {
            self.tally.count("resumed", 1);
            return;
        }
        let process = self.disk.next_process();
        self.fs = FaultFs::new(process);
        self.script_run.kill((self.wrap)(self.fs.clone()));
        if let Err(error) = self.script_run.open() {
            let context = format!("{} after reopening", self.context);
            return self.tally.fail(Verdict::Lost, context, error.to_string());
        }
        self.adopt(&Step::Reopen);
        self.read_on(&Step::Reopen);
        match self.script_run.step(&step) {
            Ok(Outcome::Done) => self.tally.count("resumed after reopening", 1),
            Ok(Outcome::Failed(error)) => {
                self.tally.fail(Verdict::Lost, self.at(&step), error.to_string());
            }
            Err(violation) => self.tally.fail(Verdict::Wrong, self.at(&step), violation.0),
        }
    }

    /// Cuts the power now, under several models.
    fn check_images(&mut self, when: &str) {
        let bounds = self.ledger.lock().bounds;
        let bounds = super::ledger::Bounds { checkpoints: (0, 0), ..bounds };
        for model in [
            CrashModel::SyncedOnly,
            CrashModel::Everything,
            CrashModel::Pages { seed: self.script.seed },
        ] {
            let image = self.disk.image(model);
            self.tally.count("images", 1);
            // Data dropped by a failed sync may be data that the reader has confirmed.
            let reader = self.script_run.reader.as_ref();
            let reader = reader.filter(|_| self.cause != Cause::SyncDrops);
            let encrypted = self.script.encrypted;
            let now_ms = bounds.now_ms;
            let checks = Checks { encrypted, reader, now_ms, ..Checks::default() };
            let found = check_image(&image, &self.script.options, None, checks);
            // Data dropped by a failed sync is lost, although the process may have acknowledged it
            // as buffered.
            let drops = self.cause == Cause::SyncDrops && model == CrashModel::Everything;
            let judged_as = if drops { CrashModel::SyncedOnly } else { model };
            let judged = found.and_then(|f| judge(&f, &self.ledger.lock(), bounds, judged_as));
            if let Err((verdict, message)) = judged {
                let context = format!("{}, power cut {when}, {}", self.context, model.name());
                self.tally.fail(verdict, context, message);
            }
        }
    }
}
