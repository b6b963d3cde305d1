#!/usr/bin/env bash
# A store on a device of 12 MiB that fills up, where the system lets us mount one.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! unshare --map-root-user --mount true 2>/dev/null; then
    echo "skipped the full device: this system lets us mount none" >&2
    exit 0
fi
disk=$(mktemp -d)
trap 'rmdir "$disk"' EXIT
program=$(cargo test --no-run --package esker --test limits --message-format short 2>&1 |
    sed -n 's/.*Executable.*(\(.*\))$/\1/p')
unshare --map-root-user --mount sh -c \
    'mount -t tmpfs -o size=12m none "$1" && ESKER_SMALL_DISK="$1" "$2" full_device' \
    sh "$disk" "$(realpath "$program")"
