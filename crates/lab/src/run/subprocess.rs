//! Runs in a subprocess, for engines whose licence forbids linking them into other programs, and
//! under a memory limit, where the kernel may kill the process.
//!
//! The child is this program itself, called with [`CHILD_ARGUMENTS`]. It reads one [`Request`] as
//! JSON from its standard input, executes the whole run (so that no communication is part of a
//! measured time), and writes one [`Reply`] to its standard output. Its messages go to standard
//! error. The child of the task `recover` writes a line instead, and is killed
//! ([`super::unclosed`]).

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use serde::{Deserialize, Serialize};

use super::unclosed::Unclosed;
use crate::bench::print_message;
use crate::error::{LabError, LabErrorKind, Result};
use crate::experiment::plan::Point;
use crate::measure::limit::MemoryLimit;
use crate::record::schema::{SessionRecord, TaskSample};

/// Arguments of the child.
pub const CHILD_ARGUMENTS: &[&str] = &["lab", "round"];

/// Request to the child.
#[derive(Debug, Serialize, Deserialize)]
pub struct Request {
    /// Engine, as `name` or `name=path`.
    pub engine: String,
    /// Flags given by the user, by name.
    pub flags: BTreeMap<String, String>,
    /// Work of the run.
    pub work: Work,
}

/// Kinds of runs.
#[derive(Debug, Serialize, Deserialize)]
pub enum Work {
    /// The tasks of a benchmark.
    Bench {
        /// Parent directory of the engines' directories.
        base_dir: PathBuf,
        /// Repetition, from 0.
        repetition: usize,
        /// Number of the round in the benchmark.
        round: usize,
    },
    /// A point of an experiment.
    Lab {
        /// Name of the experiment.
        name: String,
        /// TOML text of the experiment.
        text: String,
        /// Point of the experiment.
        point: Box<Point>,
        /// Seed of data and operations.
        seed: u64,
        /// Parent directory of the engines' directories.
        base_dir: PathBuf,
        /// Repetition, from 0.
        repetition: usize,
        /// Number of the round in the experiment.
        round: usize,
    },
    /// Writes, says so instead of a [`Reply`], and kills its own process.
    Unclosed(Unclosed),
    /// The rows of redb's benchmark.
    Redb {
        /// Parent directory of the engines' directories.
        base_dir: PathBuf,
        /// Repetition, from 0.
        repetition: usize,
    },
    /// A single YCSB workload.
    Ycsb {
        /// Properties, as a file.
        properties: String,
        /// Whether the load phase is reported.
        load: bool,
        /// Whether the run phase follows the load phase.
        run: bool,
    },
    /// The workloads of a tuning, with one set of options, which is in the flags.
    Tune {
        /// The workloads, as the user names them.
        workloads: Vec<String>,
        /// Records of generated workloads.
        records: u64,
        /// Operations of each run phase; `None` for as many as records.
        operations: Option<u64>,
        /// YCSB properties: name and value.
        properties: Vec<(String, String)>,
        /// Points by which the share of reads may move.
        robust_points: Option<f64>,
        /// Share of the workloads' size.
        share: f64,
        /// Round, which selects the seed of the operations.
        round: usize,
        /// Parent directory of the engines' directories.
        base_dir: PathBuf,
    },
}

impl Work {
    /// Returns the memory limit of the work.
    fn memory_limit(&self) -> Option<u64> {
        match self {
            Work::Lab { point, .. } => point.memory_limit,
            Work::Bench { .. } | Work::Unclosed(_) | Work::Redb { .. } => None,
            Work::Ycsb { .. } | Work::Tune { .. } => None,
        }
    }
}

/// Exit code of an interrupted child; Ctrl-C reaches the child and this process alike.
const INTERRUPTED: i32 = 130;
/// Number of checks, 10 ms apart, whether this process is also ending after a child was
/// interrupted.
const ENDING_LOOKS: usize = 100;

/// Signal with which the kernel kills a process that exceeds its memory limit.
const KILLED: i32 = 9;

/// Answer of the child.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Reply {
    /// Samples, each with its phase's label and its step.
    pub samples: Vec<(String, Option<String>, TaskSample)>,
    /// Record of the run as a whole; `None` for a single YCSB workload.
    pub session: Option<SessionRecord>,
    /// Settings given to the engine.
    pub given: Vec<(String, String)>,
    /// Conditions that may have distorted the run.
    pub warnings: Vec<String>,
    /// Reason why the run was not possible.
    pub error: Option<String>,
}

/// Called by the child, so that it ends when its parent ends.
pub fn end_with_parent() {
    // Without support by the system, a child whose parent is killed ends after its run.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
}

/// Starts a child of `program` with a request, and waits until it has ended. Returns what it wrote to
/// its standard output, and how it ended. Its messages go to `messages`.
pub(super) fn exchange(
    program: Option<&Path>,
    request: &Request,
    messages: &mut dyn Write,
) -> Result<(Vec<u8>, ExitStatus)> {
    let Some(program) = program else {
        return Err(LabError::new(
            LabErrorKind::NotInstalled,
            "needs a separate process, but no program for it is known",
        ));
    };
    let fail = |what: &str, e: std::io::Error| {
        LabError::engine(format!("{}: cannot {what} a separate process: {e}", request.engine))
    };
    let mut child = Command::new(program)
        .args(CHILD_ARGUMENTS)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| fail("start", e))?;
    if let Some(mut input) = child.stdin.take() {
        // A child that ended early is detected by its missing answer.
        let _ = serde_json::to_writer(&mut input, request);
    }
    let (output, stderr) = (child.stdout.take(), child.stderr.take());
    let answer = std::thread::scope(|scope| {
        let reading = scope.spawn(move || {
            let mut text = Vec::new();
            let _ = output.map(|mut output| output.read_to_end(&mut text));
            text
        });
        for line in stderr
            .into_iter()
            .flat_map(|stderr| BufReader::new(stderr).lines())
            .map_while(|l| l.ok())
        {
            print_message(messages, &line);
        }
        reading.join().unwrap_or_default()
    });
    let status = child.wait().map_err(|e| fail("end", e))?;
    MemoryLimit::remove_left(child.id());
    Ok((answer, status))
}

/// Executes a run in a child of `program`. The child's messages go to `messages`. Fails if there is
/// no program, if the child ends without an answer, and with the error in the answer.
pub fn run(program: Option<&Path>, request: &Request, messages: &mut dyn Write) -> Result<Reply> {
    let (answer, status) = exchange(program, request, messages)?;
    if status.code() == Some(INTERRUPTED) {
        // This process may also be ending; the child's partial output is then not a result.
        for _ in 0..ENDING_LOOKS {
            super::engine_dir::wait_when_ending();
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
    let reply: Reply = serde_json::from_slice(&answer).map_err(|_| {
        let why = match request.work.memory_limit().filter(|_| status.signal() == Some(KILLED)) {
            Some(bytes) => format!(
                "needs more than the memory limit of {} MiB; the system ended its process",
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
    fn child_without_reply_is_an_engine_error() {
        let error = |program: Option<&str>| {
            run(program.map(Path::new), &request(), &mut Vec::new()).expect_err("no answer")
        };
        assert!(error(Some("/bin/false")).to_string().contains("without an answer"));
        assert!(error(Some("/nonexistent")).to_string().contains("cannot start"));
        assert_eq!(error(None).kind(), LabErrorKind::NotInstalled);
    }
}
