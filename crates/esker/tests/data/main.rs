//! Pairs of every kind in tables of every shape: merges, expiry, filters, dictionaries, large values,
//! key orders, and the bound on space. One program: each further one takes seconds to link.

#[path = "../common/mod.rs"]
mod common;
mod compaction_filters;
mod dictionaries;
mod direct_io;
mod expired_ranges;
mod expiry;
mod index_memory;
mod large_values;
mod merge_model;
mod merge_operators;
mod multi_get;
mod orders;
mod rest;
mod seek_compaction;
mod separated_values;
mod space_bound;
mod streamed_values;
