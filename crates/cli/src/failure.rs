//! Failures of commands: a kind, a message and an exit code.

use std::io;

use esker::ErrorKind;
use esker_lab::error::{LabError, LabErrorKind};
use serde_json::{Map, Value, json};

/// Exit code: a key was not found.
pub const NOT_FOUND: u8 = 1;
/// Exit code: the command line or its input is invalid.
pub const USAGE: u8 = 2;
/// Exit code: a store or a dump is corrupt.
pub const CORRUPTION: u8 = 3;
/// Exit code: input or output failed, or the state of the store does not allow the command.
pub const IO: u8 = 4;
/// Exit code: ended by Ctrl-C.
pub const INTERRUPTED: u8 = 130;

/// Kind of a missing key, which is not an error for the engine.
const KEY_NOT_FOUND: &str = "key not found";
/// Kind of an error reported by a measured engine.
const ENGINE: &str = "engine";

/// Result of a command: its exit code or its failure.
pub type Outcome = Result<u8, Failure>;

/// Reason for a command's failure.
#[derive(Debug)]
pub enum Failure {
    /// The reader of stdout closed the pipe; not an error.
    PipeClosed,
    /// Error of the engine.
    Engine(esker::Error),
    /// Any other failure: exit code, kind, message.
    Other(u8, &'static str, String),
}

impl Failure {
    /// Failure: the command line or its input is invalid.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::of(ErrorKind::InvalidArgument, message)
    }

    /// Failure with one of the engine's error kinds.
    pub fn of(kind: ErrorKind, message: impl Into<String>) -> Failure {
        Failure::Other(code_of(kind), kind.name(), message.into())
    }

    /// Failure: Ctrl-C ended the command. `message` states the result of its partial work.
    pub fn interrupted(message: impl Into<String>) -> Failure {
        Failure::Other(INTERRUPTED, "interrupted", message.into())
    }

    /// Failure: the key does not exist.
    pub fn key_not_found() -> Failure {
        Failure::Other(NOT_FOUND, KEY_NOT_FOUND, "not found".into())
    }

    /// Failure: a file outside the store cannot be read or written.
    pub fn file(what: &str, path: &std::path::Path, error: &io::Error) -> Failure {
        Failure::of(ErrorKind::Io, format!("{}: cannot {what}: {error}", path.display()))
    }

    /// Returns the same failure, with `place` before its message.
    pub fn with_place(self, place: &str) -> Failure {
        match self {
            Failure::PipeClosed => Failure::PipeClosed,
            Failure::Other(code, kind, message) => {
                Failure::Other(code, kind, format!("{place}: {message}"))
            }
            Failure::Engine(error) => {
                Failure::of(error.kind(), format!("{place}: {}", error.message()))
            }
        }
    }

    /// Returns the exit code.
    pub fn code(&self) -> u8 {
        match self {
            Failure::PipeClosed => 0,
            Failure::Other(code, ..) => *code,
            Failure::Engine(error) => code_of(error.kind()),
        }
    }

    /// Returns the kind, in one or two words.
    pub fn kind(&self) -> &'static str {
        match self {
            Failure::PipeClosed => "pipe closed",
            Failure::Other(_, kind, _) => kind,
            Failure::Engine(error) => error.kind().name(),
        }
    }

    /// Returns the message.
    pub fn message(&self) -> String {
        match self {
            Failure::PipeClosed => String::new(),
            Failure::Other(_, _, message) => message.clone(),
            Failure::Engine(error) => error.to_string(),
        }
    }

    /// Returns the failure as an object: kind, message and, if known, path and offset.
    pub fn to_json(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("kind".into(), json!(self.kind()));
        fields.insert("message".into(), json!(self.message()));
        if let Failure::Engine(error) = self {
            if let Some(path) = error.path() {
                fields.insert("path".into(), json!(path.display().to_string()));
            }
            if let Some(offset) = error.offset_bytes() {
                fields.insert("offset_bytes".into(), json!(offset));
            }
        }
        json!({ "error": fields })
    }

    /// Prints the failure on stderr.
    pub fn report(&self, json: bool) {
        if json {
            print_line(&self.to_json().to_string());
        } else {
            print_line(&format!("esker: {}", self.message()));
        }
    }
}

/// Returns the exit code of an engine error kind.
fn code_of(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::InvalidArgument => USAGE,
        ErrorKind::Corruption => CORRUPTION,
        _ => IO,
    }
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Failure {
        let message = error.to_string();
        match error.kind() {
            LabErrorKind::Usage | LabErrorKind::Data => Failure::usage(message),
            LabErrorKind::NotInstalled => Failure::of(ErrorKind::NotFound, message),
            LabErrorKind::Io => Failure::of(ErrorKind::Io, message),
            LabErrorKind::Engine => Failure::Other(IO, ENGINE, message),
        }
    }
}

impl From<esker::Error> for Failure {
    fn from(error: esker::Error) -> Failure {
        Failure::Engine(error)
    }
}

/// Converts an error of writing to stdout.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure::PipeClosed;
        }
        Failure::of(ErrorKind::Io, format!("cannot write the output: {error}"))
    }
}

/// Returns whether the process was called with `--json`, for code without access to the arguments.
pub fn json_asked() -> bool {
    std::env::args_os().any(|arg| arg == "--json")
}

/// Prints a note on stderr: a line, or an object that contains it.
pub fn print_note(json: bool, line: &str) {
    if json {
        print_line(&json!({ "note": line.trim_start_matches("esker: ") }).to_string());
    } else {
        print_line(line);
    }
}

/// Writes a line to stderr. A write error is ignored, since there is no other place to report it.
pub fn print_line(line: &str) {
    use std::io::Write;
    let _ = writeln!(io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_match_documentation() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md");
        let page = std::fs::read_to_string(page).unwrap();
        let mut failures: Vec<Failure> = ErrorKind::ALL
            .iter()
            .map(|kind| esker::internals::error(*kind, "", None).into())
            .collect();
        failures.push(Failure::key_not_found());
        failures.push(Failure::interrupted(""));
        failures.push(LabError::engine("").into());
        for failure in &failures {
            let kind = failure.kind();
            let row = page.lines().find(|line| line.starts_with(&format!("| `{kind}` |")));
            let row = row.unwrap_or_else(|| panic!("docs/errors.md has no row for {kind}"));
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            assert_eq!(cells[5], failure.code().to_string(), "{row}");
        }
        for kind in [LabErrorKind::Usage, LabErrorKind::NotInstalled, LabErrorKind::Io] {
            let kind = Failure::from(LabError::new(kind, "")).kind();
            assert!(failures.iter().any(|failure| failure.kind() == kind), "{kind}");
        }
    }
}
