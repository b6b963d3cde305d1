#!/usr/bin/env bash
# Everything that must pass. Each step says its name and then how long it took, so that a failure is
# found at a glance. The bindings' steps go on beside the engine's, which leave a processor idle at
# times; what they print comes at the end.
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
step env RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

passed=0
wait "$bindings" || passed=$?
cat "$said" >&2
exit "$passed"
