#!/usr/bin/env bash
# The demonstration of a cluster, and YCSB through Infinispan and Kafka Streams.
#
# distributed.sh build: builds what the others need, with scripts/java.sh, if a source is newer.
# distributed.sh demo: three nodes of Infinispan, which are killed, with each of STORES (esker rocksdb).
# distributed.sh round infinispan|kafka: one round of experiments/distributed.toml; `esker lab run
#     distributed` calls it, and writes the round's description to its standard input.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${CARGO_TARGET_DIR:-target}")/jvm

# compiled NAME SOURCE...: fetches the libraries of bindings/NAME/demo and compiles the sources.
compiled() {
    local name=$1 lib=$out/$1-demo-lib classes=$out/$1-demo-classes pom=bindings/$1/demo/pom.xml
    shift
    if [ ! "$lib/complete" -nt "$pom" ]; then
        rm -rf "$lib"
        mvn -q -B -f "$pom" dependency:copy-dependencies -DoutputDirectory="$lib" >&2 </dev/null
        touch "$lib/complete"
    fi
    rm -rf "$classes"
    mkdir -p "$classes"
    # Some libraries name annotations that are not among them.
    javac -proc:none -Xlint:all,-classfile,-processing --release 17 -d "$classes" \
        -cp "$out/esker/classes:$out/esker-$name/classes:$lib/*" "$@" 2>&1 </dev/null |
        grep -v 'annotation method\|reason: class file for\|unknown enum constant\|warnings\?$' >&2 || true
    [ -n "$(find "$classes" -name '*.class' -print -quit)" ]
}

build() {
    local built=$out/distributed-built
    if [ -e "$built" ] && [ -z "$(find bindings crates/esker/src -newer "$built" -name '*.*' -type f -print -quit)" ]; then
        return
    fi
    JAVA=must scripts/java.sh classes </dev/null
    compiled infinispan bindings/ycsb/*.java bindings/infinispan/demo/*.java
    compiled kafka-streams bindings/ycsb/*.java bindings/kafka-streams/demo/*.java
    touch "$built"
}

# run NAME HEAP CLASS ARGUMENT...: replaces this process.
run() {
    local name=$1 heap=$2
    shift 2
    exec java "-Xmx$heap" "-Desker.heap=$heap" -Djava.net.preferIPv4Stack=true \
        -Dlog4j2.configurationFile="$PWD/bindings/ycsb/log4j2.properties" -cp \
        "$out/$name-demo-classes:bindings/$name/demo:$out/esker/classes:$out/esker-$name/classes:$out/native:$out/$name-demo-lib/*" \
        "$@"
}

case "${1:-}" in
build)
    build
    ;;
demo)
    build
    place=$(mktemp -d)
    trap 'rm -rf "$place"' EXIT
    # shellcheck disable=SC2086 # The names of the stores are words.
    (run infinispan 384m dev.esker.infinispan.demo.ClusterDemo "$place" ${STORES:-esker rocksdb} 2>"$place/demo.log") || {
        tail -30 "$place/demo.log" "$place"/*/*.log >&2
        exit 1
    }
    ;;
round)
    # Its standard input is the round's description, which the build must not read.
    build
    case "${2:-}" in
    infinispan) run infinispan 1500m dev.esker.infinispan.demo.ClusterRound ;;
    kafka) run kafka-streams 1500m dev.esker.kafka.streams.demo.StreamsRound ;;
    *) echo "usage: scripts/distributed.sh round infinispan|kafka" >&2 && exit 2 ;;
    esac
    ;;
*)
    echo "usage: scripts/distributed.sh build|demo|round" >&2
    exit 2
    ;;
esac
