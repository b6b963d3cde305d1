//! A turn in a process of its own: for engines whose licence asks not to be linked into others, and
//! under a memory limit, where the system may end the process.
//!
//! The child is this very program, called with [`CHILD_ARGUMENTS`]. It reads one [`Request`] as JSON
//! from its standard input, runs the whole turn (so that nothing between the two is in any clock),
//! and writes one [`Reply`] to its standard output; what it says meanwhile goes to standard error.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::bench::say;
use crate::error::{LabError, LabErrorKind, Result};
use crate::experiment::plan::Point;
use crate::measure::limit::MemoryLimit;
use crate::record::schema::{SessionRecord, TaskSample};

/// What the child is called with.
pub const CHILD_ARGUMENTS: &[&str] = &["lab", "turn"];

/// What the child is to do.
#[derive(Debug, Serialize, Deserialize)]
pub struct Request {
    /// The engine, as `name` or `name=path`.
    pub engine: String,
    /// The flags that were given, by name.
    pub flags: BTreeMap<String, String>,
    /// Which turn.
    pub work: Work,
}

/// The kinds of turns.
#[derive(Debug, Serialize, Deserialize)]
pub enum Work {
    /// The tasks of a benchmark.
    Bench {
        /// Folder the engines' folders lie in.
        base_dir: PathBuf,
        /// From 0.
        repetition: usize,
        /// Place of the turn in the run.
        turn: usize,
    },
    /// A point of an experiment.
    Lab {
        /// The experiment's name.
        name: String,
        /// Its TOML.
        text: String,
        /// The point.
        point: Box<Point>,
        /// Seed of data and operations.
        seed: u64,
        /// Folder the engines' folders lie in.
        base_dir: PathBuf,
        /// From 0.
        repetition: usize,
        /// Place of the turn in the run.
        turn: usize,
    },
    /// A YCSB workload by itself.
    Ycsb {
        /// Its properties, as a file.
        properties: String,
        /// Whether the load is reported.
        load: bool,
        /// Whether the workload is run after it.
        run: bool,
    },
}

impl Work {
    /// The memory limit it is done under.
    fn memory_limit(&self) -> Option<u64> {
        match self {
            Work::Lab { point, .. } => point.memory_limit,
            Work::Bench { .. } | Work::Ycsb { .. } => None,
        }
    }
}

/// How a child ends that was interrupted: Ctrl-C goes to it and to this process alike.
const INTERRUPTED: i32 = 130;
/// Looks for this process's own end after a child's, 10 ms apart.
const ENDING_LOOKS: usize = 100;

/// How the system ends a process that needs more memory than it may have.
const KILLED: i32 = 9;

/// What the child answers.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Reply {
    /// The samples, each with its phase's label and its step.
    pub samples: Vec<(String, Option<String>, TaskSample)>,
    /// The turn as a whole; none for YCSB by itself.
    pub session: Option<SessionRecord>,
    /// What the engine was given.
    pub given: Vec<(String, String)>,
    /// What may have spoiled the turn.
    pub warnings: Vec<String>,
    /// Why it could not be run.
    pub error: Option<String>,
}

/// Called by the child: when its parent ends, it ends too.
pub fn end_with_parent() {
    // Where the system does not offer it, a child whose parent is killed ends after its turn.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
}

/// Runs a turn in a child of `program`. What the child says goes to `talk`. Fails when there is no
/// program to call, when the child ends without an answer, and with the error it answers.
pub fn run(program: Option<&Path>, request: &Request, talk: &mut dyn Write) -> Result<Reply> {
    let Some(program) = program else {
        return Err(LabError::new(
            LabErrorKind::NotInstalled,
            "runs in a process of its own only, and there is no program to call for it",
        ));
    };
    let fail = |what: &str, e: std::io::Error| {
        LabError::engine(format!("{}: cannot {what} a process of its own: {e}", request.engine))
    };
    let mut child = Command::new(program)
        .args(CHILD_ARGUMENTS)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| fail("start", e))?;
    if let Some(mut input) = child.stdin.take() {
        // A child that ended early is noticed by its missing answer.
        let _ = serde_json::to_writer(&mut input, request);
    }
    let (output, told) = (child.stdout.take(), child.stderr.take());
    let answer = std::thread::scope(|scope| {
        let reading = scope.spawn(move || {
            let mut text = Vec::new();
            let _ = output.map(|mut output| output.read_to_end(&mut text));
            text
        });
        for line in
            told.into_iter().flat_map(|told| BufReader::new(told).lines()).map_while(|l| l.ok())
        {
            say(talk, &line);
        }
        reading.join().unwrap_or_default()
    });
    let status = child.wait().map_err(|e| fail("end", e))?;
    MemoryLimit::remove_left(child.id());
    if status.code() == Some(INTERRUPTED) {
        // The end of this process may be under way; what the child left then is no result.
        for _ in 0..ENDING_LOOKS {
            super::place::wait_when_ending();
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
    let reply: Reply = serde_json::from_slice(&answer).map_err(|_| {
        let why = match request.work.memory_limit().filter(|_| status.signal() == Some(KILLED)) {
            Some(bytes) => format!(
                "needs more than the {} MiB that memory was limited to: the system ended its process",
                bytes >> 20
            ),
            None => format!("its process ended without an answer ({status})"),
        };
        LabError::engine(format!("{}: {why}", request.engine))
    })?;
    match reply.error {
        Some(error) => Err(LabError::engine(error)),
        None => Ok(reply),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        let work = Work::Ycsb { properties: String::new(), load: true, run: false };
        Request { engine: "none".into(), flags: BTreeMap::new(), work }
    }

    #[test]
    fn a_child_that_gives_no_answer_is_an_error_of_the_engine() {
        let error = |program: Option<&str>| {
            run(program.map(Path::new), &request(), &mut Vec::new()).expect_err("no answer")
        };
        assert!(error(Some("/bin/false")).to_string().contains("without an answer"));
        assert!(error(Some("/nonexistent")).to_string().contains("cannot start"));
        assert_eq!(error(None).kind(), LabErrorKind::NotInstalled);
    }
}
