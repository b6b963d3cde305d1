#!/usr/bin/env bash
# Measures the line coverage of the engine by its tests and by short campaigns (crash images,
# faults, maintenance, repairs, bit rot). Prints a table by directory, then all lines that were not
# run, and with Python also each `?` that never returned early. Exits with 1 below 95 %. Lines of
# tests are not counted. Takes about 15 minutes on two cores, including 5 minutes for the build.
#
# WRAP: a command prefix for each run of a build with some of the tests. KEEP=yes: only reports the
# last run.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo llvm-cov --version >/dev/null 2>&1; then
    echo "installing cargo-llvm-cov" >&2
    cargo install --quiet --locked cargo-llvm-cov
fi
rustup component add llvm-tools >&2
out=$(realpath -m "${CARGO_TARGET_DIR:-target}/coverage")
mkdir -p "$out"

part() {
    # shellcheck disable=SC2086
    ${WRAP:-} cargo llvm-cov --no-report "$@" >&2
}
if [ "${KEEP:-no}" != yes ]; then
    cargo llvm-cov clean --profraw-only
    part --package esker --lib
    part --package esker --test model --test policies --test kill
    others=()
    for file in crates/esker/tests/*.rs crates/esker/tests/*/main.rs; do
        name=$(basename "${file%/main.rs}" .rs)
        # The test `schedules` needs a separate build of the engine.
        case $name in model | policies | kill | schedules) ;; *) others+=("--test=$name") ;; esac
    done
    part --package esker "${others[@]}"
    part --package esker-testkit --test campaigns
    part --package esker-testkit --lib --test canaries --test fuzz
fi
cargo llvm-cov report --lcov --output-path "$out/lcov.info" >&2
cargo llvm-cov report --json --output-path "$out/all.json" >&2

# Tests in a file are at its end. Tests of a directory are in files named `tests`.
git ls-files 'crates/esker/src/*.rs' | grep -v '/tests' | while read -r file; do
    last=$(awk '/^#\[cfg\(test\)\]/ { at = NR } at && NR == at + 1 && /^mod [a-z]* \{/ { print at - 1; exit }' "$file")
    printf '%s\t%s\n' "$file" "${last:-1000000}"
done > "$out/files"

awk -F'\t' -v root="$PWD/" '
    NR == FNR { last[$1] = $2; next }
    /^SF:/ { file = substr($0, 4); if (index(file, root) == 1) file = substr(file, length(root) + 1); next }
    /^DA:/ && file in last {
        split(substr($0, 4), part, ",")
        if (part[1] <= last[file]) print file "\t" part[1] "\t" part[2]
    }' "$out/files" "$out/lcov.info" | sort -t$'\t' -k1,1 -k2,2n > "$out/lines"

awk -F'\t' '
    { folder = $1; sub("^crates/esker/src/", "", folder)
      if (!sub("/.*", "/", folder)) folder = "the crate itself"
      if (!(folder in all)) order[++folders] = folder
      all[folder]++; total++
      if ($3 > 0) { ran[folder]++; reached++ }
      else if ($1 == file && $2 == end + 1) { end = $2; gap[gaps] = file ":" first "-" end }
      else { file = $1; first = end = $2; gap[++gaps] = file ":" first } }
    END {
        print "| folder | lines | run by a test | of 100 |\n|---|---:|---:|---:|"
        for (i = 1; i <= folders; i++) { f = order[i]
            printf "| %s | %d | %d | %.1f |\n", f, all[f], ran[f], 100 * ran[f] / all[f] }
        printf "| all | %d | %d | %.1f |\n\n", total, reached, 100 * reached / total
        for (i = 1; i <= gaps; i++) print "not run: " gap[i]
        exit reached < 0.95 * total }' "$out/lines" && enough=0 || enough=$?
if command -v python3 >/dev/null; then
    python3 scripts/exits.py "$out/all.json"
fi
exit "$enough"
