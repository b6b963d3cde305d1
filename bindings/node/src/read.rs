//! Reads of keys. Keys come through the shared input, values leave through the shared output.
//!
//! Invariant: a call in the thread of JavaScript and the same call in libuv's pool return the same.

use std::sync::Arc;
use std::time::Instant;

use esker::{ReadOptions, Slice, Snapshot};
use napi::bindgen_prelude::{AsyncTask, Buffer};
use napi::{Env, JsString};
use napi_derive::napi;

use crate::errors::invalid;
use crate::objects::{Part, with};
use crate::reply::{Reply, set_nanoseconds};
use crate::work::{Answer, Work, later};

/// The value does not exist.
const ABSENT: i64 = -1;
/// The value is in `takeLarge`.
const IS_LARGE: i64 = -2;

impl Part {
    /// Returns a value.
    fn get(
        &self,
        key: &[u8],
        snapshot: Option<&Snapshot>,
        fill_cache: bool,
    ) -> esker::Result<Option<Slice>> {
        let (db, options) =
            (self.open()?, ReadOptions::default().snapshot(snapshot).fill_cache(fill_cache));
        match &self.keyspace {
            None => db.get_with(key, &options),
            Some(keyspace) => keyspace.get_with(key, &options),
        }
    }

    /// Passes a value to `see`.
    #[inline]
    fn read<R>(
        &self,
        key: &[u8],
        snapshot: Option<&Snapshot>,
        fill_cache: bool,
        see: impl FnOnce(&[u8]) -> R,
    ) -> esker::Result<Option<R>> {
        match &self.keyspace {
            None => {
                let options = ReadOptions::default().snapshot(snapshot).fill_cache(fill_cache);
                self.open()?.read_with(key, &options, see)
            }
            Some(keyspace) if snapshot.is_none() && fill_cache => {
                let _open = self.open()?;
                keyspace.read(key, see)
            }
            Some(_) => Ok(self.get(key, snapshot, fill_cache)?.map(|value| see(&value))),
        }
    }

    /// Adds the values of `keys`, as of one moment, to a reply; only whether they exist if `values` is
    /// false.
    fn get_many(
        &self,
        keys: &[&[u8]],
        snapshot: Option<&Snapshot>,
        (fill_cache, values): (bool, bool),
        out: &mut Vec<u8>,
    ) -> esker::Result<()> {
        let mut reply = Reply::new(out);
        let shown = |value: Option<Slice>, reply: &mut Reply<'_>| {
            let value = value.as_deref();
            reply.add(&[], if values { value } else { value.map(|_| &[][..]) });
        };
        if fill_cache && (self.keyspace.is_none() || snapshot.is_none()) {
            let db = self.open()?;
            let found = match (&self.keyspace, snapshot) {
                (Some(keyspace), _) => keyspace.multi_get(keys)?,
                (None, Some(snapshot)) => snapshot.multi_get(keys)?,
                (None, None) => db.multi_get(keys)?,
            };
            found.into_iter().for_each(|value| shown(value, &mut reply));
        } else {
            let own = if snapshot.is_none() { Some(self.open()?.snapshot()) } else { None };
            for key in keys {
                shown(self.get(key, snapshot.or(own.as_ref()), fill_cache)?, &mut reply);
            }
        }
        reply.end(true);
        Ok(())
    }
}

/// Reads a value as text. Returns nothing for a missing key.
#[napi]
pub fn get_text(
    env: &Env,
    part: u32,
    key_bytes: u32,
    snapshot: i32,
    fill_cache: bool,
) -> napi::Result<Option<JsString<'_>>> {
    let text = with(|shared| {
        let (key, snapshot) = (shared.input(key_bytes)?, shared.snapshot(snapshot)?);
        let part = shared.part(part)?;
        part.read(key, snapshot.map(|s| &**s), fill_cache, |value| {
            if value.is_ascii() {
                env.create_string_latin1(value)
            } else {
                env.create_string(String::from_utf8_lossy(value))
            }
        })
    })?;
    text.transpose()
}

/// Reads a value into the output. Returns its length, -1 for a missing key, or -2 if the value is
/// too long for the output.
#[napi]
pub fn get_bytes(part: u32, key_bytes: u32, snapshot: i32, fill_cache: bool) -> napi::Result<i64> {
    with(|shared| {
        let (mut output, mut large) =
            (std::mem::take(&mut shared.output), std::mem::take(&mut shared.large));
        let found = (|| {
            let (key, snapshot) = (shared.input(key_bytes)?, shared.snapshot(snapshot)?);
            let part = shared.part(part)?;
            part.read(key, snapshot.map(|s| &**s), fill_cache, |value| {
                match output.get_mut(..value.len()) {
                    Some(place) => {
                        place.copy_from_slice(value);
                        value.len() as i64
                    }
                    None => {
                        large = value.to_vec();
                        IS_LARGE
                    }
                }
            })
        })();
        (shared.output, shared.large) = (output, large);
        Ok(found?.unwrap_or(ABSENT))
    })
}

/// Returns whether a key exists.
#[napi]
pub fn has(part: u32, key_bytes: u32, snapshot: i32, fill_cache: bool) -> napi::Result<bool> {
    with(|shared| {
        let (key, snapshot) = (shared.input(key_bytes)?, shared.snapshot(snapshot)?);
        let found = shared.part(part)?.read(key, snapshot.map(|s| &**s), fill_cache, |_| ());
        Ok(found?.is_some())
    })
}

/// Splits `length u32 | key` records.
fn keys_of(mut packed: &[u8]) -> esker::Result<Vec<&[u8]>> {
    let mut keys = Vec::new();
    while let Some((length, rest)) = packed.split_first_chunk::<4>() {
        let Some((key, rest)) = rest.split_at_checked(u32::from_le_bytes(*length) as usize) else {
            return Err(invalid("a packed key is cut off"));
        };
        keys.push(key);
        packed = rest;
    }
    if packed.is_empty() { Ok(keys) } else { Err(invalid("a packed key has no length")) }
}

/// Reads many keys, which are packed in the input. Returns whether the reply is in the output.
#[napi]
pub fn get_many(
    part: u32,
    packed_bytes: u32,
    snapshot: i32,
    fill_cache: bool,
    values: bool,
) -> napi::Result<bool> {
    with(|shared| {
        let mut scratch = std::mem::take(&mut shared.scratch);
        let keys = keys_of(shared.input(packed_bytes)?)?;
        let snapshot = shared.snapshot(snapshot)?.map(|s| &**s);
        let result =
            shared.part(part)?.get_many(&keys, snapshot, (fill_cache, values), &mut scratch);
        shared.scratch = scratch;
        result?;
        Ok(shared.hand_over())
    })
}

/// Reads many keys in libuv's pool. Returns the reply.
#[napi(strict)]
pub fn get_many_later(
    part: u32,
    packed: Buffer,
    snapshot: i32,
    fill_cache: bool,
    values: bool,
) -> napi::Result<AsyncTask<Work>> {
    let (part, snapshot): (Arc<Part>, Option<Arc<Snapshot>>) =
        with(|shared| Ok((shared.part(part)?.clone(), shared.snapshot(snapshot)?.cloned())))?;
    let packed = packed.to_vec();
    Ok(later(move || {
        let (began, mut out) = (Instant::now(), Vec::new());
        let keys = keys_of(&packed)?;
        part.get_many(&keys, snapshot.as_deref(), (fill_cache, values), &mut out)?;
        set_nanoseconds(&mut out, began.elapsed().as_nanos() as f64);
        Ok(Answer::Bytes(out))
    }))
}

/// Returns the time at which a pair expires, in milliseconds since 1970; infinity if it does not
/// expire; nothing if there is no pair.
#[napi(strict)]
pub fn expiry_later(part: u32, key: Buffer) -> napi::Result<AsyncTask<Work>> {
    let part = with(|shared| Ok(shared.part(part)?.clone()))?;
    let key = key.to_vec();
    Ok(later(move || {
        let db = part.open()?;
        let found = match &part.keyspace {
            None => db.get_with_expiry(&key)?,
            Some(keyspace) => keyspace.get_with_expiry(&key)?,
        };
        Ok(found.map_or(Answer::Nothing, |(_, time_ms)| {
            Answer::Number(time_ms.map_or(f64::INFINITY, |time_ms| time_ms as f64))
        }))
    }))
}
