#!/usr/bin/env bash
# The demonstration of a cluster, and YCSB through Infinispan and Kafka Streams.
#
# distributed.sh build [infinispan|kafka-streams]: builds what the others need, with scripts/java.sh.
# distributed.sh demo: three nodes of Infinispan, which are killed, with each of STORES (esker rocksdb).
# distributed.sh round infinispan|kafka-streams: one round of experiments/distributed.toml; `esker lab run
#     distributed` calls it, and writes the round's description to its standard input. It builds nothing
#     that was built before, and refuses to run what is older than its sources.
# If Java, Maven or an artifact cannot be had, exits with 1.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${CARGO_TARGET_DIR:-target}")/jvm

. scripts/jars.sh

fail() {
    echo "distributed: $*" >&2
    exit 1
}
# stamp NAME: the file that a build leaves, with the commit of the sources.
stamp() { echo "$out/$1-demo-built"; }

# fresh NAME: whether what was built is newer than its sources, and nothing built it again since.
fresh() {
    local sources=(crates/esker/src Cargo.toml Cargo.lock bindings/pom.xml bindings/shared bindings/java bindings/ycsb
        bindings/"$1"/pom.xml bindings/"$1"/src/main bindings/"$1"/demo "$out/native" "$out/esker/classes"
        "$out/esker-$1/classes")
    [ -e "$(stamp "$1")" ] && [ -z "$(find "${sources[@]}" -newer "$(stamp "$1")" -type f -print -quit)" ]
}

build() {
    local name=$1 lib=$out/$1-demo-lib classes=$out/$1-demo-classes begun
    fresh "$name" && return
    JAVA=must scripts/java.sh classes </dev/null
    begun=$(mktemp)
    jars_of "bindings/$name/demo/pom.xml" "$lib"
    rm -rf "$classes"
    mkdir -p "$classes"
    # Some libraries name annotations that are not among them.
    javac -proc:none -Xlint:all,-classfile,-processing,-try --release 17 -d "$classes" \
        -cp "$out/esker/classes:$out/esker-$name/classes:$lib/*" bindings/ycsb/*.java "bindings/$name/demo"/*.java \
        >"$out/javac.log" 2>&1 </dev/null || {
        cat "$out/javac.log" >&2
        fail "bindings/$name/demo does not compile"
    }
    git describe --always --dirty --exclude '*' >"$begun" 2>/dev/null || echo unknown >"$begun"
    mv "$begun" "$(stamp "$name")"
}

# run NAME HEAP CLASS ARGUMENT...: replaces this process.
run() {
    local name=$1 heap=$2
    shift 2
    exec java "-Xmx$heap" "-Desker.heap=$heap" "-Desker.commit=$(cat "$(stamp "$name")")" \
        -Djava.net.preferIPv4Stack=true -Dlog4j2.configurationFile="$PWD/bindings/ycsb/log4j2.properties" -cp \
        "$out/$name-demo-classes:bindings/$name/demo:$out/esker/classes:$out/esker-$name/classes:$out/native:$out/$name-demo-lib/*" \
        "$@"
}

case "${1:-} ${2:-}" in
"build ")
    build infinispan
    build kafka-streams
    ;;
"build infinispan" | "build kafka-streams")
    build "$2"
    ;;
"demo ")
    build infinispan
    place=$(mktemp -d)
    trap 'rm -rf "$place"' EXIT
    # shellcheck disable=SC2086 # The names of the stores are words.
    (run infinispan 384m dev.esker.infinispan.demo.ClusterDemo "$place" "$out/infinispan-demo.svg" \
        ${STORES:-esker rocksdb} 2>"$place/demo.log") || {
        tail -30 "$place/demo.log" "$place"/*/*.log >&2
        exit 1
    }
    ;;
"round infinispan" | "round kafka-streams")
    [ -e "$(stamp "$2")" ] || build "$2"
    fresh "$2" || fail "sources are newer than what was built; build it again: scripts/distributed.sh build"
    case "$2" in
    infinispan) run infinispan 1500m dev.esker.infinispan.demo.ClusterRound ;;
    *) run kafka-streams 1500m dev.esker.kafka.streams.demo.StreamsRound ;;
    esac
    ;;
*)
    echo "usage: scripts/distributed.sh build [infinispan|kafka-streams] | demo | round infinispan|kafka-streams" >&2
    exit 2
    ;;
esac
