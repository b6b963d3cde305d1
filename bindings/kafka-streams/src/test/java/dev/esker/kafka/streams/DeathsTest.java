package dev.esker.kafka.streams;

import static org.junit.jupiter.api.Assertions.*;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Bytes;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Stores whose process is killed with SIGKILL, or whose disk is full, in the middle of a restore and of
 * the deletion of segments. This process is the oracle: the victim reports a number after each call.
 */
class DeathsTest {
    private static final TopicPartition CHANGELOG = new TopicPartition("test-store-changelog", 0);
    private static final int BATCH = 200;
    private static final int KEYS = 1000;
    private static final int KILLS = Integer.getInteger("esker.kills", 3);
    private static final int RETENTION_MS = 120_000;
    private static final int STEP_MS = 500;

    @TempDir
    Path dir;

    /** Starts this class as a process of its own, and kills it once it has reported a number. Returns the last one. */
    private long runAndKill(String mode, long from, long wanted) throws Exception {
        Process victim = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-cp",
                System.getProperty("java.class.path"), DeathsTest.class.getName(), mode, dir.resolve("task").toString(),
                Long.toString(from)).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        long last = from - 1;
        try (BufferedReader lines = new BufferedReader(
                new InputStreamReader(victim.getInputStream(), StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                last = Long.parseLong(line);
                if (last >= wanted) {
                    // Process.destroyForcibly would also close the pipe, with reports in it.
                    new ProcessBuilder("kill", "-9", Long.toString(victim.pid())).start().waitFor();
                }
            }
        }
        assertTrue(victim.waitFor(10, TimeUnit.MINUTES));
        assertEquals(137, victim.exitValue(), "the victim ended before it was killed");
        return last;
    }

    @Test
    void killedRestoreHoldsWholeBatchesAndGoesOn() throws Exception {
        Random random = new Random(5);
        long next = 0;
        for (int kill = 0; kill < KILLS; kill++) {
            long last = runAndKill("restore", next, next + 1 + random.nextInt(100));
            EskerKeyValueStore store = store(TestContext.transactional(dir.resolve("task").toFile()));
            long offset = store.committedOffset(CHANGELOG);
            assertTrue(offset >= last * BATCH + BATCH - 1, offset + " is before batch " + last);
            assertEquals(BATCH - 1, offset % BATCH, "a part of a batch");
            check(store, offset);
            store.close();
            next = (offset + 1) / BATCH;
        }
        assertTrue(next > KILLS);
    }

    /** The records of a changelog: each offset puts a key, and some delete it. */
    private static byte[] value(long offset) {
        return offset % 7 == 3 ? null : ("value " + offset).getBytes(StandardCharsets.UTF_8);
    }

    private static List<ConsumerRecord<byte[], byte[]>> batch(long number) {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (long offset = number * BATCH; offset < (number + 1) * BATCH; offset++) {
            records.add(new ConsumerRecord<>(CHANGELOG.topic(), 0, offset, key(offset % KEYS).get(), value(offset)));
        }
        return records;
    }

    private static Bytes key(long number) {
        return Bytes.wrap(String.format("key %06d", number).getBytes(StandardCharsets.UTF_8));
    }

    /** Checks that a store has what the records up to an offset leave. */
    private static void check(EskerKeyValueStore store, long offset) {
        for (int key = 0; key < KEYS; key++) {
            long newest = offset - Math.floorMod(offset - key, KEYS);
            byte[] expected = newest < 0 ? null : value(newest);
            assertArrayEquals(expected, store.get(key(key)), "key " + key + " at offset " + offset);
        }
    }

    private static EskerKeyValueStore store(TestContext context) {
        EskerKeyValueStore store = new EskerKeyValueStore("store");
        store.init(context, store);
        return store;
    }

    private static EskerWindowStore windows(File task) {
        TestContext context = new TestContext(task);
        EskerWindowStore store = new EskerWindowStore(new WindowShape("store", RETENTION_MS, 1000, false, false));
        store.init(context, store);
        return store;
    }

    @Test
    void killedDeletionOfSegmentsLosesNoWindowOfTheRetention() throws Exception {
        Random random = new Random(6);
        long next = 0;
        for (int kill = 0; kill < KILLS; kill++) {
            // A segment ends every 120 windows.
            long last = runAndKill("windows", next, next + 500 + random.nextInt(500));
            EskerWindowStore store = windows(dir.resolve("task").toFile());
            // What the victim wrote after its last report may have made the oldest windows expire.
            for (long number = Math.max(0, last - RETENTION_MS / STEP_MS + 3); number <= last; number++) {
                assertArrayEquals(("" + number).getBytes(StandardCharsets.UTF_8), store.fetch(key(0), number * STEP_MS),
                        "window " + number + " of " + last);
            }
            // At most the retention and a segment are kept, and what the victim wrote after its last report.
            long kept = store.space.db().count();
            assertTrue(kept <= 3L * RETENTION_MS / STEP_MS, kept + " windows");
            store.close();
            next = last + 1;
        }
    }

    /** The victim: does the work from a number on, until it is killed. */
    public static void main(String[] arguments) throws IOException {
        PrintStream out = new PrintStream(System.out, true);
        File task = new File(arguments[1]);
        long from = Long.parseLong(arguments[2]);
        if (arguments[0].equals("restore")) {
            TestContext context = TestContext.transactional(task);
            context.configs.put("esker.option.memtable_size_bytes", "64KiB");
            store(context);
            for (long number = from;; number++) {
                context.restore.restoreBatch(batch(number));
                out.println(number);
            }
        }
        EskerWindowStore store = windows(task);
        for (long number = from;; number++) {
            store.put(key(0), ("" + number).getBytes(StandardCharsets.UTF_8), number * STEP_MS);
            out.println(number);
        }
    }

    private static boolean isDone(String... command) throws Exception {
        return new ProcessBuilder(command).redirectErrorStream(true).start().waitFor() == 0;
    }

    @Test
    void restoreOnAFullDiskFailsAndGoesOnAfterwards() throws Exception {
        String mounted = Files.createDirectory(dir.resolve("small")).toString();
        Assumptions.assumeTrue(isDone("mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", mounted),
                "a small file system cannot be mounted");
        try {
            restoreOnAFullDisk(mounted);
        } finally {
            assertTrue(isDone("umount", "-l", mounted));
        }
    }

    private void restoreOnAFullDisk(String mounted) throws Exception {
        TestContext context = TestContext.transactional(new File(mounted, "task"));
        context.configs.put("esker.option.memtable_size_bytes", "256KiB");
        context.configs.put("esker.option.compression", "none");
        EskerKeyValueStore store = store(context);
        byte[] large = new byte[400];
        new Random(8).nextBytes(large);
        RuntimeException full = assertThrows(RuntimeException.class, () -> {
            for (long offset = 0; offset < 1_000_000; offset++) {
                context.restore.restoreBatch(List.of(
                        new ConsumerRecord<>(CHANGELOG.topic(), 0, offset, key(offset).get(), large)));
            }
        });
        String text = full + " " + full.getCause();
        assertTrue(text.toLowerCase(java.util.Locale.ROOT).contains("space"), text);
        try {
            store.close();
        } catch (RuntimeException stillFull) {
            // What cannot be written is in the changelog.
        }
        assertTrue(isDone("mount", "-o", "remount,size=64m", mounted));
        TestContext next = TestContext.transactional(context.stateDir());
        store = store(next);
        Long offset = store.committedOffset(CHANGELOG);
        assertTrue(offset != null && offset > 1000, "" + offset);
        for (long number = 0; number <= offset; number++) {
            assertArrayEquals(large, store.get(key(number)), "record " + number + " of " + offset);
        }
        assertNull(store.get(key(offset + 1)));
        next.restore.restoreBatch(List.of(
                new ConsumerRecord<>(CHANGELOG.topic(), 0, offset + 1, key(offset + 1).get(), large)));
        assertEquals(offset + 1, store.committedOffset(CHANGELOG));
        store.close();
    }
}
