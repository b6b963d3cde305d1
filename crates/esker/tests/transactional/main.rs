//! Transactions and keyspaces. One program: each further one takes seconds to link.

#[path = "../common/mod.rs"]
mod common;
mod keyspaces;
mod keyspaces_dropped;
mod transactions;
mod transactions_model;
mod transactions_prepared;
