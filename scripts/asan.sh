#!/usr/bin/env bash
# Tests both C interfaces under AddressSanitizer, with leak detection: calls with invalid arguments,
# re-entrant calls, reads, merges, bulk loads, keyspaces, transactions, backups, and SEQUENCES (2000)
# random sequences of calls per test.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! rustc +nightly --version >/dev/null 2>&1; then
    echo "skipped AddressSanitizer: it needs the nightly compiler" \
        "(rustup toolchain install nightly)" >&2
    exit 0
fi
host=$(rustc +nightly --version --verbose | sed -n 's/^host: //p')
export RUSTFLAGS="-Zsanitizer=address ${RUSTFLAGS:-}" SEQUENCES="${SEQUENCES:-2000}"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/asan
cargo +nightly test --target "$host" --package esker-c --test invalid_arguments --test keyspaces \
    --test reentry --test sequences --test transactions --test backups --test observe \
    --test merge_and_ttl --test bulk --test reads --test inspect
