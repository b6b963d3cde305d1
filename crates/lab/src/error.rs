//! The error type of the lab: a kind for callers to branch on and a sentence to print.

use std::fmt;

/// Kind of an error, for callers that handle cases differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabErrorKind {
    /// Unknown flag, task or engine name; nothing was run.
    Usage,
    /// An engine's library is not installed on this machine; the message contains instructions.
    NotInstalled,
    /// Unusable input data, for example a CSV file without the named column.
    Data,
    /// An engine reported an error.
    Engine,
    /// The lab itself could not read or write a file.
    Io,
}

/// An error of the lab: its kind and a complete sentence without a final full stop.
#[derive(Clone, Debug)]
pub struct LabError {
    kind: LabErrorKind,
    message: String,
}

/// The lab's result type.
pub type Result<T> = std::result::Result<T, LabError>;

impl LabError {
    /// Creates an error with a kind and a message.
    pub fn new(kind: LabErrorKind, message: impl Into<String>) -> LabError {
        LabError { kind, message: message.into() }
    }

    /// Creates an error for an unknown flag, task or engine name.
    pub fn usage(message: impl Into<String>) -> LabError {
        LabError::new(LabErrorKind::Usage, message)
    }

    /// Creates an error from an engine's own message.
    pub fn engine(message: impl Into<String>) -> LabError {
        LabError::new(LabErrorKind::Engine, message)
    }

    /// Creates an error for a failed file operation of the lab on `path`.
    pub fn io(doing: &str, path: &std::path::Path, source: &std::io::Error) -> LabError {
        LabError::new(LabErrorKind::Io, format!("cannot {doing} {}: {source}", path.display()))
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> LabErrorKind {
        self.kind
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for LabError {}
