//! `esker_batch_add_packed` and `esker_iter_read`: many operations or pairs in one call, for
//! languages in which a call of a C function costs more than what it does.
//!
//! Invariants:
//! 1. Numbers in packed bytes are little-endian, in the order that the header states.
//! 2. Packed operations are added all or not at all.
//! 3. No byte outside of the caller's buffers is read or written, whatever the packed bytes are.

use std::ffi::c_char;
use std::time::Duration;

use esker::{Batch, Keyspace};

use super::batch::*;
use super::iter::{Walk, esker_iter_t};
use super::keyspace::esker_keyspace_t;
use crate::failure::{Failure, Outcome, attempt, there};
use crate::ffi;

/// Size in bytes of a time to live.
const TTL_BYTES: usize = 8;
/// Size in bytes of a pair before its key and value.
const PAIR_HEAD_BYTES: usize = 8;

/// One operation of packed bytes.
struct Operation<'a> {
    kind: i32,
    /// `None` is the keyspace `default`.
    keyspace: Option<&'a Keyspace>,
    ttl_ms: u64,
    /// Key, or start of a range.
    first: &'a [u8],
    /// Value, end of a range, or operand.
    second: &'a [u8],
}

/// Returns the first `len` bytes of `rest`, and removes them from it.
fn split<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (first, others) = rest.split_at_checked(len)?;
    *rest = others;
    Some(first)
}

/// Returns the little-endian number in the first four bytes of `rest`, and removes them from it.
fn number(rest: &mut &[u8]) -> Option<u32> {
    let bytes = split(rest, 4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// Removes an operation from the start of `rest`. Returns a reason if there is none.
fn operation<'a>(
    rest: &mut &'a [u8],
    keyspaces: &[Option<&'a esker_keyspace_t>],
) -> Result<Operation<'a>, String> {
    let bytes = rest.len();
    let short = || format!("it is longer than the {bytes} bytes that are left");
    let kind = i32::from(split(rest, 1).ok_or_else(short)?[0]);
    if !(ESKER_OPERATION_PUT..=ESKER_OPERATION_MERGE).contains(&kind) {
        return Err(format!("there is no kind of operation {kind}; it is 1 to 5"));
    }
    let index = number(rest).ok_or_else(short)? as usize;
    let first_len = number(rest).ok_or_else(short)? as usize;
    let second_len = number(rest).ok_or_else(short)? as usize;
    let keyspace = match index.checked_sub(1) {
        None => None,
        Some(at) => {
            let count = keyspaces.len();
            let handle = keyspaces
                .get(at)
                .ok_or_else(|| format!("its keyspace is number {index} of {count}"))?
                .ok_or_else(|| format!("keyspace number {index} is NULL"))?;
            Some(&handle.keyspace)
        }
    };
    let mut ttl_ms = 0;
    if kind == ESKER_OPERATION_PUT_WITH_TTL {
        let bytes = split(rest, TTL_BYTES).ok_or_else(short)?;
        ttl_ms = bytes.try_into().map_or(0, u64::from_le_bytes);
    }
    if kind == ESKER_OPERATION_DELETE && second_len != 0 {
        return Err(format!("a delete has no value, but its length is {second_len}"));
    }
    let first = split(rest, first_len).ok_or_else(short)?;
    let second = split(rest, second_len).ok_or_else(short)?;
    Ok(Operation { kind, keyspace, ttl_ms, first, second })
}

impl Operation<'_> {
    fn add_to(&self, batch: &mut Batch) {
        let ttl = Duration::from_millis(self.ttl_ms);
        let (first, second) = (self.first, self.second);
        match (self.kind, self.keyspace) {
            (ESKER_OPERATION_PUT, None) => batch.put(first, second),
            (ESKER_OPERATION_PUT, Some(to)) => batch.put_in(to, first, second),
            (ESKER_OPERATION_DELETE, None) => batch.delete(first),
            (ESKER_OPERATION_DELETE, Some(to)) => batch.delete_in(to, first),
            (ESKER_OPERATION_DELETE_RANGE, None) => batch.delete_range(first, second),
            (ESKER_OPERATION_DELETE_RANGE, Some(to)) => batch.delete_range_in(to, first, second),
            (ESKER_OPERATION_PUT_WITH_TTL, None) => batch.put_with_ttl(first, second, ttl),
            (ESKER_OPERATION_PUT_WITH_TTL, Some(to)) => {
                batch.put_with_ttl_in(to, first, second, ttl)
            }
            (_, None) => batch.merge(first, second),
            (_, Some(to)) => batch.merge_in(to, first, second),
        };
    }
}

/// Adds all operations of `packed` to `batch`, or none.
fn add_packed(
    batch: &mut Batch,
    keyspaces: &[Option<&esker_keyspace_t>],
    packed: &[u8],
) -> Outcome<()> {
    let mut rest = packed;
    let mut count = 0u64;
    while !rest.is_empty() {
        let at = packed.len() - rest.len();
        count += 1;
        operation(&mut rest, keyspaces).map_err(|reason| {
            Failure::invalid(format!("packed operation {count}, at byte {at}: {reason}"))
        })?;
    }
    rest = packed;
    while let Ok(operation) = operation(&mut rest, keyspaces) {
        operation.add_to(batch);
    }
    Ok(())
}

/// Adds operations to a batch from `packed_len` bytes at `packed`, all or none, in one call. An
/// operation is its kind (`ESKER_OPERATION_PUT` and so on, one byte); the number of its keyspace,
/// the length of its key or start, and that of its value, end or operand (0 for a delete), four
/// bytes each; for `ESKER_OPERATION_PUT_WITH_TTL` the time to live in milliseconds, eight bytes;
/// then the key or start, and the value, end or operand. Numbers are little-endian. The next
/// operation follows at once. Keyspace 0 is `default`, and keyspace `n` is that of
/// `keyspaces[n - 1]`; `keyspaces` has `keyspace_count` handles. Fails with
/// `ESKER_INVALID_ARGUMENT` if the bytes are no operations, and names the first wrong one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_add_packed(
    batch: Option<&mut esker_batch_t>,
    keyspaces: *const Option<&esker_keyspace_t>,
    keyspace_count: usize,
    packed: *const u8,
    packed_len: usize,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for buffers, handles and messages.
    unsafe {
        add(batch, message, |batch| {
            let keyspaces = ffi::array(keyspaces, keyspace_count, "array of keyspaces")?;
            add_packed(batch, keyspaces, ffi::bytes(packed, packed_len, "packed operations")?)
        })
    }
}

/// What [`esker_iter_read`] has copied.
struct Copied {
    rows: usize,
    bytes: usize,
}

/// Copies pairs from the position of `walk` on, and moves past them.
fn read(walk: &mut Walk, backward: bool, rows_max: usize, buffer: &mut [u8]) -> Copied {
    let mut copied = Copied { rows: 0, bytes: 0 };
    while copied.rows < rows_max && walk.valid() {
        let (key, value) = (walk.key(), walk.value());
        let bytes = PAIR_HEAD_BYTES + key.len() + value.len();
        let Some(place) = buffer.get_mut(copied.bytes..copied.bytes + bytes) else {
            if copied.rows == 0 {
                copied.bytes = bytes;
            }
            break;
        };
        let (head, pair) = place.split_at_mut(PAIR_HEAD_BYTES);
        // A key has at most 1 MiB and a value at most 1 GiB.
        head[..4].copy_from_slice(&(key.len() as u32).to_le_bytes());
        head[4..].copy_from_slice(&(value.len() as u32).to_le_bytes());
        pair[..key.len()].copy_from_slice(key);
        pair[key.len()..].copy_from_slice(value);
        copied.rows += 1;
        copied.bytes += bytes;
        if backward {
            walk.run(|cursor| Ok(cursor.move_prev()?));
        } else {
            walk.run(|cursor| Ok(cursor.move_next()?));
        }
    }
    copied
}

/// Copies pairs from the iterator's position on into `buffer`, and moves past them: forward, or
/// backward with a `backward` other than 0. Ends after `rows_max` pairs, or when the next pair does
/// not fit into `buffer_len` bytes. A pair is the length of its key and that of its value, four
/// bytes each, little-endian, then the key and the value. Sets `*rows` to the number of pairs, and
/// `*bytes` to the size of what was copied. If the first pair does not fit, `*rows` is 0 and
/// `*bytes` is the size that it needs. Both are 0 past either end. Fails with the iterator's
/// failure, but first returns the pairs before it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_iter_read(
    iter: Option<&mut esker_iter_t>,
    backward: u8,
    rows_max: usize,
    buffer: *mut u8,
    buffer_len: usize,
    rows: Option<&mut usize>,
    bytes: Option<&mut usize>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let rows = there(rows, "place for the number of pairs")?;
        let bytes = there(bytes, "place for the size of the pairs")?;
        (*rows, *bytes) = (0, 0);
        let walk = there(iter, "iterator")?.checked_walk()?;
        // SAFETY: the caller meets the header's contract for buffers.
        let buffer = unsafe { ffi::array_mut(buffer, buffer_len, "buffer for pairs") }?;
        let copied = read(walk, backward != 0, rows_max, buffer);
        if let (0, Some(failure)) = (copied.rows, walk.failure()) {
            return Err(failure.clone());
        }
        (*rows, *bytes) = (copied.rows, copied.bytes);
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}
