#!/usr/bin/env bash
# The crash campaigns: one table, exit code 1 if a promise was broken.
#
# QUICK=yes runs about half, as `make test` does; LONG=yes about twenty times as much, and KILLS
# (default 2000) kills with SIGKILL. SEED (1) is the first seed. RECORD=docs/reliability.md writes the
# table into that document, too.
set -euo pipefail
cd "$(dirname "$0")/.."

arguments=(--seed "${SEED:-1}")
[ "${QUICK:-no}" = yes ] && arguments+=(--quick)
[ "${LONG:-no}" = yes ] && arguments+=(--long)
if [ -n "${RECORD:-}" ]; then
    commit=$(git rev-parse --short HEAD 2>/dev/null || echo "no commit")
    arguments+=(--document "$(date -u +%F), commit $commit, seed ${SEED:-1}, $(nproc) cores")
fi
# The short form takes the program as the tests built it: it runs a sixth longer, and is there.
built=(--profile crash --package esker-testkit)
place=crash
[ "${QUICK:-no}" = yes ] && built=(--workspace) && place=debug
cargo build --quiet "${built[@]}" --bin crash
table=$("${CARGO_TARGET_DIR:-target}/$place/crash" "${arguments[@]}") && broken=0 || broken=$?
echo "$table"
if [ -n "${RECORD:-}" ] && [ "$broken" = 0 ]; then
    # What people wrote, from the list of bugs on, stays.
    written=$(sed -n '/^## Bugs found/,$p' "$RECORD" 2>/dev/null || true)
    printf '%s\n\n%s\n' "$table" "$written" > "$RECORD"
fi
if [ "${LONG:-no}" = yes ]; then
    COUNT="${KILLS:-2000}" scripts/torture.sh kills
fi
exit "$broken"
