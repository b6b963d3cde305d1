//! Iterators: many pairs in one crossing.
//!
//! Invariants:
//! 1. An iterator is at the next pair that it has not handed out.
//! 2. One call at a time uses an iterator. A second one is refused and does not wait.

use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::Instant;

use esker::{KeyBounds, ReadOptions};
use esker_bindings::cursor::Cursor;
use napi::bindgen_prelude::AsyncTask;
use napi_derive::napi;

use crate::errors::invalid;
use crate::objects::{Object, Part, Shared, with};
use crate::reply::{Reply, set_nanoseconds};
use crate::work::{Answer, Work, later};

const REVERSE: u32 = 1;
const HAS_START: u32 = 2;
const START_INCLUDED: u32 = 4;
const HAS_END: u32 = 8;
const END_INCLUDED: u32 = 16;
const KEYS: u32 = 32;
const VALUES: u32 = 64;
const FILL_CACHE: u32 = 128;

/// An iterator.
pub struct Pairs {
    cursor: Cursor,
    part: Arc<Part>,
    bounds: KeyBounds,
    forward: bool,
    keys: bool,
    values: bool,
    /// Whether the cursor has a position.
    placed: bool,
    /// Whether the last pair was handed out.
    ended: bool,
}

/// Returns the bounds whose keys are in the input, one after the other.
pub fn bounds_of(
    shared: &Shared,
    flags: u32,
    (start_bytes, end_bytes): (u32, u32),
) -> esker::Result<KeyBounds> {
    let both = shared.input(start_bytes.saturating_add(end_bytes))?;
    let (start, end) = both.split_at(start_bytes as usize);
    let bound = |key: &[u8], has: u32, included: u32| match (flags & has != 0, flags & included) {
        (false, _) => Bound::Unbounded,
        (true, 0) => Bound::Excluded(key.to_vec()),
        (true, _) => Bound::Included(key.to_vec()),
    };
    Ok((bound(start, HAS_START, START_INCLUDED), bound(end, HAS_END, END_INCLUDED)))
}

impl Pairs {
    /// Creates an iterator without a position.
    pub fn new(cursor: Cursor, part: Arc<Part>, bounds: KeyBounds, flags: u32) -> Pairs {
        Pairs {
            cursor,
            part,
            bounds,
            forward: flags & REVERSE == 0,
            keys: flags & KEYS != 0,
            values: flags & VALUES != 0,
            placed: false,
            ended: false,
        }
    }

    /// Returns whether a key is within the bounds.
    fn contains(&self, key: &[u8]) -> bool {
        (match &self.bounds.0 {
            Bound::Unbounded => true,
            Bound::Included(start) => key >= &start[..],
            Bound::Excluded(start) => key > &start[..],
        }) && (match &self.bounds.1 {
            Bound::Unbounded => true,
            Bound::Included(end) => key <= &end[..],
            Bound::Excluded(end) => key < &end[..],
        })
    }

    /// Moves to the first pair, in the iterator's direction, that is not before `key`. A key
    /// outside of the bounds ends the iterator.
    fn seek(&mut self, key: &[u8]) -> esker::Result<()> {
        let _open = self.part.open()?;
        (self.placed, self.ended) = (true, !self.contains(key));
        match (self.ended, self.forward) {
            (true, _) => Ok(()),
            (false, true) => self.cursor.seek(key),
            (false, false) => self.cursor.seek_for_prev(key),
        }
    }

    /// Fills `out` with up to `pairs_max` pairs: as many as fit into about `bytes_max`, and at least
    /// one.
    fn fill(&mut self, pairs_max: u32, bytes_max: u32, out: &mut Vec<u8>) -> esker::Result<()> {
        let _open = self.part.open()?;
        let mut reply = Reply::new(out);
        if !self.ended {
            let (keys, values, forward) = (self.keys, self.values, self.forward);
            let add = |key: &[u8], value: &[u8]| {
                let bytes = reply.bytes() + key.len() + value.len();
                if reply.count > 0 && (reply.count >= pairs_max || bytes > bytes_max as usize) {
                    return ControlFlow::Break(());
                }
                reply.add(if keys { key } else { &[] }, Some(if values { value } else { &[] }));
                ControlFlow::Continue(())
            };
            walk(&mut self.cursor, self.placed, forward, add)?;
            self.placed = true;
            self.ended = !self.cursor.valid();
        }
        reply.end(self.ended);
        Ok(())
    }
}

/// Passes pairs to `add`, from the cursor's position on, until it breaks. The cursor is then at the
/// pair that broke.
fn walk(
    cursor: &mut Cursor,
    placed: bool,
    forward: bool,
    mut add: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
) -> esker::Result<()> {
    match (&mut *cursor, forward) {
        (Cursor::Store(iter), true) => return iter.for_each_forward(add),
        (Cursor::Store(iter), false) => return iter.for_each_backward(add),
        (Cursor::Transaction(_), _) => {}
    }
    match (placed, forward) {
        (true, _) => {}
        (false, true) => cursor.seek_to_first()?,
        (false, false) => cursor.seek_to_last()?,
    }
    while cursor.valid() && add(cursor.key(), cursor.value()).is_continue() {
        if forward { cursor.move_next()? } else { cursor.move_prev()? }
    }
    Ok(())
}

/// Runs `work` on an iterator that no other call uses.
fn on<R>(
    pairs: &Mutex<Pairs>,
    work: impl FnOnce(&mut Pairs) -> esker::Result<R>,
) -> esker::Result<R> {
    match pairs.try_lock() {
        Ok(mut pairs) => work(&mut pairs),
        Err(TryLockError::Poisoned(pairs)) => work(&mut pairs.into_inner()),
        Err(TryLockError::WouldBlock) => Err(invalid("another call uses the iterator")),
    }
}

/// Creates an iterator over a range, whose bounds are in the input. Returns its number.
#[napi]
pub fn iterator(
    part: u32,
    snapshot: i32,
    flags: u32,
    start_bytes: u32,
    end_bytes: u32,
) -> napi::Result<u32> {
    with(|shared| {
        let part = shared.part(part)?.clone();
        let db = part.open()?;
        let bounds = bounds_of(shared, flags, (start_bytes, end_bytes))?;
        let snapshot = shared.snapshot(snapshot)?.map(|snapshot| &**snapshot);
        let options = ReadOptions::default().snapshot(snapshot).fill_cache(flags & FILL_CACHE != 0);
        let iter = match &part.keyspace {
            None => db.iter_with(&options, bounds.clone())?,
            Some(keyspace) => keyspace.iter_with(&options, bounds.clone())?,
        };
        drop(db);
        let pairs = Pairs::new(iter.into(), part, bounds, flags);
        Ok(shared.add(Object::Pairs(Arc::new(Mutex::new(pairs)))))
    })
}

/// Moves an iterator to the key in the input.
#[napi]
pub fn iterator_seek(iterator: u32, key_bytes: u32) -> napi::Result<()> {
    with(|shared| {
        let key = shared.input(key_bytes)?;
        on(shared.pairs(iterator)?, |pairs| pairs.seek(key))
    })
}

/// Reads pairs. Returns whether the reply is in the output.
#[napi]
pub fn iterator_fill(iterator: u32, pairs_max: u32, bytes_max: u32) -> napi::Result<bool> {
    with(|shared| {
        let mut scratch = std::mem::take(&mut shared.scratch);
        let filled =
            on(shared.pairs(iterator)?, |pairs| pairs.fill(pairs_max, bytes_max, &mut scratch));
        shared.scratch = scratch;
        filled?;
        Ok(shared.hand_over())
    })
}

/// Reads pairs in libuv's pool. Returns the reply.
#[napi]
pub fn iterator_fill_later(
    iterator: u32,
    pairs_max: u32,
    bytes_max: u32,
) -> napi::Result<AsyncTask<Work>> {
    let pairs = with(|shared| Ok(shared.pairs(iterator)?.clone()))?;
    Ok(later(move || {
        let (began, mut out) = (Instant::now(), Vec::new());
        on(&pairs, |pairs| pairs.fill(pairs_max, bytes_max, &mut out))?;
        set_nanoseconds(&mut out, began.elapsed().as_nanos() as f64);
        Ok(Answer::Bytes(out))
    }))
}
