#!/usr/bin/env bash
# Tests the portable half of the engine (`--cfg esker_portable`): files through the standard library
# alone, no memory maps, neither rustix nor libc. The short form runs a part of the integration tests,
# one of them with all values in value files (see `scripts/separated.sh`).
# FULL=yes runs all tests, Clippy, and a check of the code for macOS and for Windows, where their
# standard libraries are installed.
set -euo pipefail
cd "$(dirname "$0")/.."
export RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/rustc/portable.sh
export RUSTDOCFLAGS="--cfg esker_portable ${RUSTDOCFLAGS:-}"

# Only a compression may bring libc: the C code of LZ4 has its types.
tree=$(cargo tree --package esker --edges normal --no-default-features --prefix none)
if grep -E '^(rustix|libc|linux-raw-sys|memmap2?) ' <<<"$tree"; then
    echo "portable.sh: the portable half depends on a package for one system" >&2
    exit 1
fi

if [ "${FULL:-no}" != yes ]; then
    cargo test --package esker --test crash --test concurrent
    export RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/rustc/portable-separated.sh
    cargo test --package esker --test model
    exit 0
fi

cargo clippy --package esker -- -D warnings
cargo clippy --package esker --all-targets -- -D warnings
cargo test --package esker
installed=$(rustup target list --installed 2>/dev/null || true)
for target in aarch64-apple-darwin x86_64-pc-windows-gnu; do
    if grep -qx "$target" <<<"$installed"; then
        cargo check --package esker --no-default-features --target "$target"
    else
        echo "skipped $target: its standard library is not installed (rustup target add)" >&2
    fi
done
