import dev.esker.ycsb.Picture;
import dev.esker.ycsb.Processes;
import java.io.File;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;

/**
 * Two instances of an application that counts records by key. They are killed with SIGKILL in turn at
 * random moments, and started again on their directories. This process, which survives, is the oracle:
 * under exactly-once each key must have its exact count, under at-least-once no key may have less. Prints
 * what each start restored, and draws records counted and restored over time.
 */
public class KillDemo {
    private static final String BROKER = "127.0.0.1:19092";
    private static final int RECORDS = Integer.getInteger("records", 600_000);
    private static final int KEYS = Integer.getInteger("keys", 100_000);
    private static final String GUARANTEE = System.getProperty("guarantee", StreamsConfig.EXACTLY_ONCE_V2);
    private static final boolean IS_EXACT = GUARANTEE.equals(StreamsConfig.EXACTLY_ONCE_V2);
    private static final int INSTANCES = 2;
    private static final long PATIENCE_SECONDS = 240;
    /** Records that a start of Esker's store may restore: what a few commits add. */
    private static final long RESTORED_MAX = RECORDS / 10;

    private final String store;
    private final Picture picture;
    private final List<Instance> instances = new ArrayList<>();
    private final long began = System.nanoTime();
    /** What the starts before the present ones have restored, and the most that a start after a kill has. */
    private long restoredBefore;
    private long restoredMost;

    private KillDemo(String store, Path place, Picture picture) {
        this.store = store;
        this.picture = picture;
        for (int number = 1; number <= INSTANCES; number++) {
            List<String> command = Processes.java("512m");
            command.addAll(List.of("-Drecords=" + RECORDS, "-Dkeys=" + KEYS, "-Dguarantee=" + GUARANTEE, "KillDemo",
                    "count", store, "" + number, place.resolve(store + "-" + number).toString()));
            instances.add(new Instance(command, new File(place.toFile(), store + ".log")));
        }
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("count")) {
            count(arguments[1], arguments[2], Path.of(arguments[3]));
            return;
        }
        Picture picture = new Picture("Kafka Streams, instances killed under " + GUARANTEE, "kill -9",
                "records counted", "records restored by all starts so far");
        boolean isWhole = true;
        for (String store : List.of("esker", "rocksdb")) {
            KillDemo demo = new KillDemo(store, Path.of(arguments[1]), picture);
            try {
                isWhole &= demo.drive(Integer.parseInt(arguments[2]));
            } finally {
                demo.instances.forEach(Instance::end);
            }
        }
        Path drawn = Path.of(arguments[3]);
        picture.save(drawn);
        System.out.println("demo: counts and restores over time: " + drawn);
        System.exit(isWhole ? 0 : 1);
    }

    private boolean drive(int kills) throws Exception {
        produce(store);
        Random random = new Random(7);
        for (Instance instance : instances) {
            instance.start();
        }
        for (int kill = 0; kill < kills; kill++) {
            awaitRunning(instances.get(kill % INSTANCES));
            watch(500 + random.nextInt(3_000));
            restart(kill % INSTANCES, "kill " + (kill + 1));
        }
        awaitWhole();
        // Whatever state there is now is all that the last starts can restore.
        for (int number = 0; number < INSTANCES; number++) {
            restart(number, "kill when all is counted,");
        }
        awaitWhole();
        for (int number = 0; number < INSTANCES; number++) {
            ended(number, instances.get(number).kill());
        }
        boolean isRight = isRight();
        boolean keeps = !store.equals("esker") || !IS_EXACT || restoredMost <= RESTORED_MAX;
        Instance.State all = all();
        System.out.println("demo: " + store + ": after " + (kills + INSTANCES) + " kills, "
                + (IS_EXACT ? "counts exact: " : "no count too low: ") + isRight + ", " + all.sum() + " counted of "
                + RECORDS + ", " + restoredBefore + " restored, " + (long) seconds() + " s"
                + (keeps ? "" : ", but a start restored " + restoredMost));
        return isRight && keeps;
    }

    private double seconds() {
        return (System.nanoTime() - began) / 1e9;
    }

    /** Kills an instance and starts it again. */
    private void restart(int number, String what) throws Exception {
        picture.mark(store, seconds());
        Instance instance = instances.get(number);
        instance.check();
        ended(number, instance.kill());
        System.out.println("demo: " + store + ": " + what + " of instance " + (number + 1) + " after "
                + (long) seconds() + " s");
        instance.start();
    }

    /** Notes what a start of an instance, which has ended, restored. */
    private void ended(int number, Instance.State last) {
        restoredBefore += last.restored();
        restoredMost = Math.max(restoredMost, last.restored());
        System.out.println("demo: " + store + ": this start of instance " + (number + 1) + " restored "
                + last.restored() + ", and had counted " + last.sum());
    }

    /** Returns what all instances together have. */
    private Instance.State all() {
        return instances.stream().map(Instance::state).reduce(Instance.State::plus).orElseThrow();
    }

    private boolean isRight() {
        Instance.State all = all();
        boolean isEnough = all.isRunning() && all.keys() == KEYS && all.fewer() == 0;
        return isEnough && (!IS_EXACT || all.sum() == RECORDS && all.more() == 0);
    }

    /** Draws the states for a time. */
    private void watch(long millis) throws Exception {
        long until = System.nanoTime() + Duration.ofMillis(millis).toNanos();
        while (System.nanoTime() < until) {
            Instance.State all = all();
            if (all.isRunning()) {
                picture.add(0, store, seconds(), all.sum());
            } else {
                picture.pause(0, store);
            }
            picture.add(1, store, seconds(), restoredBefore + all.restored());
            Thread.sleep(250);
        }
    }

    /** Waits until an instance counts: one that is killed while it starts has nothing to lose. */
    private void awaitRunning(Instance instance) throws Exception {
        await("an instance does not count", () -> instance.state().isRunning());
    }

    /** Waits until every record is counted. */
    private void awaitWhole() throws Exception {
        await("the counts are not right", this::isRight);
    }

    private void await(String otherwise, BooleanSupplier isDone) throws Exception {
        double until = seconds() + PATIENCE_SECONDS;
        while (!isDone.getAsBoolean()) {
            for (Instance instance : instances) {
                instance.check();
            }
            if (seconds() > until) {
                throw new IOException(store + ": " + otherwise + " after " + PATIENCE_SECONDS + " s without a kill: "
                        + all());
            }
            watch(250);
        }
    }

    private static void produce(String store) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", BROKER))) {
            admin.createTopics(List.of(new NewTopic("in-" + store, 4, (short) 1))).all().get();
        }
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", BROKER, "linger.ms", 20), new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < RECORDS; number++) {
                producer.send(new ProducerRecord<>("in-" + store, "key " + number % KEYS, "x"));
            }
        }
    }

    private static void count(String store, String number, Path directory) throws Exception {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "demo-" + store);
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, BROKER);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, directory.toString());
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, GUARANTEE);
        properties.put("commit.interval.ms", 200);
        properties.put("statestore.cache.max.bytes", 0);
        properties.put("auto.offset.reset", "earliest");
        // A member that comes back within this time has the partitions that it had.
        properties.put("group.instance.id", "instance-" + number);
        properties.put("session.timeout.ms", 20_000);
        properties.put("heartbeat.interval.ms", 1000);
        if (store.equals("esker")) {
            properties.put("dsl.store.suppliers.class", "dev.esker.kafka.streams.EskerDslStoreSuppliers");
            properties.put("default.client.supplier", "dev.esker.kafka.streams.EskerClientSupplier");
        }
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream("in-" + store, Consumed.with(Serdes.String(), Serdes.String())).groupByKey()
                .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts")
                        .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()));
        KafkaStreams streams = new KafkaStreams(builder.build(properties), properties);
        AtomicLong restored = new AtomicLong();
        streams.setGlobalStateRestoreListener(new StateRestoreListener() {
            @Override
            public void onRestoreStart(TopicPartition partition, String name, long from, long to) {}

            @Override
            public void onBatchRestored(TopicPartition partition, String name, long end, long records) {
                restored.addAndGet(records);
            }

            @Override
            public void onRestoreEnd(TopicPartition partition, String name, long records) {}
        });
        streams.start();
        while (true) {
            Thread.sleep(500);
            System.out.println(report(streams, restored.get()).line());
        }
    }

    private static Instance.State report(KafkaStreams streams, long restored) {
        long sum = 0;
        long keys = 0;
        long fewer = 0;
        long more = 0;
        if (streams.state() == KafkaStreams.State.RUNNING) {
            try {
                ReadOnlyKeyValueStore<String, Long> counts = streams.store(
                        StoreQueryParameters.fromNameAndType("counts", QueryableStoreTypes.keyValueStore()));
                try (KeyValueIterator<String, Long> all = counts.all()) {
                    while (all.hasNext()) {
                        long count = all.next().value;
                        sum += count;
                        keys++;
                        fewer += count < RECORDS / KEYS ? 1 : 0;
                        more += count > RECORDS / KEYS ? 1 : 0;
                    }
                }
                return new Instance.State(true, restored, sum, keys, fewer, more);
            } catch (RuntimeException rebalancing) {
                // Its partitions are on their way.
            }
        }
        return new Instance.State(false, restored, sum, keys, fewer, more);
    }
}
