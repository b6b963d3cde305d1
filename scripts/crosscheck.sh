#!/usr/bin/env bash
# Compares the lab's results for RocksDB with RocksDB's db_bench: same library, same flags,
# alternating tools. Prints medians and their ratio. Exits with 1 if a ratio is off by over 15 %.
#
# NUM: number of entries (1000000). REPS: repetitions per tool (5). DB: directory of the stores.
set -euo pipefail
cd "$(dirname "$0")/.."

num="${NUM:-1000000}"
reps="${REPS:-5}"
tasks="fillseq,readrandom,fillrandom"

if ! command -v db_bench >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "installing db_bench: apt-get install -y rocksdb-tools" >&2
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq rocksdb-tools; } >/dev/null
    else
        echo "db_bench is missing: sudo apt-get install -y rocksdb-tools" >&2
        exit 2
    fi
fi
# The library that db_bench is linked with.
library=$(ldd "$(command -v db_bench)" | awk '/librocksdb/ { print $3 }')
[ -n "$library" ] || { echo "db_bench is not linked with a RocksDB library" >&2; exit 2; }
esker="${ESKER:-${CARGO_TARGET_DIR:-target}/release/esker}"
[ -x "$esker" ] || cargo build --release --package esker-cli

work="${DB:-$(mktemp -d)}"
rows=$(mktemp)
trap 'rm -rf "$work/db_bench" "$work/lab" "$rows"; [ -n "${DB:-}" ] || rm -rf "$work"' EXIT
mkdir -p "$work"

theirs() {
    rm -rf "$work/db_bench"
    # Resets options for which db_bench's defaults differ from the library's defaults.
    db_bench --benchmarks="$tasks" --num="$num" --key_size=16 --value_size=100 --seed="$1" \
        --write_buffer_size=4194304 --cache_size=8388608 --block_size=4096 --bloom_bits=-1 \
        --target_file_size_base=2097152 --compression_type=snappy --compression_ratio=0.5 \
        --enable_pipelined_write=false --stats_level=0 --db="$work/db_bench" 2>/dev/null
}

ours() {
    rm -rf "$work/lab"
    "$esker" bench --engines="rocksdb:$library" --benchmarks="$tasks" --num="$num" --key_size=16 \
        --value_size=100 --seed="$1" --write_buffer_size=4194304 --cache_size=8388608 \
        --block_size=4096 --bloom_bits=-1 --max_file_size=2097152 --compression=snappy \
        --compression_ratio=0.5 --repetitions=1 --record=none --db="$work/lab" 2>/dev/null
}

row() { # TOOL: prints the tool's rows as "task tool micros"
    awk -v tool="$1" '/micros\/op/ && $2 == ":" { sub(/;$/, "", $3); print $1, tool, $3 }'
}

for repetition in $(seq "$reps"); do
    if [ $((repetition % 2)) = 1 ]; then
        theirs "$repetition" | row db_bench >>"$rows"
        ours "$repetition" | row lab >>"$rows"
    else
        ours "$repetition" | row lab >>"$rows"
        theirs "$repetition" | row db_bench >>"$rows"
    fi
    echo "repetition $repetition of $reps, load $(cut -d' ' -f1 /proc/loadavg)" >&2
done

echo "$library, $num entries, medians of $reps alternating repetitions"
sort -k1,1 -k2,2 -k3,3g "$rows" | awk '
    { key = $1 " " $2; if (!(key in n)) tasks[$1]; value[key, ++n[key]] = $3 }
    function median(key, c) { c = n[key]; return c % 2 ? value[key, (c + 1) / 2] : (value[key, c / 2] + value[key, c / 2 + 1]) / 2 }
    END {
        printf "%-12s %18s %18s %10s\n", "task", "db_bench us/op", "lab us/op", "lab/theirs"
        for (task in tasks) {
            theirs = median(task " db_bench"); ours = median(task " lab")
            ratio = ours / theirs
            if (ratio > 1.15 || ratio < 1 / 1.15) off = 1
            printf "%-12s %18.3f %18.3f %10.3f\n", task, theirs, ours, ratio
        }
        exit off
    }'
