#!/usr/bin/env bash
# Runs two unchanged programs that store their data in LevelDB, alternately on LevelDB and on Esker.
# Each is killed with SIGKILL and must recover all its data. Prints a table of medians over ROUNDS
# (default 3), with minimum and maximum.
#
# `scripts/apps.sh round PROGRAM-ENGINE` is one round of experiments/applications.toml, with lines of
# JSON on standard output: `esker lab run applications` calls it. It ends when its standard input does.
set -euo pipefail
cd "$(dirname "$0")/.."

shim=$(realpath -m "${CARGO_TARGET_DIR:-target}")/shim
rounds=${ROUNDS:-3}
# Above height 431, regtest requires transactions that this script does not create.
blocks=${BLOCKS:-400}
running=""
watch=""
mode=table
rows=()
if [ $# = 2 ] && [ "$1" = round ]; then
    mode=round
elif [ $# != 0 ]; then
    echo "usage: scripts/apps.sh [round PROGRAM-ENGINE]" >&2
    exit 2
fi

say() { echo "apps: $*" >&2; }
fail() {
    say "$*"
    exit 1
}
stop() {
    if [ -n "$running" ]; then
        kill -9 "$running" 2>/dev/null || true
        wait "$running" 2>/dev/null || true
        running=""
    fi
}
place=$(mktemp -d)
trap 'stop; [ -z "$watch" ] || kill "$watch" 2>/dev/null || true; rm -rf "${place:?}"/*; [ $mode = round ] || rmdir "$place"' EXIT
trap 'exit 143' TERM
# Prints the library path of an engine: Esker's library, or none, so that the installed one is used.
library() { if [ "$1" = esker ]; then echo "$shim"; else echo /nonexistent; fi; }
check_library() {
    local ours=no
    grep -qF "$shim/libleveldb.so.1d" "/proc/$running/maps" && ours=yes
    [ "$1-$ours" = esker-yes ] || [ "$1-$ours" = leveldb-no ] || fail "$1: the wrong library is loaded"
}
# row PROGRAM WHAT ENGINE PHASE COUNT SECONDS: what the running program did, for the table or as JSON.
row() {
    local bytes peak_kib
    bytes=$(written)
    if [ $mode = table ]; then
        rows+=("$1 $2 $3 $(echo "$5 / $6" | bc -l) $bytes")
        return
    fi
    peak_kib=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$running/status")
    printf '{"phase":"%s","operations":%d,"seconds":%.6f,"peak_memory_bytes":%d,"disk_bytes":%d}\n' "$4" "$5" "$6" \
        $((peak_kib * 1024)) "$(du -sb "$place" | cut -f1)"
}
written() { sed -n 's/^write_bytes: //p' "/proc/$running/io"; }
now() { date +%s.%N; }
wait_for() { # wait_for SECONDS COMMAND...
    local tries=$(($1 * 10))
    shift
    for _ in $(seq "$tries"); do
        "$@" >/dev/null 2>&1 && return 0
        kill -0 "$running" 2>/dev/null || return 1
        sleep 0.1
    done
    return 1
}

cli() { litecoin-cli -regtest -datadir="$data" -rpcport=28999 "$@"; }
litecoin_start() {
    LD_LIBRARY_PATH=$(library "$1") /usr/lib/litecoin/litecoind -regtest -datadir="$data" \
        -rpcport=28999 -port=28998 -listen=0 -dnsseed=0 -dbcache=4 >"$place/litecoin.log" 2>&1 &
    running=$!
    wait_for 30 cli getblockcount || fail "litecoind on $1 does not respond; log: $place/litecoin.log"
}
# One round: mine blocks, make them durable, kill the program, restart it and check the blocks.
litecoin() {
    local engine=$1 began seconds address
    data=$place/litecoin-$engine
    rm -rf "$data" && mkdir -p "$data"
    litecoin_start "$engine"
    check_library "$engine"
    cli createwallet w >/dev/null
    address=$(cli getnewaddress)
    began=$(now)
    for _ in $(seq 10); do
        cli generatetoaddress $((blocks / 10)) "$address" >/dev/null
        # Writes the coin set and the block index to the database.
        cli gettxoutsetinfo >/dev/null
    done
    seconds=$(echo "$(now) - $began" | bc)
    row litecoind_-regtest blocks_mined/s "$engine" "mine blocks" "$blocks" "$seconds"
    stop
    began=$(now)
    litecoin_start "$engine"
    [ "$(cli getblockcount)" = "$blocks" ] || fail "litecoind on $engine lost blocks after a kill -9"
    [ "$(cli verifychain 4 0)" = true ] || fail "litecoind on $engine: verifychain failed"
    seconds=$(echo "$(now) - $began" | bc)
    row litecoind_-regtest blocks_verified/s "$engine" "verify after a kill" "$blocks" "$seconds"
    cli stop >/dev/null
    wait "$running" || true
    running=""
}

minetest_start() {
    : >"$place/minetest.out"
    LD_LIBRARY_PATH=$(library "$1") /usr/lib/minetest/minetestserver --config "$world/conf" \
        --logfile "$world/log" --world "$world" --gameid devtest --port 30123 \
        >"$place/minetest.out" 2>&1 &
    running=$!
    wait_for 100 grep -q '^EMERGED' "$place/minetest.out" ||
        fail "minetestserver on $1 did not finish: $(tail -3 "$place/minetest.out")"
}
number() { sed -n "s/^EMERGED.* $1=\([0-9.]*\).*/\1/p" "$place/minetest.out"; }
minetest() {
    local engine=$1 total
    world=$place/minetest-$engine
    rm -rf "$world" && mkdir -p "$world/worldmods/emerge"
    printf '%s_backend = leveldb\n' player auth >"$world/world.mt"
    printf 'gameid = devtest\nbackend = leveldb\nmod_storage_backend = files\n' >>"$world/world.mt"
    printf 'mg_name = v7\nfixed_map_seed = 42\nnum_emerge_threads = 1\nserver_map_save_interval = 1\n' \
        >"$world/conf"
    echo 'name = emerge' >"$world/worldmods/emerge/mod.conf"
    cp scripts/apps/emerge.lua "$world/worldmods/emerge/init.lua"
    minetest_start "$engine"
    check_library "$engine"
    total=$(($(number disk) + $(number generated) + $(number memory)))
    [ "$(number generated)" -gt 0 ] && [ "$(number failed)" = 0 ] || fail "minetestserver on $engine failed to generate the world"
    row minetestserver map_blocks_generated/s "$engine" "generate a map" "$total" "$(number seconds)"
    stop
    minetest_start "$engine"
    # Lost map blocks would be generated again.
    [ "$(number generated)" = 0 ] && [ "$(number failed)" = 0 ] &&
        [ $(($(number disk) + $(number memory))) = "$total" ] ||
        fail "minetestserver on $engine: $(number disk) of $total map blocks found after a kill -9"
    row minetestserver map_blocks_read_back/s "$engine" "read it after a kill" "$total" "$(number seconds)"
    stop
}

install() {
    local missing=""
    [ -x /usr/lib/litecoin/litecoind ] || missing="$missing litecoind"
    [ -x /usr/lib/minetest/minetestserver ] || missing="$missing minetest-server"
    command -v bc >/dev/null || missing="$missing bc"
    [ -z "$missing" ] && return 0
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "installing$missing"
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -qq --no-install-recommends $missing; } >/dev/null 2>&1 && return 0
    fi
    fail "missing programs; to install them: sudo apt-get install -y$missing"
}

if [ $mode = round ]; then
    app=${2%-*} engine=${2##*-}
    [[ $app =~ ^(litecoin|minetest)$ && $engine =~ ^(leveldb|esker)$ ]] ||
        fail "unknown round $2; there are litecoin and minetest, each with -leveldb and -esker"
    read -r request || fail "expected the round's description on standard input"
    blocks=$(sed -n 's/.*"entries":\([0-9]*\).*/\1/p' <<<"$request")
    # They are mined in ten parts.
    blocks=$((${blocks:-0} / 10 * 10))
    [ "$app" = minetest ] || { [ $blocks -ge 10 ] && [ $blocks -le 430 ]; } ||
        fail "entries are the blocks that litecoind mines: 10 to 430, found $blocks"
    directory=$(sed -n 's/.*"directory":"\([^"\\]*\)".*/\1/p' <<<"$request")
    [ -d "$directory" ] || fail "the directory of the round does not exist: ${directory:-none was given}"
    rmdir "$place"
    place=$directory
    # What follows must not outlive the laboratory.
    exec 3<&0 </dev/null
    (cat <&3 >/dev/null 2>&1 && kill -TERM $$) 2>/dev/null &
    watch=$!
    install >&2
    SHIM=must scripts/shim.sh >&2
    "$app" "$engine"
    exit 0
fi
install
SHIM=must scripts/shim.sh
for round in $(seq "$rounds"); do
    for engine in leveldb esker; do
        for app in litecoin minetest; do
            say "round $round of $rounds: $app on $engine"
            $app "$engine"
        done
    done
done
echo "| program | what | LevelDB | Esker | written, LevelDB | written, Esker |"
echo "|---|---|---|---|---|---|"
printf '%s\n' "${rows[@]}" | sort -k1,3 -k4,4n | awk '
    function close_group() {
        if (n) {
            middle = int((n + 1) / 2)
            rate[key, who] = sprintf("%.0f (%.0f..%.0f)", r[middle], r[1], r[n])
            bytes[key, who] = sprintf("%.1f MiB", b[middle] / 1048576)
        }
        n = 0
    }
    {
        if ($1 " " $2 != key || $3 != who) {
            close_group()
            key = $1 " " $2; who = $3
            if (!(key in seen)) { seen[key]; order[++k] = key }
        }
        r[++n] = $4; b[n] = $5
    }
    END {
        close_group()
        for (i = 1; i <= k; i++) {
            split(order[i], name, " "); gsub("_", " ", name[1]); gsub("_", " ", name[2])
            printf "| %s | %s | %s | %s | %s | %s |\n", name[1], name[2],
                rate[order[i], "leveldb"], rate[order[i], "esker"],
                bytes[order[i], "leveldb"], bytes[order[i], "esker"]
        }
    }'
