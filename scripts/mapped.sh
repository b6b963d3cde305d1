#!/usr/bin/env bash
# Makes pages of an open store's WAL inaccessible, on file systems mounted from image files: a full
# device, a full device after the WAL's blocks were shared, a shut down or aborted file system,
# failing reads. The store must return errors, continue reading, and lose no acknowledged write.
# QUICK=yes tests one file system per kind, only with `wal_io=mmap`. File systems that cannot be
# mounted are skipped by name.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$(id -u)" != 0 ] || ! [ -e /dev/loop-control ]; then
    echo "skipped the tests of mapped WALs on failing file systems:" \
        "mounting image files needs root and loop devices" >&2
    exit 0
fi
programs=$(cargo test --no-run --workspace --lib --test mapped --message-format short 2>&1 |
    sed -n 's/.*Executable.*(\(.*\))$/\1/p')
unit=$(realpath "$(grep '/esker-' <<<"$programs")")
program=$(realpath "$(grep '/mapped-' <<<"$programs")")

work=$(mktemp -d)
disk=$work/disk
mkdir "$disk"
trap 'umount "$disk" 2>/dev/null || true; rm -rf "$work"' EXIT
left_out=0 tried=0 failed=0 quick=${QUICK:-no}

# Mounts a new file system. Arguments: type, size in MiB, mkfs options, mount options.
fresh() {
    if ! command -v "mkfs.$1" >/dev/null; then
        echo "skipped $1: mkfs.$1 is not installed" >&2
        return 1
    fi
    rm -f "$work/image"
    truncate -s "$2M" "$work/image"
    # shellcheck disable=SC2086
    if ! "mkfs.$1" -q $3 "$work/image" >"$work/output" 2>&1 || ! mount -t "$1" -o "loop$4" "$work/image" "$disk" 2>>"$work/output"; then
        echo "skipped $1 ${4#,}: $(head -1 "$work/output")" >&2
        return 1
    fi
}

# Command that fills the device to its last block.
fill="n=0; for size in 64M 16M 4M 1M 256K 64K 16K 4K; do while fallocate -l \$size $disk/ballast-\$n 2>/dev/null; do n=\$((n + 1)); done; rm -f $disk/ballast-\$n; done; dd if=/dev/zero of=$disk/ballast-last bs=4k 2>/dev/null; sync -f $disk; true"
# Command that shares the blocks of every file with a copy.
share="for file in $disk/*/*; do cp --reflink=always \$file $disk/shared.\$(echo \$file | tr / .) || exit 1; done; sync -f $disk"
free="rm -f $disk/ballast* $disk/shared.* && sync -f $disk"
# FS_IOC_SHUTDOWN, without a flush of the journal.
shut_down="python3 -c 'import fcntl, os, struct; fcntl.ioctl(os.open(\"$disk\", 0), 0x8004587d, struct.pack(\"I\", 2))'"
abort="mount -o remount,abort $disk"

# Attacks a store. Arguments: name, expected error, attack command, repair command, the only
# `wal_io` (default: each in turn).
attack() {
    local name=$1 want=$2 only=${5:-}
    rm -f "$work"/notes*
    echo "$name:" >&2
    tried=$((tried + 1))
    if ! env ESKER_MAPPED_DIR="$disk" ESKER_MAPPED_WANT="$want" ESKER_MAPPED_ATTACK="$3" \
        ESKER_MAPPED_FREE="$4" ESKER_MAPPED_NOTES="$work/notes" ESKER_MAPPED_ONLY="$only" \
        "$program" --exact file_system_attack --nocapture >"$work/output" 2>&1; then
        echo "failed: $name" >&2
        tail -30 "$work/output" >&2
        failed=$((failed + 1))
    fi
    grep 'bytes copied into' "$work/output" >&2 || true
}

# Attacks a single file that is memory-mapped on any file system. Arguments: name, attack command.
attack_file() {
    tried=$((tried + 1))
    if ! env ESKER_MAPPED_DIR="$disk" ESKER_MAPPED_FAULT="$2" \
        "$unit" --exact fs::mapped::tests::unavailable_pages_are_errors_or_written --nocapture >"$work/output" 2>&1; then
        echo "failed: $1" >&2
        tail -30 "$work/output" >&2
        failed=$((failed + 1))
    fi
    echo "$1:" >&2
    grep 'bytes were copied' "$work/output" >&2 || true
}

# Mounts the same image again and checks the expected content. Arguments: type, mount options.
again() {
    umount "$disk"
    mount -t "$1" -o "loop$2" "$work/image" "$disk"
    if ! env ESKER_MAPPED_DIR="$disk" ESKER_MAPPED_NOTES="$work/notes" \
        "$program" --exact durable_writes_after_remount --nocapture >"$work/output" 2>&1; then
        echo "failed: $1, mounted again" >&2
        tail -30 "$work/output" >&2
        failed=$((failed + 1))
    fi
}

# Tests one combination. Arguments: file system, size in MiB, mkfs options, mount options, attack,
# expected error.
one() {
    local kind=$1 how=$5 want=$6 command repair="" name="$1 ${4#,}"
    case $how in
    full) command=$fill repair=$free ;;
    shared) command="$share && { $fill; }" repair=$free ;;
    shutdown) command=$shut_down ;;
    abort) command=$abort ;;
    esac
    # After a shutdown, the file system cannot be used for the other `wal_io`.
    local ways="mmap write" way
    [ -z "$repair" ] || ways=both
    [ "$quick" = no ] || ways=mmap
    for way in $ways; do
        fresh "$kind" "$2" "$3" "$4" || { left_out=$((left_out + 1)); return 0; }
        attack "$name, $how" "$want" "$command" "$repair" "${way#both}"
        again "$kind" "$4"
        umount "$disk"
    done
    fresh "$kind" "$2" "$3" "$4"
    attack_file "$name, $how, a mapped file" "$command"
    umount "$disk"
}

one xfs 320 "" "" shared "no space"
one ext4 96 "" ",data=journal" shutdown "an error"
one btrfs 128 "" "" full "no space"
if [ "$quick" = no ]; then
    one ext4 96 "" "" full "no space"
    one ext4 96 "" "" shutdown "an error"
    one ext4 96 "" "" abort "an error"
    one ext4 96 "" ",data=journal" full "no space"
    one ext4 96 "" ",data=journal" abort "an error"
    one ext4 96 "" ",nodelalloc" full "no space"
    one ext4 96 "" ",nodelalloc" shutdown "an error"
    one ext4 96 "" ",nodelalloc" abort "an error"
    one xfs 320 "" "" full "no space"
    one xfs 320 "" "" shutdown "an error"
    one btrfs 128 "" "" shared "no space"
fi

# Tests FUSE: reads fail, writes succeed.
fuse() {
    if ! [ -e /dev/fuse ] || ! command -v fusermount3 >/dev/null || ! pkg-config --exists fuse3 2>/dev/null; then
        echo "skipped FUSE: it needs /dev/fuse, fuse3 and libfuse3-dev" >&2
        left_out=$((left_out + 1))
        return 0
    fi
    # shellcheck disable=SC2046
    cc -O2 -o "$work/unreadable" scripts/mapped/unreadable.c $(pkg-config --cflags --libs fuse3)
    mkdir "$work/under"
    if ! UNDER=$work/under UNREADABLE=$work/now "$work/unreadable" "$disk"; then
        echo "skipped FUSE: mounting failed" >&2
        left_out=$((left_out + 1))
        return 0
    fi
    # Evicts the page cache, because cached pages would hide the failing reads.
    local evict="for file in $disk/*/*; do dd if=\$file iflag=nocache count=0 2>/dev/null; done; touch $work/now"
    local way=
    [ "$quick" = no ] || way=mmap
    attack "FUSE, reads fail" nothing "$evict" "rm -f $work/now" "$way"
    attack_file "FUSE, reads fail, a mapped file" "$evict"
    rm -f "$work/now"
    umount "$disk"
}
fuse

echo "$((tried - failed)) passed, $failed failed, $left_out skipped" >&2
[ "$failed" = 0 ]
