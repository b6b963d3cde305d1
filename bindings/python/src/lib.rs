//! Esker for Python: plyvel's classes and functions, and the methods of a mapping.
//!
//! | module | content |
//! |---|---|
//! | `arguments` | conversion of options and byte strings from Python |
//! | `writing` | the arguments that tell how one write is made |
//! | `arrays` | values read into buffers, arrays of keys and values of one size |
//! | `backups`, `metrics`, `reports` | backups, metrics and reports of a database |
//! | `files`, `streamed`, `stream` | file objects; streamed values, and the change feed as bytes |
//! | `store` | an open store: calls without the interpreter's lock, closing, forking |
//! | `guarded` | mutual exclusion that cannot deadlock with the interpreter's lock |
//! | `comparator` | a key order implemented by a Python function |
//! | `merge` | merge operators implemented by Python functions, and times to live |
//! | `filter` | compaction filters implemented by Python functions |
//! | `clock` | the clock of expiry, implemented by a Python function |
//! | `filter_policy` | filters of tables implemented by a Python object |
//! | `observe` | listeners, stalls, counts of calls, runtimes |
//! | `encryption` | keys of encrypted databases |
//! | `follower` | followers of databases that other processes write |
//! | `errors` | conversion of failures to exceptions |
//! | `part` | a keyspace and a prefix of keys: the reads and writes of the classes |
//! | `mapping_methods` | the methods of a mapping, of arrays and of streamed values |
//! | `operations` | the operations of a batch |
//! | `feed`, `fork`, `ingest` | the change feed, forks and comparisons, much data at once |
//! | `feed_methods`, `upkeep_methods` | the methods of a database for these, and for its upkeep |
//! | `db`, `keyspace`, `prefixed`, `snapshot`, `batch`, `transaction`, `iterator`, `raw` | the classes |
//! | `functions` | the functions of the module |
//!
//! Invariants:
//! 1. The interpreter's lock is not held while the engine works or waits, because the engine's
//!    threads may need it for a comparator or a merge operator.
//! 2. A call on a closed object raises; it does not crash.
//! 3. There is no `unsafe` code.
#![deny(unsafe_code)]

mod arguments;
mod arrays;
mod backups;
mod batch;
mod clock;
mod comparator;
mod db;
mod encryption;
mod errors;
mod feed;
mod feed_methods;
mod files;
mod filter;
mod filter_policy;
mod follower;
mod fork;
mod functions;
mod guarded;
mod ingest;
mod iterator;
mod keyspace;
mod mapping_methods;
mod merge;
mod metrics;
mod observe;
mod operations;
mod part;
mod prefixed;
mod raw;
mod reports;
mod snapshot;
mod store;
mod stream;
mod streamed;
mod transaction;
mod upkeep_methods;
mod writing;

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
    use crate::encryption::{RekeyReport, rekey_db};
    #[pymodule_export]
    use crate::feed::{Change, ChangeBatch, Changes, Slot, SlotInfo};
    #[pymodule_export]
    use crate::follower::{Follower, FollowerLag, follow};
    #[pymodule_export]
    use crate::fork::{Ancestor, Diff, Difference, ForkReport, Lineage, diff};
    #[pymodule_export]
    use crate::functions::{
        OptionSpec, abandon_all, close_all, destroy_db, options, repair_db, version,
    };
    #[pymodule_export]
    use crate::ingest::{IngestReport, SortedFile, SortedWriter};
    #[pymodule_export]
    use crate::iterator::Iterator;
    #[pymodule_export]
    use crate::keyspace::Keyspace;
    #[pymodule_export]
    use crate::observe::{Runtime, Stall, enable_perf, live_status, take_perf};
    #[pymodule_export]
    use crate::operations::Operation;
    #[pymodule_export]
    use crate::prefixed::PrefixedDB;
    #[pymodule_export]
    use crate::raw::RawIterator;
    #[pymodule_export]
    use crate::reports::TableEntry;
    #[pymodule_export]
    use crate::snapshot::Snapshot;
    #[pymodule_export]
    use crate::stream::{Applier, ChangeWriter, StreamItem};
    #[pymodule_export]
    use crate::streamed::ValueReader;
    #[pymodule_export]
    use crate::transaction::{Savepoint, Transaction};
}
