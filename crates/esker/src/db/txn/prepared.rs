//! Prepared transactions: the first half of a commit that several stores or programs decide
//! together.
//!
//! A prepared transaction is a pair in an internal keyspace: its name, and a record of its
//! operations and of what it has read ([`crate::txn::prepared`]). The pair is put by a batch that
//! is checked as the transaction's commit would be. The commit of the prepared transaction is one
//! batch, too: its operations, and the delete of the pair. So a crash at any point leaves the
//! transaction active, which means rolled back, or prepared, or committed.
//!
//! Invariants:
//! 1. From before the check until the resolution, the transaction holds locks of all that it has
//!    written and read, also after the store was opened again. So what the check has found stays
//!    true for every other transaction. Plain writes take no locks, and are not checked.
//! 2. A name is reserved in the list before its pair is written.

use std::ops::Bound;
use std::sync::Arc;

use super::newer::TreeOrders;
use super::state::{Phase, Shared, State};
use super::{PREPARED, ROLLED_BACK, Transaction};
use crate::base::key::Kind;
use crate::base::keyspace::{KeyspaceState, StoredKey, stored_bounds};
use crate::base::ops::{self, Ops};
use crate::db::Db;
use crate::db::keyspace::KeyspaceOptions;
use crate::db::state::DbInner;
use crate::db::tree::{InKeyspace, Tree};
use crate::error::{Error, ErrorKind, Result};
use crate::options::kinds::Durability;
use crate::tree::catalog::{NAME_BYTES_MAX, PREPARED_KEYSPACE};
use crate::txn::item::Orders;
use crate::txn::locks::LockOwner;
use crate::txn::prepared::{PreparedRecord, encode};
use crate::write::batch::{Batch, check_value};
use crate::write::commit::LARGE_BYTES;

impl Transaction {
    /// Checks the transaction as [`Transaction::commit`] does, and stores it under `name`, durable
    /// as a `Sync` write, but does not make its writes visible. After `Ok` the commit succeeds
    /// whatever other transactions do: [`Db::commit_prepared`] or [`Db::rollback_prepared`] ends
    /// the transaction, also after a crash, and [`Db::prepared_transactions`] lists it.
    ///
    /// Until then, other transactions cannot write what it has written or read, and cannot read
    /// what it writes for an update: their commits return `Conflict`, and pessimistic ones wait for
    /// its locks. Plain writes are not stopped; the commit writes over them. The time to live of a
    /// pair begins with this call.
    ///
    /// ```
    /// use esker::{Db, Options, TransactionOptions};
    /// # fn main() -> esker::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("db");
    /// let db = Db::open(&path, Options::default())?;
    /// let transaction = db.transaction(TransactionOptions::default());
    /// transaction.put("order", "7")?;
    /// transaction.prepare("payment 12")?;
    /// drop(db);
    /// let db = Db::open(&path, Options::default())?;
    /// assert_eq!(db.prepared_transactions(), ["payment 12"]);
    /// assert!(db.get("order")?.is_none());
    /// db.commit_prepared("payment 12")?;
    /// assert_eq!(&*db.get("order")?.unwrap(), b"7");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::commit`]; after an error the transaction is rolled back, and not prepared.
    /// * `InvalidArgument` when the name is empty, longer than 255 bytes, or in use, or when the
    ///   operations and the keys that were read exceed 1 GiB.
    /// * `Busy` and `Deadlock` when a pessimistic transaction holds the locks.
    pub fn prepare(self, name: &str) -> Result<()> {
        check_name(name)?;
        let shared = &self.shared;
        let inner = shared.inner();
        inner.check_writable()?;
        let mut state = shared.active()?;
        inner.transactions.prepared.reserve(name)?;
        let outcome = shared.prepare(&mut state, name);
        match &outcome {
            Ok(()) => {
                let owner = std::mem::replace(&mut state.owner, LockOwner::new(shared.id));
                inner.transactions.prepared.put(name, owner);
                drop(state);
                shared.end(PREPARED);
            }
            Err(_) => {
                drop(state);
                shared.end(ROLLED_BACK);
                inner.transactions.prepared.remove(name);
            }
        }
        outcome
    }
}

impl Shared {
    fn prepare(&self, state: &mut State, name: &str) -> Result<()> {
        let inner = self.inner();
        for keyspace in state.batch.keyspaces() {
            inner.check_keyspace(keyspace)?;
        }
        let (keyspace, _) = inner.make_prepared_keyspace()?;
        let since = self.snapshot(state).seqno();
        // Others get an error from now on.
        state.phase = Phase::Ended("is being prepared");
        let batch = std::mem::take(&mut state.batch);
        let reads = std::mem::take(&mut state.reads);
        let (operations, ..) = batch.parts()?;
        let timed = inner.timed_payload(&batch);
        let operations = timed.as_deref().unwrap_or(operations);
        let record = encode(&reads, operations);
        check_value(&record)?;
        // Marked before the check: a commit that comes between the two meets the locks.
        inner.transactions.locks.set_prepared(&mut state.owner, name);
        let orders = TreeOrders(inner.trees());
        for item in reads.items(operations) {
            let Some(order) = orders.order_of(item.tree()) else { continue };
            let wait = self.options.lock_timeout();
            inner.transactions.locks.lock(&mut state.owner, order, &item, wait)?;
        }
        let footprint = self.footprint_of(since, reads, operations.to_vec());
        let mut written = Batch::new();
        written.put_at(Some(&keyspace), name.as_bytes(), &record);
        inner.commit_checked(written.parts()?, Some(Durability::Sync), footprint)
    }
}

impl Db {
    /// Returns the names of the prepared transactions that wait for [`Db::commit_prepared`] or
    /// [`Db::rollback_prepared`], in alphabetical order.
    pub fn prepared_transactions(&self) -> Vec<String> {
        self.inner.transactions.prepared.names()
    }

    /// Commits a prepared transaction: makes its writes visible, durable as a `Sync` write. It is
    /// committed or still prepared if the process dies meanwhile.
    ///
    /// # Errors
    /// `NotFound` when there is no prepared transaction `name`; `Busy` while another call prepares,
    /// commits or rolls it back; as [`Db::write`]. After an error it is still prepared.
    pub fn commit_prepared(&self, name: &str) -> Result<()> {
        self.inner.resolve_prepared(name, true)
    }

    /// Rolls a prepared transaction back.
    ///
    /// # Errors
    /// As [`Db::commit_prepared`].
    pub fn rollback_prepared(&self, name: &str) -> Result<()> {
        self.inner.resolve_prepared(name, false)
    }
}

impl DbInner {
    /// Returns the internal keyspace of prepared transactions and its tree, if it exists.
    fn prepared_keyspace(&self) -> Option<(Arc<KeyspaceState>, Arc<Tree>)> {
        let keyspace = self.keyspaces.lock().find(PREPARED_KEYSPACE)?.clone();
        let tree = self.trees().get(keyspace.tree as usize)?.clone();
        Some((keyspace, tree))
    }

    fn make_prepared_keyspace(&self) -> Result<(Arc<KeyspaceState>, Arc<Tree>)> {
        if let Some(found) = self.prepared_keyspace() {
            return Ok(found);
        }
        self.create_any_keyspace(PREPARED_KEYSPACE, &KeyspaceOptions::default())?;
        self.prepared_keyspace().ok_or_else(|| {
            Error::not_found("the keyspace of prepared transactions could not be made")
        })
    }

    /// Lists the prepared transactions of an opened store, and takes their locks.
    pub fn load_prepared(&self) -> Result<()> {
        let Some((keyspace, tree)) = self.prepared_keyspace() else { return Ok(()) };
        let bounds = stored_bounds(keyspace.id, (Bound::Unbounded, Bound::Unbounded));
        let of = InKeyspace { tree: &tree, rules: &keyspace.rules };
        let iter = self.iter_at(Some(of), bounds, None, true)?;
        let mut iter = iter.in_keyspace(keyspace.id);
        iter.seek_to_first()?;
        while iter.valid() {
            let name = String::from_utf8_lossy(iter.key()).into_owned();
            let record = PreparedRecord::decode(iter.value());
            let record = record.map_err(|error| error.with_path(&self.dir))?;
            self.lock_prepared(&name, &record)?;
            iter.move_next()?;
        }
        Ok(())
    }

    fn lock_prepared(&self, name: &str, record: &PreparedRecord<'_>) -> Result<()> {
        let transactions = &self.transactions;
        let mut owner = LockOwner::new(transactions.next_id());
        let orders = TreeOrders(self.trees());
        for item in record.reads.items(record.operations) {
            let Some(order) = orders.order_of(item.tree()) else {
                let message = "a prepared transaction names a tree that does not exist";
                return Err(Error::new(ErrorKind::Corruption, message).with_path(&self.dir));
            };
            transactions.locks.lock(&mut owner, order, &item, std::time::Duration::ZERO)?;
        }
        transactions.locks.set_prepared(&mut owner, name);
        transactions.prepared.put(name, owner);
        Ok(())
    }

    fn resolve_prepared(&self, name: &str, commits: bool) -> Result<()> {
        self.check_writable()?;
        let transactions = &self.transactions;
        let mut owner = transactions.prepared.take(name)?;
        match self.write_resolution(name, commits) {
            Ok(()) => {
                transactions.locks.release(&mut owner);
                transactions.prepared.remove(name);
                Ok(())
            }
            Err(error) => {
                transactions.prepared.put(name, owner);
                Err(error)
            }
        }
    }

    /// Writes the operations of a prepared transaction, if it is committed, and removes its pair.
    fn write_resolution(&self, name: &str, commits: bool) -> Result<()> {
        let found = self.prepared_keyspace();
        let Some((keyspace, tree)) = found else { return Err(missing(name)) };
        let (mut payload, mut count) = (Vec::new(), 0);
        if commits {
            let stored = StoredKey::new(keyspace.id, name.as_bytes());
            let of = InKeyspace { tree: &tree, rules: &keyspace.rules };
            let value = self.get_at(Some(of), stored.as_slice(), None, true)?;
            let value = value.ok_or_else(|| missing(name))?;
            let record = PreparedRecord::decode(&value);
            let record = record.map_err(|error| error.with_path(&self.dir))?;
            if Ops::new(record.operations).flatten().any(|op| op.kind == Kind::PutExpiring) {
                self.rules.clock.mark_used();
            }
            payload.extend_from_slice(record.operations);
            count = record.count;
        }
        let user_bytes = payload.len() as u64;
        ops::encode_delete_at(&mut payload, Some(keyspace.place()), name.as_bytes());
        if payload.len() >= LARGE_BYTES {
            self.wait_for_room(payload.len() as u64, None)?;
        }
        self.write(&payload, count.saturating_add(1), user_bytes, Some(Durability::Sync))
    }
}

fn missing(name: &str) -> Error {
    Error::not_found(format!("the record of the prepared transaction \"{name}\" is missing"))
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Error::invalid(format!(
            "the name of a prepared transaction has 1 to {NAME_BYTES_MAX} bytes, found {}",
            name.len()
        )));
    }
    Ok(())
}
