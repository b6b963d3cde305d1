#!/usr/bin/env bash
# Runs Miri on the memtables, whose arena is unsafe code, and on other modules with unsafe code or
# atomics: block slots, cache blocks, huge-page boxes, the epoch collector, per-thread storage. Miri
# detects errors that a normal run does not show: invalid pointers, uninitialized memory, data
# races. Tests with threads run with several seeds; each seed gives another interleaving and another
# outcome of weak memory. SEEDS (4) is the number of seeds.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo +nightly miri --version >/dev/null 2>&1; then
    echo "skipped Miri: it is not installed" \
        "(rustup toolchain install nightly --component miri rust-src)" >&2
    exit 0
fi

cargo +nightly miri setup
cargo +nightly miri test -p esker --lib memtable:: -- --skip readers_ --skip threads_
MIRIFLAGS="${MIRIFLAGS:-} -Zmiri-many-seeds=0..${SEEDS:-4}" \
    cargo +nightly miri test -p esker --lib memtable::tests::readers_ -- memtable::arena:: \
    cache::slot:: base::chunk:: base::cache_block base::huge_page_box base::epoch \
    base::per_thread base::thread_number metrics::counter
