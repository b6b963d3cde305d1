//! A store that can be closed while other threads use it.
//!
//! What stays true: a call that began before the close ends on an open store; one that begins after
//! it gets `Closed`; closing twice is allowed; within the store's own comparator or filter every
//! call is refused.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwapOption, Guard};
use esker::{Db, Error, ErrorKind, Result};

use crate::calling::{self, Functions};

/// Shares a store until it is closed.
pub struct Handle {
    db: ArcSwapOption<Db>,
    functions: Functions,
}

impl Handle {
    /// A handle on an open store.
    pub fn new(db: Db) -> Handle {
        Handle::of(db, Functions::default())
    }

    /// A handle on an open store, refused to these functions of the store's.
    pub fn of(db: Db, functions: Functions) -> Handle {
        Handle { db: ArcSwapOption::from_pointee(db), functions }
    }

    /// `InvalidArgument` within the store's own comparator or filter.
    #[inline]
    pub fn check_reentry(&self) -> Result<()> {
        if calling::is_within(&self.functions) {
            return Err(Error::invalid(
                "a comparator or filter must not use its own store: it is called in the middle of \
                 a call on it",
            ));
        }
        Ok(())
    }

    /// The store, if it was not closed.
    #[inline]
    pub fn open(&self) -> Result<Opened> {
        self.check_reentry()?;
        let guard = self.db.load();
        if guard.is_none() {
            return Err(Error::new(ErrorKind::Closed, "the store was closed"));
        }
        Ok(Opened(guard))
    }

    /// Whether the store was closed.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.db.load().is_none()
    }

    /// Closes the store and waits for the calls that run on it.
    pub fn close(&self) -> Result<()> {
        self.check_reentry()?;
        let Some(mut db) = self.db.swap(None) else { return Ok(()) };
        // Calls that run now hold the store a little longer.
        loop {
            match Arc::try_unwrap(db) {
                Ok(db) => return db.close(),
                Err(shared) => db = shared,
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Closes the handle but leaves the store as it is, for ever: for the child of a fork, to which
    /// the store's threads did not come along.
    pub fn abandon(&self) {
        std::mem::forget(self.db.swap(None));
    }
}

/// A store that stays open while this is held.
pub struct Opened(Guard<Option<Arc<Db>>>);

impl std::ops::Deref for Opened {
    type Target = Db;

    #[inline]
    fn deref(&self) -> &Db {
        match &*self.0 {
            Some(db) => db,
            None => unreachable!("it was there when the guard was made"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_run_end_well_and_later_ones_are_refused() {
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
    fn an_abandoned_store_is_closed_to_the_handle_and_still_locked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let handle = Handle::new(Db::open(&path, esker::Options::default()).unwrap());
        handle.abandon();
        assert!(handle.is_closed());
        let again = Db::open(&path, esker::Options::default()).map(|_| ());
        assert_eq!(again.unwrap_err().kind(), ErrorKind::Locked);
    }
}
