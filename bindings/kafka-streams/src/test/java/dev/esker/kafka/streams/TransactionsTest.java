package dev.esker.kafka.streams;

import static org.junit.jupiter.api.Assertions.*;

import java.io.File;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Random;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.errors.TaskCorruptedException;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.query.FailureReason;
import org.apache.kafka.streams.query.KeyQuery;
import org.apache.kafka.streams.query.MultiVersionedKeyQuery;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.RangeQuery;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What a store holds under exactly-once after commits, aborts and deaths. */
class TransactionsTest {
    private static final TopicPartition CHANGELOG = new TopicPartition("test-store-changelog", 0);

    @TempDir
    File dir;

    private ReportingProducer producer() {
        ReportingProducer producer = new ReportingProducer(
                new MockProducer<>(true, null, new ByteArraySerializer(), new ByteArraySerializer()));
        producer.initTransactions();
        return producer;
    }

    private static Bytes bytes(String text) {
        return Bytes.wrap(text.getBytes());
    }

    private EskerKeyValueStore open(TestContext context) {
        EskerKeyValueStore store = new EskerKeyValueStore("store");
        store.init(context, store);
        return store;
    }

    private static String get(EskerKeyValueStore store, String key) {
        byte[] value = store.get(bytes(key));
        return value == null ? null : new String(value);
    }

    /** The store as a new process finds it after a kill: a copy of its files. */
    private EskerKeyValueStore afterKill(TestContext context) throws Exception {
        File copy = new File(dir, "copy" + System.nanoTime());
        copy(context.stateDir(), copy);
        TestContext next = new TestContext(copy);
        next.configs.putAll(context.configs);
        return open(next);
    }

    private static void copy(File from, File to) throws Exception {
        try (var files = java.nio.file.Files.walk(from.toPath())) {
            for (java.nio.file.Path file : (Iterable<java.nio.file.Path>) files::iterator) {
                if (!file.getFileName().toString().equals("LOCK")) {
                    java.nio.file.Files.copy(file, to.toPath().resolve(from.toPath().relativize(file).toString()));
                }
            }
        }
    }

    @Test
    void offsetsOfAnotherStoreAreRefused() throws Exception {
        File task = new File(dir, "task");
        java.nio.file.Files.createDirectories(task.toPath());
        File checkpoint = new File(task, ".checkpoint");
        EskerKeyValueStore store = open(new TestContext(task));
        store.put(bytes("a"), "1".getBytes());
        store.close();
        // Kafka writes the file for a downgrade: the offsets are those of this store then.
        java.nio.file.Files.writeString(checkpoint.toPath(), "0\n1\ntest-store-changelog 0 41\n");
        store = open(new TestContext(task));
        assertEquals("1", get(store, "a"));
        store.close();
        for (String other : List.of("rocksdb/store", "store")) {
            File directory = new File(task, other);
            java.nio.file.Files.createDirectories(directory.toPath());
            String message = assertThrows(ProcessorStateException.class, () -> open(new TestContext(task)), other)
                    .getMessage();
            assertTrue(message.contains(task.getPath()) && message.contains("delete"), message);
            assertTrue(directory.delete());
        }
    }

    @Test
    void settingsThatDoNotExistAreRefused() {
        for (String name : List.of("esker.memory.byte", "esker.option.nope")) {
            TestContext context = new TestContext(new File(dir, "task"));
            context.configs.put(name, "7");
            RuntimeException refused = assertThrows(RuntimeException.class, () -> open(context), name);
            String text = refused.getMessage() + ": " + refused.getCause();
            assertTrue(text.contains(name.substring(name.lastIndexOf('.') + 1)), text);
        }
        EskerKeyValueStore store = open(new TestContext(new File(dir, "task")));
        store.close();
    }

    @Test
    void onlyCommittedWritesSurvive() throws Exception {
        TestContext context = TestContext.transactional(new File(dir, "task"));
        EskerKeyValueStore store = open(context);
        ReportingProducer producer = producer();
        producer.beginTransaction();
        store.put(bytes("a"), "1".getBytes());
        store.put(bytes("b"), new byte[0]);
        assertEquals("1", get(store, "a"), "a task reads its own writes");
        try (EskerClosing killed = new EskerClosing(afterKill(context))) {
            assertNull(get(killed.store(), "a"));
        }
        producer.commitTransaction();
        try (EskerClosing killed = new EskerClosing(afterKill(context))) {
            assertEquals("1", get(killed.store(), "a"));
            assertEquals("", get(killed.store(), "b"));
        }
        producer.beginTransaction();
        store.put(bytes("a"), "2".getBytes());
        store.put(bytes("b"), null);
        assertNull(get(store, "b"));
        producer.abortTransaction();
        assertEquals("1", get(store, "a"));
        assertEquals("", get(store, "b"));
        producer.beginTransaction();
        store.put(bytes("a"), "3".getBytes());
        store.close();
        producer.commitTransaction();
        EskerKeyValueStore again = open(context);
        assertEquals("1", get(again, "a"), "a close drops what was not committed");
        again.close();
    }

    private record EskerClosing(EskerKeyValueStore store) implements AutoCloseable {
        @Override
        public void close() {
            store.close();
        }
    }

    @Test
    void offsetsAreWrittenWithTheWrites() {
        TestContext context = TestContext.transactional(new File(dir, "task"));
        Space space = Space.open("store", context, CHANGELOG);
        ReportingProducer producer = producer();
        producer.beginTransaction();
        for (int number = 0; number < 5; number++) {
            producer.send(new ProducerRecord<>(CHANGELOG.topic(), 0, new byte[0], new byte[0]));
        }
        producer.send(new ProducerRecord<>("output", 0, new byte[0], new byte[0]));
        space.put("a".getBytes(), "1".getBytes());
        assertNull(space.committedOffset(CHANGELOG));
        producer.commitTransaction();
        assertEquals(4, space.committedOffset(CHANGELOG));
        // A source topic that is the changelog: the offset before the next one to read.
        producer.beginTransaction();
        space.put("a".getBytes(), "2".getBytes());
        producer.sendOffsetsToTransaction(Map.of(CHANGELOG, new OffsetAndMetadata(101)), new ConsumerGroupMetadata("g"));
        producer.commitTransaction();
        assertEquals(100, space.committedOffset(CHANGELOG));
        space.commit(Map.of(CHANGELOG, 200L));
        assertEquals(200, space.committedOffset(CHANGELOG));
        space.commit(Map.of());
        assertNull(space.committedOffset(CHANGELOG));
        space.close();
    }

    @Test
    void restoresWriteDirectlyWithTheirOffset() throws Exception {
        TestContext context = TestContext.transactional(new File(dir, "task"));
        EskerKeyValueStore store = open(context);
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int number = 0; number < 10; number++) {
            records.add(new ConsumerRecord<>(CHANGELOG.topic(), 0, 50 + number, ("k" + number % 3).getBytes(),
                    number == 8 ? null : ("v" + number).getBytes()));
        }
        context.restore.restoreBatch(records);
        try (EskerClosing killed = new EskerClosing(afterKill(context))) {
            assertEquals(59, killed.store().committedOffset(CHANGELOG));
            assertEquals("v9", get(killed.store(), "k0"));
            assertEquals("v7", get(killed.store(), "k1"));
            assertNull(get(killed.store(), "k2"));
        }
        store.close();
    }

    @Test
    void directWritesUnderExactlyOnceAreNotTrustedAfterAKill() throws Exception {
        TestContext context = TestContext.exactlyOnce(new File(dir, "task"));
        EskerKeyValueStore store = open(context);
        store.put(bytes("a"), "1".getBytes());
        assertThrows(TaskCorruptedException.class, () -> afterKill(context));
        store.close();
        EskerKeyValueStore again = open(context);
        assertEquals("1", get(again, "a"), "a clean close is trusted");
        again.close();
        TestContext atLeastOnce = new TestContext(new File(dir, "other"));
        EskerKeyValueStore other = open(atLeastOnce);
        other.put(bytes("a"), "1".getBytes());
        try (EskerClosing killed = new EskerClosing(afterKill(atLeastOnce))) {
            assertEquals("1", get(killed.store(), "a"));
        }
        other.close();
    }

    @Test
    void oneMemoryNumberServesAllStores() {
        List<EskerKeyValueStore> stores = new ArrayList<>();
        for (int number = 0; number < 30; number++) {
            TestContext context = new TestContext(new File(dir, "task" + number));
            context.configs.put(EskerConfig.MEMORY_BYTES, "67108864");
            context.configs.put("esker.option.compression", "none");
            stores.add(open(context));
        }
        assertEquals("none", stores.get(3).space.db().option("compression"));
        assertTrue(stores.get(3).space.db().metrics().get("esker_memory_cache_capacity_bytes") <= 67108864);
        stores.forEach(EskerKeyValueStore::close);
    }

    @Test
    void overlayAndStoreReadAsOneMap() {
        long seed = System.nanoTime();
        Random random = new Random(seed);
        Space space = Space.open("store", TestContext.transactional(new File(dir, "task")), CHANGELOG);
        ReportingProducer producer = producer();
        NavigableMap<byte[], byte[]> committed = new TreeMap<>(Arrays::compareUnsigned);
        NavigableMap<byte[], byte[]> now = new TreeMap<>(Arrays::compareUnsigned);
        producer.beginTransaction();
        for (int number = 0; number < 5000; number++) {
            byte[] key = {(byte) random.nextInt(20), (byte) random.nextInt(20)};
            switch (random.nextInt(12)) {
                case 0 -> {
                    producer.commitTransaction();
                    committed = new TreeMap<>(now);
                    producer.beginTransaction();
                }
                case 1 -> {
                    producer.abortTransaction();
                    now = new TreeMap<>(committed);
                    producer.beginTransaction();
                }
                case 2, 3, 4 -> {
                    space.put(key, null);
                    now.remove(key);
                }
                case 5, 6, 7, 8 -> {
                    byte[] value = new byte[random.nextInt(3)];
                    space.put(key, value);
                    now.put(key, value);
                }
                case 9 -> assertArrayEquals(now.get(key), space.get(key), "seed " + seed);
                default -> {
                    byte[] other = {(byte) random.nextInt(20)};
                    boolean isEmpty = Arrays.compareUnsigned(key, other) > 0;
                    boolean forward = random.nextBoolean();
                    NavigableMap<byte[], byte[]> range = isEmpty ? new TreeMap<>() : now.subMap(key, true, other, true);
                    same(forward ? range : range.descendingMap(), space.range(key, other, true, forward), seed);
                    same(forward ? now : now.descendingMap(), space.range(null, null, true, forward), seed);
                }
            }
        }
        space.close();
    }

    private static void same(NavigableMap<byte[], byte[]> model, Pairs pairs, long seed) {
        try (pairs) {
            for (Map.Entry<byte[], byte[]> pair : model.entrySet()) {
                assertTrue(pairs.hasNext(), "seed " + seed);
                assertArrayEquals(pair.getKey(), pairs.key(), "seed " + seed);
                assertArrayEquals(pair.getValue(), pairs.value(), "seed " + seed);
                pairs.skip();
            }
            assertFalse(pairs.hasNext(), "seed " + seed);
        }
    }

    @Test
    void windowsUnderTransactionsExpireAtTheCommit() throws Exception {
        TestContext context = TestContext.transactional(new File(dir, "task"));
        EskerWindowStore store = new EskerWindowStore(new WindowShape("store", 120_000, 1000, false, false));
        store.init(context, store);
        ReportingProducer producer = producer();
        producer.beginTransaction();
        for (int minute = 0; minute < 3; minute++) {
            store.put(bytes("k"), ("" + minute).getBytes(), minute * 60_000L);
        }
        producer.commitTransaction();
        producer.beginTransaction();
        store.put(bytes("k"), "10".getBytes(), 600_000);
        assertEquals(List.of("10"), all(store));
        producer.abortTransaction();
        store.close();
        // The stream time of the transaction that was aborted has deleted nothing.
        EskerWindowStore again = new EskerWindowStore(new WindowShape("store", 120_000, 1000, false, false));
        again.init(context, again);
        assertEquals(List.of("0", "1", "2"), all(again));
        producer.beginTransaction();
        again.put(bytes("k"), "10".getBytes(), 600_000);
        producer.commitTransaction();
        assertEquals(List.of("10"), all(again));
        assertEquals(1, again.space.db().count());
        again.close();
    }

    private static List<String> all(EskerWindowStore store) {
        List<String> values = new ArrayList<>();
        try (KeyValueIterator<?, byte[]> pairs = store.all()) {
            while (pairs.hasNext()) {
                values.add(new String(pairs.next().value));
            }
        }
        return values;
    }

    @Test
    void globalStoresWriteDirectly() throws Exception {
        TestContext context = TestContext.transactional(new File(dir, "global"));
        context.task = new TaskId(-1, -1);
        EskerKeyValueStore store = open(context);
        store.put(bytes("a"), "1".getBytes());
        store.commit(Map.of(CHANGELOG, 7L));
        store.put(bytes("a"), "2".getBytes());
        TestContext next = TestContext.transactional(new File(dir, "copy"));
        copy(context.stateDir(), next.stateDir());
        next.task = context.task;
        try (EskerClosing killed = new EskerClosing(open(next))) {
            assertEquals("2", get(killed.store(), "a"));
            assertEquals(7, killed.store().committedOffset(CHANGELOG));
        }
        store.close();
    }

    @Test
    void queriesOfVersionTwo() {
        TestContext context = new TestContext(new File(dir, "task"));
        EskerKeyValueStore store = open(context);
        store.put(bytes("a"), "1".getBytes());
        store.put(bytes("b"), "2".getBytes());
        var all = PositionBound.unbounded();
        var plain = new QueryConfig(false);
        assertEquals("1", new String(store.query(KeyQuery.<Bytes, byte[]>withKey(bytes("a")), all, plain).getResult()));
        try (var pairs = store.query(RangeQuery.<Bytes, byte[]>withLowerBound(bytes("b")), all, plain).getResult()) {
            assertEquals(bytes("b"), pairs.next().key);
            assertFalse(pairs.hasNext());
        }
        var ahead = PositionBound.at(Position.emptyPosition().withComponent("topic", 0, 5));
        assertEquals(FailureReason.NOT_UP_TO_BOUND,
                store.query(KeyQuery.<Bytes, byte[]>withKey(bytes("a")), ahead, plain).getFailureReason());
        store.close();
        TestContext other = new TestContext(new File(dir, "versioned"));
        EskerVersionedStore versioned = new EskerVersionedStore("versioned", 100_000);
        versioned.init(other, versioned);
        for (int time = 0; time < 5; time++) {
            versioned.put(bytes("k"), time == 3 ? null : ("" + time).getBytes(), time);
        }
        var query = MultiVersionedKeyQuery.<Bytes, byte[]>withKey(bytes("k")).withAscendingTimestamps();
        StringBuilder found = new StringBuilder();
        try (var versions = versioned.query(query, all, plain).getResult()) {
            versions.forEachRemaining(version -> found.append(new String(version.value())));
        }
        assertEquals("0124", found.toString());
        versioned.close();
    }

    @Test
    void versionedStoreForgetsWhatIsOlderThanItsHistory() {
        TestContext context = new TestContext(new File(dir, "task"));
        EskerVersionedStore store = new EskerVersionedStore("store", 1000);
        store.init(context, store);
        for (int time = 0; time < 5000; time += 10) {
            store.put(bytes("k"), ("" + time).getBytes(), time);
            store.put(bytes("deleted " + time), "x".getBytes(), time);
            store.put(bytes("deleted " + time), null, time + 5);
        }
        assertEquals("4500", new String(store.get(bytes("k"), 4505).value()));
        assertNull(store.get(bytes("k"), 100));
        // 100 versions of the key and two for each deleted key in the history, with an end for each.
        assertTrue(store.space.db().count() < 1000, "" + store.space.db().count());
        store.close();
    }
}
