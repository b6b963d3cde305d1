#!/usr/bin/env bash
# Tests stores at resource limits: a device of 12 MiB that fills up, a device with few inodes, and a
# user quota, if they can be mounted; and memory cgroups, if they can be created.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! unshare --map-root-user --mount true 2>/dev/null; then
    echo "skipped the full device: mounting is not permitted" >&2
    exit 0
fi
disk=$(mktemp -d)
trap 'rmdir "$disk"' EXIT
# test_program NAME: builds a test and prints its program.
test_program() {
    cargo test --no-run --workspace --test "$1" --message-format short 2>&1 |
        sed -n 's/.*Executable.*(\(.*\))$/\1/p'
}
program=$(test_program limits)
on_tmpfs() {
    unshare --map-root-user --mount sh -c \
        'mount -t tmpfs -o "$2" none "$1" && env "$3=$1" "$4" "$5"' \
        sh "$disk" "$1" "$2" "$(realpath "$program")" "$3"
}
on_tmpfs size=12m ESKER_SMALL_DISK full_device
on_tmpfs size=200m,nr_inodes=45 ESKER_FEW_INODES no_more_files

# Uses quotas of the file system itself. Quotas do not apply to root, so the test drops to a user.
under_a_quota() {
    local image=$disk.ext4 device
    truncate -s 64M "$image"
    if [ "$(id -u)" != 0 ] || ! mkfs.ext4 -q -O quota -E quotatype=usrquota "$image" 2>/dev/null ||
        ! device=$(losetup --find --show "$image" 2>/dev/null); then
        rm -f "$image"
        echo "skipped the quota: it needs root, mkfs.ext4 and loop devices" >&2
        return 0
    fi
    local failed=0
    if mount -o usrquota "$device" "$disk" 2>/dev/null; then
        chmod 755 "$disk"
        ESKER_QUOTA=$disk ESKER_QUOTA_DEVICE=$device "$(realpath "$program")" with_a_quota || failed=1
        umount "$disk"
    else
        echo "skipped the quota: mounting ext4 with quotas failed" >&2
    fi
    losetup --detach "$device"
    rm -f "$image"
    return "$failed"
}
under_a_quota

group=/sys/fs/cgroup/memory/esker-limits-$$
if ! mkdir "$group" 2>/dev/null || ! echo 64M > "$group/memory.limit_in_bytes" 2>/dev/null; then
    rmdir "$group" 2>/dev/null || true
    echo "skipped the memory cgroup: creating one is not permitted" >&2
    exit 0
fi
trap 'rmdir "$disk" "$group/inner" "$group" 2>/dev/null || true' EXIT
ESKER_LIMITS_KEYS=${ESKER_LIMITS_KEYS:-300000} sh -c 'echo $$ > "$1/tasks" && exec "$2" twice_the_budget' \
    sh "$group" "$(realpath "$program")"
echo "maximum memory in a cgroup of 64 MiB: $(cat "$group/memory.max_usage_in_bytes") bytes" >&2

# A store with default options finds the memory limit by itself: the limit of its own group, and the
# limit of the parent group if its own group has none.
mkdir "$group/inner"
echo 96M > "$group/memory.limit_in_bytes"
for place in "$group" "$group/inner"; do
    echo 0 > "$group/memory.max_usage_in_bytes"
    ESKER_GROUP_BYTES=$((96 << 20)) ESKER_GROUP_PUTS=${ESKER_GROUP_PUTS:-2000000} sh -c \
        'echo $$ > "$1/tasks" && exec "$2" within_its_control_group' sh "$place" "$(realpath "$program")"
    echo "maximum memory of a default store in a cgroup of 96 MiB: $(cat "$group/memory.max_usage_in_bytes") bytes" >&2
done

# Two hundred stores that are written at once share a budget of 128 MiB. The limit of their group, in
# which the program itself also counts, is a fifth above the budget.
stores=$(test_program runtime_processes)
echo $((128 * 6 / 5))M > "$group/memory.limit_in_bytes"
echo 0 > "$group/memory.max_usage_in_bytes"
# On a disk: files in memory would count too, and cannot be given up.
dir=$(mktemp -d -p "${CARGO_TARGET_DIR:-target}")
trap 'rm -rf "$dir"; rmdir "$disk" "$group/inner" "$group" 2>/dev/null || true' EXIT
output=$(ESKER_RUNTIME=budget ESKER_RUNTIME_DIR=$dir sh -c \
    'echo $$ > "$1/tasks" && exec "$2" --exact inside --nocapture' sh "$group" "$(realpath "$stores")") || {
    echo "200 stores in a cgroup of a fifth above their budget: failed: $output" >&2
    exit 1
}
grep -q '1 passed' <<<"$output"
echo "200 stores in a cgroup of a fifth above their budget: $(grep 'MiB at most' <<<"$output")" >&2
