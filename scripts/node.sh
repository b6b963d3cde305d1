#!/usr/bin/env bash
# Builds Esker for Node.js: target/node/package/, as npm gets it. `test` tests it there (further
# arguments are names of tests, such as "suite own"); `bench` measures it beside classic-level and
# lmdb-js; `pack` makes target/node/esker-level-*.tgz and tries it in an empty directory; `ecosystem`
# runs other projects' tests on it. If Node.js 18 or npm is missing and cannot be installed, prints a
# message and exits with 0, or with 1 if NODE=must.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
package=$target/node/package
what=${1:-build}
[ $# -gt 0 ] && shift

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

# tests NAME...: runs tests, each in a process of its own, and prints the lines of what failed.
tests() {
    local name began failed=0
    for name in "$@"; do
        began=$SECONDS
        if (cd "$package" && timeout 1200 node "test/$name.js" >"$target/node/$name.log" 2>&1); then
            echo "$(grep '^# pass' "$target/node/$name.log" | tail -1) in $((SECONDS - began))s: $name" >&2
        else
            failed=1
            grep -v '^ok ' "$target/node/$name.log" | grep -v '^# ' | tail -200 >&2
            echo "node: $name failed; everything it printed is in $target/node/$name.log" >&2
        fi
    done
    return $failed
}

case "$what" in
build) ;;
test)
    install
    (cd "$package" && node_modules/.bin/tsc --noEmit --strict --target es2022 --module node16 \
        --moduleResolution node16 --types node test/types.ts) >&2
    names=("$@")
    [ $# = 0 ] && names=(suite own abuse random exits streams feed copies cookbook)
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
    bindings/node/test/ecosystem/levelgraph.sh "$package" "$target/node/levelgraph" >&2
    ;;
*)
    echo "usage: scripts/node.sh [build|test|bench|pack|ecosystem]" >&2
    exit 2
    ;;
esac
