//! Writes. Operations come packed:
//!
//! ```text
//! kind u8 | keyspace u32 | key length u32 | value length u32 | [time to live f64, in milliseconds] | key | value
//! ```
//!
//! Invariants:
//! 1. A write in the thread of JavaScript does not wait. A write that would have to wait is refused.
//! 2. A packed write is one batch of the engine: all of it happens or nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use esker::{Batch, Db, Durability, ErrorKind, Transaction, WriteOptions};
use napi::bindgen_prelude::{AsyncTask, Buffer};
use napi_derive::napi;

use crate::errors::invalid;
use crate::objects::{Part, Shared, with};
use crate::work::{Answer, Work, later};

const PUT: u8 = 1;
const DELETE: u8 = 2;
const PUT_WITH_TTL: u8 = 3;
const MERGE: u8 = 4;
const DELETE_RANGE: u8 = 5;

/// Returns the options of a write whose durability has a number: 0 is the store's.
pub fn durability(number: u8) -> esker::Result<Option<Durability>> {
    match number {
        0 => Ok(None),
        1 => Ok(Some(Durability::None)),
        2 => Ok(Some(Durability::Buffered)),
        3 => Ok(Some(Durability::Sync)),
        _ => Err(invalid("a durability is none, buffered or sync")),
    }
}

/// Converts a time in milliseconds. A time that is not a number, or is negative, is refused.
pub fn time(ttl_ms: f64) -> esker::Result<Duration> {
    if ttl_ms.is_nan() || ttl_ms < 0.0 {
        return Err(invalid("a time is a number of milliseconds of at least 0"));
    }
    Ok(Duration::try_from_secs_f64(ttl_ms / 1000.0).unwrap_or(Duration::MAX))
}

/// One packed operation.
pub struct Operation<'a> {
    kind: u8,
    part: u32,
    key: &'a [u8],
    value: &'a [u8],
    ttl: Option<Duration>,
}

/// Takes the first operation from `packed`.
fn take<'a>(packed: &mut &'a [u8]) -> esker::Result<Operation<'a>> {
    let cut = || invalid("a packed operation is cut off");
    let mut bytes = |count: usize| {
        let (taken, rest) = packed.split_at_checked(count).ok_or_else(cut)?;
        *packed = rest;
        Ok(taken)
    };
    let kind = bytes(1)?[0];
    let mut number = || Ok(u32::from_le_bytes(bytes(4)?.try_into().map_err(|_| cut())?));
    let (part, key_bytes, value_bytes) = (number()?, number()?, number()?);
    let ttl = match kind {
        PUT_WITH_TTL => {
            let ttl_ms = f64::from_le_bytes(bytes(8)?.try_into().map_err(|_| cut())?);
            Some(time(ttl_ms)?)
        }
        _ => None,
    };
    let (key, value) = (bytes(key_bytes as usize)?, bytes(value_bytes as usize)?);
    Ok(Operation { kind, part, key, value, ttl })
}

/// Returns the keyspace with this number, which must be of the store of `part`.
fn keyspace_of<'a>(
    shared: &'a Shared,
    part: &Arc<Part>,
    number: u32,
) -> esker::Result<&'a Arc<Part>> {
    let own = shared.part(number)?;
    if !Arc::ptr_eq(&own.store, &part.store) {
        return Err(invalid("a keyspace of a batch belongs to another database"));
    }
    Ok(own)
}

/// Makes a batch of packed operations. They are all on the store of `part`.
fn batch_of(shared: &Shared, part: &Arc<Part>, mut packed: &[u8]) -> esker::Result<Batch> {
    let mut batch = Batch::new();
    while !packed.is_empty() {
        let Operation { kind, part: number, key, value, ttl } = take(&mut packed)?;
        match (kind, &keyspace_of(shared, part, number)?.keyspace, ttl) {
            (PUT, None, _) => batch.put(key, value),
            (PUT, Some(keyspace), _) => batch.put_in(keyspace, key, value),
            (PUT_WITH_TTL, None, Some(ttl)) => batch.put_with_ttl(key, value, ttl),
            (PUT_WITH_TTL, Some(keyspace), Some(ttl)) => {
                batch.put_with_ttl_in(keyspace, key, value, ttl)
            }
            (DELETE, None, _) => batch.delete(key),
            (DELETE, Some(keyspace), _) => batch.delete_in(keyspace, key),
            (MERGE, None, _) => batch.merge(key, value),
            (MERGE, Some(keyspace), _) => batch.merge_in(keyspace, key, value),
            (DELETE_RANGE, None, _) => batch.delete_range(key, value),
            (DELETE_RANGE, Some(keyspace), _) => batch.delete_range_in(keyspace, key, value),
            _ => return Err(invalid(format!("there is no operation {kind}"))),
        };
    }
    Ok(batch)
}

/// An operation for a transaction. It owns its bytes.
pub struct Change {
    kind: u8,
    part: Arc<Part>,
    key: Vec<u8>,
    value: Vec<u8>,
    ttl: Option<Duration>,
}

/// Returns packed operations. They are all on the store of `part`.
pub fn changes_of(
    shared: &Shared,
    part: &Arc<Part>,
    mut packed: &[u8],
) -> esker::Result<Vec<Change>> {
    let mut changes = Vec::new();
    while !packed.is_empty() {
        let Operation { kind, part: number, key, value, ttl } = take(&mut packed)?;
        let part = keyspace_of(shared, part, number)?.clone();
        changes.push(Change { kind, part, key: key.to_vec(), value: value.to_vec(), ttl });
    }
    Ok(changes)
}

impl Change {
    /// Makes the change in a transaction.
    pub fn apply(&self, transaction: &Transaction) -> esker::Result<()> {
        let (key, value) = (&self.key[..], &self.value[..]);
        match (self.kind, &self.part.keyspace, self.ttl) {
            (PUT, None, _) => transaction.put(key, value),
            (PUT, Some(keyspace), _) => transaction.put_in(keyspace, key, value),
            (PUT_WITH_TTL, None, Some(ttl)) => transaction.put_with_ttl(key, value, ttl),
            (PUT_WITH_TTL, Some(keyspace), Some(ttl)) => {
                transaction.put_with_ttl_in(keyspace, key, value, ttl)
            }
            (DELETE, None, _) => transaction.delete(key),
            (DELETE, Some(keyspace), _) => transaction.delete_in(keyspace, key),
            (MERGE, None, _) => transaction.merge(key, value),
            (MERGE, Some(keyspace), _) => transaction.merge_in(keyspace, key, value),
            (DELETE_RANGE, None, _) => transaction.delete_range(key, value),
            (DELETE_RANGE, Some(keyspace), _) => transaction.delete_range_in(keyspace, key, value),
            (kind, ..) => Err(invalid(format!("there is no operation {kind}"))),
        }
    }
}

/// Returns `Ok(false)` for a write that would have to wait.
fn unless_busy(written: esker::Result<()>) -> esker::Result<bool> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::Busy => Ok(false),
        Err(error) => Err(error),
    }
}

/// Puts a pair, whose key and value are in the input. Returns false if the write would have to
/// wait; nothing is written then.
#[napi]
pub fn put_now(part: u32, key_bytes: u32, value_bytes: u32, durable: u8) -> napi::Result<bool> {
    with(|shared| {
        let both = shared.input(key_bytes.saturating_add(value_bytes))?;
        let (key, value) = both.split_at(key_bytes as usize);
        let part = shared.part(part)?;
        let db = part.open()?;
        let options =
            WriteOptions::default().durability(durability(durable)?).deadline(Instant::now());
        unless_busy(match &part.keyspace {
            None => db.put_with(key, value, &options),
            Some(keyspace) => keyspace.put_with(key, value, &options),
        })
    })
}

/// Deletes a key, which is in the input. Otherwise as `put_now`.
#[napi]
pub fn delete_now(part: u32, key_bytes: u32, durable: u8) -> napi::Result<bool> {
    with(|shared| {
        let (key, part) = (shared.input(key_bytes)?, shared.part(part)?);
        let db = part.open()?;
        let options =
            WriteOptions::default().durability(durability(durable)?).deadline(Instant::now());
        unless_busy(match &part.keyspace {
            None => db.delete_with(key, &options),
            Some(keyspace) => keyspace.delete_with(key, &options),
        })
    })
}

/// Writes the operations that are packed in the input. Otherwise as `put_now`.
#[napi]
pub fn write_now(part: u32, packed_bytes: u32, durable: u8) -> napi::Result<bool> {
    with(|shared| {
        let part = shared.part(part)?;
        let db = part.open()?;
        let batch = batch_of(shared, part, shared.input(packed_bytes)?)?;
        let options =
            WriteOptions::default().durability(durability(durable)?).deadline(Instant::now());
        unless_busy(db.write_with(&batch, &options))
    })
}

/// Writes packed operations in libuv's pool. Waits as long as is needed, or for `wait_ms` milliseconds
/// from now on; after that nothing is written.
#[napi(strict)]
pub fn write_later(
    part: u32,
    packed: Buffer,
    durable: u8,
    wait_ms: Option<f64>,
) -> napi::Result<AsyncTask<Work>> {
    let (part, batch, durability, wait) = with(|shared| {
        let part = shared.part(part)?;
        let batch = batch_of(shared, part, &packed)?;
        Ok((part.clone(), batch, durability(durable)?, wait_ms.map(time).transpose()?))
    })?;
    let deadline = wait.and_then(|wait| Instant::now().checked_add(wait));
    Ok(later(move || {
        let options = WriteOptions::default().durability(durability).deadline(deadline);
        part.open()?.write_with(&batch, &options)?;
        Ok(Answer::Nothing)
    }))
}

/// Deletes a key and returns whether it existed.
#[napi(strict)]
pub fn remove_later(part: u32, key: Buffer) -> napi::Result<AsyncTask<Work>> {
    let part = with(|shared| Ok(shared.part(part)?.clone()))?;
    let key = key.to_vec();
    Ok(later(move || {
        let db = part.open()?;
        Ok(Answer::Truth(match &part.keyspace {
            None => db.remove(&key)?,
            Some(keyspace) => keyspace.remove(&key)?,
        }))
    }))
}

/// Gives a pair a new time to live. Returns whether there is such a pair.
#[napi(strict)]
pub fn touch_later(part: u32, key: Buffer, ttl_ms: f64) -> napi::Result<AsyncTask<Work>> {
    let (part, ttl) = with(|shared| Ok((shared.part(part)?.clone(), time(ttl_ms)?)))?;
    let key = key.to_vec();
    Ok(later(move || {
        let db = part.open()?;
        Ok(Answer::Truth(match &part.keyspace {
            None => db.touch(&key, ttl)?,
            Some(keyspace) => keyspace.touch(&key, ttl)?,
        }))
    }))
}

/// Deletes every key of a range: from `start` to `end`, with the key `end` itself if `inclusive`.
/// Without `end`, every key from `start` on.
#[napi(strict)]
pub fn clear_later(
    part: u32,
    start: Buffer,
    end: Option<Buffer>,
    inclusive: bool,
    durable: u8,
) -> napi::Result<AsyncTask<Work>> {
    let (part, durability) = with(|shared| Ok((shared.part(part)?.clone(), durability(durable)?)))?;
    let (start, end) = (start.to_vec(), end.map(|end| end.to_vec()));
    Ok(later(move || {
        let db = part.open()?;
        let (end, inclusive) = match end {
            Some(end) => (end, inclusive),
            // No key is the greatest possible one, so the range ends with the last key.
            None => match last_key(&part, &db)? {
                Some(last) => (last, true),
                None => return Ok(Answer::Nothing),
            },
        };
        let mut batch = Batch::new();
        match &part.keyspace {
            None => batch.delete_range(&start, &end),
            Some(keyspace) => batch.delete_range_in(keyspace, &start, &end),
        };
        if inclusive && end >= start {
            match &part.keyspace {
                None => batch.delete(&end),
                Some(keyspace) => batch.delete_in(keyspace, &end),
            };
        }
        db.write_with(&batch, &WriteOptions::default().durability(durability))?;
        Ok(Answer::Nothing)
    }))
}

/// Returns the last key of a keyspace.
fn last_key(part: &Part, db: &Db) -> esker::Result<Option<Vec<u8>>> {
    let mut iter = match &part.keyspace {
        None => db.iter()?,
        Some(keyspace) => keyspace.iter()?,
    };
    iter.seek_to_last()?;
    Ok(iter.valid().then(|| iter.key().to_vec()))
}
