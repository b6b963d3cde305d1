#!/usr/bin/env bash
# Installs the stores that Esker is measured beside, where that may be done.
set -euo pipefail

packages="libleveldb1d liblmdb0 librocksdb7.8 libdb5.3 libwiredtiger0"
[ "${PEERS:-yes}" = no ] && exit 0

wanted=""
for package in $packages; do
    status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
    [ "$status" = "install ok installed" ] || wanted="$wanted $package"
done
[ -z "$wanted" ] && exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing the peers' packages:$wanted (PEERS=no skips this)" >&2
    if apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $wanted >/dev/null; then
        exit 0
    fi
    echo "that did not work; peers that are not installed are left out" >&2
else
    echo "peers not installed are left out; to install them: sudo apt-get install -y$wanted" >&2
fi
