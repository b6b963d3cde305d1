//! Snapshots: sequence numbers that compaction must keep readable.

use std::sync::Arc;

use super::Db;
use super::read_path::bounds_of_prefix;
use super::state::DbInner;
use crate::base::expiry::Moment;
use crate::base::key::SeqNo;
use crate::error::Result;
use crate::read::Slice;
use crate::read::scan::DbIterator;

/// The state of the store at one moment, readable until the snapshot is dropped.
///
/// The versions of keys that a snapshot can see stay on disk until it is dropped, so an old
/// snapshot costs space. A pair that had not expired when the snapshot was taken stays visible to
/// it.
///
/// ```
/// # fn main() -> esker::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let db = esker::Db::open(dir.path().join("db"), esker::Options::default())?;
/// db.put("k", "before")?;
/// let snapshot = db.snapshot();
/// db.put("k", "after")?;
/// assert_eq!(&*snapshot.get("k")?.unwrap(), b"before");
/// # Ok(())
/// # }
/// ```
pub struct Snapshot {
    pub(super) inner: Arc<DbInner>,
    pub(super) moment: Moment,
}

impl Snapshot {
    pub(super) fn new(inner: Arc<DbInner>) -> Snapshot {
        let moment = inner.snapshots.hold(|| inner.present());
        Snapshot { inner, moment }
    }

    /// Does the same as [`Db::snapshot`], but fails with `Closed` in a child that was forked after the
    /// store was opened.
    pub(crate) fn of_process(db: &Db) -> Result<Snapshot> {
        db.inner.check_open()?;
        Ok(db.snapshot())
    }

    /// Returns the sequence number at which the snapshot reads.
    pub fn seqno(&self) -> SeqNo {
        self.moment.seqno
    }

    /// Returns the value of `key` in the snapshot.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.inner.get_at(None, key.as_ref(), Some(self.moment), true)
    }

    /// Returns the values of many keys, in the order of `keys`; see [`crate::Db::multi_get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        self.inner.multi_get_at(None, keys, Some(self.moment), true)
    }

    /// Returns whether `key` exists in the snapshot.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// Returns an iterator over every pair in the snapshot.
    pub fn iter(&self) -> Result<DbIterator> {
        let everything = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        self.inner.iter_at(None, everything, Some(self.moment), true)
    }

    /// Returns an iterator over the pairs of the snapshot within `range`.
    pub fn range<K: AsRef<[u8]>>(
        &self,
        range: impl std::ops::RangeBounds<K>,
    ) -> Result<DbIterator> {
        self.inner.iter_at(None, super::owned_bounds(&range), Some(self.moment), true)
    }

    /// Returns an iterator over the pairs of the snapshot whose key starts with `prefix`.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<DbIterator> {
        let bounds = bounds_of_prefix(&self.inner.order, prefix.as_ref())?;
        self.inner.iter_at(None, bounds, Some(self.moment), true)
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.inner.snapshots.release(self.moment);
    }
}
