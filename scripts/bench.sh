#!/usr/bin/env bash
# Runs the first benchmark: Esker and every installed peer, on generated data and on CSV=FILE.
#
# The page begins with two tables: each engine with its shipped defaults, and each engine with equal
# memory (MEMTABLE and CACHE in bytes, FILTER in bits per key).
#
# NUM: number of entries (200000). REPS: repetitions per engine (3). OUT: directory of pages and
# records (bench). KEY and VALUE: columns of the CSV (1 and 2). ENGINES: the engines. FLAGS: further
# flags.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/peers.sh
cargo build --release --package esker-cli --features rust-engines
esker="${CARGO_TARGET_DIR:-target}/release/esker"
out="${OUT:-bench}"
mkdir -p "$out"
engines="${ENGINES:-esker,leveldb,rocksdb,lmdb,wiredtiger,fjall,redb}"
tasks="fillseq,fillsync,fillrandom,overwrite,readrandom,readmissing,readhot,seekrandom"
tasks="$tasks,readseq,readreverse,deleteseq"

equal="--write_buffer_size=${MEMTABLE:-16777216} --cache_size=${CACHE:-50331648} --bloom_bits=${FILTER:-10}"

# shellcheck disable=SC2086 # equal and FLAGS contain several words
measure() {
    local page="$out/$1.html"
    shift
    "$esker" bench --terms=shipped,equal --engines="$engines" --benchmarks="$tasks" $equal \
        --repetitions="${REPS:-3}" --record="$out/record" --html="$page" "$@" ${FLAGS:-}
    echo "page: $page" >&2
}

measure generated --num="${NUM:-200000}"
if [ -n "${CSV:-}" ]; then
    measure csv --csv="$CSV" --key-column="${KEY:-1}" --value-column="${VALUE:-2}"
fi
