//! Histories of concurrent transactions and of plain operations, over processes that are killed and
//! stores that are opened again. Checkers of other projects judge them.
//!
//! | module | content |
//! |---|---|
//! | `plan` | what is run and judged, the planted bugs, the parameters of a child process |
//! | `record` | the events of a thread, in a file that outlives the process |
//! | `store` | the store and its keyspaces, which hold lists as values and as rows |
//! | `plants` | a transaction, with a planted bug between the workload and the store |
//! | `transactions` | the workload of transactions: appends to lists, and reads of whole lists |
//! | `plain` | the workload of puts, gets, deletes and removals |
//! | `child` | the process that dies: opens the store, runs a workload, closes it |
//! | `history` | the events of all processes, in one order |
//! | `runs` | starts the processes, kills them, and collects their events |
//! | `isolation` | the judge of transactions: the crate `adya` |
//! | `linear` | the judge of plain operations: the Go module `porcupine` |
//! | `table` | runs and judges many histories, and prints the results as a table |
//!
//! Invariants: an operation is recorded before the store sees it, and its answer after the store
//! returned. Planted bugs are in this module alone, never in the engine.

pub mod child;
pub mod history;
pub mod isolation;
pub mod linear;
pub mod plain;
pub mod plan;
pub mod plants;
pub mod record;
pub mod runs;
pub mod store;
pub mod table;
pub mod transactions;
