package dev.esker;

import static dev.esker.BasicsTest.b;
import static dev.esker.BasicsTest.kindOf;
import static dev.esker.BasicsTest.s;
import static org.junit.jupiter.api.Assertions.*;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Encrypted stores: keys, refusals, copies, another key. */
class EncryptionTest {
    private static final String SECRET = "a value that nobody may read";

    @TempDir
    Path dir;

    private static byte[] equal(int value) {
        byte[] key = new byte[32];
        Arrays.fill(key, (byte) value);
        return key;
    }

    private static Options right() {
        return new Options().key(equal(0x5a));
    }

    private static Options other() {
        return new Options().key(b("0b".repeat(32) + "\n"));
    }

    private static long plainFiles(Path path) throws IOException {
        try (Stream<Path> all = Files.walk(path)) {
            List<Path> files = all.filter(Files::isRegularFile).toList();
            assertTrue(files.size() > 3);
            long found = 0;
            for (Path file : files) {
                String content = new String(Files.readAllBytes(file), StandardCharsets.ISO_8859_1);
                found += content.contains(SECRET) ? 1 : 0;
            }
            return found;
        }
    }

    private static void fill(Path path, Options options) {
        try (Esker db = Esker.open(path, options)) {
            db.put(b("table"), b(SECRET));
            db.flush();
            db.put(b("log"), b(SECRET));
        }
    }

    private static void opens(Path path, Options options) {
        try (Esker db = Esker.open(path, options)) {
            assertEquals(SECRET, s(db.get(b("table"))));
            assertEquals(SECRET, s(db.get(b("log"))));
        }
    }

    private static String refused(Path path, Options options) {
        EskerException failed = assertThrows(EskerException.class, () -> Esker.open(path, options));
        assertEquals(ErrorKind.INVALID_ARGUMENT, failed.kind());
        return failed.getMessage();
    }

    @Test
    void encryptedStoreOpensWithItsKeyOnly() throws IOException {
        Path plain = dir.resolve("plain");
        Path path = dir.resolve("db");
        Path file = dir.resolve("key");
        fill(plain, new Options());
        fill(path, right());
        assertTrue(plainFiles(plain) > 0);
        assertEquals(0, plainFiles(path));
        assertTrue(refused(path, new Options()).contains("the store is encrypted"));
        assertTrue(refused(path, other()).contains("does not open this store"));
        assertTrue(refused(path, new Options().keyFile(file)).contains("cannot read the key file"));
        assertTrue(refused(plain, right()).contains("the store is not encrypted"));
        for (byte[] wrong : List.of(b(""), b("short"), new byte[33], b("xy".repeat(32)))) {
            String message = refused(path, new Options().key(wrong));
            assertTrue(message.contains("64 hexadecimal digits") && !message.contains("xyxy"), message);
        }
        Files.writeString(file, "5A".repeat(32) + "\n");
        opens(path, right());
        opens(path, new Options().keyFile(file));
        try (Esker db = Esker.openReadOnly(path, right())) {
            assertEquals(SECRET, s(db.get(b("log"))));
        }
    }

    @Test
    void functionsGiveKeysByName() {
        Path path = dir.resolve("db");
        List<String> asked = new ArrayList<>();
        Options options = new Options().keySource(name -> {
            asked.add(name);
            return new Options.MasterKey(equal(7), "key 1");
        });
        fill(path, options);
        opens(path, options);
        assertEquals(Arrays.asList(null, "key 1"), asked);
        assertFalse(new Options.MasterKey(equal(7), "key 1").toString().contains("7, 7"));
        RuntimeException down = new IllegalStateException("the service is down");
        Options fails = new Options().keySource(name -> {
            throw down;
        });
        assertSame(down, assertThrows(IllegalStateException.class, () -> Esker.open(path, fails)));
        assertThrows(NullPointerException.class,
                () -> Esker.open(path, new Options().keySource(name -> null)));
        for (Options.MasterKey wrong : List.of(new Options.MasterKey(new byte[31], "key 1"),
                new Options.MasterKey(equal(7), ""), new Options.MasterKey(equal(8), "key 1"))) {
            refused(path, new Options().keySource(name -> wrong));
        }
        opens(path, new Options().key(equal(7)));
    }

    @Test
    void rekeyReplacesTheKey() throws IOException {
        Path path = dir.resolve("db");
        fill(path, right());
        try (Esker db = Esker.open(path, right())) {
            assertEquals(ErrorKind.LOCKED, kindOf(() -> Esker.rekey(path, right(), other())));
        }
        assertEquals(ErrorKind.INVALID_ARGUMENT, kindOf(() -> Esker.rekey(path, other(), right())));
        assertEquals(ErrorKind.INVALID_ARGUMENT, kindOf(() -> Esker.rekey(path, right(), new Options())));
        assertEquals(ErrorKind.INVALID_ARGUMENT, kindOf(() -> Esker.rekey(path, new Options(), right())));
        Path none = dir.resolve("none");
        assertEquals(ErrorKind.NOT_FOUND, kindOf(() -> Esker.rekey(none, right(), other())));
        RekeyReport report = Esker.rekey(path, right(), other());
        assertEquals(16, report.from().length());
        assertTrue(!report.from().equals(report.to()) && report.dataKeys() >= 1);
        String message = refused(path, right());
        assertTrue(message.contains(report.from()) && message.contains(report.to()), message);
        opens(path, other());
        try (Esker db = Esker.open(path, other())) {
            db.compact(null, null);
        }
        opens(path, other());
        assertEquals(0, plainFiles(path));
    }

    @Test
    void copiesAreEncryptedUnderTheSameKey() throws IOException {
        Path path = dir.resolve("db");
        Path backups = dir.resolve("backups");
        Path restored = dir.resolve("restored");
        Path sorted = dir.resolve("sorted.sst");
        fill(path, right());
        List<String> asked = new ArrayList<>();
        Options byName = new Options().keySource(name -> {
            asked.add(name);
            return new Options.MasterKey(equal(0x5a), null);
        });
        try (Esker db = Esker.open(path, right()); SortedWriter writer = new SortedWriter(sorted, right())) {
            db.backup(backups);
            db.backup(backups);
            db.checkpoint(dir.resolve("checkpoint"));
            writer.put(b("sorted"), b(SECRET));
            writer.finish();
            db.ingest(List.of(sorted));
            assertEquals(SECRET, s(db.get(b("sorted"))));
        }
        assertEquals(List.of(1L, 2L), Esker.backups(backups, byName));
        Esker.pruneBackups(backups, 1, byName);
        assertEquals(2, Esker.restore(backups, -1, restored, byName));
        assertTrue(asked.size() == 3 && asked.stream().allMatch(name -> name != null && name.length() == 16), asked.toString());
        assertEquals(List.of(), Esker.repair(restored, right()));
        for (Path copy : List.of(path, restored, dir.resolve("checkpoint"))) {
            opens(copy, right());
            assertEquals(0, plainFiles(copy));
        }
        assertEquals(0, plainFiles(backups));
    }
}
