#!/usr/bin/env bash
# Makes the pages of the interfaces of C and C++ (target/pages/c, with Doxygen), of Node.js
# (target/pages/node, with TypeDoc) and of Python (target/pages/python, with pdoc), of no other
# language. A warning is a failure, and so is a public name without a comment. `cargo doc`, `go doc`
# and scripts/java.sh make those of Rust, Go and Java. Arguments: `c`, `node`, `python` (default:
# all). What is missing and cannot be installed is skipped by name, or fails with PAGES=must.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=$target/pages
failed=0

say() { echo "api-pages: $*" >&2; }
leave_out() {
    say "$1: skipped: $2"
    [ "${PAGES:-may}" != must ] || failed=1
}

# apt PACKAGE: installs a Debian package, as root.
apt() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null &&
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
            --no-install-recommends "$1"; } >/dev/null 2>&1
}

# The headers' comments are plain ones, so that they read well. Doxygen gets them marked as its own.
pages_c() {
    command -v doxygen >/dev/null || apt doxygen ||
        { leave_out c "doxygen is not installed (apt install doxygen)"; return 0; }
    rm -rf "$out/c" && mkdir -p "$out/c"
    cat >"$out/c/filter" <<'FILTER'
#!/bin/sh
exec sed -E '1s,^/\* ,/** @file\n * @brief ,; 1s,^// (.*)$,/** @file\n * @brief \1 */,; s,^( *)// ?,\1/// ,' "$1"
FILTER
    # A link to a file that has no page becomes its text.
    cat >"$out/c/page-filter" <<'FILTER'
#!/bin/sh
exec sed -E 's,\[([^]]*)\]\((\.\./|examples/)[^)]*\),\1,g' "$1"
FILTER
    chmod +x "$out/c/filter" "$out/c/page-filter"
    cat >"$out/c/Doxyfile" <<CONFIG
PROJECT_NAME = Esker
PROJECT_BRIEF = "Embedded, durable, ordered key-value store"
INPUT = bindings/c/include/esker.h bindings/c/include/esker.hpp bindings/c/README.md bindings/c/COOKBOOK.md
USE_MDFILE_AS_MAINPAGE = bindings/c/README.md
INPUT_FILTER = $out/c/filter
FILTER_PATTERNS = *.md=$out/c/page-filter
EXCLUDE_SYMBOLS = esker::detail esker::detail::*
OUTPUT_DIRECTORY = $out/c
GENERATE_LATEX = NO
JAVADOC_AUTOBRIEF = YES
OPTIMIZE_OUTPUT_FOR_C = NO
HIDE_UNDOC_MEMBERS = NO
WARN_IF_UNDOCUMENTED = YES
WARN_NO_PARAMDOC = NO
WARN_AS_ERROR = FAIL_ON_WARNINGS
QUIET = YES
HAVE_DOT = NO
CONFIG
    if ! doxygen "$out/c/Doxyfile" 2>"$out/c.log"; then
        say "c: FAILED: $(grep -cE ': (warning|error): ' "$out/c.log") warnings, the first of them:"
        head -20 "$out/c.log" >&2
        failed=1
        return 0
    fi
    say "c: $out/c/html/index.html"
}

# The types of the package are its interface.
pages_node() {
    { command -v npm && command -v node; } >/dev/null ||
        { leave_out node "npm is not installed (apt install nodejs npm)"; return 0; }
    local place=$out/node-tools packages
    packages="typedoc@0.28.20 typescript@5.9.3 abstract-level@3.1.1 @types/node@20"
    # The tools that are there may be of other versions.
    [ "$(cat "$place/installed" 2>/dev/null)" = "$packages" ] || {
        rm -rf "$place" && mkdir -p "$place"
        echo '{ "private": true, "name": "esker-level", "type": "commonjs" }' >"$place/package.json"
        # shellcheck disable=SC2086
        (cd "$place" && npm install --no-package-lock --no-audit --no-fund --loglevel=error \
            --ignore-scripts $packages >&2) || { leave_out node "npm cannot install typedoc"; return 0; }
        echo "$packages" >"$place/installed"
    }
    cp bindings/node/index.d.ts bindings/node/README.md bindings/node/COOKBOOK.md "$place/"
    # abstract-level's comment on its constructor links to `open`, which TypeDoc takes for the browser's.
    cat >"$place/tsconfig.json" <<'CONFIG'
{ "compilerOptions": { "strict": true, "target": "es2022", "module": "node16", "moduleResolution": "node16",
    "types": ["node"], "noEmit": true }, "files": ["index.d.ts"],
  "typedocOptions": { "externalSymbolLinkMappings": {
    "typescript": { "open": "https://github.com/Level/abstract-level#dbopenoptions" } } } }
CONFIG
    if ! (cd "$place" && node_modules/.bin/typedoc --entryPoints index.d.ts --out "$out/node" \
        --name esker-level --readme README.md --projectDocuments COOKBOOK.md --excludeExternals \
        --validation.notDocumented --requiredToBeDocumented Class --requiredToBeDocumented Method \
        --requiredToBeDocumented Function --requiredToBeDocumented Interface \
        --requiredToBeDocumented Property --requiredToBeDocumented TypeAlias \
        --treatWarningsAsErrors --treatValidationWarningsAsErrors) >"$out/node.log" 2>&1; then
        say "node: FAILED, the first lines:"
        head -30 "$out/node.log" >&2
        failed=1
        return 0
    fi
    say "node: $out/node/index.html"
}

# The installed package is its interface: pdoc imports it. It makes a page of each module that it is
# told, because the package lists names alone.
pages_python() {
    local python=$target/venv-test/bin/python modules=(esker esker.aio esker.codec esker.plyvel)
    # An older wheel would show another interface.
    scripts/wheel.sh install || { say "python: FAILED: there is no wheel"; failed=1; return 0; }
    "$python" -c 'import esker' 2>/dev/null ||
        { leave_out python "there is no wheel (scripts/wheel.sh says why)"; return 0; }
    "$python" -m pip install -q --disable-pip-version-check 'pdoc==16.0.0' >&2 ||
        { leave_out python "pip cannot install pdoc"; return 0; }
    rm -rf "$out/python"
    if ! { "$python" bindings/python/tests/comments.py &&
        "$python" -W error -m pdoc -o "$out/python" "${modules[@]}"; } >"$out/python.log" 2>&1; then
        say "python: FAILED, the first lines:"
        head -30 "$out/python.log" >&2
        failed=1
        return 0
    fi
    say "python: $out/python/esker.html"
}

mkdir -p "$out"
[ $# -gt 0 ] || set -- c node python
for language in "$@"; do
    case $language in
    c | node | python) "pages_$language" ;;
    *)
        echo "usage: scripts/api-pages.sh [c] [node] [python]" >&2
        exit 2
        ;;
    esac
done
[ "$failed" = 0 ]
