//! Pinned directories: directories that are held open, so that their paths keep their meaning.
//!
//! The meaning of a path can change. The program may change its working directory. Anyone may
//! rename a directory and give its name to another directory, which would then receive the files of
//! the first. The names of an open store are therefore looked up in the opened directory ([`Pin`]),
//! with `openat` and similar calls.
//!
//! Invariant: a path at or below a pinned path refers to the pinned directory, wherever that
//! directory is now. The path itself serves only for messages.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, openat, statat};
use rustix::io::retry_on_intr;

/// A pinned directory.
#[derive(Debug, Clone)]
pub(super) struct Pin {
    /// Path of the directory when it was opened.
    path: PathBuf,
    dir: Arc<File>,
}

/// The directory and name for the lookup of a path.
pub(super) struct Lookup<'a> {
    pub dir: BorrowedFd<'a>,
    pub name: &'a Path,
    pub pin: Option<&'a Pin>,
}

impl Pin {
    /// Opens the directory `path`, relative to the innermost matching pin of `pins`.
    pub fn new(pins: &[Pin], path: &Path) -> io::Result<Pin> {
        let place = Lookup::of(pins, path);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = retry_on_intr(|| openat(place.dir, place.name, flags, Mode::empty()));
        let dir = opened.map_err(|error| place.explain(error.into()))?;
        Ok(Pin { path: path.to_path_buf(), dir: Arc::new(File::from(dir)) })
    }

    /// Returns the open directory.
    pub fn dir(&self) -> &Arc<File> {
        &self.dir
    }

    /// Returns whether the directory is still at its original path.
    pub fn is_unmoved(&self) -> bool {
        self.is(&self.path)
    }

    fn is(&self, path: &Path) -> bool {
        match (fstat(&self.dir), statat(CWD, path, AtFlags::empty())) {
            (Ok(held), Ok(named)) => (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino),
            _ => false,
        }
    }

    /// Returns the current path of the directory if the system provides it, else the original path.
    pub fn path_now(&self) -> PathBuf {
        let link = format!("/proc/self/fd/{}", self.dir.as_raw_fd());
        let now = std::fs::read_link(link).ok().filter(|now| self.is(now));
        now.unwrap_or_else(|| self.path.clone())
    }

    /// Returns an error unless the directory is still at its original path.
    pub fn check_name(&self) -> io::Result<()> {
        if self.is_unmoved() {
            return Ok(());
        }
        let message = "a store was opened under this path, and its directory was moved or removed \
                       afterwards; use another path, or close that store first";
        Err(io::Error::new(io::ErrorKind::InvalidInput, message))
    }

    /// Returns an error if the directory was removed.
    pub fn check_exists(&self) -> io::Result<()> {
        match fstat(&self.dir) {
            Ok(held) if held.st_nlink == 0 => {
                let path = self.path.display();
                let message = format!("the directory {path} was removed while it was in use");
                Err(io::Error::other(message))
            }
            _ => Ok(()),
        }
    }
}

impl<'a> Lookup<'a> {
    /// Returns the directory and name for the lookup of `path`: relative to the innermost pin of
    /// `pins` at or above `path` (the latest of equal pins), or relative to the working directory
    /// if there is no such pin.
    pub fn of(pins: &'a [Pin], path: &'a Path) -> Lookup<'a> {
        let below = pins.iter().filter(|pin| path.starts_with(&pin.path));
        let Some(pin) = below.max_by_key(|pin| pin.path.components().count()) else {
            return Lookup { dir: CWD, name: path, pin: None };
        };
        let name = path.strip_prefix(&pin.path).unwrap_or(path);
        let name = if name.as_os_str().is_empty() { Path::new(".") } else { name };
        Lookup { dir: pin.dir.as_fd(), name, pin: Some(pin) }
    }

    /// Returns whether this refers to a pinned directory itself.
    pub fn names_pin(&self) -> bool {
        self.pin.is_some() && self.name == Path::new(".")
    }

    /// Returns the pin of the directory that directly contains this name, if that directory is
    /// pinned.
    pub fn pin_of_file(&self) -> Option<&'a Pin> {
        self.pin.filter(|_| !self.names_pin() && self.name.components().count() == 1)
    }

    /// Returns an error if the pinned directory of this lookup was removed.
    pub fn check_exists(&self) -> io::Result<()> {
        self.pin.map_or(Ok(()), Pin::check_exists)
    }

    /// Returns `error`, or, if `error` is `NotFound` because the pinned directory was removed, an
    /// error that says so.
    pub fn explain(&self, error: io::Error) -> io::Error {
        match error.kind() {
            io::ErrorKind::NotFound => self.check_exists().err().unwrap_or(error),
            _ => error,
        }
    }
}
