//! Fuzzes the decoder `ESKER_FUZZ_TARGET` with libFuzzer. The target `canary` must fail.
#![no_main]

use std::sync::LazyLock;

use esker_testkit::fuzz::{CANARY, TARGETS};
use libfuzzer_sys::fuzz_target;

static RUN: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("ESKER_FUZZ_TARGET").unwrap_or_default();
    let all = TARGETS.iter().chain([&CANARY]);
    let found = all.into_iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("ESKER_FUZZ_TARGET names no decoder: {name:?}")).run
});

fuzz_target!(|input: &[u8]| RUN(input));
