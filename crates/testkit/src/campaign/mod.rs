//! Campaigns: a store undergoes power cuts, faults and file corruption, thousands of times, and is
//! compared with an oracle.
//!
//! [`script`] generates the steps of [`ops`]. [`script_run`] and [`transact_run`] execute them, turn
//! the [`clock`], and keep the [`ledger`], which has the [`digests`] of the [`cell`]s. [`keyspaces`]
//! names the keyspaces and has their rules, [`content`] reads
//! them, [`sorted_files`] writes what is ingested, and [`encrypted`] puts an encryption below a store. [`image_check`] opens
//! the result and judges it. [`reader`] follows the change feed. [`cuts`], [`faults`], [`task_faults`], [`repair_failures`],
//! [`corruption`] and [`model`] are the campaigns. [`tally`] adds up the results. Everything follows
//! from a seed: no clock, thread or random number of the machine influences a store, except the keys
//! and nonces of an encrypted one.

pub mod cell;
pub mod checksum_range;
pub mod clock;
pub mod content;
pub mod corruption;
pub mod cuts;
pub mod digests;
pub mod encrypted;
pub mod faults;
pub mod image_check;
pub mod keyspaces;
pub mod ledger;
pub mod model;
pub mod ops;
pub mod reader;
pub mod repair_failures;
pub mod script;
pub mod script_run;
pub mod sorted_files;
pub mod tally;
pub mod task_faults;
pub mod transact_run;
