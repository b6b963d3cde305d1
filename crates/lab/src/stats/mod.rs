//! Statistics over the samples of a record. Pure: nothing is run or read here.

pub mod compare;
pub mod summary;
pub mod unit;
