//! Esker's own C interface: the functions and types of `include/esker.h`.
//!
//! What stays true: a handle is made by one function and freed by one other; freeing null does
//! nothing; what a handle was made from may be freed before it, except that a batch, a buffer or
//! a path is only lent for the call.

pub mod batch;
pub mod common;
pub mod db;
pub mod iter;
pub mod options;
pub mod read;
pub mod store;
