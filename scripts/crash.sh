#!/usr/bin/env bash
# The kill -9 and cut-log tests with more rounds than `make test` runs: ROUNDS (default 200).
set -euo pipefail
cd "$(dirname "$0")/.."
ESKER_CRASH_ROUNDS="${ROUNDS:-200}" cargo test --release --package esker --test '*' -- crash kill cut
