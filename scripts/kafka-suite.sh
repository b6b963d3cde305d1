#!/usr/bin/env bash
# Kafka's own tests on Esker: kafka-suite.sh DIRECTORY, which scripts/java.sh has built. The tests of
# versioned stores; with DSL=yes those of the DSL, 1279; else a part of them. Classes of ours in the
# place of Kafka's come first on the class path.
set -euo pipefail
cd "$(dirname "$0")/.."

out=$(realpath "$1")
module=bindings/kafka-streams
lib=$out/kafka-lib
shadow=$out/kafka-shadow
mkdir -p "$lib" "$shadow"

fetch() {
    mvn -q -B -f bindings/pom.xml -Desker.target="$out" "$@" >"$out/maven.log" 2>&1 || {
        cat "$out/maven.log" >&2
        echo "java: skipped: Maven could not fetch Kafka's tests" >&2
        [ "${JAVA:-may}" = must ] && exit 1
        exit 0
    }
}
if [ ! -e "$lib/complete" ]; then
    fetch -pl kafka-streams -am package -DskipTests dependency:copy-dependencies \
        -DexcludeGroupIds=dev.esker,org.junit.jupiter,org.junit.platform,dev.none \
        -DoutputDirectory="$lib"
    fetch -N dependency:copy -DoutputDirectory="$lib" \
        -Dartifact=org.junit.platform:junit-platform-console-standalone:1.13.4
    touch "$lib/complete"
fi

ours=$out/esker/classes:$out/esker-kafka-streams/classes
javac -nowarn --release 17 -d "$shadow" -cp "$ours:$lib/*" \
    $(find $module/src/test/shadow -name '*.java')

# The streams' tests come before the clients', whose logging silences the warnings that tests expect.
tests=$(ls "$lib"/kafka-streams-[0-9]*-test.jar)
run() {
    (cd "$out" && timeout 1500 java -Xmx2g -cp "$shadow:$ours:$tests:$lib/*" \
        org.junit.platform.console.ConsoleLauncher execute "$@" --details=summary \
        --disable-banner --disable-ansi-colors) >"$out/kafka.log" 2>&1 || {
        grep -vE '^(\[|\s+at )' "$out/kafka.log" | tail -80 >&2
        echo "java: FAILED: Kafka's tests: $*" >&2
        exit 1
    }
    echo "java: $(grep -oE '[0-9]+ tests successful' "$out/kafka.log"), of Kafka's own" >&2
}

internals=org.apache.kafka.streams.kstream.internals
versioned=org.apache.kafka.streams.state.internals.RocksDBVersionedStoreTest
if [ "${DSL:-no}" = yes ]; then
    run --select-class "$versioned" --select-package org.apache.kafka.streams.kstream
else
    run --select-class "$versioned" --select-class "$internals.KStreamKStreamJoinTest" \
        --select-class "$internals.KStreamWindowAggregateTest" \
        --select-class "$internals.KStreamSessionWindowAggregateProcessorTest" \
        --select-class "$internals.KTableKTableLeftJoinTest"
fi
