#!/usr/bin/env bash
# Measures the calls of Esker for Python beside plyvel, rocksdict and lmdb from the package registry,
# in turn. Prints a table. Arguments: COUNT ROUNDS.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
WHEEL=must scripts/wheel.sh install
"$target/venv-test/bin/python" -m pip install -q --disable-pip-version-check plyvel rocksdict lmdb >&2
"$target/venv-test/bin/python" bindings/python/benches/beside_others.py "$@"
