package dev.esker.kafka.streams.demo;

import dev.esker.ycsb.Place;
import dev.esker.ycsb.Request;
import dev.esker.ycsb.Round;
import dev.esker.ycsb.Row;
import dev.esker.ycsb.RowClient;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.Properties;
import java.util.Set;
import java.util.Vector;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.Status;

/**
 * YCSB through an application of Kafka Streams: a write is a record of a topic, which the application puts into
 * its store; a read asks the store. A phase with writes is over when the store has all of them.
 */
public final class StreamsRound implements Place {
    private static final String TOPIC = "records";
    private static final int PARTITIONS = 4;

    private final String store;
    private final Path directory;
    private final Broker broker;
    private final KafkaProducer<String, byte[]> producer;
    private final KafkaStreams streams;
    private final AtomicLong sent = new AtomicLong();
    private final AtomicLong applied = new AtomicLong();
    private final AtomicReference<Exception> failure = new AtomicReference<>();

    private StreamsRound(Request request) throws Exception {
        store = request.store();
        directory = Path.of(request.directory());
        broker = new Broker(directory.resolve("broker"));
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", broker.address()))) {
            admin.createTopics(List.of(new NewTopic(TOPIC, PARTITIONS, (short) 1))).all().get();
        }
        producer = new KafkaProducer<>(Map.of("bootstrap.servers", broker.address(), "linger.ms", 5),
                new StringSerializer(), new ByteArraySerializer());
        Properties properties = properties();
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(TOPIC, Consumed.with(Serdes.String(), Serdes.ByteArray()))
                .toTable(Materialized.<String, byte[], KeyValueStore<Bytes, byte[]>>as(TOPIC)
                        .withKeySerde(Serdes.String()).withValueSerde(Serdes.ByteArray()))
                .toStream().foreach((key, value) -> applied.incrementAndGet());
        streams = new KafkaStreams(builder.build(properties), properties);
        streams.setUncaughtExceptionHandler(failed -> {
            failure.compareAndSet(null, new Exception(failed));
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        while (streams.state() != KafkaStreams.State.RUNNING) {
            check();
            Thread.sleep(50);
        }
    }

    private Properties properties() {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "ycsb");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, broker.address());
        properties.put(StreamsConfig.STATE_DIR_CONFIG, data(directory).toString());
        properties.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        properties.put("statestore.cache.max.bytes", 0);
        properties.put("auto.offset.reset", "earliest");
        if (store.equals("esker")) {
            properties.put("dsl.store.suppliers.class", "dev.esker.kafka.streams.EskerDslStoreSuppliers");
        } else if (!store.equals("rocksdb")) {
            throw new IllegalArgumentException("unknown store " + store + "; the stores are esker and rocksdb");
        }
        return properties;
    }

    /** Runs the round that is described on standard input. */
    public static void main(String[] arguments) throws Exception {
        Round.run(StreamsRound::new);
    }

    private void check() throws Exception {
        Exception failed = failure.get();
        if (failed != null) {
            throw failed;
        }
    }

    @Override
    public String about() {
        return "Kafka Streams " + AppInfoParser.getVersion() + ", one broker, " + PARTITIONS
                + " partitions, store: " + store + "; a write returns when the producer has it; Esker's library of commit "
                + System.getProperty("esker.commit");
    }

    @Override
    public DB client() {
        return new Client();
    }

    @Override
    public void settle() throws Exception {
        producer.flush();
        while (applied.get() < sent.get()) {
            check();
            Thread.sleep(5);
        }
        check();
    }

    @Override
    public boolean findsOwnWrites() {
        return false;
    }

    @Override
    public long records() {
        long count = 0;
        try (KeyValueIterator<String, byte[]> all = all().all()) {
            for (; all.hasNext(); all.next()) {
                count++;
            }
        }
        return count;
    }

    @Override
    public Path data(Path of) {
        return of.resolve("state");
    }

    @Override
    public List<Long> processes() {
        return List.of(ProcessHandle.current().pid());
    }

    @Override
    public void close() {
        streams.close(Duration.ofSeconds(20));
        producer.close(Duration.ofSeconds(5));
        broker.close();
    }

    private ReadOnlyKeyValueStore<String, byte[]> all() {
        return streams.store(StoreQueryParameters.fromNameAndType(TOPIC, QueryableStoreTypes.keyValueStore()));
    }

    private ReadOnlyKeyValueStore<String, byte[]> of(int partition) {
        return streams.store(StoreQueryParameters.<ReadOnlyKeyValueStore<String, byte[]>>fromNameAndType(
                TOPIC, QueryableStoreTypes.keyValueStore()).withPartition(partition));
    }

    /** YCSB's calls as records of the topic, and as questions to the store. */
    private final class Client extends RowClient {
        private final List<ReadOnlyKeyValueStore<String, byte[]>> parts =
                IntStream.range(0, PARTITIONS).mapToObj(StreamsRound.this::of).toList();

        @Override
        protected byte[] get(String key) {
            // As the producer chooses the partition of a record with a key.
            byte[] bytes = key.getBytes(StandardCharsets.UTF_8);
            return parts.get(Utils.toPositive(Utils.murmur2(bytes)) % PARTITIONS).get(key);
        }

        @Override
        protected void put(String key, byte[] row) {
            sent.incrementAndGet();
            producer.send(new ProducerRecord<>(TOPIC, key, row), (where, failed) -> {
                if (failed != null) {
                    failure.compareAndSet(null, failed);
                }
            });
        }

        /** Reads from a key on, in the order of the keys over all partitions. */
        @Override
        public Status scan(String table, String key, int count, Set<String> fields,
                Vector<HashMap<String, ByteIterator>> result) {
            PriorityQueue<KeyValueIterator<String, byte[]>> next =
                    new PriorityQueue<>(PARTITIONS, Comparator.comparing(KeyValueIterator::peekNextKey));
            List<KeyValueIterator<String, byte[]>> open = new ArrayList<>();
            try {
                for (ReadOnlyKeyValueStore<String, byte[]> records : parts) {
                    KeyValueIterator<String, byte[]> part = records.range(key, null);
                    open.add(part);
                    if (part.hasNext()) {
                        next.add(part);
                    }
                }
                String before = key;
                while (!next.isEmpty() && result.size() < count) {
                    KeyValueIterator<String, byte[]> part = next.remove();
                    KeyValue<String, byte[]> found = part.next();
                    if (found.key.compareTo(before) < 0 || found.key.equals(before) && !result.isEmpty()) {
                        return Status.UNEXPECTED_STATE;
                    }
                    before = found.key;
                    HashMap<String, ByteIterator> row = new HashMap<>();
                    Row.unpack(found.value, fields, row);
                    result.add(row);
                    if (part.hasNext()) {
                        next.add(part);
                    }
                }
                return Status.OK;
            } finally {
                open.forEach(KeyValueIterator::close);
            }
        }
    }
}
