//! The error type of the engine.
//!
//! Programs branch on the [`ErrorKind`]. The message is for people: it states the path, the offset,
//! the expected content and the remedy. A missing key is `None`, never an error.

use std::any::Any;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The result of every fallible call of the engine.
pub type Result<T> = std::result::Result<T, Error>;

/// The category of an error. Each category calls for a different reaction of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller passed an invalid argument. The store is unchanged.
    InvalidArgument,
    /// The named store, keyspace or backup does not exist. Nothing was changed.
    NotFound,
    /// Bytes on disk differ from the bytes written. They were not returned to the caller.
    Corruption,
    /// The operating system refused an operation.
    Io,
    /// The device or a quota is full. No acknowledged write is lost.
    NoSpace,
    /// Another process or handle has the store open.
    Locked,
    /// The directory has another format, version or comparator, or belongs to another store.
    Incompatible,
    /// The store refuses writes: it was opened read-only, or an earlier log sync failed.
    ReadOnly,
    /// The handle was closed.
    Closed,
    /// A transaction conflicts with another commit. Nothing was written. Run the transaction again.
    Conflict,
    /// A wait for a lock, or of a write for memory, ended at its deadline. Nothing was written.
    Busy,
    /// Transactions wait for each other's locks. Nothing was written. Roll the transaction back and
    /// run it again.
    Deadlock,
}

impl ErrorKind {
    /// All kinds, in the order of `docs/errors.md`.
    #[doc(hidden)]
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
        ErrorKind::Conflict,
        ErrorKind::Busy,
        ErrorKind::Deadlock,
    ];

    /// Returns the name that the command line and the bindings print, such as `corruption`.
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
            ErrorKind::Conflict => "conflict",
            ErrorKind::Busy => "busy",
            ErrorKind::Deadlock => "deadlock",
        }
    }
}

/// An error: its kind, a message, and the path and offset if known.
///
/// Clones share their content, so cloning is cheap.
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
    /// Creates an error of `kind` with `message`.
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        let message = message.into();
        Error {
            inner: Arc::new(Inner { kind, message, path: None, offset_bytes: None, source: None }),
        }
    }

    /// Creates an [`ErrorKind::InvalidArgument`] error.
    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::InvalidArgument, message)
    }

    /// Creates an [`ErrorKind::NotFound`] error.
    pub(crate) fn not_found(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::NotFound, message)
    }

    /// Creates an [`ErrorKind::Corruption`] error for the byte at `offset_bytes` of `path`.
    pub(crate) fn corruption(path: &Path, offset_bytes: u64, message: impl Into<String>) -> Error {
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

    /// Creates an error for the failed operation `what` (such as "read") on `path`.
    ///
    /// A full device or quota becomes [`ErrorKind::NoSpace`], and an error of the engine inside of
    /// `source` stays what it is. Other errors become [`ErrorKind::Io`].
    pub(crate) fn io(path: &Path, what: &str, source: std::io::Error) -> Error {
        // A file system over another one knows more than the system's kinds of errors.
        if let Some(known) = source.get_ref().and_then(|e| e.downcast_ref::<Error>()) {
            return known.clone().with_path(path);
        }
        let full = matches!(
            source.kind(),
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded
        );
        let few = source.raw_os_error().and_then(descriptor_limit_hint).unwrap_or_default();
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

    /// Creates the error for a thread `name` of the store in `dir` that failed to start.
    pub(crate) fn thread_limit(dir: &Path, name: &str, source: std::io::Error) -> Error {
        if source.kind() == std::io::ErrorKind::OutOfMemory {
            return Error::mapping_limit(dir, &format!("start the thread {name}"), source);
        }
        let what = format!(
            "start the thread {name}: the process has reached a limit of threads; raise the limit \
             (ulimit -u, the container's pids.max, kernel.threads-max, kernel.pid_max, \
             vm.max_map_count), or keep fewer stores open"
        );
        Error::io(dir, &what, source)
    }

    /// Creates the error for an operation `what` of the store in `dir` that failed because the
    /// process reached its limit of memory mappings.
    pub(crate) fn mapping_limit(dir: &Path, what: &str, source: std::io::Error) -> Error {
        let what = format!(
            "{what}: the process has reached its limit of memory mappings; raise vm.max_map_count, \
             or keep fewer stores open"
        );
        Error::io(dir, &what, source)
    }

    /// Converts the error to `Corruption` if a file named by `named_by` is missing. Returns other
    /// errors unchanged.
    pub(crate) fn missing_as_corruption(self, named_by: &str) -> Error {
        match &self.inner.path {
            Some(path) if self.is_missing_file() => {
                let message = format!("{named_by} names this file, but the file does not exist");
                Error::corruption(path, 0, message)
            }
            _ => self,
        }
    }

    /// Adds `path` to the error unless it already has a path.
    pub(crate) fn with_path(self, path: &Path) -> Error {
        if self.inner.path.is_some() {
            return self;
        }
        Error {
            inner: Arc::new(Inner {
                kind: self.inner.kind,
                message: self.inner.message.clone(),
                path: Some(path.to_path_buf()),
                offset_bytes: self.inner.offset_bytes,
                source: self.inner.source.as_ref().map(copy_of),
            }),
        }
    }

    /// Returns the category of the error.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// Returns the file or directory concerned, if any.
    pub fn path(&self) -> Option<&Path> {
        self.inner.path.as_deref()
    }

    /// Returns the offset in that file, in bytes from its start, if known.
    pub fn offset_bytes(&self) -> Option<u64> {
        self.inner.offset_bytes
    }

    /// Returns the message without path, offset and source.
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// Returns the operating system's error code, such as `ENOSPC`, if it reported one.
    pub fn raw_os_error(&self) -> Option<i32> {
        self.inner.source.as_ref().and_then(std::io::Error::raw_os_error)
    }

    /// Returns whether the error reports corrupt bytes on disk.
    pub(crate) fn is_corruption(&self) -> bool {
        self.kind() == ErrorKind::Corruption
    }

    /// Returns whether the operating system reported a missing file.
    pub(crate) fn is_missing_file(&self) -> bool {
        self.inner.source.as_ref().is_some_and(|s| s.kind() == std::io::ErrorKind::NotFound)
    }
}

/// Returns the remedy for an operating-system error that reports a lack of file descriptors.
fn descriptor_limit_hint(raw_os_error: i32) -> Option<&'static str> {
    // The same numbers on every Unix.
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    match raw_os_error {
        EMFILE if cfg!(unix) => Some(
            ": the process has reached its limit of open files; raise the limit (ulimit -n), keep \
             fewer stores open, or lower open_files_max",
        ),
        ENFILE if cfg!(unix) => Some(
            ": the system has reached its limit of open files; raise fs.file-max, or keep fewer \
             stores open",
        ),
        _ => None,
    }
}

/// Copies an error, which cannot be cloned. The operating system's code is kept.
fn copy_of(error: &std::io::Error) -> std::io::Error {
    match error.raw_os_error() {
        Some(code) => std::io::Error::from_raw_os_error(code),
        None => std::io::Error::new(error.kind(), error.to_string()),
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

/// Returns the message of a panic.
pub(crate) fn panic_text(cause: &(dyn Any + Send)) -> &str {
    let text = cause.downcast_ref::<&str>().copied();
    let text = text.or_else(|| cause.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("the panic has no message")
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn error_display_has_path_message_and_source() {
        let path = Path::new("/db/x");
        let damaged = Error::corruption(path, 12, "expected 3, found 4");
        assert_eq!(damaged.to_string(), "/db/x: expected 3, found 4 (at byte 12)");
        assert_eq!(format!("{damaged:?}"), format!("Corruption: {damaged}"));
        assert_eq!((damaged.offset_bytes(), damaged.message()), (Some(12), "expected 3, found 4"));
        assert!(damaged.kind() == ErrorKind::Corruption && damaged.source().is_none());
        let full = std::io::Error::new(std::io::ErrorKind::StorageFull, "no room");
        let full = Error::io(path, "write", full);
        assert_eq!(full.kind(), ErrorKind::NoSpace);
        assert_eq!(full.to_string(), "/db/x: cannot write: no room");
        assert_eq!(full.source().unwrap().to_string(), "no room");
        assert_eq!(
            full.clone().with_path(Path::new("/y")).path(),
            Some(path),
            "the first path stays"
        );
        assert_eq!(Error::invalid("no").with_path(path).to_string(), "/db/x: no");
        let quota = std::io::Error::from_raw_os_error(libc::EDQUOT);
        assert_eq!(Error::io(path, "write", quota).kind(), ErrorKind::NoSpace);
        let gone = Error::io(path, "read", std::io::ErrorKind::NotFound.into());
        assert!(gone.kind() == ErrorKind::Io && gone.kind() != ErrorKind::NotFound);
        assert!(Error::not_found("none").kind() == ErrorKind::NotFound);
        assert_eq!(full.raw_os_error(), None);
        let quota = Error::io(path, "write", std::io::Error::from_raw_os_error(libc::EDQUOT));
        let elsewhere = quota.with_path(Path::new("/y"));
        assert_eq!(elsewhere.raw_os_error(), Some(libc::EDQUOT));
        let bare = Error::new(ErrorKind::Io, "no").raw_os_error();
        assert_eq!(bare, None);
    }
}
