#!/usr/bin/env bash
# Fuzzes each decoder for FUZZ_SECONDS (60), runs the random-operations tests with CASES (2000)
# each, and SEQUENCES (100000) random sequences of calls through each C interface.
# The decoders run under libFuzzer, which is guided by coverage, if a nightly compiler and
# cargo-fuzz are installed; otherwise with the driver of `make test`, for the same time.
set -euo pipefail
cd "$(dirname "$0")/.."
export FUZZ_SECONDS="${FUZZ_SECONDS:-60}"

if cargo +nightly fuzz --version >/dev/null 2>&1; then
    run() {
        local name=$1 kept="fuzz/corpus/$1" fresh
        fresh=$(mktemp -d)
        mkdir -p "$kept"
        ESKER_FUZZ_TARGET=$name cargo +nightly fuzz run decoder "$fresh" "$kept" -- \
            -max_total_time="$FUZZ_SECONDS" -rss_limit_mb=1024 -timeout=20
    }
    for name in log batch block table edit manifest current backup_meta status options names codec value_file; do run "$name"; done
    if run canary; then
        echo "the fuzzer did not find the canary bug, so its results are not reliable" >&2
        exit 1
    fi
else
    echo "cargo-fuzz is not installed (cargo install cargo-fuzz, with a nightly compiler):" \
        "the decoders run with the built-in driver" >&2
    cargo test --release --package esker-testkit --test fuzz -- --nocapture
fi
cargo test --release --package esker-cli fuzz_
PROPTEST_CASES="${CASES:-2000}" cargo test --release --package esker --test '*' -- random flip
SEQUENCES="${SEQUENCES:-100000}" cargo test --release --package esker-c --test sequences
