package dev.esker;

import static org.junit.jupiter.api.Assertions.*;

import java.io.File;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** How the native library is found: by property, or extracted from the jar once. */
class LibraryTest {
    @TempDir
    Path dir;
    private Class<?> main = LibraryTest.class;

    private String run(String... options) throws Exception {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(List.of(options));
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), main.getName(),
                dir.resolve("db").toString()));
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String text = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        process.waitFor();
        return text;
    }

    /** Opens a store, and prints a value. */
    public static void main(String[] arguments) {
        try (Esker db = Esker.open(Path.of(arguments[0]))) {
            db.put(BasicsTest.b("key"), BasicsTest.b("it works"));
            System.out.println(BasicsTest.s(db.get(BasicsTest.b("key"))));
        }
    }

    @Test
    void extractedOnceAndReplacedWhenDamaged() throws Exception {
        Path place = dir.resolve("library");
        String option = "-Desker.library.dir=" + place;
        assertEquals("it works", run(option).trim());
        List<Path> first = files(place);
        assertEquals(1, first.size(), first.toString());
        Files.write(first.get(0), new byte[] {1, 2, 3});
        assertEquals("it works", run(option).trim());
        assertEquals(first, files(place));
        assertEquals("it works", run("-Desker.library.path=" + first.get(0)).trim());
        String refused = run("-Desker.library.path=" + dir.resolve("none.so"));
        assertTrue(refused.contains("UnsatisfiedLinkError"), refused);
    }

    /** Uses Esker in several class loaders of one process, as an application that is deployed again does. */
    static final class Loaders {
        public static void main(String[] arguments) throws Exception {
            List<URL> urls = new ArrayList<>();
            for (String entry : System.getProperty("java.class.path").split(File.pathSeparator)) {
                urls.add(Path.of(entry).toUri().toURL());
            }
            for (int loader = 0; loader < 3; loader++) {
                try (URLClassLoader own = new URLClassLoader(urls.toArray(URL[]::new), null)) {
                    Method main = own.loadClass(LibraryTest.class.getName()).getMethod("main", String[].class);
                    main.setAccessible(true);
                    main.invoke(null, (Object) new String[] {arguments[0] + loader});
                }
            }
        }
    }

    @Test
    void severalClassLoadersUseOneFile() throws Exception {
        Path place = dir.resolve("library");
        main = Loaders.class;
        String option = "-Desker.library.dir=" + place;
        assertEquals("it works\nit works\nit works", run(option).trim());
        List<Path> first = files(place);
        assertEquals(3, first.size(), first.toString());
        assertTrue(Files.isSameFile(first.get(0), first.get(1)) && Files.isSameFile(first.get(1), first.get(2)));
        Files.delete(first.stream().filter(file -> !file.getFileName().toString().startsWith("2-")).findFirst()
                .orElseThrow());
        assertEquals("it works\nit works\nit works", run(option).trim());
        assertEquals(3, files(place).size());
    }

    private static List<Path> files(Path place) throws Exception {
        try (var files = Files.list(place)) {
            return files.toList();
        }
    }
}
