//! Conversion of options and byte strings from Python.
//!
//! Invariants:
//! 1. plyvel's options have plyvel's types and LevelDB's ranges.
//! 2. Any other name is looked up in the option table, which parses the value from text.
//! 3. A name that is neither plyvel's nor in the table is a `TypeError`.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use esker::fs::{Fs, OsFs};
use esker::{
    CompactionFilter, Compression, KeyOrder, KeyspaceOptions, MergeOperator, Options,
    built_in_merge_operator,
};
use esker_bindings::encryption::{self, Key};
use esker_bindings::orders::Orders;
use esker_bindings::settings::{Filter, Settings};
use pyo3::Borrowed;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyMemoryView, PyString};

use crate::clock::PyClock;
use crate::comparator::PyComparator;
use crate::encryption::key_of;
use crate::errors::bad_option;
use crate::filter::PyFilter;
use crate::filter_policy::PyFilterPolicy;
use crate::merge::{PyMerge, Ttl};
use crate::observe::{PyListener, Runtime};

/// A key or value: borrowed `bytes`, or a copy of any other object with the buffer protocol.
pub struct BytesLike<'a>(Cow<'a, [u8]>);

impl std::ops::Deref for BytesLike<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for BytesLike<'a> {
    type Error = PyErr;

    #[inline]
    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<BytesLike<'a>> {
        if let Ok(bytes) = <&'a [u8]>::extract(given) {
            return Ok(BytesLike(Cow::Borrowed(bytes)));
        }
        if let Ok(bytes) = given.cast::<PyByteArray>() {
            return Ok(BytesLike(Cow::Owned(bytes.to_vec())));
        }
        if given.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err(
                "a bytes-like object is required, not 'str'; encode it first, as in \
                 'text'.encode()",
            ));
        }
        let py = given.py();
        if let Ok(buffer) = PyBuffer::<u8>::get(&given) {
            return Ok(BytesLike(Cow::Owned(buffer.to_vec(py)?)));
        }
        let shown = PyMemoryView::from(&given)?.call_method0("tobytes")?;
        Ok(BytesLike(Cow::Owned(shown.cast::<PyBytes>()?.as_bytes().to_vec())))
    }
}

/// Returns a directory's path from a `str`, `bytes` or path object.
pub fn path_of(name: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    match name.cast::<PyBytes>() {
        Ok(bytes) => Ok(PathBuf::from(OsStr::from_bytes(bytes.as_bytes()))),
        Err(_) => name.extract(),
    }
}

/// Arguments for opening a store.
pub struct Chosen {
    pub options: Options,
    /// The key orders that are Python functions: the database's own, then those of keyspaces.
    pub comparators: Vec<Arc<PyComparator>>,
    /// The merge operators that are Python functions.
    pub operators: Vec<Arc<PyMerge>>,
    pub filters: Vec<Arc<PyFilter>>,
    /// The key of an encrypted store.
    pub key: Option<Key>,
    pub read_only: bool,
}

impl Chosen {
    /// Returns the file system of the store: an encrypting one with a key.
    pub fn fs(&self) -> Arc<dyn Fs> {
        encryption::file_system(OsFs::shared(), self.key.as_ref())
    }
}

/// Options given by plyvel's names.
struct Given<'py> {
    settings: Settings,
    comparator: Option<Bound<'py, PyAny>>,
    comparator_name: Option<Bound<'py, PyAny>>,
    key_orders: Vec<Arc<PyComparator>>,
    merge: Option<Bound<'py, PyAny>>,
    operators: Vec<Arc<PyMerge>>,
    filter: Option<Bound<'py, PyAny>>,
    filters: Vec<Arc<PyFilter>>,
    filter_policy: Option<Arc<PyFilterPolicy>>,
    clock: Option<Arc<PyClock>>,
    listener: Option<Bound<'py, PyAny>>,
    runtime: Option<esker::Runtime>,
    key: Option<Key>,
    read_only: bool,
}

/// Parses keyword arguments.
pub fn chosen(given: Option<&Bound<'_, PyDict>>) -> PyResult<Chosen> {
    let mut plyvel = Given {
        settings: Settings::unset(),
        comparator: None,
        comparator_name: None,
        key_orders: Vec::new(),
        merge: None,
        operators: Vec::new(),
        filter: None,
        filters: Vec::new(),
        filter_policy: None,
        clock: None,
        listener: None,
        runtime: None,
        key: None,
        read_only: false,
    };
    let mut other_options = Vec::new();
    for (name, value) in given.into_iter().flatten() {
        let name: String = name.extract()?;
        if !plyvel.take(&name, &value).map_err(|error| named(value.py(), &name, error))? {
            other_options.push((name, value));
        }
    }
    let comparator = plyvel.order()?;
    plyvel.settings.comparator = comparator.clone().map(|order| order as _);
    if let Some(policy) = plyvel.filter_policy.take() {
        plyvel.settings.filter = Filter::Custom(policy);
    }
    let mut options = plyvel.settings.to_options().map_err(|error| bad_option(&error))?;
    for (name, value) in other_options {
        set(&mut options, &name, &value)?;
    }
    options.merge_operator = plyvel.merge()?;
    options.merge_operators = plyvel.operators.iter().map(|given| given.clone() as _).collect();
    options.compaction_filter = plyvel.compaction_filter()?;
    options.compaction_filters = plyvel.filters.iter().map(|given| given.clone() as _).collect();
    let listener = plyvel.listener.map(|function| PyListener(function.unbind()));
    options.listeners = listener.into_iter().map(|listener| Arc::new(listener) as _).collect();
    options.clock = plyvel.clock.map(|clock| clock as _);
    options.runtime = plyvel.runtime;
    options.validate().map_err(|error| bad_option(&error))?;
    let key_orders = plyvel.key_orders.iter();
    options.key_orders = key_orders.map(|order| KeyOrder::Custom(order.clone())).collect();
    let comparators = comparator.into_iter().chain(plyvel.key_orders).collect();
    let (operators, filters) = (plyvel.operators, plyvel.filters);
    let (key, read_only) = (plyvel.key, plyvel.read_only);
    Ok(Chosen { options, comparators, operators, filters, key, read_only })
}

/// Parses the name of a key order, the name of a merge operator or its function, a time to live and
/// the keyword arguments of a keyspace. The orders, operators and filters are those of its store.
pub fn keyspace_options(
    (orders, operators, filters): (&Orders, &[Arc<PyMerge>], &[Arc<PyFilter>]),
    order: Option<&Bound<'_, PyAny>>,
    (merge, ttl): (Option<&Bound<'_, PyAny>>, Option<Ttl>),
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<KeyspaceOptions> {
    let (mut options, mut known) = (KeyspaceOptions::default(), Options::default());
    if let Some(name) = order {
        let found = orders.find(&order_name(name)?);
        options = options.key_order(found.map_err(|error| bad_option(&error))?);
    }
    if let Some(merge) = merge {
        let operators = operators.iter().map(|operator| &**operator);
        options = options.merge_operator(&PyMerge::name_of(operators, merge)?);
    }
    if let Some(ttl) = ttl {
        options = options.ttl(ttl.duration());
    }
    for (name, value) in given.into_iter().flatten() {
        let name: String = name.extract()?;
        if name == "compaction_filter" {
            let filters = filters.iter().map(|filter| &**filter);
            options = options.compaction_filter(&PyFilter::name_of(filters, &value)?);
            continue;
        }
        check_known(&mut known, &name)?;
        let text = match name.as_str() {
            "compression" => compression(&value)
                .map_err(|error| named(value.py(), &name, error))?
                .name()
                .to_string(),
            _ => text_of(&name, &value)?,
        };
        options = options.set(&name, &text).map_err(|error| bad_option(&error))?;
    }
    Ok(options)
}

/// Prepends the argument's name to its error.
pub fn named(py: Python<'_>, name: &str, error: PyErr) -> PyErr {
    PyErr::from_type(error.get_type(py), format!("argument '{name}': {}", error.value(py)))
}

impl<'py> Given<'py> {
    /// Sets a plyvel option. Returns false if plyvel has no option of that name.
    fn take(&mut self, name: &str, value: &Bound<'py, PyAny>) -> PyResult<bool> {
        let settings = &mut self.settings;
        match name {
            "create_if_missing" => settings.create_if_missing = value.extract()?,
            "error_if_exists" => settings.error_if_exists = value.extract()?,
            "read_only" => self.read_only = value.extract()?,
            "key" => self.key = key_of(Some(value))?,
            // Checksums are always verified.
            "paranoid_checks" => drop(value.extract::<Option<bool>>()?),
            "write_buffer_size" => settings.write_buffer_size = value.extract()?,
            "max_open_files" => settings.max_open_files = value.extract()?,
            "lru_cache_size" => settings.cache_bytes = value.extract()?,
            "block_size" => settings.block_size = value.extract()?,
            "block_restart_interval" => settings.block_restart_interval = value.extract()?,
            "max_file_size" => settings.max_file_size = value.extract()?,
            "compression" => settings.compression = Some(compression(value)?),
            "bloom_filter_bits" => {
                let bits = value.extract::<Option<i32>>()?.unwrap_or(0);
                settings.filter = if bits > 0 { Filter::Bloom(bits) } else { Filter::Unnamed };
            }
            "comparator" => self.comparator = Some(value.clone()).filter(|value| !value.is_none()),
            "comparator_name" => {
                self.comparator_name = Some(value.clone()).filter(|value| !value.is_none());
            }
            "key_orders" => self.key_orders = key_orders(value)?,
            "merge" => self.merge = Some(value.clone()).filter(|value| !value.is_none()),
            "merge_operators" => {
                self.operators = PyMerge::all_of(value)?.into_iter().map(Arc::new).collect();
            }
            "compaction_filter" => {
                self.filter = Some(value.clone()).filter(|value| !value.is_none());
            }
            "compaction_filters" => {
                self.filters = PyFilter::all_of(value)?.into_iter().map(Arc::new).collect();
            }
            "filter_policy" => self.filter_policy = PyFilterPolicy::of(value)?,
            "clock" => self.clock = PyClock::of(value)?,
            "listener" => {
                self.listener = Some(value.clone()).filter(|value| !value.is_none());
                if self.listener.as_ref().is_some_and(|listener| !listener.is_callable()) {
                    return Err(PyTypeError::new_err("must be a function of an event"));
                }
            }
            "runtime" => {
                let given = value.extract::<Option<PyRef<'_, Runtime>>>()?;
                self.runtime = given.map(|given| given.runtime.clone());
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the compaction filter of the keyspace `default`.
    fn compaction_filter(&self) -> PyResult<Option<Arc<dyn CompactionFilter>>> {
        let Some(chosen) = &self.filter else { return Ok(None) };
        let name = PyFilter::name_of(self.filters.iter().map(|given| &**given), chosen)?;
        let found = self.filters.iter().find(|given| given.name() == name);
        found.map(|given| Some(given.clone() as _)).ok_or_else(|| {
            PyValueError::new_err(format!(
                "argument 'compaction_filter': '{name}' is not in 'compaction_filters'"
            ))
        })
    }

    /// Returns the merge operator of the keyspace `default`.
    fn merge(&self) -> PyResult<Option<Arc<dyn MergeOperator>>> {
        let Some(chosen) = &self.merge else { return Ok(None) };
        let name = PyMerge::name_of(self.operators.iter().map(|given| &**given), chosen)?;
        let given = || self.operators.iter().find(|given| given.name() == name);
        let found = built_in_merge_operator(&name).or_else(|| given().map(|g| g.clone() as _));
        found.map(Some).ok_or_else(|| {
            PyValueError::new_err(format!(
                "argument 'merge': '{name}' is neither built in nor in 'merge_operators'"
            ))
        })
    }

    fn order(&self) -> PyResult<Option<Arc<PyComparator>>> {
        let (callable, name) = match (&self.comparator, &self.comparator_name) {
            (None, None) => return Ok(None),
            (Some(callable), Some(name)) => (callable, name),
            _ => {
                let message = "'comparator' and 'comparator_name' must be given together";
                return Err(PyValueError::new_err(message));
            }
        };
        if !callable.is_callable() {
            return Err(PyTypeError::new_err("'comparator' must be callable"));
        }
        let name = name
            .cast::<PyBytes>()
            .map_err(|_| PyTypeError::new_err("'comparator_name' must be bytes"))?;
        let name = String::from_utf8_lossy(name.as_bytes()).into_owned();
        Ok(Some(Arc::new(PyComparator::new(callable.clone().unbind(), name))))
    }
}

/// Returns the key orders of a dict from names to functions.
fn key_orders(given: &Bound<'_, PyAny>) -> PyResult<Vec<Arc<PyComparator>>> {
    if given.is_none() {
        return Ok(Vec::new());
    }
    let given = given
        .cast::<PyDict>()
        .map_err(|_| PyTypeError::new_err("must be a dict from names to functions"))?;
    let mut orders = Vec::with_capacity(given.len());
    for (name, callable) in given {
        let name = order_name(&name)?;
        if !callable.is_callable() {
            return Err(PyTypeError::new_err(format!("the key order '{name}' must be callable")));
        }
        orders.push(Arc::new(PyComparator::new(callable.unbind(), name)));
    }
    Ok(orders)
}

/// Returns the name of a key order, which may be `bytes`, as in plyvel.
fn order_name(name: &Bound<'_, PyAny>) -> PyResult<String> {
    match name.cast::<PyBytes>() {
        Ok(bytes) => Ok(String::from_utf8_lossy(bytes.as_bytes()).into_owned()),
        Err(_) => name
            .cast::<PyString>()
            .map_err(|_| PyTypeError::new_err("the name of a key order must be str or bytes"))?
            .extract(),
    }
}

fn compression(value: &Bound<'_, PyAny>) -> PyResult<Compression> {
    if value.is_none() {
        return Ok(Compression::None);
    }
    // As in plyvel, the name may also be bytes.
    let word = match value.cast::<PyBytes>() {
        Ok(bytes) => String::from_utf8_lossy(bytes.as_bytes()).into_owned(),
        Err(_) => value
            .cast::<PyString>()
            .map_err(|_| PyTypeError::new_err("must be None, 'snappy', 'lz4' or 'zstd'"))?
            .extract()?,
    };
    word.parse().map_err(|_| {
        PyValueError::new_err(format!("must be None, 'snappy', 'lz4' or 'zstd', not {value:?}"))
    })
}

/// Raises `TypeError` for a name that is not in the option table.
fn check_known(options: &mut Options, name: &str) -> PyResult<()> {
    if options.get(name).is_some() {
        return Ok(());
    }
    let error = options.set(name, "").err();
    let message = error.map_or(String::new(), |error| error.message().to_string());
    Err(PyTypeError::new_err(message))
}

/// Sets an option of the option table.
fn set(options: &mut Options, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    check_known(options, name)?;
    options.set(name, &text_of(name, value)?).map_err(|error| bad_option(&error))
}

/// Converts an option's value to the text that the option table parses.
pub fn text_of(name: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    if value.is_none() {
        return Ok("auto".into());
    }
    if let Ok(switch) = value.cast::<PyBool>() {
        return Ok(switch.is_true().to_string());
    }
    if value.is_instance_of::<PyInt>()
        || value.is_instance_of::<PyFloat>()
        || value.is_instance_of::<PyString>()
    {
        return value.str()?.extract();
    }
    let kind = value.get_type();
    let message = format!("argument '{name}': must be a str, a number, a bool or None, not {kind}");
    Err(PyTypeError::new_err(message))
}
