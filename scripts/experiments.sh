#!/usr/bin/env bash
# Repeats the experiments of the five documents, and writes their records, pages and pictures in
# docs/results. Some two hours on two processors; a run that was interrupted continues.
#
# Names as arguments: only these. CSV: USvideos.csv for projectdb, whose series of CSV rows is left
# out without it. RECORDS: directory of the unfinished records (bench/experiments).
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/peers.sh
cargo build --release --package esker-cli
esker="${CARGO_TARGET_DIR:-target}/release/esker"
unfinished="${RECORDS:-bench/experiments}"

# Runs one experiment, or continues its unfinished record, and keeps the record for its page.
measure() { # NAME PAGE arguments of `esker lab run`
    local name=$1 page=$2 records=$unfinished/$2 before record
    shift 2
    mkdir -p "$records" "docs/results/$page"
    before=$(find "$records" -maxdepth 1 -name "$name-*.json" | sort | tail -1)
    "$esker" lab run "$name" "$@" --record "$records" ${before:+--resume "$before"} > /dev/null
    record=${before:-$(find "$records" -maxdepth 1 -name "$name-*.json" | sort | tail -1)}
    # A record says where the files of its engines and input lie; its readers need only their names.
    sed "s#$HOME/#~/#g${CSV:+; s#$(dirname "$CSV")/##g}" "$record" > "$records/record.json"
    zstd -q -f --ultra -22 "$records/record.json" -o "docs/results/$page/record.json.zst"
    # The record is finished, so the next run measures again.
    rm "$record" "$records/record.json"
}

one() {
    case $1 in
        projectdb) measure projectdb projectdb --scale full --repetitions 5 ${CSV:+--csv "$CSV"} ;;
        pebblesdb)
            measure pebblesdb pebblesdb --scale 5 --repetitions 3 --engines esker,leveldb,rocksdb \
                --series "b: one thread" --series "c: four threads" --series "d: small" \
                --series "e: small" --series "f: aged" --series YCSB
            ;;
        pebblesdb-10m)
            measure pebblesdb-10m pebblesdb-10m --scale full --engines esker,leveldb,rocksdb
            ;;
        ycsb-tuning)
            measure ycsb-tuning ycsb-tuning --scale full --repetitions 3 --engines esker,leveldb,lmdb
            ;;
        kvstore) measure kvstore kvstore --scale 6 --repetitions 3 --engines esker,leveldb ;;
        leveldb-knobs)
            measure leveldb-knobs leveldb-knobs --scale full --repetitions 3 --engines esker,leveldb
            ;;
        *)
            echo "unknown experiment $1: projectdb, pebblesdb, pebblesdb-10m, ycsb-tuning, kvstore or leveldb-knobs" >&2
            exit 2
            ;;
    esac
}

[ $# -gt 0 ] || set -- projectdb pebblesdb-10m pebblesdb ycsb-tuning kvstore leveldb-knobs
for name in "$@"; do
    one "$name"
done
cargo xtask results
