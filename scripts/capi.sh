#!/usr/bin/env bash
# Builds target/c/: libesker.so (a link to the versioned library), libesker.a, esker.h, esker.hpp.
#
#   scripts/capi.sh        nothing else
#   scripts/capi.sh test   also checks the exported symbols, and runs C and C++ programs with the
#                          libraries, some of them under valgrind. If ABI_BEFORE is the libesker.so of
#                          an earlier release, abidiff compares the libraries.
#   scripts/capi.sh bench  also measures its calls beside those of LevelDB; ROUNDS KEYS may follow
#
# BUILD=no takes the libraries of an earlier run. Missing tools are skipped by name.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
out=$target/c

# Links the static library into one object in which only Esker's symbols are global. Code of other
# libraries in it (zstd, LZ4, Rust's standard library) then cannot conflict with a program's copy.
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

# Lists the functions declared in the header.
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
    cp bindings/c/include/esker.h bindings/c/include/esker.hpp "$out/"
    echo "capi: $out: libesker.so.$version, libesker.a, esker.h, esker.hpp" >&2
}

fail() {
    echo "capi: FAILED: $*" >&2
    exit 1
}

# Checks that both libraries define all declared functions, export nothing else, and have no debug
# sections.
check_exports() {
    local others library missing
    others=$({ nm -D --defined-only "$out/libesker.so"
        nm --defined-only --extern-only "$out/libesker.a"; } |
        awk 'NF == 3 && $3 !~ /^esker_/ { print $3 }' | sort -u)
    [ -z "$others" ] || fail "exported in addition to esker_*:" $others
    for library in "$out/libesker.a" "$out/libesker.so"; do
        missing=$(comm -23 <(declared) \
            <(nm $([ "${library##*.}" = so ] && echo -D) --defined-only "$library" |
                awk '$2 == "T" { print $3 }' | sort -u))
        [ -z "$missing" ] || fail "declared in esker.h but missing in $library:" $missing
    done
    local soname debug
    soname=$(readelf -d "$out/libesker.so" | sed -n 's/.*SONAME.*\[\(libesker\.so\.[0-9]*\)\]/\1/p')
    [ -n "$soname" ] || fail "libesker.so has no SONAME libesker.so.N"
    [ -e "$out/$soname" ] || fail "the file of the SONAME is missing: $soname"
    debug=$({ readelf -SW "$out/libesker.so"; readelf -SW "$out/libesker.a"; } |
        grep -c '\.debug_info' || true)
    [ "$debug" = 0 ] || fail "the libraries are not stripped"
    echo "capi: $(declared | wc -l) functions, no other symbol;" \
        "$(stat -Lc %s "$out/libesker.so") and $(stat -c %s "$out/libesker.a") bytes" >&2
}

# program SOURCE LINK…: compiles a program and runs it on a new directory.
program() {
    local source=$1
    shift
    ${CC:-cc} -std=c99 -Wall -Wextra -Werror -pedantic -I"$out" -o "$place/program" "$source" "$@"
    rm -rf "$place/db"* && LD_LIBRARY_PATH=$out "$place/program" "$place/db" >&2
}

# cxx_program STANDARD SOURCE LINK…: the same for C++.
cxx_program() {
    local standard=$1 source=$2
    shift 2
    ${CXX:-g++} -std="$standard" -Wall -Wextra -Werror -pedantic -I"$out" -o "$place/program" \
        "$source" "$@"
    rm -rf "$place/db"* && LD_LIBRARY_PATH=$out "$place/program" "$place/db" >&2
}

# under_valgrind NAME: runs the program that was compiled last again, on a new directory. Errors of its
# child processes are in the log, but not in the exit code.
under_valgrind() {
    rm -rf "$place/db"*
    valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite,possible \
        --log-file="$place/valgrind" "$place/program" "$place/db" >/dev/null &&
        [ ! -s "$place/valgrind" ] || {
        cat "$place/valgrind" >&2
        fail "$1 under valgrind"
    }
    echo "capi: $1 under valgrind: no error, no leak" >&2
}

# Compares the interface with that of an earlier library.
compare_abi() {
    if [ -z "${ABI_BEFORE:-}" ]; then
        echo "capi: skipped the comparison with an earlier release: ABI_BEFORE names none" >&2
    elif ! command -v abidiff >/dev/null; then
        echo "capi: skipped the comparison with $ABI_BEFORE: abidiff is not installed (apt install" \
            "abigail-tools)" >&2
    else
        abidiff --no-added-syms "$ABI_BEFORE" "$out/libesker.so" >&2 ||
            fail "the interface is not that of $ABI_BEFORE"
    fi
}

has_leveldb() {
    echo '#include <leveldb/c.h>' | ${CC:-cc} -fsyntax-only -x c - 2>/dev/null && return
    echo "capi: skipped LevelDB: its header is not installed (apt install libleveldb-dev)" >&2
    return 1
}

# Measures calls beside those of LevelDB.
bench() {
    has_leveldb || return 0
    ${CC:-cc} -std=c99 -O2 -Wall -Wextra -Werror -pedantic -I"$out" -o "$place/program" \
        bindings/c/bench/beside_leveldb.c "${static[@]}" -lleveldb
    rm -rf "$place/db"*
    uptime >&2
    "$place/program" "$place/db" "$@"
}

# page LANGUAGE: prints the program in that language of the README.
page() {
    awk -v fence="\`\`\`$1" '$0 == fence { on = 1; next } /^\`\`\`$/ { on = 0 } on' bindings/c/README.md
}

# cookbook: prints a program of the examples of the cookbook. A block that begins with `static` is
# at the level of the file, each other one a function.
cookbook() {
    printf '#include <esker.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n'
    awk '
        $0 == "```c" { on = 1; first = 1; next }
        /^```$/ { if (on && body) print "}"; on = 0; next }
        !on { next }
        first { first = 0; body = $0 !~ /^static/
            if (body) printf "static void recipe_%d(const char *dir) {\n", ++recipes }
        { print }
        END {
            print "int main(int argc, char **argv) {\n    if (argc != 2) return 2;"
            for (i = 1; i <= recipes; i++) printf "    recipe_%d(argv[1]);\n", i
            printf "    printf(\"cookbook: %d recipes\\n\");\n    return 0;\n}\n", recipes
        }' bindings/c/COOKBOOK.md
}

[ "${BUILD:-yes}" = no ] || build
case "${1:-}" in
test | bench) ;;
*) exit 0 ;;
esac

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
static=("$out/libesker.a" -lpthread -ldl -lm)
if [ "$1" = bench ]; then
    shift
    bench "$@"
    exit 0
fi
check_exports
compare_abi
valgrind=$(command -v valgrind || true)
[ -n "$valgrind" ] || echo "capi: skipped valgrind: it is not installed (apt install valgrind)" >&2
for name in esker feed wire encryption follower closing; do
    program "bindings/c/tests/$name.c" -L"$out" -lesker -lpthread
    program "bindings/c/tests/$name.c" "${static[@]}"
    [ -z "$valgrind" ] || under_valgrind "$name.c"
done
program bindings/c/bench/calls.c "${static[@]}"
for example in bindings/c/examples/*.c; do
    program "$example" -L"$out" -lesker
    program "$example" "${static[@]}"
done
page c >"$place/page.c"
program "$place/page.c" -L"$out" -lesker
cookbook >"$place/cookbook.c"
program "$place/cookbook.c" -L"$out" -lesker
if command -v "${CXX:-g++}" >/dev/null; then
    page cpp >"$place/page.cpp"
    cxx_program c++17 "$place/page.cpp" -L"$out" -lesker
    cxx_program c++17 bindings/c/tests/esker_hpp.cpp -L"$out" -lesker
    cxx_program c++20 bindings/c/tests/esker_hpp.cpp "${static[@]}"
    [ -z "$valgrind" ] || under_valgrind esker_hpp.cpp
    for example in bindings/c/examples/*.cpp; do
        cxx_program c++17 "$example" -L"$out" -lesker
    done
else
    echo "capi: skipped C++: ${CXX:-g++} is not installed (apt install g++)" >&2
fi
if has_leveldb; then
    program bindings/c/tests/beside_leveldb.c -L"$out" -lesker -lleveldb
    program bindings/c/tests/beside_leveldb.c -L"$out" -lleveldb -lesker
    program bindings/c/tests/beside_leveldb.c "${static[@]}" -lleveldb
    bench 1 1000 >/dev/null
fi
