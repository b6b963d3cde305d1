//! Makes one history: starts its children one after the other, kills them, and collects their
//! events.
//!
//! Invariants: a child starts after the death of the one before it. The last child closes the store
//! and exits by itself. A child that reports a broken promise ends the history.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Error, Result};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::history::History;
use super::plan::{ChildParams, End, Plant, Subject};
use crate::rng::SplitMix64;
use crate::torture::plan::rng_at;

const SIGKILL: i32 = 9;

/// A child that says nothing for so long hangs.
const SILENCE: Duration = Duration::from_secs(900);

/// The parameters of a history.
#[derive(Debug, Clone)]
pub struct Run {
    /// An empty directory for the store and the events.
    pub dir: PathBuf,
    /// The program whose command `child` is [`super::child::run`].
    pub program: PathBuf,
    /// The kind of operations.
    pub subject: Subject,
    /// The planted bug.
    pub plant: Plant,
    /// The seed.
    pub seed: u64,
    /// Number of operations, roughly.
    pub operations: u64,
    /// Number of children before the last one. Most of them are killed.
    pub children: u64,
}

/// A history, and what happened in it.
#[derive(Debug, Clone, Default)]
pub struct Ran {
    /// The operations.
    pub history: History,
    /// Number of threads of each child.
    pub threads: u64,
    /// Number of children that died by SIGKILL.
    pub kills: u64,
    /// Number of syncs that failed.
    pub failed_syncs: u64,
    /// Number of openings of the store.
    pub openings: u64,
}

/// Where a history stands.
struct Progress {
    ran: Ran,
    rng: SplitMix64,
    /// Operations per millisecond of the child before.
    speed: u64,
}

impl Run {
    /// Makes the history.
    ///
    /// # Errors
    /// The message of a child that found a broken promise or panicked; the system's errors.
    pub fn run(&self) -> Result<Ran> {
        std::fs::create_dir_all(&self.dir)?;
        let mut rng = rng_at(self.seed, 70, 0);
        let threads = 4 + rng.below(13);
        let ran = Ran { threads, ..Ran::default() };
        let mut progress = Progress { ran, rng, speed: 10 };
        progress.ran.history.clock = 1;
        for round in 0..=self.children {
            self.round(round, &mut progress)?;
        }
        Ok(progress.ran)
    }

    /// Runs one child.
    fn round(&self, round: u64, progress: &mut Progress) -> Result<()> {
        let started = progress.ran.history.events.len() as u64;
        let left = self.operations.saturating_sub(started).max(1);
        let is_last = round == self.children;
        let end = match progress.rng.below(6) {
            _ if is_last => End::Finish,
            0 => End::Inside,
            1 | 2 => End::Syncs,
            _ => End::Outside,
        };
        let share = left / (self.children - round + 1);
        let count = if is_last { left } else { share / 2 + progress.rng.below(share) + 1 };
        let params = ChildParams {
            dir: self.dir.clone(),
            subject: self.subject,
            plant: self.plant,
            seed: self.seed,
            round,
            threads: progress.ran.threads,
            started,
            clock: progress.ran.history.clock,
            count,
            end,
        };
        let lifetime_us = 2_000 * count / progress.speed.max(1);
        let lifetime = Duration::from_micros(progress.rng.below(lifetime_us.max(1)));
        let began = Instant::now();
        self.child(&params, lifetime, &mut progress.ran)?;
        let ms = began.elapsed().as_millis().max(1) as u64;
        progress.ran.history = History::read(&self.dir)?;
        let done = progress.ran.history.events.len() as u64 - started;
        progress.speed = (done / ms).max(1);
        Ok(())
    }

    /// Starts a child and waits for its end, or kills it.
    fn child(&self, params: &ChildParams, lifetime: Duration, ran: &mut Ran) -> Result<()> {
        let stderr_path = self.dir.join("stderr");
        let mut child = Command::new(&self.program)
            .arg("child")
            .arg(&self.dir)
            .args(params.to_words())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&stderr_path)?)
            .spawn()?;
        let (send, lines) = channel();
        let stdout = child.stdout.take().ok_or_else(|| Error::other("a child has no output"))?;
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // The receiver waits for the end of the output.
                let _ = send.send(line);
            }
        });
        let status = end(&mut child, params.end, &lines, lifetime, ran)?;
        let _ = reader.join();
        lines.try_iter().for_each(|line| note(&line, ran));
        let killed = status.signal() == Some(SIGKILL);
        ran.kills += u64::from(killed);
        if killed || status.success() {
            return Ok(());
        }
        let stderr_text = std::fs::read_to_string(&stderr_path)?;
        let words = params.to_words().join(" ");
        Err(Error::other(format!("child {words}: {status}: {stderr_text}")))
    }
}

/// Counts what a child has said.
fn note(line: &str, ran: &mut Ran) {
    match line.split_once(' ') {
        Some(("failed", number)) => ran.failed_syncs += number.parse().unwrap_or(0),
        _ if line == "opened" => ran.openings += 1,
        _ => {}
    }
}

/// Waits until a child serves, and then until it is done, dies, or has lived for `lifetime`.
fn end(
    child: &mut Child,
    end: End,
    lines: &Receiver<String>,
    lifetime: Duration,
    ran: &mut Ran,
) -> Result<ExitStatus> {
    let is_killed = matches!(end, End::Outside | End::Syncs);
    let mut until: Option<Instant> = None;
    loop {
        let wait = until.map(|until| until.saturating_duration_since(Instant::now()));
        let line = match lines.recv_timeout(wait.unwrap_or(SILENCE)) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) if wait.is_none() => {
                child.kill()?;
                child.wait()?;
                return Err(Error::other(format!(
                    "a child said nothing for {SILENCE:?}: it hangs"
                )));
            }
            // Its time is over, or its output ended.
            Err(_) => break,
        };
        note(&line, ran);
        if line == "serving" && is_killed {
            until = Some(Instant::now() + lifetime);
        }
        if line == "done" {
            break;
        }
    }
    if is_killed {
        child.kill()?;
    }
    // Closes the standard input first.
    child.wait()
}
