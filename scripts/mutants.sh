#!/usr/bin/env bash
# Mutation testing: changes one place of the engine at a time and asks whether a test notices.
# Prints a table, and after it what no test noticed; exit code 1 if less than 95 of 100 were caught.
#
# FOLDERS (of crates/esker/src), EVERY (10: every tenth mutant of a folder, beginning with number
# FROM), STAGES (with 2 only the unit tests are asked: what they do not notice costs most, and is
# asked of the others with RETRY=yes), WRAP (a command that runs each slice of SECONDS_MAX, 150,
# seconds), PAUSE (seconds between slices).
# A copy of the tree is changed, never the tree; it must build before anything in it is changed, or
# whatever is asked would count as unviable. What hung is asked a second time, since other work may
# have held the machine. A run that is stopped is taken up where it was; FRESH=yes begins again,
# RETRY=yes asks again about what no test noticed.
set -euo pipefail
cd "$(dirname "$0")/.."

folders=${FOLDERS:-"wal tree compaction iter cache write flush"}
every=${EVERY:-10} from=${FROM:-0}
out=$(realpath -m "${CARGO_TARGET_DIR:-target}/mutants")
results=$out/results.tsv # outcome, mutant
# What one of these does not notice is asked of the next; first its own folder's unit tests.
stages=("folder" "--lib" "--test surface --test faults --test seeks"
    "--test backup --test concurrent --test crash --test files --test golden --test lies
    --test limits --test model --test orders --test policies --test repair --test scrub")

# The copy as the tree is now, whatever a stopped run left in it. Unchanged files keep their times.
renew() {
    local file said
    git ls-files -z -co --exclude-standard | while IFS= read -r -d '' file; do
        [ ! -e "$file" ] || cmp -s "$file" "$out/tree/$file" || cp --parents "$file" "$out/tree/"
    done
    if ! said=$(cd "$out/tree" && CARGO_TARGET_DIR=$out/build \
        cargo test --quiet --no-run --profile mutants --package esker --lib 2>&1); then
        printf '%s\nstopped: the tree does not build as it is\n' "$said" >&2
        exit 2
    fi
}

# A mutant is chosen by its place in the list of its folder: a filter by name lets others pass.
ask() { # folder, place, how many the folder has, tests, name → outcome
    local kind word targets=$4 filter="" arguments=() seconds=100
    if [ "$targets" = folder ]; then targets=--lib filter="$1::" seconds=45; fi
    # They are arguments of the build too, or it would build every test.
    for word in $targets; do arguments+=("--cargo-arg=$word"); done
    [ -z "$filter" ] || arguments+=(-- "$filter")
    rm -rf "$out/run"
    CARGO_TARGET_DIR=$out/build cargo mutants --dir "$out/tree" --in-place \
        --package esker --file "crates/esker/src/$1/**" --sharding round-robin --shard "$2/$3" \
        --baseline skip --timeout "$seconds" --build-timeout 3600 --output "$out/run" --colors never \
        "${arguments[@]}" < /dev/null >&2 || true
    for kind in caught unviable timeout missed; do
        # Another name: the tree has changed since the sample was taken.
        ! grep -qxF -- "$5" "$out/run/mutants.out/$kind.txt" 2>/dev/null || { echo "$kind"; return; }
    done
    echo "stopped"
}

slice() { # until SECONDS_MAX have passed; 1 when nothing is left
    local folder place all name stage outcome
    renew
    while IFS=$'\t' read -r folder place all name; do
        ! cut -f2 "$results" | grep -qxF -- "$name" || continue
        [ "$SECONDS" -lt "${SECONDS_MAX:-150}" ] || return 0
        for stage in "${stages[@]:0:${STAGES:-9}}"; do
            outcome=$(ask "$folder" "$place" "$all" "$stage" "$name")
            [ "$outcome" != timeout ] ||
                outcome=$(ask "$folder" "$place" "$all" "$stage" "$name")
            [ "$outcome" = missed ] || break
        done
        [ "$outcome" != stopped ] || { echo "stopped: $name" >&2; exit 2; }
        printf '%s\t%s\n' "$outcome" "$name" >> "$results"
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
    cargo mutants --list --package esker --file "crates/esker/src/$folder/**" > "$out/list"
    awk -v OFS='\t' -v folder="$folder" -v all="$(wc -l < "$out/list")" -v every="$every" \
        -v from="$from" 'NR % every == from % every { print folder, NR - 1, all, $0 }' "$out/list" \
        >> "$out/all"
done
# A run that is stopped has then seen something of every folder; the order is always the same.
chance() {
    local n
    for n in {1..200}; do sha512sum <<< "$n"; done | cut -c1-128 | tr a-f A-F | basenc --base16 -di
}
shuf --random-source=<(chance) "$out/all" > "$out/sample"
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
    NR == FNR { outcome[$2] = $1; next }
    !($1 in size) { size[$1] = $3; size["all"] += $3 }
    !($4 in outcome) { next }
    { kind = outcome[$4]; n[$1, kind]++; n["all", kind]++; n[$1]++; n["all"]++
      if (kind == "missed") missed = missed "missed: " $4 "\n" }
    END {
        rows = split(order, row, " ")
        for (i = 1; i <= rows; i++) { r = row[i]
            caught = n[r, "caught"] + n[r, "timeout"]
            printf "| %s | %d | %d | %d | %d | %d | %d |\n", r, size[r], n[r], n[r, "unviable"],
                caught, n[r, "timeout"], n[r, "missed"] }
        viable = caught + n["all", "missed"]
        printf "%scaught: %.1f %%\n", missed, viable ? 100 * caught / viable : 0
        exit !(viable && caught >= 0.95 * viable) }' "$results" "$out/sample"
