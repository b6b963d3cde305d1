#!/usr/bin/env bash
# Runs all required checks. Each step prints its name, and its duration at the end. The steps of the
# bindings run concurrently with the steps of the engine, which do not always use all processors.
# Their output is printed at the end.
set -euo pipefail
cd "$(dirname "$0")/.."

step() {
    echo "== $*" >&2
    local began=$SECONDS
    "$@"
    echo "== $((SECONDS - began)) s: $*" >&2
}

if [ "${1:-}" = bindings ]; then
    step scripts/capi.sh test
    step scripts/install.sh test
    step scripts/wheel.sh test
    step scripts/dropin.sh
    exit 0
fi

step cargo fmt --all --check
step cargo clippy --workspace --all-targets -- -D warnings

said=$(mktemp)
setsid "$0" bindings >"$said" 2>&1 &
bindings=$!
trap 'kill -- "-$bindings" 2>/dev/null || true; rm -f "$said"' EXIT

step cargo test --workspace
step scripts/limits.sh
step scripts/package.sh
step env QUICK=yes scripts/mapped.sh
step env QUICK=yes scripts/crash.sh
step scripts/schedules.sh
step scripts/portable.sh
step env RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

passed=0
wait "$bindings" || passed=$?
cat "$said" >&2
exit "$passed"
