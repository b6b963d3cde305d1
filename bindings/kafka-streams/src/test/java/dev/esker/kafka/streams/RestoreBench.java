package dev.esker.kafka.streams;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.processor.internals.MockStreamsMetrics;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.internals.ThreadCache;
import org.apache.kafka.test.InternalMockProcessorContext;
import org.apache.kafka.test.MockRecordCollector;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.io.TempDir;

/**
 * The restore of a store from its changelog, {@code esker.restored} records (10,000,000) of 16 and 100
 * bytes in batches of 1,000, as Kafka hands them over; and the memory of a process that opens and closes a
 * store 1,200 times and then opens a million iterators. Each measurement is a process of its own. Esker and
 * RocksDB as Kafka configures it, in turn.
 */
@EnabledIfSystemProperty(named = "esker.bench", matches = "yes")
public class RestoreBench {
    private static final int BATCH = 1000;
    private static final int ROUNDS = 3;
    private static final int WARM_OPENS = 200;
    private static final String OPENS = "1000";
    private static final int ITERATORS = 1_000_000;

    @TempDir
    Path dir;

    @Test
    void restoreOfManyRecords() throws Exception {
        String records = System.getProperty("esker.restored", "10000000");
        for (int round = 0; round < ROUNDS; round++) {
            run("restore", "esker", records, round);
            run("restore", "rocksdb", records, round);
        }
    }

    @Test
    void memoryOverManyOpens() throws Exception {
        run("opens", "esker", OPENS, 0);
        run("opens", "rocksdb", OPENS, 0);
    }

    private void run(String what, String engine, String records, int round) throws Exception {
        Path own = Files.createDirectory(dir.resolve(what + engine + round));
        // The heap has one size and is touched at once, so that what grows is outside of it.
        Process process = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-Xms256m", "-Xmx256m", "-XX:+AlwaysPreTouch", "-cp", System.getProperty("java.class.path"), RestoreBench.class.getName(), what, engine,
                records, own.toString()).redirectErrorStream(true).start();
        String text = new String(process.getInputStream().readAllBytes());
        assertEquals(0, process.waitFor(), text);
        text.lines().filter(line -> line.startsWith("bench:")).forEach(System.out::println);
    }

    private static InternalMockProcessorContext<?, ?> context(File directory) {
        return new InternalMockProcessorContext<>(directory, Serdes.Bytes(), Serdes.ByteArray(),
                new MockRecordCollector(),
                new ThreadCache(new LogContext(), 0, new MockStreamsMetrics(new Metrics())));
    }

    private static KeyValueStore<Bytes, byte[]> store(String engine) {
        return (engine.equals("esker") ? EskerStores.persistentKeyValueStore("store")
                : Stores.persistentKeyValueStore("store")).get();
    }

    public static void main(String[] arguments) throws Exception {
        File directory = new File(arguments[3]);
        if (arguments[0].equals("restore")) {
            restore(arguments[1], Integer.parseInt(arguments[2]), directory);
        } else {
            opens(arguments[1], Integer.parseInt(arguments[2]), directory);
        }
    }

    /** Restores records with different keys, and counts how many each second has. */
    private static void restore(String engine, int records, File directory) {
        InternalMockProcessorContext<?, ?> context = context(directory);
        KeyValueStore<Bytes, byte[]> store = store(engine);
        store.init(context, store);
        byte[] value = new byte[100];
        Random random = new Random(1);
        List<KeyValue<byte[], byte[]>> batch = new ArrayList<>(BATCH);
        List<Long> seconds = new ArrayList<>();
        long began = System.nanoTime();
        long waited = 0;
        for (int first = 0; first < records; first += BATCH) {
            long prepared = System.nanoTime();
            batch.clear();
            for (int number = first; number < Math.min(first + BATCH, records); number++) {
                random.nextBytes(value);
                batch.add(KeyValue.pair(key(number), value.clone()));
            }
            waited += System.nanoTime() - prepared;
            context.restore("store", batch);
            int second = (int) ((System.nanoTime() - began - waited) / 1_000_000_000);
            while (seconds.size() <= second) {
                seconds.add(0L);
            }
            seconds.set(second, seconds.get(second) + batch.size());
        }
        double took = (System.nanoTime() - began - waited) / 1e9;
        double mean = records / took;
        // The last second is not whole.
        long slowest = seconds.stream().limit(seconds.size() - 1).mapToLong(count -> count).min().orElse(records);
        check(store, records);
        System.out.printf(Locale.ROOT, "bench: restore of %d, %s: %.1f s, slowest second %d of a mean of %.0f (%.2f)%n",
                records, engine, took, slowest, mean, slowest / mean);
        store.close();
    }

    private static byte[] key(long number) {
        return String.format("%016x", number * 0x9E3779B97F4A7C15L).getBytes();
    }

    private static void check(KeyValueStore<Bytes, byte[]> store, int records) {
        long count = 0;
        try (KeyValueIterator<Bytes, byte[]> all = store.all()) {
            for (; all.hasNext(); all.next()) {
                count++;
            }
        }
        if (count != records) {
            throw new AssertionError("restored " + count + " records of " + records);
        }
    }

    /** Opens and closes a store often, then one with many iterators, and compares the resident memory. */
    private static void opens(String engine, int opens, File directory) throws IOException {
        long before = 0;
        for (int open = 0; open < WARM_OPENS + opens; open++) {
            if (open == WARM_OPENS) {
                before = residentKib();
            }
            KeyValueStore<Bytes, byte[]> store = store(engine);
            store.init(context(directory), store);
            store.put(Bytes.wrap(key(open)), new byte[100]);
            store.close();
        }
        long afterOpens = residentKib();
        KeyValueStore<Bytes, byte[]> store = store(engine);
        store.init(context(directory), store);
        iterate(store, ITERATORS / 10);
        long beforeIterators = residentKib();
        iterate(store, ITERATORS);
        System.out.printf(Locale.ROOT, "bench: %s: %d opens: %+d KiB; %d iterators: %+d KiB; resident %d MiB%n", engine,
                opens, afterOpens - before, ITERATORS, residentKib() - beforeIterators, residentKib() >> 10);
        store.close();
    }

    private static void iterate(KeyValueStore<Bytes, byte[]> store, int count) {
        for (int at = 0; at < count; at++) {
            try (KeyValueIterator<Bytes, byte[]> some = store.range(Bytes.wrap(key(at % WARM_OPENS)), null)) {
                some.hasNext();
            }
        }
    }

    private static long residentKib() throws IOException {
        System.gc();
        return Files.readAllLines(Path.of("/proc/self/status")).stream().filter(line -> line.startsWith("VmRSS"))
                .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", ""))).sum();
    }
}
