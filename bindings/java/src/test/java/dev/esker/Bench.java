package dev.esker;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.io.TempDir;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.BloomFilter;
import org.rocksdb.LRUCache;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.WriteOptions;

/**
 * Put, get and scan from one thread, beside RocksDB's Java library in the same run, in turn; and the
 * cost of a call. Pairs of 16 and 100 bytes in random order, a cache of 64 MiB for both, both logs on.
 * Prints the median of three rounds, in microseconds.
 */
@EnabledIfSystemProperty(named = "esker.bench", matches = "yes")
class Bench {
    private static final int PAIRS = Integer.getInteger("esker.pairs", 500_000);
    private static final int ROUNDS = 3;

    @TempDir
    Path dir;

    private interface Peer extends AutoCloseable {
        void put(byte[] key, byte[] value) throws Exception;

        byte[] get(byte[] key) throws Exception;

        int scan(byte[] from, int pairs) throws Exception;

        @Override
        void close();
    }

    private static final class OfEsker implements Peer {
        private final Esker db;

        OfEsker(Path path) {
            db = Esker.open(path, new Options().set("cache_size_bytes", "64MiB").set("memtable_size_bytes", "16MiB"));
        }

        @Override
        public void put(byte[] key, byte[] value) {
            db.put(key, value);
        }

        @Override
        public byte[] get(byte[] key) {
            return db.get(key);
        }

        @Override
        public int scan(byte[] from, int pairs) {
            int bytes = 0;
            try (EskerIterator iterator = db.iterator()) {
                iterator.seek(from);
                for (int i = 0; i < pairs && iterator.isValid(); i++, iterator.next()) {
                    bytes += iterator.key().length + iterator.value().length;
                }
            }
            return bytes;
        }

        @Override
        public void close() {
            db.close();
        }
    }

    private static final class OfRocks implements Peer {
        static {
            RocksDB.loadLibrary();
        }

        private final RocksDB db;
        private final WriteOptions writes = new WriteOptions();

        OfRocks(Path path) throws RocksDBException {
            BlockBasedTableConfig tables = new BlockBasedTableConfig();
            tables.setBlockCache(new LRUCache(64 << 20));
            tables.setFilterPolicy(new BloomFilter());
            org.rocksdb.Options options = new org.rocksdb.Options().setCreateIfMissing(true)
                    .setWriteBufferSize(16 << 20).setMaxWriteBufferNumber(3).setTableFormatConfig(tables)
                    .setIncreaseParallelism(2);
            db = RocksDB.open(options, path.toString());
        }

        @Override
        public void put(byte[] key, byte[] value) throws RocksDBException {
            db.put(writes, key, value);
        }

        @Override
        public byte[] get(byte[] key) throws RocksDBException {
            return db.get(key);
        }

        @Override
        public int scan(byte[] from, int pairs) {
            int bytes = 0;
            try (RocksIterator iterator = db.newIterator()) {
                iterator.seek(from);
                for (int i = 0; i < pairs && iterator.isValid(); i++, iterator.next()) {
                    bytes += iterator.key().length + iterator.value().length;
                }
            }
            return bytes;
        }

        @Override
        public void close() {
            db.close();
        }
    }

    private final Map<String, List<Double>> found = new TreeMap<>();

    private void note(String name, long operations, long beganNs) {
        double us = (System.nanoTime() - beganNs) / 1000.0 / operations;
        found.computeIfAbsent(name, key -> new ArrayList<>()).add(us);
    }

    private static byte[] key(long number) {
        byte[] key = new byte[16];
        long mixed = number * 0x9E3779B97F4A7C15L;
        for (int at = 0; at < 8; at++) {
            key[at] = (byte) (mixed >>> 8 * at);
            key[8 + at] = (byte) (number >>> 8 * at);
        }
        return key;
    }

    private void measure(String name, Peer peer) throws Exception {
        byte[] value = new byte[100];
        Random random = new Random(1);
        random.nextBytes(value);
        long began = System.nanoTime();
        for (int i = 0; i < PAIRS; i++) {
            peer.put(key(i), value);
        }
        note("put    " + name, PAIRS, began);
        long bytes = 0;
        began = System.nanoTime();
        for (int i = 0; i < PAIRS; i++) {
            bytes += peer.get(key(random.nextInt(PAIRS))).length;
        }
        note("get    " + name, PAIRS, began);
        began = System.nanoTime();
        for (int i = 0; i < PAIRS; i++) {
            bytes += peer.get(key(PAIRS + i)) == null ? 0 : 1;
        }
        note("absent " + name, PAIRS, began);
        int scans = PAIRS / 50;
        for (int pairs : new int[] {1, 10, 100}) {
            began = System.nanoTime();
            for (int i = 0; i < scans; i++) {
                bytes += peer.scan(key(random.nextInt(PAIRS)), pairs);
            }
            note("scan " + pairs + " " + name, scans, began);
        }
        if (bytes < 100L * PAIRS) {
            throw new AssertionError(name + " returned " + bytes + " bytes");
        }
    }

    @Test
    void besideRocksDb() throws Exception {
        for (int round = 0; round < ROUNDS; round++) {
            Path place = Files.createDirectory(dir.resolve("round" + round));
            try (Peer esker = new OfEsker(place.resolve("esker"))) {
                measure("Esker", esker);
            }
            try (Peer rocks = new OfRocks(place.resolve("rocks"))) {
                measure("RocksDB", rocks);
            }
        }
        calls();
        found.forEach((name, times) -> {
            double[] sorted = times.stream().mapToDouble(Double::doubleValue).sorted().toArray();
            System.out.printf("bench: %-18s %9.3f us  %s%n", name, sorted[sorted.length / 2],
                    Arrays.toString(Arrays.stream(sorted).map(us -> Math.round(us * 1000) / 1000.0).toArray()));
        });
    }

    /** What a call costs over the same work in native code: an empty call, and pairs in the cache. */
    private void calls() {
        for (int round = 0; round < ROUNDS; round++) {
            long began = System.nanoTime();
            for (int i = 0; i < 10_000_000; i++) {
                Native.nothing(this);
            }
            note("call   empty", 10_000_000, began);
        }
        try (Esker db = Esker.open(dir.resolve("small"))) {
            byte[] key = key(1);
            byte[] value = new byte[100];
            for (int round = 0; round < ROUNDS; round++) {
                long began = System.nanoTime();
                for (int i = 0; i < 1_000_000; i++) {
                    db.put(key, value);
                }
                note("call   put one key", 1_000_000, began);
                began = System.nanoTime();
                for (int i = 0; i < 1_000_000; i++) {
                    db.get(key);
                }
                note("call   get one key", 1_000_000, began);
            }
        }
    }
}
