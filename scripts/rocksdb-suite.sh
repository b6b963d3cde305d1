#!/usr/bin/env bash
# Runs other people's tests of RocksDB's C interface on Esker's librocksdb.so: `tests/ffi.rs` of the
# crate librocksdb-sys, and the tests of the crate rocksdb (rust-rocksdb). Then runs SEQUENCES (500)
# random sequences of calls beside RocksDB, where one is installed. The crates come from the
# registry, through cargo. Each suite prints how many tests passed, and the names of the others.
# SUITE=must makes a skipped or failed suite a failure; otherwise the numbers are the result.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$target/rocksdb-suite
# librocksdb-sys 0.19.0 has the header of RocksDB 11.8.1, and rocksdb 0.25.0 is built on it.
sys=0.19.0
crate=0.25.0
failed=0
left_out=0

say() { echo "rocksdb-suite: $*" >&2; }
skip() {
    say "$1: skipped: $2"
    left_out=1
}

# Unpacks the source of a crate to $work/NAME, from cargo's registry.
source_of() {
    local name=$1 version=$2 place=$work/fetch found
    [ -e "$work/$name/Cargo.toml" ] && return 0
    mkdir -p "$place/src"
    echo "" >"$place/src/lib.rs"
    printf '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n[dependencies]\n%s = { version = "=%s", default-features = false }\n' \
        "$name" "$version" >"$place/Cargo.toml"
    (cd "$place" && ${CARGO:-cargo} fetch --quiet) || return 1
    found=$(find "${CARGO_HOME:-$HOME/.cargo}/registry/src" -maxdepth 2 -type d \
        -name "$name-$version*" | head -1)
    [ -n "$found" ] || return 1
    cp -r "$found" "$work/$name"
    # The suites run with the toolchain that is there.
    rm -f "$work/$name/rust-toolchain" "$work/$name/rust-toolchain.toml"
    # A package outside of this project's workspace.
    grep -q '^\[workspace\]' "$work/$name/Cargo.toml" || printf '\n[workspace]\n' >>"$work/$name/Cargo.toml"
}

# Runs `cargo test` in a crate with Esker's library.
ours() {
    local dir=$1
    shift
    (cd "$dir" && ROCKSDB_LIB_DIR=$target/rocksdb \
        LD_LIBRARY_PATH=$target/rocksdb CARGO_TARGET_DIR=$work/build \
        ${CARGO:-cargo} test --no-fail-fast --no-default-features --features bindgen-runtime "$@")
}

# Counts the results of a log of `cargo test`, and names the tests that did not pass.
count() {
    local name=$1 log=$2 passed others
    passed=$(grep -cE '^test .* \.\.\. ok$' "$log" || true)
    others=$(grep -E '^test .* \.\.\. FAILED$' "$log" | sed -E 's/^test (.*) \.\.\. FAILED$/\1/' | sort || true)
    if [ "$passed" = 0 ] && [ -z "$others" ]; then
        say "$name: no test ran: $log"
        failed=1
        return 0
    fi
    say "$name: $passed passed, $(printf '%s' "$others" | grep -c . || true) failed"
    if [ -n "$others" ]; then
        printf '%s\n' "$others" | sed "s/^/rocksdb-suite: $name: failed: /" >&2
        failed=1
    fi
}

ffi() {
    local log=$work/ffi.log
    source_of librocksdb-sys "$sys" || { skip ffi "the crate librocksdb-sys $sys cannot be fetched"; return 0; }
    ours "$work/librocksdb-sys" --test ffi >"$log" 2>&1 || true
    count ffi "$log"
}

rust() {
    local log=$work/rust.log
    source_of rocksdb "$crate" || { skip rust "the crate rocksdb $crate cannot be fetched"; return 0; }
    # One thread: some of the tests set options of the process.
    ours "$work/rocksdb" --tests -- --test-threads 1 >"$log" 2>&1 || true
    count rust "$log"
}

beside() {
    local log=$work/beside.log
    if ! SEQUENCES=${SEQUENCES:-500} ${CARGO:-cargo} test --release -p esker-rocksdb \
        --test beside -- --nocapture >"$log" 2>&1; then
        say "beside: FAILED: $log"
        failed=1
    elif grep -q '^skipped' "$log"; then
        skip beside "$(grep '^skipped' "$log" | head -1)"
    else
        say "beside: $(grep 'sequences of' "$log" | head -1)"
    fi
}

mkdir -p "$work"
scripts/rocksdb.sh
if ! ldconfig -p 2>/dev/null | grep -q libclang && ! ls /usr/lib/llvm-*/lib/libclang* >/dev/null 2>&1; then
    skip "ffi and rust" "libclang is not installed (apt install libclang-dev)"
else
    ffi
    rust
fi
beside
[ "${SUITE:-may}" != must ] || [ "$failed$left_out" = 00 ]
