//! Real file systems in files, cut off from power. The kernel drops all data not yet written to the
//! device (`FS_IOC_SHUTDOWN` without a flush of the journal). The file system is then mounted again
//! and replays its journal, and the remaining store is judged.
//!
//! Invariants: slots and messages are on another file system. No data recorded as durable may be
//! missing, whatever the victim did after the cut.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

use super::judge::{End, Judge};
use super::kills::{activity_at_death, end, start};
use super::plan;
use super::slots::{Phase, Slot, Slots, Task};
use super::victim::{EndMode, VictimParams};
use crate::campaign::tally::{Tally, Verdict, guarded};
use crate::rng::SplitMix64;

/// Shutdown flag: do not flush the journal first.
const WITHOUT_FLUSH: u32 = 2;

/// A kind of file system and how it is mounted.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// `ext4` or `xfs`.
    pub name: &'static str,
    /// The size of its image file.
    pub bytes: u64,
    /// Mount options, used in turn.
    pub mounts: &'static [&'static str],
}

/// The file systems that the kernel can cut off.
pub const KINDS: [Kind; 2] = [
    Kind {
        name: "ext4",
        bytes: 96 << 20,
        mounts: &["data=ordered", "data=writeback,noauto_da_alloc", "data=journal", "nodelalloc"],
    },
    Kind { name: "xfs", bytes: 320 << 20, mounts: &["noatime"] },
];

/// A file system in an image file.
struct Disk {
    image: PathBuf,
    mounted: PathBuf,
    kind: Kind,
}

fn run(program: &str, arguments: &[&str], paths: &[&Path]) -> io::Result<()> {
    let ran = Command::new(program).args(arguments).args(paths).output()?;
    if ran.status.success() {
        return Ok(());
    }
    let stderr_text = String::from_utf8_lossy(&ran.stderr).into_owned();
    Err(io::Error::other(format!("{program} {arguments:?} {paths:?}: {stderr_text}")))
}

impl Disk {
    fn make(dir: &Path, kind: Kind) -> io::Result<Disk> {
        let (image, mounted) = (dir.join("image"), dir.join("mounted"));
        std::fs::create_dir_all(&mounted)?;
        File::create(&image)?.set_len(kind.bytes)?;
        run(&format!("mkfs.{}", kind.name), &["-q"], &[&image])?;
        Ok(Disk { image, mounted, kind })
    }

    fn mount(&self, number: u64) -> io::Result<()> {
        let options = self.kind.mounts[number as usize % self.kind.mounts.len()];
        let options = format!("loop,{options}");
        run("mount", &["-t", self.kind.name, "-o", &options], &[&self.image, &self.mounted])
    }

    fn unmount(&self) -> io::Result<()> {
        for _ in 0..100 {
            if run("umount", &[], &[&self.mounted]).is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        run("umount", &[], &[&self.mounted])
    }

    fn cut(&self) -> io::Result<()> {
        const SHUTDOWN: Opcode = opcode::read::<u32>(b'X', 125);
        let root = File::open(&self.mounted)?;
        // SAFETY: this request takes a pointer to a `u32` and writes nothing.
        unsafe { ioctl(&root, Setter::<SHUTDOWN, u32>::new(WITHOUT_FLUSH)) }?;
        Ok(())
    }
}

/// Cuts off a file system of `kind` `cuts` times, with images in `dir`.
pub fn cuts(dir: &Path, kind: Kind, seed: u64, cuts: u64) -> Tally {
    let mut tally = Tally::default();
    let began = Instant::now();
    let stores = cuts.div_ceil(STORE_CUTS);
    for seed in seed..seed + stores {
        let left = STORE_CUTS.min(cuts - tally.of("cuts"));
        let dir = dir.join(format!("{}-{seed}", kind.name));
        if let Err(error) = store(&dir, kind, seed, left, &mut tally) {
            tally.fail(Verdict::Lost, format!("{} {seed}", kind.name), error.to_string());
        }
        if !tally.failures.is_empty() {
            eprintln!("kept for inspection: {}", dir.display());
            break;
        }
        let _ = std::fs::remove_dir_all(&dir);
        tally.count("stores", 1);
    }
    tally.elapsed = began.elapsed();
    tally
}

/// Maximum number of cuts of one store.
const STORE_CUTS: u64 = 50;

fn store(dir: &Path, kind: Kind, seed: u64, cuts: u64, tally: &mut Tally) -> io::Result<()> {
    let disk = Disk::make(dir, kind)?;
    let slots_path = dir.join("slots");
    let slots = Slots::open(&slots_path)?;
    slots.clear();
    let base = disk.mounted.join("base");
    let mut judge = Judge::new(&base, &slots, seed);
    let mut rng = plan::rng_at(seed, 100, 0);
    disk.mount(0)?;
    std::fs::create_dir_all(&base)?;
    File::open(&disk.mounted)?.sync_all()?;
    for round in 0..cuts {
        let end_mode = if rng.chance(2) { EndMode::Inside } else { EndMode::Outside };
        let (base, slots_path) = (base.clone(), slots_path.clone());
        let params = VictimParams { base, slots: slots_path, seed, round, end_mode };
        let context = format!("{} seed {seed}, cut {round}, {}", kind.name, end_mode.name());
        if !one(&disk, &params, &slots, &mut rng, tally, &context)? {
            break;
        }
        disk.unmount()?;
        disk.mount(round + 1)?;
        let writers = 0..plan::writers(seed);
        let acknowledged =
            || -> u64 { writers.clone().map(|writer| slots.get(Slot::Acknowledged(writer))).sum() };
        let before = acknowledged();
        for writer in writers.clone() {
            slots.set(Slot::Acknowledged(writer), slots.get(Slot::Durable(writer)));
        }
        if rng.chance(2) || round + 1 == cuts {
            let options = plan::options_of(seed, round + 1, 999);
            match guarded(|| judge.judge(End::Cut, &options)) {
                Ok(Ok(copies)) => {
                    tally.count("copies", copies);
                    // A cut without lost data would prove nothing.
                    tally.count("gone", before.saturating_sub(acknowledged()));
                }
                Ok(Err((verdict, message))) => tally.fail(verdict, context, message),
                Err(panic) => tally.fail(Verdict::Panic, context, panic),
            }
            tally.count("judged", 1);
        }
        if !tally.failures.is_empty() {
            // The image is kept unchanged.
            break;
        }
    }
    tally.count("operations", slots.get(Slot::Operations));
    disk.unmount()
}

/// Returns the slots whose numbers must survive a cut.
fn recorded_slots() -> Vec<Slot> {
    let durable = (0..plan::WRITERS_MAX).map(Slot::Durable);
    durable.chain([Slot::CopyDone, Slot::BackupDone]).collect()
}

/// Runs one victim and its cut. Returns whether the victim made no error before the cut.
fn one(
    disk: &Disk,
    params: &VictimParams,
    slots: &Slots,
    rng: &mut SplitMix64,
    tally: &mut Tally,
    context: &str,
) -> io::Result<bool> {
    slots.set(Slot::Phase, Phase::Starting as u64);
    slots.set(Slot::Task, Task::None as u64);
    slots.set(Slot::DeathOp, 0);
    let stderr_path = params.slots.with_file_name("stderr");
    let mut victim = start(params, &stderr_path)?;
    let most = [20_000, 300_000][rng.below(2) as usize];
    let lifetime = Duration::from_micros(2_000 + rng.below(most));
    let began = Instant::now();
    let mut ended = None;
    while ended.is_none() && began.elapsed() < lifetime {
        ended = victim.try_wait()?;
        std::thread::sleep(Duration::from_micros(300));
    }
    // A real power cut would end the victim too, so acknowledgements after the cut do not count.
    let recorded = |slot: &Slot| (*slot, slots.get(*slot));
    let before = recorded_slots().iter().map(recorded).collect::<Vec<_>>();
    disk.cut()?;
    tally.count("cuts", 1);
    tally.count(activity_at_death(slots), 1);
    end(victim, Duration::ZERO)?;
    let later = before.iter().filter(|(slot, number)| slots.get(*slot) > *number);
    tally.count("acknowledgements after the cut", later.count() as u64);
    before.iter().for_each(|(slot, number)| slots.set(*slot, *number));
    if let Some(code) = ended.and_then(|status| status.code()) {
        let stderr_text = std::fs::read_to_string(stderr_path).unwrap_or_default();
        tally.fail(
            Verdict::Lost,
            context,
            format!("the victim ended with code {code} before the cut: {stderr_text}"),
        );
        return Ok(false);
    }
    Ok(true)
}
