//! The methods of a mapping, of arrays and of streamed values, which a database and its parts have
//! alike.
//!
//! Invariant: a class with these methods has a field `part`.

/// Defines the Python methods of a class: those in braces, and those of a mapping. A class has one
/// block of methods, so both are given to it here.
macro_rules! mapping_methods {
    ($class:ident { $($own:tt)* }) => {
        #[pymethods]
        impl $class {
            $($own)*

            /// Copies the value of ``key`` to the start of ``buffer``, a writable contiguous object
            /// with the buffer protocol. Returns the length of the value, or None for a missing
            /// key. Raises ValueError, and copies nothing, if the value is longer than the buffer.
            /// Not in plyvel.
            fn get_into(
                &self,
                py: Python<'_>,
                key: crate::arguments::BytesLike<'_>,
                buffer: &Bound<'_, PyAny>,
            ) -> PyResult<Option<usize>> {
                crate::arrays::get_into(py, &self.part, &key, buffer)
            }

            /// Puts many pairs of fixed size, atomically in one batch: row ``i`` of ``keys`` and
            /// row ``i`` of ``values``.
            ///
            /// Both are objects with the buffer protocol and the same number of rows, such as numpy
            /// arrays: a row is an item, or with two dimensions the items of a line. The bytes of a
            /// row are taken as they are. Keys are ordered bytewise, so numbers as keys should be
            /// big-endian and unsigned (``'>u8'``). Raises ValueError if the numbers of rows
            /// differ. Not in plyvel.
            #[pyo3(
                signature = (keys, values, *, sync=false, durability=None, timeout=None)
            )]
            fn put_array(
                &self,
                py: Python<'_>,
                keys: &Bound<'_, PyAny>,
                values: &Bound<'_, PyAny>,
                sync: bool,
                durability: Option<crate::writing::Kept>,
                timeout: Option<crate::merge::Ttl>,
            ) -> PyResult<()> {
                let options = crate::writing::write_options(sync, durability, timeout)?;
                crate::arrays::put_array(py, &self.part, keys, values, &options)
            }

            /// Reads the value of each row of ``keys`` into that row of ``values``, a writable
            /// contiguous array of bytes, of native numbers, or of numpy. All values are of the
            /// same moment.
            ///
            /// Returns a byte for each key, 1 if it exists and 0 if not:
            /// ``numpy.frombuffer(found, bool)``. The rows of missing keys are not changed. Raises
            /// ValueError, and changes nothing, if a value has not the size of a row. Not in
            /// plyvel.
            fn get_array<'py>(
                &self,
                py: Python<'py>,
                keys: &Bound<'py, PyAny>,
                values: &Bound<'py, PyAny>,
            ) -> PyResult<Bound<'py, pyo3::types::PyBytes>> {
                crate::arrays::get_array(py, &self.part, keys, values)
            }

            /// Sets ``key`` to the bytes that ``file`` gives until its end: a binary file object,
            /// such as ``open(name, 'rb')``. Returns the length of the value in bytes. Not in plyvel.
            ///
            /// The call needs less than 2 MiB of memory for the value, whatever its length. A value of
            /// more than 512 KiB goes past the log and the memtables into a file of its own, becomes
            /// visible at once when ``file`` ends, and is durable when this returns. A shorter one is
            /// put as by ``put``. ``get_reader`` reads it in bounded memory, and ``get`` as a whole.
            ///
            /// Raises what ``file`` raises; Error for a key over 1 MiB, a value over 1 GiB, a keyspace
            /// with a time to live, and a value of more than 512 KiB in a database with format version
            /// 1 (``upgrade_format``); IOError. Nothing is changed then. ``file`` may use the database,
            /// but not close it.
            fn put_reader(
                &self,
                py: Python<'_>,
                key: crate::arguments::BytesLike<'_>,
                file: &Bound<'_, PyAny>,
            ) -> PyResult<u64> {
                crate::streamed::put_reader(py, &self.part, &key, file)
            }

            /// Returns the value of ``key`` as a binary file object, a ``ValueReader``, or None for a
            /// missing key. Not in plyvel.
            fn get_reader(
                &self,
                py: Python<'_>,
                key: crate::arguments::BytesLike<'_>,
            ) -> PyResult<Option<crate::streamed::ValueReader>> {
                crate::streamed::get_reader(py, &self.part, &key)
            }

            /// Returns the value of ``key``, and the time at which its pair expires, in seconds since
            /// 1970 like ``time.time()``, or None if it does not expire. Returns None for a missing key.
            /// Not in plyvel.
            fn get_with_expiry<'py>(
                &self,
                py: Python<'py>,
                key: crate::arguments::BytesLike<'_>,
            ) -> PyResult<Option<(Bound<'py, pyo3::types::PyBytes>, Option<f64>)>> {
                let found = self.part.find_with_expiry(py, &key)?;
                Ok(found.map(|(value, expires)| {
                    (pyo3::types::PyBytes::new(py, &value), expires)
                }))
            }

            /// Returns the keys and values as a ``collections.abc.MutableMapping``. Iteration gives
            /// keys. ``len`` scans all keys.
            fn mapping<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                crate::part::mapping_of(slf.as_any())
            }

            /// Returns a view of the keys, like a dict's. Its ``len`` scans all keys.
            fn keys<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                crate::part::mapping_of(slf.as_any())?.call_method0("keys")
            }

            /// Returns a view of the values, like a dict's.
            fn values<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                crate::part::mapping_of(slf.as_any())?.call_method0("values")
            }

            /// Returns a view of the pairs, like a dict's.
            fn items<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                crate::part::mapping_of(slf.as_any())?.call_method0("items")
            }

            /// Works like a dict's ``pop``. Another thread may write between the read and the
            /// delete.
            #[pyo3(signature = (key, /, *default))]
            fn pop<'py>(
                slf: &Bound<'py, Self>,
                key: &Bound<'py, PyAny>,
                default: &Bound<'py, pyo3::types::PyTuple>,
            ) -> PyResult<Bound<'py, PyAny>> {
                crate::part::pop(slf.as_any(), key, default)
            }

            /// Works like a dict's ``setdefault``. Another thread may write between the read and
            /// the write.
            fn setdefault<'py>(
                slf: &Bound<'py, Self>,
                key: &Bound<'py, PyAny>,
                default: &Bound<'py, PyAny>,
            ) -> PyResult<Bound<'py, PyAny>> {
                crate::part::mapping_of(slf.as_any())?.call_method1("setdefault", (key, default))
            }

            /// Sets keys from a mapping or pairs, atomically in one batch.
            fn update(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<()> {
                let mapping = crate::part::mapping_of(slf.as_any())?;
                mapping.call_method1("update", (other,)).map(drop)
            }
        }
    };
}

pub(crate) use mapping_methods;
