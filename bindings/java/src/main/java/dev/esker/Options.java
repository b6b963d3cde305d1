package dev.esker;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * Options of a store, by the names of Esker's options table, for example {@code memtable_size} or
 * {@code compression}. Names and values are checked when the store is opened.
 */
public final class Options {
    private final Map<String, String> values = new LinkedHashMap<>();
    private Runtime runtime;
    private KeySource keySource;
    private Path keyFile;

    /** Creates options with the defaults. */
    public Options() {}

    /**
     * Sets an option.
     *
     * @param name its name or an alias
     * @param value its value, as {@code "64MiB"}, {@code "true"} or {@code "lz4"}
     * @return these options
     */
    public Options set(String name, Object value) {
        values.put(Objects.requireNonNull(name, "name"), Objects.requireNonNull(value, "value").toString());
        return this;
    }

    /**
     * Sets whether a missing store is created.
     *
     * @param create true, the default, or false: then opening a missing store throws
     * @return these options
     */
    public Options createIfMissing(boolean create) {
        return set("create_if_missing", create);
    }

    /**
     * Sets the durability of writes that do not name one.
     *
     * @param durability the default is {@link Durability#BUFFERED}
     * @return these options
     */
    public Options durability(Durability durability) {
        return set("durability", durability.name().toLowerCase(java.util.Locale.ROOT));
    }

    /**
     * Sets the memory budget of the store. It has no effect with a runtime.
     *
     * @param bytes memtables, cache, filters and indexes together
     * @return these options
     */
    public Options memoryBytes(long bytes) {
        return set("memory_budget_bytes", bytes);
    }

    /**
     * Sets the merge operator.
     *
     * @param name {@code add_i64}, {@code add_u64}, {@code max}, {@code min}, {@code append},
     *     {@code append(,)}, {@code set_union} or {@code set_union(,)}
     * @return these options
     */
    public Options mergeOperator(String name) {
        return set("merge_operator", name);
    }

    /**
     * Sets the runtime that the store shares with others.
     *
     * @param shared a runtime, or null for threads and memory of its own
     * @return these options
     */
    public Options runtime(Runtime shared) {
        runtime = shared;
        return this;
    }

    /**
     * Sets the key of the store. A store that is created with a key is encrypted, and opened only with that
     * key: all its files except {@code LOCK} and {@code KEYS}, which has the data keys, wrapped by the master
     * key. The names, sizes and times of files stay visible. Copies are encrypted under the same master key.
     *
     * @param key 32 bytes, or 64 hexadecimal digits with blanks or newlines around them; other bytes make the
     *     opening throw {@code INVALID_ARGUMENT}
     * @return these options
     */
    public Options key(byte[] key) {
        byte[] copy = key.clone();
        return keySource(name -> new MasterKey(copy, null));
    }

    /**
     * Sets the file with the key of the store, with the content that {@link #key} takes. It is read at each
     * opening. Nobody else should be able to read it.
     *
     * @param file the file
     * @return these options
     */
    public Options keyFile(Path file) {
        keyFile = Objects.requireNonNull(file, "file");
        keySource = null;
        return this;
    }

    /**
     * Sets a function that gives the key of the store, for example from a key service.
     *
     * @param source a function, which is called in each opening, follow, restore, repair and rekey
     * @return these options
     */
    public Options keySource(KeySource source) {
        keySource = Objects.requireNonNull(source, "source");
        keyFile = null;
        return this;
    }

    /** A function that gives master keys by their names. */
    @FunctionalInterface
    public interface KeySource {
        /**
         * Returns a key. What it throws is thrown by the call that needs the key.
         *
         * @param name the name of the key that opens the store, or null for the key of a new store
         * @return the key
         */
        MasterKey key(String name);
    }

    /**
     * A master key.
     *
     * @param bytes 32 bytes
     * @param name its name, 1 to 64 bytes, which is not secret: the store and messages show it; null names it
     *     by its fingerprint
     */
    public record MasterKey(byte[] bytes, String name) {
        /** Does not show the bytes. */
        @Override
        public String toString() {
            return "MasterKey[name=" + name + "]";
        }
    }

    Runtime runtime() {
        return runtime;
    }

    /** Packs these options for a store, a directory of backups or a new store in a directory. */
    byte[] packed(Path at) {
        return packed(keySource == null ? null : Native.wantedKey(null, Native.utf8(at.toString())));
    }

    private byte[] packed(byte[] wanted) {
        List<byte[]> items = items(values);
        if (keyFile != null) {
            add(items, "encryption.key_file", keyFile.toString());
        }
        if (keySource != null) {
            String name = wanted == null ? null : new String(wanted, java.nio.charset.StandardCharsets.UTF_8);
            MasterKey given = Objects.requireNonNull(keySource.key(name), "the source of keys returned null");
            add(items, "encryption.key", HexFormat.of().formatHex(given.bytes()));
            if (given.name() != null) {
                add(items, "encryption.key_name", given.name());
            }
        }
        return Native.pack(items);
    }

    /** Packs these options for the key that a store shall have from now on. */
    byte[] packedForNewKey() {
        return packed((byte[]) null);
    }

    /** Packs these options without a key. */
    byte[] packedWithoutKey() {
        return packed(values);
    }

    private static void add(List<byte[]> items, String name, String value) {
        items.add(Native.utf8(name));
        items.add(Native.utf8(value));
    }

    private static List<byte[]> items(Map<String, String> values) {
        List<byte[]> items = new ArrayList<>();
        values.forEach((name, value) -> add(items, name, value));
        return items;
    }

    static byte[] packed(Map<String, String> values) {
        return Native.pack(items(values));
    }
}
