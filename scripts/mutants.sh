#!/usr/bin/env bash
# Mutation testing: changes one place of the engine at a time and checks whether a test fails.
# Prints a table, then the missed mutants. Exits with 1 if fewer than 95 % were caught.
#
# FOLDERS: directories of crates/esker/src. EVERY: sampling interval (10: every tenth mutant of a
# directory, beginning with number FROM). FIRST: maximum number of tested mutants, in a fixed random
# order. STAGES: number of test stages; with 2, only quick tests run. Missed mutants cost the most
# time; RETRY=yes tests them again with all stages. WRAP: a command prefix for each slice of
# SECONDS_MAX (150) seconds. PAUSE: seconds between slices.
#
# Only a copy of the tree is changed. The unchanged copy must build, because otherwise every mutant
# would count as unviable. A test counts as hung if it uses far more processor time than usual or
# times out, in two attempts; the first attempt may have been slowed by other load. A stopped run
# resumes; FRESH=yes begins again. Needs jq, patch and cargo-mutants.
set -euo pipefail
cd "$(dirname "$0")/.."

folders=${FOLDERS:-"wal tree compaction iter cache write flush"}
every=${EVERY:-10} from=${FROM:-0}
out=$(realpath -m "${CARGO_TARGET_DIR:-target}/mutants")
results=$out/results.tsv # outcome, mutant, the last tests run
# Test stages, quick ones first; a missed mutant proceeds to the next stage: the directory's unit
# tests, integration tests that take about a second, all unit tests, the other integration tests.
stages=("folder"
    "--test copies --test data --test failing --test observed --test golden --test repair --test public_api"
    "--lib"
    "--test concurrent --test crash --test faults --test hints --test limits --test model
    --test policies --test space")

in_copy() { # removes temporary files of the previous mutant, and limits the memory
    rm -rf "$out/tmp" && mkdir "$out/tmp"
    (ulimit -v 12000000
    cd "$out/tree" && CARGO_TARGET_DIR=$out/build TMPDIR=$out/tmp "$@" > "$out/log" 2>&1)
}
tests=(cargo test --quiet --profile mutants --package esker)

# Updates the copy from the tree, also after a stopped run. Unchanged files keep their times.
renew() {
    local file
    git ls-files -z -co --exclude-standard | while IFS= read -r -d '' file; do
        [ ! -e "$file" ] || cmp -s "$file" "$out/tree/$file" || cp --parents "$file" "$out/tree/"
    done
    in_copy "${tests[@]}" --no-run --lib && return
    cat "$out/log" >&2
    echo "stopped: the unchanged tree does not build" >&2
    exit 2
}

ask() { # arguments: directory, mutant, its diff; prints the outcome and the last tests run
    local stage words code processor_seconds=30 file=$out/tree/${2%%:*} outcome=missed
    cp "$file" "$out/whole"
    # The diff does not apply if the tree has changed since the sample was taken.
    base64 -d <<< "$3" | patch --quiet --fuzz=0 "$file" >&2 || { echo stopped; return; }
    for stage in "${stages[@]:0:${STAGES:-9}}"; do
        read -rd '' -a words <<< "$stage" || true
        [ "$stage" != folder ] || words=(--lib "$1::")
        [ "$stage" != --lib ] || processor_seconds=120
        in_copy "${tests[@]}" --no-run "${words[@]}" || { outcome=unviable; break; }
        for _ in once again; do
            code=0
            (ulimit -St "$processor_seconds"
            in_copy timeout --kill-after=5 400 "${tests[@]}" "${words[@]}") || code=$?
            ! grep -q "signal: 24" "$out/log" || { code=124; break; } # SIGXCPU
            ! grep -q FAILED "$out/log" || code=1
            [ $code = 124 ] || break
        done
        case $code in 0) ;; 124) outcome=timeout; break ;; *) outcome=caught; break ;; esac
    done
    cp "$out/whole" "$file"
    printf '%s\t%s\n' "$outcome" "${words[*]}"
}

slice() { # tests mutants until SECONDS_MAX have passed; returns 1 when none is left
    local folder all name change outcome asked
    renew
    while IFS=$'\t' read -r folder all name change; do
        ! grep -qxF -- "$name" <(cut -f2 "$results") || continue
        [ "$SECONDS" -lt "${SECONDS_MAX:-150}" ] || return 0
        IFS=$'\t' read -r outcome asked <<< "$(ask "$folder" "$name" "$change")"
        [ "$outcome" != stopped ] || { echo "stopped: $name" >&2; exit 2; }
        printf '%s\t%s\t%s\n' "$outcome" "$name" "$asked" >> "$results"
    done < "$out/sample"
    return 1
}
[ "${1:-}" != slice ] || { slice && exit; exit 10; }

if ! cargo mutants --version >/dev/null 2>&1; then
    echo "installing cargo-mutants" >&2
    cargo install --quiet --locked cargo-mutants
fi
[ "${FRESH:-no}" = yes ] && rm -rf "$out"
mkdir -p "$out/tree"
touch "$results"
[ "${RETRY:-no}" = yes ] && sed -i '/^missed\t/d' "$results"

: > "$out/all"
for folder in $folders; do
    cargo mutants --list --json --diff --package esker --file "crates/esker/src/$folder/**" \
        > "$out/list"
    jq -r --arg folder "$folder" --argjson every "$every" --argjson from "$from" '
        length as $all | to_entries[] | select((.key + 1) % $every == $from % $every)
        | [$folder, $all, .value.name, (.value.diff | @base64)] | @tsv' "$out/list" >> "$out/all"
done
# Shuffles with a fixed random source, so that a stopped run has mutants of every directory.
chance() {
    local n
    for n in {1..200}; do sha512sum <<< "$n"; done | cut -c1-128 | tr a-f A-F | basenc --base16 -di
}
shuf --random-source=<(chance) "$out/all" | sed -n "1,${FIRST:-9999}p" > "$out/sample"
while :; do
    # shellcheck disable=SC2086
    ${WRAP:-} "$0" slice && left=0 || left=$?
    case $left in
        0) sleep "${PAUSE:-0}" ;;
        2) exit 2 ;;
        10) break ;;
        *) echo "a slice was stopped; it is resumed" >&2; sleep "${PAUSE:-1}" ;;
    esac
done

echo "| folder | mutants | tested | unviable | caught | of them hung | missed |"
echo "|---|---:|---:|---:|---:|---:|---:|"
awk -F'\t' -v order="$folders all" '
    FILENAME ~ /results/ { outcome[$2] = $1; next }
    FILENAME ~ /all/ { if (!($1 in size)) { size[$1] = $2; size["all"] += $2 } next }
    !($3 in outcome) { next }
    { kind = outcome[$3]; n[$1, kind]++; n["all", kind]++; n[$1]++; n["all"]++
      if (kind == "missed") missed = missed "missed: " $3 "\n" }
    END {
        rows = split(order, row, " ")
        for (i = 1; i <= rows; i++) { r = row[i]
            caught = n[r, "caught"] + n[r, "timeout"]
            printf "| %s | %d | %d | %d | %d | %d | %d |\n", r, size[r], n[r], n[r, "unviable"],
                caught, n[r, "timeout"], n[r, "missed"] }
        viable = caught + n["all", "missed"]
        printf "%scaught: %.1f %%\n", missed, viable ? 100 * caught / viable : 0
        exit !(viable && caught >= 0.95 * viable) }' "$results" "$out/all" "$out/sample"
