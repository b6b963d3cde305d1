//! Stores that several threads of JavaScript have open: the main thread and worker threads.
//!
//! Invariants:
//! 1. A thread that closes its store, or ends, takes it from no other thread. The last one closes it.
//! 2. Only stores that were opened with `shared` are shared, under their real path.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use esker::fs::Fs;
use esker::{Db, Options};
use esker_bindings::handle::{Handle, Opened};

use crate::errors::{closed, invalid};

/// A shared store.
struct Entry {
    handle: Arc<Handle>,
    /// Number of threads that have it open.
    users: usize,
}

static ENTRIES: Mutex<BTreeMap<PathBuf, Entry>> = Mutex::new(BTreeMap::new());

fn entries() -> MutexGuard<'static, BTreeMap<PathBuf, Entry>> {
    ENTRIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A store, as one thread of JavaScript has it open.
pub struct Store {
    handle: Arc<Handle>,
    /// Whether this thread has closed it.
    is_closed: AtomicBool,
    /// The real path of a shared store.
    shared: Option<PathBuf>,
}

impl Store {
    /// Opens a store of this thread alone.
    pub fn own(db: Db) -> Store {
        Store { handle: Arc::new(Handle::new(db)), is_closed: AtomicBool::new(false), shared: None }
    }

    /// Opens a store, or shares the one that other threads have open. Its options are those of the
    /// first opening.
    pub fn share(fs: Arc<dyn Fs>, path: &Path, options: Options) -> esker::Result<Store> {
        let mut entries = entries();
        let real = path.canonicalize().ok();
        let is_closed = AtomicBool::new(false);
        if let Some((real, entry)) =
            real.and_then(|real| Some((real.clone(), entries.get_mut(&real)?)))
        {
            if options.error_if_exists {
                let message = format!("{} already exists, and is open", real.display());
                return Err(invalid(message));
            }
            entry.users += 1;
            return Ok(Store { handle: entry.handle.clone(), is_closed, shared: Some(real) });
        }
        let db = Db::open_on(fs, path, options)?;
        let real = path.canonicalize().unwrap_or_else(|_| db.path().to_path_buf());
        let handle = Arc::new(Handle::new(db));
        entries.insert(real.clone(), Entry { handle: handle.clone(), users: 1 });
        Ok(Store { handle, is_closed, shared: Some(real) })
    }

    /// Returns the store if it is open.
    #[inline]
    pub fn open(&self) -> esker::Result<Opened> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(closed("database"));
        }
        self.handle.open()
    }

    /// Closes the store for this thread, and for good if no other thread has it open. Waits then for
    /// the calls that run on it.
    pub fn close(&self) -> esker::Result<()> {
        if self.is_closed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let Some(real) = &self.shared else { return self.handle.close() };
        let mut entries = entries();
        let Some(entry) = entries.get_mut(real) else { return Ok(()) };
        entry.users -= 1;
        if entry.users > 0 {
            return Ok(());
        }
        entries.remove(real);
        // The lock is held, so that an opening of the same store waits for the close.
        self.handle.close()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // A store of this thread alone is closed with its last reference.
        if self.shared.is_some() {
            let _ = self.close();
        }
    }
}
