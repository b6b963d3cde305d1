//! Esker for Python: plyvel's classes and functions, and the methods of a mapping.
//!
//! | in | is |
//! |---|---|
//! | `arguments` | options and byte strings as Python gives them |
//! | `backups`, `metrics` | backups of a database, and what it tells of itself |
//! | `store` | an open store: calls without the interpreter's lock, closing, forking |
//! | `guarded` | one object for one thread at a time, without a deadlock |
//! | `comparator` | an order of keys that is a Python function |
//! | `errors` | failures as exceptions |
//! | `db`, `prefixed`, `snapshot`, `batch`, `iterator`, `raw` | the classes |
//! | `functions` | what the module has besides |
//!
//! What stays true: the interpreter's lock is never held while the engine works or waits, because
//! the engine's threads may need it for a comparator; whatever is closed raises, it does not crash;
//! there is no `unsafe`.
#![deny(unsafe_code)]

mod arguments;
mod backups;
mod batch;
mod comparator;
mod db;
mod errors;
mod functions;
mod guarded;
mod iterator;
mod metrics;
mod prefixed;
mod raw;
mod snapshot;
mod store;

/// The compiled part of the package `esker`.
#[pyo3::pymodule]
mod _esker {
    #[pymodule_export]
    use crate::backups::{Backup, BackupReport, list_backups, prune_backups, restore_db};
    #[pymodule_export]
    use crate::batch::WriteBatch;
    #[pymodule_export]
    use crate::db::DB;
    #[pymodule_export]
    use crate::functions::{Knob, abandon_all, close_all, destroy_db, options, repair_db, version};
    #[pymodule_export]
    use crate::iterator::Iterator;
    #[pymodule_export]
    use crate::prefixed::PrefixedDB;
    #[pymodule_export]
    use crate::raw::RawIterator;
    #[pymodule_export]
    use crate::snapshot::Snapshot;
}
