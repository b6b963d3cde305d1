#!/usr/bin/env bash
# Builds target/c/: libesker.so (a link to the library with its version), libesker.a and esker.h.
# With `test`, also checks what they export and runs C programs on them.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
out=$target/c

# The static library as one object in which only Esker's names are global: what it holds of other
# libraries (zstd, LZ4, Rust's own) never meets a program's copy of the same.
static_library() {
    local roots=() name
    for name in $(declared); do roots+=(-u "$name"); done
    ld -r --gc-sections "${roots[@]}" -o "$out/esker.o" "$target/release/libesker_c.a"
    objcopy --wildcard --keep-global-symbol='esker_*' --strip-debug --remove-section='.llvm*' \
        "$out/esker.o"
    rm -f "$out/libesker.a"
    ar rcs "$out/libesker.a" "$out/esker.o"
    rm "$out/esker.o"
}

# The functions that the header declares.
declared() {
    grep -oE '\besker_[a-z0-9_]+\(' bindings/c/include/esker.h | tr -d '(' | sort -u
}

build() {
    ${CARGO:-cargo} build --release -p esker-c
    local version
    version=$(${CARGO:-cargo} pkgid -p esker-c)
    version=${version##*[@#]}
    mkdir -p "$out"
    rm -f "$out"/libesker.so*
    strip --strip-unneeded -o "$out/libesker.so.$version" "$target/release/libesker_c.so"
    ln -s "libesker.so.$version" "$out/libesker.so.${version%%.*}"
    ln -s "libesker.so.${version%%.*}" "$out/libesker.so"
    static_library
    cp bindings/c/include/esker.h "$out/"
    echo "capi: $out: libesker.so.$version, libesker.a, esker.h" >&2
}

fail() {
    echo "capi: FAILED: $*" >&2
    exit 1
}

# Both libraries define what the header declares, export nothing else, and carry no debug sections.
check_exports() {
    local others library missing
    others=$({ nm -D --defined-only "$out/libesker.so"
        nm --defined-only --extern-only "$out/libesker.a"; } |
        awk 'NF == 3 && $3 !~ /^esker_/ { print $3 }' | sort -u)
    [ -z "$others" ] || fail "exported beside esker_*:" $others
    for library in "$out/libesker.a" "$out/libesker.so"; do
        missing=$(comm -23 <(declared) \
            <(nm $([ "${library##*.}" = so ] && echo -D) --defined-only "$library" |
                awk '$2 == "T" { print $3 }' | sort -u))
        [ -z "$missing" ] || fail "declared in esker.h, not in $library:" $missing
    done
    local soname debug
    soname=$(readelf -d "$out/libesker.so" | sed -n 's/.*SONAME.*\[\(libesker\.so\.[0-9]*\)\]/\1/p')
    [ -n "$soname" ] || fail "libesker.so has no SONAME libesker.so.N"
    [ -e "$out/$soname" ] || fail "there is no file of the SONAME's name: $soname"
    debug=$({ readelf -SW "$out/libesker.so"; readelf -SW "$out/libesker.a"; } |
        grep -c '\.debug_info' || true)
    [ "$debug" = 0 ] || fail "the libraries are not stripped"
    echo "capi: $(declared | wc -l) functions, no other name;" \
        "$(stat -Lc %s "$out/libesker.so") and $(stat -c %s "$out/libesker.a") bytes" >&2
}

# program SOURCE LINK…: compiles and runs it in a new directory.
program() {
    local source=$1
    shift
    ${CC:-cc} -std=c99 -Wall -Wextra -Werror -pedantic -I"$out" -o "$place/program" "$source" "$@"
    rm -rf "$place/db"* && LD_LIBRARY_PATH=$out "$place/program" "$place/db" >&2
}

build
[ "${1:-}" = test ] || exit 0

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
check_exports
static=("$out/libesker.a" -lpthread -ldl -lm)
program bindings/c/tests/esker.c -L"$out" -lesker
program bindings/c/tests/esker.c "${static[@]}"
if echo '#include <leveldb/c.h>' | ${CC:-cc} -fsyntax-only -x c - 2>/dev/null; then
    program bindings/c/tests/beside_leveldb.c -L"$out" -lesker -lleveldb
    program bindings/c/tests/beside_leveldb.c -L"$out" -lleveldb -lesker
    program bindings/c/tests/beside_leveldb.c "${static[@]}" -lleveldb
else
    echo "capi: left out: beside LevelDB: its header is not installed (apt install" \
        "libleveldb-dev)" >&2
fi
