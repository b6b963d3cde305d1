#!/usr/bin/env bash
# Measures the README's table: Esker, LevelDB, LMDB and RocksDB with 1,000,000 pairs, equal
# settings, three interleaved repetitions.
#
# REPS: repetitions (3). NUM: pairs (1000000). The record is committed; the table and the picture
# are generated from it.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/peers.sh
cargo build --release --package esker-cli
esker="${CARGO_TARGET_DIR:-target}/release/esker"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tasks="fillseq,fillrandom,overwrite,readrandom,readmissing,seekrandom,readseq,readreverse"
"$esker" bench --engines=esker,leveldb,lmdb,rocksdb --benchmarks="$tasks" --num="${NUM:-1000000}" \
    --repetitions="${REPS:-3}" --cache_size=134217728 --bloom_bits=10 \
    --record="$work" --html="$work/page.html"
mkdir -p docs/results
cp "$work"/*.json docs/results/first-benchmark.json
cargo xtask results
