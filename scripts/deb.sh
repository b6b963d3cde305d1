#!/usr/bin/env bash
# deb.sh [test]: builds target/deb/*.deb for Debian: esker (the command, man pages, completions),
# libesker0 (the shared library) and libesker-dev (headers, static library, pkg-config, CMake).
# With `test`, checks them with lintian, then installs, uses and removes them in a clean Debian that
# debootstrap makes below target/deb; for root. BUILD=no packs an existing build. MAINTAINER="NAME
# <ADDRESS>" names the maintainer; without it the address is none, and lintian is told so.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=$target/deb
arch=$(dpkg --print-architecture)
multiarch=$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || gcc -print-multiarch)
maintainer=${MAINTAINER:-The Esker authors <esker@localhost.localdomain>}

say() { echo "deb: $*" >&2; }
fail() {
    say "FAILED: $*"
    exit 1
}

stage() {
    rm -rf "$out" && mkdir -p "$out/all"
    PREFIX=/usr LIBDIR=/usr/lib/$multiarch DESTDIR=$out/all scripts/install.sh install
    library=$(basename "$out/all/usr/lib/$multiarch"/libesker.so.*.*)
    version=${library#libesker.so.}
    major=${version%%.*}
}

# move PACKAGE PATH…: moves installed files into the tree of a package.
move() {
    local package=$1 path
    shift
    for path in "$@"; do
        mkdir -p "$out/$package/$(dirname "$path")"
        mv "$out/all/$path" "$out/$package/$path"
    done
}

# common PACKAGE: adds the files that each package has.
common() {
    local doc=$out/$1/usr/share/doc/$1
    mkdir -p "$doc"
    {
        echo "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"
        echo "Upstream-Name: esker"
        echo
        echo "Files: *"
        echo "Copyright: The Esker authors"
        echo "License: Apache-2.0 or Expat"
        echo
        echo "License: Apache-2.0"
        echo " On Debian systems the text is in /usr/share/common-licenses/Apache-2.0."
        echo
        echo "License: Expat"
        sed 's/^$/./; s/^/ /' LICENSE-MIT
    } >"$doc/copyright"
    {
        echo "esker ($version) unstable; urgency=medium"
        echo
        echo "  * See CHANGELOG.md of the sources."
        echo
        echo " -- $maintainer  $(date -R -d "@$(git log -1 --format=%ct 2>/dev/null || date +%s)")"
    } | gzip -9n >"$doc/changelog.gz"
}

# pack PACKAGE SECTION DEPENDS DESCRIPTION, with the long description from standard input.
pack() {
    local package=$1 root=$out/$1 depends=$3
    common "$package"
    mkdir -p "$root/DEBIAN"
    (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
    {
        echo "Package: $package"
        echo "Source: esker"
        echo "Version: $version"
        echo "Architecture: $arch"
        echo "Multi-Arch: $([ "$package" = esker ] && echo foreign || echo same)"
        echo "Maintainer: $maintainer"
        echo "Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)"
        [ -z "$depends" ] || echo "Depends: $depends"
        echo "Section: $2"
        echo "Priority: optional"
        echo "Description: $4"
        sed 's/^/ /'
    } >"$root/DEBIAN/control"
    if [ "$package" = "libesker$major" ]; then
        echo "activate-noawait ldconfig" >"$root/DEBIAN/triggers"
        echo "libesker $major libesker$major (>= $version)" >"$root/DEBIAN/shlibs"
        # Each function, and the release since which it exists.
        {
            echo "libesker.so.$major libesker$major #MINVER#"
            nm -D --defined-only "$root/usr/lib/$multiarch/$library" |
                awk -v since="$version" '$2 == "T" { print " " $3 "@Base " since }' | LC_ALL=C sort
        } >"$root/DEBIAN/symbols"
    fi
    find "$root" -type d -exec chmod 755 {} +
    dpkg-deb --root-owner-group --build "$root" "$out" >/dev/null
}

build() {
    command -v dpkg-deb >/dev/null || fail "dpkg-deb is missing: this is no Debian"
    stage
    local lib=usr/lib/$multiarch page needed
    # The oldest C library that has every symbol that the programs use.
    needed=$(objdump -T "$out/all/usr/bin/esker" "$out/all/$lib/$library" |
        grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1)
    needed="libc6 (>= ${needed#GLIBC_}), libgcc-s1 (>= 4.2)"
    rm -r "$out/all/usr/share/esker" "$out/all/usr/share/doc"
    gzip -9n "$out/all/usr/share/man/man1"/*.1
    move "libesker$major" "$lib/$library" "$lib/libesker.so.$major"
    move libesker-dev "$lib" usr/include
    move esker usr/bin usr/share
    rmdir "$out/all/usr/lib" "$out/all/usr" "$out/all"
    pack "libesker$major" libs "$needed" "ordered, durable, embedded key-value store" <<EOF
Esker keeps ordered byte strings in a directory of a program: keyspaces,
transactions, snapshots, merge operators, pairs that expire, and backups.
.
This package has the shared library.
EOF
    pack libesker-dev libdevel "libesker$major (= $version)" \
        "ordered, durable, embedded key-value store (development)" <<EOF
Esker keeps ordered byte strings in a directory of a program: keyspaces,
transactions, snapshots, merge operators, pairs that expire, and backups.
.
This package has the headers for C and C++, and the static library.
EOF
    pack esker database "$needed" "shell and measurements for Esker, a key-value store" <<EOF
The command esker reads, loads, dumps, verifies, repairs, compacts, backs up
and restores stores of the embedded key-value store Esker. It also compares
the store with others on the same machine.
EOF
    for page in "$out"/*.deb; do say "$page: $(stat -c %s "$page") bytes"; done
}

# leave_out WHAT: a skipped check, which DEB=must does not allow.
leave_out() {
    [ "${DEB:-may}" != must ] || fail "$*"
    say "skipped $*"
}

lint() {
    if ! command -v lintian >/dev/null; then
        leave_out "lintian: it is not installed"
        return 0
    fi
    local tags=embedded-library # zstd and LZ4 are linked statically on purpose.
    [ -n "${MAINTAINER:-}" ] || tags+=,bogus-mail-host,bogus-mail-host-in-debian-changelog
    lintian --fail-on error --suppress-tags "$tags" "$out"/*.deb >&2 ||
        fail "lintian reports errors"
    say "lintian reports no errors"
}

# Prints a program of ten lines.
program() {
    cat <<'EOF'
#include <esker.h>
#include <stdio.h>
int main(void) {
    uint8_t *value = NULL; size_t length = 0; esker_db_t *db = NULL;
    if (esker_open("fruit", NULL, &db, NULL) != ESKER_OK) return 1;
    if (esker_put(db, "apple", 5, "red", 3, ESKER_DURABILITY_DEFAULT, NULL) != ESKER_OK) return 1;
    if (esker_get(db, NULL, "apple", 5, &value, &length, NULL) != ESKER_OK) return 1;
    printf("apple is %.*s\n", (int)length, (char *)value);
    return esker_close(db, NULL) != ESKER_OK;
}
EOF
}

# files ROOT: lists the files of a Debian that packages own or may leave.
files() {
    (cd "$1" && find . \( -path ./packages -o -path ./proc -o -path ./tmp -o -path ./var/cache \
        -o -path ./var/log -o -path ./var/lib/dpkg -o -name ld.so.cache \) -prune -o -print) | sort
}

try_packages() {
    if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
        leave_out "the installation in a clean Debian: it needs root and debootstrap"
        return 0
    fi
    local root=$out/clean before left codename
    codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
    debootstrap --variant=minbase --include=gcc,g++,libc6-dev,pkg-config "$codename" "$root" \
        >"$out/debootstrap.log" 2>&1 || {
        tail -5 "$out/debootstrap.log" >&2
        leave_out "the installation in a clean Debian: debootstrap cannot fetch packages"
        return 0
    }
    before=$(files "$root")
    mkdir "$root/packages"
    cp "$out"/*.deb bindings/c/tests/{check.h,esker.c,esker_hpp.cpp} "$root/packages/"
    program >"$root/packages/ten.c"
    chroot "$root" sh -euc '
        dpkg -i /packages/*.deb >/dev/null
        cd /packages
        esker put store k v
        test "$(esker get store k)" = v
        test -s /usr/share/man/man1/esker.1.gz
        flags=$(pkg-config --cflags --libs esker)
        gcc -Wall -Werror -o ten ten.c $flags
        test "$(./ten)" = "apple is red"
        library=$(pkg-config --variable=libdir esker)/libesker.a
        gcc -Wall -Werror -o alone ten.c "$library" -lpthread -ldl -lm
        gcc -std=c99 -o c esker.c $flags
        ./c db
        g++ -std=c++17 -o cxx esker_hpp.cpp $flags
        ./cxx db2
        dpkg --purge esker libesker-dev libesker0 >/dev/null
        test ! -e /usr/bin/esker
        if ./ten 2>/dev/null; then exit 1; fi
        test "$(./alone)" = "apple is red"
    ' >&2 || fail "the packages do not work in a clean Debian"
    left=$(diff <(echo "$before") <(files "$root") || true)
    [ -z "$left" ] || fail "the packages left files, or removed others: $left"
    rm -rf --one-file-system "$root"
    say "installed, used and removed in a clean Debian"
}

test_packages() {
    lint
    try_packages
}

[ "${BUILD:-yes}" = no ] && export BUILD=no
build
[ "${1:-}" != test ] || test_packages
