//! Transactions.
//!
//! Invariants:
//! 1. One call at a time uses a transaction: `lib/transaction.js` queues the others. A call that
//!    finds another one is refused and does not wait.
//! 2. A call that can wait for a lock runs in a thread of `waits.rs`, and does not keep the store
//!    open. So a close ends the wait.
//! 3. A batch of writes on a transaction is whole or absent: an error takes back its first part.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use esker::{Concurrency, ErrorKind, Isolation, Slice, Transaction, TransactionOptions, internals};
use napi::Env;
use napi::bindgen_prelude::{Buffer, Object as JsObject};
use napi_derive::napi;

use crate::errors::{closed, invalid};
use crate::iterator::{Pairs, bounds_of};
use crate::objects::{Object, Part, Shared, with};
use crate::waits::in_a_thread;
use crate::work::Answer;
use crate::write::{self, Change};

/// A transaction, until it ends.
pub struct Held {
    part: Arc<Part>,
    transaction: Mutex<Option<Transaction>>,
}

impl Held {
    fn lock(&self) -> esker::Result<MutexGuard<'_, Option<Transaction>>> {
        match self.transaction.try_lock() {
            Ok(guard) => Ok(guard),
            Err(TryLockError::Poisoned(guard)) => Ok(guard.into_inner()),
            Err(TryLockError::WouldBlock) => {
                Err(internals::error(ErrorKind::Busy, "another call uses the transaction", None))
            }
        }
    }

    fn on<R>(&self, work: impl FnOnce(&Transaction) -> esker::Result<R>) -> esker::Result<R> {
        drop(self.part.open()?);
        match &*self.lock()? {
            Some(transaction) => work(transaction),
            None => Err(closed("transaction")),
        }
    }

    fn get(&self, part: &Part, key: &[u8], for_update: bool) -> esker::Result<Option<Slice>> {
        self.on(|transaction| match (&part.keyspace, for_update) {
            (None, false) => transaction.get(key),
            (None, true) => transaction.get_for_update(key),
            (Some(keyspace), false) => transaction.get_in(keyspace, key),
            (Some(keyspace), true) => transaction.get_for_update_in(keyspace, key),
        })
    }

    fn write(&self, changes: &[Change]) -> esker::Result<()> {
        self.on(|transaction| match changes {
            [one] => one.apply(transaction),
            many => {
                transaction.savepoint()?;
                match many.iter().try_for_each(|change| change.apply(transaction)) {
                    Ok(()) => transaction.pop_savepoint(),
                    Err(error) => {
                        transaction.rollback_to_savepoint()?;
                        Err(error)
                    }
                }
            }
        })
    }
}

/// Returns a transaction and one of the keyspaces of its store.
fn both(shared: &Shared, held: u32, part: u32) -> esker::Result<(Arc<Held>, Arc<Part>)> {
    let (held, part) = (shared.transaction(held)?, shared.part(part)?);
    if !Arc::ptr_eq(&held.part.store, &part.store) {
        return Err(invalid("the keyspace belongs to another database than the transaction"));
    }
    Ok((held.clone(), part.clone()))
}

/// Begins a transaction. Returns its number.
#[napi]
pub fn transaction(
    part: u32,
    serializable: bool,
    pessimistic: bool,
    lock_timeout_ms: f64,
    durable: u8,
) -> napi::Result<u32> {
    with(|shared| {
        let part = shared.part(part)?.clone();
        let isolation = if serializable { Isolation::Serializable } else { Isolation::Snapshot };
        let concurrency =
            if pessimistic { Concurrency::Pessimistic } else { Concurrency::Optimistic };
        let timeout = write::time(lock_timeout_ms)?.as_millis().min(u128::from(u32::MAX)) as u64;
        let options = TransactionOptions::default()
            .isolation(isolation)
            .concurrency(concurrency)
            .lock_timeout_ms(timeout)
            .durability(write::durability(durable)?);
        let transaction = Mutex::new(Some(part.open()?.transaction(options)));
        Ok(shared.add(Object::Transaction(Arc::new(Held { part, transaction }))))
    })
}

/// Reads a value in the thread of JavaScript. Nothing for a missing key.
#[napi]
pub fn transaction_get(
    held: u32,
    part: u32,
    key_bytes: u32,
    for_update: bool,
) -> napi::Result<Option<Buffer>> {
    with(|shared| {
        let (held, part) = both(shared, held, part)?;
        let found = held.get(&part, shared.input(key_bytes)?, for_update)?;
        Ok(found.map(|value| value.to_vec().into()))
    })
}

/// Reads a value in a thread in which the read may wait for a lock.
#[napi]
pub fn transaction_get_later(
    env: &Env,
    held: u32,
    part: u32,
    key_bytes: u32,
    for_update: bool,
) -> napi::Result<JsObject<'_>> {
    let (held, part, key) = with(|shared| {
        let (held, part) = both(shared, held, part)?;
        Ok((held, part, shared.input(key_bytes)?.to_vec()))
    })?;
    in_a_thread(env, move || {
        let found = held.get(&part, &key, for_update)?;
        Ok(found.map_or(Answer::Nothing, |value| Answer::Bytes(value.to_vec())))
    })
}

/// Writes packed operations in the thread of JavaScript.
#[napi]
pub fn transaction_write(held: u32, packed_bytes: u32) -> napi::Result<()> {
    with(|shared| {
        let held = shared.transaction(held)?.clone();
        let changes = write::changes_of(shared, &held.part, shared.input(packed_bytes)?)?;
        held.write(&changes)
    })
}

/// Writes packed operations in a thread in which they may wait for locks.
#[napi(strict)]
pub fn transaction_write_later(env: &Env, held: u32, packed: Buffer) -> napi::Result<JsObject<'_>> {
    let (held, changes) = with(|shared| {
        let held = shared.transaction(held)?.clone();
        let changes = write::changes_of(shared, &held.part, &packed)?;
        Ok((held, changes))
    })?;
    in_a_thread(env, move || held.write(&changes).map(|()| Answer::Nothing))
}

/// Creates an iterator over a range of what the transaction reads. Returns its number.
#[napi]
pub fn transaction_iterator(
    held: u32,
    part: u32,
    flags: u32,
    start_bytes: u32,
    end_bytes: u32,
) -> napi::Result<u32> {
    with(|shared| {
        let (held, part) = both(shared, held, part)?;
        let bounds = bounds_of(shared, flags, (start_bytes, end_bytes))?;
        let iter = held.on(|transaction| match &part.keyspace {
            None => transaction.range(bounds.clone()),
            Some(keyspace) => transaction.range_in(keyspace, bounds.clone()),
        })?;
        let pairs = Pairs::new(iter.into(), part, bounds, flags);
        Ok(shared.add(Object::Pairs(Arc::new(Mutex::new(pairs)))))
    })
}

/// Sets a savepoint (`0`), returns to it (`1`), or removes it (`2`).
#[napi]
pub fn transaction_savepoint(held: u32, what: u8) -> napi::Result<()> {
    with(|shared| {
        shared.transaction(held)?.on(|transaction| match what {
            0 => transaction.savepoint(),
            1 => transaction.rollback_to_savepoint(),
            2 => transaction.pop_savepoint(),
            _ => Err(invalid(format!("there is no savepoint call {what}"))),
        })
    })
}

/// Ends a transaction: by a commit (`0`), a rollback (`1`), or by preparing it under `name` (`2`).
#[napi]
pub fn transaction_end(env: &Env, held: u32, how: u8, name: String) -> napi::Result<JsObject<'_>> {
    let held = with(|shared| Ok(shared.transaction(held)?.clone()))?;
    in_a_thread(env, move || {
        let ended = held.lock()?.take();
        let Some(transaction) = ended else { return Err(closed("transaction")) };
        match how {
            0 => transaction.commit()?,
            1 => transaction.rollback(),
            2 => transaction.prepare(&name)?,
            _ => return Err(invalid(format!("there is no end {how}"))),
        }
        Ok(Answer::Nothing)
    })
}
