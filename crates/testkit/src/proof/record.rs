//! The events of a thread, in a file that outlives the process, and the clock that orders them.
//!
//! A line is `c NUMBER ASKED` before an operation, and `o CALL RETURN ANSWER` (done), `f CALL
//! RETURN` (certainly without effect) or `u CALL RETURN` (unknown) after it. The numbers are those
//! of the clock. A line that a death has cut has no line end.
//!
//! Invariants: the line `c` is in the file before the operation starts. CALL is taken before the
//! operation, and RETURN after it.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers in the order of events, over all threads and all processes of a history.
#[derive(Debug)]
pub struct Clock(AtomicU64);

impl Clock {
    /// Creates a clock whose first number is `first`.
    pub fn new(first: u64) -> Clock {
        Clock(AtomicU64::new(first))
    }

    /// Returns a number that is higher than each one returned before.
    pub fn tick(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// How an operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The store acknowledged it.
    Done,
    /// It certainly has no effect.
    Failed,
    /// It may have an effect, and if so, before the end of its session.
    Unknown,
}

impl Outcome {
    /// Returns the first letter of its line.
    pub fn letter(self) -> char {
        match self {
            Outcome::Done => 'o',
            Outcome::Failed => 'f',
            Outcome::Unknown => 'u',
        }
    }
}

/// Returns the path of the events of a process.
pub fn path(dir: &Path, process: u64) -> PathBuf {
    dir.join(format!("events-{process}"))
}

/// The events of one thread in one session.
#[derive(Debug)]
pub struct Recorder<'a> {
    file: File,
    clock: &'a Clock,
    lines: String,
    call: u64,
}

impl<'a> Recorder<'a> {
    /// Creates the file of a process.
    ///
    /// # Errors
    /// The file system's error, also when the file exists.
    pub fn create(dir: &Path, process: u64, clock: &'a Clock) -> io::Result<Recorder<'a>> {
        let file = File::options().append(true).create_new(true).open(path(dir, process))?;
        Ok(Recorder { file, clock, lines: String::new(), call: 0 })
    }

    /// Returns a number of the clock, for a unique value.
    pub fn number(&self) -> u64 {
        self.clock.tick()
    }

    /// Records that the operation `asked` is about to start.
    ///
    /// # Errors
    /// The file system's error.
    pub fn call(&mut self, number: u64, asked: &str) -> io::Result<()> {
        self.line(format_args!("c {number} {asked}"));
        self.flush()?;
        self.call = self.clock.tick();
        Ok(())
    }

    /// Notes the end of the operation. The next line `c` brings it into the file.
    pub fn done(&mut self, outcome: Outcome, answer: &str) {
        let (call, now) = (self.call, self.clock.tick());
        let letter = outcome.letter();
        self.line(format_args!("{letter} {call} {now} {answer}"));
    }

    /// Writes what is noted.
    ///
    /// # Errors
    /// The file system's error.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.write_all(self.lines.as_bytes())?;
        self.lines.clear();
        Ok(())
    }

    fn line(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.lines, "{text}");
    }
}
