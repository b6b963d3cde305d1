# Counts tests by kind in the output of cargo test, pytest, tape and the other harnesses, and prints a
# table, then what was skipped.
# The kind of a line "test result:" is that of the last "Running" or "Doc-tests" line before it.
/Running unittests/ { kind = "unit tests" }
/Running tests\// { kind = "integration tests" }
/Running .*examples\// { kind = "examples" }
/Doc-tests/ { kind = "documentation examples" }
/^test result:/ {
    for (i = 1; i <= NF; i++) {
        if ($i ~ /^passed/) passed[kind] += $(i - 1)
        if ($i ~ /^failed/) failed[kind] += $(i - 1)
        if ($i ~ /^ignored/) ignored[kind] += $(i - 1)
    }
    seconds = $NF
    sub(/s$/, "", seconds)
    took[kind] += seconds
    if (!(kind in order)) { order[kind] = ++kinds; name[kinds] = kind }
}
/^[=]* *[0-9]+ passed.* in [0-9.]+s/ {
    kind = "Python tests"
    for (i = 1; i <= NF; i++) {
        if ($i ~ /^passed/) passed[kind] += $(i - 1)
        if ($i == "in") { seconds = $(i + 1); sub(/s.*/, "", seconds); took[kind] += seconds }
    }
    if (!(kind in order)) { order[kind] = ++kinds; name[kinds] = kind }
}
/^# pass +[0-9]+ in [0-9]+s/ {
    kind = "Node.js tests"
    passed[kind] += $3
    took[kind] += $5
    if (!(kind in order)) { order[kind] = ++kinds; name[kinds] = kind }
}
/^== [0-9]+ s, [0-9]+ s user, [0-9]+ s system: / {
    seconds = $2
    processors = $4 + $7
    sub(/^[^:]*: /, "")
    step[++steps] = sprintf("%6d s %6d s  %s", seconds, processors, $0)
}
# "go: skipped: no Go", "install test: skipped CMake: ...", "porcupine: skipped, no Go", and counts.
/^([^:]+: )*(skipped|not built)[ :,]/ || (/(^|[^0-9])[1-9][0-9]* skipped/ && !/^test /) {
    if (!($0 in known)) { known[$0] = 1; left_out[++leaving] = $0 }
}
/^== failed: / { failures[++failing] = $0 }
END {
    printf "\n%-24s %8s %8s %8s %9s\n", "kind", "passed", "failed", "ignored", "seconds"
    for (i = 1; i <= kinds; i++) {
        kind = name[i]
        printf "%-24s %8d %8d %8d %9.1f\n", kind, passed[kind], failed[kind], ignored[kind], took[kind]
        all += passed[kind]
    }
    printf "%-24s %8d\n\n", "together", all
    for (i = 1; i <= steps; i++) print step[i]
    print leaving ? "\nskipped:" : "\nnothing was skipped"
    for (i = 1; i <= leaving; i++) print "  " left_out[i]
    for (i = 1; i <= failing; i++) print failures[i]
}
