#!/usr/bin/env bash
# Builds Esker for Node.js: target/node/package/, as npm gets it. `test` tests it there (further
# arguments are names of tests, such as "suite own"). It prints the number of tests of each, and fails
# if abstract-level's suite has fewer than it should on a kind of database. `bench` measures it beside
# classic-level and lmdb-js; `pack` makes target/node/esker-level-*.tgz and tries it in an empty
# directory; `ecosystem` runs other projects' tests on it. If Node.js 18 or npm is missing and cannot be
# installed, prints a message and exits with 0, or with 1 if NODE=must.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
package=$target/node/package
what=${1:-build}
[ $# -gt 0 ] && shift
# The number of tests of the suite of abstract-level 3.1.1, and of those of levelgraph 4.0.0 that are run.
suite_tests=5168
levelgraph_tests=206

leave_out() {
    echo "node: skipped: $*" >&2
    [ "${NODE:-may}" = must ] && exit 1
    exit 0
}

has_node() {
    command -v npm >/dev/null 2>&1 &&
        node -e 'process.exit(process.versions.node.split(".")[0] < 18 ? 1 : 0)' 2>/dev/null
}

# install PACKAGE...: installs npm packages beside the package. Without arguments, those that the
# package names itself.
install() {
    (cd "$package" && npm install --no-package-lock --no-audit --no-fund --loglevel=error \
        --ignore-scripts --no-save "$@" >&2) || leave_out "npm cannot install ${*:-its packages}"
}

if ! has_node && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "node: installing nodejs and npm" >&2
    { apt-get update -qq &&
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nodejs npm; } \
        >/dev/null 2>&1 || true
fi
has_node || leave_out "Node.js 18 or newer, or npm, is missing (apt-get install nodejs npm)"
echo "node: Node.js $(node --version), npm $(npm --version)" >&2

${CARGO:-cargo} build -q --release --package esker-node
kind=$(node -p 'process.platform + "-" + process.arch')
mkdir -p "$package/prebuilds/$kind"
rm -rf "$package"/{lib,test,benches}
cp -rL bindings/node/{lib,test,benches,package.json,index.d.ts,README.md,COOKBOOK.md} "$package"
cp docs/errors.md "$package/test"
cp -L bindings/node/LICENSE-* "$package"
addon=$package/prebuilds/$kind/esker.glibc.node
cp "$target/release/libesker_node.so" "$addon.new"
strip --strip-debug "$addon.new" 2>/dev/null || true
mv "$addon.new" "$addon"
echo "node: $package" >&2

# enough NAME PASSED LEAST: prints how many tests passed since `began`, and returns whether these are
# enough.
enough() {
    echo "# pass ${2:-0} in $((SECONDS - began))s: $1" >&2
    [ "${2:-0}" -ge "$3" ] || {
        echo "node: $1 failed: ${2:-0} tests, expected $3 or more" >&2
        return 1
    }
}

# tests NAME...: runs tests, each in a process of its own, and prints the lines of what failed. A name
# may have an argument: "suite keyspace".
tests() {
    local name log least began failed=0
    for name in "$@"; do
        began=$SECONDS
        log=$target/node/${name// /-}.log
        least=1
        [ "${name%% *}" = suite ] && least=$suite_tests
        # shellcheck disable=SC2086
        if (set -- $name && cd "$package" && timeout 1200 node "test/$1.js" "${@:2}" >"$log" 2>&1); then
            enough "$name" "$(sed -n 's/^# pass *//p' "$log" | tail -1)" "$least" || failed=1
        else
            failed=1
            grep -v '^ok ' "$log" | grep -v '^# ' | tail -200 >&2
            echo "node: $name failed; everything it printed is in $log" >&2
        fi
    done
    return $failed
}

# Runs the tests of levelgraph on the package.
levelgraph() {
    local log=$target/node/levelgraph.log status=0 began=$SECONDS
    bindings/node/test/ecosystem/levelgraph.sh "$package" "$target/node/levelgraph" >"$log" 2>&1 ||
        status=$?
    [ "$status" != 77 ] || leave_out "npm cannot install levelgraph and what its tests need"
    if [ "$status" != 0 ]; then
        tail -100 "$log" >&2
        echo "node: levelgraph failed; everything it printed is in $log" >&2
        return 1
    fi
    enough levelgraph "$(sed -n 's/^ *\([0-9]*\) passing.*/\1/p' "$log")" "$levelgraph_tests"
}

case "$what" in
build) ;;
test)
    install
    (cd "$package" && node_modules/.bin/tsc --noEmit --strict --target es2022 --module node16 \
        --moduleResolution node16 --types node test/types.ts) >&2
    [ $# = 0 ] && set -- suite own abuse random exits streams feed copies cookbook
    names=()
    for name in "$@"; do
        if [ "$name" = suite ]; then names+=("suite database" "suite keyspace"); else names+=("$name"); fi
    done
    tests "${names[@]}"
    ;;
bench)
    install
    install --ignore-scripts=false classic-level@3.0.0 lmdb@3.5.6
    (cd "$package" && node benches/beside.js "$@")
    ;;
pack)
    (cd "$package" && npm pack --pack-destination "$target/node" --loglevel=error) >&2
    empty=$(mktemp -d)
    trap 'rm -rf "$empty"' EXIT
    tarball=$(echo "$target"/node/esker-level-*.tgz)
    (
        cd "$empty"
        echo '{ "private": true }' >package.json
        npm install --no-audit --no-fund --loglevel=error "$tarball" >&2 ||
            leave_out "npm cannot install the package's dependencies"
        sed -n '/^```js$/,/^```$/p' node_modules/esker-level/README.md | sed '1d;/^```$/,$d' >program.js
        [ "$(node program.js)" = "banana = yellow" ] || {
            echo "node: the program of the README does not work with $tarball" >&2
            exit 1
        }
    )
    echo "node: $tarball" >&2
    ;;
ecosystem)
    install
    levelgraph
    ;;
*)
    echo "usage: scripts/node.sh [build|test|bench|pack|ecosystem]" >&2
    exit 2
    ;;
esac
