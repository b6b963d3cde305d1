//! Directories that are held open, so that they stay the ones they are.
//!
//! A path says where something is now. The program may change its working directory, and anyone may
//! rename a directory and give its name to another, which then gets what was meant for the first. So
//! an open store's names are looked up in the directory that was opened ([`Pin`]), by `openat` and its
//! like. What stays true: a path at or below a pinned one means what is in that directory, wherever it
//! lies now; the path itself is for messages.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, openat, statat};
use rustix::io::retry_on_intr;

/// A directory that is held open.
#[derive(Debug, Clone)]
pub(super) struct Pin {
    /// Where it was when it was opened.
    path: PathBuf,
    dir: Arc<File>,
}

/// Where a name is looked up.
pub(super) struct Place<'a> {
    pub dir: BorrowedFd<'a>,
    pub name: &'a Path,
    pub pin: Option<&'a Pin>,
}

impl Pin {
    /// Opens the directory `path`, looked up in `pins`.
    pub fn new(pins: &[Pin], path: &Path) -> io::Result<Pin> {
        let place = Place::of(pins, path);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = retry_on_intr(|| openat(place.dir, place.name, flags, Mode::empty()));
        let dir = opened.map_err(|error| place.explain(error.into()))?;
        Ok(Pin { path: path.to_path_buf(), dir: Arc::new(File::from(dir)) })
    }

    /// The directory itself.
    pub fn dir(&self) -> &Arc<File> {
        &self.dir
    }

    /// Whether its path is still its name.
    pub fn is_where_it_was(&self) -> bool {
        self.is(&self.path)
    }

    fn is(&self, path: &Path) -> bool {
        match (fstat(&self.dir), statat(CWD, path, AtFlags::empty())) {
            (Ok(held), Ok(named)) => (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino),
            _ => false,
        }
    }

    /// Where it is now, where the system says so; else where it was.
    pub fn path_now(&self) -> PathBuf {
        let link = format!("/proc/self/fd/{}", self.dir.as_raw_fd());
        let now = std::fs::read_link(link).ok().filter(|now| self.is(now));
        now.unwrap_or_else(|| self.path.clone())
    }

    /// An error unless its path is still its name.
    pub fn check_name(&self) -> io::Result<()> {
        if self.is_where_it_was() {
            return Ok(());
        }
        let message = "a store was opened under this path, and its directory has been moved or removed \
                       since; use another path, or close that store first";
        Err(io::Error::new(io::ErrorKind::InvalidInput, message))
    }

    /// An error when the directory was removed.
    pub fn check_there(&self) -> io::Result<()> {
        match fstat(&self.dir) {
            Ok(held) if held.st_nlink == 0 => {
                let path = self.path.display();
                let message =
                    format!("the directory {path} is gone: it was removed while it was in use");
                Err(io::Error::other(message))
            }
            _ => Ok(()),
        }
    }
}

impl<'a> Place<'a> {
    /// Where `path` is looked up: in the innermost of `pins` that it is at or below, the latest of
    /// equals; as the process has it, if there is none.
    pub fn of(pins: &'a [Pin], path: &'a Path) -> Place<'a> {
        let below = pins.iter().filter(|pin| path.starts_with(&pin.path));
        let Some(pin) = below.max_by_key(|pin| pin.path.components().count()) else {
            return Place { dir: CWD, name: path, pin: None };
        };
        let name = path.strip_prefix(&pin.path).unwrap_or(path);
        let name = if name.as_os_str().is_empty() { Path::new(".") } else { name };
        Place { dir: pin.dir.as_fd(), name, pin: Some(pin) }
    }

    /// Whether this is a pinned directory itself.
    pub fn names_pin(&self) -> bool {
        self.pin.is_some() && self.name == Path::new(".")
    }

    /// The pin of the directory that a file here lies in, if it is pinned itself.
    pub fn pin_of_file(&self) -> Option<&'a Pin> {
        self.pin.filter(|_| !self.names_pin() && self.name.components().count() == 1)
    }

    /// An error when the directory that holds this place was removed.
    pub fn check_there(&self) -> io::Result<()> {
        self.pin.map_or(Ok(()), Pin::check_there)
    }

    /// `error`, or that nothing can be found because the directory was removed.
    pub fn explain(&self, error: io::Error) -> io::Error {
        match error.kind() {
            io::ErrorKind::NotFound => self.check_there().err().unwrap_or(error),
            _ => error,
        }
    }
}
