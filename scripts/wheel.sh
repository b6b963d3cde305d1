#!/usr/bin/env bash
# Builds target/wheel/esker-*.whl with maturin, in a separate virtual environment. `install` also
# installs the wheel in target/venv-test; `test` also tries it from an empty directory in a new
# environment, and tests it in target/venv-test (further arguments go to pytest). If Python or a
# package is missing, prints a message and exits with 0, or with 1 if WHEEL=must.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=$target/wheel
python=${PYTHON:-python3}

leave_out() {
    echo "wheel: not built: $*" >&2
    [ "${WHEEL:-may}" = must ] && exit 1
    exit 0
}

# environment NAME PACKAGE...: creates a virtual environment in $target/NAME and installs the
# packages.
environment() {
    local place=$target/$1
    shift
    if ! "$place/bin/python" -c '' 2>/dev/null; then
        "$python" -m venv "$place" >/dev/null 2>&1 ||
            leave_out "$python cannot create a virtual environment (apt install python3-venv)"
    fi
    "$place/bin/python" -m pip install -q --disable-pip-version-check "$@" >&2 ||
        leave_out "pip cannot install $*"
}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    leave_out "$python is missing or older than Python 3.11"
environment venv-build 'maturin>=1.9,<2'
rm -rf "$out"
CARGO_TARGET_DIR=$target "$target/venv-build/bin/maturin" build -q --release --strip \
    -m bindings/python/Cargo.toml -i "$target/venv-build/bin/python" -o "$out" >&2
echo "wheel: $(echo "$out"/*.whl)" >&2
what=${1:-build}
[ "$what" = build ] && exit 0
shift

environment venv-test pytest hypothesis mypy zict numpy
"$target/venv-test/bin/python" -m pip install -q --disable-pip-version-check \
    --force-reinstall --no-deps "$out"/*.whl >&2
[ "$what" = install ] && exit 0
scripts/manylinux.sh try "$out"/*.whl
# This fork of pyright comes with Node. Without it the tests name what they skip.
"$target/venv-test/bin/python" -m pip install -q --disable-pip-version-check basedpyright >&2 ||
    echo "wheel: pip cannot install basedpyright, so pyright is not run" >&2
timeout 1800 "$target/venv-test/bin/python" -X faulthandler -m pytest -q -rs \
    -c bindings/python/pyproject.toml bindings/python/tests "$@" >&2
