#!/usr/bin/env bash
# install.sh install|uninstall|test: installs or removes the command, the library for C and C++, man
# pages and completions under PREFIX (/usr/local), below DESTDIR if set, with libraries in LIBDIR
# (PREFIX/lib). Installed files are listed in PREFIX/share/esker/manifest; uninstall removes only
# those. BUILD=no installs an existing build. PROFILE=debug installs the command of a debug build.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
prefix=$(realpath -ms "${PREFIX:-/usr/local}")
libdir=$(realpath -ms "${LIBDIR:-$prefix/lib}")
dest=${DESTDIR:+$(realpath -ms "$DESTDIR")}
share=$prefix/share
manifest=$share/esker/manifest
profile=${PROFILE:-release}

say() { echo "install: $*" >&2; }
fail() {
    say "$*"
    exit 1
}

build() {
    [ "${BUILD:-yes}" = no ] && return 0
    if ! command -v "${CARGO:-cargo}" >/dev/null 2>&1; then
        fail "cargo not found: build as a user with cargo (make capi; cargo build" \
            "--release -p esker-cli), then install with BUILD=no"
    fi
    local flags=()
    [ "$profile" = debug ] || flags=(--release)
    ${CARGO:-cargo} build "${flags[@]}" -p esker-cli
    scripts/capi.sh
}

# folder PATH: creates a directory and its parents, if missing, and records them in the manifest.
folder() {
    [ -d "$dest$1" ] && return 0
    folder "$(dirname "$1")"
    mkdir "$dest$1"
    echo "folder $1" >>"$made"
}

# put MODE SOURCE PATH: installs a file.
put() {
    folder "$(dirname "$3")"
    install -m "$1" "$2" "$dest$3"
    echo "file $3" >>"$made"
}

# link TARGET PATH: installs a symbolic link.
link() {
    folder "$(dirname "$2")"
    ln -sfn "$1" "$dest$2"
    echo "file $2" >>"$made"
}

# Escapes a path for the replacement part of a sed command.
plain() { sed 's/[\\&|]/\\&/g' <<<"$1"; }

# filled TEMPLATE PATH: installs a template of bindings/c/install with its variables replaced.
filled() {
    local to_prefix
    to_prefix=$(realpath -m --relative-to="$libdir/cmake/esker" "$prefix")
    sed -e "s|@PREFIX@|$(plain "$prefix")|; s|@LIBDIR@|$(plain "$libdir")|" \
        -e "s|@TO_PREFIX@|$(plain "$to_prefix")|" \
        -e "s|@VERSION@|$version|; s|@MAJOR@|${version%%.*}|" "bindings/c/install/$1.in" \
        >"$staged/$1"
    put 644 "$staged/$1" "$2/$1"
}

install_all() {
    build
    local esker=$target/$profile/esker library
    [ -x "$esker" ] || fail "$esker is missing: install without BUILD=no"
    library=$(realpath "$target/c/libesker.so" 2>/dev/null) && [ -e "$library" ] ||
        fail "$target/c/libesker.so is missing: install without BUILD=no"
    version=${library##*.so.}
    staged=$(mktemp -d)
    trap 'rm -rf "$staged"' EXIT
    made=$staged/manifest
    : >"$made"
    [ -z "$dest" ] || mkdir -p "$dest"

    strip -o "$staged/esker" "$esker"
    put 755 "$staged/esker" "$prefix/bin/esker"
    put 644 "$library" "$libdir/libesker.so.$version"
    link "libesker.so.$version" "$libdir/libesker.so.${version%%.*}"
    link "libesker.so.${version%%.*}" "$libdir/libesker.so"
    put 644 "$target/c/libesker.a" "$libdir/libesker.a"
    put 644 "$target/c/esker.h" "$prefix/include/esker.h"
    put 644 "$target/c/esker.hpp" "$prefix/include/esker.hpp"
    filled esker.pc "$libdir/pkgconfig"
    filled esker-config.cmake "$libdir/cmake/esker"
    filled esker-config-version.cmake "$libdir/cmake/esker"

    local page
    "$esker" man --dir "$staged/man"
    for page in "$staged"/man/*.1; do put 644 "$page" "$share/man/man1/$(basename "$page")"; done
    completion bash "$share/bash-completion/completions/esker"
    completion zsh "$share/zsh/site-functions/_esker"
    completion fish "$share/fish/vendor_completions.d/esker.fish"
    for page in LICENSE-APACHE LICENSE-MIT README.md; do
        put 644 "$page" "$share/doc/esker/$page"
    done
    keep_manifest
    say "$(grep -c '^file' "$dest$manifest") files of Esker $version under $dest$prefix"
    known_to_the_loader
}

# completion SHELL PATH: installs a completion script.
completion() {
    "$target/$profile/esker" completions "$1" >"$staged/completion"
    put 644 "$staged/completion" "$2"
}

# Writes the manifest, including directories of an earlier install. Removes files that only the
# earlier install had.
keep_manifest() {
    folder "$(dirname "$manifest")"
    echo "file $manifest" >>"$made"
    if [ -e "$dest$manifest" ]; then
        { grep -vxFf "$made" "$dest$manifest" || true; } >"$staged/before"
        { grep '^file ' "$staged/before" || true; } | remove_files
        grep '^folder ' "$staged/before" >>"$made" || true
    fi
    sort -u "$made" >"$staged/sorted"
    install -m 644 "$staged/sorted" "$dest$manifest"
}

# Updates the loader's cache if the loader searches this directory; otherwise prints a hint.
known_to_the_loader() {
    [ -z "$dest" ] || return 0
    local ldconfig folders
    ldconfig=$(PATH=$PATH:/usr/sbin:/sbin command -v ldconfig) || return 0
    folders=$("$ldconfig" -v -N 2>/dev/null | grep '^/' | cut -d: -f1)
    if ! grep -qxF "$libdir" <<<"$folders"; then
        say "the loader does not search $libdir: programs need LD_LIBRARY_PATH or an rpath"
    elif [ "$(id -u)" = 0 ]; then
        "$ldconfig"
    else
        say "run ldconfig as root, so that the loader finds libesker.so"
    fi
}

# remove_files: removes the files listed on standard input, if they are in Esker's directories.
remove_files() {
    local path
    while read -r _ path; do
        case $path in
        "$prefix"/* | "$libdir"/*) rm -f "$dest$path" ;;
        *) say "not removed, because it is not under $prefix: $path" ;;
        esac
    done
}

uninstall_all() {
    [ -e "$dest$manifest" ] ||
        fail "there is nothing to uninstall: no $dest$manifest (PREFIX and DESTDIR as for install)"
    local listed path
    listed=$(cat "$dest$manifest")
    grep '^file ' <<<"$listed" | remove_files
    # Deepest directories first. A directory with other files stays.
    grep '^folder ' <<<"$listed" | sort -r | while read -r _ path; do
        rmdir "$dest$path" 2>/dev/null || true
    done
    say "Esker was removed from $dest$prefix"
}

case ${1:-} in
install) install_all ;;
uninstall) uninstall_all ;;
test) exec scripts/install/test.sh ;;
*) fail "usage: install.sh install|uninstall|test" ;;
esac
