//! Reads the records of the logs in order, from one log to the next.
//!
//! Invariants: records have consecutive ordinals, also over the bounds of logs. A log that does not
//! continue the one before is never taken for the next one: it was created and not used, or a crash
//! lost what came before it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::key::SeqNo;
use crate::db::dir::list_dir;
use crate::error::{Error, Result};
use crate::fs::Fs;
use crate::tree::names;
use crate::wal::{LogEnd, LogReader, LogRecord};

/// Number of looks at logs that another thread or process changes.
const ATTEMPTS: usize = 10;

/// Returns the numbers of the logs in `dir`, ascending, with their lengths in bytes.
pub(in crate::db) fn logs_in(fs: &dyn Fs, dir: &Path) -> Result<Vec<(u64, u64)>> {
    let entries = list_dir(fs, dir)?.entries;
    let mut logs: Vec<(u64, u64)> =
        entries.iter().filter_map(|e| Some((names::parse_log(&e.name)?, e.len_bytes))).collect();
    logs.sort_unstable();
    Ok(logs)
}

/// Opens a log. Returns `None` if it is gone or has not begun.
pub(in crate::db) fn open_log(fs: &dyn Fs, dir: &Path, number: u64) -> Result<Option<LogReader>> {
    let path = names::log_path(dir, number);
    let mut opened = LogReader::open(fs, &path, number);
    for _ in 1..ATTEMPTS {
        // A log that begins meanwhile may look damaged for a moment.
        if !opened.as_ref().is_err_and(Error::is_corruption) {
            break;
        }
        opened = LogReader::open(fs, &path, number);
    }
    match opened {
        Err(error) if error.is_missing_file() => Ok(None),
        opened => opened.map(|reader| Some(reader).filter(|reader| reader.start().is_some())),
    }
}

/// What is known about the records behind the position of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::db) enum Behind {
    /// None is expected: the end of a log is the present.
    Nothing,
    /// There may be some in a later log.
    Maybe,
    /// There are some.
    Some,
}

/// A position in the logs.
#[derive(Clone)]
pub(in crate::db) struct LogWalk {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    number: u64,
    reader: LogReader,
}

impl LogWalk {
    /// Starts at the log that holds the record behind `position`. Returns `None` if no log does.
    pub fn start(fs: Arc<dyn Fs>, dir: &Path, position: SeqNo) -> Result<Option<LogWalk>> {
        // While this looks, a log may begin, and the one before it may be removed.
        for _ in 0..ATTEMPTS {
            let mut is_settled = true;
            for (number, _) in logs_in(&*fs, dir)?.into_iter().rev() {
                let Some(reader) = open_log(&*fs, dir, number)? else {
                    is_settled = false;
                    continue;
                };
                if reader.start().is_some_and(|start| start.first_seqno <= position + 1) {
                    return Ok(Some(LogWalk { fs, dir: dir.to_path_buf(), number, reader }));
                }
            }
            if is_settled {
                break;
            }
        }
        Ok(None)
    }

    /// Starts at the first log from `number` on that has begun, and that begins with the record
    /// `ordinal` if that is known. Returns `None` if no log does.
    pub fn at(
        fs: Arc<dyn Fs>,
        dir: &Path,
        number: u64,
        ordinal: Option<u64>,
    ) -> Result<Option<LogWalk>> {
        for (number, _) in logs_in(&*fs, dir)?.into_iter().filter(|(found, _)| *found >= number) {
            let Some(reader) = open_log(&*fs, dir, number)? else { continue };
            let first = reader.start().map(|start| start.first_ordinal);
            if ordinal.is_none() || ordinal == first {
                return Ok(Some(LogWalk { fs, dir: dir.to_path_buf(), number, reader }));
            }
        }
        Ok(None)
    }

    /// Returns the number of the log.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the first sequence number that the records of the log may have.
    pub fn first_seqno(&self) -> SeqNo {
        self.reader.start().map_or(0, |start| start.first_seqno)
    }

    /// Passes the next record to `take` and returns its result, or `None` at the present.
    ///
    /// # Errors
    /// `NotFound` when the next log is gone, or when logs after this one do not continue it although
    /// `behind` says that records follow; `Corruption`, `Io`.
    pub fn next<R>(
        &mut self,
        behind: Behind,
        mut take: impl FnMut(&LogRecord<'_>) -> Result<R>,
    ) -> Result<Option<R>> {
        let mut is_read_again = false;
        loop {
            if let Some(record) = self.reader.next()? {
                let taken = take(&record)?;
                self.reader.forget_large_record();
                return Ok(Some(taken));
            }
            let is_moved = match self.reader.end() {
                Some(LogEnd::Continued { number }) => {
                    let next = open_log(&*self.fs, &self.dir, number)?;
                    let next = next.filter(|next| self.is_continued_by(next));
                    match next {
                        Some(next) => {
                            (self.number, self.reader) = (number, next);
                            true
                        }
                        // A crash may have lost all of that log, and a later one continues.
                        None => self.find_next(behind)?,
                    }
                }
                Some(LogEnd::Closed) => self.find_next(behind)?,
                // The log grows, or a crash ended it.
                _ if !is_read_again => {
                    self.reader.resume()?;
                    is_read_again = true;
                    continue;
                }
                _ if behind == Behind::Nothing => false,
                _ => self.find_next(behind)?,
            };
            if !is_moved {
                return Ok(None);
            }
            is_read_again = false;
        }
    }

    fn is_continued_by(&self, next: &LogReader) -> bool {
        next.start().is_some_and(|start| start.first_ordinal == self.reader.next_ordinal())
    }

    /// Moves to the next log that continues this one. Returns whether there is one.
    fn find_next(&mut self, behind: Behind) -> Result<bool> {
        let mut is_ahead = false;
        for (number, _) in logs_in(&*self.fs, &self.dir)? {
            if number <= self.number {
                continue;
            }
            let Some(next) = open_log(&*self.fs, &self.dir, number)? else { continue };
            if self.is_continued_by(&next) {
                (self.number, self.reader) = (number, next);
                return Ok(true);
            }
            is_ahead |= next.start().is_some_and(|s| s.first_ordinal > self.reader.next_ordinal());
        }
        if is_ahead && behind == Behind::Some {
            return Err(self.gone());
        }
        Ok(false)
    }

    fn gone(&self) -> Error {
        let message = format!(
            "record {}, which follows log {:06}, is in no log any more",
            self.reader.next_ordinal(),
            self.number
        );
        Error::not_found(message).with_path(&self.dir)
    }
}
