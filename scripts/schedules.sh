#!/usr/bin/env bash
# Tests the engine's threads under many interleavings, each chosen by a seed: SCHEDULES (10000)
# interleavings per test, beginning with SEED (1). Bugs injected on purpose must be found.
set -euo pipefail
cd "$(dirname "$0")/.."
export SCHEDULES="${SCHEDULES:-10000}" SEED="${SEED:-1}"
# A folder of its own: what is built with other flags is built anew.
export RUSTFLAGS="${RUSTFLAGS:-} --cfg esker_shuttle"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/schedules"
cargo test --quiet --no-run --package esker --features internals --test schedules --lib
cargo test --package esker --features internals --test schedules
cargo test --package esker --features internals --lib -- schedules_
