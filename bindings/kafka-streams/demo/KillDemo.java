import dev.esker.ycsb.Processes;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
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
 * An application that counts records by key under exactly-once, and is killed with SIGKILL at random
 * moments. This process, which survives, is the oracle: each key must have its exact count. Prints what
 * each start restored.
 */
public class KillDemo {
    private static final String BROKER = "127.0.0.1:19092";
    private static final int RECORDS = Integer.getInteger("records", 600_000);
    private static final int KEYS = Integer.getInteger("keys", 100_000);

    private static long lastRestored;

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("count")) {
            count(arguments[1], Path.of(arguments[2]));
            return;
        }
        boolean isWhole = true;
        for (String store : List.of("esker", "rocksdb")) {
            isWhole &= drive(store, Path.of(arguments[1]), Integer.parseInt(arguments[2]));
        }
        System.exit(isWhole ? 0 : 1);
    }

    private static boolean drive(String store, Path place, int kills) throws Exception {
        produce(store);
        Random random = new Random(7);
        boolean isExact = false;
        long began = System.nanoTime();
        // The last but one start is killed when all is counted, so that the last one has all to restore.
        for (int start = 0; start <= kills; start++) {
            boolean isLast = start == kills;
            long patience = start == kills - 1 ? Long.MAX_VALUE : 6_000 + random.nextInt(6_000);
            isExact = run(store, place, start, patience, isLast);
        }
        // Esker's store keeps what was committed: at most what a moment adds is restored.
        boolean keeps = !store.equals("esker") || lastRestored <= RECORDS / 10;
        System.out.println("demo: " + store + ": after " + kills + " kills, counts exact: " + isExact + ", "
                + (System.nanoTime() - began) / 1_000_000_000 + " s" + (keeps ? "" : ", but too much was restored"));
        return isExact && keeps;
    }

    /** Runs the application once. Kills it after a time, or, if that is endless, when all is counted. */
    private static boolean run(String store, Path place, int start, long patienceMs, boolean isLast)
            throws Exception {
        List<String> command = Processes.java("512m");
        command.addAll(List.of("-Drecords=" + RECORDS, "-Dkeys=" + KEYS, "KillDemo", "count", store,
                place.resolve(store).toString()));
        Process victim = new ProcessBuilder(command)
                .redirectError(new File(place.toFile(), store + ".log")).start();
        boolean killsWhenDone = patienceMs == Long.MAX_VALUE;
        if (!isLast && !killsWhenDone) {
            Thread killer = new Thread(() -> {
                try {
                    Thread.sleep(patienceMs);
                    kill(victim);
                } catch (Exception ended) {
                    Thread.currentThread().interrupt();
                }
            });
            killer.setDaemon(true);
            killer.start();
        }
        boolean isExact = false;
        String last = "nothing";
        try (BufferedReader lines = new BufferedReader(
                new InputStreamReader(victim.getInputStream(), StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                last = line;
                if (line.startsWith("exact")) {
                    isExact = line.contains("exact true");
                    kill(victim);
                }
            }
        }
        victim.waitFor();
        Matcher restored = Pattern.compile("restored (\\d+)").matcher(last);
        lastRestored = restored.find() ? Long.parseLong(restored.group(1)) : Long.MAX_VALUE;
        System.out.println("demo: " + store + " start " + start + ": " + last);
        return isExact;
    }

    private static void kill(Process victim) throws Exception {
        new ProcessBuilder("kill", "-9", Long.toString(victim.pid())).start().waitFor();
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

    private static void count(String store, Path directory) throws Exception {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "demo-" + store);
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, BROKER);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, directory.toString());
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        properties.put("commit.interval.ms", 200);
        properties.put("statestore.cache.max.bytes", 0);
        properties.put("auto.offset.reset", "earliest");
        properties.put("session.timeout.ms", 6000);
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
        long began = System.nanoTime();
        streams.start();
        while (true) {
            Thread.sleep(500);
            if (streams.state() != KafkaStreams.State.RUNNING) {
                System.out.println("starting, restored " + restored);
                continue;
            }
            report(streams, restored.get(), (System.nanoTime() - began) / 1_000_000_000);
        }
    }

    private static void report(KafkaStreams streams, long restored, long seconds) {
        try {
            ReadOnlyKeyValueStore<String, Long> counts = streams.store(
                    StoreQueryParameters.fromNameAndType("counts", QueryableStoreTypes.keyValueStore()));
            long sum = 0;
            long keys = 0;
            long wrong = 0;
            try (KeyValueIterator<String, Long> all = counts.all()) {
                while (all.hasNext()) {
                    long count = all.next().value;
                    sum += count;
                    keys++;
                    wrong += count == RECORDS / KEYS ? 0 : 1;
                }
            }
            boolean isDone = sum >= RECORDS;
            String state = "restored " + restored + ", counted " + sum + " after " + seconds + " s";
            System.out.println(isDone ? "exact " + (sum == RECORDS && keys == KEYS && wrong == 0) + ", " + state : state);
        } catch (RuntimeException rebalancing) {
            System.out.println("rebalancing, restored " + restored);
        }
    }
}
