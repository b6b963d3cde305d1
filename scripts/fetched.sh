# Functions for scripts that build other people's programs from their packages. To be sourced; the
# script sets $work, the directory of the copies.

# source_of CRATE VERSION: unpacks the source of a crate to $work/CRATE, from cargo's registry.
source_of() {
    local name=$1 version=$2 place=$work/fetch-$1 found
    [ -e "$work/$name/Cargo.toml" ] && return 0
    mkdir -p "$place/src"
    echo "" >"$place/src/lib.rs"
    printf '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n[dependencies]\n%s = { version = "=%s", default-features = false }\n' \
        "$name" "$version" >"$place/Cargo.toml"
    (cd "$place" && ${CARGO:-cargo} fetch --quiet) || return 1
    found=$(find "${CARGO_HOME:-$HOME/.cargo}/registry/src" -maxdepth 2 -type d \
        -name "$name-$version*" | head -1)
    [ -n "$found" ] || return 1
    cp -r "$found" "$work/$name"
    # The program is built with the toolchain that is there.
    rm -f "$work/$name/rust-toolchain" "$work/$name/rust-toolchain.toml"
    # A package outside of this project's workspace.
    grep -q '^\[workspace\]' "$work/$name/Cargo.toml" || printf '\n[workspace]\n' >>"$work/$name/Cargo.toml"
}

# go_source_of MODULE VERSION NAME: unpacks the source of a Go module to $work/NAME.
go_source_of() {
    local place=$work/fetch-$3 found
    [ -e "$work/$3/go.mod" ] && return 0
    mkdir -p "$place"
    printf 'module fetch\n' >"$place/go.mod"
    found=$(cd "$place" && go mod download -json "$1@$2" 2>/dev/null |
        sed -n -E 's/^\s*"Dir": "(.*)",?$/\1/p')
    [ -n "$found" ] || return 1
    cp -r "$found" "$work/$3" && chmod -R u+w "$work/$3"
}
