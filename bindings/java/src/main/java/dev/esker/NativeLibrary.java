package dev.esker;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.AtomicMoveNotSupportedException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Locale;

/**
 * Loads the native library, in this order: the file named by {@code -Desker.library.path} (a file or
 * its directory), {@code java.library.path}, and the copy inside the jar.
 *
 * <p>The copy is extracted to a file named by the hash of its content, in the directory
 * {@code esker-native-USER} of {@code java.io.tmpdir} or in {@code -Desker.library.dir}. It is written
 * under another name and renamed into place. So several processes share one file. A process that is killed
 * meanwhile leaves a file {@code *.PID.part}, which nothing reads. A second class loader of a process loads a
 * hard link to the file, {@code 2-*}.
 */
final class NativeLibrary {
    private static final String NAME = "esker_jni";
    /** Class loaders of a process that may load the library; a server loads an application again and again. */
    private static final int LOADERS_MAX = 1000;

    private NativeLibrary() {}

    static void load() {
        String file = System.mapLibraryName(NAME);
        String given = System.getProperty("esker.library.path");
        if (given != null && !given.isEmpty()) {
            Path path = Path.of(given);
            System.load((Files.isDirectory(path) ? path.resolve(file) : path).toAbsolutePath().toString());
            return;
        }
        try {
            System.loadLibrary(NAME);
            return;
        } catch (UnsatisfiedLinkError absent) {
            // It is inside the jar then.
        }
        String resource = "native/" + platform() + "/" + file;
        try (InputStream in = NativeLibrary.class.getResourceAsStream(resource)) {
            if (in == null) {
                throw new UnsatisfiedLinkError("Esker has no native library for " + platform()
                        + " in its jar (dev/esker/" + resource + "); build it there with"
                        + " scripts/java.sh jar, or name the file with -Desker.library.path");
            }
            loadOnce(extract(in.readAllBytes(), file));
        } catch (IOException failed) {
            throw new UncheckedIOException("Esker's native library cannot be extracted to "
                    + directory() + "; name another directory with -Desker.library.dir: "
                    + failed.getMessage(), failed);
        }
    }

    /**
     * Loads a file, or, if another class loader has loaded it, another name of the same file: Java allows each
     * name to one class loader. All share the code and the data of the library, which refers to no class.
     */
    private static void loadOnce(Path file) throws IOException {
        for (int loader = 1;; loader++) {
            Path name = loader == 1 ? file : file.resolveSibling(loader + "-" + file.getFileName());
            if (loader > 1 && !Files.exists(name)) {
                try {
                    Files.createLink(name, file);
                } catch (java.nio.file.FileAlreadyExistsException other) {
                    // Another process was faster.
                }
            } else if (loader > 1 && !Files.isSameFile(name, file)) {
                // A link to a file that was damaged, and replaced since.
                Path part = file.resolveSibling(name.getFileName() + "." + ProcessHandle.current().pid() + ".part");
                Files.createLink(part, file);
                Files.move(part, name, StandardCopyOption.ATOMIC_MOVE);
            }
            try {
                System.load(name.toString());
                return;
            } catch (UnsatisfiedLinkError failed) {
                boolean isTaken = failed.getMessage() != null && failed.getMessage().contains("already loaded");
                if (!isTaken || loader == LOADERS_MAX) {
                    throw failed;
                }
            }
        }
    }

    private static String platform() {
        String machine = System.getProperty("os.arch").toLowerCase(Locale.ROOT);
        String system = System.getProperty("os.name").toLowerCase(Locale.ROOT);
        machine = switch (machine) {
            case "amd64" -> "x86_64";
            case "arm64" -> "aarch64";
            default -> machine;
        };
        return (system.startsWith("linux") ? "linux" : system.replace(' ', '_')) + "-" + machine;
    }

    private static Path directory() {
        String given = System.getProperty("esker.library.dir");
        if (given != null && !given.isEmpty()) {
            return Path.of(given).toAbsolutePath();
        }
        Path temporary = Path.of(System.getProperty("java.io.tmpdir")).toAbsolutePath();
        return temporary.resolve("esker-native-" + System.getProperty("user.name"));
    }

    private static Path extract(byte[] content, String file) throws IOException {
        Path directory = directory();
        if (!Files.isDirectory(directory)) {
            Files.createDirectories(directory.getParent());
            try {
                Files.createDirectory(directory,
                        PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
            } catch (java.nio.file.FileAlreadyExistsException other) {
                // Another process was faster.
            }
        }
        checkOwner(directory);
        Path target = directory.resolve(hash(content) + "-" + file);
        if (isWhole(target, content)) {
            return target;
        }
        Path part = directory.resolve(target.getFileName() + "." + ProcessHandle.current().pid() + ".part");
        Files.write(part, content);
        try {
            Files.move(part, target, StandardCopyOption.ATOMIC_MOVE);
        } catch (AtomicMoveNotSupportedException other) {
            Files.move(part, target, StandardCopyOption.REPLACE_EXISTING);
        }
        return target;
    }

    /** A directory that another user may write could hold a library of that user. */
    private static void checkOwner(Path directory) throws IOException {
        String owner = Files.getOwner(directory).getName();
        String user = System.getProperty("user.name");
        if (!owner.equals(user) && System.getProperty("esker.library.dir") == null) {
            throw new IOException(directory + " belongs to " + owner + ", not to " + user);
        }
    }

    private static boolean isWhole(Path file, byte[] content) throws IOException {
        return Files.isRegularFile(file) && Files.size(file) == content.length
                && Arrays.equals(Files.readAllBytes(file), content);
    }

    private static String hash(byte[] content) {
        try {
            byte[] sum = MessageDigest.getInstance("SHA-256").digest(content);
            return HexFormat.of().formatHex(sum, 0, 16);
        } catch (NoSuchAlgorithmException absent) {
            throw new IllegalStateException(absent);
        }
    }
}
