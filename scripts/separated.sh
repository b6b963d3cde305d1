#!/usr/bin/env bash
# Runs tests with all values in value files: `--cfg esker_separated` makes 0 the default of
# `value_separation_min_bytes`. The tests are those of the engine and of the test kit, and those of
# other projects through LevelDB's and RocksDB's interfaces. `scripts/portable.sh` has a short form.
# Arguments: only these parts (engine, kit, leveldb, rocksdb).
set -euo pipefail
cd "$(dirname "$0")/.."
export RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/rustc/separated.sh
failed=0
for part in ${*:-engine kit leveldb rocksdb}; do
    echo "== $part" >&2
    case $part in
    engine) cargo test --no-fail-fast --package esker || failed=1 ;;
    kit) cargo test --no-fail-fast --package esker-testkit || failed=1 ;;
    leveldb) scripts/dropin.sh || failed=1 ;;
    rocksdb) scripts/rocksdb-suite.sh || failed=1 ;;
    *)
        echo "separated.sh: unknown part $part" >&2
        exit 2
        ;;
    esac
done
exit "$failed"
