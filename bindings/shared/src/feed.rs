//! Batches of the change feed, and differences of two stores, as bytes for another language.
//!
//! Items follow each other. A number is an f64, a checksum a u64, a text or bytes a u32 with the length
//! (`u32::MAX`: there is none) and then the bytes; all little-endian. A time that does not come is
//! infinity.
//!
//! ```text
//! batch: first sequence f64 | sequence f64 | checksum u64 | previous f64 | previous checksum u64 |
//!     part f64 | continues u8 | changes u32 | change…
//! change: kind u8 | expires f64 | keyspace | key | value | name or key order | options as lines
//! difference: keyspace | key | old | new | old expires f64 | new expires f64
//! ```
//!
//! Invariant: a change that has no kind here is an error, and is not left out.

use esker::diff::{DiffValue, Difference};
use esker::feed::{Change, ChangeBatch};
use esker::{ErrorKind, Result, internals};

fn add_bytes(reply: &mut Vec<u8>, bytes: Option<&[u8]>) {
    let length = bytes.map_or(u32::MAX, |bytes| bytes.len() as u32);
    reply.extend_from_slice(&length.to_le_bytes());
    reply.extend_from_slice(bytes.unwrap_or_default());
}

fn add_number(reply: &mut Vec<u8>, number: f64) {
    reply.extend_from_slice(&number.to_le_bytes());
}

fn add_time(reply: &mut Vec<u8>, time_ms: Option<u64>) {
    add_number(reply, time_ms.map_or(f64::INFINITY, |time_ms| time_ms as f64));
}

/// Adds a batch to `reply`.
///
/// # Errors
/// `InvalidArgument` for a kind of change that this version does not know.
pub fn add_batch(reply: &mut Vec<u8>, batch: &ChangeBatch) -> Result<()> {
    add_number(reply, batch.first_sequence as f64);
    add_number(reply, batch.sequence as f64);
    reply.extend_from_slice(&batch.checksum.to_le_bytes());
    add_number(reply, batch.previous as f64);
    reply.extend_from_slice(&batch.previous_checksum.to_le_bytes());
    add_number(reply, batch.part as f64);
    reply.push(u8::from(batch.continues));
    reply.extend_from_slice(&(batch.changes.len() as u32).to_le_bytes());
    batch.changes.iter().try_for_each(|change| add_change(reply, change))
}

fn add_change(reply: &mut Vec<u8>, change: &Change) -> Result<()> {
    type Fields<'a> = (u8, &'a str, Option<&'a [u8]>, Option<&'a [u8]>);
    let (mut expires, mut name, mut lines) = (None, None, None);
    let (kind, keyspace, key, value): Fields<'_> = match change {
        Change::Put { keyspace, key, value, expires_ms } => {
            expires = *expires_ms;
            (1, &**keyspace, Some(&key[..]), Some(&value[..]))
        }
        Change::Merge { keyspace, key, operand } => {
            (2, &**keyspace, Some(&key[..]), Some(&operand[..]))
        }
        Change::Delete { keyspace, key } => (3, &**keyspace, Some(&key[..]), None),
        Change::DeleteRange { keyspace, start, end } => {
            (4, &**keyspace, Some(&start[..]), Some(&end[..]))
        }
        Change::Clear { keyspace } => (5, &**keyspace, None, None),
        Change::KeyspaceCreated { keyspace, key_order, options } => {
            name = Some(key_order.as_bytes());
            let all: Vec<String> = options.iter().map(|(n, v)| format!("{n}={v}")).collect();
            lines = Some(all.join("\n"));
            (6, &**keyspace, None, None)
        }
        Change::KeyspaceRenamed { keyspace, new_name } => {
            name = Some(new_name.as_bytes());
            (7, &**keyspace, None, None)
        }
        Change::KeyspaceDropped { keyspace } => (8, &**keyspace, None, None),
        _ => {
            return Err(internals::error(
                ErrorKind::InvalidArgument,
                "this version of the binding has no name for a change of the feed",
                None,
            ));
        }
    };
    reply.push(kind);
    add_time(reply, expires);
    for bytes in [Some(keyspace.as_bytes()), key, value, name, lines.as_deref().map(str::as_bytes)]
    {
        add_bytes(reply, bytes);
    }
    Ok(())
}

/// Adds a difference to `reply`.
pub fn add_difference(reply: &mut Vec<u8>, found: &Difference) {
    let time = |side: &Option<DiffValue>| side.as_ref().and_then(|side| side.expires_ms);
    add_bytes(reply, Some(found.keyspace.as_bytes()));
    add_bytes(reply, Some(&found.key));
    for side in [&found.old, &found.new] {
        add_bytes(reply, side.as_ref().map(|side| &side.value[..]));
    }
    add_time(reply, time(&found.old));
    add_time(reply, time(&found.new));
}
