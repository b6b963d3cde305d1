#!/usr/bin/env bash
# kafka-demo.sh DIRECTORY, which scripts/java.sh has built. Starts a broker, and counts 600,000 records
# of 100,000 keys in two instances of an application. They are killed KILLS (5) times with SIGKILL at
# random moments, and once more when all is counted, with Esker's stores and then with RocksDB's. Prints
# what each start restored, and whether all counts are exact; draws both over time. RECORDS and KEYS
# change the numbers. GUARANTEE=at_least_once instead of exactly_once_v2: then no count may be too low.
set -euo pipefail
cd "$(dirname "$0")/.."

out=$(realpath "$1")
demo=$PWD/bindings/kafka-streams/demo
scripts/distributed.sh build kafka-streams
lib=$out/kafka-streams-demo-lib
classes=$out/kafka-streams-demo-classes
place=$(mktemp -d)
broker=
stop() {
    if [ -n "$broker" ]; then
        kill "$broker" 2>/dev/null || true
        wait "$broker" 2>/dev/null || true
    fi
    rm -rf "$place"
}
trap stop EXIT

cd "$place"
sed "s|^log.dirs=.*|log.dirs=$place/data|" "$demo/kraft.properties" >kraft.properties
java -cp "$lib/*" kafka.tools.StorageTool format -t "$(java -cp "$lib/*" kafka.tools.StorageTool random-uuid | tail -1)" \
    -c kraft.properties >format.log 2>&1 || { cat format.log >&2; exit 1; }
java -Xmx1g -cp "$lib/*" kafka.Kafka kraft.properties >broker.log 2>&1 &
broker=$!
ours=$out/esker/classes:$out/esker-kafka-streams/classes
ready() { (exec 3<>/dev/tcp/127.0.0.1/19092) 2>/dev/null; }
until ready; do
    kill -0 "$broker" 2>/dev/null || { tail -20 broker.log >&2; exit 1; }
    sleep 1
done
java -Xmx512m -Drecords="${RECORDS:-600000}" -Dkeys="${KEYS:-100000}" -Dguarantee="${GUARANTEE:-exactly_once_v2}" \
    -cp "$classes:$ours:$lib/*" KillDemo drive "$place" "${KILLS:-5}" "$out/kafka-demo${GUARANTEE:+-$GUARANTEE}.svg" 2>demo.log ||
    { tail -30 demo.log esker.log rocksdb.log >&2; exit 1; }
