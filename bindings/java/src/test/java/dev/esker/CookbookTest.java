package dev.esker;

import static org.junit.jupiter.api.Assertions.*;

import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;

/** Compiles and runs every example of the documents: the body of a method with a directory {@code dir}. */
class CookbookTest {
    private static final Pattern EXAMPLE = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL);

    @TempDir
    Path dir;

    @TestFactory
    List<DynamicTest> examples() throws Exception {
        Path repository = Path.of(System.getProperty("esker.repository"));
        List<DynamicTest> tests = new ArrayList<>();
        for (String document : List.of("docs/java.md", "bindings/java/README.md")) {
            Matcher example = EXAMPLE.matcher(Files.readString(repository.resolve(document)));
            int number = 0;
            while (example.find()) {
                String name = "Example" + tests.size();
                String body = example.group(1);
                tests.add(DynamicTest.dynamicTest(document + " " + ++number, () -> run(name, body)));
            }
            assertTrue(number > 0, document);
        }
        return tests;
    }

    private void run(String name, String body) throws Exception {
        String source = """
                import dev.esker.*;
                import java.nio.charset.StandardCharsets;
                import java.nio.file.Path;
                import java.time.Duration;
                import java.util.*;
                import static java.nio.charset.StandardCharsets.UTF_8;
                public class %s {
                    static byte[] bytes(String text) { return text.getBytes(UTF_8); }
                    static String text(byte[] bytes) { return new String(bytes, UTF_8); }
                    static void check(boolean holds) { if (!holds) throw new AssertionError(); }
                    public static void run(Path dir) throws Exception {
                %s
                    }
                }
                """.formatted(name, body);
        Path file = Files.writeString(dir.resolve(name + ".java"), source);
        var errors = new java.io.ByteArrayOutputStream();
        int outcome = ToolProvider.getSystemJavaCompiler().run(null, null, errors, "-d", dir.toString(),
                "-cp", System.getProperty("java.class.path"), file.toString());
        assertEquals(0, outcome, errors + "\n" + source);
        try (var loader = new URLClassLoader(new URL[] {dir.toUri().toURL()})) {
            loader.loadClass(name).getMethod("run", Path.class)
                    .invoke(null, Files.createDirectory(dir.resolve(name)));
        }
    }
}
