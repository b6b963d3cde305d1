# shellcheck shell=bash
# Functions for scripts that build other people's programs from their packages. To be sourced; the
# script sets $work, the directory of the copies. A copy appears there when it is complete, with its
# version in the file .fetched.

# is_fetched NAME VERSION: whether $work/NAME is the copy of this version.
is_fetched() { [ "$(cat "$work/$1/.fetched" 2>/dev/null)" = "$2" ]; }

# put_copy NAME VERSION: makes $work/NAME.new the copy.
put_copy() {
    echo "$2" >"$work/$1.new/.fetched" && rm -rf "${work:?}/$1" && mv "$work/$1.new" "$work/$1"
}

# source_of CRATE VERSION: unpacks the source of a crate to $work/CRATE, from cargo's registry.
source_of() {
    local name=$1 version=$2 place=$work/fetch-$1 new=$work/$1.new found
    ! is_fetched "$name" "$version" || return 0
    mkdir -p "$place/src"
    echo "" >"$place/src/lib.rs"
    printf '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n[dependencies]\n%s = { version = "=%s", default-features = false }\n' \
        "$name" "$version" >"$place/Cargo.toml"
    (cd "$place" && ${CARGO:-cargo} fetch --quiet) || return 1
    found=$(find "${CARGO_HOME:-$HOME/.cargo}/registry/src" -maxdepth 2 -type d \
        \( -name "$name-$version" -o -name "$name-$version+*" \) | head -1)
    [ -n "$found" ] || return 1
    rm -rf "$new"
    cp -r "$found" "$new" || return 1
    # The program is built with the toolchain that is there.
    rm -f "$new/rust-toolchain" "$new/rust-toolchain.toml"
    # A package outside of this project's workspace.
    grep -q '^\[workspace\]' "$new/Cargo.toml" || printf '\n[workspace]\n' >>"$new/Cargo.toml"
    put_copy "$name" "$version"
}

# go_source_of MODULE VERSION NAME: unpacks the source of a Go module to $work/NAME.
go_source_of() {
    local version=$2 name=$3 place=$work/fetch-$3 new=$work/$3.new found
    ! is_fetched "$name" "$version" || return 0
    mkdir -p "$place"
    printf 'module fetch\n' >"$place/go.mod"
    found=$(cd "$place" && go mod download -json "$1@$version" 2>/dev/null |
        sed -n -E 's/^\s*"Dir": "(.*)",?$/\1/p')
    [ -n "$found" ] || return 1
    # Go's copies are read-only.
    [ ! -e "$new" ] || { chmod -R u+w "$new" && rm -rf "$new"; }
    cp -r "$found" "$new" && chmod -R u+w "$new" && put_copy "$name" "$version"
}
