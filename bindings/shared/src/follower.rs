//! A follower that can be closed while other threads use it.
//!
//! Invariants:
//! 1. A call that began before the close completes. A call that begins after it fails with `Closed`.
//! 2. Closing twice is allowed. A close ends a wait of another thread.
//! 3. A call from within a function of the followed store (a comparator, a merge operator) is refused:
//!    the catch-up that called it holds the follower.
//! 4. Views and promoted stores stay open when the follower is closed.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use esker::follow::Follower;
use esker::fs::Fs;
use esker::{Db, ErrorKind, Options, Result, internals};

use crate::calling::{self, Functions};
use crate::closable::{Closable, Opened};
use crate::encryption::{Key, file_system};
use crate::orders::Orders;

/// Longest part of a wait, after which it looks whether the follower was closed.
pub const WAIT_PART: Duration = Duration::from_millis(50);

/// A shared follower, until it is closed.
pub struct FollowerHandle {
    follower: Closable<Follower>,
    functions: Functions,
    options: Options,
}

impl FollowerHandle {
    /// Follows the store in `path`, on `below` or with a key on the encrypting file system over it.
    ///
    /// # Errors
    /// As [`Db::follow`].
    pub fn follow(
        below: Arc<dyn Fs>,
        path: &Path,
        options: Options,
        key: Option<&Key>,
    ) -> Result<FollowerHandle> {
        let functions = calling::functions_of(&options).with(key);
        let follower = Db::follow_on(file_system(below, key), path, options.clone())?;
        Ok(FollowerHandle { follower: Closable::new(follower), functions, options })
    }

    /// Returns the follower, or `Closed`.
    pub fn open(&self) -> Result<OpenFollower> {
        self.check_reentry()?;
        self.follower.open("the follower was closed")
    }

    /// Fails with `InvalidArgument` within a function of the followed store.
    pub fn check_reentry(&self) -> Result<()> {
        if calling::is_within(&self.functions) {
            return Err(internals::error(
                ErrorKind::InvalidArgument,
                "a function of the followed store must not use its follower: it is called in the \
                 middle of a call on it",
                None,
            ));
        }
        Ok(())
    }

    /// Returns the functions that a view or a promoted store calls.
    pub fn functions(&self) -> Functions {
        self.functions.clone()
    }

    /// Returns the key orders that keyspaces of a view or a promoted store may name.
    pub fn orders(&self) -> Orders {
        Orders::of(&self.options)
    }

    /// Waits as [`Follower::wait_for`], and looks every [`WAIT_PART`] whether the follower was closed,
    /// and whether `goes_on`. Returns whether the newest view shows `position`.
    ///
    /// # Errors
    /// As [`Follower::wait_for`]; `Closed`.
    pub fn wait_for(
        &self,
        position: u64,
        timeout: Option<Duration>,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<bool> {
        let began = Instant::now();
        loop {
            let left = timeout.map_or(WAIT_PART, |all| all.saturating_sub(began.elapsed()));
            if self.open()?.wait_for(position, left.min(WAIT_PART))? {
                return Ok(true);
            }
            if left <= WAIT_PART && timeout.is_some() || !goes_on() {
                return Ok(false);
            }
        }
    }

    /// Returns whether the follower was closed.
    pub fn is_closed(&self) -> bool {
        self.follower.is_closed()
    }

    /// Closes the follower: waits for the calls still running on it, and ends its thread.
    ///
    /// # Errors
    /// `InvalidArgument` within a function of the followed store.
    pub fn close(&self) -> Result<()> {
        self.check_reentry()?;
        drop(self.follower.close());
        Ok(())
    }

    /// Closes the handle and leaks the follower. For the child of a fork, which does not have the
    /// follower's thread.
    pub fn abandon(&self) {
        self.follower.abandon();
    }
}

impl Drop for FollowerHandle {
    fn drop(&mut self) {
        if self.check_reentry().is_err() {
            // The thread of the follower may be this one, and cannot wait for its own end.
            let follower = self.follower.take();
            drop(std::thread::Builder::new().spawn(move || drop(follower)));
        }
    }
}

/// A reference that keeps the follower open.
pub type OpenFollower = Opened<Follower>;

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;
    use std::sync::{Mutex, OnceLock};

    use esker::fs::OsFs;
    use esker::{Comparator, KeyOrder};

    use super::*;

    fn follow(path: &Path, options: Options) -> FollowerHandle {
        FollowerHandle::follow(OsFs::shared(), path, options, None).unwrap()
    }

    #[test]
    fn close_ends_a_wait_and_refuses_later_calls() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let writer = Db::open(&path, Options::default()).unwrap();
        writer.put("k", "1").unwrap();
        let follower = follow(&path, Options::default());
        let view = follower.open().unwrap().db();
        let position = follower.open().unwrap().position();
        assert!(follower.wait_for(position, Some(Duration::ZERO), || true).unwrap());
        assert!(!follower.wait_for(position + 1, Some(Duration::ZERO), || true).unwrap());
        assert!(!follower.wait_for(position + 1, None, || false).unwrap());
        std::thread::scope(|scope| {
            let wait = scope.spawn(|| follower.wait_for(position + 1, None, || true));
            follower.close().unwrap();
            assert_eq!(wait.join().unwrap().unwrap_err().kind(), ErrorKind::Closed);
        });
        follower.close().unwrap();
        assert!(follower.is_closed());
        assert_eq!(follower.open().map(drop).unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(&*view.get("k").unwrap().unwrap(), b"1");
    }

    /// A key order that uses the follower of its store.
    #[derive(Default)]
    struct Greedy {
        follower: OnceLock<Arc<FollowerHandle>>,
        kinds: Mutex<Vec<ErrorKind>>,
    }

    impl Comparator for Greedy {
        fn name(&self) -> &str {
            "test.greedy"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            calling::within(self, || {
                if let Some(follower) = self.follower.get() {
                    let caught_up = follower.open().and_then(|follower| follower.catch_up());
                    let errors = [caught_up.map(drop), follower.close()];
                    let kinds = errors.into_iter().map(|error| error.unwrap_err().kind());
                    self.kinds.lock().unwrap().extend(kinds);
                }
                a.cmp(b)
            })
        }
    }

    #[test]
    fn function_of_the_store_cannot_use_its_follower() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let options = |order: &Arc<Greedy>| Options {
            key_order: KeyOrder::Custom(order.clone()),
            ..Options::default()
        };
        let (writing, reading) = (Arc::new(Greedy::default()), Arc::new(Greedy::default()));
        let writer = Db::open(&path, options(&writing)).unwrap();
        let follower = Arc::new(follow(&path, options(&reading)));
        assert!(reading.follower.set(follower.clone()).is_ok());
        for key in ["a", "b", "c"] {
            writer.put(key, "1").unwrap();
        }
        follower.open().unwrap().catch_up().unwrap();
        let kinds = reading.kinds.lock().unwrap().clone();
        assert!(!kinds.is_empty());
        assert!(kinds.iter().all(|kind| *kind == ErrorKind::InvalidArgument), "{kinds:?}");
        assert!(!follower.is_closed());
    }
}
