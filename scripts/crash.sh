#!/usr/bin/env bash
# Runs the crash campaigns. Prints one table. Exits with 1 if a guarantee was broken.
#
# QUICK=yes runs a part, as large as the tests of `campaigns.rs`. LONG=yes runs about twenty times
# as much, and KILLS (2000) kills with SIGKILL. SEED (1) is the first seed.
# RECORD=docs/reliability.md also writes the table to that document.
set -euo pipefail
cd "$(dirname "$0")/.."

arguments=(--seed "${SEED:-1}")
[ "${QUICK:-no}" = yes ] && arguments+=(--quick)
[ "${LONG:-no}" = yes ] && arguments+=(--long)
if [ -n "${RECORD:-}" ]; then
    commit=$(git rev-parse --short HEAD 2>/dev/null || echo "no commit")
    arguments+=(--document "$(date -u +%F), commit $commit, seed ${SEED:-1}, $(nproc) cores")
fi
# QUICK uses the debug build of the tests: it runs a sixth longer, but needs no further build.
place=crash
if [ "${QUICK:-no}" = yes ]; then
    # As the workspace's tests build it: `cargo build` would build the engine with other features.
    place=debug
    cargo test --quiet --workspace --no-run --test campaigns
else
    cargo build --quiet --profile crash --package esker-testkit --bin crash
fi
table=$("${CARGO_TARGET_DIR:-target}/$place/crash" "${arguments[@]}") && broken=0 || broken=$?
echo "$table"
if [ -n "${RECORD:-}" ] && [ "$broken" = 0 ]; then
    # Keeps the hand-written part of the document, which begins with the list of bugs.
    written=$(sed -n '/^## Bugs found/,$p' "$RECORD" 2>/dev/null || true)
    printf '%s\n\n%s\n' "$table" "$written" > "$RECORD"
fi
if [ "${LONG:-no}" = yes ]; then
    COUNT="${KILLS:-2000}" scripts/torture.sh kills
fi
exit "$broken"
