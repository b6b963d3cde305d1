//! Runs random sequences of calls through both C interfaces, and of calls on keyspaces, transactions
//! and copies of stores, and compares each result with a model.
//!
//! `SEQUENCES` is the number of sequences per test (default 1,000), and `SEED` is the first seed
//! (default 1). A failure prints its seed: `SEED=N SEQUENCES=1` runs only that sequence.
//!
//! Regression covered: a batch appended to itself.
#![allow(unsafe_code)]

mod random_calls;

use random_calls::model::Rng;
use random_calls::{copies, keyspaces, leveldb, own, transactions};

fn from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Prints the seed of the running sequence when a test fails.
struct Running(u64);

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("in the sequence of SEED={}", self.0);
        }
    }
}

/// Runs each sequence with its seed, a number of calls, and a counter of freed callback states.
/// Asserts that a sequence frees at most two states.
fn each(run: impl Fn(u64, usize, *mut u32)) {
    let (first, count) = (from_env("SEED", 1), from_env("SEQUENCES", 1_000));
    for seed in first..first + count {
        let running = Running(seed);
        let mut freed = 0;
        run(seed, 20 + Rng(!seed).below(60), &raw mut freed);
        assert!(freed <= 2, "a callback's state was freed {freed} times");
        drop(running);
    }
}

#[test]
fn random_esker_call_sequences_match_model() {
    each(|seed, calls, freed| {
        let mut world = own::RandomCalls::new(seed, freed);
        (0..calls).for_each(|_| world.step());
        world.end();
    });
}

#[test]
fn random_keyspace_call_sequences_match_model() {
    each(|seed, calls, freed| {
        let mut world = keyspaces::RandomCalls::new(seed, freed);
        (0..calls).for_each(|_| world.step());
        world.end();
    });
}

#[test]
fn random_transaction_call_sequences_match_model() {
    each(|seed, calls, freed| {
        let mut world = transactions::RandomCalls::new(seed, freed);
        (0..2 * calls).for_each(|_| world.step());
        world.end_all();
    });
}

#[test]
fn random_copy_call_sequences_match_model() {
    each(|seed, calls, freed| {
        let mut world = copies::RandomCalls::new(seed, freed);
        // Many steps open stores, so a sequence has fewer of them.
        (0..calls / 2).for_each(|_| world.step());
        world.end();
    });
}

#[test]
fn random_leveldb_call_sequences_match_model() {
    each(|seed, calls, freed| {
        let mut world = leveldb::RandomCalls::new(seed, freed);
        (0..calls).for_each(|_| world.step());
        world.end();
    });
}
