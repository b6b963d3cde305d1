//! Iterators: a cursor that fills an array of Java with as many pairs as fit.
//!
//! A pair is the length of its key, the length of its value (4 bytes each, little-endian), the key
//! and the value.
//!
//! Invariants:
//! 1. The cursor is at the first pair that was not passed to Java.
//! 2. A pair that is larger than the array is passed when Java comes with a larger one.

use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, Mutex, PoisonError};

use esker::{KeyBounds, ReadOptions};
use esker_bindings::cursor::Cursor;
use esker_bindings::handle::Handle;
use jni_sys::{jboolean, jbyteArray, jint, jlong};

use crate::env::{Env, Failure, Outcome, natives};
use crate::handle::{Given, give, object, take};
use crate::part::{Part, there};
use crate::snapshot::Held;
use crate::transaction::Running;

/// Size of the lengths of a pair, in bytes.
const HEAD_BYTES: usize = 8;

/// An iterator. Java calls it from one thread at a time.
pub struct Walk {
    store: Arc<Handle>,
    inner: Mutex<(Cursor, Vec<u8>)>,
}

impl Given for Walk {
    const TAG: u64 = 0x4573_6b65_7200_0003;
    const NAME: &'static str = "iterator";
}

impl Walk {
    fn with<R>(&self, body: impl FnOnce(&mut Cursor, &mut Vec<u8>) -> Outcome<R>) -> Outcome<R> {
        if self.store.is_closed() {
            return Err(Failure::closed("the store of the iterator was closed"));
        }
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let (cursor, pairs) = &mut *inner;
        body(cursor, pairs)
    }
}

/// Returns the bounds of a range. A null array is no bound.
fn bounds(
    env: Env,
    (from, from_is_in): (jbyteArray, jboolean),
    (to, to_is_in): (jbyteArray, jboolean),
) -> Outcome<KeyBounds> {
    let bound = |array: jbyteArray, is_in: jboolean| -> Outcome<Bound<Vec<u8>>> {
        Ok(match env.whole(array)? {
            None => Bound::Unbounded,
            Some(key) if is_in => Bound::Included(key.to_vec()),
            Some(key) => Bound::Excluded(key.to_vec()),
        })
    };
    Ok((bound(from, from_is_in)?, bound(to, to_is_in)?))
}

/// Appends a pair. Returns whether it fits in `room` bytes.
#[inline]
fn append(pairs: &mut Vec<u8>, room: usize, key: &[u8], value: &[u8]) -> bool {
    if pairs.len() + HEAD_BYTES + key.len() + value.len() > room {
        return false;
    }
    pairs.extend_from_slice(&(key.len() as u32).to_le_bytes());
    pairs.extend_from_slice(&(value.len() as u32).to_le_bytes());
    pairs.extend_from_slice(key);
    pairs.extend_from_slice(value);
    true
}

/// Fills `pairs` with the pairs from the cursor on, and moves the cursor behind them.
fn collect(cursor: &mut Cursor, pairs: &mut Vec<u8>, room: usize, is_forward: bool) -> Outcome<()> {
    let mut visit = |key: &[u8], value: &[u8]| match append(pairs, room, key, value) {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    };
    if !cursor.valid() {
        return Ok(());
    }
    match (cursor, is_forward) {
        (Cursor::Store(iter), true) => iter.for_each_forward(visit)?,
        (Cursor::Store(iter), false) => iter.for_each_backward(visit)?,
        (cursor, _) => {
            while cursor.valid() && visit(cursor.key(), cursor.value()).is_continue() {
                match is_forward {
                    true => cursor.move_next()?,
                    false => cursor.move_prev()?,
                }
            }
        }
    }
    Ok(())
}

natives! {
    /// Creates an iterator over a part, at a snapshot or now (0), or over a transaction (not 0).
    fn Java_dev_esker_Native_iterator(
        env, part: jlong, snapshot: jlong, transaction: jlong, from: jbyteArray,
        from_is_in: jboolean, to: jbyteArray, to_is_in: jboolean, fill_cache: jboolean,
    ) -> jlong, 0; {
        let part: &Part = object(part)?;
        let bounds = bounds(env, (from, from_is_in), (to, to_is_in))?;
        let cursor = match (transaction, snapshot) {
            (0, 0) => {
                part.iter(&ReadOptions::default().fill_cache(fill_cache), bounds)?.into()
            }
            (0, _) => {
                let snapshot = object::<Held>(snapshot)?.open()?;
                let options = ReadOptions::default().snapshot(&*snapshot).fill_cache(fill_cache);
                part.iter(&options, bounds)?.into()
            }
            _ => {
                let transaction = object::<Running>(transaction)?.open()?;
                Cursor::from(match part.keyspace()?.as_deref() {
                    None => transaction.range(bounds)?,
                    Some(keyspace) => transaction.range_in(keyspace, bounds)?,
                })
            }
        };
        let inner = Mutex::new((cursor, Vec::new()));
        Ok(give(Walk { store: part.store.clone(), inner }))
    }

    /// Moves: to the first pair (0), to the last (1), to the first at or after a key (2), to the
    /// last at or before it (3), to the first after it (4), to the last before it (5).
    fn Java_dev_esker_Native_seek(env, iter: jlong, kind: jint, key: jbyteArray) -> (), (); {
        let key = match kind {
            0 | 1 => None,
            _ => Some(there(env, key)?),
        };
        let key = key.as_deref().unwrap_or_default();
        object::<Walk>(iter)?.with(|cursor, _| Ok(match kind {
            0 => cursor.seek_to_first()?,
            1 => cursor.seek_to_last()?,
            2 => cursor.seek(key)?,
            3 => cursor.seek_for_prev(key)?,
            4 => {
                cursor.seek(key)?;
                if cursor.valid() && cursor.key() == key {
                    cursor.move_next()?;
                }
            }
            _ => {
                cursor.seek_for_prev(key)?;
                if cursor.valid() && cursor.key() == key {
                    cursor.move_prev()?;
                }
            }
        }))
    }

    /// Fills an array with pairs. Returns the bytes used: 0 at the end; if the first pair does not
    /// fit, the negative size that it needs.
    fn Java_dev_esker_Native_fill(
        env, iter: jlong, array: jbyteArray, room: jint, is_forward: jboolean,
    ) -> jint, 0; {
        let room = usize::try_from(room).unwrap_or(0);
        object::<Walk>(iter)?.with(|cursor, pairs| {
            pairs.clear();
            collect(cursor, pairs, room, is_forward)?;
            if pairs.is_empty() && cursor.valid() {
                let needed = HEAD_BYTES + cursor.key().len() + cursor.value().len();
                let needed = i32::try_from(needed).map_err(|_| {
                    Failure::invalid(format!("a pair of {needed} bytes fits into no array"))
                })?;
                return Ok(-needed);
            }
            if !pairs.is_empty() {
                env.fill(array, pairs);
            }
            Ok(pairs.len() as jint)
        })
    }

    /// Frees an iterator.
    fn Java_dev_esker_Native_freeIterator(env, iter: jlong) -> (), (); {
        take::<Walk>(iter)
    }
}
