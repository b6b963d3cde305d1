//! A store and its objects through either C interface, together with a model of the content.

pub mod copies;
pub mod keyspaces;
pub mod leveldb;
pub mod model;
pub mod own;
pub mod transactions;
