package dev.esker;

import static dev.esker.BasicsTest.b;
import static dev.esker.BasicsTest.s;
import static org.junit.jupiter.api.Assertions.*;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * A virtual machine that is killed while it writes. This process is the oracle: the victim reports
 * each number after its write returned, and each reported one must be there afterwards, each pair of
 * a batch with its partner. {@code -Desker.kills} says how often.
 */
class KillTest {
    @TempDir
    Path dir;

    @Test
    void acknowledgedWritesSurvive() throws Exception {
        int kills = Integer.getInteger("esker.kills", 3);
        Random random = new Random(7);
        long acknowledged = -1;
        for (int kill = 0; kill < kills; kill++) {
            long wanted = acknowledged + 1 + random.nextInt(3000);
            acknowledged = Math.max(acknowledged, runAndKill(acknowledged + 1, wanted));
            acknowledged = check(acknowledged);
        }
        assertTrue(acknowledged > 0);
    }

    private long runAndKill(long from, long wanted) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-cp",
                System.getProperty("java.class.path"), KillTest.class.getName(),
                dir.resolve("db").toString(), Long.toString(from)));
        Process victim = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
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

    /** Checks the store, and returns the last number in it. */
    private long check(long acknowledged) {
        try (Esker db = Esker.open(dir.resolve("db"))) {
            Keyspace partners = db.keyspace("partners");
            long number = 0;
            while (db.containsKey(key(number))) {
                assertEquals("value " + number, s(db.get(key(number))));
                assertEquals("" + number, s(partners.get(key(number))), "a batch is whole");
                number++;
            }
            assertTrue(number > acknowledged, "acknowledged " + acknowledged + ", found up to " + (number - 1));
            assertEquals(number, db.count());
            assertEquals(number, partners.count());
            assertEquals(List.of(), db.verify());
            return number - 1;
        }
    }

    private static byte[] key(long number) {
        return b(String.format("%012d", number));
    }

    /** The victim: writes numbers from the second argument on, until it is killed. */
    public static void main(String[] arguments) {
        PrintStream out = new PrintStream(System.out, true);
        Esker db = Esker.open(Path.of(arguments[0]), new Options().set("memtable_size_bytes", "256KiB"));
        Keyspace partners = db.keyspace("partners");
        for (long number = Long.parseLong(arguments[1]);; number++) {
            db.write(new Batch().put(key(number), b("value " + number)).put(partners, key(number), b("" + number)));
            out.println(number);
        }
    }
}
