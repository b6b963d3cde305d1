//! Transactions: several reads and writes that take effect together, at one moment, or not at all.
//!
//! A transaction collects its operations in a batch ([`state`]). The commit ([`commit`]) writes the
//! batch as [`Db::write`](crate::Db::write) does, with the same durability and atomicity. A commit
//! checks its [footprint](crate::txn::footprint): the keys that the transaction has written and, if
//! it is serializable, the keys that it has read. The commit succeeds only if no key of the
//! footprint was written after the snapshot. Under [`Isolation::Serializable`] each transaction
//! therefore gives the result that it would give if it ran alone at the moment of its commit. Under
//! [`Isolation::Snapshot`] this holds for its written keys. A transaction that writes nothing gives
//! the result of its snapshot. Its commit checks nothing, unless something was read for an update:
//! then it checks the reads.
//!
//! **The check.** It runs under the writer state's lock, right before the batch is logged. The
//! [oracle](crate::txn::oracle) of recent commits answers it from memory. Where the oracle is not
//! certain, the commit leaves the lock, and asks the store for the newest version of each key
//! ([`crate::read::newer`]), and starts again with a footprint that is valid up to the moment of
//! that answer. After some such rounds it asks the store under the lock.
//!
//! **Certainty of the store.** A compaction may drop tombstones, and may set the sequence number of
//! an entry to 0. Both concern only entries at or below every snapshot. A transaction holds its
//! snapshot in the list of snapshots until it ends. So whatever was written after the snapshot
//! still has its newest entry, or the range tombstone that removed it, with its own number.
//!
//! **Pessimistic transactions** also lock what they use, and wait for each other instead of failing
//! at the commit. They are checked at the commit like optimistic ones, because plain writes and
//! optimistic transactions take no locks. A **prepared** transaction ([`prepared`]) was checked
//! before. Its locks stop the commit of every other transaction, but not plain writes.

mod commit;
mod iter;
mod merged;
mod newer;
mod options;
mod pending;
mod prepared;
mod retry;
mod state;
mod target;
mod writes;

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use super::keyspace::Keyspace;
use super::read_path::bounds_of_prefix;
use super::{Db, owned_bounds};
use crate::error::Result;
use crate::read::Slice;
use crate::read::scan::KeyBounds;
use crate::txn::item::Item;
use crate::write::batch::check_key;
use state::{Shared, State};
use target::Target;

pub use iter::TransactionIterator;
pub use options::{Concurrency, Isolation, TransactionOptions};

/// How a transaction ended, as a part of a message.
const COMMITTED: &str = "was committed";
const ROLLED_BACK: &str = "was rolled back";
const PREPARED: &str = "was prepared";

/// Several reads and writes that take effect together, at one moment, or not at all.
///
/// [`Db::transaction`] begins one. It reads the store as of one moment, with its own writes over
/// it. Its writes become visible to others with [`Transaction::commit`], all at once. Dropping it
/// rolls it back, as [`Transaction::rollback`] does. It works on all keyspaces: the methods whose
/// names end in `_in` take one, the others work on the keyspace `default`. A commit and a crash
/// treat it as one [`Batch`](crate::Batch).
///
/// A conflict is an error of kind [`Conflict`](crate::ErrorKind::Conflict): the transaction has
/// written nothing and should run again. [`Db::transact`] does that. Plain writes, as [`Db::put`],
/// count as transactions of one batch, so both can be mixed.
///
/// A transaction may be used from several threads, one call at a time. It keeps the versions that
/// it can read, so a transaction that is held for long costs space. Its writes and, if it is
/// serializable, the keys that it has read are in memory until it ends.
///
/// ```
/// use esker::{Db, Options, TransactionOptions};
/// # fn main() -> esker::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let db = Db::open(dir.path().join("db"), Options::default())?;
/// db.put("stock", "3")?;
/// let order = db.transaction(TransactionOptions::default());
/// let other = db.transaction(TransactionOptions::default());
/// assert_eq!(&*order.get("stock")?.unwrap(), b"3");
/// order.put("stock", "2")?;
/// assert_eq!(&*order.get("stock")?.unwrap(), b"2");
/// assert_eq!(&*db.get("stock")?.unwrap(), b"3");
/// order.commit()?;
/// assert_eq!(&*db.get("stock")?.unwrap(), b"2");
/// other.put("stock", "1")?;
/// assert_eq!(other.commit().unwrap_err().kind(), esker::ErrorKind::Conflict);
/// # Ok(())
/// # }
/// ```
pub struct Transaction {
    shared: Arc<Shared>,
}

impl Db {
    /// Begins a transaction. See [`Transaction`].
    pub fn transaction(&self, options: TransactionOptions) -> Transaction {
        Transaction { shared: Arc::new(Shared::new(self.clone(), options)) }
    }
}

impl Transaction {
    /// Returns the number of the transaction. It is unique until the store is closed. The messages
    /// about locks and deadlocks name it.
    pub fn id(&self) -> u64 {
        self.shared.id
    }

    /// Returns the value of `key`: that of the transaction's own last write of the key, otherwise
    /// that of the snapshot. Returns `None` when the key does not exist.
    ///
    /// # Errors
    /// As [`Db::get`]. In a serializable pessimistic transaction also `Busy`, `Deadlock` and
    /// `Conflict`, as for [`Transaction::get_for_update`]. `InvalidArgument` after the end of the
    /// transaction.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.get_at(None, key.as_ref(), false)
    }

    /// Does the same as [`Transaction::get`], in a keyspace.
    ///
    /// # Errors
    /// Also `NotFound` when the keyspace was dropped, and `InvalidArgument` when it belongs to
    /// another store or to another opening.
    pub fn get_in(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.get_at(Some(keyspace), key.as_ref(), false)
    }

    /// Returns the value of `key`, and protects the key as a write of it would: a commit of the
    /// transaction fails if the key was written after the snapshot. A pessimistic transaction locks
    /// the key, so that no other pessimistic transaction can write it.
    ///
    /// # Errors
    /// As [`Transaction::get`]. In a pessimistic transaction:
    /// * `Busy` when the lock is not free within `lock_timeout_ms`;
    /// * `Deadlock` when transactions wait for each other; the message names them;
    /// * `Conflict` when the key was written after the snapshot, and the transaction has read other
    ///   keys without a lock.
    ///
    /// The transaction stays usable and keeps its locks. Roll it back, so that the others continue.
    pub fn get_for_update(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.get_at(None, key.as_ref(), true)
    }

    /// Does the same as [`Transaction::get_for_update`], in a keyspace.
    pub fn get_for_update_in(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Slice>> {
        self.get_at(Some(keyspace), key.as_ref(), true)
    }

    fn get_at(
        &self,
        keyspace: Option<&Keyspace>,
        key: &[u8],
        for_update: bool,
    ) -> Result<Option<Slice>> {
        let shared = &self.shared;
        let target = Target::new(&shared.db, keyspace)?;
        if for_update {
            check_key(key)?;
        }
        target.with_stored(key, |stored| {
            let mut state = shared.active()?;
            let own = state.own(&target, key);
            if own.is_none() {
                self.note_read(&mut state, &target, stored, for_update)?;
            }
            let (snapshot, of) = (shared.snapshot(&mut state), target.in_keyspace());
            drop(state);
            match own {
                Some(own) => {
                    let value = own.value(shared.inner(), of, stored, snapshot.moment)?;
                    Ok(value.map(|value| Slice::copied(&value)))
                }
                None => shared.inner().get_at(of, stored, Some(snapshot.moment), true),
            }
        })
    }

    /// Locks a key that is about to be read, and notes what the commit must check.
    fn note_read(
        &self,
        state: &mut State,
        target: &Target<'_>,
        stored: &[u8],
        for_update: bool,
    ) -> Result<()> {
        let options = &self.shared.options;
        if !for_update && !options.is_serializable() {
            state.has_free_reads = true;
            return Ok(());
        }
        if options.is_pessimistic() {
            self.shared.lock(state, target, &target.item(stored, for_update))?;
        }
        state.reads.add_key(target.tree_id(), stored);
        state.has_update_reads |= for_update;
        Ok(())
    }

    /// Deletes every key in `[start, end)` at the commit. An empty or inverted range deletes
    /// nothing. The whole range is protected: the commit fails if another commit has written a key
    /// in it, and a pessimistic transaction locks it.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete_range(&self, start: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        self.delete_range_at(None, start.as_ref(), end.as_ref())
    }

    /// Does the same as [`Transaction::delete_range`], in a keyspace.
    pub fn delete_range_in(
        &self,
        keyspace: &Keyspace,
        start: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.delete_range_at(Some(keyspace), start.as_ref(), end.as_ref())
    }

    fn delete_range_at(&self, keyspace: Option<&Keyspace>, start: &[u8], end: &[u8]) -> Result<()> {
        let shared = &self.shared;
        let target = Target::new(&shared.db, keyspace)?;
        check_key(start)?;
        check_key(end)?;
        shared.inner().check_writable()?;
        let mut state = shared.active()?;
        if target.order().compare(start, end).is_ge() {
            return Ok(());
        }
        if shared.options.is_pessimistic() {
            let (lo, hi) = (Bound::Included(start.to_vec()), Bound::Excluded(end.to_vec()));
            let range = target.stored_range((lo, hi));
            let item = Item::Range { range: range.borrow(), is_write: true };
            shared.lock(&mut state, &target, &item)?;
        }
        shared.watch_ranges(&mut state);
        shared.delete_range(&mut state, &target, (start, end))
    }

    /// Returns an iterator over every pair, in key order: those of the snapshot, with the
    /// transaction's own writes over them.
    ///
    /// # Errors
    /// As [`Db::iter`]; `InvalidArgument` after the end of the transaction. A serializable
    /// pessimistic transaction locks the range of the iterator; `Busy`, `Deadlock` and `Conflict`
    /// are then as for [`Transaction::get_for_update`].
    pub fn iter(&self) -> Result<TransactionIterator> {
        self.iter_at(None, (Bound::Unbounded, Bound::Unbounded))
    }

    /// Does the same as [`Transaction::iter`], in a keyspace.
    pub fn iter_in(&self, keyspace: &Keyspace) -> Result<TransactionIterator> {
        self.iter_at(Some(keyspace), (Bound::Unbounded, Bound::Unbounded))
    }

    /// Returns an iterator over the pairs within `range`. See [`Transaction::iter`].
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<TransactionIterator> {
        self.iter_at(None, owned_bounds(&range))
    }

    /// Does the same as [`Transaction::range`], in a keyspace.
    pub fn range_in<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        range: impl RangeBounds<K>,
    ) -> Result<TransactionIterator> {
        self.iter_at(Some(keyspace), owned_bounds(&range))
    }

    /// Returns an iterator over the pairs whose key starts with `prefix`. See
    /// [`Transaction::iter`].
    ///
    /// # Errors
    /// Also `InvalidArgument` under a custom key order, which need not keep such keys together.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<TransactionIterator> {
        let order = &self.shared.inner().order;
        self.iter_at(None, bounds_of_prefix(order, prefix.as_ref())?)
    }

    /// Does the same as [`Transaction::prefix`], in a keyspace.
    pub fn prefix_in(
        &self,
        keyspace: &Keyspace,
        prefix: impl AsRef<[u8]>,
    ) -> Result<TransactionIterator> {
        let target = Target::new(&self.shared.db, Some(keyspace))?;
        self.iter_at(Some(keyspace), bounds_of_prefix(target.order(), prefix.as_ref())?)
    }

    fn iter_at(
        &self,
        keyspace: Option<&Keyspace>,
        bounds: KeyBounds,
    ) -> Result<TransactionIterator> {
        let shared = &self.shared;
        let target = Target::new(&shared.db, keyspace)?;
        let mut state = shared.active()?;
        let mut is_tracked = false;
        if !shared.options.is_serializable() {
            state.has_free_reads = true;
        } else if shared.options.is_pessimistic() {
            let range = target.stored_range(bounds.clone());
            let item = Item::Range { range: range.borrow(), is_write: false };
            shared.lock(&mut state, &target, &item)?;
            state.reads.add_range(range);
        } else {
            is_tracked = true;
        }
        let snapshot = shared.snapshot(&mut state);
        drop(state);
        TransactionIterator::new(shared, &target, bounds, (snapshot.moment, is_tracked))
    }

    /// Sets a savepoint, to which [`Transaction::rollback_to_savepoint`] returns. Savepoints nest.
    ///
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = esker::Db::open(dir.path().join("db"), esker::Options::default())?;
    /// let transaction = db.transaction(esker::TransactionOptions::default());
    /// transaction.put("a", "kept")?;
    /// transaction.savepoint()?;
    /// transaction.put("a", "undone")?;
    /// transaction.rollback_to_savepoint()?;
    /// transaction.commit()?;
    /// assert_eq!(&*db.get("a")?.unwrap(), b"kept");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` after the end of the transaction; `Closed`.
    pub fn savepoint(&self) -> Result<()> {
        self.shared.active()?.add_savepoint();
        Ok(())
    }

    /// Takes back the writes after the newest savepoint, and removes the savepoint. What the
    /// transaction has read stays protected, and it keeps its locks.
    ///
    /// # Errors
    /// `NotFound` when there is no savepoint; `InvalidArgument` after the end of the transaction.
    pub fn rollback_to_savepoint(&self) -> Result<()> {
        let mut state = self.shared.active()?;
        self.shared.roll_back_to_savepoint(&mut state)
    }

    /// Removes the newest savepoint and keeps the writes after it.
    ///
    /// # Errors
    /// As [`Transaction::rollback_to_savepoint`].
    pub fn pop_savepoint(&self) -> Result<()> {
        self.shared.active()?.pop_savepoint()
    }

    /// Ends the transaction without its writes. Its iterators return errors from now on.
    pub fn rollback(self) {
        self.shared.end(ROLLED_BACK);
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.shared.end(ROLLED_BACK);
    }
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Transaction({} of {:?})", self.shared.id, self.shared.db)
    }
}
