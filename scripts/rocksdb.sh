#!/usr/bin/env bash
# Builds target/rocksdb/librocksdb.so: RocksDB's C interface over Esker. Checks that it exports every
# function of bindings/rocksdb/functions.tsv and nothing else. With BUILD=no the static library that it is
# made of is the one that is there.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
out=$target/rocksdb
source=bindings/rocksdb

# Lists the functions of the table.
listed() { grep -v '^#' "$source/functions.tsv" | cut -f1 | sort; }

[ "${BUILD:-yes}" = no ] || ${CARGO:-cargo} build --release -p esker-rocksdb
mkdir -p "$out"
# The library is never unloaded, because threads of the engine may live as long as the process.
${CC:-cc} -shared -o "$out/librocksdb.so.11" -Wl,-soname,librocksdb.so.11 \
    -Wl,--version-script="$source/exports.map" -Wl,--gc-sections -Wl,-z,defs -Wl,-z,nodelete \
    -Wl,--whole-archive "$target/release/libesker_rocksdb.a" -Wl,--no-whole-archive \
    -lpthread -ldl -lm
strip --strip-debug "$out/librocksdb.so.11"
ln -sf librocksdb.so.11 "$out/librocksdb.so"

exported=$(nm -D --defined-only "$out/librocksdb.so.11" | awk '$2 == "T" { print $3 }' | sort)
if ! difference=$(diff <(listed) <(echo "$exported")); then
    echo "rocksdb: FAILED: the exported functions are not those of functions.tsv:" >&2
    echo "$difference" >&2
    exit 1
fi
echo "rocksdb: $out/librocksdb.so: $(listed | wc -l) functions;" \
    "programs that link RocksDB find it with ROCKSDB_LIB_DIR=$(realpath "$out")" \
    "and LD_LIBRARY_PATH=$(realpath "$out")" >&2
