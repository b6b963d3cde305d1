//! The methods of a database on its change feed, on forks and on ingests.
//!
//! Invariant: a class with these methods has a field `part`, which is a whole database.

/// Defines the Python methods of a class: those in braces, and those of this file. A class has one
/// block of methods, so both are given to it here.
macro_rules! feed_methods {
    ($class:ident { $($own:tt)* }) => {
        crate::mapping_methods::mapping_methods! { $class {
            $($own)*

            /// Returns the change feed after the position ``start``, as ``Changes``: the committed
            /// batches after it; 0 for all of them. Not in plyvel.
            ///
            /// The database keeps the logs that slots need (``subscribe``). Without a slot, a log is
            /// removed when its memtable was flushed. A feed of a database opened read-only goes on
            /// beyond its state, with what another process writes. Pairs that expire appear as puts
            /// with their time, and vanish at that time without a change.
            ///
            /// Raises IOError (``errno.ENOENT``) if the changes after ``start`` are in no log any
            /// more; Error if it is after the newest write.
            #[pyo3(signature = (start=0))]
            fn changes(&self, py: Python<'_>, start: u64) -> PyResult<crate::feed::Changes> {
                crate::feed::changes(py, self.part.store(), start)
            }

            /// Returns the slot ``name``, which is created at the present if it does not exist; see
            /// ``Slot``. Its first batch is the first one after this call. Not in plyvel.
            ///
            /// The database keeps the logs that the reader of the slot has not confirmed.
            /// ``lag_limit_bytes``, by default 16 GiB, is the maximum size of logs that are kept only
            /// for slots: a new slot that would need more is dropped, and its next use raises. None
            /// is no limit, so a reader that does not come back fills the device. While a database
            /// has a slot, writes with the durability "none" are logged.
            ///
            /// Raises Error for a name that has not 1 to 64 letters, digits, ``-`` and ``_``; IOError
            /// (``errno.ENOENT``) if the slot exists and was dropped because it lagged too far.
            #[pyo3(
                signature = (name, *, lag_limit_bytes=Some(16 << 30)),
                text_signature = "($self, name, *, lag_limit_bytes=17179869184)"
            )]
            fn subscribe(
                &self,
                py: Python<'_>,
                name: &str,
                lag_limit_bytes: Option<u64>,
            ) -> PyResult<crate::feed::Slot> {
                let options = esker::feed::SlotOptions::default().lag_limit_bytes(lag_limit_bytes);
                let slot = self.part.store().run(py, |db| db.subscribe(name, &options))?;
                Ok(crate::feed::Slot::make(self.part.store(), slot))
            }

            /// Returns the slot ``name``. Raises IOError (``errno.ENOENT``) if there is none. Not in
            /// plyvel.
            fn slot(&self, py: Python<'_>, name: &str) -> PyResult<crate::feed::Slot> {
                let slot = self.part.store().run(py, |db| db.slot(name))?;
                Ok(crate::feed::Slot::make(self.part.store(), slot))
            }

            /// Returns the slots in alphabetical order, as ``SlotInfo``. Not in plyvel.
            fn slots(&self, py: Python<'_>) -> PyResult<Vec<crate::feed::SlotInfo>> {
                let slots = self.part.store().run(py, |db| db.slots())?;
                Ok(slots.into_iter().map(crate::feed::SlotInfo::from).collect())
            }

            /// Removes the slot ``name``, also a damaged one, and the logs that only it needed.
            /// Raises IOError (``errno.ENOENT``) if there is none. Not in plyvel.
            fn drop_slot(&self, py: Python<'_>, name: &str) -> PyResult<()> {
                self.part.store().run(py, |db| db.drop_slot(name))
            }

            /// Begins a stream of the changes of the database: writes its header to ``file``, a binary
            /// file object in blocking mode, such as a pipe to another machine. Returns a
            /// ``ChangeWriter``. Not in plyvel.
            ///
            /// Each call of the writer writes whole items and flushes ``file``. ``file`` may use the
            /// database, but not close it. Raises what ``file`` raises.
            fn change_writer(
                &self,
                py: Python<'_>,
                file: &Bound<'_, PyAny>,
            ) -> PyResult<crate::stream::ChangeWriter> {
                crate::stream::change_writer(py, self.part.store(), file)
            }

            /// Begins to apply a stream of a ``ChangeWriter`` to the database: reads its header from
            /// ``file``, a binary file object. Returns an ``Applier``. Not in plyvel.
            ///
            /// A database has the changes of one other database only. Its own writes are not prevented.
            /// Raises Error if it has applied those of another one, or is the source itself;
            /// CorruptionError if the bytes are no stream; and what ``file`` raises.
            fn applier(
                &self,
                py: Python<'_>,
                file: &Bound<'_, PyAny>,
            ) -> PyResult<crate::stream::Applier> {
                crate::stream::applier(py, self.part.store(), file)
            }

            /// Returns the ``store_id`` of the database whose changes this one has applied, and the
            /// position in its feed: a sender begins there (``changes``). None if it has applied
            /// nothing, and while content is copied. Not in plyvel.
            fn applied_position(&self, py: Python<'_>) -> PyResult<Option<(u64, u64)>> {
                self.part.store().run(py, esker::Db::applied_position)
            }

            /// Creates a snapshot, and returns it with its position in the change feed: it has every
            /// batch up to the position, and no later one. Not in plyvel.
            ///
            /// A reader that copies the snapshot and then applies the changes from the position has
            /// no gap and no batch twice. A slot must exist before this call.
            fn snapshot_with_position(
                &self,
                py: Python<'_>,
            ) -> PyResult<(crate::snapshot::Snapshot, u64)> {
                crate::snapshot::make_with_position(py, &self.part)
            }

            /// Creates a fork in the directory ``name``, which must not exist: a database of its own
            /// that begins with the content of this one. Returns a ``ForkReport``. Not in plyvel.
            ///
            /// Tables are hard-linked where that is possible, so a fork takes time for each file and
            /// not for each byte. It is durable when this returns. ``fork_name`` is kept in it; see
            /// ``lineage`` and ``esker.diff``. Raises Error if ``name`` exists or is inside a
            /// database; IOError.
            #[pyo3(signature = (name, *, fork_name=None))]
            fn fork(
                &self,
                py: Python<'_>,
                name: &Bound<'_, PyAny>,
                fork_name: Option<&str>,
            ) -> PyResult<crate::fork::ForkReport> {
                let path = crate::arguments::path_of(name)?;
                let options = match fork_name {
                    Some(name) => esker::fork::ForkOptions::default().name(name),
                    None => esker::fork::ForkOptions::default(),
                };
                Ok(self.part.store().run(py, |db| db.fork_with(&path, &options))?.into())
            }

            /// Returns the name of the database and the databases that it descends from, if it is a
            /// fork, as ``Lineage``. Not in plyvel.
            fn lineage(&self, py: Python<'_>) -> PyResult<crate::fork::Lineage> {
                let lineage = self.part.store().run(py, |db| Ok(db.lineage()))?;
                crate::fork::Lineage::of(py, lineage)
            }

            /// Makes files of ``SortedWriter`` part of the database, all of them at once. Returns an
            /// ``IngestReport``. Not in plyvel.
            ///
            /// Their entries become the newest versions of their keys; readers see all of them or
            /// none, and a crash leaves all of them or none. They are durable when this returns. The
            /// database takes the files; with ``copy=True`` they stay where they are. With
            /// ``verify=False`` they are not read and checked first.
            ///
            /// Raises Error if two files share keys, a file was not made by a ``SortedWriter``, or
            /// has another key order; CorruptionError if a file is damaged or was not finished;
            /// IOError. Nothing is changed then.
            #[pyo3(signature = (files, *, copy=false, verify=true))]
            fn ingest(
                &self,
                py: Python<'_>,
                files: &Bound<'_, PyAny>,
                copy: bool,
                verify: bool,
            ) -> PyResult<crate::ingest::IngestReport> {
                crate::ingest::ingest(py, &self.part, files, copy, verify)
            }

            /// Writes pairs, an iterable of tuples of a key and a value, as tables of the database,
            /// without the log and the memtable. Returns an ``IngestReport``. Not in plyvel.
            ///
            /// The keys must be strictly ascending in the key order. The pairs become visible and
            /// durable together when the iterable ends. It may use the database, but not close it.
            /// Raises Error for a key that is not after the one before it, and what the iterable
            /// raises. Nothing is changed then.
            fn bulk_load(
                &self,
                py: Python<'_>,
                pairs: &Bound<'_, PyAny>,
            ) -> PyResult<crate::ingest::IngestReport> {
                crate::ingest::bulk_load(py, &self.part, pairs)
            }
        } }
    };
}

pub(crate) use feed_methods;
