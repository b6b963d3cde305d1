package dev.esker;

import static dev.esker.BasicsTest.b;
import static dev.esker.BasicsTest.kindOf;
import static dev.esker.BasicsTest.s;
import static org.junit.jupiter.api.Assertions.*;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** Followers: views, catch-ups, waits and what ends them, promotion after a kill. */
class FollowerTest {
    private static final Duration PATIENCE = Duration.ofMinutes(10);

    @TempDir
    Path dir;

    private static Options options(boolean isEncrypted) {
        return isEncrypted ? new Options().key(new byte[32]) : new Options();
    }

    /** A virtual machine that writes a batch for each order. */
    private record Victim(Process process, Writer orders, BufferedReader answers) {
        static Victim start(Path path, boolean isEncrypted) throws IOException {
            Process process = new ProcessBuilder(
                    Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-cp",
                    System.getProperty("java.class.path"), FollowerTest.class.getName(), path.toString(),
                    Boolean.toString(isEncrypted)).redirectError(ProcessBuilder.Redirect.INHERIT).start();
            return new Victim(process, process.outputWriter(), new BufferedReader(
                    new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8)));
        }

        void write() throws IOException {
            orders.write("write\n");
            orders.flush();
            assertNotNull(answers.readLine());
        }

        void kill() throws IOException, InterruptedException {
            new ProcessBuilder("kill", "-9", Long.toString(process.pid())).start().waitFor();
            assertTrue(process.waitFor(10, TimeUnit.MINUTES));
            assertEquals(137, process.exitValue());
        }
    }

    /** The victim: a batch for each line of its input, until it is killed. */
    public static void main(String[] arguments) throws IOException {
        PrintStream out = new PrintStream(System.out, true);
        Esker db = Esker.open(Path.of(arguments[0]), options(Boolean.parseBoolean(arguments[1])));
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (int number = 0; orders.readLine() != null; number++) {
            db.write(new Batch().put(b("k" + number), b("written")).put(b("last"), b("k" + number)));
            out.println(number);
        }
    }

    @Test
    void followerTakesThePlaceOfAKilledWriter() throws Exception {
        followAndPromote(dir.resolve("plain"), false);
    }

    @Test
    void followerOfAnEncryptedStoreTakesThePlaceOfAKilledWriter() throws Exception {
        followAndPromote(dir.resolve("encrypted"), true);
    }

    private static void followAndPromote(Path path, boolean isEncrypted) throws Exception {
        Victim victim = Victim.start(path, isEncrypted);
        victim.write();
        Follower follower = Esker.follow(path, options(isEncrypted));
        Esker first = follower.db();
        assertEquals("k0", s(first.get(b("last"))));
        assertEquals(path, first.path());
        assertEquals(ErrorKind.READ_ONLY, kindOf(() -> first.put(b("k"), b("v"))));
        victim.write();
        Follower.Lag lag = follower.lag();
        assertEquals(2, lag.operations());
        assertEquals(lag.position() + 2, lag.newest());
        assertEquals(follower.position(), lag.position());
        assertTrue(lag.error() == null && !lag.age().isNegative());
        assertEquals(lag.newest(), follower.catchUp());
        try (Esker second = follower.db()) {
            assertEquals("k1", s(second.get(b("last"))));
            assertEquals("k0", s(first.get(b("last"))));
            assertNull(first.get(b("k1")));
        }
        assertTrue(follower.waitFor(lag.newest(), Duration.ZERO));
        assertFalse(follower.waitFor(lag.newest() + 1, Duration.ofMillis(1)));
        assertEquals(ErrorKind.LOCKED, kindOf(follower::promote));
        assertEquals(ErrorKind.INVALID_ARGUMENT, kindOf(() -> follower.catchUpEvery(Duration.ZERO)));
        follower.catchUpEvery(Duration.ofDays(100_000_000));
        follower.catchUpEvery(Duration.ofMillis(1));
        victim.write();
        while (follower.position() < lag.newest() + 2) {
            Thread.sleep(1);
        }
        victim.kill();
        try (Esker promoted = follower.promote()) {
            assertEquals("k2", s(promoted.get(b("last"))));
            promoted.put(b("mine"), b("1"));
            assertTrue(follower.waitFor(lag.newest() + 3, PATIENCE));
            try (Esker view = follower.db()) {
                assertEquals("1", s(view.get(b("mine"))));
            }
            follower.close();
            follower.close();
            assertEquals("1", s(promoted.get(b("mine"))));
        }
        assertEquals("k0", s(first.get(b("last"))));
        first.close();
        assertEquals(ErrorKind.CLOSED, kindOf(() -> first.get(b("last"))));
    }

    @Test
    void callsOnAClosedFollowerThrow() throws Exception {
        Path path = dir.resolve("db");
        try (Esker db = Esker.open(path)) {
            db.put(b("k"), b("v"));
            Follower follower = Esker.follow(path);
            Esker view = follower.db();
            CompletableFuture<Boolean> wait = CompletableFuture.supplyAsync(() -> {
                try {
                    return follower.waitFor(Long.MAX_VALUE, Duration.ofSeconds(Long.MAX_VALUE));
                } catch (InterruptedException unexpected) {
                    throw new IllegalStateException(unexpected);
                }
            });
            follower.close();
            ExecutionException ended = assertThrows(ExecutionException.class, wait::get);
            assertEquals(ErrorKind.CLOSED, ((EskerException) ended.getCause()).kind());
            for (Executable call : List.<Executable>of(follower::db, follower::position, follower::catchUp, follower::lag,
                    follower::promote, () -> follower.catchUpEvery(Duration.ofSeconds(1)),
                    () -> follower.waitFor(1, Duration.ZERO))) {
                assertEquals(ErrorKind.CLOSED, assertThrows(EskerException.class, call).kind());
            }
            assertEquals("v", s(view.get(b("k"))));
            view.close();
        }
        assertEquals(ErrorKind.NOT_FOUND, kindOf(() -> Esker.follow(dir.resolve("none"))));
    }

    @Test
    void interruptEndsAWait() {
        Path path = dir.resolve("db");
        try (Esker db = Esker.open(path); Follower follower = Esker.follow(path)) {
            Thread.currentThread().interrupt();
            assertThrows(InterruptedException.class, () -> follower.waitFor(Long.MAX_VALUE, PATIENCE));
            assertFalse(Thread.currentThread().isInterrupted());
        }
    }
}
