#!/usr/bin/env bash
# Everything that must pass. Each step says its name, so that a failure is found at a glance.
set -euo pipefail
cd "$(dirname "$0")/.."

step() {
    echo "== $*" >&2
    "$@"
}

step cargo fmt --all --check
step cargo clippy --workspace --all-targets -- -D warnings
step cargo test --workspace
step scripts/limits.sh
step scripts/crash.sh
step scripts/schedules.sh
step env RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
step scripts/capi.sh test
step scripts/wheel.sh test
step scripts/dropin.sh
