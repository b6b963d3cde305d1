package dev.esker;

import java.nio.file.Path;
import java.time.Duration;

/**
 * A writer of a table file outside of a store, for {@link KeyValues#ingest}. It needs no store: several
 * can run at the same time, also in other processes. Keys must be strictly ascending.
 *
 * <p>A close before {@link #finish} removes the file.
 */
public final class SortedWriter implements AutoCloseable {
    private static final int PUT = 0;
    private static final int PUT_WITH_TTL = 1;
    private static final int MERGE = 2;
    private static final int DELETE = 3;

    private final Resource resource;

    /**
     * Creates the file, which must not exist.
     *
     * @param path the file
     * @param options options of a store; the key order must be the one of the store that ingests the file.
     *     The file is not encrypted: an ingest into an encrypted store encrypts it
     * @throws EskerException {@code IO} if it exists or cannot be created
     */
    public SortedWriter(Path path, Options options) {
        long handle = Native.sortedWriter(null, Native.utf8(path.toString()), options.packedWithoutKey());
        resource = Resource.of(this, "sorted writer", handle, last -> Native.freeSortedWriter(null, last));
    }

    /**
     * Adds a pair.
     *
     * @param key a key after all keys so far
     * @param value its value
     * @throws EskerException {@code INVALID_ARGUMENT} for another key: it is not written, and the next
     *     one can be
     */
    public void put(byte[] key, byte[] value) {
        add(PUT, key, value, 0);
    }

    /**
     * Adds a pair that expires.
     *
     * @param key a key after all keys so far
     * @param value its value
     * @param ttl the time to live, from now on
     */
    public void put(byte[] key, byte[] value, Duration ttl) {
        add(PUT_WITH_TTL, key, value, KeyValues.ttlMs(ttl));
    }

    /**
     * Adds an operand, which the ingest merges into the value of the key.
     *
     * @param key a key after all keys so far
     * @param operand the operand
     */
    public void merge(byte[] key, byte[] operand) {
        add(MERGE, key, operand, 0);
    }

    /**
     * Adds a delete: the ingest deletes the key from the store.
     *
     * @param key a key after all keys so far
     */
    public void delete(byte[] key) {
        add(DELETE, key, null, 0);
    }

    private synchronized void add(int kind, byte[] key, byte[] value, long ttlMs) {
        Native.sortedAdd(this, resource.handle(), kind, key, value, ttlMs);
    }

    /**
     * Completes the file and makes it durable. Later calls throw.
     *
     * @return the number of its entries
     */
    public synchronized long finish() {
        return Native.sortedFinish(this, resource.handle())[0];
    }

    /** Removes the file, unless it was finished. Closing twice is allowed. */
    @Override
    public synchronized void close() {
        resource.free();
    }
}
