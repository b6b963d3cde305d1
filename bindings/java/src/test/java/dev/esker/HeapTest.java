package dev.esker;

import static dev.esker.BasicsTest.b;
import static dev.esker.BasicsTest.s;
import static org.junit.jupiter.api.Assertions.*;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * A virtual machine whose heap is exhausted within calls of the store: they throw OutOfMemoryError, hold
 * nothing, and the store goes on.
 */
class HeapTest {
    private static final int VALUE_BYTES = 8 << 20;
    private static final int FAILURES = 3;

    @TempDir
    Path dir;

    @Test
    void callsThatFindNoHeapThrowAndTheStoreGoesOn() throws Exception {
        Process small = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-Xmx48m", "-cp", System.getProperty("java.class.path"), HeapTest.class.getName(),
                dir.resolve("db").toString()).redirectErrorStream(true).start();
        String said = new String(small.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, small.waitFor(), said);
        assertTrue(said.endsWith("whole\n"), said);
        try (Esker db = Esker.open(dir.resolve("db"))) {
            assertEquals("v", s(db.get(b("after"))));
            assertEquals(List.of(), db.verify());
        }
    }

    /** Repeats a call until it has failed a few times, and keeps all that it returned until then. */
    private static void exhaust(String what, Supplier<Object> call) {
        List<Object> held = new ArrayList<>();
        int failed = 0;
        while (failed < FAILURES) {
            try {
                held.add(call.get());
            } catch (OutOfMemoryError expected) {
                failed++;
            }
        }
        if (held.isEmpty()) {
            throw new AssertionError(what + " never succeeded");
        }
    }

    public static void main(String[] arguments) {
        try (Esker db = Esker.open(Path.of(arguments[0]))) {
            byte[] value = new byte[VALUE_BYTES];
            Arrays.fill(value, (byte) 7);
            db.put(b("large"), value);
            List<byte[]> keys = List.of(b("large"), b("missing"));
            exhaust("get", () -> db.get(b("large")));
            exhaust("multiGet", () -> db.multiGet(keys));
            exhaust("iterator", () -> {
                try (var pairs = db.iterator()) {
                    pairs.seekToFirst();
                    return pairs.value();
                }
            });
            exhaust("transaction", () -> {
                try (Transaction transaction = db.transaction(TransactionOptions.DEFAULT)) {
                    return transaction.get(b("large"));
                }
            });
            if (!Arrays.equals(value, db.get(b("large")))) {
                throw new AssertionError("the value is another one");
            }
            db.put(b("after"), b("v"));
        }
        System.out.println("whole");
    }
}
