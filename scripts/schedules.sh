#!/usr/bin/env bash
# The engine's threads under many orders of steps, each chosen by a seed: SCHEDULES (10000) orders
# for each test, from SEED (1) on. Mistakes made on purpose must be found among them.
set -euo pipefail
cd "$(dirname "$0")/.."
export SCHEDULES="${SCHEDULES:-10000}" SEED="${SEED:-1}"
cargo test --quiet --no-run --package esker --features shuttle --test schedules --lib
cargo test --package esker --features shuttle --test schedules
cargo test --package esker --features shuttle --lib -- schedules_
