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
use super::slots::{Chore, FileKind, Phase, Slot, Slots};
use super::victim::{Orders, Way};
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
    pub ways: [u64; 3],
    /// Maximum life of a victim that dies from outside, in milliseconds.
    pub life_ms_max: u64,
}

/// Maximum life of a victim that ends itself. After it, the victim is ended from outside.
const PATIENCE: Duration = Duration::from_millis(400);

const SIGKILL: i32 = 9;

/// Starts this program again as a victim.
///
/// # Errors
/// The system's error.
pub fn start(orders: &Orders, said: &Path) -> io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .arg("victim")
        .args([&orders.base, &orders.slots])
        .args([orders.seed.to_string(), orders.round.to_string()])
        .arg(orders.way.name())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(said)?)
        .spawn()
}

/// Waits until a victim ends by itself or `life` has passed, then ends it.
///
/// # Errors
/// The system's error.
pub fn end(mut victim: Child, life: Duration) -> io::Result<ExitStatus> {
    let began = Instant::now();
    while began.elapsed() < life {
        if let Some(status) = victim.try_wait()? {
            return Ok(status);
        }
        let left = life.saturating_sub(began.elapsed());
        std::thread::sleep(left.min(Duration::from_micros(300)));
    }
    victim.kill()?;
    victim.wait()
}

/// Returns a description of a victim's activity at its death.
pub fn whereabouts(slots: &Slots) -> &'static str {
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
    let (phase, chore) = (slots.get(Slot::Phase), slots.get(Slot::Chore));
    match phase {
        p if p == Phase::Starting as u64 => "before the first operation",
        p if p == Phase::Opening as u64 => "while the store opened",
        p if p == Phase::Closing as u64 => "while the store closed",
        _ if chore == Chore::Checkpoint as u64 => "during a checkpoint",
        _ if chore == Chore::Backup as u64 => "during a backup",
        _ if chore == Chore::Compact as u64 => "during a requested compaction",
        _ if chore == Chore::Flush as u64 => "during a requested flush",
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
            let way = self.way(&mut rng);
            let base = base.to_path_buf();
            let orders = Orders { base, slots: slots_path.clone(), seed, round, way };
            let place = format!("seed {seed}, victim {round}, {}", way.name());
            let fine = self.victim(&orders, &slots, &mut rng, tally, &place)?;
            let last = round + 1 == self.rounds || over(tally);
            if fine && (rng.chance(2) || last) {
                let options = plan::options_of(seed, (round + 1) * 1000 + 999);
                match guarded(|| judge.judge(End::Killed, &options)) {
                    Ok(Ok(copies)) => tally.count("copies", copies),
                    Ok(Err((verdict, message))) => tally.fail(verdict, place, message),
                    Err(panic) => tally.fail(Verdict::Panic, place, panic),
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

    fn way(&self, rng: &mut SplitMix64) -> Way {
        let mut left = rng.below(self.ways.iter().sum());
        for (share, way) in self.ways.into_iter().zip(Way::ALL) {
            if left < share {
                return way;
            }
            left -= share;
        }
        Way::Outside
    }

    /// Starts and ends one victim. Returns whether the victim made no error.
    fn victim(
        &self,
        orders: &Orders,
        slots: &Slots,
        rng: &mut SplitMix64,
        tally: &mut Tally,
        place: &str,
    ) -> io::Result<bool> {
        slots.set(Slot::Phase, Phase::Starting as u64);
        slots.set(Slot::Chore, Chore::None as u64);
        slots.set(Slot::DeathOp, 0);
        let said = orders.base.join("said");
        let most = [3_000, 12_000, self.life_ms_max * 1000][rng.below(3) as usize];
        let life = match orders.way {
            Way::Inside => PATIENCE,
            Way::Outside | Way::Faults => {
                Duration::from_micros(rng.below(most.min(self.life_ms_max * 1000)))
            }
        };
        let status = end(start(orders, &said)?, life)?;
        tally.count("kills", 1);
        tally.count(whereabouts(slots), 1);
        if status.signal() == Some(SIGKILL) {
            return Ok(true);
        }
        let said = std::fs::read_to_string(said).unwrap_or_default();
        let verdict = if said.contains("panicked") { Verdict::Panic } else { Verdict::Lost };
        tally.fail(verdict, place, format!("{status}: {said}"));
        Ok(false)
    }
}
