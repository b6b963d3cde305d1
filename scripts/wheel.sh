#!/usr/bin/env bash
# Builds target/wheel/esker-*.whl, with maturin in an environment of its own. With `install` it also
# puts it into target/venv-test, with `test` it tests it there (further arguments go to pytest).
# Without Python or its packages it says so and ends well (WHEEL=must: ends ill).
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

# environment NAME PACKAGE...: a virtual environment in $target/NAME that has the packages.
environment() {
    local place=$target/$1
    shift
    if ! "$place/bin/python" -c '' 2>/dev/null; then
        "$python" -m venv "$place" >/dev/null 2>&1 ||
            leave_out "$python makes no virtual environment (apt install python3-venv)"
    fi
    "$place/bin/python" -m pip install -q --disable-pip-version-check "$@" >&2 ||
        leave_out "pip cannot install $* here"
}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null ||
    leave_out "it needs Python 3.9 or newer, as $python"
environment venv-build 'maturin>=1.9,<2'
rm -rf "$out"
CARGO_TARGET_DIR=$target "$target/venv-build/bin/maturin" build -q --release --strip \
    -m bindings/python/Cargo.toml -i "$target/venv-build/bin/python" -o "$out" >&2
echo "wheel: $(echo "$out"/*.whl)" >&2
what=${1:-build}
[ "$what" = build ] && exit 0
shift

environment venv-test pytest hypothesis mypy
"$target/venv-test/bin/python" -m pip install -q --disable-pip-version-check \
    --force-reinstall --no-deps "$out"/*.whl >&2
[ "$what" = install ] && exit 0
timeout 1800 "$target/venv-test/bin/python" -X faulthandler -m pytest -q -rs \
    -c bindings/python/pyproject.toml bindings/python/tests "$@" >&2
