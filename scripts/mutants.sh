#!/usr/bin/env bash
# Mutation testing: changes one place of the engine at a time and asks whether a test notices.
# Prints a table, and after it what no test noticed; exit code 1 if less than 95 of 100 were caught.
#
# FOLDERS (of crates/esker/src), EVERY (10: every tenth mutant of a folder, beginning with number
# FROM), FIRST (how many of them are asked, in an order drawn once), STAGES (with 2 only quick tests
# are asked: what they do not notice costs most, and is asked of the others with RETRY=yes),
# WRAP (a command that runs each slice of SECONDS_MAX, 150, seconds), PAUSE (seconds between slices).
# A copy of the tree is changed, never the tree; it must build before anything in it is changed, or
# whatever is asked would count as unviable. A test that takes far more of the processor than it ever
# does has hung; so has one that takes for ever, when asked a second time, since other work may have
# held the machine. A run that is stopped is taken up where it was; FRESH=yes begins again,
# RETRY=yes asks again about what no test noticed. Needs jq, patch and cargo-mutants.
set -euo pipefail
cd "$(dirname "$0")/.."

folders=${FOLDERS:-"wal tree compaction iter cache write flush"}
every=${EVERY:-10} from=${FROM:-0}
out=$(realpath -m "${CARGO_TARGET_DIR:-target}/mutants")
results=$out/results.tsv # outcome, mutant, the tests that were asked last
# What one of these does not notice is asked of the next, quick ones first: the folder's own unit
# tests, tests outside that take a second, all unit tests, the other tests outside.
stages=("folder"
    "--test backup --test files --test golden --test lies --test orders --test repair --test scrub
    --test seeks --test surface"
    "--lib"
    "--test concurrent --test crash --test faults --test hints --test limits --test model
    --test policies --test space")

in_copy() { # what a mutant leaves behind goes with it, and it may not take all memory
    rm -rf "$out/tmp" && mkdir "$out/tmp"
    (ulimit -v 12000000
    cd "$out/tree" && CARGO_TARGET_DIR=$out/build TMPDIR=$out/tmp "$@" > "$out/log" 2>&1)
}
tests=(cargo test --quiet --profile mutants --package esker)

# The copy as the tree is now, whatever a stopped run left in it. Unchanged files keep their times.
renew() {
    local file
    git ls-files -z -co --exclude-standard | while IFS= read -r -d '' file; do
        [ ! -e "$file" ] || cmp -s "$file" "$out/tree/$file" || cp --parents "$file" "$out/tree/"
    done
    in_copy "${tests[@]}" --no-run --lib && return
    cat "$out/log" >&2
    echo "stopped: the tree does not build as it is" >&2
    exit 2
}

ask() { # folder, mutant, its change → outcome, and the tests that were asked last
    local stage words code processor_seconds=30 file=$out/tree/${2%%:*} outcome=missed
    cp "$file" "$out/whole"
    # It does not fit: the tree has changed since the sample was taken.
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

slice() { # until SECONDS_MAX have passed; 1 when nothing is left
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
# A run that is stopped has then seen something of every folder; the order is always the same.
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
        *) echo "a slice was stopped; it is taken up again" >&2; sleep "${PAUSE:-1}" ;;
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
