//! One error type for the lab: a kind to branch on and a sentence to print.

use std::fmt;

/// What went wrong, as far as a caller may want to tell cases apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabErrorKind {
    /// A flag, a task or an engine name that means nothing; nothing was run.
    Usage,
    /// An engine's library is not on this machine; the message says how to install it.
    NotInstalled,
    /// Input data that cannot be used (a CSV without the named column, for example).
    Data,
    /// An engine reported an error.
    Engine,
    /// The lab itself could not read or write a file.
    Io,
}

/// An error of the lab: its kind and a whole sentence without a final full stop.
#[derive(Clone, Debug)]
pub struct LabError {
    kind: LabErrorKind,
    message: String,
}

/// The lab's result type.
pub type Result<T> = std::result::Result<T, LabError>;

impl LabError {
    /// An error of `kind` that says `message`.
    pub fn new(kind: LabErrorKind, message: impl Into<String>) -> LabError {
        LabError { kind, message: message.into() }
    }

    /// A flag, task or engine name that means nothing.
    pub fn usage(message: impl Into<String>) -> LabError {
        LabError::new(LabErrorKind::Usage, message)
    }

    /// An engine's own error, as it was reported.
    pub fn engine(message: impl Into<String>) -> LabError {
        LabError::new(LabErrorKind::Engine, message)
    }

    /// A failed file operation of the lab on `path`.
    pub fn io(doing: &str, path: &std::path::Path, source: &std::io::Error) -> LabError {
        LabError::new(LabErrorKind::Io, format!("cannot {doing} {}: {source}", path.display()))
    }

    /// What kind of error this is.
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
