#!/usr/bin/env bash
# What a call costs through C over Rust, and through Python beside plyvel on LevelDB. Prints tables;
# what cannot be measured here is said by name.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
${CARGO:-cargo} run -q --release -p esker-c --example overhead

# Both modules under Debian's interpreter, for which its plyvel was made.
WHEEL=${WHEEL:-may} scripts/wheel.sh install
deb=$target/dropin/plyvel/deb/usr/lib/python3/dist-packages
[ -d "$deb" ] || scripts/dropin.sh plyvel
esker=$(dirname "$("$target/venv-test/bin/python" -c 'import esker; print(esker.__path__[0])' \
    2>/dev/null)" 2>/dev/null || true)
if ! PYTHONPATH=$deb:$esker /usr/bin/python3 -c 'import plyvel, esker' 2>/dev/null; then
    echo "overhead: left out through Python: it needs the wheel and Debian's python3-plyvel" >&2
    exit 0
fi
PYTHONPATH=$deb:$esker /usr/bin/python3 bindings/python/benches/beside_plyvel.py "$@"
