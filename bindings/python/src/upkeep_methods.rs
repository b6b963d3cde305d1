//! The methods of a database for its upkeep: flushes and compactions, copies, numbers, checks,
//! options.
//!
//! Invariant: a class with these methods has a field `part`, which is a whole database.

/// Defines the Python methods of a class: those in braces, those of this file, and those of
/// `feed_methods`. A class has one block of methods, so all are given to it here.
macro_rules! upkeep_methods {
    ($class:ident { $($own:tt)* }) => {
        crate::feed_methods::feed_methods! { $class {
            $($own)*

            /// Returns what writes wait for now, as a ``Stall``, or None if they run at full speed.
            /// Not in plyvel.
            fn stall(&self, py: Python<'_>) -> PyResult<Option<crate::observe::Stall>> {
                Ok(self.part.store().run(py, |db| Ok(db.stall()))?.map(crate::observe::Stall::from))
            }

            /// Returns what the opening found that a crash had lost, one sentence each. Not in
            /// plyvel.
            fn recovery_notes(&self, py: Python<'_>) -> PyResult<Vec<String>> {
                self.part.store().run(py, |db| Ok(db.recovery_notes().to_vec()))
            }

            /// The random number that the database got when it was created, and keeps. Not in
            /// plyvel.
            #[getter]
            fn store_id(&self, py: Python<'_>) -> PyResult<u64> {
                self.part.store().run(py, |db| Ok(db.store_id()))
            }

            /// Runs one flush or compaction that is due, in a database with
            /// ``background_threads=0``. Returns False if none was due. Raises Error in a database
            /// with threads. Not in plyvel.
            fn run_one_job(&self, py: Python<'_>) -> PyResult<bool> {
                self.part.store().run(py, esker::Db::run_one_job)
            }

            /// Compacts all keys of every keyspace, and waits until that is done. Keyspaces that
            /// were compacted before an exception stay compacted. Not in plyvel.
            fn compact_all(&self, py: Python<'_>) -> PyResult<()> {
                self.part.store().run(py, esker::Db::compact_all)
            }

            /// Waits until no flush and no compaction is due. A database at rest may begin
            /// compactions that are never due (option ``rest_compaction``); they are not waited
            /// for. Not in plyvel.
            fn wait_idle(&self, py: Python<'_>) -> PyResult<()> {
                self.part.store().run(py, esker::Db::wait_idle)
            }

            /// Returns the tables of all keyspaces, by tree, level and number, as ``TableEntry``. A
            /// file with parts in several levels is listed once for each. Not in plyvel.
            fn tables(&self, py: Python<'_>) -> PyResult<Vec<crate::reports::TableEntry>> {
                let tables = self.part.store().run(py, |db| Ok(db.tables()))?;
                Ok(tables.iter().map(|table| crate::reports::TableEntry::of(py, table)).collect())
            }

            /// The absolute path of the directory. Not in plyvel.
            #[getter]
            fn path(&self, py: Python<'_>) -> PyResult<std::ffi::OsString> {
                self.part.store().run(py, |db| Ok(db.path().as_os_str().to_os_string()))
            }

            /// Writes all memtables to tables and waits until that is done. Not in plyvel.
            fn flush(&self, py: Python<'_>) -> PyResult<()> {
                self.part.store().run(py, esker::Db::flush)
            }

            /// Makes all earlier logged writes survive a power loss. Writes with the durability
            /// "none" are not logged. Not in plyvel.
            fn sync(&self, py: Python<'_>) -> PyResult<()> {
                self.part.store().run(py, esker::Db::sync)
            }

            /// Raises the format version to ``to``: 2 is the newest one. A database keeps the
            /// version with which it was created (option ``format_version``), and earlier releases
            /// can open it, until this is called. Afterwards they refuse it. The version cannot be
            /// lowered. Not in plyvel.
            fn upgrade_format(&self, py: Python<'_>, to: u32) -> PyResult<()> {
                self.part.store().run(py, |db| db.upgrade_format(to))
            }

            /// Creates a second database with the same content in the directory ``name``, by hard
            /// links. ``name`` must not exist. Not in plyvel.
            fn checkpoint(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<()> {
                let path = crate::arguments::path_of(name)?;
                self.part.store().run(py, |db| db.checkpoint(&path))
            }

            /// Adds a backup of all writes so far to the backup directory ``name``, which is
            /// created if missing. Returns a ``BackupReport``. Not in plyvel.
            ///
            /// Copies only tables that are not in the previous backup, and reads all tables back. A
            /// backup directory belongs to one database; ``take_over=True`` assigns it to this
            /// database. Raises Error if it belongs to another database or is inside a database;
            /// CorruptionError; IOError.
            #[pyo3(signature = (name, *, take_over=false))]
            fn backup(
                &self,
                py: Python<'_>,
                name: &Bound<'_, PyAny>,
                take_over: bool,
            ) -> PyResult<crate::backups::BackupReport> {
                let path = crate::arguments::path_of(name)?;
                let options = esker::backup::BackupOptions::default().take_over(take_over);
                Ok(self.part.store().run(py, |db| db.backup_with(&path, &options))?.into())
            }

            /// Returns the state of the database and its counters since the open, as a dict of
            /// numbers. The names contain the units. ``levels`` is a list of dicts, ``memory`` is a
            /// dict. Not in plyvel.
            fn metrics<'py>(
                &self,
                py: Python<'py>,
            ) -> PyResult<Bound<'py, pyo3::types::PyDict>> {
                crate::metrics::to_dict(py, &self.part.store().run(py, |db| Ok(db.metrics()))?)
            }

            /// Returns the metrics in the OpenMetrics text format 1.0. Not in plyvel.
            fn openmetrics(&self, py: Python<'_>) -> PyResult<String> {
                self.part.store().run(py, |db| Ok(db.metrics().to_openmetrics()))
            }

            /// Reads and checks every byte of the database. Returns the problems, one sentence
            /// each, as a ``VerifyReport``: a list with the numbers of what was read. It is empty
            /// if there are none. Not in plyvel.
            ///
            /// ``progress`` is a function of two numbers, which is called after each file: the
            /// bytes that were read, and the bytes of all files, which is an estimate. It may use
            /// the database, but not close it. If it raises, it is not called again, and its
            /// exception is raised at the end.
            #[pyo3(signature = (*, progress=None))]
            fn verify<'py>(
                &self,
                py: Python<'py>,
                progress: Option<&Bound<'py, PyAny>>,
            ) -> PyResult<Bound<'py, PyAny>> {
                crate::reports::verify(py, self.part.store(), progress)
            }

            /// Returns the value of an option as text. Raises KeyError for an unknown name. Not in
            /// plyvel.
            fn option(&self, py: Python<'_>, name: &str) -> PyResult<String> {
                let value = self.part.store().run(py, |db| Ok(db.option(name)))?;
                value.ok_or_else(|| pyo3::exceptions::PyKeyError::new_err(name.to_string()))
            }

            /// Changes an option of the open database, if ``esker.options()`` lists it with ``while
            /// open``. Not in plyvel.
            ///
            /// Raises Error for any other option, or a value out of range.
            fn set_option(
                &self,
                py: Python<'_>,
                name: &str,
                value: &Bound<'_, PyAny>,
            ) -> PyResult<()> {
                let value = crate::arguments::text_of(name, value)?;
                self.part.store().run(py, |db| db.set_options(&[(name, &value)]))
            }

            /// Changes options of the open database by name, all or none of them: options whose
            /// values are allowed only together can be changed so. Not in plyvel.
            ///
            /// Raises as ``set_option``.
            #[pyo3(signature = (**options))]
            fn set_options(
                &self,
                py: Python<'_>,
                options: Option<&Bound<'_, pyo3::types::PyDict>>,
            ) -> PyResult<()> {
                let mut pairs: Vec<(String, String)> = Vec::new();
                for (name, value) in options.into_iter().flatten() {
                    let name: String = name.extract()?;
                    let text = crate::arguments::text_of(&name, &value)?;
                    pairs.push((name, text));
                }
                let pairs: Vec<(&str, &str)> =
                    pairs.iter().map(|(name, text)| (&**name, &**text)).collect();
                self.part.store().run(py, |db| db.set_options(&pairs))
            }
        } }
    };
}

pub(crate) use upkeep_methods;
