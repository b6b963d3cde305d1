//! Layer 0: types and utilities shared by all other modules. This layer does no file I/O.

pub mod cache_block;
pub mod cache_block_pool;
pub mod checksum;
pub mod chunk;
pub mod coding;
pub mod compaction_filter;
pub mod cursor;
pub mod epoch;
pub mod epoch_cell;
pub mod expiry;
pub mod filter_policy;
pub mod huge_page_box;
#[cfg(feature = "json")]
mod json_patch;
pub mod key;
pub mod keyspace;
pub mod keyspace_rules;
pub mod locks;
pub mod memory_ledger;
pub mod merge_built_in;
pub mod merge_operator;
pub mod ops;
pub mod order;
pub mod panics;
pub mod per_thread;
pub mod prefetch;
pub mod range_delete;
pub mod rate_limit;
pub mod rows;
pub mod runtime;
pub mod sync;
pub mod thread_group;
pub mod thread_number;
pub mod thresholds;
pub mod units;
pub mod workers;
