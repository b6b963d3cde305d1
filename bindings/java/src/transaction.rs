//! Transactions.
//!
//! Invariants:
//! 1. An ended transaction throws at each use.
//! 2. A call that waits for a lock does not hold the store open: a close of the store ends the wait.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use esker::{Concurrency, Isolation, Transaction, TransactionOptions};
use esker_bindings::handle::Handle;
use jni_sys::{jboolean, jbyteArray, jint, jlong};

use crate::env::{Failure, Outcome, natives};
use crate::handle::{Given, give, object, take};
use crate::part::{Part, durability, there};

/// A transaction, until it ends.
pub struct Running {
    store: Arc<Handle>,
    transaction: ArcSwapOption<Transaction>,
}

impl Given for Running {
    const TAG: u64 = 0x4573_6b65_7200_0004;
    const NAME: &'static str = "transaction";
}

impl Running {
    /// Returns the transaction.
    pub fn open(&self) -> Outcome<Arc<Transaction>> {
        drop(self.store.open()?);
        self.transaction.load_full().ok_or_else(ended)
    }

    /// Takes the transaction, to end it.
    fn take(&self) -> Outcome<Transaction> {
        drop(self.store.open()?);
        let mut shared = self.transaction.swap(None).ok_or_else(ended)?;
        loop {
            match Arc::try_unwrap(shared) {
                Ok(transaction) => return Ok(transaction),
                Err(still) => shared = still,
            }
            std::thread::yield_now();
        }
    }
}

fn ended() -> Failure {
    Failure::closed("the transaction has ended")
}

natives! {
    /// Begins a transaction.
    fn Java_dev_esker_Native_transaction(
        env, part: jlong, is_serializable: jboolean, is_pessimistic: jboolean,
        lock_timeout_ms: jlong, durable: jint,
    ) -> jlong, 0; {
        let part: &Part = object(part)?;
        let options = TransactionOptions::default()
            .isolation(if is_serializable { Isolation::Serializable } else { Isolation::Snapshot })
            .concurrency(match is_pessimistic {
                true => Concurrency::Pessimistic,
                false => Concurrency::Optimistic,
            })
            .lock_timeout_ms(lock_timeout_ms.max(0) as u64)
            .durability(durability(durable)?);
        let transaction = part.open()?.transaction(options);
        let transaction = ArcSwapOption::from_pointee(transaction);
        Ok(give(Running { store: part.store.clone(), transaction }))
    }

    /// Returns the value of a key, or null.
    fn Java_dev_esker_Native_transactionGet(
        env, transaction: jlong, part: jlong, key: jbyteArray, for_update: jboolean,
    ) -> jbyteArray, std::ptr::null_mut(); {
        let transaction = object::<Running>(transaction)?.open()?;
        let (part, key) = (object::<Part>(part)?, there(env, key)?);
        let found = match (part.keyspace()?.as_deref(), for_update) {
            (None, false) => transaction.get(&*key)?,
            (None, true) => transaction.get_for_update(&*key)?,
            (Some(keyspace), false) => transaction.get_in(keyspace, &*key)?,
            (Some(keyspace), true) => transaction.get_for_update_in(keyspace, &*key)?,
        };
        Ok(found.map_or(std::ptr::null_mut(), |value| env.give_bytes(&value)))
    }

    /// Puts (0), deletes (1), deletes a range (2) or merges (3).
    fn Java_dev_esker_Native_transactionWrite(
        env, transaction: jlong, part: jlong, kind: jint, key: jbyteArray, value: jbyteArray,
    ) -> (), (); {
        let transaction = object::<Running>(transaction)?.open()?;
        let (part, key) = (object::<Part>(part)?, there(env, key)?);
        let value = env.whole(value)?;
        let value = value.as_deref().unwrap_or_default();
        Ok(match (kind, part.keyspace()?.as_deref()) {
            (0, None) => transaction.put(&*key, value)?,
            (0, Some(keyspace)) => transaction.put_in(keyspace, &*key, value)?,
            (1, None) => transaction.delete(&*key)?,
            (1, Some(keyspace)) => transaction.delete_in(keyspace, &*key)?,
            (2, None) => transaction.delete_range(&*key, value)?,
            (2, Some(keyspace)) => transaction.delete_range_in(keyspace, &*key, value)?,
            (3, None) => transaction.merge(&*key, value)?,
            (3, Some(keyspace)) => transaction.merge_in(keyspace, &*key, value)?,
            _ => return Err(Failure::invalid(format!("there is no operation of kind {kind}"))),
        })
    }

    /// Sets a savepoint (0), rolls back to it (1) or removes it (2).
    fn Java_dev_esker_Native_savepoint(env, transaction: jlong, kind: jint) -> (), (); {
        let transaction = object::<Running>(transaction)?.open()?;
        Ok(match kind {
            0 => transaction.savepoint()?,
            1 => transaction.rollback_to_savepoint()?,
            _ => transaction.pop_savepoint()?,
        })
    }

    /// Commits.
    fn Java_dev_esker_Native_commit(env, transaction: jlong) -> (), (); {
        Ok(object::<Running>(transaction)?.take()?.commit()?)
    }

    /// Prepares under a name.
    fn Java_dev_esker_Native_prepare(env, transaction: jlong, name: jbyteArray) -> (), (); {
        let name = env.text(name)?;
        Ok(object::<Running>(transaction)?.take()?.prepare(&name)?)
    }

    /// Commits a prepared transaction, or rolls it back.
    fn Java_dev_esker_Native_resolvePrepared(
        env, part: jlong, name: jbyteArray, commits: jboolean,
    ) -> (), (); {
        let (part, name) = (object::<Part>(part)?, env.text(name)?);
        let db = part.open()?;
        Ok(match commits {
            true => db.commit_prepared(&name)?,
            false => db.rollback_prepared(&name)?,
        })
    }

    /// Ends a transaction without its writes, and frees it.
    fn Java_dev_esker_Native_freeTransaction(env, transaction: jlong) -> (), (); {
        take::<Running>(transaction)
    }
}
