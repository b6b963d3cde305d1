package dev.esker;

import static org.junit.jupiter.api.Assertions.*;

import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Esker maps its log and handles the signal SIGBUS. The virtual machine handles it too, and makes an
 * error of a fault in a mapped buffer. It must still do so when Esker's handler comes first.
 */
class SignalTest {
    @TempDir
    Path dir;

    @Test
    void faultsOfMappedBuffersRemainErrorsOfJava() throws Exception {
        Process process = new ProcessBuilder(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-cp",
                System.getProperty("java.class.path"), SignalTest.class.getName(), dir.toString()))
                .redirectErrorStream(true).start();
        String text = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), text);
        assertTrue(text.contains("an error of Java"), text);
    }

    /** Writes enough that the log is mapped, and reads a buffer whose file was truncated. */
    public static void main(String[] arguments) throws Exception {
        Path dir = Path.of(arguments[0]);
        try (Esker db = Esker.open(dir.resolve("db"), new Options().set("wal_io", "mmap"))) {
            for (int number = 0; number < 100; number++) {
                db.put(BasicsTest.b("key " + number), new byte[100_000]);
            }
            try (FileChannel file = FileChannel.open(dir.resolve("mapped"), StandardOpenOption.CREATE,
                    StandardOpenOption.READ, StandardOpenOption.WRITE)) {
                MappedByteBuffer buffer = file.map(FileChannel.MapMode.READ_WRITE, 0, 1 << 20);
                buffer.put(500_000, (byte) 1);
                file.truncate(0);
                try {
                    System.out.println("read " + buffer.get(500_000));
                } catch (InternalError fault) {
                    System.out.println("an error of Java: " + fault.getMessage());
                }
            }
            db.put(BasicsTest.b("after"), BasicsTest.b("it works"));
            if (!"it works".equals(BasicsTest.s(db.get(BasicsTest.b("after"))))) {
                System.exit(2);
            }
        }
    }
}
