#!/usr/bin/env bash
# Processes that die, with an oracle outside of them: `torture.sh kills` (COUNT, 10000), `power`
# (COUNT cuts of each file system, 200; for root) or `soak` (MINUTES, 15). SEED (1) is the first
# store's; stores are made in TMPDIR.
set -euo pipefail
cd "$(dirname "$0")/.."

campaign=${1:?kills, power or soak}
arguments=(--seed "${SEED:-1}" --dir "${TMPDIR:-/tmp}")
case $campaign in
kills) arguments+=(--count "${COUNT:-10000}") ;;
power)
    arguments+=(--count "${COUNT:-200}")
    if [ "$(id -u)" != 0 ] || ! [ -e /dev/loop-control ]; then
        echo "skipped the power cuts of real file systems: they are mounted from files, which needs" \
            "root and loop devices" >&2
        exit 0
    fi
    for tool in mkfs.ext4 mkfs.xfs; do
        if ! command -v "$tool" >/dev/null; then
            echo "skipped the power cuts of real file systems: $tool is not installed" >&2
            exit 0
        fi
    done
    ;;
soak) arguments+=(--minutes "${MINUTES:-15}") ;;
*)
    echo "no campaign is called $campaign; there are kills, power and soak" >&2
    exit 2
    ;;
esac
cargo build --quiet --profile crash --package esker-testkit --bin torture
exec "${CARGO_TARGET_DIR:-target}/crash/torture" "$campaign" "${arguments[@]}"
