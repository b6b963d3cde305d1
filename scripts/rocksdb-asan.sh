#!/usr/bin/env bash
# Runs the tests of RocksDB's C interface under AddressSanitizer, with leak detection: its own; SEQUENCES
# (400) random sequences of calls beside RocksDB, where one is installed; and those of two crates of
# others (scripts/rocksdb-suite.sh), where libclang is installed. The stable compiler has the
# sanitizer's runtime; RUSTC_BOOTSTRAP lets it take the option. An access beyond memory or after it was
# freed is a failure, and so is a leak. There are no suppressions.
set -euo pipefail
cd "$(dirname "$0")/.."

host=$(rustc --version --verbose | sed -n 's/^host: //p')
if ! ls "$(rustc --print sysroot)/lib/rustlib/$host/lib/"librustc-*_rt.asan.a >/dev/null 2>&1; then
    echo "rocksdb-asan: skipped: the compiler for $host has no AddressSanitizer" >&2
    exit 0
fi
export RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address ${RUSTFLAGS:-}" SEQUENCES="${SEQUENCES:-400}"
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")/asan
export CARGO_TARGET_DIR=$target
mkdir -p "$target"
# Build scripts and macros are not instrumented.
export CARGO_BUILD_TARGET=$host
export ASAN_OPTIONS="detect_leaks=1:detect_stack_use_after_return=1:${ASAN_OPTIONS:-}"

log=$target/rocksdb.log
failed=0
${CARGO:-cargo} test --package esker-rocksdb --lib --tests --no-fail-fast -- \
    --nocapture >"$log" 2>&1 || failed=1
grep -E '^ +Running|^test result|^skipped|sequences of|ERROR: .*Sanitizer|SUMMARY: |^error' "$log" |
    sed 's/^/rocksdb-asan: /' >&2

# The runtime of the sanitizer is in the program, so names of the library stay undefined.
${CARGO:-cargo} build --quiet --package esker-rocksdb
mkdir -p "$target/rocksdb"
${CC:-cc} -shared -o "$target/rocksdb/librocksdb.so.11" -Wl,-soname,librocksdb.so.11 -Wl,-z,nodelete \
    -Wl,--version-script=bindings/rocksdb/exports.map -Wl,--gc-sections -Wl,--whole-archive \
    "$target/$host/debug/libesker_rocksdb.a" -Wl,--no-whole-archive -lpthread -ldl -lm
ln -sf librocksdb.so.11 "$target/rocksdb/librocksdb.so"
ONLY=crates scripts/rocksdb-suite.sh || failed=1
[ "$failed" = 0 ] || echo "rocksdb-asan: FAILED: $log" >&2
exit "$failed"
