//! Lifecycle of an open store: the handle, changed options, and the close.
//!
//! Invariants:
//! 1. A close writes the clean-close marker only after all files are durable.
//! 2. After a close, with or without an error, the threads have ended and the lock is released.

use std::sync::Arc;

use super::state::DbInner;
use crate::base::panics::catch_panic;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::Ordering;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::memory;
use crate::options::Options;
use crate::options::validate::Sizes;
use crate::tree::edit::VersionEdit;

/// Minimum size, in bytes, of a memtable that is flushed when the store is closed. Reading 4 MiB
/// from the log takes about 10 ms at the next opening; a memtable of the usual size takes half a
/// second.
const FLUSHED_AT_CLOSE_BYTES_MIN: usize = 4 << 20;

/// Returns the sizes that `options` resolve to in this process. Called once per opening, because
/// finding the available memory and number of CPUs reads several files.
pub(crate) fn sizes_here(options: &Options) -> Sizes {
    if let Some(runtime) = &options.runtime {
        return runtime.sizes_of(options);
    }
    let memory_bytes = memory::available_bytes();
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    options.sizes(memory_bytes, cores)
}

/// Closes the store when the last [`super::Db`] is dropped.
pub(super) struct OpenHandle {
    inner: Arc<DbInner>,
    /// Serializes calls that close the store.
    closing: Mutex<()>,
}

impl OpenHandle {
    pub fn new(inner: Arc<DbInner>) -> OpenHandle {
        OpenHandle { inner, closing: Mutex::new(()) }
    }

    /// Closes the store. Later calls do nothing.
    pub fn close(&self) -> Result<()> {
        if self.inner.is_forked() {
            // A forked child must not close the parent's store. A lock may be held by a thread that
            // does not exist in the child. The leaked reference keeps the shared state alive.
            std::mem::forget(self.inner.clone());
            return self.inner.check_open();
        }
        let _serial = self.closing.lock();
        if self.inner.lock.lock().is_none() {
            return Ok(());
        }
        let inner = &self.inner;
        // Threads end and the lock is released even after a panic.
        let panic_error = |cause: String| {
            let message = format!("the close of the store panicked ({cause})");
            Err(Error::new(ErrorKind::Io, message).with_path(&inner.dir))
        };
        let saved = catch_panic(|| inner.save_memtable()).unwrap_or_else(panic_error);
        inner.stop();
        inner.end_threads();
        let closed = catch_panic(|| inner.finish()).unwrap_or_else(panic_error);
        inner.lock.lock().take();
        saved.and(closed)
    }
}

impl Drop for OpenHandle {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

impl DbInner {
    /// Applies changed options.
    pub fn apply_options(&self, next: Options) {
        let sizes = sizes_here(&next);
        if self.share.is_none() {
            self.cache.set_policy(next.cache_policy);
            self.pool.set_capacity(sizes.memtable_bytes as usize);
        }
        self.write_params.update(&next, &sizes);
        self.trees.load().iter().for_each(|tree| tree.adopt(&next));
        self.options.store(Arc::new(next));
        self.sizes.store(Arc::new(sizes));
        self.resize_cache();
        self.refresh_debt();
        // Under the lock, so that no thread is between its last check and its wait.
        let _queue = self.queue.lock();
        self.wake_all();
    }

    /// Flushes operations that no log holds (`Durability::None`), so that a close keeps them.
    /// Also flushes a long memtable, so that the next opening need not read its log. Logged
    /// operations are safe in the log, so the close ignores a failure to flush only those.
    pub fn save_memtable(&self) -> Result<()> {
        if self.read_only {
            return Ok(());
        }
        let mut must;
        let last = {
            let mut writer = self.committer.lock();
            // Under the writer-state lock: until then any thread may freeze unlogged operations.
            must = !self.queue.lock().frozen.is_empty();
            let long = writer.memtables.data_bytes() >= FLUSHED_AT_CLOSE_BYTES_MIN;
            if (writer.unlogged || long) && writer.poisoned.is_none() {
                let unlogged = writer.unlogged;
                must |= unlogged;
                let frozen = self.freeze(&mut writer);
                if unlogged {
                    frozen?;
                }
            }
            self.last_frozen()
        };
        let flushed = self.wait_flushed(last.as_ref());
        if must { flushed } else { Ok(()) }
    }

    /// Waits for the end of the threads, or of the jobs of the store in its runtime.
    pub fn end_threads(&self) {
        self.threads.end();
        if let Some(share) = &self.share {
            share.leave();
            if let Some(purger) = &self.purger {
                purger.remove_queued();
            }
        }
    }

    /// Tells the threads to end and refuses further calls.
    pub fn stop(&self) {
        self.threads.stop();
        self.closed.store(true, Ordering::Release);
        self.queue.lock().stop = true;
        self.wake_all();
        self.idle.notify_all();
        self.feed.wake_all();
        self.transactions.locks.close();
        if let Some(purger) = &self.purger {
            purger.end();
        }
        if self.share.is_none() {
            self.pool.end();
        }
    }

    /// Closes a removed file on the thread that removes files, so that no caller waits for it.
    pub fn close_in_background(&self, file: impl Send + 'static) {
        if let Some(purger) = &self.purger {
            purger.close(Box::new(file));
        }
    }

    /// Returns an error when the store's directory was removed.
    fn check_dir_exists(&self) -> Result<()> {
        match self.fs.exists(&self.dir) {
            _ if self.read_only => Ok(()),
            Ok(true) => Ok(()),
            Ok(false) => {
                Err(Error::new(ErrorKind::Io, "the directory no longer exists")
                    .with_path(&self.dir))
            }
            Err(error) => Err(Error::io(&self.dir, "inspect the directory", error)),
        }
    }

    /// Syncs the log, records its length in the manifest, writes the clean-close marker to the log
    /// and releases the lock. The marker says that all files are durable, so it is not written
    /// after a failure of the log or the manifest.
    pub fn finish(&self) -> Result<()> {
        self.end_slowdown();
        let mut writer = self.committer.lock();
        let sound = match &writer.poisoned {
            Some(error) => Err(error.clone()),
            None => self.versions.lock().check_sound(),
        };
        let synced = sound.and_then(|()| writer.sync_logs(self));
        let log = writer.log.take();
        // The marker is not enough: nobody would notice if it was lost with the records before it.
        let noted = match log.as_ref().filter(|log| log.has_records()) {
            Some(log) if synced.is_ok() => {
                let closed_wal = Some((log.number(), log.len_bytes()));
                let edit = VersionEdit { closed_wal, ..VersionEdit::default() };
                self.versions.lock().apply(edit).map(drop)
            }
            _ => synced,
        };
        writer.unsynced_logs.clear();
        drop(writer);
        self.remove_pending_wal();
        let closed = noted.and_then(|()| log.map_or(Ok(()), |log| log.close()));
        // Writes to a log in a removed directory cannot be found again.
        let closed = closed.and_then(|()| self.check_dir_exists());
        self.announce_close(&closed);
        self.lock.lock().take();
        closed.map_err(|e: Error| e.with_path(&self.dir))
    }
}
