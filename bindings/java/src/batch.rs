//! The packed form in which a batch comes from Java, in one array.
//!
//! An operation is its kind (1 byte), the number of its keyspace (2 bytes), and its items, each a
//! length (4 bytes) and as many bytes; a put with a time to live ends with the time, in milliseconds
//! (8 bytes). Numbers are little-endian. Keyspace 0 is the part to which the batch is written;
//! keyspace `n` is the `n`th of the parts that come with the batch.
//!
//! Invariant: a torn array, or a keyspace of another store, is an error, and then nothing is written.

use std::cell::RefCell;
use std::sync::Arc;

use esker::Batch;

use crate::env::{Failure, Outcome, item};
use crate::part::{Part, ttl};

/// Capacity of a batch that a thread keeps, in bytes.
const KEPT_BYTES: usize = 1 << 20;

thread_local! {
    static SCRATCH: RefCell<Batch> = RefCell::new(Batch::new());
}

/// Calls `body` with an empty batch, whose memory the thread keeps.
pub fn with_scratch<R>(body: impl FnOnce(&mut Batch) -> R) -> R {
    SCRATCH.with(|scratch| match scratch.try_borrow_mut() {
        Ok(mut scratch) => {
            scratch.clear();
            let result = body(&mut scratch);
            if scratch.size_bytes() > KEPT_BYTES {
                *scratch = Batch::new();
            }
            result
        }
        Err(_) => body(&mut Batch::new()),
    })
}

/// Appends the operations of a packed batch to `batch`.
pub fn unpack(mut bytes: &[u8], part: &Part, others: &[&Part], batch: &mut Batch) -> Outcome<()> {
    while let Some((head, rest)) = bytes.split_first_chunk::<3>() {
        bytes = rest;
        let number = u16::from_le_bytes([head[1], head[2]]) as usize;
        let of = match number {
            0 => part,
            _ => others.get(number - 1).ok_or_else(|| Failure::invalid("a batch is torn"))?,
        };
        if !Arc::ptr_eq(&of.store, &part.store) {
            return Err(Failure::invalid("a batch has a keyspace of another store"));
        }
        operation(head[0], &mut bytes, of, batch)?;
    }
    match bytes.is_empty() {
        true => Ok(()),
        false => Err(Failure::invalid("a batch is torn")),
    }
}

/// Appends one operation, whose items are at the start of `bytes`.
#[inline]
fn operation(kind: u8, bytes: &mut &[u8], of: &Part, batch: &mut Batch) -> Outcome<()> {
    let key = item(bytes)?;
    match (kind, of.keyspace()?.as_deref()) {
        (0, None) => batch.put(key, item(bytes)?),
        (0, Some(keyspace)) => batch.put_in(keyspace, key, item(bytes)?),
        (1, None) => batch.delete(key),
        (1, Some(keyspace)) => batch.delete_in(keyspace, key),
        (2, None) => batch.delete_range(key, item(bytes)?),
        (2, Some(keyspace)) => batch.delete_range_in(keyspace, key, item(bytes)?),
        (3, None) => batch.merge(key, item(bytes)?),
        (3, Some(keyspace)) => batch.merge_in(keyspace, key, item(bytes)?),
        (4, keyspace) => {
            let value = item(bytes)?;
            let torn = || Failure::invalid("a batch is torn");
            let (ttl_ms, rest) = bytes.split_first_chunk().ok_or_else(torn)?;
            *bytes = rest;
            let ttl = ttl(i64::from_le_bytes(*ttl_ms));
            match keyspace {
                None => batch.put_with_ttl(key, value, ttl),
                Some(keyspace) => batch.put_with_ttl_in(keyspace, key, value, ttl),
            }
        }
        _ => return Err(Failure::invalid(format!("a batch has an operation of kind {kind}"))),
    };
    Ok(())
}
