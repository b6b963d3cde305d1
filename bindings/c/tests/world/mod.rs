//! A store and everything made of it, through either C interface, beside a model of what it holds.

pub mod leveldb;
pub mod model;
pub mod own;
