package dev.esker;

import java.util.ArrayList;
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

    Runtime runtime() {
        return runtime;
    }

    byte[] packed() {
        return packed(values);
    }

    static byte[] packed(Map<String, String> values) {
        List<byte[]> items = new ArrayList<>();
        values.forEach((name, value) -> {
            items.add(Native.utf8(name));
            items.add(Native.utf8(value));
        });
        return Native.pack(items);
    }
}
