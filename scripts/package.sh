#!/usr/bin/env bash
# Checks the packages for publication: each can be packaged and has the metadata for a registry. A
# separate program builds and runs with only the packaged file of `esker`. With `whole`, every
# package is also built from its file (cargo builds dependent packages against these files).
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
packages=(esker esker-lab esker-peers esker-cli)
# All dependencies are already downloaded; newer versions are not looked up.
offline=--offline
[ "${1:-}" = whole ] && offline=

chosen=()
for name in "${packages[@]}"; do chosen+=(--package "$name"); done
verify=--no-verify
[ "${1:-}" = whole ] && verify=
# shellcheck disable=SC2086
cargo package --quiet --locked --allow-dirty $offline $verify "${chosen[@]}"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "package.sh: $*" >&2; exit 1; }

version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
for name in "${packages[@]}"; do
    file=$target/package/$name-$version.crate
    tar -xzf "$file" -C "$work" || fail "cargo package did not create $file"
    dir=$work/$name-$version
    for part in README.md LICENSE-MIT LICENSE-APACHE Cargo.toml src; do
        [ -s "$dir/$part" ] || fail "$name: $part is missing in the package"
        [ ! -L "$dir/$part" ] || fail "$name: $part is a symbolic link in the package"
    done
    for field in description license readme keywords categories rust-version; do
        grep -q "^$field = " "$dir/Cargo.toml" || fail "$name: Cargo.toml has no $field"
    done
    ! grep -q '^path = "\.\./' "$dir/Cargo.toml" || fail "$name: depends on a path outside of the package"
    [ ! -e "$dir/tests" ] || fail "$name: tests need crates that are not published"
done
ls "$work/esker-lab-$version/experiments" | diff - <(ls experiments) ||
    fail "esker-lab: an experiment is missing in the package; link it in crates/lab/experiments"

# A program of a user, which has only the packaged engine of this tree.
program=$work/program
mkdir -p "$program/src"
cat >"$program/Cargo.toml" <<TOML
[package]
name = "program"
version = "0.0.0"
edition = "2024"

[dependencies]
esker = { path = "../esker-$version" }

[workspace]
TOML
sed -n '/^```rust$/,/^```$/p' "$work/esker-$version/README.md" | sed '1d;$d' >"$program/src/main.rs"
cp Cargo.lock "$program/Cargo.lock"
cd "$program"
# shellcheck disable=SC2086
CARGO_TARGET_DIR=$target/packaged cargo build --quiet $offline
output=$("$target/packaged/debug/program")
[ "$output" = "banana = yellow" ] || fail "unexpected output of the README's program: $output"
echo "packages: ${packages[*]} $version"
