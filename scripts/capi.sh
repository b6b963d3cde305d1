#!/usr/bin/env bash
# Builds target/c/: libesker.so, libesker.a and esker.h; with `test`, also runs a C program on them.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
out=$target/c
${CARGO:-cargo} build --release -p esker-c
mkdir -p "$out"
cp "$target/release/libesker_c.so" "$out/libesker.so"
cp "$target/release/libesker_c.a" "$out/libesker.a"
cp bindings/c/include/esker.h "$out/"
echo "capi: $out: libesker.so, libesker.a, esker.h" >&2
[ "${1:-}" = test ] || exit 0

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
for link in "-L$out -lesker" "$out/libesker.a -lpthread -ldl -lm"; do
    # shellcheck disable=SC2086
    ${CC:-cc} -std=c99 -Wall -Wextra -Werror -pedantic -I"$out" -o "$place/program" \
        bindings/c/tests/esker.c $link
    rm -rf "$place/db"* && LD_LIBRARY_PATH=$out "$place/program" "$place/db" >&2
done
