//! Kills processes that write, and counts the keys that lost an acknowledged write.
//!
//! A child opens the store and writes, and sends a byte after each write that returned. This
//! process kills it, and lets another child read the store. The next child continues in the same
//! store, so recovery is also tested on what was recovered before.
//!
//! Write number `i` sets a slot that is a function of `i` to a value that is another one, so a reader
//! can say which write a value is from. The write that ran when the process was killed may or may
//! not be in the store.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use esker_lab::error::{LabError, LabErrorKind, Result};
use esker_lab::run::engine_dir::{EngineDir, wait_when_ending};
use esker_lab::target::{Durability, StoreOptions, Target};
use esker_lab::workload::rng::{Rng, mix};

use crate::bench::{engine_named, split_spec};

/// Arguments of the child that writes; the engine, the durability, the directory and the number of
/// the first write follow.
pub const WRITER_ARGUMENTS: &[&str] = &["lab", "engines", "kill-writer"];
/// Arguments of the child that reads; the engine, the durability and the directory follow.
pub const READER_ARGUMENTS: &[&str] = &["lab", "engines", "kill-reader"];

/// Number of keys.
const SLOTS: u64 = 20_000;
/// Sizes of keys and values in bytes.
const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 100;
/// Memtable size: small, so that some kills meet a flush or a compaction.
const MEMTABLE_BYTES: u64 = 1 << 20;
/// Time from a child's first write to its death, in ms.
const LIFE_MS: std::ops::Range<u64> = 20..400;
/// Time in which a child must open its store and write once, or read it.
const CHILD_TIMEOUT: Duration = Duration::from_secs(60);
/// Time between two looks at a child.
const LOOK: Duration = Duration::from_millis(1);
/// Signal that kills a child.
const SIGKILL: i32 = 9;

/// State of a slot, as the reading child sends it: the number of the write plus one.
const MISSING: u64 = 0;
/// State of a slot whose value is from no write.
const DAMAGED: u64 = u64::MAX;

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct Kills {
    /// Program of the children: this one.
    pub program: PathBuf,
    /// Directory of the stores.
    pub dir: PathBuf,
    /// Number of kills of each engine.
    pub kills: u64,
    /// Durability of the writes.
    pub durability: Durability,
    /// Seed of the moments of the kills.
    pub seed: u64,
}

/// What an engine kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Kills after which the store was read.
    pub kills: u64,
    /// Writes that had returned when their process was killed.
    pub acknowledged: u64,
    /// Keys that had an older value, or none, in all readings after a kill.
    pub lost_keys: u64,
    /// Kills after which at least one key had lost a write.
    pub kills_with_loss: u64,
    /// Keys with a value that was never written, or that an earlier reading did not find.
    pub wrong_keys: u64,
    /// Why the engine's run ended before all kills.
    pub failure: Option<String>,
}

/// Returns the slot of write `number`.
fn slot(number: u64) -> u64 {
    mix(number) % SLOTS
}

fn key(slot: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&mix(slot).to_be_bytes());
    key[8..].copy_from_slice(&slot.to_be_bytes());
    key
}

fn value(number: u64) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    value[..8].copy_from_slice(&number.to_le_bytes());
    let mut rng = Rng::new(number);
    for part in value[8..].chunks_mut(8) {
        part.copy_from_slice(&rng.next_u64().to_le_bytes()[..part.len()]);
    }
    value
}

/// Returns the state of a slot with `bytes` as its value.
fn state(slot_read: u64, bytes: &[u8]) -> u64 {
    let Some(first) = bytes.first_chunk::<8>() else { return DAMAGED };
    let number = u64::from_le_bytes(*first);
    match slot(number) == slot_read && bytes == value(number) {
        true => number.saturating_add(1),
        false => DAMAGED,
    }
}

fn open(spec: &str, dir: &Path, durability: Durability) -> Result<Box<dyn Target>> {
    let (name, path) = split_spec(spec);
    let options = StoreOptions {
        memtable_bytes: MEMTABLE_BYTES,
        data_bytes_expected: SLOTS * (KEY_BYTES + VALUE_BYTES) as u64,
        durability,
        ..StoreOptions::default()
    };
    engine_named(name, path)?.open(dir, &options)
}

fn no_reader(e: std::io::Error) -> LabError {
    LabError::new(LabErrorKind::Io, format!("nobody reads what this process sends: {e}"))
}

/// The writing child: writes from number `first` on, and sends a byte to `output` after each write.
/// Returns only an error.
pub fn write_until_killed(
    spec: &str,
    dir: &Path,
    first: u64,
    durability: Durability,
    output: &mut dyn Write,
) -> Result<()> {
    let store = open(spec, dir, durability)?;
    for number in first.. {
        let put = store.put(&key(slot(number)), &value(number), durability == Durability::Sync);
        if let Err(error) = put {
            // Closing the store may take long, and this process would seem to run.
            std::mem::forget(store);
            return Err(error);
        }
        output.write_all(&[1]).and_then(|()| output.flush()).map_err(no_reader)?;
    }
    Ok(())
}

/// The reading child: sends the state of each slot to `output`, as eight bytes.
pub fn read_slots(
    spec: &str,
    dir: &Path,
    durability: Durability,
    output: &mut dyn Write,
) -> Result<()> {
    let store = open(spec, dir, durability)?;
    let mut sent = Vec::with_capacity(SLOTS as usize * 8);
    for number in 0..SLOTS {
        let mut found = MISSING;
        store.get(&key(number), &mut |bytes| found = state(number, bytes))?;
        sent.extend_from_slice(&found.to_le_bytes());
    }
    store.close()?;
    output.write_all(&sent).and_then(|()| output.flush()).map_err(no_reader)
}

/// Checks that an engine, as `name` or `name=path`, can be run with this durability.
///
/// # Errors
/// An unknown engine, one that is not installed or keeps nothing in files, and one that cannot sync
/// where that is the durability.
pub fn check(spec: &str, durability: Durability) -> Result<()> {
    let (name, path) = split_spec(spec);
    let can = engine_named(name, path)?.capabilities();
    if !can.persistent {
        return Err(LabError::usage(format!("{name} keeps nothing in files")));
    }
    if durability == Durability::Sync && !can.sync {
        return Err(LabError::usage(format!("{name} cannot sync a write")));
    }
    Ok(())
}

/// Runs the engine `spec`, as `name` or `name=path`. A failure of the engine is part of the result.
/// `after_kill` is called after each kill. The store is removed, unless the engine failed or had
/// wrong values.
///
/// # Errors
/// Those of [`check`], and a failure of this process.
pub fn run(spec: &str, kills: &Kills, after_kill: &mut dyn FnMut(&Kept)) -> Result<Kept> {
    check(spec, kills.durability)?;
    let dir = EngineDir::prepare(&kills.dir, split_spec(spec).0)?;
    dir.empty()?;
    let mut rng = Rng::for_part(kills.seed, 0);
    let mut kept = Kept::default();
    let mut slots = vec![MISSING; SLOTS as usize];
    let mut next = 0;
    while kept.kills < kills.kills {
        let life_ms = LIFE_MS.start + rng.below(LIFE_MS.end - LIFE_MS.start);
        let life = life(spec, &dir.store(), next, Duration::from_millis(life_ms), kills)
            .and_then(|written| Ok((written, contents(spec, &dir.store(), kills)?)));
        // Ctrl-C also ends the child, which is no result.
        wait_when_ending();
        match life {
            Ok((written, found)) => {
                count(&mut kept, &mut slots, next, written, &found);
                next += written + 1;
            }
            Err(failure) => {
                kept.failure = Some(failure.to_string());
                break;
            }
        }
        after_kill(&kept);
    }
    if kept.failure.is_none() && kept.wrong_keys == 0 {
        // What is left is removed by the next run.
        let _ = dir.remove();
    }
    Ok(kept)
}

/// Compares what was found after a kill with the slots as they were, and with `written` writes
/// from number `first` on. The slots become what was found.
fn count(kept: &mut Kept, slots: &mut [u64], first: u64, written: u64, found: &[u64]) {
    for number in first..first + written {
        slots[slot(number) as usize] = number + 1;
    }
    let running = first + written;
    let mut lost = 0;
    for (index, (expected, found)) in slots.iter().zip(found).enumerate() {
        let is_running = *found == running + 1 && slot(running) == index as u64;
        match *found {
            DAMAGED => kept.wrong_keys += 1,
            found if found == *expected || is_running => {}
            // Not yet written, or lost before and back.
            found if found > *expected => kept.wrong_keys += 1,
            _ => lost += 1,
        }
    }
    kept.kills += 1;
    kept.acknowledged += written;
    kept.lost_keys += lost;
    kept.kills_with_loss += u64::from(lost > 0);
    slots.copy_from_slice(found);
}

/// A child, which is killed when this is dropped.
struct Running {
    child: Child,
    spec: String,
    /// File of its messages.
    messages: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        // A child that has ended is only waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    fn start(
        arguments: &[&str],
        spec: &str,
        dir: &Path,
        more: &[&str],
        kills: &Kills,
    ) -> Result<Running> {
        // A pipe that nobody reads would stop a child with many messages.
        let messages = dir.with_file_name("messages");
        let file = std::fs::File::create(&messages)
            .map_err(|e| LabError::io("create the file", &messages, &e))?;
        let child = Command::new(&kills.program)
            .args(arguments)
            .args([spec, kills.durability.name()])
            .arg(dir)
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(file)
            .spawn()
            .map_err(|e| LabError::engine(format!("{spec}: cannot start a process: {e}")))?;
        Ok(Running { child, spec: spec.into(), messages })
    }

    /// Kills the child, unless it has ended, and returns its status.
    fn end(&mut self) -> Result<ExitStatus> {
        let _ = self.child.kill();
        self.wait()
    }

    /// Waits until the child has ended by itself, and returns its status.
    fn wait(&mut self) -> Result<ExitStatus> {
        let fail = |e| LabError::engine(format!("{}: its process cannot end: {e}", self.spec));
        self.child.wait().map_err(fail)
    }

    /// Returns the error of a child that ended without being killed: its last message, or its
    /// status.
    fn ended_alone(&self, doing: &str, status: ExitStatus) -> LabError {
        let messages = std::fs::read(&self.messages).unwrap_or_default();
        let messages = String::from_utf8_lossy(&messages);
        let why = match messages.lines().last() {
            Some(line) => line.trim_start_matches("esker: ").to_string(),
            None => status.to_string(),
        };
        LabError::engine(format!("{}: the process that should {doing} ended: {why}", self.spec))
    }

    fn too_slow(&self, doing: &str) -> LabError {
        let seconds = CHILD_TIMEOUT.as_secs();
        LabError::engine(format!("{}: it did not {doing} in {seconds} s", self.spec))
    }
}

/// Starts a child, kills it some time after its first write, and returns the number of its
/// acknowledged writes.
fn life(spec: &str, dir: &Path, first: u64, time: Duration, kills: &Kills) -> Result<u64> {
    let mut running = Running::start(WRITER_ARGUMENTS, spec, dir, &[&first.to_string()], kills)?;
    let mut acknowledgements = running.child.stdout.take();
    let written = AtomicU64::new(0);
    let status = std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut buffer = [0; 4096];
            while let Some(output) = &mut acknowledgements {
                match output.read(&mut buffer) {
                    Ok(0) | Err(_) => break,
                    Ok(bytes) => written.fetch_add(bytes as u64, Ordering::Relaxed),
                };
            }
        });
        let begun = Instant::now();
        while written.load(Ordering::Relaxed) == 0
            && !reading.is_finished()
            && begun.elapsed() < CHILD_TIMEOUT
        {
            std::thread::sleep(LOOK);
        }
        if reading.is_finished() {
            // It has ended, or is about to.
            return running.wait();
        }
        std::thread::sleep(time);
        running.end()
    })?;
    let written = written.load(Ordering::Relaxed);
    match status.signal() {
        Some(SIGKILL) if written > 0 => Ok(written),
        Some(SIGKILL) => Err(running.too_slow("open its store and write once")),
        _ => Err(running.ended_alone("write", status)),
    }
}

/// Lets a child read the store.
fn contents(spec: &str, dir: &Path, kills: &Kills) -> Result<Vec<u64>> {
    let mut running = Running::start(READER_ARGUMENTS, spec, dir, &[], kills)?;
    let mut output = running.child.stdout.take();
    let (bytes, status) = std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut bytes = Vec::new();
            // A partial answer is told from a whole one by its length.
            let _ = output.as_mut().map(|output| output.read_to_end(&mut bytes));
            bytes
        });
        let begun = Instant::now();
        while !reading.is_finished() && begun.elapsed() < CHILD_TIMEOUT {
            std::thread::sleep(LOOK);
        }
        let status = match reading.is_finished() {
            true => running.wait(),
            false => running.end(),
        };
        (reading.join().unwrap_or_default(), status)
    });
    let status = status?;
    let slots: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b)).collect();
    match status.signal() {
        _ if status.success() && slots.len() as u64 == SLOTS => Ok(slots),
        Some(SIGKILL) => Err(running.too_slow("read its store")),
        _ => Err(running.ended_alone("read", status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(first: u64, written: u64, lose: &[u64]) -> Vec<u64> {
        let mut found = vec![MISSING; SLOTS as usize];
        for number in (first..first + written).filter(|number| !lose.contains(number)) {
            found[slot(number) as usize] = number + 1;
        }
        found
    }

    #[test]
    fn lost_damaged_and_running_writes_are_told_apart() {
        let none = vec![MISSING; SLOTS as usize];
        let counted = |found: &[u64]| {
            let (mut kept, mut slots) = (Kept::default(), none.clone());
            count(&mut kept, &mut slots, 0, 1000, found);
            assert_eq!(slots, found);
            (kept.acknowledged, kept.lost_keys, kept.kills_with_loss, kept.wrong_keys)
        };
        assert_eq!(counted(&after(0, 1000, &[])), (1000, 0, 0, 0));
        assert_eq!(counted(&after(0, 1001, &[])), (1000, 0, 0, 0));
        assert_eq!(counted(&after(0, 1000, &[999])), (1000, 1, 1, 0));
        // A write that was never made, and a value that nobody wrote.
        assert_eq!(counted(&after(0, 1002, &[])).3, 1);
        let mut torn = after(0, 1000, &[]);
        torn[slot(7) as usize] = DAMAGED;
        assert_eq!(counted(&torn), (1000, 0, 0, 1));
    }

    #[test]
    fn value_names_its_write_and_every_changed_byte_is_found() {
        for number in [0, 1, 19_999, 1_000_000] {
            let bytes = value(number);
            assert_eq!(state(slot(number), &bytes), number + 1);
            for index in 0..bytes.len() {
                let mut changed = bytes;
                changed[index] ^= 1;
                assert_eq!(state(slot(number), &changed), DAMAGED, "{number}, byte {index}");
            }
            assert_eq!(state(slot(number), &bytes[..VALUE_BYTES - 1]), DAMAGED);
            assert_eq!(state(slot(number) + 1, &bytes), DAMAGED);
        }
    }
}
