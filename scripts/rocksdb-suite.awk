# Compares the results of a suite with suites.tsv. Arguments: the names of the suite's tests (program,
# test), their results (program, test, ok or FAILED), and suites.tsv; the variable `suite`. Prints the
# counts, then what differs. Exits with 1 if something differs.
FILENAME == ARGV[1] { tests[$0]; next }
FILENAME == ARGV[2] {
    at = match($0, / [^ ]*$/)
    results[substr($0, 1, at - 1)] = substr($0, at + 1)
    next
}
{
    split($1, words, " ")
    if (words[1] != suite) next
    name = words[2] " " words[3]
    if (!(name in tests)) differ("not a test of the suite, but in suites.tsv", name)
    if ($2 ~ /^not run: /) not_run[name]
    else if ($2 ~ /^may fail: /) may_fail[name]
    else if ($2 == "passes: sets options alone") options[name]
    else if ($2 == "passes: calls nothing of the library") nothing[name]
    else if ($2 ~ /^passes: /) differ("of an unknown kind in suites.tsv", name)
    else reasons[name]
}
function differ(how, name) { differences = differences "rocksdb-suite: " how ": " suite " " name "\n" }
END {
    for (name in tests) {
        if (name in not_run) count["not run"]++
        else if (!(name in results)) differ("without a result", name)
        else if (results[name] != "ok") {
            count["failed"]++
            if (!(name in reasons || name in may_fail)) differ("failed without a reason in suites.tsv", name)
        } else {
            count["passed"]++
            if (name in options) count["options"]++
            if (name in nothing) count["nothing"]++
            if (name in reasons) differ("passed, but has a reason in suites.tsv", name)
        }
    }
    printf "rocksdb-suite: %s: %d passed", suite, count["passed"]
    if (count["options"] + count["nothing"])
        printf " (of which %d only set options, %d call nothing of the library)", count["options"], count["nothing"]
    printf ", %d failed, %d not run\n%s", count["failed"], count["not run"], differences
    exit differences != ""
}
