//! Keyspaces: ordered maps of their own within one store. This file has the handle of a keyspace;
//! [`super::keyspace_catalog`] creates, renames and drops keyspaces.
//!
//! Invariants:
//! 1. Every key that leaves this file is a stored key. No caller sees a prefix.
//! 2. Reads and writes through a handle of a dropped keyspace are refused.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::time::Duration;

use super::read_path::bounds_of_prefix;
use super::rules;
use super::tree::{InKeyspace, Tree};
use super::{Db, ReadOptions, WriteOptions, owned_bounds};
use crate::base::expiry;
use crate::base::keyspace::{KeyspaceState, StoredKey, prefix_end, stored_bounds};
use crate::base::ops;
use crate::base::order::KeyOrder;
use crate::error::{Error, Result};
use crate::options;
use crate::read::Slice;
use crate::read::scan::{DbIterator, KeyBounds};
use crate::tree::catalog::{DEFAULT_KEYSPACE, Pairs};
use crate::write::batch::{Batch, check_key, check_value};

/// Options of a new keyspace. They are stored with it.
///
/// ```
/// let options = esker::KeyspaceOptions::default().set("compression", "none")?;
/// # Ok::<(), esker::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct KeyspaceOptions {
    /// Key order. Default: bytewise. A custom order must also be in
    /// [`Options::key_orders`](crate::Options::key_orders) whenever the store is opened.
    pub key_order: KeyOrder,
    /// Options that differ from the store's.
    pub(super) pairs: Pairs,
    /// Settings that are no storage options ([`super::rules`]).
    pub(super) settings: Pairs,
}

impl KeyspaceOptions {
    /// Sets the key order.
    pub fn key_order(mut self, order: KeyOrder) -> KeyspaceOptions {
        self.key_order = order;
        self
    }

    /// Sets the merge operator by its name: a
    /// [built-in one](crate::built_in_merge_operator), or one of
    /// [`Options::merge_operators`](crate::Options::merge_operators). Default: none, so merges are
    /// refused.
    pub fn merge_operator(mut self, name: &str) -> KeyspaceOptions {
        rules::set(&mut self.settings, rules::MERGE_OPERATOR, name.to_string());
        self
    }

    /// Sets the time to live of pairs that are put without one. It is rounded up to milliseconds.
    /// Default: pairs do not expire. Merge operands never expire.
    pub fn ttl(mut self, ttl: Duration) -> KeyspaceOptions {
        match expiry::ttl_ms(ttl) {
            Some(ttl_ms) => rules::set(&mut self.settings, rules::TTL_MS, ttl_ms.to_string()),
            None => self.settings.retain(|(name, _)| name != rules::TTL_MS),
        }
        self
    }

    /// Sets the compaction filter by its name: one of
    /// [`Options::compaction_filters`](crate::Options::compaction_filters). Default: none.
    pub fn compaction_filter(mut self, name: &str) -> KeyspaceOptions {
        rules::set(&mut self.settings, rules::COMPACTION_FILTER, name.to_string());
        self
    }

    /// Returns the options and settings as [`KeyspaceOptions::set`] takes them.
    pub(super) fn all_pairs(&self) -> Pairs {
        [&self.pairs[..], &self.settings].concat()
    }

    /// Sets a storage option of the store to another value for this keyspace, by its name or an
    /// alias. `docs/options.md` says which options a keyspace can have of its own. The others, and
    /// those that are not set, are the store's. The names `merge_operator`, `compaction_filter` and
    /// `ttl_ms`, in milliseconds, set what the methods of these names set.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown name, a bad value, or an option that is only the store's.
    pub fn set(mut self, name: &str, value: &str) -> Result<KeyspaceOptions> {
        match name {
            rules::MERGE_OPERATOR => return Ok(self.merge_operator(value)),
            rules::COMPACTION_FILTER => return Ok(self.compaction_filter(value)),
            rules::TTL_MS => {
                let ttl_ms = value.parse().map_err(|_| {
                    Error::invalid(format!("expected ttl_ms in milliseconds, found \"{value}\""))
                })?;
                return Ok(self.ttl(Duration::from_millis(ttl_ms)));
            }
            _ => {}
        }
        let mut checked = options::Options::default();
        checked.set(name, value)?;
        checked.validate()?;
        let Some(spec) = options::find(name).filter(|spec| options::is_of_keyspaces(spec.name))
        else {
            return Err(Error::invalid(format!(
                "{name} is an option of the whole store, not of a keyspace"
            )));
        };
        let value = checked.get(spec.name).unwrap_or_default();
        self.pairs.retain(|(known, _)| known != spec.name);
        let at = self.pairs.partition_point(|(known, _)| known.as_str() < spec.name);
        self.pairs.insert(at, (spec.name.to_string(), value));
        Ok(self)
    }
}

/// A keyspace: an ordered map of its own within a store, with its own key order and storage
/// options.
///
/// All keyspaces of a store share its log, memory and threads. A [`Batch`] over several of them is
/// atomic, and a [`Snapshot`](crate::Snapshot) sees all of them at one moment. The methods of
/// [`Db`] work on the keyspace `default`. A handle is cheap to clone, and keeps the store open.
///
/// ```
/// # fn main() -> esker::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use esker::{Batch, Db, KeyspaceOptions, Options};
/// let db = Db::open(dir.path().join("db"), Options::default())?;
/// let users = db.keyspace("users", &KeyspaceOptions::default())?;
/// let emails = db.keyspace("emails", &KeyspaceOptions::default())?;
/// let mut batch = Batch::new();
/// batch.put_in(&users, "7", "Ada").put_in(&emails, "ada@example.org", "7");
/// db.write(&batch)?;
/// assert_eq!(&*users.get("7")?.unwrap(), b"Ada");
/// assert!(db.get("7")?.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Keyspace {
    pub(super) db: Db,
    /// `None`: the default keyspace.
    own: Option<Own>,
}

/// A keyspace other than the default one, and its tree.
#[derive(Clone)]
pub(super) struct Own {
    pub state: Arc<KeyspaceState>,
    pub tree: Arc<Tree>,
}

impl Own {
    pub(super) fn key(&self, key: &[u8]) -> StoredKey {
        StoredKey::new(self.state.id, key)
    }

    /// Returns the keyspace for a read.
    #[inline]
    pub(super) fn in_keyspace(&self) -> InKeyspace<'_> {
        InKeyspace { tree: &self.tree, rules: &self.state.rules }
    }
}

impl Keyspace {
    /// Creates the handle of a keyspace that exists; of the default one for `None`.
    pub(super) fn new(db: &Db, own: Option<Own>) -> Keyspace {
        Keyspace { db: db.clone(), own }
    }

    /// Returns the name.
    pub fn name(&self) -> String {
        self.own.as_ref().map_or(DEFAULT_KEYSPACE.into(), |own| own.state.name().to_string())
    }

    /// Returns the number of the keyspace in its store, which no other keyspace ever has. 0 is the
    /// default keyspace.
    pub fn id(&self) -> u32 {
        self.own.as_ref().map_or(0, |own| own.state.id)
    }

    /// Returns the number of the tree that holds the keys. Keyspaces with the same key order and
    /// the same options share a tree. 0 is the tree of the default keyspace alone.
    pub fn tree(&self) -> u32 {
        self.own.as_ref().map_or(0, |own| own.state.tree)
    }

    /// Returns the key order.
    pub fn key_order(&self) -> &KeyOrder {
        self.own.as_ref().map_or(&self.db.inner.order, |own| &own.tree.user_order)
    }

    /// Returns the options that were set when the keyspace was created, with their values as text
    /// that [`KeyspaceOptions::set`] accepts, ordered by name. The other options are the store's.
    /// Empty for the default keyspace.
    ///
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use esker::{Db, KeyspaceOptions, Options};
    /// let db = Db::open(dir.path().join("db"), Options::default())?;
    /// let options = KeyspaceOptions::default().set("policy", "leveled")?;
    /// let logs = db.keyspace("logs", &options)?;
    /// assert_eq!(logs.options(), [("policy".to_string(), "leveled".to_string())]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn options(&self) -> Vec<(String, String)> {
        let Some(own) = &self.own else { return Vec::new() };
        let mut options = [&own.tree.pairs()[..], &own.state.rules.settings].concat();
        options.sort_unstable();
        options
    }

    /// Returns the store.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Returns the keyspace and its tree, or `None` for the default keyspace.
    ///
    /// # Errors
    /// `NotFound` when the keyspace was dropped.
    #[inline]
    pub(super) fn own(&self) -> Result<Option<&Own>> {
        match &self.own {
            Some(own) if own.state.is_dropped() => Err(dropped(&own.state)),
            own => Ok(own.as_ref()),
        }
    }

    /// Returns the state and the tree of the keyspace, or `None` for the default keyspace.
    ///
    /// # Errors
    /// `NotFound` when the keyspace was dropped.
    pub(super) fn parts(&self) -> Result<Option<(&Arc<KeyspaceState>, &Arc<Tree>)>> {
        Ok(self.own()?.map(|own| (&own.state, &own.tree)))
    }

    /// Returns the state of the keyspace, or `None` for the default keyspace.
    pub(super) fn state(&self) -> Option<&Arc<KeyspaceState>> {
        self.own.as_ref().map(|own| &own.state)
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// As [`Db::put`]; `NotFound` when the keyspace was dropped.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, &WriteOptions::default())
    }

    /// Does the same as [`Keyspace::put`], with explicit write options.
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        let Some(own) = self.own()? else { return self.db.put_with(key, value, options) };
        let (key, value) = (key.as_ref(), value.as_ref());
        check_key(key)?;
        check_value(value)?;
        if let Some(ttl_ms) = own.state.rules.ttl_ms {
            let place = Some(own.state.place());
            return self.db.put_expiring(place, (key, value), ttl_ms, options);
        }
        let (user_bytes, place) = ((key.len() + value.len()) as u64, Some(own.state.place()));
        self.db.write_one(options, user_bytes, |out| ops::encode_put_at(out, place, key, value))
    }

    /// Deletes `key` without checking whether it exists.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, &WriteOptions::default())
    }

    /// Does the same as [`Keyspace::delete`], with explicit write options.
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()> {
        let Some(own) = self.own()? else { return self.db.delete_with(key, options) };
        let key = key.as_ref();
        check_key(key)?;
        let place = Some(own.state.place());
        self.db.write_one(options, key.len() as u64, |out| ops::encode_delete_at(out, place, key))
    }

    /// Deletes `key` and returns whether it existed. See [`Db::remove`].
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let Some(own) = self.own()? else { return self.db.remove(key) };
        let key = key.as_ref();
        check_key(key)?;
        let mut payload = Vec::with_capacity(key.len() + 16);
        ops::encode_delete_at(&mut payload, Some(own.state.place()), key);
        self.db.inner.write_if(&payload, 1, key.len() as u64, None, || self.contains_key(key))
    }

    /// Deletes every key in `[start, end)` with one range tombstone.
    pub fn delete_range(&self, start: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        let mut batch = Batch::new();
        batch.delete_range_in(self, start, end);
        self.db.write(&batch)
    }

    /// Deletes every key with one range tombstone. Snapshots still see the keys.
    ///
    /// # Errors
    /// As [`Db::write`]; `InvalidArgument` for the default keyspace, whose keys have no upper
    /// bound.
    pub fn clear(&self) -> Result<()> {
        let Some(own) = self.own()? else {
            return Err(Error::invalid(
                "the default keyspace has no greatest key; delete a range of it",
            ));
        };
        let (id, mut payload) = (own.state.id, Vec::new());
        let (start, end) = (prefix_end(id - 1), prefix_end(id));
        ops::encode_stored_range_delete(&mut payload, own.state.tree, &start, &end);
        self.db.inner.write(&payload, 1, 0, None)
    }

    /// Returns the value of `key`, pinned in place without a copy, or `None` when the key does not
    /// exist.
    ///
    /// # Errors
    /// As [`Db::get`]; `NotFound` when the keyspace was dropped.
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        let Some(own) = self.own()? else { return self.db.get(key) };
        let key = own.key(key.as_ref());
        self.db.inner.get_at(Some(own.in_keyspace()), key.as_slice(), None, true)
    }

    /// Does the same as [`Keyspace::get`], at a snapshot or without filling the cache.
    pub fn get_with(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions<'_>,
    ) -> Result<Option<Slice>> {
        let Some(own) = self.own()? else { return self.db.get_with(key, options) };
        let (key, at) = (own.key(key.as_ref()), self.db.moment_of(options)?);
        self.db.inner.get_at(Some(own.in_keyspace()), key.as_slice(), at, options.fill_cache)
    }

    /// Calls `see` with the value of `key` and returns its result. See [`Db::read`].
    pub fn read<R>(
        &self,
        key: impl AsRef<[u8]>,
        see: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let Some(own) = self.own()? else { return self.db.read(key, see) };
        let key = own.key(key.as_ref());
        self.db.inner.read_at(Some(own.in_keyspace()), key.as_slice(), None, true, see)
    }

    /// Returns the values of many keys as of one moment, in the order of `keys`. See
    /// [`Db::multi_get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        self.multi_get_with(keys, &ReadOptions::default())
    }

    /// Does the same as [`Keyspace::multi_get`], at a snapshot or without filling the cache.
    pub fn multi_get_with<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions<'_>,
    ) -> Result<Vec<Option<Slice>>> {
        let Some(own) = self.own()? else { return self.db.multi_get_with(keys, options) };
        let at = self.db.moment_of(options)?;
        let stored = |key: &K| own.key(key.as_ref()).as_slice().to_vec();
        let keys: Vec<Vec<u8>> = keys.iter().map(stored).collect();
        self.db.inner.multi_get_at(Some(own.in_keyspace()), &keys, at, options.fill_cache)
    }

    /// Returns whether `key` exists.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let Some(own) = self.own()? else { return self.db.contains_key(key) };
        let key = own.key(key.as_ref());
        let found =
            self.db.inner.get_map(Some(own.in_keyspace()), key.as_slice(), None, true, |_| ())?;
        Ok(found.is_some())
    }

    /// Returns an iterator over every pair, in key order, as of now.
    pub fn iter(&self) -> Result<DbIterator> {
        self.iter_with(&ReadOptions::default(), (Bound::Unbounded, Bound::Unbounded))
    }

    /// Returns an iterator over the pairs within `range`.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<DbIterator> {
        self.iter_with(&ReadOptions::default(), owned_bounds(&range))
    }

    /// Returns an iterator over the pairs whose key starts with `prefix`. See [`Db::prefix`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<DbIterator> {
        let bounds = bounds_of_prefix(self.key_order(), prefix.as_ref())?;
        self.iter_with(&ReadOptions::default(), bounds)
    }

    /// Returns an iterator over the pairs within `bounds`, at a snapshot or without filling the
    /// cache. An iterator that exists when its keyspace is dropped continues over the old pairs.
    pub fn iter_with(&self, options: &ReadOptions<'_>, bounds: KeyBounds) -> Result<DbIterator> {
        let Some(own) = self.own()? else { return self.db.iter_with(options, bounds) };
        let (at, fill_cache) = (self.db.moment_of(options)?, options.fill_cache);
        let bounds = stored_bounds(own.state.id, bounds);
        let iter = self.db.inner.iter_at(Some(own.in_keyspace()), bounds, at, fill_cache)?;
        Ok(iter.in_keyspace(own.state.id))
    }

    /// Compacts the keys between `start` and `end` (all keys of the keyspace when `None`). See
    /// [`Db::compact_range`].
    pub fn compact_range(&self, start: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        let Some(own) = self.own()? else { return self.db.compact_range(start, end) };
        let id = own.state.id;
        let (lo, hi) = (prefix_end(id - 1), prefix_end(id));
        let (start, end) = (start.map(|key| own.key(key)), end.map(|key| own.key(key)));
        let start = start.as_ref().map_or(&lo[..], StoredKey::as_slice);
        let end = end.as_ref().map_or(&hi[..], StoredKey::as_slice);
        self.db.inner.compact_range(&own.tree, Some(start), Some(end))
    }

    /// Returns the approximate number of table bytes of the keyspace. Data that is only in memory
    /// is not counted.
    ///
    /// # Errors
    /// As [`Db::approximate_size`]; `NotFound` when the keyspace was dropped.
    pub fn size_bytes(&self) -> Result<u64> {
        let Some(own) = self.own()? else { return self.db.inner.main_tree_bytes() };
        let (lo, hi) = (prefix_end(own.state.id - 1), prefix_end(own.state.id));
        self.db.inner.approximate_size(&own.tree, &lo, &hi)
    }

    /// Returns the approximate number of table bytes that hold the keys of the keyspace in
    /// `[start, end)`. Data that is only in memory is not counted.
    ///
    /// # Errors
    /// As [`Db::approximate_size`]; `NotFound` when the keyspace was dropped.
    pub fn approximate_size(&self, start: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<u64> {
        let Some(own) = self.own()? else { return self.db.approximate_size(start, end) };
        let (start, end) = (own.key(start.as_ref()), own.key(end.as_ref()));
        self.db.inner.approximate_size(&own.tree, start.as_slice(), end.as_slice())
    }

    /// Checks that the keyspace has these options.
    pub(super) fn check_options(&self, options: &KeyspaceOptions) -> Result<()> {
        let Some(own) = &self.own else {
            let own_order = self.db.inner.order.name() == options.key_order.name();
            let is_plain = options.pairs.is_empty() && options.settings.is_empty();
            if is_plain && (own_order || is_bytewise(&options.key_order)) {
                return Ok(());
            }
            return Err(Error::invalid(
                "the keyspace \"default\" has the key order and the options of the store; its merge \
                 operator is `Options::merge_operator`",
            ));
        };
        let (want, found) = (options.key_order.name(), own.tree.user_order.name());
        if want != found {
            return Err(Error::invalid(format!(
                "expected the keyspace \"{}\" in the key order {want}, found the order {found}",
                self.name()
            )));
        }
        if options.pairs != *own.tree.pairs() || options.settings != own.state.rules.settings {
            return Err(Error::invalid(format!(
                "the keyspace \"{}\" exists with other options: {}",
                self.name(),
                shown(&self.options())
            )));
        }
        Ok(())
    }
}

impl std::fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keyspace({:?} of {:?})", self.name(), self.db)
    }
}

impl Batch {
    /// Sets `key` to `value` in a keyspace. The write of the batch fails if the keyspace is of
    /// another store, or was dropped.
    pub fn put_in(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> &mut Batch {
        self.put_at(keyspace.state(), key.as_ref(), value.as_ref());
        self
    }

    /// Deletes `key` in a keyspace.
    pub fn delete_in(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> &mut Batch {
        self.delete_at(keyspace.state(), key.as_ref());
        self
    }

    /// Deletes every key in `[start, end)` of a keyspace.
    pub fn delete_range_in(
        &mut self,
        keyspace: &Keyspace,
        start: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> &mut Batch {
        self.delete_range_at(keyspace.state(), start.as_ref(), end.as_ref());
        self
    }
}

fn is_bytewise(order: &KeyOrder) -> bool {
    matches!(order, KeyOrder::Bytewise)
}

/// Returns options as text.
fn shown(pairs: &Pairs) -> String {
    if pairs.is_empty() {
        return "those of the store".to_string();
    }
    let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join(", ")
}

/// Returns the error for the use of a dropped keyspace.
pub(super) fn dropped(keyspace: &KeyspaceState) -> Error {
    Error::not_found(format!("the keyspace \"{}\" was dropped", keyspace.name()))
}
