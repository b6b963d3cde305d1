//! Removing files that nobody reads any more, so that no reader and no writer waits for it.
//!
//! Who lets go of a version last may be a reader whose scan a merge has overtaken. To close the last
//! handle of a removed file gives its blocks back, which takes tens of milliseconds a file where the
//! file system tells the device of each (ext4's `discard`), and some where it does not. So a file's
//! name goes at once, as far as that is quick, and the rest is left to a thread of the store.
//!
//! What stays true: what is handed over is gone when [`Purger::serve`] has returned; where no thread
//! serves nor can be started, and by who merges, nothing is handed over.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::names;
use crate::base::sync::{Condvar, Mutex, thread_local};
use crate::fs::{Fs, fork};
use crate::table::Table;

thread_local! {
    /// Whether nobody waits for this thread.
    static IS_PATIENT: Cell<bool> = const { Cell::new(false) };
}

/// While there is one, its thread removes by itself what it lets go of.
#[must_use]
pub struct Patience {
    before: bool,
}

/// This thread is patient for as long as it has what is returned.
pub fn be_patient() -> Patience {
    Patience { before: IS_PATIENT.with(|patient| patient.replace(true)) }
}

impl Drop for Patience {
    fn drop(&mut self) {
        IS_PATIENT.with(|patient| patient.set(self.before));
    }
}

/// Removes the files nobody reads any more.
pub struct Purger {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    /// The process that opened the store: a child of it removes nothing.
    process: u64,
    lot: Mutex<Lot>,
    came: Condvar,
    /// Has a thread call [`Purger::serve`]; `false` if it cannot.
    start: OnceLock<Box<dyn Fn() -> bool + Send + Sync>>,
}

/// What was handed over.
#[derive(Default)]
struct Lot {
    unused: Vec<Unused>,
    /// Whether a thread is there for it.
    served: bool,
    ended: bool,
}

/// A file that nobody knows any more.
#[derive(Default)]
struct Unused {
    /// The number of a table, while it has its name.
    named: Option<u64>,
    /// That table, as often as it is open.
    tables: [Option<Arc<Table>>; 2],
    /// Another file, removed already.
    #[expect(dead_code, reason = "it is kept to be dropped")]
    other: Option<Box<dyn Send>>,
}

impl Unused {
    fn forget_blocks(&self) {
        self.tables.iter().flatten().for_each(|table| table.forget_blocks());
    }
}

impl Purger {
    /// A purger of the store in `dir`, opened by the process of this number.
    pub fn new(fs: Arc<dyn Fs>, dir: PathBuf, process: u64) -> Purger {
        let (lot, came, start) = (Mutex::default(), Condvar::new(), OnceLock::new());
        Purger { fs, dir, process, lot, came, start }
    }

    /// Removes file `number`, which may be open as these.
    pub(super) fn remove(&self, number: u64, tables: [Option<Arc<Table>>; 2]) {
        if self.process != fork::now() {
            return;
        }
        let mut unused = Unused { named: Some(number), tables, other: None };
        // The name of an open file is quick to remove: its blocks stay until it is closed.
        if unused.tables.iter().flatten().any(|table| table.file.is_some()) {
            self.remove_name(&mut unused);
        }
        self.hand_over(unused);
    }

    /// Closes a file that was removed.
    pub fn close(&self, file: Box<dyn Send>) {
        self.hand_over(Unused { other: Some(file), ..Unused::default() });
    }

    fn hand_over(&self, unused: Unused) {
        if !IS_PATIENT.with(Cell::get) && self.is_served() {
            let mut lot = self.lot.lock();
            if lot.served {
                lot.unused.push(unused);
                drop(lot);
                self.came.notify_all();
                return;
            }
        }
        self.finish(unused);
    }

    /// Whether a thread serves, which is started if one was offered.
    fn is_served(&self) -> bool {
        let start = {
            let mut lot = self.lot.lock();
            match self.start.get() {
                Some(start) if !lot.served && !lot.ended => {
                    lot.served = true;
                    start
                }
                _ => return lot.served,
            }
        };
        let started = start();
        if !started {
            self.lot.lock().served = false;
            // Others may have left something meanwhile.
            self.serve();
        }
        started
    }

    /// A thread may be had by `start`, when the first file is left to it.
    pub fn offer(&self, start: Box<dyn Fn() -> bool + Send + Sync>) {
        let _ = self.start.set(start);
    }

    fn remove_name(&self, unused: &mut Unused) {
        if let Some(number) = unused.named.take() {
            // A file that stays behind is removed at the next open.
            let _ = self.fs.remove(&names::table_path(&self.dir, number));
        }
    }

    fn finish(&self, mut unused: Unused) {
        unused.forget_blocks();
        self.remove_name(&mut unused);
    }

    /// From now on [`Purger::serve`] is being called, or about to be.
    #[cfg(all(test, not(feature = "shuttle")))]
    fn begin(&self) {
        self.lot.lock().served = true;
    }

    /// Removes what others let go of, until [`Purger::end`].
    pub fn serve(&self) {
        loop {
            let unused = {
                let mut lot = self.lot.lock();
                while lot.unused.is_empty() && lot.served {
                    self.came.wait(&mut lot);
                }
                std::mem::take(&mut lot.unused)
            };
            if unused.is_empty() {
                return;
            }
            // The cache has its room back before the first of the files is closed, which takes longer.
            unused.iter().for_each(Unused::forget_blocks);
            unused.into_iter().for_each(|unused| self.finish(unused));
        }
    }

    /// Lets [`Purger::serve`] return when it is done.
    pub fn end(&self) {
        {
            let mut lot = self.lot.lock();
            (lot.served, lot.ended) = (false, true);
        }
        self.came.notify_all();
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::base::sync::atomic::{AtomicUsize, Ordering};
    use crate::fs::mem::MemFs;
    use crate::tree::fragment::FileMeta;
    use crate::tree::tests::info;

    #[test]
    fn a_thread_is_started_for_the_first_file_and_what_it_cannot_do_is_done_here() {
        let purger = |starts: bool| {
            let purger = Arc::new(Purger::new(MemFs::new(), "/store".into(), fork::process()));
            let asked = Arc::new(AtomicUsize::new(0));
            let counted = asked.clone();
            purger.offer(Box::new(move || {
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
        assert!(leave(&served) && leave(&served), "a caller closed it");
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        served.end();
        served.serve();
        assert!(!leave(&served), "it was left to who serves no more");
        assert_eq!(asked.load(Ordering::Relaxed), 1, "a thread was started for a closed store");
        let (alone, asked) = purger(false);
        assert!(!leave(&alone) && !leave(&alone), "it was left to nobody");
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn who_waits_for_nobody_removes_and_others_leave_it_to_who_serves() {
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
        assert!(!let_go(1), "there is nobody to leave it to");
        purger.begin();
        assert!(let_go(2) && let_go(3), "a reader did it");
        std::thread::scope(|scope| {
            let patient = scope.spawn(|| {
                let _patience = be_patient();
                let_go(4)
            });
            assert!(!patient.join().unwrap(), "a thread that merges left it to another");
            let served = scope.spawn(|| purger.serve());
            purger.end();
            served.join().unwrap();
        });
        let closed = Arc::new(());
        purger.begin();
        purger.close(Box::new(closed.clone()));
        assert_eq!(Arc::strong_count(&closed), 2, "a writer did it");
        purger.end();
        purger.serve();
        assert_eq!(Arc::strong_count(&closed), 1);
        let left = |number| fs.exists(&names::table_path(&dir, number)).unwrap();
        assert!(!left(2) && !left(3), "it ended before it was done");
        assert!(!let_go(5), "it was left to who serves no more");
    }
}
