#!/usr/bin/env bash
# Installs the peer stores of the benchmarks, if possible. PEERS=no disables it.
set -euo pipefail

packages="libleveldb1d liblmdb0 librocksdb7.8 libdb5.3 libwiredtiger0 libsqlite3-0"
[ "${PEERS:-yes}" = no ] && exit 0

wanted=""
for package in $packages; do
    status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
    [ "$status" = "install ok installed" ] || wanted="$wanted $package"
done
[ -z "$wanted" ] && exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing packages of the peers:$wanted (PEERS=no skips this)" >&2
    if apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $wanted >/dev/null; then
        exit 0
    fi
    echo "the installation failed; missing peers are skipped" >&2
else
    echo "missing peers are skipped; to install them: sudo apt-get install -y$wanted" >&2
fi
