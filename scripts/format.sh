#!/usr/bin/env bash
# Proves that stores of format version 1 stay readable by the release before: this tree's engine
# writes into the golden stores and into a new one, without an upgrade; the engine of the commit in
# scripts/format/before opens them, compares every pair, verifies every byte, and writes, too; this
# tree's engine reads that. After an upgrade the release before must refuse them as newer.
set -euo pipefail
cd "$(dirname "$0")/.."

commit=$(grep -v '^#' scripts/format/before)
if ! git cat-file -e "$commit^{commit}" 2>/dev/null; then
    echo "skipped format.sh: this clone has no commit $commit (git fetch --unshallow)" >&2
    exit 0
fi
target=${CARGO_TARGET_DIR:-$PWD/target}/format
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree"
git archive "$commit" | tar -x -C "$work/tree"

# Builds the program with the engine of the tree $2, with the features $3. Both builds have the
# dependencies of this tree's Cargo.lock, so that these are compiled once.
build() {
    mkdir "$work/$1"
    cat >"$work/$1/Cargo.toml" <<TOML
[package]
name = "format-$1"
version = "0.0.0"
edition = "2024"

[[bin]]
name = "format-$1"
path = "$PWD/scripts/format/src/main.rs"

[dependencies]
esker = { path = "$2/crates/esker", features = ["zstd", "snappy", "encryption"] }
zstd = "0.14"

[features]
upgrade = []

[profile.dev]
opt-level = 1
debug = false

[workspace]
TOML
    cp Cargo.lock "$work/$1/Cargo.lock"
    CARGO_TARGET_DIR=$target cargo build --quiet --offline --manifest-path "$work/$1/Cargo.toml" \
        --features "$3"
}
build before "$work/tree" ""
build now "$PWD" upgrade
before=$target/debug/format-before
now=$target/debug/format-now

stores=$work/stores
mkdir "$stores"
"$now" unpack crates/esker/tests/golden "$stores"
"$now" create "$stores/v1-new"
"$now" write "$stores" 1
"$before" check "$stores"
"$before" write "$stores" 2
"$now" check "$stores"
"$now" write "$stores" 3
"$before" check "$stores"
"$now" upgrade "$stores"
"$now" check "$stores"
"$before" refused "$stores"
