#!/usr/bin/env bash
# Miri over the memtables, whose arena is unsafe code, and the cache's frames and its readers: what no
# test run can see (a stray pointer, memory not yet written, a race the processor hides). Tests with threads run under several seeds, each another order of steps and another outcome
# of weak memory; SEEDS says how many.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo +nightly miri --version >/dev/null 2>&1; then
    echo "skipped the memtables under Miri: it is not installed" \
        "(rustup toolchain install nightly --component miri rust-src)" >&2
    exit 0
fi

cargo +nightly miri setup
cargo +nightly miri test -p esker --lib memtable:: -- --skip readers_ --skip threads_
MIRIFLAGS="${MIRIFLAGS:-} -Zmiri-many-seeds=0..${SEEDS:-4}" \
    cargo +nightly miri test -p esker --lib memtable::tests::readers_ -- memtable::arena:: \
    cache::place:: base::chunk:: base::frame base::large_slice base::readers \
    base::own_places base::thread_number metrics::counter
