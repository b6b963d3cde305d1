#!/usr/bin/env bash
# Builds target/manylinux/esker-*.whl, which needs no newer C library than glibc 2.17, by the C
# compiler and linker of zig from the package registry. Checks the versions of all symbols that the
# module needs, and tries the wheel. With `sdist`, instead builds target/sdist/esker-*.tar.gz and
# tries it, which needs Rust. `check WHEEL` checks the symbols of a wheel, and `try FILE` installs a
# wheel or a source archive in a new virtual environment and runs the first program of the README in
# an empty directory. Needs Python and a registry.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
python=${PYTHON:-python3}
glibc=2.17

# environment NAME PACKAGE...: creates a virtual environment in $target/NAME.
environment() {
    local place=$target/$1
    shift
    "$place/bin/python" -c '' 2>/dev/null || "$python" -m venv "$place" >&2
    "$place/bin/python" -m pip install -q --disable-pip-version-check "$@" >&2
}

# check_symbols WHEEL: fails if the module needs a symbol of a newer glibc.
check_symbols() {
    local place newest
    place=$(mktemp -d)
    "$python" -m zipfile -e "$1" "$place"
    newest=$(readelf -V "$place"/esker/_esker*.so |
        grep -oE 'GLIBC_[0-9.]+' | sed 's/GLIBC_//' | sort -V | tail -1)
    rm -r "$place"
    if [ "$(printf '%s\n' "$newest" "$glibc" | sort -V | tail -1)" != "$glibc" ]; then
        echo "manylinux: FAILED: $1 needs glibc $newest, and may need $glibc at most" >&2
        exit 1
    fi
    echo "manylinux: $1 needs glibc $newest" >&2
}

# try_package FILE: installs the wheel or source archive, away from the repository, and runs the
# first program of the README.
try_package() (
    file=$(realpath "$1")
    program=$(awk '/^```python$/ { on = 1; next } /^```$/ && on { exit } on' \
        bindings/python/README.md)
    place=$(mktemp -d)
    trap 'rm -rf "$place"' EXIT
    "$python" -m venv "$place/venv"
    mkdir "$place/empty"
    cd "$place/empty"
    only=()
    [[ $file != *.whl ]] || only=(--no-index)
    CARGO_TARGET_DIR=$target/sdist-build "$place/venv/bin/python" -m pip install -q \
        --disable-pip-version-check "${only[@]}" "$file" >&2
    shown=$("$place/venv/bin/python" -c "$program")
    if [ "$shown" != "b'banana' b'yellow'" ]; then
        echo "manylinux: FAILED: with ${file##*/} the first program of the README printed: $shown" >&2
        exit 1
    fi
    "$place/venv/bin/python" -c 'import esker, esker.aio, esker.codec, esker.plyvel'
    echo "manylinux: ${file##*/} was installed alone and runs the first program of the README" >&2
)

case ${1:-wheel} in
wheel)
    environment venv-zig 'maturin>=1.9,<2' ziglang
    rm -rf "$target/manylinux"
    # maturin looks for zig in the same environment.
    PATH=$target/venv-zig/bin:$PATH CARGO_TARGET_DIR=$target "$target/venv-zig/bin/maturin" build \
        -q --release --strip --zig --compatibility manylinux_2_17 \
        -m bindings/python/Cargo.toml -i "$target/venv-zig/bin/python" -o "$target/manylinux" >&2
    check_symbols "$target"/manylinux/*.whl
    try_package "$target"/manylinux/*.whl
    ;;
check)
    check_symbols "$2"
    ;;
try)
    try_package "$2"
    ;;
sdist)
    environment venv-build 'maturin>=1.9,<2'
    rm -rf "$target/sdist"
    "$target/venv-build/bin/maturin" sdist -m bindings/python/Cargo.toml -o "$target/sdist" >&2
    try_package "$target"/sdist/esker-*.tar.gz
    ;;
*)
    echo "usage: manylinux.sh [wheel|sdist|check WHEEL|try FILE]" >&2
    exit 2
    ;;
esac
