package dev.esker.kafka.streams;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.streams.processor.internals.metrics.StreamsMetricsImpl;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.processor.internals.MockStreamsMetrics;
import org.apache.kafka.streams.state.internals.ThreadCache;
import org.apache.kafka.test.InternalMockProcessorContext;
import org.apache.kafka.test.MockRecordCollector;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.io.TempDir;

/**
 * Memory and threads of a process with many stores, on Esker with one number and on RocksDB as Kafka
 * configures it. Each measurement is a process of its own: {@code stores}, each with 20,000 pairs of
 * 16 and 100 bytes. Prints resident memory, native threads and seconds.
 */
@EnabledIfSystemProperty(named = "esker.bench", matches = "yes")
public class StoresBench {
    private static final int PAIRS = 20_000;

    @TempDir
    Path dir;

    @Test
    void manyStores() throws Exception {
        for (String stores : List.of("50", "132")) {
            for (String engine : List.of("esker", "rocksdb")) {
                List<String> command = List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-Xmx256m", "-cp", System.getProperty("java.class.path"), StoresBench.class.getName(), engine,
                        stores, Files.createDirectory(dir.resolve(engine + stores)).toString());
                Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
                String text = new String(process.getInputStream().readAllBytes());
                assertEquals(0, process.waitFor(), text);
                text.lines().filter(line -> line.startsWith("bench:")).forEach(System.out::println);
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[1]);
        StreamsMetricsImpl metrics = new MockStreamsMetrics(new Metrics());
        InternalMockProcessorContext<?, ?> context = new InternalMockProcessorContext<>(new File(arguments[2]),
                Serdes.Bytes(), Serdes.ByteArray(), new MockRecordCollector(),
                new ThreadCache(new LogContext(), 0, metrics));
        List<KeyValueStore<Bytes, byte[]>> stores = new ArrayList<>();
        long began = System.nanoTime();
        for (int number = 0; number < count; number++) {
            String name = "store" + number;
            KeyValueBytesStoreSupplier supplier = arguments[0].equals("esker")
                    ? EskerStores.persistentKeyValueStore(name)
                    : Stores.persistentKeyValueStore(name);
            stores.add(supplier.get());
            stores.get(number).init(context, stores.get(number));
        }
        byte[] value = new byte[100];
        new java.util.Random(1).nextBytes(value);
        for (int pair = 0; pair < PAIRS; pair++) {
            byte[] key = String.format("%016x", pair * 0x9E3779B97F4A7C15L).getBytes();
            for (KeyValueStore<Bytes, byte[]> store : stores) {
                store.put(Bytes.wrap(key), value);
            }
        }
        for (KeyValueStore<Bytes, byte[]> store : stores) {
            store.commit(java.util.Map.of());
        }
        long seconds = (System.nanoTime() - began) / 1_000_000_000;
        String status = Files.readString(Path.of("/proc/self/status"));
        System.out.printf("bench: %d stores, %s: %s, %s, %d s, %d files%n", count, arguments[0],
                line(status, "VmRSS"), line(status, "Threads"), seconds, new File("/proc/self/fd").list().length);
        stores.forEach(KeyValueStore::close);
    }

    private static String line(String status, String name) {
        return status.lines().filter(line -> line.startsWith(name)).findFirst().orElseThrow().replaceAll("\\s+", " ");
    }
}
