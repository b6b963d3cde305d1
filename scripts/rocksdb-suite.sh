#!/usr/bin/env bash
# Runs other people's tests of RocksDB's C interface on Esker's librocksdb.so: `tests/ffi.rs` of the
# crate librocksdb-sys, the tests of the crate rocksdb (rust-rocksdb), and those of the Go module
# grocksdb. Then runs SEQUENCES (1600) random sequences of calls beside RocksDB, where one is installed.
# The packages come from their registries. Each suite prints how many tests passed. A test that fails
# must have a reason in bindings/rocksdb/tests/suites.tsv, and one that has a reason must fail. (`may
# fail: ` precedes the reason of one that fails seldom, `not run: ` that of one that is not run.) Tests
# that only set options, or call nothing of the library, are listed there and counted apart.
# SUITE=must makes a skipped suite a failure too. ONLY=crates runs the tests of the two crates alone, on
# the library that is in target/rocksdb (scripts/rocksdb-asan.sh).
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$target/rocksdb-suite
# librocksdb-sys 0.19.0 has the header of RocksDB 11.8.1, and rocksdb 0.25.0 is built on it.
sys=0.19.0
crate=0.25.0
# The version of the Go module on RocksDB 11.
go_module=v1.11.1
root=$PWD
known=$root/bindings/rocksdb/tests/suites.tsv
failed=0
left_out=0
# The library is optimised crate by crate, as in scripts/test.sh: as a whole it takes minutes.
export CARGO_PROFILE_RELEASE_LTO=${CARGO_PROFILE_RELEASE_LTO:-false}
export CARGO_PROFILE_RELEASE_CODEGEN_UNITS=${CARGO_PROFILE_RELEASE_CODEGEN_UNITS:-16}

say() { echo "rocksdb-suite: $*" >&2; }
skip() {
    say "$1: skipped: $2"
    left_out=1
}

. scripts/fetched.sh

# Runs a test as a process of its own, because some tests abort. Arguments: the directory of results,
# the directory in which it runs, the language of the program, the program, its name, the test.
one() {
    local log=$1/$5.$6.log proof result=FAILED
    cd "$2"
    # A test that was skipped or does not exist has not passed.
    case $3 in
    rust)
        proof='^test result: ok\. 1 passed;'
        timeout 120 "$4" --exact "$6" --test-threads 1 >"$log" 2>&1 || proof=
        ;;
    go)
        proof="^--- PASS: $6 "
        timeout 120 "$4" -test.v -test.run "^$6\$" >"$log" 2>&1 || proof=
        ;;
    esac
    [ -n "$proof" ] && grep -q "$proof" "$log" && result=ok
    echo "$5 $6 $result" >>"$1/results"
}
export -f one

# Lists the tests of programs, and runs them, a few at the same time: many wait for the disk or for a
# time to pass. No test uses the directory of another test. Arguments: the suite, the language, the
# directory in which they run, the programs.
run() {
    local suite=$1 language=$2 dir=$3 out=$work/$1 program name
    shift 3
    rm -rf "$out" && mkdir -p "$out"
    export LD_LIBRARY_PATH=$target/rocksdb
    for program in "$@"; do
        name=$(basename "$program" | sed -E 's/-[0-9a-f]{16}$//')
        # A program that does not list its tests would vanish from the counts.
        case $language in
        rust)
            "$program" --list --format terse >"$out/$name.list" 2>&1 || echo "$name" >>"$out/unlisted"
            sed -n -E "s/^(.*): test$/$name \1/p" "$out/$name.list"
            ;;
        go)
            "$program" -test.list . >"$out/$name.list" 2>&1 || echo "$name" >>"$out/unlisted"
            sed -n -E "s/^Test/$name &/p" "$out/$name.list"
            ;;
        esac >"$out/$name.names"
        cat "$out/$name.names" >>"$out/names"
        sed -n -E "s/^$suite ([^\t]*)\tnot run: .*/\1/p" "$known" >"$out/not-run"
        { grep -vxFf "$out/not-run" "$out/$name.names" || true; } | while read -r name test; do
            printf '%s\n' "$out" "$dir" "$language" "$program" "$name" "$test"
        done
    done | xargs -r -d '\n' -n 6 -P $((2 * $(nproc))) bash -c 'exec 2>/dev/null; one "$@"' one
    if [ -e "$out/unlisted" ]; then
        say "$suite: programs that do not list their tests: $(tr '\n' ' ' <"$out/unlisted")" && return 1
    fi
    [ -s "$out/results" ] || { say "$suite: no test ran: $out" && return 1; }
    if grep -l 'ERROR: .*Sanitizer' "$out"/*.log >"$out/findings"; then
        say "$suite: findings of a sanitizer: $(tr '\n' ' ' <"$out/findings")" && return 1
    fi
    awk -F'\t' -v suite="$suite" -f "$root/scripts/rocksdb-suite.awk" "$out/names" "$out/results" "$known" >&2
}

# Builds the tests of both crates with Esker's library. They are one workspace, so that the bindings
# of RocksDB's header are made once.
crates_tests() {
    sed -i '/^\[workspace\]$/d' "$work/librocksdb-sys/Cargo.toml" "$work/rocksdb/Cargo.toml"
    printf '%s\n' '[workspace]' 'resolver = "2"' 'members = ["librocksdb-sys", "rocksdb"]' \
        '[patch.crates-io]' 'librocksdb-sys = { path = "librocksdb-sys" }' >"$work/Cargo.toml"
    [ -e "$work/Cargo.lock" ] || cp "$work/rocksdb/Cargo.lock" "$work/Cargo.lock"
    (
        cd "$work"
        # What others wrote is neither debugged nor built twice.
        export CARGO_PROFILE_DEV_DEBUG=false CARGO_INCREMENTAL=0
        ROCKSDB_LIB_DIR=$target/rocksdb CARGO_TARGET_DIR=$work/build ${CARGO:-cargo} "$@" \
            --package librocksdb-sys --package rocksdb --no-default-features \
            --features librocksdb-sys/bindgen-runtime,rocksdb/bindgen-runtime
    )
}

# Runs the tests of both crates, whose programs $work/crates.log names.
crates() {
    local programs=() program ffi=() others=() sure=0
    crates_tests test --no-run --lib --tests >"$work/crates.log" 2>&1 || {
        say "the crates' tests are not built: $work/crates.log" && return 1
    }
    mapfile -t programs < <(cd "$work" && sed -n -E 's/^ *Executable .*\((.*)\)$/\1/p' crates.log |
        xargs -r -d '\n' realpath)
    for program in "${programs[@]}"; do
        case $program in
        */ffi-*) ffi+=("$program") ;;
        */librocksdb_sys-*) ;;
        *) others+=("$program") ;;
        esac
    done
    run ffi rust "$work/librocksdb-sys" "${ffi[@]}" || sure=1
    run rust rust "$work/rocksdb" "${others[@]}" || sure=1
    return "$sure"
}

go_tests() {
    (
        cd "$work/grocksdb"
        CGO_CFLAGS="-I$work/librocksdb-sys/rocksdb/include" CGO_LDFLAGS="-L$target/rocksdb -lrocksdb" \
            go test -tags grocksdb_clean_link -c -o "$work/grocksdb.test" . >"$work/go.log" 2>&1
    ) || { say "go: the tests are not built: $work/go.log" && return 1; }
    run go go "$work/grocksdb" "$work/grocksdb.test"
}

# Makes one half of the sequences in a process of its own, because each waits for the disk. Arguments:
# the program, the log, the number of sequences, the first one.
beside_part() {
    (cd bindings/rocksdb && SEQUENCES=$3 SEED=$4 "$1" --nocapture) >"$2" 2>&1 || {
        say "beside: FAILED: $2" && return 1
    }
}

beside() {
    local log=$work/beside.log program sequences=${SEQUENCES:-1600} seed=${SEED:-1} half other part sure=0
    # It is built with the library; this names it.
    ${CARGO:-cargo} test --release -p esker-rocksdb --test beside --no-run >"$log" 2>&1 || {
        say "beside: not built: $log" && return 1
    }
    program=$(realpath "$(sed -n -E 's/^ *Executable .*\((.*)\)$/\1/p' "$log")")
    # A store serves 16 sequences.
    half=$((sequences / 32 * 16))
    rm -f "$log".?
    [ "$half" = 0 ] || beside_part "$program" "$log.1" "$half" "$seed" &
    other=$!
    beside_part "$program" "$log.2" $((sequences - half)) $((seed + half)) || sure=1
    wait "$other" || sure=1
    [ "$sure" = 0 ] || return 1
    grep -ho 'skipped: .*' "$log.2" >"$log.skipped" && return 0
    for part in "$log".?; do
        grep -q 'sequences of' "$part" || { say "beside: no sequence ran: $part" && return 1; }
    done
    say "beside: $sequences sequences, in two parts: $(grep 'sequences of' "$log.2" | head -1)"
}

mkdir -p "$work"
has_crates=
has_go=
if source_of librocksdb-sys "$sys"; then
    if ! ls /usr/lib/llvm-*/lib/libclang.so >/dev/null 2>&1; then
        skip "ffi and rust" "libclang is not installed (apt install libclang-dev)"
    elif ! source_of rocksdb "$crate"; then
        skip "ffi and rust" "the crate rocksdb $crate cannot be fetched"
    else
        has_crates=yes
    fi
    if [ "${ONLY:-}" = crates ]; then
        [ -z "$has_crates" ] || crates || failed=1
    elif ! command -v go >/dev/null; then
        skip go "Go is not installed"
    elif ! go_source_of github.com/linxGnu/grocksdb "$go_module" grocksdb; then
        skip go "the module grocksdb $go_module cannot be fetched"
    else
        has_go=yes
    fi
else
    skip "ffi, rust and go" "the crate librocksdb-sys $sys cannot be fetched"
fi

if [ "${ONLY:-}" = crates ]; then
    [ "$failed" = 0 ] && { [ "${SUITE:-may}" != must ] || [ "$left_out" = 0 ]; }
    exit
fi

# What needs no library is built meanwhile.
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
[ -z "$has_crates" ] || crates_tests build >"$work/crates.log" 2>&1 &
ahead=$!
# One command, or the engine would be compiled twice if the test asked for more features of its crates.
${CARGO:-cargo} build --release --package esker-rocksdb --lib --test beside
BUILD=no scripts/rocksdb.sh
wait "$ahead" || true
parts=
for part in beside ${has_go:+go_tests} ${has_crates:+crates}; do
    "$part" &
    parts="$parts $!"
done
for part in $parts; do
    wait "$part" || failed=1
done
[ ! -s "$work/beside.log.skipped" ] || skip beside "$(cut -d' ' -f2- "$work/beside.log.skipped")"
[ "$failed" = 0 ] && { [ "${SUITE:-may}" != must ] || [ "$left_out" = 0 ]; }
