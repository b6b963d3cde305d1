#!/usr/bin/env bash
# Runs the engine's unit tests and multithreaded tests under ThreadSanitizer, which detects data
# races. The standard library is instrumented too. There are no suppressions.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! sysroot=$(rustc +nightly --print sysroot 2>/dev/null) ||
    ! [ -d "$sysroot/lib/rustlib/src/rust/library" ]; then
    echo "skipped ThreadSanitizer: it needs the nightly compiler and its sources" \
        "(rustup toolchain install nightly --component rust-src)" >&2
    exit 0
fi
host=$(rustc +nightly --version --verbose | sed -n 's/^host: //p')
export RUSTFLAGS="-Zsanitizer=thread ${RUSTFLAGS:-}"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/tsan
export TSAN_OPTIONS="halt_on_error=1 history_size=4 ${TSAN_OPTIONS:-}"
cargo +nightly test -Zbuild-std --target "$host" --package esker --lib --test concurrent
