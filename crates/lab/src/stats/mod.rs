//! Statistics over the samples of a record. Pure: nothing is run or read here.

pub mod change;
pub mod compare;
pub mod summary;
pub mod unit;
