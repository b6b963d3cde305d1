//! Reads and writes of a part: a store's keyspace `default`, or another keyspace.
//!
//! Invariants:
//! 1. A call holds the store open, so a close waits for it.
//! 2. A part of a keyspace does not keep the store open.

use std::sync::Arc;
use std::time::Duration;

use esker::{
    Batch, DbIterator, Durability, KeyBounds, Keyspace, KeyspaceOptions, ReadOptions, WriteOptions,
};
use esker_bindings::closable::{self, Closable};
use esker_bindings::handle::{Handle, Opened};
use esker_bindings::orders::Orders;
use jni_sys::{jboolean, jbyteArray, jint, jlong, jlongArray};

use crate::batch;
use crate::env::{Env, Failure, Outcome, items, natives};
use crate::handle::{Given, give, object, take};

/// A part of an open store.
pub struct Part {
    pub store: Arc<Handle>,
    /// `None`: the keyspace `default`, as the store itself.
    pub keyspace: Option<Arc<Closable<Keyspace>>>,
    pub is_read_only: bool,
}

impl Given for Part {
    const TAG: u64 = 0x4573_6b65_7200_0001;
    const NAME: &'static str = "store";
}

impl Part {
    /// Returns the store, which stays open during the call.
    #[inline]
    pub fn open(&self) -> Outcome<Opened> {
        Ok(self.store.open()?)
    }

    /// Returns the keyspace; `None` for the keyspace `default`, as the store itself.
    #[inline]
    pub fn keyspace(&self) -> Outcome<Option<closable::Opened<Keyspace>>> {
        let open = |keyspace: &Arc<Closable<Keyspace>>| keyspace.open("the store was closed");
        Ok(self.keyspace.as_ref().map(open).transpose()?)
    }

    /// Returns an iterator over the pairs within `bounds`.
    pub fn iter(&self, options: &ReadOptions<'_>, bounds: KeyBounds) -> Outcome<DbIterator> {
        let db = self.open()?;
        Ok(match self.keyspace()?.as_deref() {
            None => db.iter_with(options, bounds)?,
            Some(keyspace) => keyspace.iter_with(options, bounds)?,
        })
    }
}

/// Returns the durability with a number of the class `Durability`: -1 is that of the store.
pub fn durability(number: jint) -> Outcome<Option<Durability>> {
    Ok(match number {
        -1 => None,
        0 => Some(Durability::None),
        1 => Some(Durability::Buffered),
        2 => Some(Durability::Sync),
        _ => return Err(Failure::invalid(format!("there is no durability number {number}"))),
    })
}

/// Returns options of a write with this durability.
#[inline]
pub fn write_options(number: jint) -> Outcome<WriteOptions> {
    Ok(WriteOptions::default().durability(durability(number)?))
}

/// Returns a time to live: a negative one never ends.
pub fn ttl(ttl_ms: jlong) -> Duration {
    u64::try_from(ttl_ms).map_or(Duration::MAX, Duration::from_millis)
}

natives! {
    /// Sets a key to a value.
    fn Java_dev_esker_Native_put(
        env, part: jlong, key: jbyteArray, key_offset: jint, key_len: jint,
        value: jbyteArray, value_offset: jint, value_len: jint, durable: jint,
    ) -> (), (); {
        let part: &Part = object(part)?;
        let key = env.bytes(key, key_offset, key_len)?;
        let value = env.bytes(value, value_offset, value_len)?;
        let (db, options) = (part.open()?, write_options(durable)?);
        Ok(match part.keyspace()?.as_deref() {
            None => db.put_with(&*key, &*value, &options)?,
            Some(keyspace) => keyspace.put_with(&*key, &*value, &options)?,
        })
    }

    /// Sets a key to a value for a time.
    fn Java_dev_esker_Native_putWithTtl(
        env, part: jlong, key: jbyteArray, value: jbyteArray, ttl_ms: jlong,
    ) -> (), (); {
        let part: &Part = object(part)?;
        let (key, value) = (there(env, key)?, there(env, value)?);
        let db = part.open()?;
        Ok(match part.keyspace()?.as_deref() {
            None => db.put_with_ttl(&*key, &*value, ttl(ttl_ms))?,
            Some(keyspace) => keyspace.put_with_ttl(&*key, &*value, ttl(ttl_ms))?,
        })
    }

    /// Gives a pair a new time to live.
    fn Java_dev_esker_Native_touch(
        env, part: jlong, key: jbyteArray, ttl_ms: jlong,
    ) -> jboolean, false; {
        let part: &Part = object(part)?;
        let key = there(env, key)?;
        let db = part.open()?;
        Ok(match part.keyspace()?.as_deref() {
            None => db.touch(&*key, ttl(ttl_ms))?,
            Some(keyspace) => keyspace.touch(&*key, ttl(ttl_ms))?,
        })
    }

    /// Returns when a pair expires, in milliseconds since 1970: -1 for never, -2 for no pair.
    fn Java_dev_esker_Native_expiryMs(env, part: jlong, key: jbyteArray) -> jlong, -2; {
        let part: &Part = object(part)?;
        let key = there(env, key)?;
        let db = part.open()?;
        let found = match part.keyspace()?.as_deref() {
            None => db.get_with_expiry(&*key)?,
            Some(keyspace) => keyspace.get_with_expiry(&*key)?,
        };
        Ok(found.map_or(-2, |(_, expires_ms)| expires_ms.map_or(-1, |ms| ms as i64)))
    }

    /// Removes a key.
    fn Java_dev_esker_Native_delete(
        env, part: jlong, key: jbyteArray, offset: jint, len: jint, durable: jint,
    ) -> (), (); {
        let part: &Part = object(part)?;
        let key = env.bytes(key, offset, len)?;
        let (db, options) = (part.open()?, write_options(durable)?);
        Ok(match part.keyspace()?.as_deref() {
            None => db.delete_with(&*key, &options)?,
            Some(keyspace) => keyspace.delete_with(&*key, &options)?,
        })
    }

    /// Removes a key, and returns whether it existed.
    fn Java_dev_esker_Native_remove(env, part: jlong, key: jbyteArray) -> jboolean, false; {
        let part: &Part = object(part)?;
        let key = there(env, key)?;
        let db = part.open()?;
        Ok(match part.keyspace()?.as_deref() {
            None => db.remove(&*key)?,
            Some(keyspace) => keyspace.remove(&*key)?,
        })
    }

    /// Removes the keys from `start` to before `end`.
    fn Java_dev_esker_Native_deleteRange(
        env, part: jlong, start: jbyteArray, end: jbyteArray,
    ) -> (), (); {
        let part: &Part = object(part)?;
        let (start, end) = (there(env, start)?, there(env, end)?);
        let db = part.open()?;
        Ok(match part.keyspace()?.as_deref() {
            None => db.delete_range(&*start, &*end)?,
            Some(keyspace) => keyspace.delete_range(&*start, &*end)?,
        })
    }

    /// Merges an operand into the value of a key.
    fn Java_dev_esker_Native_merge(
        env, part: jlong, key: jbyteArray, operand: jbyteArray,
    ) -> (), (); {
        let part: &Part = object(part)?;
        let (key, operand) = (there(env, key)?, there(env, operand)?);
        let db = part.open()?;
        Ok(match part.keyspace()?.as_deref() {
            None => db.merge(&*key, &*operand)?,
            Some(keyspace) => keyspace.merge(&*key, &*operand)?,
        })
    }

    /// Writes a packed batch.
    fn Java_dev_esker_Native_write(
        env, part: jlong, packed: jbyteArray, len: jint, parts: jlongArray, durable: jint,
    ) -> (), (); {
        let part: &Part = object(part)?;
        let others = env.longs(parts).into_iter().map(object::<Part>);
        let others = others.collect::<Outcome<Vec<&Part>>>()?;
        let options = write_options(durable)?;
        batch::with_scratch(|scratch: &mut Batch| {
            env.with_held(packed, len, |bytes| batch::unpack(bytes, part, &others, scratch))?;
            Ok(part.open()?.write_with(scratch, &options)?)
        })
    }

    /// Returns the value of a key, or null.
    fn Java_dev_esker_Native_get(
        env, part: jlong, key: jbyteArray, offset: jint, len: jint,
    ) -> jbyteArray, std::ptr::null_mut(); {
        let part: &Part = object(part)?;
        let key = env.bytes(key, offset, len)?;
        let db = part.open()?;
        let found = match part.keyspace()?.as_deref() {
            None => db.read(&*key, |value| env.give_bytes(value))?,
            Some(keyspace) => keyspace.read(&*key, |value| env.give_bytes(value))?,
        };
        Ok(found.unwrap_or(std::ptr::null_mut()))
    }

    /// Returns the values of packed keys, each with its length as an i32 before it: -1 is none.
    fn Java_dev_esker_Native_multiGet(
        env, part: jlong, keys: jbyteArray,
    ) -> jbyteArray, std::ptr::null_mut(); {
        let part: &Part = object(part)?;
        let keys = there(env, keys)?;
        let keys = items(&keys)?;
        let db = part.open()?;
        let found = match part.keyspace()?.as_deref() {
            None => db.multi_get(&keys)?,
            Some(keyspace) => keyspace.multi_get(&keys)?,
        };
        let mut out = Vec::new();
        for value in &found {
            let len = value.as_ref().map_or(-1, |value| value.len() as i32);
            out.extend_from_slice(&len.to_le_bytes());
            out.extend_from_slice(value.as_deref().unwrap_or_default());
        }
        Ok(env.give_bytes(&out))
    }

    /// Returns whether a key exists.
    fn Java_dev_esker_Native_containsKey(env, part: jlong, key: jbyteArray) -> jboolean, false; {
        let part: &Part = object(part)?;
        let key = there(env, key)?;
        let db = part.open()?;
        Ok(match part.keyspace()?.as_deref() {
            None => db.contains_key(&*key)?,
            Some(keyspace) => keyspace.contains_key(&*key)?,
        })
    }

    /// Compacts the keys between two keys, of which each may be null.
    fn Java_dev_esker_Native_compactRange(
        env, part: jlong, start: jbyteArray, end: jbyteArray,
    ) -> (), (); {
        let part: &Part = object(part)?;
        let (start, end) = (env.whole(start)?, env.whole(end)?);
        let (start, end) = (start.as_deref(), end.as_deref());
        let db = part.open()?;
        Ok(match part.keyspace()?.as_deref() {
            None => db.compact_range(start, end)?,
            Some(keyspace) => keyspace.compact_range(start, end)?,
        })
    }

    /// Returns the approximate size of a keyspace, in bytes of tables.
    fn Java_dev_esker_Native_sizeBytes(env, part: jlong) -> jlong, 0; {
        let part: &Part = object(part)?;
        let db = part.open()?;
        Ok(match part.keyspace()?.as_deref() {
            None => db.keyspace("default", &KeyspaceOptions::default())?.size_bytes()?,
            Some(keyspace) => keyspace.size_bytes()?,
        } as i64)
    }

    /// Opens a keyspace, or creates it, with packed options: names and values in turn. The option
    /// `key_order` names an order.
    fn Java_dev_esker_Native_keyspace(
        env, part: jlong, name: jbyteArray, options: jbyteArray,
    ) -> jlong, 0; {
        let part: &Part = object(part)?;
        let (name, pairs) = (env.text(name)?, env.texts(options)?);
        let mut options = KeyspaceOptions::default();
        for pair in pairs.chunks_exact(2) {
            options = match pair[0].as_str() {
                "key_order" => options.key_order(Orders::default().find(&pair[1])?),
                option => options.set(option, &pair[1])?,
            };
        }
        let db = part.open()?;
        let keyspace = match pairs.is_empty() {
            true => db.existing_keyspace(&name)?,
            false => None,
        };
        let keyspace = match keyspace {
            Some(keyspace) => keyspace,
            None => db.keyspace(&name, &options)?,
        };
        let (store, is_read_only) = (part.store.clone(), part.is_read_only);
        let keyspace = Some(store.adopt(keyspace));
        Ok(give(Part { store, keyspace, is_read_only }))
    }

    /// Removes all pairs of a keyspace.
    fn Java_dev_esker_Native_clear(env, part: jlong) -> (), (); {
        let part: &Part = object(part)?;
        let db = part.open()?;
        Ok(match part.keyspace()?.as_deref() {
            None => db.keyspace("default", &KeyspaceOptions::default())?.clear()?,
            Some(keyspace) => keyspace.clear()?,
        })
    }

    /// Frees a part. The part of a store is closed before.
    fn Java_dev_esker_Native_freePart(env, part: jlong) -> (), (); {
        take::<Part>(part)
    }
}

/// Copies an array that is not null.
#[inline]
pub fn there(env: Env, array: jbyteArray) -> Outcome<crate::env::Bytes> {
    env.whole(array)?.ok_or_else(|| Failure::invalid("an array is null"))
}
