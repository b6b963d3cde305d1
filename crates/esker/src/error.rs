//! The one error type of the engine.
//!
//! A caller branches on the [`ErrorKind`]; a person reads the message, which states the path, the
//! offset, what was expected and what to do. A missing key is `None`, never an error.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The result of every fallible call of the engine.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, in the few ways a program can react to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller passed something the store cannot take; nothing was changed.
    InvalidArgument,
    /// The store or backup that was named is not there; nothing was changed.
    NotFound,
    /// Bytes on disk are not what was written; they were not served.
    Corruption,
    /// The operating system refused an operation.
    Io,
    /// The device or a quota is full; nothing that was acknowledged is lost.
    NoSpace,
    /// Another process or handle has the store open.
    Locked,
    /// The directory is of another format, version or comparator, or of another store.
    Incompatible,
    /// The store takes no writes: it was opened so, or a log sync failed earlier.
    ReadOnly,
    /// The handle was closed.
    Closed,
}

impl ErrorKind {
    /// Every kind, in the order of `docs/errors.md`.
    pub const ALL: &'static [ErrorKind] = &[
        ErrorKind::InvalidArgument,
        ErrorKind::NotFound,
        ErrorKind::Corruption,
        ErrorKind::Io,
        ErrorKind::NoSpace,
        ErrorKind::Locked,
        ErrorKind::Incompatible,
        ErrorKind::ReadOnly,
        ErrorKind::Closed,
    ];

    /// The kind as the command line and the bindings print it, such as `corruption`.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::InvalidArgument => "invalid argument",
            ErrorKind::NotFound => "not found",
            ErrorKind::Corruption => "corruption",
            ErrorKind::Io => "i/o",
            ErrorKind::NoSpace => "no space",
            ErrorKind::Locked => "locked",
            ErrorKind::Incompatible => "incompatible",
            ErrorKind::ReadOnly => "read-only",
            ErrorKind::Closed => "closed",
        }
    }
}

/// An error with its kind, a sentence, and where it happened.
///
/// Cloning is cheap: the content is shared.
#[derive(Clone)]
pub struct Error {
    inner: Arc<Inner>,
}

struct Inner {
    kind: ErrorKind,
    message: String,
    path: Option<PathBuf>,
    offset_bytes: Option<u64>,
    source: Option<std::io::Error>,
}

impl Error {
    /// An error of `kind` that says `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        let message = message.into();
        Error {
            inner: Arc::new(Inner { kind, message, path: None, offset_bytes: None, source: None }),
        }
    }

    /// An [`ErrorKind::InvalidArgument`] error.
    pub fn invalid(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::InvalidArgument, message)
    }

    /// An [`ErrorKind::NotFound`] error.
    pub fn not_found(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::NotFound, message)
    }

    /// An [`ErrorKind::Corruption`] error about the byte at `offset_bytes` of `path`.
    pub fn corruption(path: &Path, offset_bytes: u64, message: impl Into<String>) -> Error {
        Error {
            inner: Arc::new(Inner {
                kind: ErrorKind::Corruption,
                message: message.into(),
                path: Some(path.to_path_buf()),
                offset_bytes: Some(offset_bytes),
                source: None,
            }),
        }
    }

    /// An error of the operating system while doing `what` (such as "read") to `path`.
    ///
    /// A full device or quota becomes [`ErrorKind::NoSpace`], everything else [`ErrorKind::Io`].
    pub fn io(path: &Path, what: &str, source: std::io::Error) -> Error {
        let full = matches!(
            source.kind(),
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded
        );
        let few = source.raw_os_error().and_then(few_descriptors).unwrap_or_default();
        Error {
            inner: Arc::new(Inner {
                kind: if full { ErrorKind::NoSpace } else { ErrorKind::Io },
                message: format!("cannot {what}{few}"),
                path: Some(path.to_path_buf()),
                offset_bytes: None,
                source: Some(source),
            }),
        }
    }

    /// The thread `name` of the store in `dir` cannot be started.
    pub(crate) fn no_thread(dir: &Path, name: &str, source: std::io::Error) -> Error {
        if source.kind() == std::io::ErrorKind::OutOfMemory {
            return Error::no_mappings(dir, &format!("start the thread {name}"), source);
        }
        let what = format!(
            "start the thread {name}, as the process may have no more threads: raise its limit \
             (ulimit -u, the container's pids.max, kernel.threads-max, kernel.pid_max, \
             vm.max_map_count), or keep fewer stores open"
        );
        Error::io(dir, &what, source)
    }

    /// The store in `dir` cannot do `what` for want of mappings of memory.
    pub(crate) fn no_mappings(dir: &Path, what: &str, source: std::io::Error) -> Error {
        let what = format!(
            "{what}, as the process may have no more mappings of memory: raise vm.max_map_count, or \
             keep fewer stores open"
        );
        Error::io(dir, &what, source)
    }

    /// The same error, or `Corruption` when a file that `named_by` names is not there.
    pub(crate) fn missing_is_damage(self, named_by: &str) -> Error {
        match &self.inner.path {
            Some(path) if self.is_missing_file() => {
                let message = format!("{named_by} names this file, but it is not there");
                Error::corruption(path, 0, message)
            }
            _ => self,
        }
    }

    /// The same error with `path` added if it had none.
    pub fn at(self, path: &Path) -> Error {
        if self.inner.path.is_some() {
            return self;
        }
        Error {
            inner: Arc::new(Inner {
                kind: self.inner.kind,
                message: self.inner.message.clone(),
                path: Some(path.to_path_buf()),
                offset_bytes: self.inner.offset_bytes,
                source: self
                    .inner
                    .source
                    .as_ref()
                    .map(|s| std::io::Error::new(s.kind(), s.to_string())),
            }),
        }
    }

    /// What a program can react to.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// The file or directory concerned, where there is one.
    pub fn path(&self) -> Option<&Path> {
        self.inner.path.as_deref()
    }

    /// The position in that file, in bytes from its start, where it is known.
    pub fn offset_bytes(&self) -> Option<u64> {
        self.inner.offset_bytes
    }

    /// The sentence without path, offset and source.
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// Whether bytes on disk were found to be wrong.
    pub fn is_corruption(&self) -> bool {
        self.kind() == ErrorKind::Corruption
    }

    /// Whether the store or backup that was named is not there.
    pub fn is_not_found(&self) -> bool {
        self.kind() == ErrorKind::NotFound
    }

    /// Whether the operating system said that a file is not there.
    pub(crate) fn is_missing_file(&self) -> bool {
        self.inner.source.as_ref().is_some_and(|s| s.kind() == std::io::ErrorKind::NotFound)
    }
}

/// What to do about an error of the operating system's that says that there are no descriptors.
fn few_descriptors(raw_os_error: i32) -> Option<&'static str> {
    match rustix::io::Errno::from_raw_os_error(raw_os_error) {
        rustix::io::Errno::MFILE => Some(
            ", as the process has as many files open as it may: raise its limit (ulimit -n), keep \
             fewer stores open, or lower open_files_max",
        ),
        rustix::io::Errno::NFILE => Some(
            ", as the system has as many files open as it may: raise fs.file-max, or keep fewer \
             stores open",
        ),
        _ => None,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let i = &self.inner;
        if let Some(path) = &i.path {
            write!(f, "{}: ", path.display())?;
        }
        write!(f, "{}", i.message)?;
        if let Some(offset) = i.offset_bytes {
            write!(f, " (at byte {offset})")?;
        }
        if let Some(source) = &i.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.kind())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.inner.source.as_ref().map(|s| s as _)
    }
}
