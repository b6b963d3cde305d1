#!/usr/bin/env bash
# Tests scripts/install.sh: programs outside of this tree can use the installed files, and uninstall
# removes them. Installs the command of a debug build, which other tests need anyway; BUILD=no takes
# what is built. Prints the missing tools of skipped parts.
set -euo pipefail
cd "$(dirname "$0")/../.."
sources=$PWD/bindings/c/tests

say() { echo "install test: $*" >&2; }
fail() {
    say "FAILED: $*"
    exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

# quiet COMMAND…: runs a command and prints its output only if it fails.
quiet() {
    "$@" >"$place/log" 2>&1 || {
        cat "$place/log" >&2
        fail "$*"
    }
}

# Lists all paths below a directory, without following links.
listing() { (cd "$1" && find . | sort); }

# run PROGRAM LIBDIR: runs a program on a store in a new directory.
run() {
    rm -rf "$place/store"* # A program may create further stores.
    quiet env LD_LIBRARY_PATH="$2" "$1" "$place/store"
}

# Builds and runs the programs with pkg-config, in an empty directory: shared, and fully static if
# there is a static libc. Arguments: the library's directory, the sysroot (DESTDIR, or empty).
through_pkg_config() {
    if ! have pkg-config; then
        say "skipped pkg-config: it is not installed"
        return 0
    fi
    local build=$place/pkg-config kind flags
    rm -rf "$build" && mkdir "$build"
    (
        cd "$build"
        export PKG_CONFIG_PATH=$1/pkgconfig PKG_CONFIG_SYSROOT_DIR=$2
        [ -n "$2" ] || unset PKG_CONFIG_SYSROOT_DIR
        pkg-config --exact-version="$version" esker || fail "pkg-config reports another version"
        for kind in shared static; do
            flags=$(pkg-config --cflags --libs $([ $kind = static ] && echo --static) esker)
            [ $kind = shared ] || flags="-static $flags"
            if [ $kind = static ] && ! echo 'int main(void){return 0;}' |
                ${CC:-cc} -static -x c - -o probe 2>/dev/null; then
                say "skipped static programs: there is no static libc"
                continue
            fi
            # shellcheck disable=SC2086
            quiet ${CC:-cc} -std=c99 -o "c_$kind" "$sources/esker.c" $flags
            run "./c_$kind" "$1"
            have "${CXX:-g++}" || continue
            # shellcheck disable=SC2086
            quiet ${CXX:-g++} -std=c++11 -Wall -Wextra -Werror -o "cxx_$kind" \
                "$sources/installed/program.cc" $flags
            run "./cxx_$kind" "$1"
        done
    )
}

# The same with CMake. Arguments: the search directory of find_package, the library's directory.
through_cmake() {
    if ! have cmake || ! have "${CXX:-g++}" || ! { have make || have ninja; }; then
        say "skipped CMake: cmake, a C++ compiler or make is not installed"
        return 0
    fi
    local build=$place/cmake program
    rm -rf "$build" && mkdir "$build"
    configure() { cmake -S "$sources/installed" -B "$build/$1" -DCMAKE_PREFIX_PATH="$2" -DWANTED="$1"; }
    quiet configure "$version" "$1"
    quiet cmake --build "$build/$version"
    # Programs built by CMake have the library's path.
    for program in c_esker c_static cxx_esker cxx_static; do run "$build/$version/$program" ""; done
    if configure 99 "$1" >/dev/null 2>&1; then fail "CMake accepts it as version 99"; fi
}

# Checks that the man pages exist, and that formatters report no errors.
man_pages() {
    local page wanted left=""
    for wanted in esker esker-bench esker-lab esker-lab-run esker-get esker-shell; do
        [ -s "$1/share/man/man1/$wanted.1" ] || fail "the page $wanted(1) is missing"
    done
    for page in "$1"/share/man/man1/*.1; do
        if have man; then
            MANROFFSEQ='' MANWIDTH=80 LC_ALL=C.UTF-8 man --warnings -E UTF-8 -l -Tutf8 "$page" \
                >"$place/page" 2>"$place/log"
            [ ! -s "$place/log" ] || fail "$page: $(head -3 "$place/log")"
        else
            left="$left man"
        fi
        if have mandoc; then
            quiet mandoc -T lint -W error "$page"
        else
            left="$left mandoc"
        fi
    done
    grep -q write_buffer_size "$1/share/man/man1/esker-bench.1" ||
        fail "esker-bench(1) lacks the flags"
    [ -z "$left" ] || say "skipped formatters of the man pages:$(tr ' ' '\n' <<<"$left" | sort -u | tr '\n' ' ')"
}

completions() {
    quiet bash -c ". '$1/share/bash-completion/completions/esker'; complete -p esker"
    if have zsh; then quiet zsh -n "$1/share/zsh/site-functions/_esker"; fi
    if have fish; then quiet fish -n "$1/share/fish/vendor_completions.d/esker.fish"; fi
}

# Checks that the library's SONAME exists as a file, and that there are no debug sections.
stripped() {
    local soname file debug
    soname=$(readelf -d "$1/libesker.so" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
    [ -n "$soname" ] && [ -e "$1/$soname" ] || fail "$1/libesker.so has no SONAME, or its file is missing"
    for file in "$1/libesker.so" "$1/libesker.a" "$1/../bin/esker"; do
        debug=$(readelf -SW "$file" | grep -c '\.debug_info' || true)
        [ "$debug" = 0 ] || fail "$file is not stripped"
    done
}

quiet env PROFILE=debug BUILD="${BUILD:-yes}" PREFIX="$place/prefix" scripts/install.sh install
version=$("$place/prefix/bin/esker" --version | sed 's/esker \([0-9.]*\).*/\1/')
export BUILD=no PROFILE=debug
listing "$place/prefix" >"$place/first"
stripped "$place/prefix/lib"
through_pkg_config "$place/prefix/lib" ""
through_cmake "$place/prefix" "$place/prefix/lib"
man_pages "$place/prefix"
completions "$place/prefix"

# A second install gives the same files. Uninstall leaves only files of others.
echo "file $place/prefix/lib/of-an-earlier-version" >>"$place/prefix/share/esker/manifest"
touch "$place/prefix/lib/of-an-earlier-version" "$place/prefix/lib/of-somebody-else"
quiet env PREFIX="$place/prefix" scripts/install.sh install
listing "$place/prefix" | grep -v of-somebody-else | diff "$place/first" - >&2 ||
    fail "a second install differs from the first"
quiet env PREFIX="$place/prefix" scripts/install.sh uninstall
[ "$(listing "$place/prefix" | tr '\n' ' ')" = ". ./lib ./lib/of-somebody-else " ] ||
    fail "uninstall left or removed too much: $(listing "$place/prefix")"
rm "$place/prefix/lib/of-somebody-else"
if PREFIX="$place/prefix" scripts/install.sh uninstall 2>"$place/log"; then
    fail "a second uninstall does not fail"
fi
grep -q "nothing to uninstall" "$place/log" || fail "a second uninstall does not report that there is nothing to do"

# Below DESTDIR, with a separate library directory. CMake finds the moved installation.
where=(DESTDIR="$place/dest" PREFIX=/usr LIBDIR=/usr/lib/some-triplet)
quiet env "${where[@]}" scripts/install.sh install
if grep -rIl "$place" "$place/dest" >&2; then fail "an installed file contains DESTDIR"; fi
through_pkg_config "$place/dest/usr/lib/some-triplet" "$place/dest"
through_cmake "$place/dest/usr/lib/some-triplet/cmake" "$place/dest/usr/lib/some-triplet"
quiet env "${where[@]}" scripts/install.sh uninstall
[ "$(listing "$place/dest")" = . ] || fail "uninstall left: $(listing "$place/dest")"
say "passed with Esker $version"
