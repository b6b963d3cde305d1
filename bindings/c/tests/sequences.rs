//! Random sequences of calls through both C interfaces, each answer compared with a model.
//!
//! `SEQUENCES` says how many of each (1,000 without it), `SEED` from which seed on. A failure names
//! its seed: `SEED=that SEQUENCES=1` runs it alone.
//!
//! Failure history these guard against: a batch appended to itself.
#![allow(unsafe_code)]

mod world;

use world::model::Rng;
use world::{leveldb, own};

fn from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Says which sequence was running when a test fails.
struct Running(u64);

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("in the sequence of SEED={}", self.0);
        }
    }
}

/// How many callbacks' states a sequence freed, and how many calls it made.
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
fn any_order_of_eskers_calls_is_answered_rightly() {
    each(|seed, calls, freed| {
        let mut world = own::World::new(seed, freed);
        (0..calls).for_each(|_| world.step());
        world.end();
    });
}

#[test]
fn any_order_of_leveldbs_calls_is_answered_rightly() {
    each(|seed, calls, freed| {
        let mut world = leveldb::World::new(seed, freed);
        (0..calls).for_each(|_| world.step());
        world.end();
    });
}
