#!/usr/bin/env bash
# Builds target/shim/libleveldb.so.1d: LevelDB's C++ and C interfaces over Esker, compiled against
# the installed LevelDB headers. Without them, prints a message and exits with 0, or with 1 if
# SHIM=must. SHIM=c builds only the C interface, which needs neither the headers nor a C++ compiler.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
out=$target/shim
source=bindings/leveldb/shim

only_c() { [ "${SHIM:-may}" = c ]; }

if ! only_c && ! echo '#include <leveldb/db.h>' | ${CXX:-g++} -std=c++17 -fsyntax-only -x c++ - 2>/dev/null; then
    echo "shim: not built: a C++ compiler or LevelDB's headers are missing" \
        "(apt install g++ libleveldb-dev)" >&2
    [ "${SHIM:-may}" = must ] && exit 1
    exit 0
fi

${CARGO:-cargo} build --release -p esker-leveldb
mkdir -p "$out"
objects=()
for part in "$source"/*.cc; do
    only_c && continue
    object=$out/$(basename "${part%.cc}").o
    ${CXX:-g++} -std=c++17 -O2 -fPIC -Wall -Wextra -Werror -Ibindings/c/include -c "$part" -o "$object"
    objects+=("$object")
done
# The file has Debian's name; the upstream name is a link to it. The library is never unloaded,
# because threads of the engine may live as long as the process.
linker=${CXX:-g++}
only_c && linker=${CC:-cc}
$linker -shared -o "$out/libleveldb.so.1d" -Wl,-soname,libleveldb.so.1d \
    -Wl,--version-script="$source/exports.map" -Wl,--gc-sections -Wl,-z,defs -Wl,-z,nodelete "${objects[@]}" \
    -Wl,--whole-archive "$target/release/libesker_leveldb.a" -Wl,--no-whole-archive \
    -lpthread -ldl -lm
strip --strip-debug "$out/libleveldb.so.1d"
ln -sf libleveldb.so.1d "$out/libleveldb.so.1"
ln -sf libleveldb.so.1d "$out/libleveldb.so"
echo "shim: $out/libleveldb.so.1d; applications use it with LD_LIBRARY_PATH=$out" >&2
