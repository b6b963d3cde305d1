#!/usr/bin/env bash
# Runs other people's tests of RocksDB's C interface on Esker's librocksdb.so: `tests/ffi.rs` of the
# crate librocksdb-sys, the tests of the crate rocksdb (rust-rocksdb), and those of the Go module
# grocksdb. Then runs SEQUENCES (1600) random sequences of calls beside RocksDB, where one is installed.
# The packages come from their registries. Each suite prints how many tests passed. A test that fails
# must have a reason in bindings/rocksdb/tests/suites.tsv, and one that has a reason must fail.
# SUITE=must makes a skipped suite a failure too.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$target/rocksdb-suite
# librocksdb-sys 0.19.0 has the header of RocksDB 11.8.1, and rocksdb 0.25.0 is built on it.
sys=0.19.0
crate=0.25.0
# The version of the Go module on RocksDB 11.
go_module=v1.11.1
known=$PWD/bindings/rocksdb/tests/suites.tsv
failed=0
left_out=0

say() { echo "rocksdb-suite: $*" >&2; }
skip() {
    say "$1: skipped: $2"
    left_out=1
}

. scripts/fetched.sh

# Runs each test of a program as a process of its own, because some tests abort. Arguments: the log,
# the option that precedes a test's name, the option that lists the tests, and the program.
each() {
    local log=$1 run=$2 list=$3 program=$4 name names result
    names=$("$program" $list 2>/dev/null | sed -n -E 's/^(.*): test$/\1/p; s/^(Test[A-Za-z0-9_]*)$/\1/p')
    for name in $names; do
        # Such a test asks the compiler, not the library.
        ! grep -qP "^\S+ \S+ $name\tnot run: " "$known" || continue
        case $run in
        --exact) timeout 120 "$program" --exact "$name" --test-threads 1 >>"$log" 2>&1 && result=ok || result=FAILED ;;
        *) timeout 120 "$program" -test.run "^$name\$" >>"$log" 2>&1 && result=ok || result=FAILED ;;
        esac
        echo "$(basename "$program" | sed -E 's/-[0-9a-f]{16}$//') $name $result" >>"$log.results"
    done
}

# Builds the tests of a crate with Esker's library, and runs them.
ours() {
    local log=$1 dir=$2 program
    shift 2
    : >"$log"
    rm -f "$log.results"
    export LD_LIBRARY_PATH=$target/rocksdb
    (cd "$dir" && ROCKSDB_LIB_DIR=$target/rocksdb CARGO_TARGET_DIR=$work/build \
        ${CARGO:-cargo} test --no-run --no-default-features --features bindgen-runtime "$@") \
        >"$log.build" 2>&1 || { cat "$log.build" >>"$log"; return 0; }
    sed -n -E 's/^ *Executable .*\((.*)\)$/\1/p' "$log.build" | while read -r program; do
        (cd "$dir" && each "$log" --exact "--list --format terse" "$program")
    done
}

# Compares the results of a suite with the failures that $known gives a reason for.
count() {
    local name=$1 log=$2 passed expected failures new old
    if [ ! -s "$log.results" ]; then
        say "$name: no test ran: $log"
        failed=1
        return 0
    fi
    passed=$(grep -c ' ok$' "$log.results" || true)
    failures=$(sed -n -E "s/^(.*) FAILED$/$name \1/p" "$log.results" | sort)
    expected=$({ grep -vP '\tnot run: ' "$known" || true; } | sed -n -E "s/^($name [^\t]*)\t.*$/\1/p" | sort)
    say "$name: $passed passed, $(printf '%s' "$failures" | grep -c . || true) failed"
    new=$(comm -23 <(echo "$failures") <(echo "$expected") | sed '/^$/d')
    old=$(comm -13 <(echo "$failures") <(echo "$expected") | sed '/^$/d')
    if [ -n "$new" ]; then
        printf '%s\n' "$new" | sed "s|^|rocksdb-suite: failed without a reason in suites.tsv: |" >&2
        failed=1
    fi
    if [ -n "$old" ]; then
        printf '%s\n' "$old" | sed "s|^|rocksdb-suite: passed, but has a reason in suites.tsv: |" >&2
        failed=1
    fi
}

ffi() {
    local log=$work/ffi.log
    ours "$log" "$work/librocksdb-sys" --test ffi
    count ffi "$log"
}

rust() {
    local log=$work/rust.log
    source_of rocksdb "$crate" || { skip rust "the crate rocksdb $crate cannot be fetched"; return 0; }
    ours "$log" "$work/rocksdb" --lib --tests
    count rust "$log"
}

go_tests() {
    local log=$work/go.log dir=$work/grocksdb
    command -v go >/dev/null || { skip go "Go is not installed"; return 0; }
    go_source_of github.com/linxGnu/grocksdb "$go_module" grocksdb ||
        { skip go "the module grocksdb $go_module cannot be fetched"; return 0; }
    : >"$log"
    rm -f "$log.results"
    (
        cd "$dir"
        CGO_CFLAGS="-I$work/librocksdb-sys/rocksdb/include" CGO_LDFLAGS="-L$target/rocksdb -lrocksdb" \
            go test -tags grocksdb_clean_link -c -o "$work/grocksdb.test" . >>"$log" 2>&1 || exit 0
        export LD_LIBRARY_PATH=$target/rocksdb
        each "$log" -test.run "-test.list ." "$work/grocksdb.test"
    )
    count go "$log"
}

beside() {
    local log=$work/beside.log
    if ! SEQUENCES=${SEQUENCES:-1600} ${CARGO:-cargo} test --release -p esker-rocksdb \
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
if ! ls /usr/lib/llvm-*/lib/libclang.so >/dev/null 2>&1; then
    skip "ffi and rust" "libclang is not installed (apt install libclang-dev)"
else
    if source_of librocksdb-sys "$sys"; then
        ffi
        rust
        go_tests
    else
        skip "ffi, rust and go" "the crate librocksdb-sys $sys cannot be fetched"
    fi
fi
beside
[ "$failed" = 0 ] && { [ "${SUITE:-may}" != must ] || [ "$left_out" = 0 ]; }
