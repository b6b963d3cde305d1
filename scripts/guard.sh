#!/usr/bin/env bash
# Compares the speed of this tree with that of another commit, task by task, in some ten minutes after the
# builds.
# Exit code 1 if a task got slower.
#
# BASE: the commit to compare with (the one before HEAD). REPS: rounds of each (7).
set -euo pipefail
cd "$(dirname "$0")/.."

base=$(git rev-parse --verify "${BASE:-HEAD~1}^{commit}")
target=$PWD/${CARGO_TARGET_DIR:-target}
case ${CARGO_TARGET_DIR:-} in /*) target=$CARGO_TARGET_DIR ;; esac
work=$target/guard
mkdir -p "$work"

if [ ! -f "$work/$base/libleveldb.so.1d" ]; then
    git worktree prune
    rm -rf "$work/tree"
    git worktree add --quiet --detach "$work/tree" "$base"
    trap 'git worktree remove --force "$work/tree"' EXIT
    echo "building $base" >&2
    CARGO_TARGET_DIR=$work/before SHIM=c "$work/tree/scripts/shim.sh"
    mkdir -p "$work/$base"
    cp "$work/before/shim/libleveldb.so.1d" "$work/$base/"
fi
echo "building this tree" >&2
CARGO_TARGET_DIR=$work/after SHIM=c scripts/shim.sh
cargo build --release --package esker-cli
esker=$target/release/esker

# Of several copies of the engine in a process only the last one maps its logs into memory: the others
# find its handler of SIGBUS in place of their own, and write their logs. The third copy makes the two that
# are compared alike. What the mapped log costs is not seen here.
mkdir -p "$work/third"
cp "$work/after/shim/libleveldb.so.1d" "$work/third/"
after=$work/after/shim/libleveldb.so.1d
rm -rf "$work/record"
"$esker" lab run experiments/guard.toml --scale full --repetitions "${REPS:-7}" --record "$work/record" \
    --engines "before:$work/$base/libleveldb.so.1d,after:$after,third:$work/third/libleveldb.so.1d" > /dev/null
"$esker" lab report "$work"/record/guard-*.json --form csv | awk -F, '
    NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    $at["who"] == "before" { before[$at["phase"]] = $at["median"]; next }
    $at["who"] != "after" || $at["ratio_low"] == "" { next }
    {
        low = $at["ratio_low"]; high = $at["ratio_high"]
        verdict = high < 1 ? "slower" : low > 1 ? "faster" : "no difference shown"
        slower += high < 1
        tasks++
        printf "%-16s %12.0f %12.0f ops/s  %.2f [%.2f..%.2f]  %s\n", $at["phase"],
            before[$at["phase"]], $at["median"], $at["ratio_to_base"], low, high, verdict
    }
    END {
        printf "%d of %d tasks slower. By chance it is one in forty; run a slower task again with more REPS.\n",
            slower, tasks
        exit slower > 0 || tasks == 0
    }'
