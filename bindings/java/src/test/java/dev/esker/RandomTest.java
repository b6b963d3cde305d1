package dev.esker;

import static org.junit.jupiter.api.Assertions.*;

import java.nio.file.Path;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Random;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Random operations beside a {@link TreeMap} per keyspace. {@code -Desker.operations} says how many,
 * {@code -Desker.seed} repeats a run.
 */
class RandomTest {
    private static final int PARTS = 3;

    @TempDir
    Path dir;

    private final long seed = Long.getLong("esker.seed", System.nanoTime());
    private final Random random = new Random(seed);
    private final NavigableMap<byte[], byte[]>[] models = models();
    private final KeyValues[] parts = new KeyValues[PARTS];
    private Esker db;

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static NavigableMap<byte[], byte[]>[] models() {
        NavigableMap<byte[], byte[]>[] maps = new NavigableMap[PARTS];
        Arrays.setAll(maps, part -> new TreeMap<byte[], byte[]>(Arrays::compareUnsigned));
        return maps;
    }

    private byte[] key() {
        byte[] key = new byte[random.nextInt(4)];
        for (int at = 0; at < key.length; at++) {
            key[at] = (byte) (random.nextInt(8) == 0 ? 0xff : random.nextInt(12));
        }
        return key;
    }

    private byte[] value() {
        byte[] value = new byte[random.nextInt(50) == 0 ? random.nextInt(20_000) : random.nextInt(100)];
        random.nextBytes(value);
        return value;
    }

    private void open() {
        db = Esker.open(dir.resolve("db"), new Options().set("memtable_size_bytes", "256KiB"));
        parts[0] = db;
        parts[1] = db.keyspace("one");
        parts[2] = db.keyspace("two", Map.of("block_size_bytes", "1KiB"));
    }

    @Test
    void sameAsTreeMap() {
        long operations = Long.getLong("esker.operations", 40_000);
        open();
        try {
            for (long number = 0; number < operations; number++) {
                try {
                    operation();
                } catch (Throwable failed) {
                    throw new AssertionError("operation " + number + " with -Desker.seed=" + seed, failed);
                }
            }
            for (int part = 0; part < PARTS; part++) {
                walk(parts[part].iterator(), models[part], true);
                assertEquals(models[part].size(), parts[part].count());
            }
            assertEquals(List.of(), db.verify());
        } finally {
            db.close();
        }
    }

    private void operation() {
        int at = random.nextInt(PARTS);
        KeyValues part = parts[at];
        NavigableMap<byte[], byte[]> model = models[at];
        byte[] key = key();
        switch (random.nextInt(30)) {
            case 0, 1, 2, 3, 4, 5, 6, 7 -> {
                byte[] value = value();
                part.put(key, value);
                model.put(key, value);
            }
            case 8, 9, 10 -> {
                part.delete(key);
                model.remove(key);
            }
            case 11 -> assertEquals(model.remove(key) != null, part.remove(key));
            case 12, 13, 14, 15, 16, 17, 18 -> assertArrayEquals(model.get(key), part.get(key));
            case 19 -> {
                List<byte[]> keys = List.of(key(), key(), key());
                List<byte[]> values = part.multiGet(keys);
                for (int i = 0; i < 3; i++) {
                    assertArrayEquals(model.get(keys.get(i)), values.get(i));
                }
            }
            case 20, 21 -> batch();
            case 22, 23, 24 -> range(part, model);
            case 25 -> deleteRange(part, model);
            case 26 -> transaction(part, model);
            case 27 -> snapshot(part, model);
            case 28 -> assertEquals(model.containsKey(key), part.containsKey(key));
            default -> rare();
        }
    }

    private void rare() {
        switch (random.nextInt(40)) {
            case 0 -> {
                db.close();
                open();
            }
            case 1 -> db.flush();
            case 2 -> db.compact();
            default -> { }
        }
    }

    private void batch() {
        Batch batch = new Batch();
        for (int i = random.nextInt(20); i >= 0; i--) {
            int at = random.nextInt(PARTS);
            byte[] key = key();
            if (random.nextInt(3) == 0) {
                models[at].remove(key);
                Batch same = at == 0 ? batch.delete(key) : batch.delete((Keyspace) parts[at], key);
                assertSame(batch, same);
            } else {
                byte[] value = value();
                models[at].put(key, value);
                Batch same = at == 0 ? batch.put(key, value) : batch.put((Keyspace) parts[at], key, value);
                assertSame(batch, same);
            }
        }
        db.write(batch);
    }

    private void deleteRange(KeyValues part, NavigableMap<byte[], byte[]> model) {
        byte[] start = key();
        byte[] end = key();
        if (Arrays.compareUnsigned(start, end) < 0) {
            part.deleteRange(start, end);
            model.subMap(start, true, end, false).clear();
        }
    }

    private void transaction(KeyValues part, NavigableMap<byte[], byte[]> model) {
        boolean commits = random.nextBoolean();
        try (Transaction transaction = db.transaction(TransactionOptions.SERIALIZABLE)) {
            NavigableMap<byte[], byte[]> own = new TreeMap<>(model);
            for (int i = 0; i < 5; i++) {
                byte[] key = key();
                assertArrayEquals(own.get(key), transaction.get(part, key));
                byte[] value = value();
                transaction.put(part, key, value);
                own.put(key, value);
                byte[] gone = key();
                transaction.delete(part, gone);
                own.remove(gone);
            }
            walk(transaction.iterator(part, KeyRange.ALL), own, random.nextBoolean());
            if (commits) {
                transaction.commit();
                model.clear();
                model.putAll(own);
            }
        }
    }

    private void snapshot(KeyValues part, NavigableMap<byte[], byte[]> model) {
        try (Snapshot snapshot = db.snapshot()) {
            byte[] key = key();
            byte[] before = model.get(key);
            byte[] value = value();
            part.put(key, value);
            assertArrayEquals(before, part.get(key, snapshot));
            walk(part.iterator(KeyRange.ALL, snapshot), model, random.nextBoolean());
            model.put(key, value);
        }
    }

    private void range(KeyValues part, NavigableMap<byte[], byte[]> model) {
        byte[] from = random.nextInt(4) == 0 ? null : key();
        byte[] to = random.nextInt(4) == 0 ? null : key();
        if (from != null && to != null && Arrays.compareUnsigned(from, to) > 0) {
            return;
        }
        boolean fromIsIn = random.nextBoolean();
        boolean toIsIn = random.nextBoolean();
        NavigableMap<byte[], byte[]> within = model;
        if (from != null) {
            within = within.tailMap(from, fromIsIn);
        }
        if (to != null) {
            boolean isEmpty = from != null && Arrays.equals(from, to) && !(fromIsIn && toIsIn);
            within = isEmpty ? new TreeMap<>(Arrays::compareUnsigned) : within.headMap(to, toIsIn);
        }
        KeyRange range = new KeyRange(from, fromIsIn, to, toIsIn);
        walk(part.iterator(range), within, random.nextBoolean());
        wander(part.iterator(range), within);
    }

    private static void walk(EskerIterator iterator, NavigableMap<byte[], byte[]> model, boolean forward) {
        try (iterator) {
            if (forward) {
                iterator.seekToFirst();
            } else {
                iterator.seekToLast();
            }
            for (Map.Entry<byte[], byte[]> pair : (forward ? model : model.descendingMap()).entrySet()) {
                at(iterator, pair);
                if (forward) {
                    iterator.next();
                } else {
                    iterator.prev();
                }
            }
            assertFalse(iterator.isValid());
        }
    }

    /** Moves at random, changing the direction. */
    private void wander(EskerIterator iterator, NavigableMap<byte[], byte[]> model) {
        try (iterator) {
            Map.Entry<byte[], byte[]> here = null;
            for (int step = 0; step < 12; step++) {
                byte[] key = key();
                switch (here == null ? random.nextInt(2) : random.nextInt(6)) {
                    case 0 -> {
                        iterator.seek(key);
                        here = model.ceilingEntry(key);
                    }
                    case 1 -> {
                        iterator.seekForPrev(key);
                        here = model.floorEntry(key);
                    }
                    case 2, 3 -> {
                        iterator.next();
                        here = model.higherEntry(here.getKey());
                    }
                    default -> {
                        iterator.prev();
                        here = model.lowerEntry(here.getKey());
                    }
                }
                at(iterator, here);
            }
        }
    }

    private static void at(EskerIterator iterator, Map.Entry<byte[], byte[]> pair) {
        assertEquals(pair != null, iterator.isValid());
        if (pair != null) {
            String expected = HexFormat.of().formatHex(pair.getKey());
            assertEquals(expected, HexFormat.of().formatHex(iterator.key()));
            assertArrayEquals(pair.getValue(), iterator.value());
        }
    }
}
