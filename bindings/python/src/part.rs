//! A part of a database: a keyspace, and a prefix of its keys. `DB`, `Keyspace`, `PrefixedDB`,
//! `Snapshot` and `WriteBatch` each belong to one part, and have its reads and writes from here.
//!
//! Invariants:
//! 1. The prefix is prepended to argument keys. Keys without the prefix are neither read nor
//!    changed.
//! 2. The engine is called through the store, so without the interpreter's lock.

use std::borrow::Cow;
use std::sync::Arc;

use esker::{Batch, DbIterator, KeyBounds, Keyspace, ReadOptions, Slice, WriteOptions};
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyTuple, PyType};

use crate::arguments::BytesLike;
use crate::merge::Ttl;
use crate::store::Store;

/// Returns a mapping's exception for a missing key.
pub fn no_key(key: &Bound<'_, PyAny>) -> PyErr {
    PyKeyError::new_err(key.clone().unbind())
}

/// A keyspace of an open store, and the prefix of the keys that belong to the part.
#[derive(Clone)]
pub struct Part {
    store: Arc<Store>,
    /// `None`: the keyspace `default`.
    keyspace: Option<Keyspace>,
    root: Vec<u8>,
}

impl Part {
    /// Returns the keyspace `default` of a store.
    pub fn whole(store: Arc<Store>) -> Part {
        Part { store, keyspace: None, root: Vec::new() }
    }

    /// Returns a keyspace of the same store.
    pub fn with_keyspace(&self, keyspace: Keyspace) -> Part {
        Part { store: self.store.clone(), keyspace: Some(keyspace), root: Vec::new() }
    }

    /// Returns the keys of the part that start with `prefix`.
    pub fn under(&self, prefix: &[u8]) -> Part {
        let root = [&self.root, prefix].concat();
        Part { store: self.store.clone(), keyspace: self.keyspace.clone(), root }
    }

    /// Returns the store.
    #[inline]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Returns the keyspace, or `None` for a part that was not made from a keyspace.
    pub fn keyspace(&self) -> Option<&Keyspace> {
        self.keyspace.as_ref()
    }

    /// Returns the prefix of the keys.
    pub fn root(&self) -> &[u8] {
        &self.root
    }

    /// Returns a key of the part as the store has it.
    #[inline]
    pub fn key<'a>(&self, key: &'a [u8]) -> Cow<'a, [u8]> {
        match self.root.is_empty() {
            true => Cow::Borrowed(key),
            false => Cow::Owned([&self.root, key].concat()),
        }
    }

    /// Returns the value of `key`.
    #[inline]
    pub fn find(
        &self,
        py: Python<'_>,
        key: &[u8],
        options: &ReadOptions<'_>,
    ) -> PyResult<Option<Slice>> {
        let key = self.key(key);
        match &self.keyspace {
            None => self.store.run(py, |db| db.get_with(&*key, options)),
            Some(keyspace) => self.store.run(py, |_| keyspace.get_with(&*key, options)),
        }
    }

    /// Returns the values of many keys as of one moment.
    pub fn find_many<'k>(
        &self,
        py: Python<'_>,
        keys: impl Iterator<Item = &'k [u8]>,
    ) -> PyResult<Vec<Option<Slice>>> {
        let keys: Vec<Cow<'_, [u8]>> = keys.map(|key| self.key(key)).collect();
        match &self.keyspace {
            None => self.store.run(py, |db| db.multi_get(&keys)),
            Some(keyspace) => self.store.run(py, |_| keyspace.multi_get(&keys)),
        }
    }

    /// Returns the value of `key` as `bytes`.
    #[inline]
    pub fn get<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        options: &ReadOptions<'_>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        Ok(self.find(py, key, options)?.map(|value| PyBytes::new(py, &value)))
    }

    /// Returns the values of many keys as of one moment.
    pub fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &[Bound<'py, PyAny>],
    ) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        let keys: Vec<BytesLike<'_>> =
            keys.iter().map(|key| key.extract()).collect::<PyResult<_>>()?;
        let values = self.find_many(py, keys.iter().map(|key| &**key))?;
        Ok(values.into_iter().map(|value| value.map(|v| PyBytes::new(py, &v))).collect())
    }

    /// Returns the value of `key`, or raises `KeyError`.
    #[inline]
    pub fn item(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let value = self.get(py, &key.extract::<BytesLike<'_>>()?, &ReadOptions::default())?;
        value.map(|value| value.into_any().unbind()).ok_or_else(|| no_key(key))
    }

    /// Returns whether `key` exists.
    pub fn contains(&self, py: Python<'_>, key: &[u8]) -> PyResult<bool> {
        let key = self.key(key);
        match &self.keyspace {
            None => self.store.run(py, |db| db.contains_key(&*key)),
            Some(keyspace) => self.store.run(py, |_| keyspace.contains_key(&*key)),
        }
    }

    /// Sets `key` to `value`.
    #[inline]
    pub fn put(
        &self,
        py: Python<'_>,
        key: &[u8],
        value: &[u8],
        ttl: Option<Ttl>,
        options: &WriteOptions,
    ) -> PyResult<()> {
        if ttl.is_some() {
            let mut batch = Batch::new();
            self.add_put(&mut batch, key, value, ttl);
            return self.store.run(py, |db| db.write_with(&batch, options));
        }
        let key = self.key(key);
        match &self.keyspace {
            None => self.store.run(py, |db| db.put_with(&*key, value, options)),
            Some(keyspace) => self.store.run(py, |_| keyspace.put_with(&*key, value, options)),
        }
    }

    /// Merges `operand` into the value of `key`.
    pub fn merge(
        &self,
        py: Python<'_>,
        key: &[u8],
        operand: &[u8],
        options: &WriteOptions,
    ) -> PyResult<()> {
        self.store.run(py, |db| {
            let mut batch = Batch::new();
            self.add_merge(&mut batch, key, operand);
            db.write_with(&batch, options)
        })
    }

    /// Gives the pair of `key` a new time to live. Returns whether there is such a pair.
    pub fn touch(&self, py: Python<'_>, key: &[u8], ttl: Option<Ttl>) -> PyResult<bool> {
        let (key, ttl) = (self.key(key), Ttl::or_never(ttl));
        match &self.keyspace {
            None => self.store.run(py, |db| db.touch(&*key, ttl)),
            Some(keyspace) => self.store.run(py, |_| keyspace.touch(&*key, ttl)),
        }
    }

    /// Returns the time at which the pair of `key` expires, in seconds since 1970, or raises
    /// `KeyError`.
    pub fn expiry(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
        let found = self.find_with_expiry(py, &key.extract::<BytesLike<'_>>()?)?;
        found.map(|(_, expires)| expires).ok_or_else(|| no_key(key))
    }

    /// Returns the value of `key`, and the time at which its pair expires, in seconds since 1970.
    pub fn find_with_expiry(
        &self,
        py: Python<'_>,
        key: &[u8],
    ) -> PyResult<Option<(Slice, Option<f64>)>> {
        let key = self.key(key);
        let found = match &self.keyspace {
            None => self.store.run(py, |db| db.get_with_expiry(&*key)),
            Some(keyspace) => self.store.run(py, |_| keyspace.get_with_expiry(&*key)),
        };
        Ok(found?.map(|(value, ms)| (value, ms.map(|ms| ms as f64 / 1000.0))))
    }

    /// Deletes `key`.
    pub fn delete(&self, py: Python<'_>, key: &[u8], options: &WriteOptions) -> PyResult<()> {
        let key = self.key(key);
        match &self.keyspace {
            None => self.store.run(py, |db| db.delete_with(&*key, options)),
            Some(keyspace) => self.store.run(py, |_| keyspace.delete_with(&*key, options)),
        }
    }

    /// Deletes `key`, or raises `KeyError`.
    pub fn remove(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let given = key.extract::<BytesLike<'_>>()?;
        let whole = self.key(&given);
        let existed = match &self.keyspace {
            None => self.store.run(py, |db| db.remove(&*whole)),
            Some(keyspace) => self.store.run(py, |_| keyspace.remove(&*whole)),
        };
        if existed? { Ok(()) } else { Err(no_key(key)) }
    }

    /// Deletes the keys from `start` to `stop`.
    pub fn delete_range(
        &self,
        py: Python<'_>,
        start: &[u8],
        stop: &[u8],
        options: &WriteOptions,
    ) -> PyResult<()> {
        let mut batch = Batch::new();
        self.add_delete_range(&mut batch, start, stop);
        self.store.run(py, |db| db.write_with(&batch, options))
    }

    /// Adds a put to a batch.
    #[inline]
    pub fn add_put(&self, batch: &mut Batch, key: &[u8], value: &[u8], ttl: Option<Ttl>) {
        let key = self.key(key);
        match (&self.keyspace, ttl.map(Ttl::duration)) {
            (None, None) => batch.put(&*key, value),
            (None, Some(ttl)) => batch.put_with_ttl(&*key, value, ttl),
            (Some(keyspace), None) => batch.put_in(keyspace, &*key, value),
            (Some(keyspace), Some(ttl)) => batch.put_with_ttl_in(keyspace, &*key, value, ttl),
        };
    }

    /// Adds a merge to a batch.
    pub fn add_merge(&self, batch: &mut Batch, key: &[u8], operand: &[u8]) {
        let key = self.key(key);
        match &self.keyspace {
            None => batch.merge(&*key, operand),
            Some(keyspace) => batch.merge_in(keyspace, &*key, operand),
        };
    }

    /// Adds a delete to a batch.
    pub fn add_delete(&self, batch: &mut Batch, key: &[u8]) {
        let key = self.key(key);
        match &self.keyspace {
            None => batch.delete(&*key),
            Some(keyspace) => batch.delete_in(keyspace, &*key),
        };
    }

    /// Adds a range deletion to a batch.
    pub fn add_delete_range(&self, batch: &mut Batch, start: &[u8], stop: &[u8]) {
        let (start, stop) = (self.key(start), self.key(stop));
        match &self.keyspace {
            None => batch.delete_range(&*start, &*stop),
            Some(keyspace) => batch.delete_range_in(keyspace, &*start, &*stop),
        };
    }

    /// Creates a cursor of the engine within `bounds`, whose keys have the prefix.
    pub fn iter(
        &self,
        py: Python<'_>,
        options: &ReadOptions<'_>,
        bounds: KeyBounds,
    ) -> PyResult<DbIterator> {
        match &self.keyspace {
            None => self.store.run(py, |db| db.iter_with(options, bounds)),
            Some(keyspace) => self.store.run(py, |_| keyspace.iter_with(options, bounds)),
        }
    }

    /// Compacts the keys of the whole keyspace from `start` to `stop`.
    pub fn compact_range(
        &self,
        py: Python<'_>,
        start: Option<&[u8]>,
        stop: Option<&[u8]>,
    ) -> PyResult<()> {
        match &self.keyspace {
            None => self.store.run(py, |db| db.compact_range(start, stop)),
            Some(keyspace) => self.store.run(py, |_| keyspace.compact_range(start, stop)),
        }
    }
}

/// Returns the `MutableMapping` over a database or a part of one.
pub fn mapping_of<'py>(whole: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(whole.py(), "esker._mapping", "Mapping")?.call1((whole,))
}

/// Works like a dict's `pop`.
pub fn pop<'py>(
    whole: &Bound<'py, PyAny>,
    key: &Bound<'py, PyAny>,
    default: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    let mapping = mapping_of(whole)?;
    match default.len() {
        0 => mapping.call_method1("pop", (key,)),
        1 => mapping.call_method1("pop", (key, default.get_item(0)?)),
        _ => Err(PyTypeError::new_err("pop() takes a key and one default at most")),
    }
}

/// Defines the Python methods of a class with the fields `part` and `db`: those in braces, and the
/// methods of a database that every part has. A class has one block of methods, so both are given
/// to it here.
macro_rules! part_methods {
    ($class:ident { $($own:tt)* }) => {
        crate::mapping_methods::mapping_methods! { $class {
            $($own)*

            /// See ``DB.get``.
            #[inline]
            #[pyo3(signature = (key, default=None, *, verify_checksums=None, fill_cache=true))]
            fn get<'py>(
                &self,
                py: Python<'py>,
                key: crate::arguments::BytesLike<'_>,
                default: Option<Bound<'py, PyAny>>,
                verify_checksums: Option<&Bound<'py, PyAny>>,
                fill_cache: bool,
            ) -> PyResult<Option<Bound<'py, PyAny>>> {
                let _ = verify_checksums;
                let options = esker::ReadOptions::default().fill_cache(fill_cache);
                Ok(self.part.get(py, &key, &options)?.map(Bound::into_any).or(default))
            }

            /// See ``DB.put``.
            #[inline]
            #[allow(clippy::too_many_arguments)]
            #[pyo3(
                signature = (key, value, *, ttl=None, sync=false, durability=None, timeout=None)
            )]
            fn put(
                &self,
                py: Python<'_>,
                key: crate::arguments::BytesLike<'_>,
                value: crate::arguments::BytesLike<'_>,
                ttl: Option<crate::merge::Ttl>,
                sync: bool,
                durability: Option<crate::writing::Kept>,
                timeout: Option<crate::merge::Ttl>,
            ) -> PyResult<()> {
                let options = crate::writing::write_options(sync, durability, timeout)?;
                self.part.put(py, &key, &value, ttl, &options)
            }

            /// See ``DB.merge``.
            #[pyo3(signature = (key, operand, *, sync=false, durability=None, timeout=None))]
            fn merge(
                &self,
                py: Python<'_>,
                key: crate::arguments::BytesLike<'_>,
                operand: crate::arguments::BytesLike<'_>,
                sync: bool,
                durability: Option<crate::writing::Kept>,
                timeout: Option<crate::merge::Ttl>,
            ) -> PyResult<()> {
                let options = crate::writing::write_options(sync, durability, timeout)?;
                self.part.merge(py, &key, &operand, &options)
            }

            /// See ``DB.touch``.
            fn touch(
                &self,
                py: Python<'_>,
                key: crate::arguments::BytesLike<'_>,
                ttl: Option<crate::merge::Ttl>,
            ) -> PyResult<bool> {
                self.part.touch(py, &key, ttl)
            }

            /// See ``DB.expiry``.
            fn expiry(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
                self.part.expiry(py, key)
            }

            /// See ``DB.delete``.
            #[pyo3(signature = (key, *, sync=false, durability=None, timeout=None))]
            fn delete(
                &self,
                py: Python<'_>,
                key: crate::arguments::BytesLike<'_>,
                sync: bool,
                durability: Option<crate::writing::Kept>,
                timeout: Option<crate::merge::Ttl>,
            ) -> PyResult<()> {
                let options = crate::writing::write_options(sync, durability, timeout)?;
                self.part.delete(py, &key, &options)
            }

            /// See ``DB.write_batch``. The operations are on these keys, unless they name another
            /// keyspace.
            #[pyo3(signature = (*, transaction=false, sync=false, durability=None))]
            fn write_batch(
                &self,
                transaction: bool,
                sync: bool,
                durability: Option<crate::writing::Kept>,
            ) -> PyResult<crate::batch::WriteBatch> {
                let options = crate::writing::write_options(sync, durability, None)?;
                crate::batch::make(&self.part, transaction, options)
            }

            /// See ``DB.iterator``.
            #[pyo3(
                signature = (**arguments),
                text_signature = "($self, *, reverse=False, start=None, stop=None, \
                    include_start=True, include_stop=False, prefix=None, include_key=True, \
                    include_value=True, verify_checksums=None, fill_cache=True)"
            )]
            fn iterator(
                &self,
                py: Python<'_>,
                arguments: Option<&Bound<'_, pyo3::types::PyDict>>,
            ) -> PyResult<crate::iterator::Iterator> {
                crate::iterator::make(py, &self.part, None, arguments)
            }

            fn __iter__(&self, py: Python<'_>) -> PyResult<crate::iterator::Iterator> {
                self.iterator(py, None)
            }

            /// See ``DB.snapshot``. The snapshot contains only these keys.
            fn snapshot(&self, py: Python<'_>) -> PyResult<crate::snapshot::Snapshot> {
                crate::snapshot::make(py, &self.part)
            }

            /// Returns these keys that start with ``prefix``, as a database; see ``PrefixedDB``.
            fn prefixed_db(
                &self,
                py: Python<'_>,
                prefix: crate::arguments::BytesLike<'_>,
            ) -> crate::prefixed::PrefixedDB {
                let part = self.part.under(&prefix);
                crate::prefixed::PrefixedDB::make(py, self.db.clone_ref(py), part)
            }

            #[inline]
            fn __getitem__<'py>(
                &self,
                py: Python<'py>,
                key: &Bound<'py, PyAny>,
            ) -> PyResult<Py<PyAny>> {
                self.part.item(py, key)
            }

            #[inline]
            fn __setitem__(
                &self,
                py: Python<'_>,
                key: crate::arguments::BytesLike<'_>,
                value: crate::arguments::BytesLike<'_>,
            ) -> PyResult<()> {
                self.part.put(py, &key, &value, None, &esker::WriteOptions::default())
            }

            fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
                self.part.remove(py, key)
            }

            fn __contains__(
                &self,
                py: Python<'_>,
                key: crate::arguments::BytesLike<'_>,
            ) -> PyResult<bool> {
                self.part.contains(py, &key)
            }
        } }
    };
}

pub(crate) use part_methods;
