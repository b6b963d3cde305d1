//! The log after the present one, made ahead by a thread of the store: its header and its name must
//! be durable before a memtable is frozen, and no writer should wait for a disk there.
//!
//! What stays true: a log that was made ahead holds nothing until it begins, and begins only where
//! the one before it ends; its number is larger than that of every log before it; one that is not
//! used is removed, at the latest by the next opening.

use super::roles::Role;
use super::state::Inner;
use crate::base::sync::atomic::Ordering;
use crate::error::{ErrorKind, Result};
use crate::fs::sync_dir;
use crate::options::kinds::WalIo;
use crate::tree::names;
use crate::wal::LogWriter;
use crate::wal::format::{FileHeader, LogStart};
use crate::write::core::Core;

/// The next log is asked for when one part in so many of the memtable is full.
pub(super) const NEXT_LOG_FROM: u64 = 4;

/// How far the log after the present one is.
#[derive(Default)]
pub(crate) enum NextLog {
    /// Nobody has asked for it.
    #[default]
    Unasked,
    /// A writer has asked for it.
    Wanted,
    /// A thread makes it.
    Making,
    /// It is there.
    Ready(Box<LogWriter>),
}

impl NextLog {
    /// Whether it is for a thread to make it.
    pub fn is_wanted(&self) -> bool {
        matches!(self, NextLog::Wanted)
    }
}

impl Inner {
    /// Has the next log made, where there is a thread for it.
    #[cold]
    pub fn ask_for_next_log(&self) {
        if self.stepped() || self.ensure(Role::Sync).is_err() {
            return;
        }
        let mut queue = self.queue.lock();
        if matches!(queue.next_log, NextLog::Unasked) {
            queue.next_log = NextLog::Wanted;
            drop(queue);
            self.work.notify_all();
        }
    }

    /// Makes the next log. After a failure whoever needs it makes it, and has whom to tell.
    pub fn make_next_log(&self) {
        self.queue.lock().next_log = NextLog::Making;
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let made = self.prepare_log(number);
        self.queue.lock().next_log = made.map_or(NextLog::Unasked, |l| NextLog::Ready(Box::new(l)));
        self.idle.notify_all();
    }

    /// Takes the log made ahead, if it may come after the log `last`.
    fn take_next_log(&self, last: u64) -> Option<LogWriter> {
        let mut queue = self.queue.lock();
        while matches!(queue.next_log, NextLog::Making) && !queue.is_over() {
            self.idle.wait(&mut queue);
        }
        if matches!(queue.next_log, NextLog::Making) {
            return None;
        }
        let taken = std::mem::take(&mut queue.next_log);
        drop(queue);
        let NextLog::Ready(log) = taken else { return None };
        if log.number() > last {
            return Some(*log);
        }
        // Another log was made while this one was.
        let _ = self.fs.remove(&names::log_path(&self.dir, log.number()));
        None
    }

    /// Removes the log made ahead: the store closes.
    pub fn remove_next_log(&self) {
        let taken = std::mem::take(&mut self.queue.lock().next_log);
        if let NextLog::Ready(log) = taken {
            let _ = self.fs.remove(&names::log_path(&self.dir, log.number()));
        }
    }

    /// The log that goes on where the one of `core` ends, which then says so.
    pub fn continue_log(&self, core: &mut Core) -> Result<Option<LogWriter>> {
        let Some(old) = core.log.as_mut() else { return Ok(None) };
        let start = LogStart {
            first_ordinal: old.next_ordinal(),
            first_seqno: core.next_seqno,
            durable_ordinal: old.durable_ordinal(),
        };
        let log = match self.take_next_log(old.number()) {
            Some(log) => self.begin_log(log, start)?,
            None => self.start_log(self.numbers.fetch_add(1, Ordering::Relaxed), start)?,
        };
        if let Err(error) = old.continue_in(log.number()) {
            if error.kind() == ErrorKind::NoSpace {
                // There is no mark, so nothing asks for the log.
                let _ = self.fs.remove(&names::log_path(&self.dir, log.number()));
            } else {
                core.poisoned = Some(error.clone());
            }
            return Err(error);
        }
        Ok(Some(log))
    }

    /// Creates a log whose header and name are durable, and begins it; after an error it is not
    /// there.
    pub fn start_log(&self, number: u64, start: LogStart) -> Result<LogWriter> {
        let log = self.prepare_log(number)?;
        self.begin_log(log, start)
    }

    fn prepare_log(&self, number: u64) -> Result<LogWriter> {
        let path = names::log_path(&self.dir, number);
        let mapped = self.options.load().wal_io == WalIo::Mmap;
        let header = FileHeader { number, generation: self.next_id() };
        let log = LogWriter::prepare(&*self.fs, &path, header, mapped)?;
        if let Err(error) = sync_dir(&*self.fs, &self.dir) {
            let _ = self.fs.remove(&path);
            return Err(error);
        }
        Ok(log)
    }

    fn begin_log(&self, mut log: LogWriter, start: LogStart) -> Result<LogWriter> {
        if let Err(error) = log.begin(start) {
            let _ = self.fs.remove(&names::log_path(&self.dir, log.number()));
            return Err(error);
        }
        Ok(log)
    }
}
