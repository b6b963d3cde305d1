//! Removes obsolete files, so that neither readers nor writers wait for the removal.
//!
//! The last owner of a version may be a reader whose scan outlived a compaction. Closing the last
//! handle of a removed file frees its blocks. That takes tens of milliseconds per file on a file
//! system that reports each freed block to the device (ext4's `discard`), and several milliseconds
//! on others. The purger therefore removes a file's name immediately where that is quick, and
//! leaves the other work to a thread of the store.
//!
//! Invariants: everything in the queue is removed when [`Purger::serve`] has returned. Nothing is
//! queued when no thread serves the queue and none can be started. Nothing is queued by threads
//! that run compactions.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::names;
use crate::base::sync::{Condvar, Mutex, thread_local};
use crate::fs::{Fs, fork};
use crate::table::Table;

thread_local! {
    /// Whether this thread removes files inline, because nothing waits for it.
    static IS_INLINE: Cell<bool> = const { Cell::new(false) };
}

/// While this guard exists, its thread removes files inline instead of queueing them.
#[must_use]
pub struct InlinePurge {
    before: bool,
}

/// Makes this thread remove files inline until the returned guard is dropped.
pub fn purge_inline() -> InlinePurge {
    InlinePurge { before: IS_INLINE.with(|compaction| compaction.replace(true)) }
}

impl Drop for InlinePurge {
    fn drop(&mut self) {
        IS_INLINE.with(|compaction| compaction.set(self.before));
    }
}

/// Removes obsolete files.
pub struct Purger {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    /// Process that opened the store. A forked child removes nothing.
    process: u64,
    queue: Mutex<PurgeQueue>,
    wakeup: Condvar,
    /// Starts a thread that calls [`Purger::serve`]. Returns `false` if that fails.
    start: OnceLock<Box<dyn Fn() -> bool + Send + Sync>>,
    /// Called after a file was queued, instead of a wakeup of that thread.
    waker: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Called with the number of each table whose name was removed.
    observer: OnceLock<Box<dyn Fn(u64) + Send + Sync>>,
}

/// The queue of the purger.
#[derive(Default)]
struct PurgeQueue {
    unused: Vec<ObsoleteFile>,
    /// Whether a thread serves the queue.
    served: bool,
    ended: bool,
}

/// An obsolete file.
#[derive(Default)]
struct ObsoleteFile {
    /// Number of a table whose name still exists.
    named: Option<u64>,
    /// Number of a value file whose name still exists.
    named_values: Option<u64>,
    /// The open handles of that table.
    tables: [Option<Arc<Table>>; 2],
    /// Handle of a value file, or of another file whose name is already removed.
    #[expect(dead_code, reason = "held only to be dropped")]
    other: Option<Box<dyn Send>>,
}

impl ObsoleteFile {
    fn forget_blocks(&self) {
        self.tables.iter().flatten().for_each(|table| table.forget_blocks());
    }
}

impl Purger {
    /// Creates a purger for the store in `dir`. `process` is the process that opened the store.
    pub fn new(fs: Arc<dyn Fs>, dir: PathBuf, process: u64) -> Purger {
        let (queue, wakeup) = (Mutex::default(), Condvar::new());
        let (start, waker, observer) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Purger { fs, dir, process, queue, wakeup, start, waker, observer }
    }

    /// Removes table file `number`. `tables` are its open handles.
    pub(super) fn remove(&self, number: u64, tables: [Option<Arc<Table>>; 2]) {
        if self.process != fork::now() {
            return;
        }
        let mut unused = ObsoleteFile { named: Some(number), tables, ..ObsoleteFile::default() };
        // Removing the name of an open file is quick, because its blocks stay until the file is
        // closed.
        if unused.tables.iter().flatten().any(|table| table.file.is_some()) {
            self.remove_name(&mut unused);
        }
        self.enqueue(unused);
    }

    /// Removes value file `number`. `open` is its open handle.
    pub(super) fn remove_value_file(&self, number: u64, open: Option<Box<dyn Send>>) {
        if self.process != fork::now() {
            return;
        }
        let is_open = open.is_some();
        let named_values = Some(number);
        let mut unused = ObsoleteFile { named_values, other: open, ..ObsoleteFile::default() };
        if is_open {
            self.remove_name(&mut unused);
        }
        self.enqueue(unused);
    }

    /// Closes a file whose name is already removed.
    pub fn close(&self, file: Box<dyn Send>) {
        self.enqueue(ObsoleteFile { other: Some(file), ..ObsoleteFile::default() });
    }

    fn enqueue(&self, unused: ObsoleteFile) {
        if !IS_INLINE.with(Cell::get) && self.is_served() {
            let mut queue = self.queue.lock();
            if queue.served {
                queue.unused.push(unused);
                drop(queue);
                match self.waker.get() {
                    Some(wake) => wake(),
                    None => self.wakeup.notify_all(),
                }
                return;
            }
        }
        self.finish(unused);
    }

    /// Returns whether a thread serves the queue. Starts one if a starter is set.
    fn is_served(&self) -> bool {
        let start = {
            let mut queue = self.queue.lock();
            match self.start.get() {
                Some(start) if !queue.served && !queue.ended => {
                    queue.served = true;
                    start
                }
                _ => return queue.served,
            }
        };
        let started = start();
        if !started {
            self.queue.lock().served = false;
            // Other threads may have queued files meanwhile.
            self.serve();
        }
        started
    }

    /// Sets the function that starts the serving thread. It is called when the first file is
    /// queued.
    pub fn set_starter(&self, start: Box<dyn Fn() -> bool + Send + Sync>) {
        let _ = self.start.set(start);
    }

    /// Leaves the removal to a thread that calls [`Purger::remove_queued`], and sets the function
    /// that is called when a file was queued for it. Its caller may hold locks.
    pub fn set_waker(&self, waker: Box<dyn Fn() + Send + Sync>) {
        let _ = self.waker.set(waker);
        let mut queue = self.queue.lock();
        queue.served = !queue.ended;
    }

    /// Removes the queued files on the calling thread.
    pub fn remove_queued(&self) {
        let unused = std::mem::take(&mut self.queue.lock().unused);
        // Evict all cached blocks before closing the first file, because closing takes longer.
        unused.iter().for_each(ObsoleteFile::forget_blocks);
        unused.into_iter().for_each(|unused| self.finish(unused));
    }

    /// Sets the function that is called with the number of each table whose name was removed. Its
    /// caller may hold locks.
    pub fn set_observer(&self, observer: Box<dyn Fn(u64) + Send + Sync>) {
        let _ = self.observer.set(observer);
    }

    fn remove_name(&self, unused: &mut ObsoleteFile) {
        if let Some(number) = unused.named.take() {
            // A file that remains is removed at the next open.
            let removed = self.fs.remove(&names::table_path(&self.dir, number));
            if let (Ok(()), Some(observer)) = (removed, self.observer.get()) {
                observer(number);
            }
        }
        if let Some(number) = unused.named_values.take() {
            // A file that remains is removed at the next open.
            let _ = self.fs.remove(&names::value_path(&self.dir, number));
        }
    }

    fn finish(&self, mut unused: ObsoleteFile) {
        unused.forget_blocks();
        self.remove_name(&mut unused);
    }

    /// Declares that [`Purger::serve`] runs, or is about to run.
    #[cfg(all(test, not(esker_shuttle)))]
    fn begin(&self) {
        self.queue.lock().served = true;
    }

    /// Removes queued files until [`Purger::end`] is called.
    pub fn serve(&self) {
        loop {
            let unused = {
                let mut queue = self.queue.lock();
                while queue.unused.is_empty() && queue.served {
                    self.wakeup.wait(&mut queue);
                }
                std::mem::take(&mut queue.unused)
            };
            if unused.is_empty() {
                return;
            }
            // Evict all cached blocks before closing the first file, because closing takes longer.
            unused.iter().for_each(ObsoleteFile::forget_blocks);
            unused.into_iter().for_each(|unused| self.finish(unused));
        }
    }

    /// Lets [`Purger::serve`] return once the queue is empty. Later files are removed inline.
    pub fn end(&self) {
        {
            let mut queue = self.queue.lock();
            (queue.served, queue.ended) = (false, true);
        }
        self.wakeup.notify_all();
    }
}

#[cfg(all(test, not(esker_shuttle)))]
mod tests {
    use super::*;
    use crate::base::sync::atomic::{AtomicUsize, Ordering};
    use crate::fs::MemFs;
    use crate::tree::fragment::FileMeta;
    use crate::tree::tests::info;

    #[test]
    fn thread_starts_with_first_file_and_caller_removes_if_it_cannot() {
        let purger = |starts: bool| {
            let purger = Arc::new(Purger::new(MemFs::new(), "/store".into(), fork::process()));
            let asked = Arc::new(AtomicUsize::new(0));
            let counted = asked.clone();
            purger.set_starter(Box::new(move || {
                counted.fetch_add(1, Ordering::Relaxed);
                starts
            }));
            (purger, asked)
        };
        let file = Arc::new(());
        let leave = |purger: &Purger| {
            purger.close(Box::new(file.clone()));
            Arc::strong_count(&file) > 1
        };
        let (served, asked) = purger(true);
        assert!(leave(&served) && leave(&served), "a caller closed the file");
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        served.end();
        served.serve();
        assert!(!leave(&served), "the file was left to a thread that has ended");
        assert_eq!(asked.load(Ordering::Relaxed), 1, "a thread was started for a closed store");
        let (alone, asked) = purger(false);
        assert!(!leave(&alone) && !leave(&alone), "the file was left to no thread");
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn readers_leave_removal_to_thread_and_compactions_remove_inline() {
        let (fs, dir) = (Arc::new(MemFs::default()), PathBuf::from("/store"));
        fs.create_dir(&dir).unwrap();
        let purger = Arc::new(Purger::new(fs.clone(), dir.clone(), fork::process()));
        let let_go = |number| {
            let path = names::table_path(&dir, number);
            fs.create_new(&path).unwrap();
            let file = FileMeta::new(number, info(number, b"a", b"b"), Some(purger.clone()));
            file.mark_obsolete();
            drop(file);
            fs.exists(&path).unwrap()
        };
        assert!(!let_go(1), "the file was left to no thread");
        purger.begin();
        assert!(let_go(2) && let_go(3), "a reader removed a file");
        std::thread::scope(|scope| {
            let compaction = scope.spawn(|| {
                let _inline = purge_inline();
                let_go(4)
            });
            assert!(
                !compaction.join().unwrap(),
                "a merging thread left its file to another thread"
            );
            let served = scope.spawn(|| purger.serve());
            purger.end();
            served.join().unwrap();
        });
        let closed = Arc::new(());
        purger.begin();
        purger.close(Box::new(closed.clone()));
        assert_eq!(Arc::strong_count(&closed), 2, "a writer closed the file");
        purger.end();
        purger.serve();
        assert_eq!(Arc::strong_count(&closed), 1);
        let left = |number| fs.exists(&names::table_path(&dir, number)).unwrap();
        assert!(!left(2) && !left(3), "the removal thread ended before all files were removed");
        assert!(!let_go(5), "the file was left to a thread that has ended");
    }
}
