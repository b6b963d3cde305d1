#!/usr/bin/env bash
# YCSB through LevelDB's C++ interface: one program (bindings/leveldb/bench/ycsb.cc) on two libraries.
#
# clients.sh build: builds the program and Esker's libleveldb.so.1d (scripts/shim.sh).
# clients.sh program: builds only the program, target/clients/ycsb.
# clients.sh round ENGINE: one round of experiments/clients.toml on "esker" or "leveldb", the library
#     that is installed. `esker lab run clients` calls it and writes the round's description to its
#     standard input. It builds nothing, and refuses what is older than its sources.
# Needs a C++ compiler, LevelDB's headers and library (apt install g++ libleveldb-dev) and python3.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
shim=$target/shim
program=$target/clients/ycsb
source=bindings/leveldb/bench/ycsb.cc

fail() {
    echo "clients: $*" >&2
    exit 1
}
usage() {
    echo "usage: scripts/clients.sh build | program | round esker|leveldb" >&2
    exit 2
}

compile() {
    mkdir -p "$target/clients"
    ${CXX:-g++} -std=c++17 -O2 -Wall -Wextra -Werror -o "$program" "$source" -lleveldb -pthread
}

# Replaces this process with the program; the description is a line of JSON.
round() {
    local library=/nonexistent description arguments
    [ -x "$program" ] && [ "$program" -nt "$source" ] || fail "the program is not built; run \`make clients\`"
    if [ "$1" = esker ]; then
        library=$shim
        [ -e "$shim/libleveldb.so.1d" ] &&
            [ -z "$(find crates/esker/src bindings/leveldb bindings/shared/src bindings/c/src bindings/c/include Cargo.lock \
                -newer "$shim/libleveldb.so.1d" -type f -print -quit)" ] ||
            fail "Esker's library is older than its sources; run \`make clients\`"
    fi
    command -v python3 >/dev/null || fail "python3 is not installed"
    IFS= read -r description || fail "standard input has no description of the round"
    mapfile -d '' arguments < <(python3 -c '
import json, sys
round = json.loads(sys.argv[1])
words = [round[name] for name in ("directory", "entries", "operations", "threads")]
words += [round["seed"] * 1000 + round["repetition"]] + round["phases"]
sys.stdout.write("".join(f"{word}\0" for word in words))' "$description" 2>/dev/null)
    [ ${#arguments[@]} -gt 5 ] || fail "the description of the round is not whole: $description"
    echo "{\"about\": \"$1 through LevelDB's C++ interface\"}"
    LD_LIBRARY_PATH=$library exec "$program" "${arguments[0]}/db" "${arguments[@]:1}"
}

case "${1:-} ${2:-}" in
"build ")
    SHIM=must scripts/shim.sh
    compile
    ;;
"program ") compile ;;
"round esker" | "round leveldb") round "$2" ;;
*) usage ;;
esac
