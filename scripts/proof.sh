#!/usr/bin/env bash
# Judges histories of concurrent operations with the crate adya and the Go module porcupine, and
# prints one table. Exits with 1 for a finding, or if a planted bug was not found. Needs Go.
#
# OPERATIONS (1700000) is the number of transactions of each isolation level, of which about three
# in five commit. PLAIN_OPERATIONS (10500000) is that of plain operations. SEED (1) is the first
# seed. Stores are created in TMPDIR.
# QUICK=yes runs the short form, which is a test of the workspace: cargo test --test proof.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${QUICK:-no}" = yes ]; then
    exec cargo test --package esker-testkit --test proof -- --nocapture
fi
cargo build --quiet --profile crash --package esker-testkit --bin proof
exec "${CARGO_TARGET_DIR:-target}/crash/proof" all --seed "${SEED:-1}" --dir "${TMPDIR:-/tmp}" \
    --operations "${OPERATIONS:-1700000}" --plain-operations "${PLAIN_OPERATIONS:-10500000}" \
    --size 20000 --plain-size 150000 --children 12
