#!/usr/bin/env bash
# Tests the engine's threads under many interleavings, each chosen by a seed: SCHEDULES (10000)
# interleavings per test, beginning with SEED (1). Bugs injected on purpose must be found.
set -euo pipefail
cd "$(dirname "$0")/.."
export SCHEDULES="${SCHEDULES:-10000}" SEED="${SEED:-1}"
export RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/rustc/shuttle.sh
cargo test --quiet --no-run --package esker --features internals --test schedules --lib
cargo test --package esker --features internals --test schedules
cargo test --package esker --features internals --lib -- schedules_
