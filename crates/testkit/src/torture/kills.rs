//! Starts victims, ends them, judges the remaining stores, and counts the places of death.
//!
//! Invariants: about every second victim is not judged, so that the next one recovers its store and
//! may die during the recovery. The last victim of a store is judged.

use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::judge::{End, Judge};
use super::plan;
use super::slots::{FileKind, Phase, Slot, Slots, Task};
use super::victim::{EndMode, VictimParams};
use crate::campaign::tally::{Tally, Verdict, guarded};
use crate::fault::Op;
use crate::rng::SplitMix64;

/// How victims are started and ended.
pub struct Kills {
    /// Directory of the stores.
    pub dir: PathBuf,
    /// The first store's seed. Each later store has the next seed.
    pub seed: u64,
    /// Number of victims of a store.
    pub rounds: u64,
    /// Numbers of victims, out of twelve, that die from outside, from inside, and after faults.
    pub end_modes: [u64; 3],
    /// Maximum lifetime of a victim that dies from outside, in milliseconds.
    pub lifetime_ms_max: u64,
}

/// Maximum lifetime of a victim that ends itself. After it, the victim is ended from outside.
const SELF_KILL_TIMEOUT: Duration = Duration::from_millis(400);

const SIGKILL: i32 = 9;

/// Starts this program again as a victim.
///
/// # Errors
/// The system's error.
pub fn start(params: &VictimParams, stderr_path: &Path) -> io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .arg("victim")
        .args([&params.base, &params.slots])
        .args([params.seed.to_string(), params.round.to_string()])
        .arg(params.end_mode.name())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(stderr_path)?)
        .spawn()
}

/// Waits until a victim ends by itself or `lifetime` has passed, then ends it.
///
/// # Errors
/// The system's error.
pub fn end(mut victim: Child, lifetime: Duration) -> io::Result<ExitStatus> {
    let began = Instant::now();
    while began.elapsed() < lifetime {
        if let Some(status) = victim.try_wait()? {
            return Ok(status);
        }
        let left = lifetime.saturating_sub(began.elapsed());
        std::thread::sleep(left.min(Duration::from_micros(300)));
    }
    victim.kill()?;
    victim.wait()
}

/// Returns a description of a victim's activity at its death.
pub fn activity_at_death(slots: &Slots) -> &'static str {
    let op = slots.get(Slot::DeathOp);
    if op > 0 {
        let file = FileKind::ALL[slots.get(Slot::DeathFile) as usize % 5];
        return match file {
            FileKind::Log => "at an operation on a log",
            FileKind::Table => "at an operation on a table",
            FileKind::Manifest => "at an operation on a manifest",
            FileKind::Current => "at an operation on CURRENT",
            FileKind::Other if op == Op::SyncDir as u64 + 1 => "at a sync of a directory",
            FileKind::Other => "at an operation on another file",
        };
    }
    let (phase, task) = (slots.get(Slot::Phase), slots.get(Slot::Task));
    match phase {
        p if p == Phase::Starting as u64 => "before the first operation",
        p if p == Phase::Opening as u64 => "while the store opened",
        p if p == Phase::Closing as u64 => "while the store closed",
        _ if task == Task::Checkpoint as u64 => "during a checkpoint",
        _ if task == Task::Backup as u64 => "during a backup",
        _ if task == Task::Keyspace as u64 => "during a change of keyspaces",
        _ if task == Task::Compact as u64 => "during a requested compaction",
        _ if task == Task::Flush as u64 => "during a requested flush",
        _ => "between writes and reads",
    }
}

impl Kills {
    /// Ends `kills` victims, or as many as die before `until`. Stops at a store's first broken
    /// promise and keeps its files.
    pub fn run(&self, kills: u64, until: Option<Instant>) -> Tally {
        let mut tally = Tally::default();
        let began = Instant::now();
        let over = |tally: &Tally| {
            tally.of("kills") >= kills || until.is_some_and(|until| Instant::now() >= until)
        };
        for seed in self.seed.. {
            if over(&tally) {
                break;
            }
            let base = self.dir.join(format!("store-{seed}"));
            let broken = self.store(&base, seed, &mut tally, &over);
            if let Err(error) = broken {
                tally.fail(Verdict::Lost, format!("seed {seed}"), error.to_string());
            }
            if tally.failures.is_empty() {
                let _ = std::fs::remove_dir_all(&base);
            } else {
                eprintln!("kept for inspection: {}", base.display());
                break;
            }
            tally.count("stores", 1);
        }
        tally.elapsed = began.elapsed();
        tally
    }

    /// Runs all victims of one store.
    fn store(
        &self,
        base: &Path,
        seed: u64,
        tally: &mut Tally,
        over: &dyn Fn(&Tally) -> bool,
    ) -> io::Result<()> {
        std::fs::create_dir_all(base)?;
        let slots_path = base.join("slots");
        let slots = Slots::open(&slots_path)?;
        slots.clear();
        let mut judge = Judge::new(base, &slots, seed);
        let mut rng = plan::rng_at(seed, 99, self.rounds);
        for round in 0..self.rounds {
            let end_mode = self.end_mode(&mut rng);
            let base = base.to_path_buf();
            let params = VictimParams { base, slots: slots_path.clone(), seed, round, end_mode };
            let context = format!("seed {seed}, victim {round}, {}", end_mode.name());
            let fine = self.victim(&params, &slots, &mut rng, tally, &context)?;
            let last = round + 1 == self.rounds || over(tally);
            if fine && (rng.chance(2) || last) {
                let options = plan::options_of(seed, round + 1, 999);
                match guarded(|| judge.judge(End::Killed, &options)) {
                    Ok(Ok(copies)) => tally.count("copies", copies),
                    Ok(Err((verdict, message))) => tally.fail(verdict, context, message),
                    Err(panic) => tally.fail(Verdict::Panic, context, panic),
                }
                tally.count("judged", 1);
            }
            if last || !tally.failures.is_empty() {
                break;
            }
        }
        tally.count("operations", slots.get(Slot::Operations));
        tally.count("faults", slots.get(Slot::Faults));
        tally.count("openings", slots.get(Slot::Opened));
        Ok(())
    }

    fn end_mode(&self, rng: &mut SplitMix64) -> EndMode {
        let mut left = rng.below(self.end_modes.iter().sum());
        for (share, end_mode) in self.end_modes.into_iter().zip(EndMode::ALL) {
            if left < share {
                return end_mode;
            }
            left -= share;
        }
        EndMode::Outside
    }

    /// Starts and ends one victim. Returns whether the victim made no error.
    fn victim(
        &self,
        params: &VictimParams,
        slots: &Slots,
        rng: &mut SplitMix64,
        tally: &mut Tally,
        context: &str,
    ) -> io::Result<bool> {
        slots.set(Slot::Phase, Phase::Starting as u64);
        slots.set(Slot::Task, Task::None as u64);
        slots.set(Slot::DeathOp, 0);
        let stderr_path = params.base.join("stderr");
        let most = [3_000, 12_000, self.lifetime_ms_max * 1000][rng.below(3) as usize];
        let lifetime = match params.end_mode {
            EndMode::Inside => SELF_KILL_TIMEOUT,
            EndMode::Outside | EndMode::Faults => {
                Duration::from_micros(rng.below(most.min(self.lifetime_ms_max * 1000)))
            }
        };
        let status = end(start(params, &stderr_path)?, lifetime)?;
        tally.count("kills", 1);
        tally.count(activity_at_death(slots), 1);
        if status.signal() == Some(SIGKILL) {
            return Ok(true);
        }
        let stderr_text = std::fs::read_to_string(stderr_path).unwrap_or_default();
        let verdict = if stderr_text.contains("panicked") { Verdict::Panic } else { Verdict::Lost };
        tally.fail(verdict, context, format!("{status}: {stderr_text}"));
        Ok(false)
    }
}
