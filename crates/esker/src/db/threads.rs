//! The threads of a store, when each is started, and the effect of a panic in one of them.
//!
//! An open store has one flush thread and one compaction thread. The other threads are started when
//! they have work, and stay until the store is closed.
//!
//! Invariants:
//! * A call that needs a new thread continues only when that thread runs.
//! * If a thread cannot be started after the opening, the store works without it: callers do its
//!   work, or do without it.
//! * After a panic in a store thread no write is accepted, and no caller waits for that thread.

use std::sync::Arc;

use super::state::DbInner;
use super::thread_roles::Role;
use crate::base::panics::catch_panic;
use crate::base::sync::atomic::Ordering;
use crate::base::thread_group::check_mappings;
use crate::base::workers::JobClass;
use crate::error::{Error, ErrorKind, Result};
use crate::options::Options;

/// Minimum number of memory mappings that must be left when a store is opened, for the needs of all
/// its threads.
const MAPPINGS_MIN: usize = 256;

impl DbInner {
    /// Starts the threads that the options need from the beginning.
    pub(super) fn start_threads(self: &Arc<DbInner>) -> Result<()> {
        self.trees().iter().for_each(|tree| self.watch_empty_ranges(tree));
        if self.is_manual_background() {
            return Ok(());
        }
        if self.member().is_some() {
            return self.start_jobs();
        }
        let waker = Arc::downgrade(self);
        self.tables.watch_seeks(Box::new(move || {
            if let Some(inner) = waker.upgrade() {
                // Under the lock, so that no thread is between its last check and its wait.
                let _queue = inner.queue.lock();
                inner.work.notify_all();
            }
        }));
        let starter = |role| {
            let store = Arc::downgrade(self);
            Box::new(move || store.upgrade().is_some_and(|store| store.ensure(role).is_ok()))
        };
        if let Some(purger) = &self.purger {
            purger.set_starter(starter(Role::Remove));
        }
        self.pool.set_starter(starter(Role::Memory));
        let started = check_mappings(MAPPINGS_MIN)
            .map_err(|error| Error::mapping_limit(&self.dir, "open one more store", error))
            .and_then(|()| self.ensure(Role::Flush))
            .and_then(|()| self.ensure(Role::Compact))
            .and_then(|()| self.ensure_for(&self.options.load()));
        if started.is_err() {
            // The started threads would keep the store and its lock.
            self.stop();
            self.threads.end();
        }
        started
    }

    /// Lets the workers of the runtime do the store's background work.
    fn start_jobs(&self) -> Result<()> {
        let (Some(member), Some(account)) = (self.member(), self.account()) else { return Ok(()) };
        let asker = || member.asker();
        let (seeks, removals, memory) = (asker(), asker(), asker());
        self.tables.watch_seeks(Box::new(move || {
            seeks.ask(JobClass::Flush);
            seeks.ask(JobClass::Compact);
        }));
        if let Some(purger) = &self.purger {
            purger.set_waker(Box::new(move || removals.ask(JobClass::Short)));
        }
        account.set_wake(Box::new(move || memory.ask(JobClass::Flush)));
        let started = check_mappings(MAPPINGS_MIN)
            .map_err(|error| Error::mapping_limit(&self.dir, "open one more store", error))
            .and_then(|()| {
                let name = "esker-worker-1";
                member.activate().map_err(|error| Error::thread_limit(&self.dir, name, error))
            });
        if started.is_err() {
            self.stop();
            self.end_threads();
        }
        started
    }

    /// Starts the threads that these options need.
    pub(super) fn ensure_for(&self, options: &Options) -> Result<()> {
        if self.is_manual_background() || self.read_only {
            return Ok(());
        }
        if options.sync_every_ms > 0 {
            self.ensure(Role::Sync)?;
        }
        if options.scrub_bytes_per_second > 0 {
            self.ensure(Role::Scrub)?;
        }
        Ok(())
    }

    /// Starts the thread of this role, unless it runs already.
    ///
    /// # Errors
    /// `Io` when the thread cannot be started, `Closed` when the store is closing.
    #[inline]
    pub(super) fn ensure(&self, role: Role) -> Result<()> {
        if self.threads.started.load(Ordering::Acquire) & role.bit() != 0 {
            return Ok(());
        }
        if self.member().is_some() {
            return Ok(());
        }
        self.start(role)
    }

    #[cold]
    fn start(&self, role: Role) -> Result<()> {
        let ended = self.threads.ended.lock();
        if self.threads.started.load(Ordering::Acquire) & role.bit() != 0 {
            return Ok(());
        }
        self.start_thread(role, *ended)?;
        self.threads.started.fetch_or(role.bit(), Ordering::Release);
        Ok(())
    }

    /// Starts one more compaction thread, if the limit allows it. If it cannot be started, the
    /// existing threads do its work.
    #[cold]
    pub(super) fn start_compactor(&self) {
        let ended = self.threads.ended.lock();
        if self.threads.compactors() < self.sizes.load().compaction_threads {
            let _ = self.start_thread(Role::Compact, *ended);
        }
    }

    fn start_thread(&self, role: Role, ended: bool) -> Result<()> {
        let inner = self.me.upgrade().filter(|_| !ended);
        let Some(inner) = inner else {
            return Err(Error::new(ErrorKind::Closed, "the store was closed").with_path(&self.dir));
        };
        let mut name = role.name().to_string();
        if role == Role::Compact {
            name += &format!("-{}", self.threads.compactors() + 1);
        }
        let body = {
            let name = name.clone();
            move || inner.serve(role, &name)
        };
        let started = self.threads.group.start(&name, body);
        started.map_err(|error| Error::thread_limit(&self.dir, &name, error))?;
        if role == Role::Compact {
            self.threads.compactors.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Runs the work of a thread of this role.
    fn serve(&self, role: Role, name: &str) {
        let work = || match role {
            Role::Flush => self.flush_loop(),
            Role::Compact => self.compact_loop(),
            Role::Sync => self.sync_loop(),
            Role::Scrub => self.scrub_loop(),
            Role::Hints => self.hint_loop(),
            Role::Remove => self.remove_loop(),
            Role::Memory => self.pool.serve(),
        };
        if let Err(cause) = catch_panic(work) {
            self.poison(name, &cause);
            if let (Role::Remove, Some(purger)) = (role, &self.purger) {
                purger.end();
            }
        }
    }

    /// Refuses writes from now on, because the thread `name` panicked and others may follow.
    pub(super) fn poison(&self, name: &str, cause: &str) {
        let message = format!(
            "the store refuses writes because its thread {name} panicked ({cause}); reads still \
             work; correct the code that panicked, such as a custom key order or filter policy, \
             then close the store and open it again"
        );
        self.refuse_writes(name, Error::new(ErrorKind::ReadOnly, message).with_path(&self.dir));
        self.deliver_events();
    }

    /// Refuses writes from now on with this error, which `name` has met. The event is delivered
    /// later: the caller may hold locks.
    pub(super) fn refuse_writes(&self, name: &str, error: Error) {
        self.note_error(name, &error);
        let mut queue = self.queue.lock();
        queue.broken.get_or_insert(error);
        if let Some(account) = self.account() {
            // Its memtables are never flushed, and other stores must not wait for that.
            account.note_flush(queue.frozen_bytes(), true);
        }
        self.broken.store(true, Ordering::Release);
        drop(queue);
        self.wake_all();
        self.idle.notify_all();
    }

    /// Returns the error for writes after a store thread has panicked or a sync for a slot has failed.
    #[cold]
    pub(super) fn check_broken(&self) -> Result<()> {
        self.queue.lock().broken.clone().map_or(Ok(()), Err)
    }
}
