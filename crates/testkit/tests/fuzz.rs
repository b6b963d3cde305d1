//! Every decoder on changed inputs, with bounded memory.
//!
//! `FUZZ_SECONDS` sets a duration per target instead of a fixed number of cases. `SEED` sets the
//! first seed. `fuzz/corpus` holds inputs that once failed.

use std::alloc::System;
use std::path::PathBuf;
use std::time::Duration;

use cap::Cap;
use esker_testkit::fuzz::drive::{Effort, corpus, drive};
use esker_testkit::fuzz::{CANARY, TARGETS};

/// A decoder that allocates memory for absent data fails at this limit.
#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, 192 << 20);

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn decoders_never_panic() {
    let effort = match number("FUZZ_SECONDS") {
        Some(seconds) => Effort::For(Duration::from_secs(seconds)),
        None => Effort::Cases(60_000),
    };
    let seed = number("SEED").unwrap_or(1);
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for target in TARGETS {
        assert!(!(target.seeds)().is_empty(), "{} has no good inputs", target.name);
        let kept = corpus(&root.join(target.name));
        let count = drive(target, kept, seed, effort).unwrap_or_else(|failed| panic!("{failed}"));
        println!("{}: {count} inputs", target.name);
    }
}

#[test]
fn decoder_that_trusts_length_is_detected() {
    let failed = drive(&CANARY, Vec::new(), 1, Effort::Cases(10_000)).unwrap_err();
    assert!(failed.contains("seed 1"), "{failed}");
}
