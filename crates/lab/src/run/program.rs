//! Rounds that a program runs instead of the lab, for systems that are not a library.
//!
//! The program gets a line of JSON on its standard input ([`ProgramRequest`]). Its standard output
//! has a line of JSON for each phase ([`ProgramLine`]), in order. What it writes to standard error
//! are messages. The input stays open as long as the lab runs: the program, and all that it has
//! started, must end when its input does.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

use crate::bench::print_message;
use crate::error::{LabError, Result};
use crate::experiment::program::ProgramFile;
use crate::measure::histogram::LatencySummary;
use crate::measure::timeline::Timeline;
use crate::record::schema::{KindSample, TaskSample};
use crate::target::{Capabilities, Engine, StoreOptions, Target};

/// Time that a program has to end after its input.
const ENDING_MAX: Duration = Duration::from_secs(60);
/// Interval in which an ending program is looked at.
const ENDING_LOOK: Duration = Duration::from_millis(50);

/// What a program is to run.
#[derive(Debug, Serialize)]
pub struct ProgramRequest {
    /// Name of the engine in the experiment.
    pub engine: String,
    /// Names of the phases, in order.
    pub phases: Vec<String>,
    /// Number of records of a load.
    pub entries: u64,
    /// Number of operations of a phase that is not a load.
    pub operations: u64,
    /// Number of client threads.
    pub threads: usize,
    /// Seed of data and operations.
    pub seed: u64,
    /// Repetition, from 0.
    pub repetition: usize,
    /// An empty directory for its files. The lab removes it afterwards.
    pub directory: PathBuf,
    /// YCSB's properties of the series.
    pub properties: BTreeMap<String, String>,
}

/// What a program reports: about itself, or of a phase.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProgramLine {
    /// What runs, with its version. A line with this has no phase.
    pub about: Option<String>,
    /// Name of the phase.
    pub phase: Option<String>,
    /// Operations that ran.
    pub operations: u64,
    /// Wall time of the phase in seconds.
    pub seconds: f64,
    /// Operations that found their record.
    pub found: Option<u64>,
    /// Reads whose value was not the one written.
    pub wrong: u64,
    /// Latencies of all operations.
    pub latency: Option<LatencySummary>,
    /// Latencies of each kind of operation.
    pub kinds: Vec<KindSample>,
    /// Operations that ended in each tenth of a second.
    pub tenths: Vec<u32>,
    /// Greatest resident memory of its processes together, in bytes.
    pub peak_memory_bytes: Option<u64>,
    /// Bytes on disk after the phase.
    pub disk_bytes: Option<u64>,
    /// Why the phase failed.
    pub error: Option<String>,
    /// Why the phase does not apply.
    pub not_available: Option<String>,
}

/// An engine whose rounds a program runs. It opens no store.
#[derive(Clone, Debug)]
pub struct Program {
    name: String,
    file: ProgramFile,
}

impl Program {
    /// Creates the engine `name` of an experiment.
    pub fn new(name: &str, file: &ProgramFile) -> Program {
        Program { name: name.into(), file: file.clone() }
    }

    /// Runs a round. Returns what the program says about itself, and the sample of each phase; a
    /// phase that the program did not report has an error. Messages go to `messages`.
    ///
    /// # Errors
    /// The program cannot be started, or reported no phase at all.
    pub fn round(
        &self,
        request: &ProgramRequest,
        messages: &mut dyn Write,
    ) -> Result<(Option<String>, Vec<TaskSample>)> {
        let mut running = Running::start(self, request)?;
        let (mut reported, problem) = running.lines(self, request, messages);
        let ended = running.end();
        let about = reported.iter().find_map(|line| line.about.clone());
        reported.retain(|line| line.phase.is_some());
        let why = problem.unwrap_or_else(|| format!("the program {ended} before this phase"));
        if reported.is_empty() {
            return Err(LabError::engine(format!("no phase was reported: {why}")));
        }
        let mut samples: Vec<TaskSample> = Vec::new();
        for (position, phase) in request.phases.iter().enumerate() {
            let mut sample = TaskSample::new(&self.name, phase, position, request.repetition);
            match reported.get(position) {
                Some(line) if line.phase.as_ref() == Some(phase) => {
                    fill(&mut sample, line, request.threads);
                }
                Some(line) => {
                    let found = line.phase.as_deref().unwrap_or_default();
                    sample.error = Some(format!("the program reported {found:?} in its place"));
                }
                None => sample.error = Some(why.clone()),
            }
            samples.push(sample);
        }
        Ok((about, samples))
    }
}

impl Engine for Program {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> String {
        format!("the program {}", self.file.command.get_ref().join(" "))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            sync: false,
            compact: false,
            checksums: false,
            concurrent_writers: true,
            persistent: true,
            transactions: false,
            merge: false,
            bulk_load: false,
        }
    }

    fn given(&self, _options: &StoreOptions) -> Vec<(String, String)> {
        Vec::new()
    }

    fn open(&self, _dir: &Path, _options: &StoreOptions) -> Result<Box<dyn Target>> {
        Err(LabError::usage(format!("{} is a program and opens no store", self.name)))
    }
}

/// Fills a sample with what a program has measured.
fn fill(sample: &mut TaskSample, line: &ProgramLine, threads: usize) {
    sample.operations = line.operations;
    sample.elapsed_seconds = line.seconds;
    if line.operations > 0 && line.seconds > 0.0 {
        let operations = line.operations as f64;
        sample.ops_per_sec = Some(operations / line.seconds);
        sample.micros_per_op = Some(line.seconds * 1e6 * threads as f64 / operations);
    }
    sample.found = line.found;
    sample.wrong = line.wrong;
    sample.latency.clone_from(&line.latency);
    sample.kinds.clone_from(&line.kinds);
    if !line.tenths.is_empty() {
        sample.timeline = Some(Timeline { operations: line.tenths.clone() });
    }
    sample.peak_memory_bytes = line.peak_memory_bytes;
    sample.disk_bytes = line.disk_bytes;
    sample.error.clone_from(&line.error);
    if line.wrong > 0 && sample.error.is_none() {
        sample.error = Some(format!("{} reads returned a value that was not written", line.wrong));
    }
    if let Some(why) = &line.not_available {
        sample.error = Some(why.clone());
        sample.not_available = true;
    }
}

/// What a running program writes.
enum Output {
    Line(String),
    Message(String),
    /// It has closed its standard output.
    End,
}

/// A running program.
struct Running {
    child: Child,
    output: Receiver<Output>,
    deadline: Instant,
}

impl Running {
    fn start(program: &Program, request: &ProgramRequest) -> Result<Running> {
        let command = program.file.command.get_ref();
        let (first, rest) = command
            .split_first()
            .ok_or_else(|| LabError::usage(format!("the command of {} is empty", program.name)))?;
        let mut line = serde_json::to_vec(request).map_err(|e| LabError::engine(e.to_string()))?;
        line.push(b'\n');
        let mut child = Command::new(first)
            .args(rest)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own, so that all that it has started can be ended with it.
            .process_group(0)
            .spawn()
            .map_err(|e| {
                LabError::engine(format!(
                    "cannot start {first} (a relative path is from the current directory): {e}"
                ))
            })?;
        let (sender, output) = channel();
        pass(child.stdout.take(), sender.clone(), Output::Line, Some(Output::End));
        pass(child.stderr.take(), sender, Output::Message, None);
        let deadline = Instant::now() + Duration::from_secs(*program.file.timeout_s.get_ref());
        if let Some(input) = &mut child.stdin {
            // A program that ended early is known by its missing lines.
            let _ = input.write_all(&line).and_then(|()| input.flush());
        }
        Ok(Running { child, output, deadline })
    }

    /// Reads what the program writes until it has reported all phases or closes its output. Also
    /// returns why it was not read further.
    fn lines(
        &mut self,
        program: &Program,
        request: &ProgramRequest,
        messages: &mut dyn Write,
    ) -> (Vec<ProgramLine>, Option<String>) {
        let mut lines: Vec<ProgramLine> = Vec::new();
        let reported = |lines: &[ProgramLine]| {
            lines.iter().filter(|line| line.phase.is_some()).count() >= request.phases.len()
        };
        while !reported(&lines) {
            let left = self.deadline.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(Output::Message(text)) => print_message(messages, &text),
                Ok(Output::Line(text)) => match serde_json::from_str(&text) {
                    Ok(line) => lines.push(line),
                    Err(e) => {
                        let shown: String = text.chars().take(200).collect();
                        let why =
                            format!("expected a line of JSON for a phase, found {shown:?}: {e}");
                        return (lines, Some(why));
                    }
                },
                Err(RecvTimeoutError::Timeout) => {
                    let seconds = program.file.timeout_s.get_ref();
                    let why = format!("the round took longer than timeout_s, {seconds} s");
                    return (lines, Some(why));
                }
                // Its children may still have the other pipe open.
                Ok(Output::End) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        (lines, None)
    }

    /// Closes the program's input, waits until it has ended, and says how it did. A program that
    /// does not end is killed, and so is what it has left.
    fn end(&mut self) -> String {
        drop(self.child.stdin.take());
        let last = Instant::now() + ENDING_MAX;
        let ended = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break format!("ended ({status})"),
                Ok(None) if Instant::now() < last => std::thread::sleep(ENDING_LOOK),
                Ok(None) | Err(_) => break "did not end with its input, and was killed".into(),
            }
        };
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        ended
    }
}

/// Passes on what a pipe has, line by line, until it is closed.
fn pass(
    pipe: Option<impl Read + Send + 'static>,
    sender: Sender<Output>,
    kind: impl Fn(String) -> Output + Send + 'static,
    end: Option<Output>,
) {
    let Some(pipe) = pipe else { return };
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n').map_while(|line| line.ok()) {
            let line = String::from_utf8_lossy(&line).into_owned();
            if sender.send(kind(line)).is_err() {
                return;
            }
        }
        if let Some(end) = end {
            let _ = sender.send(end);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(script: &str, timeout_s: u64) -> Program {
        let command = ["sh", "-c", script].map(String::from).to_vec();
        let command = toml::Spanned::new(0..0, command);
        let file = ProgramFile { command, timeout_s: toml::Spanned::new(0..0, timeout_s) };
        Program::new("other", &file)
    }

    fn round(script: &str, timeout_s: u64) -> Result<(Option<String>, Vec<TaskSample>)> {
        let request = ProgramRequest {
            engine: "other".into(),
            phases: vec!["ycsb load a".into(), "ycsb a".into()],
            entries: 10,
            operations: 20,
            threads: 2,
            seed: 1,
            repetition: 0,
            directory: PathBuf::from("nowhere"),
            properties: BTreeMap::new(),
        };
        program(script, timeout_s).round(&request, &mut Vec::new())
    }

    const LOAD: &str =
        r#"echo '{"phase":"ycsb load a","operations":10,"seconds":2,"tenths":[4,6]}'"#;

    #[test]
    fn phases_of_a_program_become_samples() {
        let script = format!(
            "read -r line; echo \"$line\" >&2; echo '{{\"about\":\"it\"}}'; {LOAD}; \
             echo '{{\"phase\":\"ycsb a\",\"operations\":20,\"seconds\":1,\"found\":7}}'; cat"
        );
        let (about, samples) = round(&script, 60).expect("a round");
        assert_eq!(about.as_deref(), Some("it"));
        assert_eq!(samples[0].micros_per_op, Some(400_000.0));
        assert_eq!(samples[0].timeline.as_ref().map(|t| t.operations.clone()), Some(vec![4, 6]));
        assert_eq!((samples[1].operations, samples[1].found), (20, Some(7)));
        assert!(samples.iter().all(|sample| sample.error.is_none()), "{samples:?}");
    }

    #[test]
    fn what_a_program_leaves_out_is_an_error_of_the_phase() {
        let (_, samples) = round(&format!("{LOAD}; exit 3"), 60).expect("a round");
        assert!(samples[0].error.is_none());
        let error = samples[1].error.clone().unwrap_or_default();
        assert!(error.contains("before this phase") && error.contains('3'), "{error}");
        let other = LOAD.replace("load a", "b");
        let (_, samples) = round(&format!("{other}; {LOAD}"), 60).expect("a round");
        assert!(samples[0].error.as_deref().unwrap_or_default().contains("\"ycsb b\""));
    }

    #[test]
    fn a_program_that_is_silent_is_ended() {
        // On a busy machine the time may be over before its first phase.
        let why = match round(&format!("{LOAD}; cat >/dev/null"), 1) {
            Ok((_, samples)) => samples[1].error.clone().unwrap_or_default(),
            Err(error) => error.to_string(),
        };
        assert!(why.contains("longer than timeout_s, 1 s"), "{why}");
    }

    #[test]
    fn what_is_no_json_and_what_cannot_start_are_errors() {
        let error = round("echo loading", 60).expect_err("no JSON").to_string();
        assert!(error.contains("\"loading\""), "{error}");
        let (_, samples) = round(&format!("{LOAD}; echo running; cat"), 60).expect("a phase");
        let error = samples[1].error.clone().unwrap_or_default();
        assert!(error.contains("\"running\"") && samples[0].error.is_none(), "{error}");
        assert!(round("exit 4", 60).expect_err("nothing").to_string().contains('4'));
        let mut absent = program("", 60);
        absent.file.command = toml::Spanned::new(0..0, vec!["/nonexistent/program".into()]);
        let running = Running::start(
            &absent,
            &ProgramRequest {
                engine: String::new(),
                phases: Vec::new(),
                entries: 1,
                operations: 1,
                threads: 1,
                seed: 1,
                repetition: 0,
                directory: PathBuf::new(),
                properties: BTreeMap::new(),
            },
        );
        let error = running.err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains("/nonexistent/program"), "{error}");
    }

    #[test]
    fn a_program_ends_its_round_though_its_children_have_its_messages() {
        let (_, samples) =
            round(&format!("{LOAD}; sleep 600 >/dev/null & exit 0"), 60).expect("one");
        assert!(samples[1].error.is_some() && samples[0].error.is_none());
    }

    #[test]
    fn wrong_values_are_a_failure_and_a_missing_task_is_none() {
        let script = "echo '{\"phase\":\"ycsb load a\",\"operations\":10,\"seconds\":1,\"wrong\":2}'; \
                      echo '{\"phase\":\"ycsb a\",\"not_available\":\"no scans\"}'";
        let (_, samples) = round(script, 60).expect("a round");
        assert!(samples[0].failed());
        assert!(!samples[1].failed() && samples[1].not_available);
    }
}
