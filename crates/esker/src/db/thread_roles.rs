//! The threads of a store and what each of them does. [`super::threads`] starts them.

use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use crate::base::thread_group::ThreadGroup;

/// The work of a store thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Flushes immutable memtables to tables. Started at opening.
    Flush,
    /// Compacts tables. One thread is started at opening, each further one when there is work for
    /// it.
    Compact,
    /// Syncs the log every `sync_every_ms` and preallocates the next log.
    Sync,
    /// Scrubs: reads every file again, at `scrub_bytes_per_second`.
    Scrub,
    /// Searches for empty-range hints.
    Hints,
    /// Removes files.
    Remove,
    /// Provides memory for memtables.
    Memory,
}

impl Role {
    pub fn bit(self) -> u32 {
        1 << self as u32
    }

    pub fn name(self) -> &'static str {
        match self {
            Role::Flush => "esker-flush",
            Role::Compact => "esker-compact",
            Role::Sync => "esker-sync",
            Role::Scrub => "esker-scrub",
            Role::Hints => "esker-hints",
            Role::Remove => "esker-remove",
            Role::Memory => "esker-memory",
        }
    }
}

/// The threads of a store.
#[derive(Default)]
pub(crate) struct Threads {
    pub group: ThreadGroup,
    /// One bit per role, set when its thread was started.
    pub started: AtomicU32,
    pub compactors: AtomicUsize,
    /// Held while a thread is started. `true` once the store is closing.
    pub ended: Mutex<bool>,
}

impl Threads {
    /// Returns the number of compaction threads.
    pub fn compactors(&self) -> usize {
        self.compactors.load(Ordering::Relaxed)
    }

    /// Prevents further threads from being started.
    pub fn stop(&self) {
        *self.ended.lock() = true;
    }

    /// Waits until all threads have ended.
    pub fn end(&self) {
        self.group.end();
    }
}
