//! Campaigns: a store undergoes power cuts, faults and file corruption, thousands of times, and is
//! compared with an oracle.
//!
//! [`script`] generates the steps. [`life`] executes them and keeps the [`ledger`]. [`look`] opens
//! the result and judges it. [`cuts`], [`faults`], [`chores`], [`mends`], [`rot`] and [`model`] are
//! the campaigns. [`tally`] adds up the results. Everything follows from a seed: no clock, thread
//! or random number of the machine influences a store.

pub mod chores;
pub mod cuts;
pub mod faults;
pub mod ledger;
pub mod life;
pub mod look;
pub mod mends;
pub mod model;
pub mod rot;
pub mod script;
pub mod seal;
pub mod tally;
