package dev.esker;

import static dev.esker.BasicsTest.b;
import static dev.esker.BasicsTest.kindOf;
import static dev.esker.BasicsTest.s;
import static org.junit.jupiter.api.Assertions.*;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The change feed, forks, comparisons and ingests. */
class FeedTest {
    private static final Duration PATIENCE = Duration.ofMinutes(2);

    @TempDir
    Path dir;

    private Path path() {
        return dir.resolve("db");
    }

    private static List<String> keys(Iterable<ChangeBatch> feed) {
        List<String> keys = new ArrayList<>();
        feed.forEach(batch -> batch.changes().forEach(change -> keys.add(s(change.key()))));
        return keys;
    }

    @Test
    void readerThatBootstrapsAndFollowsHasEveryWriteOnce() throws Exception {
        try (Esker db = Esker.open(path())) {
            db.put(b("0000"), b("before"));
            Slot slot = db.subscribe("copy");
            CompletableFuture<Void> writer = CompletableFuture.runAsync(() -> {
                for (int number = 1; number < 300; number++) {
                    db.put(b("%04d".formatted(number)), b(""));
                }
            });
            List<String> seen = new ArrayList<>();
            PositionedSnapshot begun = db.snapshotWithPosition();
            try (Snapshot snapshot = begun.snapshot(); EskerIterator pairs = snapshot.iterator(KeyRange.ALL)) {
                for (pairs.seekToFirst(); pairs.isValid(); pairs.next()) {
                    seen.add(s(pairs.key()));
                }
            }
            slot.confirm(begun.position());
            long last = begun.position();
            try (Changes changes = slot.changes()) {
                while (seen.size() < 300) {
                    ChangeBatch batch = changes.next(PATIENCE);
                    assertNotNull(batch);
                    assertEquals(last, batch.previous());
                    assertEquals(last + 1, batch.firstSequence());
                    assertTrue(batch.checksum() != 0 && batch.changes().size() == 1);
                    last = batch.sequence();
                    seen.add(s(batch.changes().get(0).key()));
                }
                writer.get();
                for (int number = 0; number < 300; number++) {
                    assertEquals("%04d".formatted(number), seen.get(number));
                }
                assertNull(changes.poll());
                assertNull(changes.next(Duration.ofMillis(1)));
                assertEquals(last, changes.position());
            }
        }
    }

    @Test
    void confirmedSlotGoesOnAfterTheStoreWasOpenedAgain() {
        long first;
        long second;
        try (Esker db = Esker.open(path())) {
            Slot slot = db.subscribe("index", -1);
            List.of("a", "b", "c").forEach(key -> db.put(b(key), b("1")));
            try (Changes changes = slot.changes()) {
                first = changes.poll().sequence();
                second = changes.poll().sequence();
            }
            slot.confirm(second);
            slot.confirm(first);
            assertEquals(ErrorKind.INVALID_ARGUMENT, kindOf(() -> slot.confirm(1000)));
            assertEquals(ErrorKind.INVALID_ARGUMENT, kindOf(() -> slot.confirm(-1)));
        }
        try (Esker db = Esker.open(path())) {
            Slot slot = db.slot("index");
            assertEquals(second, slot.position());
            try (Changes changes = slot.changes(); Changes all = db.changes(first)) {
                assertEquals(List.of("c"), keys(changes));
                assertEquals(List.of("b", "c"), keys(all));
            }
            Slot.Info info = db.slots().get(0);
            assertEquals("index", info.name());
            assertEquals(second, info.position());
            assertTrue(info.lagLimitBytes() == -1 && info.problem() == null && info.lagBytes() >= 0);
            slot.drop();
            assertEquals(ErrorKind.NOT_FOUND, kindOf(slot::position));
            assertEquals(ErrorKind.NOT_FOUND, kindOf(slot::changes));
            assertEquals(ErrorKind.NOT_FOUND, kindOf(() -> db.slot("index")));
            assertEquals(List.of(), db.slots());
        }
    }

    @Test
    void ingestComesInPartsOfOneBatch() throws InterruptedException {
        final int count = 3000;
        Path file = dir.resolve("large.sst");
        Random random = new Random(1);
        List<byte[]> values = new ArrayList<>();
        try (SortedWriter writer = new SortedWriter(file, new Options())) {
            for (int number = 0; number < count; number++) {
                byte[] value = new byte[1000];
                random.nextBytes(value);
                values.add(value);
                writer.put(b("%05d".formatted(number)), value);
            }
            writer.finish();
        }
        try (Esker db = Esker.open(path())) {
            Slot slot = db.subscribe("parts");
            long begin = slot.position();
            db.ingest(List.of(file));
            db.put(b("whole"), b("batch"));
            try (Changes changes = slot.changes()) {
                List<ChangeBatch> parts = new ArrayList<>();
                do {
                    ChangeBatch part = changes.next(PATIENCE);
                    assertEquals(parts.size(), part.part());
                    assertEquals(begin, part.previous());
                    assertEquals(part.continues() ? begin : part.sequence(), changes.position());
                    parts.add(part);
                } while (parts.get(parts.size() - 1).continues());
                assertTrue(parts.size() > 1);
                assertEquals(1, parts.stream().map(part -> part.sequence() + " " + part.checksum()).distinct().count());
                List<Change> pairs = parts.stream().flatMap(part -> part.changes().stream()).toList();
                assertEquals(count, pairs.size());
                for (int number = 0; number < count; number++) {
                    assertEquals("%05d".formatted(number), s(pairs.get(number).key()));
                    assertArrayEquals(values.get(number), pairs.get(number).value());
                }
                slot.confirm(changes.position());
                ChangeBatch whole = changes.next(PATIENCE);
                assertTrue(whole.part() == 0 && !whole.continues() && whole.changes().size() == 1);
            }
        }
    }

    @Test
    void everyKindOfChangeHasItsComponents() {
        try (Esker db = Esker.open(path())) {
            Slot slot = db.subscribe("all");
            Keyspace counts = db.keyspace("counts", Map.of("merge_operator", "add_i64"));
            db.put(b("k"), b("v"), Duration.ofHours(1));
            counts.merge(b("n"), b("1"));
            counts.delete(b("n"));
            counts.deleteRange(b("a"), b("c"));
            counts.clear();
            db.dropKeyspace("counts");
            List<Change> changes = new ArrayList<>();
            try (Changes feed = slot.changes()) {
                feed.forEach(batch -> changes.addAll(batch.changes()));
            }
            assertEquals(List.of(Change.Kind.KEYSPACE_CREATED, Change.Kind.PUT, Change.Kind.MERGE,
                    Change.Kind.DELETE, Change.Kind.DELETE_RANGE, Change.Kind.CLEAR,
                    Change.Kind.KEYSPACE_DROPPED), changes.stream().map(Change::kind).toList());
            assertEquals("esker.bytewise", changes.get(0).keyOrder());
            assertTrue(changes.get(0).options().containsValue("add_i64"), changes.get(0).options().toString());
            Change put = changes.get(1);
            assertEquals("default k v", put.keyspace() + " " + s(put.key()) + " " + s(put.value()));
            assertTrue(put.expiresMs() > System.currentTimeMillis());
            assertEquals("counts n 1", changes.get(2).keyspace() + " " + s(changes.get(2).key()) + " "
                    + s(changes.get(2).value()));
            assertTrue(changes.get(3).value() == null && changes.get(3).expiresMs() == -1);
            assertEquals("a-c", s(changes.get(4).key()) + "-" + s(changes.get(4).value()));
        }
    }

    @Test
    void slotThatLagsTooFarIsDroppedAndSaysSo() {
        try (Esker db = Esker.open(path())) {
            Slot slot = db.subscribe("lagging", 1000);
            for (int number = 0; number < 100; number++) {
                db.put(b("" + number), new byte[100]);
            }
            db.flush();
            assertTrue(db.slots().get(0).problem().contains("lagged"));
            assertEquals(ErrorKind.NOT_FOUND, kindOf(slot::position));
            EskerException dropped = assertThrows(EskerException.class, () -> db.subscribe("lagging"));
            assertTrue(dropped.getMessage().contains("lagged"), dropped.getMessage());
            db.dropSlot("lagging");
            db.subscribe("lagging");
        }
    }

    private static ErrorKind endOf(CompletableFuture<ChangeBatch> waiting) throws InterruptedException {
        ExecutionException failed = assertThrows(ExecutionException.class, waiting::get);
        return ((EskerException) failed.getCause()).kind();
    }

    private static CompletableFuture<ChangeBatch> waiting(Changes changes) {
        return CompletableFuture.supplyAsync(() -> {
            try {
                return changes.next(PATIENCE);
            } catch (InterruptedException interrupted) {
                throw new IllegalStateException(interrupted);
            }
        });
    }

    @Test
    void closeEndsAWaitForABatch() throws Exception {
        Esker db = Esker.open(path());
        Slot slot = db.subscribe("one");
        Changes one = slot.changes();
        Changes two = slot.changes();
        CompletableFuture<ChangeBatch> first = waiting(one);
        CompletableFuture<ChangeBatch> second = waiting(two);
        one.close();
        assertEquals(ErrorKind.CLOSED, endOf(first));
        db.close();
        assertEquals(ErrorKind.CLOSED, endOf(second));
        two.close();
        two.close();
        assertEquals(ErrorKind.CLOSED, kindOf(two::poll));
        assertEquals(ErrorKind.CLOSED, kindOf(() -> slot.confirm(1)));
        assertEquals(ErrorKind.CLOSED, kindOf(slot::changes));
        assertEquals(ErrorKind.CLOSED, kindOf(() -> db.subscribe("one")));
        assertEquals(ErrorKind.CLOSED, kindOf(() -> db.changes(0)));
        assertEquals(ErrorKind.CLOSED, kindOf(db::slots));
        assertEquals(ErrorKind.CLOSED, kindOf(db::snapshotWithPosition));
        assertEquals(ErrorKind.CLOSED, kindOf(db::lineage));
        assertEquals(ErrorKind.CLOSED, kindOf(() -> db.fork(dir.resolve("late"))));
        assertEquals(ErrorKind.CLOSED, kindOf(() -> db.ingest(List.of())));
    }

    @Test
    void interruptEndsAWaitAndLosesNoBatch() throws Exception {
        try (Esker db = Esker.open(path()); Changes changes = db.changes(0)) {
            AtomicReference<Throwable> thrown = new AtomicReference<>();
            Thread waiter = new Thread(() -> {
                try {
                    changes.next(PATIENCE);
                } catch (Throwable failed) {
                    thrown.set(failed);
                }
            });
            waiter.start();
            waiter.interrupt();
            waiter.join(PATIENCE.toMillis());
            assertInstanceOf(InterruptedException.class, thrown.get());
            db.put(b("k"), b("v"));
            assertEquals(List.of("k"), keys(changes));
            assertEquals(ErrorKind.INVALID_ARGUMENT, kindOf(() -> db.changes(100)));
            assertEquals(ErrorKind.INVALID_ARGUMENT, kindOf(() -> db.changes(-1)));
            assertEquals(ErrorKind.INVALID_ARGUMENT, kindOf(() -> db.subscribe("a b")));
        }
    }

    @Test
    void forkIsIndependentAndAComparisonListsWhatChanged() {
        try (Esker db = Esker.open(path())) {
            db.put(b("apple"), b("red"));
            db.put(b("lime"), b("green"));
            ForkReport report = db.fork(dir.resolve("fork"), "try 1");
            assertTrue(report.linkedFiles() + report.copiedFiles() > 0);
            assertEquals(ErrorKind.INVALID_ARGUMENT, kindOf(() -> db.fork(dir.resolve("fork"))));
            try (Esker fork = Esker.open(dir.resolve("fork")); Snapshot before = fork.snapshot()) {
                Lineage lineage = fork.lineage();
                assertEquals(report.storeId(), lineage.storeId());
                assertEquals("try 1", lineage.name());
                assertEquals(db.lineage().storeId(), lineage.ancestors().get(0).storeId());
                fork.put(b("apple"), b("green"));
                fork.delete(b("lime"));
                fork.put(b("plum"), b(""), Duration.ofHours(1));
                db.put(b("parent"), b("only"));
                assertEquals("red", s(db.get(b("apple"))));
                assertNull(fork.get(b("parent")));
                List<String> found = new ArrayList<>();
                try (Diff diff = Esker.diff(db, fork)) {
                    assertEquals("a fork of the first", diff.relation());
                    assertTrue(diff.sharedFiles() > 0);
                    diff.forEach(d -> found.add(d.keyspace() + "/" + s(d.key()) + " " + s(d.oldValue()) + " "
                            + s(d.newValue()) + " " + (d.newExpiresMs() != -1)));
                }
                assertEquals(List.of("default/apple red green false", "default/lime green null false",
                        "default/parent only null false", "default/plum null  true"), found);
                try (Diff same = Esker.diff(fork, before, fork, before, "default")) {
                    assertFalse(same.iterator().hasNext());
                    same.close();
                    assertEquals(ErrorKind.CLOSED, kindOf(() -> same.iterator().hasNext()));
                }
                assertEquals(ErrorKind.NOT_FOUND, kindOf(() -> Esker.diff(db, null, fork, null, "none")));
                assertEquals(ErrorKind.INVALID_ARGUMENT, kindOf(() -> Esker.diff(db, before, fork, null, null)));
            }
        }
    }

    @Test
    void ingestTakesAllFilesOrNone() {
        Path one = dir.resolve("one.sst");
        Path two = dir.resolve("two.sst");
        try (Esker db = Esker.open(path())) {
            db.put(b("b"), b("old"));
            db.put(b("d"), b("old"));
            try (SortedWriter writer = new SortedWriter(one, new Options())) {
                assertEquals(ErrorKind.IO, kindOf(() -> new SortedWriter(one, new Options())));
                writer.put(b("b"), b("new"));
                assertEquals(ErrorKind.INVALID_ARGUMENT, kindOf(() -> writer.put(b("a"), b(""))));
                assertEquals(ErrorKind.INVALID_ARGUMENT, kindOf(() -> writer.put(null, b(""))));
                assertEquals(ErrorKind.INVALID_ARGUMENT, kindOf(() -> writer.merge(b("c"), b(""))));
                writer.put(b("c"), b("1"), Duration.ofHours(1));
                writer.delete(b("d"));
                assertEquals(3, writer.finish());
                assertEquals(ErrorKind.CLOSED, kindOf(writer::finish));
                assertEquals(ErrorKind.CLOSED, kindOf(() -> writer.delete(b("z"))));
            }
            try (SortedWriter writer = new SortedWriter(two, new Options())) {
                writer.put(b("c"), b("2"));
                writer.finish();
            }
            // Both have the key c.
            assertEquals(ErrorKind.INVALID_ARGUMENT, kindOf(() -> db.ingest(List.of(one, two))));
            assertEquals("old", s(db.get(b("b"))));
            assertNull(db.get(b("c")));
            IngestReport report = db.ingest(List.of(one), true, false);
            assertTrue(report.entries() == 3 && report.files() > 0 && report.flushed() && report.sequence() > 0);
            assertEquals("new", s(db.get(b("b"))));
            assertEquals("1", s(db.get(b("c"))));
            assertNull(db.get(b("d")));
            Keyspace other = db.keyspace("other");
            other.ingest(List.of(one));
            assertEquals(2, other.count());
            assertFalse(Files.exists(one));
            assertEquals(ErrorKind.NOT_FOUND, kindOfAny(() -> db.ingest(List.of(one))));
        }
        SortedWriter writer = new SortedWriter(one, new Options());
        writer.put(b("a"), b("1"));
        writer.close();
        writer.close();
        assertFalse(Files.exists(one));
        assertEquals(ErrorKind.CLOSED, kindOf(() -> writer.put(b("b"), b("1"))));
    }

    /** A missing file is {@code NOT_FOUND} or {@code IO}, as the system tells. */
    private static ErrorKind kindOfAny(org.junit.jupiter.api.function.Executable call) {
        ErrorKind kind = kindOf(call);
        return kind == ErrorKind.IO ? ErrorKind.NOT_FOUND : kind;
    }
}
