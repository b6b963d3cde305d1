#!/usr/bin/env bash
# The packages that are meant to be published: each is made, has what a registry shows, and `esker`
# builds and runs from its packaged file alone, in a program of its own. With `whole` every package is
# also built from its file (cargo builds those that depend on others of them against these files).
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
packages=(esker esker-lab esker-peers esker-cli)
# What everything below was built with is there already; nothing newer is looked for.
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
    tar -xzf "$file" -C "$work" || fail "expected $file, made by cargo package"
    dir=$work/$name-$version
    for part in README.md LICENSE-MIT LICENSE-APACHE Cargo.toml src; do
        [ -s "$dir/$part" ] || fail "$name: $part is not in the package"
        [ ! -L "$dir/$part" ] || fail "$name: $part is a link in the package"
    done
    for field in description license readme keywords categories rust-version; do
        grep -q "^$field = " "$dir/Cargo.toml" || fail "$name: Cargo.toml names no $field"
    done
    ! grep -q '^path = "\.\./' "$dir/Cargo.toml" || fail "$name: depends on a path outside of it"
    [ ! -e "$dir/tests" ] || fail "$name: tests need crates that are not published"
done
ls "$work/esker-lab-$version/experiments" | diff - <(ls experiments) ||
    fail "esker-lab: not every experiment is in the package; link it in crates/lab/experiments"

# A stranger's program, which has nothing of this tree but the packaged engine.
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
said=$("$target/packaged/debug/program")
[ "$said" = "banana = yellow" ] || fail "the README's program said: $said"
echo "packages: ${packages[*]} $version"
