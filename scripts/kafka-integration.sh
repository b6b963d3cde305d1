#!/usr/bin/env bash
# Kafka's own integration tests on Esker's stores, in the place of the persistent ones that the DSL takes
# and of those that the tests name: kafka-integration.sh DIRECTORY short|all, after `scripts/java.sh classes`. `short` is three classes in
# two minutes, `all` ten in forty. CLASSES="Eos IQv2Store" runs those. Prints what passed of each class;
# exit code 1 if a test failed.
set -euo pipefail
cd "$(dirname "$0")/.."

out=$(realpath "$1")
module=bindings/kafka-streams
lib=$out/kafka-integration-lib
shadow=$out/kafka-integration-shadow
. scripts/jars.sh
jars_of "$module/integration/pom.xml" "$lib"
ours=$out/esker/classes:$out/esker-kafka-streams/classes
rm -rf "$shadow"
mkdir -p "$shadow"
javac -proc:none -nowarn --release 17 -d "$shadow" -cp "$ours:$lib/*" \
    "$module/src/test/shadow/org/apache/kafka/streams/state/BuiltInDslStoreSuppliers.java" \
    "$module/integration/StoresAgent.java"
echo 'Premain-Class: StoresAgent' >"$out/kafka-agent.mf"
jar cfm "$out/kafka-agent.jar" "$out/kafka-agent.mf" -C "$shadow" StoresAgent.class
rm "$shadow/StoresAgent.class"

short="KStreamAggregation StandbyTaskCreation EOSUncleanShutdown"
case "$2" in
short) classes=$short ;;
all)
    classes="$short StandbyTaskEOS Restore PositionRestart Eos IQv2Store TimeWindowedKStream"
    classes+=" SlidingWindowedKStream"
    ;;
*)
    echo "usage: scripts/kafka-integration.sh DIRECTORY short|all" >&2
    exit 2
    ;;
esac
# The tests of the streams come before the clients' logging, which silences the warnings that they expect.
tests=$(ls "$lib"/kafka-streams-[0-9]*-test.jar)
failed=0
for name in ${CLASSES:-$classes}; do
    class=org.apache.kafka.streams.integration.${name}IntegrationTest
    log=$out/kafka-$name.log
    begun=$SECONDS
    state=passed
    (cd "$out" && timeout 3000 java -Xmx2g "-javaagent:$out/kafka-agent.jar" -cp "$shadow:$ours:$tests:$lib/*" \
        org.junit.platform.console.ConsoleLauncher execute --select-class "$class" --details=summary \
        --fail-if-no-tests --disable-banner --disable-ansi-colors) >"$log" 2>&1 || state=FAILED
    [ "$state" = FAILED ] && failed=1
    count() { grep -oE "[0-9]+ tests $1" "$log" | tail -1 | grep -oE '^[0-9]+' || echo 0; }
    echo "kafka: $name: $(count successful) of $(count found) $state, $(count skipped) skipped, $((SECONDS - begun)) s"
    if [ "$state" = FAILED ]; then
        grep -A3 -E '^\s*(JUnit Jupiter:|=> )' "$log" | head -40 >&2 || true
    fi
done
exit $failed
