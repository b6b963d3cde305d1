package dev.esker;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Operations that are written together: all become visible at once, and a crash keeps all or none.
 * A batch is Java memory alone, needs no close, and can be written again. One thread uses it at a time.
 */
public final class Batch {
    private static final VarHandle INT = MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle SHORT = MethodHandles.byteArrayViewVarHandle(short[].class, ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle LONG = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    private static final int HEAD_BYTES = 3;
    private static final int CAPACITY_MAX = Integer.MAX_VALUE - 16;

    private byte[] packed;
    private int length;
    private int count;
    private final List<Keyspace> keyspaces = new ArrayList<>();

    /** Creates an empty batch. */
    public Batch() {
        this(256);
    }

    /**
     * Creates an empty batch.
     *
     * @param capacityBytes size of the first array, in bytes
     */
    public Batch(int capacityBytes) {
        packed = new byte[Math.max(capacityBytes, 16)];
    }

    /**
     * Adds a put.
     *
     * @param key the key
     * @param value its value
     * @return this batch
     */
    public Batch put(byte[] key, byte[] value) {
        return add(0, null, key, value, 0);
    }

    /**
     * Adds a put into a keyspace.
     *
     * @param keyspace a keyspace of the store to which the batch is written
     * @param key the key
     * @param value its value
     * @return this batch
     */
    public Batch put(Keyspace keyspace, byte[] key, byte[] value) {
        return add(0, keyspace, key, value, 0);
    }

    /**
     * Adds a put that expires.
     *
     * @param key the key
     * @param value its value
     * @param ttl the time to live, from the write of the batch on
     * @return this batch
     */
    public Batch put(byte[] key, byte[] value, Duration ttl) {
        return add(4, null, key, value, ttl.toMillis());
    }

    /**
     * Adds a delete.
     *
     * @param key the key
     * @return this batch
     */
    public Batch delete(byte[] key) {
        return add(1, null, key, null, 0);
    }

    /**
     * Adds a delete in a keyspace.
     *
     * @param keyspace a keyspace of the store to which the batch is written
     * @param key the key
     * @return this batch
     */
    public Batch delete(Keyspace keyspace, byte[] key) {
        return add(1, keyspace, key, null, 0);
    }

    /**
     * Adds a delete of all keys of a range.
     *
     * @param start the first key
     * @param end the key before which the range ends
     * @return this batch
     */
    public Batch deleteRange(byte[] start, byte[] end) {
        return add(2, null, start, end, 0);
    }

    /**
     * Adds a delete of all keys of a range of a keyspace.
     *
     * @param keyspace a keyspace of the store to which the batch is written
     * @param start the first key
     * @param end the key before which the range ends
     * @return this batch
     */
    public Batch deleteRange(Keyspace keyspace, byte[] start, byte[] end) {
        return add(2, keyspace, start, end, 0);
    }

    /**
     * Adds a merge.
     *
     * @param key the key
     * @param operand what the merge operator combines with the value
     * @return this batch
     */
    public Batch merge(byte[] key, byte[] operand) {
        return add(3, null, key, operand, 0);
    }

    /**
     * Adds a merge in a keyspace.
     *
     * @param keyspace a keyspace of the store to which the batch is written
     * @param key the key
     * @param operand what the merge operator combines with the value
     * @return this batch
     */
    public Batch merge(Keyspace keyspace, byte[] key, byte[] operand) {
        return add(3, keyspace, key, operand, 0);
    }

    /** Removes all operations. */
    public void clear() {
        length = 0;
        count = 0;
        keyspaces.clear();
    }

    /**
     * Returns the number of operations.
     *
     * @return the number
     */
    public int count() {
        return count;
    }

    /**
     * Returns the memory that the operations use.
     *
     * @return a size in bytes
     */
    public int sizeBytes() {
        return length;
    }

    byte[] packed() {
        return packed;
    }

    /** Returns the handles of the keyspaces, or null if there are none. */
    long[] parts() {
        return keyspaces.isEmpty() ? null : keyspaces.stream().mapToLong(Keyspace::handle).toArray();
    }

    private Batch add(int kind, Keyspace keyspace, byte[] key, byte[] value, long ttlMs) {
        boolean hasValue = kind != 1;
        reserve(HEAD_BYTES + 4L + key.length + (hasValue ? 4L + value.length : 0) + 8);
        int number = keyspace == null ? 0 : numberOf(keyspace);
        packed[length] = (byte) kind;
        SHORT.set(packed, length + 1, (short) number);
        length += HEAD_BYTES;
        addItem(key);
        if (hasValue) {
            addItem(value);
        }
        if (kind == 4) {
            LONG.set(packed, length, ttlMs);
            length += 8;
        }
        count++;
        return this;
    }

    private void addItem(byte[] item) {
        INT.set(packed, length, item.length);
        System.arraycopy(item, 0, packed, length + 4, item.length);
        length += 4 + item.length;
    }

    private int numberOf(Keyspace keyspace) {
        int at = keyspaces.indexOf(keyspace);
        if (at < 0) {
            if (keyspaces.size() == 0xffff) {
                throw EskerException.invalid("a batch has at most 65535 keyspaces");
            }
            keyspaces.add(keyspace);
            at = keyspaces.size() - 1;
        }
        return at + 1;
    }

    private void reserve(long more) {
        long needed = length + more;
        if (needed <= packed.length) {
            return;
        }
        if (needed > CAPACITY_MAX) {
            throw EskerException.invalid("a batch of " + needed + " bytes is too large; write it in parts");
        }
        packed = Arrays.copyOf(packed, (int) Math.min(CAPACITY_MAX, Math.max(needed, packed.length * 2L)));
    }
}
