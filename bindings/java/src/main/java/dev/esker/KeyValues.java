package dev.esker;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * An ordered map from keys to values, both arrays of bytes: a store ({@link Esker}, which is its
 * keyspace {@code default}) or another keyspace ({@link Keyspace}). Many threads may use it at once.
 * Each operation is atomic. Returned arrays are new.
 *
 * <p>All methods throw {@link EskerException}: {@code CLOSED} after the close of the store,
 * {@code IO}, {@code NO_SPACE} or {@code CORRUPTION}; writes also {@code INVALID_ARGUMENT} for a key
 * over 1 MiB or a value over 1 GiB, and {@code READ_ONLY}.
 */
public abstract sealed class KeyValues permits Esker, Keyspace {
    final Resource resource;

    KeyValues(String what, long handle, boolean isStore) {
        // An object of a keyspace holds little, so nobody needs to close it.
        resource = isStore
                ? Resource.of(this, what, handle, KeyValues::closeAndFree)
                : Resource.unnoticed(this, what, handle, last -> Native.freePart(null, last));
    }

    private static void closeAndFree(long handle) {
        try {
            Native.close(null, handle);
        } finally {
            Native.freePart(null, handle);
        }
    }

    final long handle() {
        return resource.handle();
    }

    /** Returns the store. */
    abstract Esker store();

    /**
     * Sets a key to a value.
     *
     * @param key the key
     * @param value its value
     */
    public final void put(byte[] key, byte[] value) {
        Native.put(this, handle(), key, 0, key.length, value, 0, value.length, -1);
    }

    /**
     * Sets a key to a value.
     *
     * @param key the key
     * @param value its value
     * @param durability what a crash must keep
     */
    public final void put(byte[] key, byte[] value, Durability durability) {
        Native.put(this, handle(), key, 0, key.length, value, 0, value.length, Durability.number(durability));
    }

    /**
     * Sets a key to a value, from parts of arrays.
     *
     * @param key an array with the key
     * @param keyOffset its start
     * @param keyLength its length
     * @param value an array with the value
     * @param valueOffset its start
     * @param valueLength its length
     */
    public final void put(byte[] key, int keyOffset, int keyLength, byte[] value, int valueOffset,
            int valueLength) {
        Objects.checkFromIndexSize(keyOffset, keyLength, key.length);
        Objects.checkFromIndexSize(valueOffset, valueLength, value.length);
        Native.put(this, handle(), key, keyOffset, keyLength, value, valueOffset, valueLength, -1);
    }

    /**
     * Sets a key to a value for a time. From then on the pair does not exist.
     *
     * @param key the key
     * @param value its value
     * @param ttl the time to live
     */
    public final void put(byte[] key, byte[] value, Duration ttl) {
        Native.putWithTtl(this, handle(), Objects.requireNonNull(key, "key"),
                Objects.requireNonNull(value, "value"), ttlMs(ttl));
    }

    /**
     * Gives a pair a new time to live, from now on.
     *
     * @param key the key
     * @param ttl the time to live
     * @return whether the pair exists
     */
    public final boolean touch(byte[] key, Duration ttl) {
        return Native.touch(this, handle(), Objects.requireNonNull(key, "key"), ttlMs(ttl));
    }

    /**
     * Returns when a pair expires.
     *
     * @param key the key
     * @return milliseconds since 1970; empty if the pair does not exist or never expires
     */
    public final OptionalLong expiryMs(byte[] key) {
        long found = Native.expiryMs(this, handle(), Objects.requireNonNull(key, "key"));
        return found < 0 ? OptionalLong.empty() : OptionalLong.of(found);
    }

    static long ttlMs(Duration ttl) {
        if (ttl.isNegative()) {
            throw EskerException.invalid("a time to live cannot be negative: " + ttl);
        }
        try {
            return ttl.plusNanos(999_999).toMillis();
        } catch (ArithmeticException never) {
            return -1;
        }
    }

    /**
     * Removes a key. A missing key is not an error.
     *
     * @param key the key
     */
    public final void delete(byte[] key) {
        Native.delete(this, handle(), key, 0, key.length, -1);
    }

    /**
     * Removes a key, and returns whether it existed, as one step.
     *
     * @param key the key
     * @return whether the key existed; of several callers, one gets true
     */
    public final boolean remove(byte[] key) {
        return Native.remove(this, handle(), Objects.requireNonNull(key, "key"));
    }

    /**
     * Removes all keys of a range.
     *
     * @param start the first key
     * @param end the key before which the range ends
     */
    public final void deleteRange(byte[] start, byte[] end) {
        Native.deleteRange(this, handle(), Objects.requireNonNull(start, "start"),
                Objects.requireNonNull(end, "end"));
    }

    /**
     * Merges an operand into the value of a key, with the merge operator of the options.
     *
     * @param key the key
     * @param operand what the operator combines with the value
     */
    public final void merge(byte[] key, byte[] operand) {
        Native.merge(this, handle(), Objects.requireNonNull(key, "key"),
                Objects.requireNonNull(operand, "operand"));
    }

    /**
     * Writes a batch. Operations without a keyspace are in this one.
     *
     * @param batch the operations
     */
    public final void write(Batch batch) {
        write(batch, null);
    }

    /**
     * Writes a batch.
     *
     * @param batch the operations
     * @param durability what a crash must keep; null for the store's durability
     */
    public final void write(Batch batch, Durability durability) {
        Native.write(this, handle(), batch.packed(), batch.sizeBytes(), batch.parts(),
                Durability.number(durability));
    }

    /**
     * Returns the value of a key.
     *
     * @param key the key
     * @return its value, or null
     */
    public final byte[] get(byte[] key) {
        return Native.get(this, handle(), key, 0, key.length);
    }

    /**
     * Returns the value of a key at a snapshot.
     *
     * @param key the key
     * @param snapshot a snapshot of the store
     * @return its value then, or null
     */
    public final byte[] get(byte[] key, Snapshot snapshot) {
        return Native.getAt(this, handle(), snapshot.handleFor(this), key, 0, key.length);
    }

    /**
     * Returns the value of a key.
     *
     * @param key the key
     * @return its value, or empty
     */
    public final Optional<byte[]> find(byte[] key) {
        return Optional.ofNullable(get(key));
    }

    /**
     * Returns the values of many keys as of one moment.
     *
     * @param keys the keys
     * @return their values in the same order, null for a key that does not exist
     */
    public final List<byte[]> multiGet(List<byte[]> keys) {
        byte[] packed = Native.multiGet(this, handle(), Native.pack(keys));
        List<byte[]> values = new ArrayList<>(keys.size());
        ByteBuffer in = ByteBuffer.wrap(packed).order(ByteOrder.LITTLE_ENDIAN);
        while (in.hasRemaining()) {
            int length = in.getInt();
            byte[] value = length < 0 ? null : new byte[length];
            if (value != null) {
                in.get(value);
            }
            values.add(value);
        }
        return values;
    }

    /**
     * Returns whether a key exists.
     *
     * @param key the key
     * @return whether it exists
     */
    public final boolean containsKey(byte[] key) {
        return Native.containsKey(this, handle(), Objects.requireNonNull(key, "key"));
    }

    /**
     * Returns an iterator over all pairs.
     *
     * @return a new iterator, which must be closed
     */
    public final EskerIterator iterator() {
        return iterator(KeyRange.ALL, null);
    }

    /**
     * Returns an iterator over the pairs of a range.
     *
     * @param range the keys
     * @return a new iterator, which must be closed
     */
    public final EskerIterator iterator(KeyRange range) {
        return iterator(range, null);
    }

    /**
     * Returns an iterator over the pairs of a range at a snapshot.
     *
     * @param range the keys
     * @param snapshot a snapshot of the store, or null for now
     * @return a new iterator, which must be closed
     */
    public final EskerIterator iterator(KeyRange range, Snapshot snapshot) {
        long at = snapshot == null ? 0 : snapshot.handleFor(this);
        return new EskerIterator(this, Native.iterator(this, handle(), at, 0, range.from(),
                range.fromInclusive(), range.to(), range.toInclusive(), true));
    }

    /**
     * Returns the number of pairs, by reading all of them.
     *
     * @return the number
     */
    public final long count() {
        long count = 0;
        try (EskerIterator pairs = iterator()) {
            for (pairs.seekToFirst(); pairs.isValid(); pairs.next()) {
                count++;
            }
        }
        return count;
    }

    /** Compacts all keys. */
    public final void compact() {
        Native.compactRange(this, handle(), null, null);
    }

    /**
     * Compacts the keys of a range.
     *
     * @param start the first key, or null for no bound
     * @param end the last key, or null for no bound
     */
    public final void compact(byte[] start, byte[] end) {
        Native.compactRange(this, handle(), start, end);
    }

    /**
     * Makes files of {@link SortedWriter} part of the keyspace, all of them at once. Their entries become
     * the newest versions of their keys. Readers see all of them or none, and a crash leaves all or none.
     * The store takes the files.
     *
     * @param files the files
     * @return what was done
     * @throws EskerException {@code INVALID_ARGUMENT} if two files share keys or a file was not made by a
     *     {@link SortedWriter}, {@code INCOMPATIBLE} for another key order, {@code CORRUPTION} for a file
     *     that is damaged or was not finished; nothing is changed then
     */
    public final IngestReport ingest(java.util.List<java.nio.file.Path> files) {
        return ingest(files, false, true);
    }

    /**
     * Does the same as {@link #ingest(java.util.List)}.
     *
     * @param files the files
     * @param copy whether the files stay where they are, and the store gets copies
     * @param verify whether each file is read and checked as a whole first
     * @return what was done
     */
    public final IngestReport ingest(java.util.List<java.nio.file.Path> files, boolean copy, boolean verify) {
        byte[] names = Native.pack(files.stream().map(file -> Native.utf8(file.toString())).toList());
        long[] made = Native.ingest(this, handle(), names, copy, verify);
        return new IngestReport(made[0], made[1], made[2], made[3], made[4] != 0);
    }

    /**
     * Returns the approximate size of the tables. Data in memory is not counted.
     *
     * @return a size in bytes
     */
    public final long sizeBytes() {
        return Native.sizeBytes(this, handle());
    }

    /**
     * Returns whether the object was closed.
     *
     * @return whether each call throws
     */
    public final boolean isClosed() {
        return resource.isClosed();
    }

    static void checkSame(Esker one, Esker other) {
        if (one != other) {
            throw EskerException.invalid("an object of another store, or of an earlier opening, was used");
        }
    }

    @Override
    public final int hashCode() {
        return System.identityHashCode(this);
    }

    @Override
    public final boolean equals(Object other) {
        return this == other;
    }

}
