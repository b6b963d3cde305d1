//! WAL preallocation: a background thread creates the next log ahead of time. The log's header and
//! name must be durable before a memtable is frozen, and no writer should wait for a disk there.
//!
//! Invariants:
//! * A preallocated log holds nothing until it begins, and begins only where its predecessor ends.
//! * Its number is larger than the number of every earlier log.
//! * An unused preallocated log is removed, at the latest by the next opening.

use super::pending_wal::PendingWal;
use super::state::DbInner;
use super::thread_roles::Role;
use crate::base::sync::atomic::Ordering;
use crate::base::workers::JobClass;
use crate::error::{ErrorKind, Result};
use crate::fs::sync_dir;
use crate::options::kinds::WalIo;
use crate::tree::names;
use crate::wal::LogWriter;
use crate::wal::format::{FileHeader, LogStart};
use crate::write::writer_state::WriterState;

impl DbInner {
    /// Requests the next log, unless there is no thread for it.
    #[cold]
    pub fn request_wal(&self) {
        if self.is_manual_background() || self.ensure(Role::Sync).is_err() {
            return;
        }
        let mut queue = self.queue.lock();
        if matches!(queue.pending_wal, PendingWal::NotRequested) {
            queue.pending_wal = PendingWal::Wanted;
            drop(queue);
            self.wake(JobClass::Short);
            if self.member().is_some() {
                // A store at rest flushes a memtable of this size.
                self.wake(JobClass::Compact);
            }
        }
    }

    /// Creates the next log. After a failure the writer that needs the log creates it, and gets
    /// the error.
    pub fn preallocate_wal(&self) {
        self.queue.lock().pending_wal = PendingWal::Making;
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let made = self.prepare_log(number);
        self.queue.lock().pending_wal =
            made.map_or(PendingWal::NotRequested, |l| PendingWal::Ready(Box::new(l)));
        self.idle.notify_all();
    }

    /// Takes the preallocated log, if it may follow the log `last`.
    fn take_pending_wal(&self, last: u64) -> Option<LogWriter> {
        let mut queue = self.queue.lock();
        while matches!(queue.pending_wal, PendingWal::Making) && !queue.is_stopped() {
            self.idle.wait(&mut queue);
        }
        if matches!(queue.pending_wal, PendingWal::Making) {
            return None;
        }
        let taken = std::mem::take(&mut queue.pending_wal);
        drop(queue);
        let PendingWal::Ready(log) = taken else { return None };
        if log.number() > last {
            return Some(*log);
        }
        // A writer created a log with a larger number meanwhile.
        let _ = self.fs.remove(&names::log_path(&self.dir, log.number()));
        None
    }

    /// Removes the preallocated log. Called when the store closes.
    pub fn remove_pending_wal(&self) {
        let taken = std::mem::take(&mut self.queue.lock().pending_wal);
        if let PendingWal::Ready(log) = taken {
            let _ = self.fs.remove(&names::log_path(&self.dir, log.number()));
        }
    }

    /// Returns the log that continues the log of `writer`, and marks the end of the old log with
    /// the new log's number.
    pub fn continue_log(&self, writer: &mut WriterState) -> Result<Option<LogWriter>> {
        let Some(old) = writer.log.as_mut() else { return Ok(None) };
        let start = LogStart {
            first_ordinal: old.next_ordinal(),
            first_seqno: writer.next_seqno,
            durable_ordinal: old.durable_ordinal(),
        };
        let log = match self.take_pending_wal(old.number()) {
            Some(log) => self.begin_log(log, start)?,
            None => self.start_log(self.numbers.fetch_add(1, Ordering::Relaxed), start)?,
        };
        if let Err(error) = old.mark_continued(log.number()) {
            if error.kind() == ErrorKind::NoSpace {
                // Without the marker nothing refers to the new log.
                let _ = self.fs.remove(&names::log_path(&self.dir, log.number()));
            } else {
                writer.poisoned = Some(error.clone());
            }
            return Err(error);
        }
        Ok(Some(log))
    }

    /// Creates and begins a log whose header and name are durable. After an error the log does not
    /// exist.
    pub fn start_log(&self, number: u64, start: LogStart) -> Result<LogWriter> {
        let log = self.prepare_log(number)?;
        self.begin_log(log, start)
    }

    fn prepare_log(&self, number: u64) -> Result<LogWriter> {
        let path = names::log_path(&self.dir, number);
        let mapped = self.options.load().wal_io == WalIo::Mmap && self.may_map_log();
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
