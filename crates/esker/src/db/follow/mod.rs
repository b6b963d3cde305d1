//! Followers: read-only views of a store that another process writes.
//!
//! Invariants:
//! 1. A follower writes nothing and takes no lock, so the writer never waits for it. A promotion takes
//!    the lock, and is an opening like any other.
//! 2. The views are published in the order of their positions.
//!
//! Decision 0052 says why.

mod state;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

use self::state::{Following, patiently};
use super::Db;
use super::dir::list_dir;
use super::open::refuse_newer;
use super::runtime::check_runtime;
use crate::base::panics::catch_panic;
use crate::base::sync::{Condvar, Mutex, thread};
use crate::base::thread_group::ThreadGroup;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Fs, OsFs, absolute, fork, pinned};
use crate::options::Options;

/// Time between two looks at the store of a caller that waits for a position.
const POLL: Duration = Duration::from_millis(2);

/// A follower of a store that another process writes, from [`Db::follow`]: a read replica on the same
/// machine that needs no copy of the data.
///
/// [`Follower::db`] returns a view: a store that is open read-only and shows the followed store at one
/// moment. [`Follower::catch_up`] makes a newer view, and [`Follower::catch_up_every`] lets a thread
/// do so. A view never changes. It keeps what it needs, also files that the writer has removed, until
/// it is dropped. Keyspaces and snapshots belong to their view.
///
/// A follower writes nothing, takes no lock, and never makes the writer wait. It has the files of all
/// tables open, and in memory what the writer has not flushed.
///
/// A view shows every write whose call returned before the catch-up began, also those that a crash of
/// the machine can still take from the writer. Writes with [`Durability::None`](crate::Durability)
/// appear when they are flushed.
///
/// ```
/// # fn main() -> esker::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use esker::{Db, Options};
/// let path = dir.path().join("db");
/// let writer = Db::open(&path, Options::default())?;
/// writer.put("key", "1")?;
/// // In another process:
/// let follower = Db::follow(&path, Options::default())?;
/// let view = follower.db();
/// assert_eq!(&*view.get("key")?.unwrap(), b"1");
/// writer.put("key", "2")?;
/// assert_eq!(follower.lag()?.operations, 1);
/// follower.catch_up()?;
/// assert_eq!(&*follower.db().get("key")?.unwrap(), b"2");
/// assert_eq!(&*view.get("key")?.unwrap(), b"1");
/// // After the writer has ended:
/// drop(writer);
/// let db = follower.promote()?;
/// db.put("key", "3")?;
/// # Ok(())
/// # }
/// ```
pub struct Follower {
    shared: Arc<Shared>,
    threads: ThreadGroup,
}

/// How far a follower is behind, from [`Follower::lag`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FollowerLag {
    /// Position of the newest view: the sequence number of the last operation that it shows.
    pub position: u64,
    /// Sequence number of the last operation that the store has now.
    pub newest: u64,
    /// Number of sequence numbers between the two.
    pub operations: u64,
    /// Time since the begin of the last catch-up that did not fail. The newest view shows every write
    /// that was older than this.
    pub age: Duration,
    /// Why the last catch-up failed; `None` if it did not.
    pub error: Option<Error>,
}

/// What the handle and the thread share.
struct Shared {
    /// The options of the follower, also for the promotion.
    options: Options,
    /// The process that began to follow.
    process: u64,
    following: Mutex<Following>,
    view: ArcSwap<Db>,
    outcome: Mutex<Outcome>,
    thread: Mutex<ThreadState>,
    wake: Condvar,
}

/// What the last catch-up did.
struct Outcome {
    /// Begin of the last one that did not fail.
    caught_up: Instant,
    error: Option<Error>,
}

/// The orders to the thread.
#[derive(Default)]
struct ThreadState {
    /// Time between two catch-ups; `None` before the first order.
    interval: Option<Duration>,
    stop: bool,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let view = self.shared.view.load();
        write!(f, "Follower(at {} of {})", view.inner.visible_seqno(), view.inner.dir.display())
    }
}

impl Db {
    /// Follows the store in the directory `path`, which may be open for writing in another process or
    /// in this one, or in none. The first view is that of now.
    ///
    /// `options` must have the key orders and merge operators of the store. The views have a block
    /// cache of their own, or use that of `options.runtime`. Nothing on disk is changed.
    ///
    /// See [`Follower`] for an example.
    ///
    /// # Errors
    /// As [`Db::open_read_only`].
    pub fn follow(path: impl AsRef<Path>, options: Options) -> Result<Follower> {
        Db::follow_on(OsFs::shared(), path, options)
    }

    /// Does the same as [`Db::follow`], on the given file system.
    pub fn follow_on(
        fs: Arc<dyn Fs>,
        path: impl AsRef<Path>,
        options: Options,
    ) -> Result<Follower> {
        options.validate()?;
        check_runtime(&options)?;
        let dir = &*absolute(&*fs, path.as_ref())?;
        let check = |fs: &dyn Fs| match list_dir(fs, dir)?.is_store(dir)? {
            true => Ok(()),
            false => Err(Error::not_found("there is no store here").with_path(dir)),
        };
        check(&*fs)?;
        refuse_newer(&*fs, dir, options.thresholds.newest_format)?;
        let fs = pinned(&fs, dir)?;
        check(&*fs)?;
        let caught_up = Instant::now();
        let mut following =
            patiently(|| Following::begin(fs.clone(), dir.to_path_buf(), &options))?;
        let view = following.catch_up()?;
        let view = view.ok_or_else(|| Error::not_found("the store shows nothing"))?;
        let shared = Shared {
            options,
            process: fork::process(),
            following: Mutex::new(following),
            view: ArcSwap::from_pointee(view),
            outcome: Mutex::new(Outcome { caught_up, error: None }),
            thread: Mutex::default(),
            wake: Condvar::new(),
        };
        Ok(Follower { shared: Arc::new(shared), threads: ThreadGroup::default() })
    }
}

impl Follower {
    /// Returns the newest view. It is open read-only and never changes.
    pub fn db(&self) -> Db {
        Db::clone(&self.shared.view.load())
    }

    /// Returns the position of the newest view: the sequence number of the last operation that it
    /// shows, as in [`Db::changes`].
    pub fn position(&self) -> u64 {
        self.shared.position()
    }

    /// Makes the newest view show what the store has now. Returns its position. A call that finds
    /// nothing new makes no view.
    ///
    /// Reads only what was added since the last call. When the writer removes files meanwhile, the
    /// call begins again with those that have taken their place.
    ///
    /// # Errors
    /// `Corruption` when a file is damaged; `Incompatible` when a keyspace has a key order that the
    /// options lack, or when another store is in the directory now; `Closed` in a forked child; `Io`.
    /// The newest view is then as before, and the call can be repeated.
    pub fn catch_up(&self) -> Result<u64> {
        self.shared.catch_up()
    }

    /// Lets a thread call [`Follower::catch_up`] whenever `interval` has passed since its last call.
    /// The thread ends with the follower. A further call changes the interval. [`Follower::lag`] has
    /// the error of the last call.
    ///
    /// # Errors
    /// `InvalidArgument` when `interval` is zero; `Closed` in a forked child; `Io` when no thread can
    /// be started.
    pub fn catch_up_every(&self, interval: Duration) -> Result<()> {
        if interval.is_zero() {
            return Err(Error::invalid("the interval of a follower must be longer than zero"));
        }
        self.shared.check_process()?;
        let is_running = {
            let mut thread = self.shared.thread.lock();
            thread.interval.replace(interval).is_some()
        };
        if is_running {
            self.shared.wake.notify_all();
            return Ok(());
        }
        let shared = self.shared.clone();
        self.threads.start("esker-follow", move || shared.run()).map_err(|e| {
            self.shared.thread.lock().interval = None;
            let dir = self.db().inner.dir.clone();
            Error::io(&dir, "start the thread of a follower", e)
        })
    }

    /// Waits until the newest view shows the operation with the sequence number `position`, at most
    /// `timeout`, and catches up meanwhile. Returns whether it does. So a program that has written to
    /// the store in another process, and knows the position from
    /// [`Db::snapshot_with_position`], reads its own writes.
    ///
    /// # Errors
    /// As [`Follower::catch_up`].
    pub fn wait_for(&self, position: u64, timeout: Duration) -> Result<bool> {
        let began = Instant::now();
        loop {
            if self.position() >= position || self.catch_up()? >= position {
                return Ok(true);
            }
            let left = timeout.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Ok(false);
            }
            thread::sleep(POLL.min(left));
        }
    }

    /// Returns how far the newest view is behind the store. Reads the logs from the position of the
    /// view on, and takes nothing over.
    ///
    /// # Errors
    /// As [`Follower::catch_up`].
    pub fn lag(&self) -> Result<FollowerLag> {
        let shared = &self.shared;
        shared.check_process()?;
        let (newest, position) = {
            let following = shared.following.lock();
            (following.newest()?, shared.position())
        };
        let outcome = shared.outcome.lock();
        Ok(FollowerLag {
            position,
            newest,
            operations: newest.saturating_sub(position),
            age: outcome.caught_up.elapsed(),
            error: outcome.error.clone(),
        })
    }

    /// Opens the store for writing, when its writer has ended or was killed. Every write that the
    /// writer has acknowledged is in the store, as after any other opening: after the end of the
    /// process all of them, after a crash of the machine those that were durable. The follower and its
    /// views stay readable, and follow the returned store from then on.
    ///
    /// # Errors
    /// `Locked` while the writer lives; `Incompatible` when the directory has another store now;
    /// `Corruption` when the opened store lacks writes that the newest view shows, because a crash of
    /// the machine lost them; as [`Db::open`].
    pub fn promote(&self) -> Result<Db> {
        let shared = &self.shared;
        shared.check_process()?;
        let following = shared.following.lock();
        let options =
            Options { create_if_missing: false, error_if_exists: false, ..shared.options.clone() };
        let db = Db::open_on(following.fs.clone(), &following.dir, options)?;
        if db.store_id() != following.store_id() {
            let message = "another store has taken the place of the one that was followed";
            return Err(Error::new(ErrorKind::Incompatible, message).with_path(&following.dir));
        }
        let (has, shown) = (db.inner.visible_seqno(), shared.position());
        if has < shown {
            let message = format!(
                "the follower shows sequence number {shown}, and a crash of the machine has left the \
                 store with those up to {has}; open the store with `Db::open` if that is right"
            );
            return Err(Error::new(ErrorKind::Corruption, message).with_path(&following.dir));
        }
        Ok(db)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        if self.shared.check_process().is_err() {
            // The thread does not exist in a forked child.
            return;
        }
        self.shared.thread.lock().stop = true;
        self.shared.wake.notify_all();
        self.threads.end();
    }
}

impl Shared {
    fn position(&self) -> u64 {
        self.view.load().inner.visible_seqno()
    }

    fn check_process(&self) -> Result<()> {
        if self.process == fork::now() {
            return Ok(());
        }
        let message =
            "the follower was made before this process was forked; make one in this process";
        Err(Error::new(ErrorKind::Closed, message).with_path(&self.view.load().inner.dir))
    }

    fn catch_up(&self) -> Result<u64> {
        self.check_process()?;
        let mut following = self.following.lock();
        let began = Instant::now();
        let caught_up = following.catch_up();
        let mut outcome = self.outcome.lock();
        match caught_up {
            Ok(view) => {
                if let Some(view) = view {
                    self.view.store(Arc::new(view));
                }
                *outcome = Outcome { caught_up: began, error: None };
                Ok(self.position())
            }
            Err(error) => {
                outcome.error = Some(error.clone());
                Err(error)
            }
        }
    }

    /// The thread: catches up until it is told to stop.
    fn run(&self) {
        loop {
            // The outcome has the error, also that of a panicking key order.
            let panicked = catch_panic(|| drop(self.catch_up())).err();
            if let Some(cause) = panicked {
                let message = format!("a catch-up of the follower panicked ({cause})");
                self.outcome.lock().error = Some(Error::new(ErrorKind::Io, message));
            }
            let last = Instant::now();
            let mut thread = self.thread.lock();
            while !thread.stop {
                match last.checked_add(thread.interval.unwrap_or(POLL)) {
                    Some(due) if Instant::now() >= due => break,
                    Some(due) => self.wake.wait_until(&mut thread, due),
                    // The clock has no time so late: an order ends the wait.
                    None => self.wake.wait(&mut thread),
                }
            }
            if thread.stop {
                return;
            }
        }
    }
}
