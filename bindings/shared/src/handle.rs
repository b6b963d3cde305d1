//! A store handle that can be closed while other threads use the store.
//!
//! Invariants:
//! 1. A call that began before the close completes on an open store.
//! 2. A call that begins after the close fails with `Closed`.
//! 3. Closing twice is allowed.
//! 4. Every call from within the store's own functions (comparators, listeners) is refused, if the handle was
//!    created by [`Handle::of`].
//! 5. A function of the caller that a call runs ([`Handle::held`]) cannot close the store: the close
//!    would wait for its own thread.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use esker::{Db, ErrorKind, Keyspace, Result, internals};

use crate::calling::{self, Functions};
use crate::closable::{self, Closable};

thread_local! {
    /// Addresses of the handles that a call on this thread holds while it runs the caller's code.
    static HELD: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// A shared store, until it is closed.
pub struct Handle {
    db: Closable<Db>,
    functions: Functions,
    /// What was opened from the store, and would keep its threads and files after the close.
    keyspaces: Mutex<Vec<Weak<Closable<Keyspace>>>>,
}

impl Handle {
    /// Creates a handle to an open store.
    pub fn new(db: Db) -> Handle {
        Handle::of(db, Functions::default())
    }

    /// Creates a handle to an open store. It refuses calls from within the store's `functions`.
    pub fn of(db: Db, functions: Functions) -> Handle {
        Handle { db: Closable::new(db), functions, keyspaces: Mutex::default() }
    }

    /// Returns a keyspace of the store that ends with the store's close: what still refers to it
    /// keeps no thread and no file of the store.
    pub fn adopt(&self, keyspace: Keyspace) -> Arc<Closable<Keyspace>> {
        let keyspace = Arc::new(Closable::new(keyspace));
        let mut all = self.keyspaces.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(&keyspace));
        keyspace
    }

    /// Fails with `InvalidArgument` within the store's own comparator or filter.
    #[inline]
    pub fn check_reentry(&self) -> Result<()> {
        if calling::is_within(&self.functions) {
            return Err(internals::error(
                ErrorKind::InvalidArgument,
                "a function that the store calls must not use its own store: it is called in the \
                 middle of a call on it",
                None,
            ));
        }
        Ok(())
    }

    /// Returns the store, or `Closed`.
    #[inline]
    pub fn open(&self) -> Result<Opened> {
        self.check_reentry()?;
        self.db.open("the store was closed")
    }

    /// Returns whether the store was closed.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.db.is_closed()
    }

    /// Runs `body`, which is code of the caller within a call on the store. It may use the store, but
    /// not close it.
    pub fn held<R>(&self, body: impl FnOnce() -> R) -> R {
        struct Release;
        impl Drop for Release {
            fn drop(&mut self) {
                HELD.with_borrow_mut(|held| held.pop());
            }
        }
        HELD.with_borrow_mut(|held| held.push(std::ptr::from_ref(self).addr()));
        let _release = Release;
        body()
    }

    /// Closes the store and waits for the calls still running on it.
    pub fn close(&self) -> Result<()> {
        self.check_reentry()?;
        let own = std::ptr::from_ref(self).addr();
        if HELD.with_borrow(|held| held.contains(&own)) {
            return Err(internals::error(
                ErrorKind::InvalidArgument,
                "a function that gives pairs or a value must not close the store: the call needs it",
                None,
            ));
        }
        let closed = self.db.close().map_or(Ok(()), Db::close);
        let all =
            std::mem::take(&mut *self.keyspaces.lock().unwrap_or_else(PoisonError::into_inner));
        for keyspace in all.iter().filter_map(Weak::upgrade) {
            drop(keyspace.take());
        }
        closed
    }

    /// Closes the handle and leaks the store. For the child of a fork, which does not have the
    /// store's threads.
    pub fn abandon(&self) {
        self.db.abandon();
    }
}

/// A reference that keeps the store open.
pub type Opened = closable::Opened<Db>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adopted_keyspaces_end_with_the_close() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path().join("db"), esker::Options::default()).unwrap();
        let handle = Handle::new(db);
        let of = |name: &str| {
            let options = esker::KeyspaceOptions::default();
            handle.adopt(handle.open().unwrap().keyspace(name, &options).unwrap())
        };
        let (kept, left) = (of("kept"), of("left"));
        drop(left);
        kept.open("closed").unwrap().put("key", "value").unwrap();
        handle.close().unwrap();
        assert!(kept.is_closed());
        assert_eq!(handle.open().map(|_| ()).unwrap_err().kind(), ErrorKind::Closed);
        // Nothing holds the store any more.
        let again = Db::open(dir.path().join("db"), esker::Options::default()).unwrap();
        assert_eq!(again.keyspaces(), ["default", "kept", "left"]);
    }

    #[test]
    fn close_lets_running_calls_finish_and_refuses_later_ones() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path().join("db"), esker::Options::default()).unwrap();
        let handle = Handle::new(db);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while let Ok(db) = handle.open() {
                        db.put("key", "value").unwrap();
                    }
                });
            }
            handle.close().unwrap();
        });
        assert!(handle.is_closed());
        assert_eq!(handle.open().map(|_| ()).unwrap_err().kind(), ErrorKind::Closed);
        handle.close().unwrap();
    }

    #[test]
    fn store_is_not_closed_by_code_that_one_of_its_calls_runs() {
        let dir = tempfile::tempdir().unwrap();
        let open = |name| Db::open(dir.path().join(name), esker::Options::default()).unwrap();
        let (handle, other) = (Handle::new(open("db")), Handle::new(open("other")));
        handle.held(|| {
            assert_eq!(handle.close().unwrap_err().kind(), ErrorKind::InvalidArgument);
            handle.open().unwrap().put("key", "value").unwrap();
            other.close().unwrap();
        });
        handle.close().unwrap();
    }

    #[test]
    fn abandoned_store_refuses_calls_and_stays_locked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let handle = Handle::new(Db::open(&path, esker::Options::default()).unwrap());
        handle.abandon();
        assert!(handle.is_closed());
        let again = Db::open(&path, esker::Options::default()).map(|_| ());
        assert_eq!(again.unwrap_err().kind(), ErrorKind::Locked);
    }
}
