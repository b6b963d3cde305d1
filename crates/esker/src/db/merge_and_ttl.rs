//! Merges and pairs that expire: the calls of a store, of a keyspace and of a batch.
//!
//! Invariants:
//! 1. An operand is written only if the merge operator of its keyspace is present and accepts it.
//! 2. The clock knows that pairs expire before the first of them is visible.

use std::ops::Bound;
use std::time::Duration;

use super::keyspace::{Keyspace, Own};
use super::state::DbInner;
use super::{Db, WriteOptions};
use crate::base::expiry;
use crate::base::keyspace::Place;
use crate::base::ops;
use crate::error::Result;
use crate::read::Slice;
use crate::tree::catalog::DEFAULT_KEYSPACE;
use crate::write::batch::{Batch, check_key, check_value};

/// A value, and the time at which it expires in milliseconds since 1970.
type ValueAndTime = (Slice, Option<u64>);

impl Db {
    /// Merges `operand` into the value of `key`, by the store's
    /// [merge operator](crate::Options::merge_operator). The call writes only the operand and reads
    /// nothing. Reads, flushes and compactions make the value.
    ///
    /// An operand does not expire. When it is merged into a pair that expires, the result does not
    /// expire as a whole: after the time of that pair, the value is made of the operands alone.
    ///
    /// The call is as durable as [`Db::put`]: `docs/durability.md` describes what a crash can lose.
    ///
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use esker::{Db, Options, built_in_merge_operator};
    /// let options =
    ///     Options { merge_operator: built_in_merge_operator("add_i64"), ..Options::default() };
    /// let db = Db::open(dir.path().join("db"), options)?;
    /// db.merge("likes", "2")?;
    /// db.merge("likes", "-1")?;
    /// assert_eq!(&*db.get("likes")?.unwrap(), b"1");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Db::put`]; `InvalidArgument` when the store has no merge operator, or when the operator
    /// refuses the operand or panics; `Incompatible` when the operator of the store is missing.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        let (key, operand) = (key.as_ref(), operand.as_ref());
        check_key(key)?;
        check_value(operand)?;
        self.inner.rules.check_merge(DEFAULT_KEYSPACE, operand)?;
        let user_bytes = (key.len() + operand.len()) as u64;
        let encode = |out: &mut Vec<u8>| ops::encode_merge_at(out, None, key, operand);
        self.write_one(&WriteOptions::default(), user_bytes, encode)
    }

    /// Sets `key` to `value` for the time `ttl`, which is rounded up to milliseconds. From then on
    /// the pair does not exist: no read returns it, and flushes and compactions remove it. With a
    /// `ttl` of zero it never exists. A `ttl` of 2^64 - 1 milliseconds or more never ends.
    ///
    /// A snapshot, an iterator and a transaction judge every pair at the time at which they began.
    /// The time is that of the [clock](crate::Options::clock), which never goes back while the
    /// store is open.
    ///
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = esker::Db::open(dir.path().join("db"), esker::Options::default())?;
    /// use std::time::Duration;
    /// db.put_with_ttl("session", "Ada", Duration::from_secs(3600))?;
    /// let (value, expires_ms) = db.get_with_expiry("session")?.unwrap();
    /// assert_eq!(&*value, b"Ada");
    /// assert!(expires_ms.is_some());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn put_with_ttl(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        let Some(ttl_ms) = expiry::ttl_ms(ttl) else { return self.put(key, value) };
        let pair = (key.as_ref(), value.as_ref());
        self.put_expiring(None, pair, ttl_ms, &WriteOptions::default())
    }

    /// Puts a pair that expires into the keyspace at `place`.
    pub(super) fn put_expiring(
        &self,
        place: Option<Place>,
        (key, value): (&[u8], &[u8]),
        ttl_ms: u64,
        options: &WriteOptions,
    ) -> Result<()> {
        check_key(key)?;
        check_value(value)?;
        let time_ms = expiry::time_ms(self.inner.write_time_ms(), ttl_ms);
        self.write_one(options, (key.len() + value.len()) as u64, |out| {
            ops::encode_expiring_at(out, place, key, time_ms, value);
        })
    }

    /// Gives the pair of `key` a new time to live, from now on, as if its value were put again with
    /// [`Db::put_with_ttl`]. With [`Duration::MAX`] it does not expire any more. Returns `false` if
    /// there is no such pair. Merge operands become part of the value.
    ///
    /// Other writers wait while this call reads the value, which may read a file.
    ///
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = esker::Db::open(dir.path().join("db"), esker::Options::default())?;
    /// use std::time::Duration;
    /// db.put_with_ttl("session", "Ada", Duration::from_secs(60))?;
    /// assert!(db.touch("session", Duration::from_secs(3600))?);
    /// assert!(!db.touch("other", Duration::from_secs(3600))?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Db::get`] and [`Db::put`].
    pub fn touch(&self, key: impl AsRef<[u8]>, ttl: Duration) -> Result<bool> {
        self.inner.touch(None, key.as_ref(), ttl)
    }

    /// Returns a copy of the value of `key`, and the time at which the pair expires, in
    /// milliseconds since 1970 by the [clock](crate::Options::clock), or `None` if it does not
    /// expire. Returns `None` when the key does not exist.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get_with_expiry(&self, key: impl AsRef<[u8]>) -> Result<Option<(Slice, Option<u64>)>> {
        self.inner.get_with_expiry(None, key.as_ref())
    }
}

impl Keyspace {
    /// Merges `operand` into the value of `key`, by the
    /// [merge operator](crate::KeyspaceOptions::merge_operator) of the keyspace. See [`Db::merge`].
    ///
    /// # Errors
    /// As [`Db::merge`]; `NotFound` when the keyspace was dropped.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        let Some(own) = self.own()? else { return self.db.merge(key, operand) };
        let (key, operand) = (key.as_ref(), operand.as_ref());
        check_key(key)?;
        check_value(operand)?;
        own.state.rules.check_merge(&own.state.name(), operand)?;
        let (user_bytes, place) = ((key.len() + operand.len()) as u64, Some(own.state.place()));
        let encode = |out: &mut Vec<u8>| ops::encode_merge_at(out, place, key, operand);
        self.db.write_one(&WriteOptions::default(), user_bytes, encode)
    }

    /// Sets `key` to `value` for the time `ttl`, whatever the
    /// [time to live](crate::KeyspaceOptions::ttl) of the keyspace. See [`Db::put_with_ttl`].
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn put_with_ttl(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        let Some(own) = self.own()? else { return self.db.put_with_ttl(key, value, ttl) };
        let (key, value, place) = (key.as_ref(), value.as_ref(), Some(own.state.place()));
        let options = WriteOptions::default();
        if let Some(ttl_ms) = expiry::ttl_ms(ttl) {
            return self.db.put_expiring(place, (key, value), ttl_ms, &options);
        }
        check_key(key)?;
        check_value(value)?;
        let user_bytes = (key.len() + value.len()) as u64;
        let encode = |out: &mut Vec<u8>| ops::encode_put_at(out, place, key, value);
        self.db.write_one(&options, user_bytes, encode)
    }

    /// Gives the pair of `key` a new time to live. See [`Db::touch`].
    ///
    /// # Errors
    /// As [`Db::touch`]; `NotFound` when the keyspace was dropped.
    pub fn touch(&self, key: impl AsRef<[u8]>, ttl: Duration) -> Result<bool> {
        let own = self.own()?;
        self.db.inner.touch(own, key.as_ref(), ttl)
    }

    /// Returns a copy of the value of `key`, and the time at which the pair expires. See
    /// [`Db::get_with_expiry`].
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn get_with_expiry(&self, key: impl AsRef<[u8]>) -> Result<Option<(Slice, Option<u64>)>> {
        let own = self.own()?;
        self.db.inner.get_with_expiry(own, key.as_ref())
    }
}

impl Batch {
    /// Merges `operand` into the value of `key` in a keyspace. The write of the batch fails if the
    /// keyspace has no merge operator or the operator refuses the operand. See [`Db::merge`].
    pub fn merge_in(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> &mut Batch {
        self.merge_at(keyspace.state(), key.as_ref(), operand.as_ref());
        self
    }

    /// Sets `key` to `value` in a keyspace, until `ttl` has passed since the write of the batch.
    /// See [`Db::put_with_ttl`].
    pub fn put_with_ttl_in(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> &mut Batch {
        self.put_with_ttl_at(keyspace.state(), key.as_ref(), value.as_ref(), ttl);
        self
    }
}

impl DbInner {
    /// Returns the time of a write of pairs that expire.
    pub(super) fn write_time_ms(&self) -> u64 {
        self.rules.clock.mark_used();
        self.rules.clock.now_ms()
    }

    /// Refuses a batch with an operand that the merge operator of the default keyspace refuses. The
    /// operands of other keyspaces were checked when they were added.
    #[inline]
    pub(super) fn check_operands(&self, batch: &Batch) -> Result<()> {
        let mut operands = batch.default_operands();
        operands.try_for_each(|operand| self.rules.check_merge(DEFAULT_KEYSPACE, operand))
    }

    /// Returns the operations of a batch with the times at which its pairs expire, if some do.
    #[inline]
    pub(super) fn timed_payload(&self, batch: &Batch) -> Option<Vec<u8>> {
        batch.has_ttls().then(|| batch.payload_at(self.write_time_ms()))
    }

    fn get_with_expiry(&self, own: Option<&Own>, key: &[u8]) -> Result<Option<ValueAndTime>> {
        let stored = match own {
            None => key.to_vec(),
            Some(own) => own.key(key).as_slice().to_vec(),
        };
        let bounds = (Bound::Included(stored.clone()), Bound::Included(stored));
        let mut iter = self.iter_at(own.map(Own::in_keyspace), bounds, None, true)?;
        iter.seek_to_first()?;
        Ok(iter.valid().then(|| (Slice::copied(iter.value()), iter.expires_ms())))
    }

    fn touch(&self, own: Option<&Own>, key: &[u8], ttl: Duration) -> Result<bool> {
        check_key(key)?;
        let place = own.map(|own| own.state.place());
        self.write_made(key.len() as u64, |out| {
            let Some((value, _)) = self.get_with_expiry(own, key)? else { return Ok(None) };
            match expiry::ttl_ms(ttl) {
                Some(ttl_ms) => {
                    let time_ms = expiry::time_ms(self.write_time_ms(), ttl_ms);
                    ops::encode_expiring_at(out, place, key, time_ms, &value);
                }
                None => ops::encode_put_at(out, place, key, &value),
            }
            Ok(Some((key.len() + value.len()) as u64))
        })
    }
}
