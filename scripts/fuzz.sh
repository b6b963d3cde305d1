#!/usr/bin/env bash
# The random-operations tests with more cases than `make test` runs: CASES (default 2000) each.
set -euo pipefail
cd "$(dirname "$0")/.."
PROPTEST_CASES="${CASES:-2000}" cargo test --release --package esker --test '*' -- random flip
