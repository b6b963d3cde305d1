#!/usr/bin/env bash
# Runs all required checks. Each step prints its name, and at the end its duration and its processor
# time. The steps of the bindings and others run concurrently with the tests of the workspace.
# Their output is printed at the end, then a table of the tests that ran and a list of what was skipped.
# `bindings` runs the steps of the bindings alone, and prints the same at its end.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=0

# Runs a command. A failure does not keep the next steps from running.
step() {
    echo "== $*" >&2
    local TIMEFORMAT="== %0R s, %0U s user, %0S s system: $*"
    if time "$@"; then return; fi
    echo "== failed: $*" >&2
    failed=1
}

case "${1:-}" in
bindings)
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    "$0" steps-of-bindings 2>&1 | tee "$log" || failed=1
    awk -f scripts/count.awk "$log"
    exit "$failed"
    ;;
steps-of-bindings)
    # The tested libraries are optimised crate by crate: optimising each as a whole takes minutes.
    export CARGO_PROFILE_RELEASE_LTO=false CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
    step scripts/capi.sh test
    [ "${INSTALL:-now}" = later ] || step scripts/install.sh test
    step scripts/wheel.sh test
    step env BUILD=no scripts/go.sh test
    step env BUILD=no scripts/go.sh module
    step scripts/node.sh test
    step scripts/node.sh ecosystem
    step scripts/node.sh pack
    step scripts/api-pages.sh
    step scripts/java.sh test
    step scripts/java.sh infinispan
    step scripts/dropin.sh
    step env SEQUENCES=64 scripts/rocksdb-suite.sh
    exit "$failed"
    ;;
engine)
    step cargo test --workspace --no-fail-fast
    step scripts/limits.sh
    step scripts/package.sh
    step env QUICK=yes scripts/mapped.sh
    step env RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
    step cargo xtask api
    exit "$failed"
    ;;
beside) # what runs beside the tests of the engine: they do not always use all processors
    "$0" steps-of-bindings || failed=1
    step env SCHEDULES=500 scripts/schedules.sh
    step scripts/portable.sh
    exit "$failed"
    ;;
quick) # a contributor's loop
    step cargo fmt --all --check
    step cargo clippy --package esker --all-targets -- -D warnings
    step cargo test --package esker --lib
    step cargo test --package esker --test public_api --test handles --test model --test repair
    step cargo xtask tidy
    exit "$failed"
    ;;
esac

# A full disk fails tests in ways that do not name it.
free_gib=$(($(df --output=avail -k . | tail -1) / 1024 / 1024))
if [ "$free_gib" -lt 10 ]; then
    echo "warning: $PWD has $free_gib GiB free; the whole test needs about 10 GiB" >&2
fi

step cargo fmt --all --check
step cargo clippy --workspace --all-targets -- -D warnings
[ "$failed" = 0 ] || exit 1

engine=$(mktemp)
beside=$(mktemp)
INSTALL=later setsid "$0" beside >"$beside" 2>&1 &
group=$!
trap 'kill -- "-$group" 2>/dev/null || true; rm -f "$engine" "$beside"' EXIT

"$0" engine 2>&1 | tee "$engine" || failed=1
wait "$group" || failed=1
# The command that the tests of the workspace were built with. Alone it would be compiled again, with
# fewer features of its libraries.
{ step env BUILD=no scripts/install.sh test; } >>"$beside" 2>&1
cat "$beside"
cat "$engine" "$beside" | awk -f scripts/count.awk
exit "$failed"
