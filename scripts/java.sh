#!/usr/bin/env bash
# Builds Esker for Java: target/jvm/esker/esker-*.jar, with the native library inside, and
# target/jvm/esker-kafka-streams/. `test` also runs the tests, with LONG=yes in their long form, and
# `kafka` Kafka's own tests of versioned stores and a part of those of the DSL (DSL=yes: all). `demo`
# kills an application under exactly-once, and `infinispan-demo` nodes of a cluster. `integration
# [short|all]` runs Kafka's own integration tests, and `infinispan` Infinispan's own tests of stores.
# `bench` measures beside RocksDB's Java library. If Java 17, Maven or an artifact cannot be had, prints
# a message and exits with 0, or with 1 if JAVA=must.
# NATIVE_PROFILE=dev builds the native library without its optimizations.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=$target/jvm
what=${1:-jar}

leave_out() {
    echo "java: skipped: $*" >&2
    [ "${JAVA:-may}" = must ] && exit 1
    exit 0
}

has_java() {
    command -v javac >/dev/null && command -v mvn >/dev/null &&
        [ "$(javac -version 2>&1 | sed 's/[^0-9]*\([0-9]*\).*/\1/')" -ge 17 ]
}

if ! has_java && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "java: installing openjdk-17-jdk-headless and maven" >&2
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
        openjdk-17-jdk-headless maven; } >/dev/null 2>&1 || true
fi
has_java || leave_out "it needs apt install openjdk-17-jdk-headless maven"

native() {
    local profile=${NATIVE_PROFILE:-release} built folder
    built=$target/$profile/libesker_jni.so
    [ "$profile" = dev ] && built=$target/debug/libesker_jni.so
    ${CARGO:-cargo} build --profile "$profile" -p esker-java >&2
    folder=$out/native/dev/esker/native/linux-$(uname -m)
    mkdir -p "$folder"
    strip --strip-unneeded -o "$folder/libesker_jni.so.part" "$built"
    # An unchanged library keeps its time, from which others know what was built with it.
    if cmp -s "$folder/libesker_jni.so.part" "$folder/libesker_jni.so"; then
        rm "$folder/libesker_jni.so.part"
    else
        mv "$folder/libesker_jni.so.part" "$folder/libesker_jni.so"
    fi
}

# maven ARGUMENT...: runs Maven. A missing artifact is a reason to skip; any other failure is one.
maven() {
    local log=$out/maven.log
    if ! mvn -q -B -f bindings/pom.xml -Desker.target="$out" "$@" >"$log" 2>&1; then
        cat "$log" >&2
        if grep -qE 'Could not (transfer|find|resolve)|could not be resolved|Unknown host' "$log"; then
            leave_out "Maven could not fetch an artifact"
        fi
        echo "java: FAILED" >&2
        exit 1
    fi
    grep -vE '^\S*$' "$log" | tail -n "${LINES_SHOWN:-0}" >&2 || true
}

# class_path: the libraries of Kafka Streams and Infinispan, for the documentation of the API.
class_path() {
    [ -e "$out/javadoc-lib/complete" ] || {
        maven -DskipTests package dependency:copy-dependencies -DincludeScope=provided \
            -DexcludeGroupIds=dev.esker -DoutputDirectory="$out/javadoc-lib"
        touch "$out/javadoc-lib/complete"
    }
    find "$out/javadoc-lib" -name '*.jar' -printf '%p:'
}

mkdir -p "$out"
native
case "$what" in
jar)
    maven -DskipTests package
    for module in java kafka-streams infinispan; do
        # Infinispan's classes name annotations that are not in its libraries: a warning for each.
        strict=-Werror
        [ "$module" = infinispan ] && strict=
        javadoc -quiet -Xdoclint:all $strict --release 17 -d "$out/apidocs/$module" -encoding UTF-8 \
            -cp "$out/esker/classes:$(class_path)" $(find "bindings/$module/src/main/java" -name '*.java')
    done
    echo "java: $(ls "$out"/esker*/*.jar | tr '\n' ' ')" >&2
    ;;
classes)
    maven -DskipTests package
    ;;
test)
    arguments=()
    if [ "${LONG:-no}" = yes ]; then
        arguments=(-Desker.operations=1000000 -Desker.kills=100)
    fi
    rm -rf "$out"/*/surefire-reports
    maven -pl java,kafka-streams "${arguments[@]}" package
    ran=$(cat "$out"/*/surefire-reports/TEST-*.xml | grep -oE '<testsuite [^>]*' |
        grep -oE ' tests="[0-9]+"' | tr -dc '0-9\n' | awk '{ n += $1 } END { print n + 0 }')
    echo "java: $ran tests passed" >&2
    scripts/kafka-suite.sh "$out"
    ;;
bench)
    LINES_SHOWN=60 maven -Dtest=Bench,StoresBench,RestoreBench -Dsurefire.failIfNoSpecifiedTests=false \
        -Desker.bench=yes -Desker.jvm.arguments=-Xmx1g package
    ;;
kafka)
    maven -DskipTests package
    scripts/kafka-suite.sh "$out"
    ;;
integration)
    maven -DskipTests package
    scripts/kafka-integration.sh "$out" "${2:-short}"
    ;;
infinispan)
    maven -DskipTests package
    lib=$out/infinispan-lib
    [ -e "$lib/complete" ] || maven -pl java,infinispan -DskipTests package \
        dependency:copy-dependencies -DexcludeGroupIds=dev.esker -DoutputDirectory="$lib"
    touch "$lib/complete"
    (cd "$out" && timeout 1500 java -cp \
        "esker-infinispan/test-classes:esker-infinispan/classes:esker/classes:$lib/*" \
        dev.esker.infinispan.Suite) >"$out/infinispan.log" 2>&1 || {
        grep -A20 FAILED "$out/infinispan.log" >&2 || tail -40 "$out/infinispan.log" >&2
        echo "java: FAILED: Infinispan's tests" >&2
        exit 1
    }
    echo "java: $(tail -1 "$out/infinispan.log"), Infinispan's own" >&2
    ;;
demo)
    maven -DskipTests package
    scripts/kafka-demo.sh "$out"
    ;;
infinispan-demo)
    scripts/distributed.sh demo
    ;;
*)
    echo "usage: scripts/java.sh [jar|classes|test|bench|kafka|integration [short|all]|infinispan|demo|infinispan-demo]" >&2
    exit 2
    ;;
esac
