//! Reads what an open store publishes in its file `STATUS`, also from another process.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::Db;
use super::dir::list_dir;
use super::status_file::{LiveStatus, STATUS_BYTES};
use crate::base::sync::thread;
use crate::error::{Error, Result};
use crate::fs::{Fs, OsFs, absolute};
use crate::tree::names;

/// Number of attempts to read the file while it is being written.
const TRIES: usize = 50;
/// Wait between two attempts.
const WAIT: Duration = Duration::from_millis(1);

impl Db {
    /// Returns the metrics that the process which has the store at `path` open for writing publishes
    /// there, about once a second (option `status_file`). Opens nothing, takes no lock, and does not
    /// disturb that process. A process that was killed leaves its last publication;
    /// [`LiveStatus::updated`] says how old it is.
    ///
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use esker::{Db, Options};
    /// let path = dir.path().join("db");
    /// let db = Db::open(&path, Options::default())?;
    /// // In this process or in another one:
    /// let live = Db::live_status(&path)?;
    /// assert_eq!(live.process, std::process::id());
    /// println!("{}", live.metrics);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NotFound` when there is no store, or when the store publishes nothing because it is not open
    /// for writing or its option `status_file` is off; `Corruption` when the file holds something
    /// else; `Io`.
    pub fn live_status(path: impl AsRef<Path>) -> Result<LiveStatus> {
        Db::live_status_on(OsFs::shared(), path)
    }

    /// Does the same as [`Db::live_status`], on the given file system.
    #[doc(hidden)]
    pub fn live_status_on(fs: Arc<dyn Fs>, path: impl AsRef<Path>) -> Result<LiveStatus> {
        let dir = &*absolute(&*fs, path.as_ref())?;
        let file = dir.join(names::STATUS);
        for attempt in 0..TRIES {
            if attempt > 0 {
                thread::sleep(WAIT);
            }
            match fs.read(&file, STATUS_BYTES as u64) {
                Ok(bytes) => {
                    if let Some(status) = LiveStatus::decode(&bytes) {
                        return Ok(status);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(nothing_published(&*fs, dir)?);
                }
                // The file is longer than a publication.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => break,
                Err(error) => {
                    let error = Error::io(&file, "read the published metrics", error);
                    // An encrypted file that is written at this moment looks damaged.
                    if !error.is_corruption() || attempt + 1 == TRIES {
                        return Err(error);
                    }
                }
            }
        }
        let message = "expected the published metrics of a store of this version, found other \
                       content";
        Err(Error::corruption(&file, 0, message))
    }
}

/// Returns the error for a directory without the file.
fn nothing_published(fs: &dyn Fs, dir: &Path) -> Result<Error> {
    if !list_dir(fs, dir)?.is_store(dir)? {
        return Ok(Error::not_found("there is no store here").with_path(dir));
    }
    let message = "the store publishes no metrics: it is not open for writing, or its option \
                   status_file is off; `esker stats` without --live shows what is on disk";
    Ok(Error::not_found(message).with_path(dir))
}
