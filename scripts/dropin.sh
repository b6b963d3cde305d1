#!/usr/bin/env bash
# Runs programs and tests of other projects on Esker's libleveldb.so.1d, and plyvel's tests also on
# Esker's Python module. Arguments: names of suites (default: all); see the list at the end. Each
# suite prints the number of passed tests, or its name and the reason for skipping it.
# DROPIN=must makes a skipped suite a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
shim=$target/shim
work=$target/dropin
failed=0
left_out=0

say() { echo "dropin: $*" >&2; }
skip() {
    say "$1: skipped: $2"
    left_out=1
}
have() { command -v "$1" >/dev/null 2>&1; }

# Runs a command with Esker's library before the installed one.
ours() { LD_LIBRARY_PATH=$shim "$@"; }

# npm_install NAME VERSION: installs the package and its dependencies in $work/npm-NAME, without
# running install scripts.
npm_install() {
    local dir=$work/npm-$1
    mkdir -p "$dir"
    [ -f "$dir/package.json" ] || echo '{"private":true}' >"$dir/package.json"
    [ -d "$dir/node_modules/$1" ] && return 0
    (cd "$dir" && npm install --silent --ignore-scripts --no-audit --no-fund \
        "$1@$2" tape@5 >/dev/null 2>&1)
}

# Compares the exported functions and classes with LevelDB's library, except those for LevelDB's
# table files.
symbols() {
    local stock missing
    stock=$(${CC:-cc} -print-file-name=libleveldb.so)
    if [ ! -e "$stock" ] || ! have nm; then
        skip symbols "LevelDB's library or nm is not installed"
        return 0
    fi
    exported() {
        nm -D --defined-only "$1" | awk '{ print $3 }' | c++filt |
            grep -E '^(leveldb_|leveldb::|(vtable|typeinfo|typeinfo name) for leveldb::)' |
            grep -vE 'leveldb::(Table|TableBuilder|DumpFile)\b' | sort -u
    }
    missing=$(comm -23 <(exported "$stock") <(exported "$shim/libleveldb.so.1d"))
    if [ -n "$missing" ]; then
        say "symbols: FAILED: not exported: $missing"
        failed=1
        return 0
    fi
    say "symbols: $(exported "$stock" | grep -c '^leveldb_') C functions," \
        "$(exported "$stock" | grep -vc '^leveldb_') C++ functions and classes"
}

# Runs Esker's test program for the C++ interface, which must also pass on LevelDB.
cxx() {
    local program=$work/cxx dir library output=""
    ${CXX:-g++} -std=c++17 -O1 -w -o "$program" bindings/leveldb/tests/shim.cc -L"$shim" -lleveldb
    for library in /nonexistent "$shim"; do
        dir=$(mktemp -d)
        if ! output=$(LD_LIBRARY_PATH=$library "$program" "$dir" 2>&1); then
            say "cxx: FAILED with LD_LIBRARY_PATH=$library: $output"
            failed=1
            return 0
        fi
        rm -rf "$dir"
    done
    say "cxx: $output, as on LevelDB"
}

# Runs the benchmark of the C++ interface with few rows: it checks each row that it reads.
clients() {
    local program=$target/clients/ycsb library dir output=""
    scripts/clients.sh program
    # It ends with its input, which therefore stays open.
    [ -p "$work/open" ] || mkfifo "$work/open"
    for library in /nonexistent "$shim"; do
        dir=$(mktemp -d)
        if ! output=$(LD_LIBRARY_PATH=$library "$program" "$dir/db" 2000 4000 2 7 "ycsb load a" \
            "ycsb a" "ycsb d" "ycsb e" "ycsb f" "scan 10" 2>&1 0<>"$work/open") ||
            [ "$(grep -c '"wrong":0,' <<<"$output")" != 6 ]; then
            say "clients: FAILED with LD_LIBRARY_PATH=$library: $output"
            failed=1
            return 0
        fi
        rm -rf "$dir"
    done
    say "clients: six phases with every row checked, as on LevelDB"
}

# Downloads Debian's source of LevelDB to $work/source, from this machine's package sources. Uses
# separate source lists, so that the machine's configuration does not change.
debian_source() {
    local place=$work/source from
    [ -e "$place"/leveldb-*/db/c_test.c ] && return 0
    have apt-get && have dpkg-query || return 1
    mkdir -p "$place/lists/partial" "$place/parts"
    for from in /etc/apt/sources.list /etc/apt/sources.list.d/debian*; do
        [ -e "$from" ] || continue
        sed -E 's/^deb +/deb-src /; s/^Types:.*/Types: deb-src/' "$from" \
            >"$place/parts/$(basename "$from")"
    done
    local apt=(apt-get -qq -o "Dir::Etc::SourceList=/dev/null" -o "APT::Sandbox::User=root"
        -o "Dir::Etc::SourceParts=$place/parts" -o "Dir::State::Lists=$place/lists")
    (cd "$place" && timeout 90 "${apt[@]}" update && timeout 60 "${apt[@]}" source --download-only \
        "leveldb=$(dpkg-query -W -f '${source:Version}' libleveldb-dev)" &&
        tar -xzf leveldb_*.orig.tar.gz) >"$work/source.log" 2>&1 && [ -e "$place"/leveldb-*/db/c_test.c ]
}

# Runs LevelDB's test of its C interface, from Debian's source or from leveldown's package.
c_test() {
    local source program=$work/c_test log=$work/c_test.log
    if debian_source; then
        source=$(echo "$work"/source/leveldb-*/db/c_test.c)
    elif have npm && npm_install leveldown 6.1.1; then
        source=$(find "$work/npm-leveldown" -name c_test.c | head -1)
    else
        skip c_test "neither Debian's source package nor npm's leveldown 6.1.1 is available"
        return 0
    fi
    ${CC:-cc} -w -o "$program" "$source" -L"$shim" -lleveldb
    if ! ours "$program" >"$log" 2>&1 || ! grep -q '^PASS' "$log"; then
        say "c_test: FAILED: $log"
        failed=1
        return 0
    fi
    say "c_test: PASS, $(grep -c '^=== Test' "$log") sections, of ${source#"$work"/}"
    if ! have valgrind; then
        skip "c_test under valgrind" "valgrind is not installed"
    elif ours valgrind -q --leak-check=full --errors-for-leak-kinds=definite,possible \
        --show-leak-kinds=definite,possible --error-exitcode=9 "$program" >"$log" 2>&1; then
        say "c_test under valgrind: no error, no leak"
    else
        say "c_test under valgrind: FAILED: $log"
        failed=1
    fi
}

# Downloads plyvel's tests from its source distribution to $work/plyvel/tests.
plyvel_tests() {
    local dir=$work/plyvel
    [ -e "$dir/tests/test_plyvel.py" ] && return 0
    mkdir -p "$dir/tests"
    python3 -m pip download -q --no-deps --no-binary plyvel -d "$dir" plyvel==1.5.1 \
        >/dev/null 2>&1 || return 1
    tar -xzf "$dir/plyvel-1.5.1.tar.gz" -C "$dir/tests" --strip-components=2 \
        plyvel-1.5.1/test/test_plyvel.py
}

# Runs plyvel's tests on `esker.plyvel`, which replaces plyvel with one line of code.
plyvel_esker() {
    local log=$work/plyvel-module.log place=$work/plyvel/module
    scripts/wheel.sh install
    if ! "$target/venv-test/bin/python" -c 'import esker.plyvel' 2>/dev/null; then
        skip plyvel-esker "the wheel was not built"
        return 0
    fi
    if ! plyvel_tests; then
        skip plyvel-esker "the source distribution plyvel 1.5.1 is not available"
        return 0
    fi
    mkdir -p "$place"
    echo 'import sys, esker.plyvel; sys.modules["plyvel"] = esker.plyvel' >"$place/plyvel.py"
    if (cd "$work/plyvel/tests" && PYTHONPATH=$place timeout 900 "$target/venv-test/bin/python" \
        -m pytest -v -p no:cacheprovider test_plyvel.py) >"$log" 2>&1; then
        say "plyvel-esker: $(grep -c PASSED "$log") passed," \
            "$(grep -c SKIPPED "$log" || true) skipped"
    else
        say "plyvel-esker: FAILED: $log"
        failed=1
    fi
}

# Runs the tests of plyvel's source distribution on Debian's plyvel. Tests that fail on LevelDB
# itself may also fail on Esker. (For example, root can write to a directory without write
# permission.)
plyvel() {
    local python=/usr/bin/python3 dir=$work/plyvel
    if [ ! -x $python ] || ! have apt-get || ! have dpkg-deb; then
        skip plyvel "Debian's python3, apt-get or dpkg-deb is missing"
        return 0
    fi
    mkdir -p "$dir"
    if [ ! -d "$dir/deb" ]; then
        if ! (cd "$dir" && apt-get download -qq python3-plyvel >/dev/null 2>&1); then
            skip plyvel "Debian's python3-plyvel is not available"
            return 0
        fi
        dpkg-deb -x "$dir"/python3-plyvel_*.deb "$dir/deb"
    fi
    if ! plyvel_tests; then
        skip plyvel "the source distribution plyvel 1.5.1 is not available"
        return 0
    fi
    if ! [ -d "$dir/pytest" ] && ! python3 -m pip install -q --target "$dir/pytest" \
        --python-version "$($python -c 'import sys; print("%d.%d" % sys.version_info[:2])')" \
        --only-binary :all: pytest >/dev/null 2>&1; then
        skip plyvel "pytest is not available"
        return 0
    fi
    local stock=$work/plyvel-leveldb.log mine=$work/plyvel-esker.log
    run_plyvel "$stock" || true
    LD_LIBRARY_PATH=$shim run_plyvel "$mine" || true
    local passed more
    passed=$(grep -c PASSED "$mine" || true)
    # Esker must pass the tests that pass on LevelDB. Tests not run because of a crash count as
    # failed.
    more=$(comm -23 <(grep PASSED "$stock" | cut -d' ' -f1 | sort) \
        <(grep PASSED "$mine" | cut -d' ' -f1 | sort))
    if [ "$passed" = 0 ] || [ -n "$more" ]; then
        say "plyvel: FAILED or not run, but passed on LevelDB: ${more:-no test ran}; log: $mine"
        failed=1
        return 0
    fi
    say "plyvel: $passed passed; on LevelDB itself $(grep -c PASSED "$stock")"
}

run_plyvel() {
    (cd "$work/plyvel/tests" &&
        PYTHONPATH=$work/plyvel/pytest:$work/plyvel/deb/usr/lib/python3/dist-packages \
            /usr/bin/python3 -m pytest -v -p no:cacheprovider test_plyvel.py) \
        2>&1 | grep -E '::.* (PASSED|FAILED|ERROR)|passed|failed' | grep -v '^FAILED' >"$1"
}

# node_suite NAME VERSION BINDING NAPI: compiles a Node binding against the installed headers, and
# runs the test suite of its abstract package.
node_suite() {
    local name=$1 dir=$work/npm-$1 log=$work/$1.log include
    if ! have node || ! have npm; then
        skip "$name" "node or npm is not installed"
        return 0
    fi
    include=$(dirname "$(dirname "$(realpath "$(command -v node)")")")/include/node
    if [ ! -f "$include/node_api.h" ]; then
        skip "$name" "node's headers are missing in $include"
        return 0
    fi
    if ! npm_install "$name" "$2"; then
        skip "$name" "npm's $name $2 is not available"
        return 0
    fi
    local package=$dir/node_modules/$name
    mkdir -p "$package/build/Release"
    ${CXX:-g++} -shared -fPIC -O2 -w -I"$include" -I"$dir/node_modules/napi-macros" \
        -DNODE_GYP_MODULE_NAME="$3" -DBUILDING_NODE_EXTENSION -DNAPI_VERSION="$4" \
        "$package/binding.cc" -o "$package/build/Release/$3.node" -L"$shim" -lleveldb
    cp "scripts/dropin/$name.js" "$dir/suite.js"
    if (cd "$dir" && EXPECTED="$shim" LD_LIBRARY_PATH=$shim timeout 1200 node suite.js) \
        >"$log" 2>&1 && grep -q '^# ok' "$log"; then
        say "$name: $(sed -n 's/^# pass *//p' "$log") of $(sed -n 's/^# tests *//p' "$log")"
    else
        say "$name: FAILED: $log"
        failed=1
    fi
}

# Runs CometBFT's database layer with levigo, which calls 61 of the 68 C functions.
cometbft() {
    local dir=$work/cometbft log=$work/cometbft.log
    if ! have go; then
        skip cometbft "go is not installed"
        return 0
    fi
    mkdir -p "$dir"
    local module=github.com/cometbft/cometbft-db version=v1.0.4 source
    source=$(cd "$dir" && GOFLAGS=-mod=mod go mod download -json "$module@$version" 2>/dev/null |
        sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
    if [ -z "$source" ]; then
        skip cometbft "$module $version is not available"
        return 0
    fi
    [ -d "$dir/source" ] || { cp -r "$source" "$dir/source" && chmod -R u+w "$dir/source"; }
    if (cd "$dir/source" && CGO_LDFLAGS="-L$shim" LD_LIBRARY_PATH=$shim \
        timeout 1200 go test -count=1 -tags cleveldb -v .) \
        >"$log" 2>&1; then
        say "cometbft: $(grep -c '^ *--- PASS.*' "$log") passed," \
            "$(grep -ci '^ *--- PASS.*cleveldb' "$log") of them on the C interface"
    else
        say "cometbft: FAILED: $log"
        failed=1
    fi
}

all="symbols cxx clients c_test plyvel plyvel-esker leveldown classic-level cometbft"
names=${*:-$all}
mkdir -p "$work"
[ "$names" = plyvel-esker ] || SHIM=${SHIM:-may} scripts/shim.sh

for name in $names; do
    if [ "$name" != plyvel-esker ] && [ ! -e "$shim/libleveldb.so.1d" ]; then
        skip "$name" "the library was not built"
        continue
    fi
    case $name in
    symbols | cxx | clients | c_test | plyvel | cometbft) $name ;;
    plyvel-esker) plyvel_esker ;;
    leveldown) node_suite leveldown 6.1.1 leveldown 3 ;;
    classic-level) node_suite classic-level 1.4.1 classic_level 8 ;;
    *)
        say "unknown suite $name; the suites are: $all"
        exit 2
        ;;
    esac
done
[ "${DROPIN:-may}" = must ] && [ $left_out = 1 ] && failed=1
exit $failed
