#!/usr/bin/env bash
# Measures the cost of calls through C against Rust, and through Python against plyvel on LevelDB.
# Prints tables. Prints the name of a skipped measurement.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
${CARGO:-cargo} run -q --release -p esker-c --example overhead

# Both modules run under Debian's interpreter, because Debian's plyvel was built for it.
WHEEL=${WHEEL:-may} scripts/wheel.sh install
deb=$target/dropin/plyvel/deb/usr/lib/python3/dist-packages
[ -d "$deb" ] || scripts/dropin.sh plyvel
esker=$(dirname "$("$target/venv-test/bin/python" -c 'import esker; print(esker.__path__[0])' \
    2>/dev/null)" 2>/dev/null || true)
if ! PYTHONPATH=$deb:$esker /usr/bin/python3 -c 'import plyvel, esker' 2>/dev/null; then
    echo "overhead: skipped Python: it needs the wheel and Debian's python3-plyvel" >&2
    exit 0
fi
PYTHONPATH=$deb:$esker /usr/bin/python3 bindings/python/benches/beside_plyvel.py "$@"
