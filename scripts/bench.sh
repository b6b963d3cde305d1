#!/usr/bin/env bash
# The first benchmark: Esker beside every installed peer, on generated data and on CSV=FILE.
#
# NUM entries (default 200000), REPS turns of each engine (3), OUT the folder of pages and records
# (bench), KEY and VALUE the CSV's columns (1 and 2), ENGINES the engines, FLAGS further flags.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/peers.sh
cargo build --release --package esker-cli --features rust-engines
esker="${CARGO_TARGET_DIR:-target}/release/esker"
out="${OUT:-bench}"
mkdir -p "$out"
engines="${ENGINES:-esker,leveldb,rocksdb,lmdb,wiredtiger,fjall,redb,sled}"
tasks="fillseq,fillsync,fillrandom,overwrite,readrandom,readmissing,readhot,seekrandom"
tasks="$tasks,readseq,readreverse,deleteseq,deleterandom"

# shellcheck disable=SC2086 # FLAGS holds several words
"$esker" bench --engines="$engines" --benchmarks="$tasks" --num="${NUM:-200000}" \
    --repetitions="${REPS:-3}" --record="$out/record" --html="$out/generated.html" ${FLAGS:-}
echo "page: $out/generated.html" >&2

if [ -n "${CSV:-}" ]; then
    # shellcheck disable=SC2086
    "$esker" bench --engines="$engines" --benchmarks="$tasks" --csv="$CSV" \
        --key-column="${KEY:-1}" --value-column="${VALUE:-2}" \
        --repetitions="${REPS:-3}" --record="$out/record" --html="$out/csv.html" ${FLAGS:-}
    echo "page: $out/csv.html" >&2
fi
