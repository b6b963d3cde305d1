#!/usr/bin/env bash
# Builds programs that store their data in RocksDB, unchanged, against Esker's librocksdb.so, and
# runs them: the tests of the crate kvdb-rocksdb; then a search server (sonic-server, the crate
# rocksdb) and a blockchain node (cometbft, the Go module grocksdb), both on RocksDB and on Esker in
# turn, with kills. Prints a table of medians over ROUNDS (3) rounds. RocksDB is the newest library that
# `esker lab engines install rocksdb` installed, or ROCKSDB_LIBRARY.
# `scripts/rocksdb-apps.sh prepare` only builds them and runs the tests, and needs no RocksDB.
# `scripts/rocksdb-apps.sh build` measures a clean build of a small program instead: with Esker's
# library, which is built before, and with RocksDB's C++ (some 20 minutes).
set -euo pipefail
task=${1:-run}
if [ $# -gt 1 ] || { [ $# = 1 ] && [[ $1 != prepare && $1 != build ]]; }; then
    echo "usage: scripts/rocksdb-apps.sh [prepare | build]" >&2
    exit 2
fi
library=${ROCKSDB_LIBRARY:+$(realpath -m "$ROCKSDB_LIBRARY")}
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$target/rocksdb-apps
esker=$target/rocksdb
failed=0

say() { echo "rocksdb-apps: $*" >&2; }
skip() { say "$1: skipped: $2"; }

. scripts/fetched.sh

# Builds a package in a directory against Esker's library, into $work/build.
cargo_ours() {
    (cd "$1" && shift && ROCKSDB_LIB_DIR=$esker LD_LIBRARY_PATH=$esker CARGO_TARGET_DIR=$work/build \
        ${CARGO:-cargo} "$@")
}

kvdb() {
    local log=$work/kvdb.log
    source_of kvdb-rocksdb 0.21.0 || { skip kvdb-rocksdb "it cannot be fetched"; return 0; }
    # Its package names the tests that all stores of kvdb share, but not where they are.
    grep -q kvdb-shared-tests "$work/kvdb-rocksdb/Cargo.toml" ||
        printf '\n[dev-dependencies.kvdb-shared-tests]\nversion = "=0.11.0"\n' >>"$work/kvdb-rocksdb/Cargo.toml"
    if cargo_ours "$work/kvdb-rocksdb" test --lib -- --skip tests::rocksdb_settings \
        >"$log" 2>&1; then
        # The test that is skipped reads RocksDB's options in the text of its log.
        say "kvdb-rocksdb 0.21.0: 1 not run (it reads RocksDB's log), $(sed -n -E 's/^test result: ok\. ([0-9]+ passed).*/\1/p' "$log")"
    else
        say "kvdb-rocksdb 0.21.0: FAILED: $log"
        failed=1
    fi
}

# Builds sonic-server. Prints the program's path.
sonic() {
    local log=$work/sonic.log
    source_of sonic-server 1.10.2 || { skip sonic-server "it cannot be fetched"; return 0; }
    cargo_ours "$work/sonic-server" build --release >"$log" 2>&1 ||
        { say "sonic-server: FAILED: $log"; return 1; }
    echo "$work/build/release/sonic"
}

# Builds cometbft. Prints the program's path.
comet() {
    local log=$work/comet.log include=$work/librocksdb-sys/rocksdb/include
    command -v go >/dev/null || { skip cometbft "Go is not installed"; return 0; }
    go_source_of github.com/cometbft/cometbft v1.0.1 cometbft &&
        source_of librocksdb-sys 0.19.0 || { skip cometbft "it cannot be fetched"; return 0; }
    # Its package has a go.work of folders that are not in it, and names a grocksdb for RocksDB 9, which
    # does not compile with the header of RocksDB 11.
    (cd "$work/cometbft" && go mod edit \
        -replace=github.com/linxGnu/grocksdb=github.com/linxGnu/grocksdb@v1.11.1 &&
        GOFLAGS=-mod=mod GOWORK=off CGO_CFLAGS=-I$include CGO_LDFLAGS="-L$esker -lrocksdb" \
        go build -tags rocksdb,grocksdb_clean_link -o "$work/comet" ./cmd/cometbft) >"$log" 2>&1 ||
        { say "cometbft: FAILED: $log"; return 1; }
    echo "$work/comet"
}

# Whether a program needs Esker's library; RocksDB's C++ is inside the program.
needs_library() { [[ $(readelf -d "$1") == *"[librocksdb.so.11]"* ]]; }

# Measures a clean build of a program of seven lines, with the same features of the crate.
builds() {
    local dir=$work/program began engine program seconds
    mkdir -p "$dir/src"
    cat >"$dir/src/main.rs" <<'RUST'
fn main() {
    let path = std::env::args().nth(1).expect("a directory");
    let db = rocksdb::DB::open_default(path).expect("open");
    db.put(b"key", b"value").expect("put");
    assert_eq!(db.get(b"key").expect("get").as_deref(), Some(&b"value"[..]));
    println!("ok");
}
RUST
    printf '[package]\nname = "program"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n[dependencies]\nrocksdb = { version = "=0.25.0", default-features = false, features = ["bindgen-runtime"] }\n' >"$dir/Cargo.toml"
    (cd "$dir" && ${CARGO:-cargo} fetch --quiet)
    for engine in esker rocksdb; do
        rm -rf "$work/program-$engine"
        began=$(date +%s)
        (
            cd "$dir"
            unset ROCKSDB_LIB_DIR
            [ "$engine" = rocksdb ] || export ROCKSDB_LIB_DIR=$esker
            CARGO_TARGET_DIR=$work/program-$engine ${CARGO:-cargo} build --quiet --release
        )
        seconds=$(($(date +%s) - began))
        program=$work/program-$engine/release/program
        if [ "$engine" = esker ]; then
            needs_library "$program" || { say "$program does not need librocksdb.so.11"; return 1; }
            say "a clean build with Esker's library: $seconds s, without the build of that library"
        else
            ! needs_library "$program" || { say "$program needs librocksdb.so.11"; return 1; }
            say "a clean build with RocksDB's C++: $seconds s"
        fi
        rm -rf "$work/store"
        LD_LIBRARY_PATH=$esker "$program" "$work/store"
    done
}

mkdir -p "$work"
scripts/rocksdb.sh
if [ "$task" = build ]; then
    builds
    exit
fi
kvdb
server=$(sonic) || failed=1
node=$(comet) || failed=1
[ "$task" != prepare ] || exit "$failed"
[ -n "$server$node" ] || { say "neither sonic-server nor cometbft is built: nothing to measure"; exit 1; }
engines=${ESKER_ENGINES:-${XDG_DATA_HOME:-$HOME/.local/share}/esker/engines}
[ -n "$library" ] || library=$({ find "$engines" -path '*/rocksdb-*/librocksdb.so' 2>/dev/null || true; } |
    sort -V | tail -1)
[ -n "$library" ] || { say "no RocksDB to compare with: esker lab engines install rocksdb"; exit 1; }
[ -f "$library" ] || { say "no such library: $library"; exit 1; }
mkdir -p "$work/rocksdb"
ln -sf "$(realpath "$library")" "$work/rocksdb/librocksdb.so.11"
python3 scripts/apps/rocksdb.py --rocksdb "$work/rocksdb" --esker "$esker" --work "$work/data" \
    --rounds "${ROUNDS:-3}" ${server:+--sonic "$server"} ${node:+--comet "$node"}
[ "$failed" = 0 ]
