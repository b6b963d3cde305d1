package dev.esker;

import static org.junit.jupiter.api.Assertions.*;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** Each call once, and what closed objects and wrong arguments do. */
class BasicsTest {
    @TempDir
    Path dir;

    static byte[] b(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String s(byte[] text) {
        return text == null ? null : new String(text, StandardCharsets.UTF_8);
    }

    private Path path() {
        return dir.resolve("db");
    }

    static ErrorKind kindOf(Executable call) {
        return assertThrows(EskerException.class, call).kind();
    }

    @Test
    void readsAndWrites() {
        try (Esker db = Esker.open(path())) {
            db.put(b("a"), b("1"));
            db.put(b("xxbxx"), 2, 1, b("__2"), 2, 1);
            db.put(b("c"), b(""), Durability.SYNC);
            assertEquals("1", s(db.get(b("a"))));
            assertEquals("2", s(db.find(b("b")).orElseThrow()));
            assertEquals("", s(db.get(b("c"))));
            assertNull(db.get(b("d")));
            assertTrue(db.containsKey(b("c")));
            List<byte[]> found = db.multiGet(List.of(b("c"), b("zz"), b("a"), b("a")));
            assertEquals(List.of("", "null", "1", "1"), found.stream().map(v -> "" + s(v)).toList());
            assertTrue(db.remove(b("a")));
            assertFalse(db.remove(b("a")));
            db.delete(b("a"));
            db.deleteRange(b("b"), b("c"));
            assertEquals(1, db.count());
            db.flush();
            db.sync();
            db.compact();
            db.compact(b("a"), null);
            db.waitIdle();
            assertTrue(db.sizeBytes() > 0);
            assertEquals(List.of(), db.verify());
            assertTrue(db.metrics().get("esker_user_ops") >= 5, db.metrics().toString());
            assertTrue(db.openMetrics().contains("esker_user_ops_total"));
            assertEquals("buffered", db.option("durability"));
            assertNull(db.option("none"));
            Keyspace some = db.keyspace("some");
            some.put(b("x"), b("y"));
            some.clear();
            assertEquals(0, some.count());
            assertEquals(1, db.count());
            db.delete(b("c"));
            byte[] long1 = new byte[3 << 20];
            java.util.Arrays.fill(long1, (byte) 7);
            db.put(b("long"), long1);
            assertArrayEquals(long1, db.get(b("long")));
            try (EskerIterator pairs = db.iterator()) {
                pairs.seekToFirst();
                assertArrayEquals(long1, pairs.value());
                pairs.next();
                assertFalse(pairs.isValid());
            }
        }
    }

    @Test
    void batchesKeyspacesAndSnapshots() {
        try (Esker db = Esker.open(path(), new Options().mergeOperator("add_i64"))) {
            Keyspace users = db.keyspace("users");
            Keyspace reverse = db.keyspace("reverse", Map.of("key_order", "esker.reverse", "merge_operator", "append(,)"));
            Batch batch = new Batch().put(b("n"), b("1")).merge(b("n"), b("41")).put(users, b("7"), b("Ada"))
                    .put(reverse, b("a"), b("1")).put(reverse, b("b"), b("2")).merge(reverse, b("a"), b("x"))
                    .put(users, b("8"), b("Ben")).delete(users, b("8")).put(b("gone"), b("x"), Duration.ZERO)
                    .put(users, b("r1"), b("")).deleteRange(users, b("r"), b("s"));
            assertEquals(11, batch.count());
            try (Snapshot before = db.snapshot()) {
                db.write(batch);
                db.write(batch, Durability.SYNC);
                assertNull(before.get(b("n")));
                assertNull(users.get(b("7"), before));
                try (EskerIterator none = before.iterator(KeyRange.ALL)) {
                    none.seekToFirst();
                    assertFalse(none.isValid());
                }
                before.close();
                assertEquals(ErrorKind.CLOSED, kindOf(() -> before.get(b("n"))));
            }
            assertEquals("42", s(db.get(b("n"))));
            assertEquals("Ada", s(users.get(b("7"))));
            assertEquals(1, users.count());
            assertNull(db.get(b("gone")));
            assertEquals(List.of("b=2", "a=1,x"), pairs(reverse, KeyRange.ALL));
            assertTrue(db.keyspaces().containsAll(List.of("users", "reverse")), db.keyspaces().toString());
            assertEquals("reverse", db.keyspace("reverse").name());
            db.dropKeyspace("users");
            assertEquals(ErrorKind.NOT_FOUND, kindOf(() -> users.get(b("7"))));
            batch.clear();
            assertEquals(0, batch.sizeBytes());
            db.write(batch);
            try (Esker other = Esker.open(dir.resolve("other"))) {
                assertEquals(ErrorKind.INVALID_ARGUMENT, kindOf(() -> other.write(new Batch().put(reverse, b("a"), b("")))));
                assertEquals(0, other.count());
            }
        }
    }

    static List<String> pairs(KeyValues part, KeyRange range) {
        List<String> pairs = new ArrayList<>();
        try (EskerIterator iterator = part.iterator(range)) {
            for (iterator.seekToFirst(); iterator.isValid(); iterator.next()) {
                pairs.add(s(iterator.key()) + "=" + s(iterator.value()));
            }
        }
        return pairs;
    }

    @Test
    void iteratorsMoveBothWays() {
        try (Esker db = Esker.open(path())) {
            for (char c = 'a'; c <= 'e'; c++) {
                db.put(b("" + c), b("" + c));
            }
            assertEquals(List.of("b=b", "c=c"), pairs(db, KeyRange.of(b("b"), b("d"))));
            assertEquals(List.of("b=b", "c=c", "d=d"), pairs(db, KeyRange.closed(b("b"), b("d"))));
            assertEquals(List.of("e=e"), pairs(db, new KeyRange(b("d"), false, null, false)));
            assertEquals(List.of("c=c"), pairs(db, KeyRange.prefix(b("c"))));
            assertNull(KeyRange.prefix(new byte[] {-1}).to());
            try (EskerIterator it = db.iterator()) {
                assertFalse(it.isValid());
                it.next();
                assertEquals(ErrorKind.INVALID_ARGUMENT, kindOf(it::key));
                it.seek(b("bb"));
                assertEquals("c", s(it.key()));
                it.prev();
                assertEquals("b", s(it.key()));
                it.next();
                it.next();
                assertEquals("d", s(it.key()));
                assertTrue(it.compareKey(b("e")) < 0);
                it.seekForPrev(b("bb"));
                assertEquals("b", s(it.key()));
                it.prev();
                it.prev();
                assertFalse(it.isValid());
                it.seekToLast();
                assertEquals("e", s(it.key()));
                db.delete(b("e"));
                it.seekToLast();
                assertEquals("e", s(it.key()), "an iterator reads one moment");
                it.close();
                it.close();
                assertFalse(it.isValid());
                assertEquals(ErrorKind.CLOSED, kindOf(it::seekToFirst));
                assertEquals(ErrorKind.CLOSED, kindOf(it::key));
            }
        }
    }

    @Test
    void transactions() {
        try (Esker db = Esker.open(path(), new Options().mergeOperator("add_i64"))) {
            Keyspace other = db.keyspace("other");
            db.put(b("stock"), b("3"));
            try (Transaction order = db.transaction(TransactionOptions.DEFAULT);
                    Transaction late = db.transaction(TransactionOptions.DEFAULT)) {
                assertEquals("3", s(late.getForUpdate(b("stock"))));
                assertEquals("3", s(order.get(b("stock"))));
                order.put(b("stock"), b("2"));
                order.merge(db, b("stock"), b("-1"));
                order.put(other, b("k"), b("v"));
                order.savepoint();
                order.delete(b("stock"));
                order.deleteRange(other, b("a"), b("z"));
                order.rollbackToSavepoint();
                try (EskerIterator own = order.iterator(other, KeyRange.ALL)) {
                    own.seekToFirst();
                    assertEquals("v", s(own.value()));
                }
                order.commit();
                assertEquals(ErrorKind.CLOSED, kindOf(() -> order.put(b("a"), b("b"))));
                late.put(b("stock"), b("9"));
                EskerException conflict = assertThrows(EskerException.class, late::commit);
                assertEquals(ErrorKind.CONFLICT, conflict.kind());
                assertTrue(conflict.isRetryable());
            }
            assertEquals("1", s(db.get(b("stock"))));
            int[] runs = {0};
            String seen = db.transact(TransactionOptions.SERIALIZABLE, transaction -> {
                String before = s(transaction.get(b("stock")));
                if (runs[0]++ == 0) {
                    db.put(b("stock"), b("5"));
                }
                transaction.put(b("stock"), b("6"));
                return before;
            });
            assertEquals("5", seen);
            assertEquals(2, runs[0]);
            try (Transaction first = db.transaction(TransactionOptions.PESSIMISTIC)) {
                first.getForUpdate(b("stock"));
                TransactionOptions soon = new TransactionOptions(false, true, 1, null, 1);
                try (Transaction second = db.transaction(soon)) {
                    assertEquals(ErrorKind.BUSY, kindOf(() -> second.getForUpdate(b("stock"))));
                }
                first.put(b("stock"), b("prepared"));
                first.prepare("two phases");
            }
            assertEquals(List.of("two phases"), db.preparedTransactions());
            db.commitPrepared("two phases");
            assertEquals("prepared", s(db.get(b("stock"))));
        }
    }

    @Test
    void pairsExpire() throws InterruptedException {
        try (Esker db = Esker.open(path())) {
            db.put(b("session"), b("Ada"), Duration.ofHours(1));
            long expiry = db.expiryMs(b("session")).orElseThrow();
            assertTrue(expiry > System.currentTimeMillis());
            assertTrue(db.touch(b("session"), Duration.ofHours(2)));
            assertTrue(db.expiryMs(b("session")).orElseThrow() > expiry);
            assertFalse(db.touch(b("none"), Duration.ofHours(2)));
            db.put(b("short"), b("x"), Duration.ofMillis(1));
            while (db.containsKey(b("short"))) {
                Thread.sleep(1);
            }
            db.put(b("ever"), b("x"), Duration.ofSeconds(Long.MAX_VALUE));
            assertTrue(db.expiryMs(b("ever")).isEmpty());
            assertEquals(ErrorKind.INVALID_ARGUMENT, kindOf(() -> db.put(b("a"), b("b"), Duration.ofMillis(-1))));
        }
    }

    @Test
    void checkpointsAndBackups() {
        Path backups = dir.resolve("backups");
        try (Esker db = Esker.open(path())) {
            db.put(b("a"), b("1"));
            db.checkpoint(dir.resolve("checkpoint"));
            db.upgradeFormat(2);
            assertEquals(ErrorKind.INVALID_ARGUMENT, kindOf(() -> db.upgradeFormat(1)));
            assertEquals(ErrorKind.INVALID_ARGUMENT, kindOf(() -> db.upgradeFormat(-1)));
            assertEquals(1, db.backup(backups));
            db.put(b("a"), b("2"));
            assertEquals(2, db.backup(backups));
            assertEquals(List.of(1L, 2L), Esker.backups(backups));
        }
        Esker.restore(backups, 1, dir.resolve("first"));
        assertEquals(2, Esker.restore(backups, -1, dir.resolve("newest")));
        Esker.pruneBackups(backups, 1);
        assertEquals(List.of(2L), Esker.backups(backups));
        for (var expected : Map.of("checkpoint", "1", "first", "1", "newest", "2").entrySet()) {
            try (Esker db = Esker.openReadOnly(dir.resolve(expected.getKey()), new Options())) {
                assertEquals(expected.getValue(), s(db.get(b("a"))));
                assertEquals(ErrorKind.READ_ONLY, kindOf(() -> db.put(b("a"), b("b"))));
            }
        }
        assertEquals(List.of(), Esker.repair(dir.resolve("newest"), new Options()));
        Esker.destroy(dir.resolve("first"));
        assertFalse(Files.exists(dir.resolve("first")));
    }

    @Test
    void runtimeIsShared() {
        List<Esker> stores = new ArrayList<>();
        try (Runtime runtime = Runtime.builder().memoryBytes(64 << 20).cacheBytes(1 << 20).threadsMax(3).build()) {
            for (int i = 0; i < 20; i++) {
                stores.add(Esker.open(dir.resolve("db" + i), new Options().runtime(runtime)));
                stores.get(i).put(b("k"), b("" + i));
            }
            assertEquals(20, runtime.metrics().stores());
            assertEquals(64 << 20, runtime.metrics().budgetBytes());
            assertTrue(runtime.metrics().threads() <= 3);
            runtime.close();
            assertEquals(ErrorKind.CLOSED, kindOf(runtime::metrics));
        }
        assertEquals("7", s(stores.get(7).get(b("k"))));
        stores.forEach(Esker::close);
        assertEquals(ErrorKind.INVALID_ARGUMENT, kindOf(() -> Runtime.builder().memoryBytes(5).build()));
    }

    @Test
    void wrongUseThrows() {
        EskerException missing = assertThrows(EskerException.class,
                () -> Esker.open(path(), new Options().createIfMissing(false)));
        assertEquals(ErrorKind.NOT_FOUND, missing.kind());
        assertTrue(missing.getMessage().contains(path().toString()), missing.getMessage());
        assertEquals(ErrorKind.INVALID_ARGUMENT, kindOf(() -> Esker.open(path(), new Options().set("no_option", 1))));
        assertEquals(ErrorKind.INVALID_ARGUMENT, kindOf(() -> Esker.open(path(), new Options().mergeOperator("mul"))));
        Esker db = Esker.open(path());
        assertEquals(ErrorKind.LOCKED, kindOf(() -> Esker.open(path())));
        assertEquals(ErrorKind.INVALID_ARGUMENT, kindOf(() -> db.put(new byte[2 << 20], b(""))));
        assertThrows(NullPointerException.class, () -> db.put(null, b("")));
        assertThrows(NullPointerException.class, () -> db.get(null));
        assertThrows(IndexOutOfBoundsException.class, () -> db.put(b("abc"), 2, 2, b(""), 0, 0));
        EskerException panic = assertThrows(EskerException.class, () -> Native.panic(null));
        assertEquals(ErrorKind.INTERNAL, panic.kind());
        assertTrue(panic.getMessage().contains("asked for by a test"), panic.getMessage());
        assertEquals(ErrorKind.CLOSED, kindOf(() -> Native.get(null, 0, b("a"), 0, 1)));
        Keyspace keyspace = db.keyspace("k");
        Snapshot snapshot = db.snapshot();
        EskerIterator iterator = db.iterator();
        Transaction transaction = db.transaction(TransactionOptions.DEFAULT);
        db.close();
        db.close();
        assertTrue(db.isClosed());
        assertEquals(ErrorKind.CLOSED, kindOf(() -> db.get(b("a"))));
        assertEquals(ErrorKind.CLOSED, kindOf(() -> keyspace.get(b("a"))));
        assertEquals(ErrorKind.CLOSED, kindOf(() -> snapshot.get(b("a"))));
        assertEquals(ErrorKind.CLOSED, kindOf(iterator::seekToFirst));
        assertEquals(ErrorKind.CLOSED, kindOf(() -> transaction.put(b("a"), b("b"))));
        snapshot.close();
        iterator.close();
        transaction.close();
        keyspace.close();
    }

    @Test
    void errorKindsAreThoseOfTheDocument() throws java.io.IOException {
        Path document = Path.of(System.getProperty("esker.repository"), "docs", "errors.md");
        List<String> kinds = Files.readAllLines(document).stream().dropWhile(line -> !line.startsWith("| kind |"))
                .skip(2).takeWhile(line -> line.startsWith("|"))
                .map(line -> line.split("`")[1]).takeWhile(kind -> !kind.equals("key not found"))
                .toList();
        assertEquals(ErrorKind.values().length, kinds.size());
        for (String kind : kinds) {
            String name = kind.equals("i/o") ? "IO" : kind.toUpperCase(java.util.Locale.ROOT).replaceAll("[ -]", "_");
            assertEquals(ErrorKind.valueOf(name), ErrorKind.of(kind));
        }
    }

    /** Counts the open files below a directory. */
    private static long openFiles(Path below) throws Exception {
        long count = 0;
        try (var files = Files.list(Path.of("/proc/self/fd"))) {
            for (Path file : (Iterable<Path>) files::iterator) {
                try {
                    count += Files.readSymbolicLink(file).startsWith(below) ? 1 : 0;
                } catch (java.io.IOException closed) {
                    // It was closed meanwhile.
                }
            }
        }
        return count;
    }

    @Test
    void keyspacesOfClosedStoresKeepNoFiles() throws Exception {
        List<Keyspace> kept = new ArrayList<>();
        for (int number = 0; number < 10; number++) {
            try (Esker db = Esker.open(dir.resolve("db" + number))) {
                Keyspace keyspace = db.keyspace("words");
                keyspace.put(b("a"), b("1"));
                kept.add(keyspace);
                assertTrue(openFiles(dir.toRealPath()) > 0);
            }
        }
        for (int tries = 0; openFiles(dir.toRealPath()) > 0 && tries < 1000; tries++) {
            Thread.sleep(10);
        }
        assertEquals(0, openFiles(dir.toRealPath()));
        EskerException closed = assertThrows(EskerException.class, () -> kept.get(0).get(b("a")));
        assertEquals(ErrorKind.CLOSED, closed.kind());
    }

    @Test
    void leaksAreFreedAndCounted() throws InterruptedException {
        long before = Leaks.count();
        leak();
        while (Leaks.count() < before + 3) {
            System.gc();
            Thread.sleep(10);
        }
        while (true) { // the cleaner closes the store after it has counted it
            try (Esker again = Esker.open(path())) {
                assertEquals("1", s(again.get(b("a"))));
                return;
            } catch (EskerException open) {
                assertEquals(ErrorKind.LOCKED, open.kind());
                Thread.sleep(10);
            }
        }
    }

    private void leak() {
        Esker db = Esker.open(path());
        db.put(b("a"), b("1"));
        db.iterator().seekToFirst();
        db.snapshot().get(b("a"));
    }
}
