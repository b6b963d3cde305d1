//! Data of a benchmark: data sets, keys, values, tasks, and the lists of operations made from them
//! before any clock starts.

pub mod accounts;
pub mod csv;
pub mod dataset;
pub mod jsonl;
pub mod keys;
mod mixed;
pub mod oracle;
pub mod prepare;
pub mod rng;
pub mod tasks;
pub mod values;
