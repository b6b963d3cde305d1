#!/usr/bin/env bash
# Installs missing requirements of the tests: a C compiler for zstd and LZ4, and Rust components. If
# possible, also installs the requirements of the tests of the bindings and of mounted file systems;
# otherwise these tests are skipped by name.
set -euo pipefail

missing() { ! command -v "$1" >/dev/null 2>&1; }

if missing cc; then
    line="apt-get install -y gcc libc6-dev"
    if [ "$(id -u)" = 0 ] && ! missing apt-get; then
        echo "installing a C compiler: $line" >&2
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive $line >/dev/null
    else
        echo "a C compiler is missing: sudo $line" >&2
        exit 1
    fi
fi
if missing cargo; then
    echo "Rust is missing: install it with rustup" >&2
    exit 1
fi
if ! cargo fmt --version >/dev/null 2>&1 || ! cargo clippy --version >/dev/null 2>&1; then
    echo "installing rustfmt and clippy: rustup component add rustfmt clippy" >&2
    rustup component add rustfmt clippy
fi

wanted=""
missing g++ && wanted="$wanted g++"
missing cmake && wanted="$wanted cmake"
missing pkg-config && wanted="$wanted pkg-config"
missing valgrind && wanted="$wanted valgrind"
[ -e /usr/include/leveldb/db.h ] || wanted="$wanted libleveldb-dev"
# The tests of RocksDB's interface generate their bindings from its header.
ls /usr/lib/llvm-*/lib/libclang.so >/dev/null 2>&1 || wanted="$wanted libclang-dev"
python3 -m pip --version >/dev/null 2>&1 || wanted="$wanted python3-pip"
python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || wanted="$wanted python3-venv"
{ missing node || missing npm; } && wanted="$wanted nodejs npm"
# Only root can mount file systems.
if [ "$(id -u)" = 0 ]; then
    missing mkfs.xfs && wanted="$wanted xfsprogs"
    missing mkfs.btrfs && wanted="$wanted btrfs-progs"
    missing fusermount3 && wanted="$wanted fuse3"
    missing pkg-config && wanted="$wanted pkg-config"
    [ -e /usr/include/fuse3/fuse.h ] || wanted="$wanted libfuse3-dev"
fi
if [ -n "$wanted" ]; then
    if [ "$(id -u)" = 0 ] && ! missing apt-get; then
        echo "installing packages for the tests of the bindings and of file systems:$wanted" >&2
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $wanted; } \
            >/dev/null 2>&1 || echo "the installation failed; these tests are skipped" >&2
    else
        echo "some tests of the bindings are skipped; they need: sudo apt-get install -y$wanted" >&2
    fi
fi
