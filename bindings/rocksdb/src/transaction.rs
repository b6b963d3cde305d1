//! A transaction of RocksDB over a transaction of Esker.
//!
//! RocksDB's transaction reads the newest state unless a read names a snapshot, and protects the
//! keys that it writes or reads for an update. Esker's transaction reads one moment. So plain reads
//! go to the store with the own writes over it, and only writes and reads for an update go to
//! Esker's transaction, which begins with the first of them.
//!
//! Invariants:
//! 1. Each write is in Esker's transaction and in the overlay.
//! 2. With `set_snapshot`, Esker's transaction begins before the snapshot is taken. So each write
//!    after the snapshot is a conflict.
//! 3. A transaction whose commit failed does nothing until it is rolled back.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use esker::{Concurrency, Snapshot, Transaction, TransactionOptions, WriteOptions};
use esker_c::failure::{Failure, Outcome};

use crate::batch_wi::lock;
use crate::failure::{EXPIRED, refusal};
use crate::operators::no_operator;
use crate::overlay::Overlay;
use crate::rep::{Record, Rep};
use crate::store::{Family, Store};

/// Milliseconds that stand for a wait without an end: ten years.
const FOREVER_MS: u64 = 10 * 365 * 24 * 3600 * 1000;

/// What a transaction can do now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Active,
    Prepared,
    /// It does nothing any more, for this reason.
    Ended(&'static str),
}

/// How a transaction begins.
#[derive(Clone, Copy)]
pub(crate) struct Beginning {
    /// Options of Esker's transaction.
    pub options: TransactionOptions,
    /// Whether its writes are checked from its beginning on.
    pub with_snapshot: bool,
    /// Milliseconds after which it can no longer be used; negative for no end.
    pub expiration_ms: i64,
}

impl Beginning {
    /// Returns the beginning of an optimistic transaction.
    pub fn optimistic(write: WriteOptions, with_snapshot: bool) -> Beginning {
        let options = TransactionOptions::default().durability(write.durability);
        Beginning { options, with_snapshot, expiration_ms: -1 }
    }

    /// Returns the beginning of a transaction with locks. A negative timeout waits without an end.
    pub fn pessimistic(write: WriteOptions, lock_timeout_ms: i64) -> Beginning {
        let options = TransactionOptions::default()
            .concurrency(Concurrency::Pessimistic)
            .lock_timeout_ms(u64::try_from(lock_timeout_ms).unwrap_or(FOREVER_MS).min(FOREVER_MS))
            .durability(write.durability);
        Beginning { options, with_snapshot: false, expiration_ms: -1 }
    }
}

/// A transaction.
pub struct rocksdb_transaction_t {
    store: Arc<Store>,
    inner: Option<Transaction>,
    options: TransactionOptions,
    overlay: Arc<Mutex<Overlay>>,
    snapshot: Option<Box<Snapshot>>,
    name: String,
    phase: Phase,
    deadline: Option<Instant>,
}

impl rocksdb_transaction_t {
    /// Begins a transaction.
    pub(crate) fn begin(store: &Arc<Store>, beginning: Beginning) -> rocksdb_transaction_t {
        let options = beginning.options;
        let order = store.default.keyspace().key_order().clone();
        let mut made = rocksdb_transaction_t {
            store: store.clone(),
            inner: None,
            options,
            overlay: Arc::new(Mutex::new(Overlay::new(order))),
            snapshot: None,
            name: String::new(),
            phase: Phase::Active,
            deadline: u64::try_from(beginning.expiration_ms)
                .ok()
                .and_then(|ms| Instant::now().checked_add(Duration::from_millis(ms))),
        };
        if beginning.with_snapshot {
            let inner = store.db().transaction(options);
            if options.concurrency == Concurrency::Pessimistic {
                // A read without a lock fixes the moment from which on writes are conflicts. What
                // it returns, or its failure, does not matter: the next call reports it.
                let _ = inner.get("");
            }
            made.inner = Some(inner);
            made.snapshot = Some(Box::new(store.db().snapshot()));
        }
        made
    }

    /// Returns a transaction that was prepared before, perhaps in another process.
    pub(crate) fn prepared(store: &Arc<Store>, name: String) -> rocksdb_transaction_t {
        let beginning = Beginning::pessimistic(WriteOptions::SYNC, 1000);
        let mut made = rocksdb_transaction_t::begin(store, beginning);
        made.name = name;
        made.phase = Phase::Prepared;
        made
    }

    /// Returns the store.
    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Returns the own writes.
    pub(crate) fn overlay(&self) -> &Arc<Mutex<Overlay>> {
        &self.overlay
    }

    /// Returns the snapshot of `set_snapshot`; null if there is none.
    pub(crate) fn snapshot(&self) -> *const Snapshot {
        self.snapshot.as_deref().map_or(std::ptr::null(), std::ptr::from_ref)
    }

    /// Returns the name; empty if there is none.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Fails unless the transaction can be used.
    fn check(&self) -> Outcome<()> {
        match self.phase {
            Phase::Active => {}
            Phase::Prepared => {
                return Err(Failure::invalid(
                    "Transaction has been prepared: commit it or roll it back",
                ));
            }
            Phase::Ended(why) => return Err(Failure::invalid(why)),
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(Failure {
                code: EXPIRED,
                message: "the transaction was used after its expiration".to_string(),
            }),
            _ => Ok(()),
        }
    }

    /// Returns Esker's transaction, which begins with the first call.
    fn tracked(&mut self) -> &Transaction {
        let (store, options) = (&self.store, self.options);
        self.inner.get_or_insert_with(|| store.db().transaction(options))
    }

    /// Sets or deletes a key, or merges an operand into its value.
    pub(crate) fn write(&mut self, family: &Family, record: Record<'_>) -> Outcome<()> {
        self.check()?;
        let keyspace = &family.keyspace();
        match record {
            Record::Put { key, value, .. } => match family.ttl {
                Some(ttl) => self.tracked().put_with_ttl_in(keyspace, key, value, ttl)?,
                None => self.tracked().put_in(keyspace, key, value)?,
            },
            Record::Delete { key, .. } | Record::SingleDelete { key, .. } => {
                self.tracked().delete_in(keyspace, key)?;
            }
            Record::DeleteRange { .. } => {
                let why = "a transaction deletes single keys; delete ranges outside of it";
                return Err(refusal("rocksdb_transaction_rebuild_from_writebatch", why));
            }
            Record::Merge { .. } if family.operator().is_none() => return Err(no_operator()),
            Record::Merge { key, operand, .. } => {
                self.tracked().merge_in(keyspace, key, operand)?;
            }
            Record::LogData(_) => {}
        }
        lock(&self.overlay).write(Some(keyspace.key_order()), record);
        Ok(())
    }

    /// Adds the operations of a batch.
    pub(crate) fn add(&mut self, rep: &Rep) -> Outcome<()> {
        for record in rep.records() {
            let record = record?;
            let family = self.store.family(record.family())?;
            self.write(&family, record)?;
        }
        Ok(())
    }

    /// Protects a key as a write of it would.
    pub(crate) fn lock_key(&mut self, family: &Family, key: &[u8]) -> Outcome<()> {
        self.check()?;
        self.tracked().get_for_update_in(&family.keyspace(), key)?;
        Ok(())
    }

    /// Sets a savepoint.
    pub(crate) fn set_savepoint(&mut self) -> Outcome<()> {
        self.check()?;
        self.tracked().savepoint()?;
        lock(&self.overlay).set_savepoint();
        Ok(())
    }

    /// Takes back the writes after the newest savepoint, and removes the savepoint.
    pub(crate) fn roll_back_to_savepoint(&mut self) -> Outcome<()> {
        self.check()?;
        lock(&self.overlay).roll_back_to_savepoint()?;
        Ok(self.tracked().rollback_to_savepoint()?)
    }

    /// Names the transaction, which must be done before it is prepared.
    pub(crate) fn set_name(&mut self, name: &str) -> Outcome<()> {
        self.check()?;
        if !self.name.is_empty() {
            return Err(Failure::invalid("Transaction has already been named."));
        }
        if name.is_empty() || name.len() > 255 {
            return Err(Failure::invalid(
                "Transaction name length must be between 1 and 255 chars.",
            ));
        }
        self.store.reserve_name(name)?;
        self.name = name.to_string();
        Ok(())
    }

    /// Prepares the transaction: its commit succeeds from now on, also after a crash.
    pub(crate) fn prepare(&mut self) -> Outcome<()> {
        self.check()?;
        if self.name.is_empty() {
            return Err(Failure::invalid("Cannot prepare a transaction that has not been named."));
        }
        self.tracked();
        if let Some(inner) = self.inner.take() {
            self.phase = Phase::Ended("the transaction could not be prepared; roll it back");
            inner.prepare(&self.name)?;
        }
        self.phase = Phase::Prepared;
        Ok(())
    }

    /// Makes the writes visible.
    pub(crate) fn commit(&mut self) -> Outcome<()> {
        if self.phase == Phase::Prepared {
            self.store.db().commit_prepared(&self.name)?;
        } else {
            self.check()?;
            if let Some(inner) = self.inner.take() {
                self.phase = Phase::Ended("the commit of the transaction failed; roll it back");
                inner.commit()?;
            }
        }
        let is_optimistic = self.options.concurrency == Concurrency::Optimistic;
        self.reset();
        if !is_optimistic {
            self.phase = Phase::Ended("Transaction has already been committed.");
        }
        Ok(())
    }

    /// Takes back all writes. The transaction can be used again.
    pub(crate) fn roll_back(&mut self) -> Outcome<()> {
        if self.phase == Phase::Prepared {
            self.store.db().rollback_prepared(&self.name)?;
        }
        self.reset();
        Ok(())
    }

    fn reset(&mut self) {
        if let Some(inner) = self.inner.take() {
            inner.rollback();
        }
        lock(&self.overlay).clear();
        if !self.name.is_empty() {
            self.store.release_name(&std::mem::take(&mut self.name));
        }
        self.phase = Phase::Active;
        self.deadline = None;
    }
}

impl Drop for rocksdb_transaction_t {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            self.store.release_name(&self.name);
        }
    }
}
