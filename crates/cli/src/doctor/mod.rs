//! The doctor: collects evidence about a store, and names what is wrong with it.
//!
//! `evidence` reads the store and changes nothing in it. `rules` are functions from evidence to a
//! finding, and open nothing.

pub mod evidence;
pub mod rules;
