#!/usr/bin/env bash
# Measures the README's table: Esker, LevelDB, RocksDB, LMDB, redb and fjall with 1,000,000 pairs,
# equal settings, three interleaved repetitions. A second run times each operation.
#
# REPS: repetitions (3). NUM: pairs (1000000). The record is committed; the table and the picture
# are generated from it.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/peers.sh
cargo build --release --package esker-cli --features rust-engines
esker="${CARGO_TARGET_DIR:-target}/release/esker"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tasks="fillseq,fillrandom,overwrite,readrandom,readmissing,seekrandom,readseq,readreverse"
measure() {
    "$esker" bench --engines=esker,leveldb,rocksdb,lmdb,redb,fjall --num="${NUM:-1000000}" \
        --repetitions="${REPS:-3}" --cache_size=134217728 --bloom_bits=10 --html="$work/page.html" "$@"
}
measure --benchmarks="$tasks" --record="$work/speed"
measure --benchmarks=fillrandom,overwrite,readrandom --histogram --record="$work/latency"
mkdir -p docs/results
zstd -q -f --ultra -22 "$work"/speed/*.json -o docs/results/first-benchmark.json.zst
zstd -q -f --ultra -22 "$work"/latency/*.json -o docs/results/first-latency.json.zst
cargo xtask results
