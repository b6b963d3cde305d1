#!/usr/bin/env bash
# Kills processes that use stores, and checks the stores against an oracle outside of the processes:
# `torture.sh kills` (COUNT kills, 10000), `feed` (COUNT kills for each copy, 1000), `power` (COUNT
# power cuts per file system, 200; needs root) or `soak` (MINUTES, 15). SEED (1) is the seed of the
# first store. Stores are created in TMPDIR.
set -euo pipefail
cd "$(dirname "$0")/.."

campaign=${1:?usage: torture.sh kills|feed|power|soak}
arguments=(--seed "${SEED:-1}" --dir "${TMPDIR:-/tmp}")
case $campaign in
feed)
    scripts/peers.sh
    export FEED_KILLS=${COUNT:-1000} FEED_SEED=${SEED:-1}
    exec cargo test --quiet --profile crash --package esker-cli --test feed_copies -- --nocapture
    ;;
kills) arguments+=(--count "${COUNT:-10000}") ;;
power)
    arguments+=(--count "${COUNT:-200}")
    if [ "$(id -u)" != 0 ] || ! [ -e /dev/loop-control ]; then
        echo "skipped the power cuts of real file systems: mounting image files needs root and" \
            "loop devices" >&2
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
    echo "unknown campaign $campaign; the campaigns are kills, feed, power and soak" >&2
    exit 2
    ;;
esac
cargo build --quiet --profile crash --package esker-testkit --bin torture
exec "${CARGO_TARGET_DIR:-target}/crash/torture" "$campaign" "${arguments[@]}"
