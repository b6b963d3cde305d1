//! Campaigns: a store put through power cuts, faults and rot, thousands of times, beside an oracle.
//!
//! [`script`] says what is done, [`life`] does it and keeps the [`ledger`], [`look`] opens what is
//! left and judges it; [`cuts`], [`faults`], [`chores`], [`mends`], [`rot`] and [`model`] are the
//! campaigns themselves and [`tally`] adds up.
//! Everything follows from a seed: no clock, no thread and no random number of the machine's has a
//! say in what happens to a store.

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
