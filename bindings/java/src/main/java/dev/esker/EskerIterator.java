package dev.esker;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.Arrays;

/**
 * A cursor over the pairs of a range, as of the moment of its creation. It is at a pair
 * ({@link #isValid}) or at none; a new iterator is at none.
 *
 * <p>Pairs come from native code many at a time: an array of 8 KiB first, then twice as much each time,
 * up to 64 KiB. One thread
 * uses an iterator at a time; any thread may close it. An iterator keeps old versions of pairs and
 * should be closed.
 */
public final class EskerIterator implements AutoCloseable {
    private static final VarHandle INT = MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
    private static final int HEAD_BYTES = 8;
    private static final int FIRST_BYTES = 8 << 10;
    private static final int LAST_BYTES = 64 << 10;

    private final Resource resource;
    /** Keeps the store, snapshot or transaction reachable. */
    private final Object of;
    private byte[] pairs = {};
    private int filled;
    private int at;
    private int keyLength;
    private int valueLength;
    private boolean isForward = true;
    private boolean isValid;
    private int room = FIRST_BYTES;

    EskerIterator(Object of, long handle) {
        this.of = of;
        resource = Resource.of(this, "iterator", handle, last -> Native.freeIterator(null, last));
    }

    /** Moves to the first pair of the range. */
    public void seekToFirst() {
        place(0, null, true);
    }

    /** Moves to the last pair of the range. */
    public void seekToLast() {
        place(1, null, false);
    }

    /**
     * Moves to the first pair at or after a key.
     *
     * @param key any key
     */
    public void seek(byte[] key) {
        place(2, key.clone(), true);
    }

    /**
     * Moves to the last pair at or before a key.
     *
     * @param key any key
     */
    public void seekForPrev(byte[] key) {
        place(3, key.clone(), false);
    }

    /**
     * Returns whether the iterator is at a pair.
     *
     * @return false before the first seek, after the last pair, and after a close
     */
    public boolean isValid() {
        return isValid && !resource.isClosed();
    }

    /** Moves to the next pair. Does nothing if the iterator is at none. */
    public void next() {
        step(true);
    }

    /** Moves to the previous pair. Does nothing if the iterator is at none. */
    public void prev() {
        step(false);
    }

    /**
     * Returns the current key.
     *
     * @return a new array
     * @throws EskerException if the iterator is at no pair
     */
    public byte[] key() {
        check();
        return Arrays.copyOfRange(pairs, at + HEAD_BYTES, at + HEAD_BYTES + keyLength);
    }

    /**
     * Returns the current value.
     *
     * @return a new array
     * @throws EskerException if the iterator is at no pair
     */
    public byte[] value() {
        check();
        int start = at + HEAD_BYTES + keyLength;
        return Arrays.copyOfRange(pairs, start, start + valueLength);
    }

    /**
     * Compares the current key with another one, bytewise, without a copy.
     *
     * @param other any key
     * @return a negative number, 0 or a positive number
     */
    public int compareKey(byte[] other) {
        check();
        int start = at + HEAD_BYTES;
        return Arrays.compareUnsigned(pairs, start, start + keyLength, other, 0, other.length);
    }

    /** Frees the iterator. Later moves throw. Closing twice is allowed. */
    @Override
    public void close() {
        resource.free();
    }

    private void check() {
        if (!isValid()) {
            resource.handle();
            throw EskerException.invalid("the iterator is at no pair; seek first, and check isValid()");
        }
    }

    private void place(int kind, byte[] key, boolean forward) {
        isValid = false;
        isForward = forward;
        room = FIRST_BYTES;
        synchronized (resource) {
            Native.seek(this, resource.handle(), kind, key);
            fill();
        }
    }

    private void step(boolean forward) {
        if (!isValid) {
            resource.handle();
            return;
        }
        if (forward != isForward) {
            place(forward ? 4 : 5, key(), forward);
            return;
        }
        if (resource.isClosed()) {
            throw EskerException.closed("iterator");
        }
        at += HEAD_BYTES + keyLength + valueLength;
        if (at < filled) {
            readHead();
            return;
        }
        isValid = false;
        room = Math.min(2 * room, LAST_BYTES);
        synchronized (resource) {
            fill();
        }
    }

    /** Fetches the next pairs. */
    private void fill() {
        if (pairs.length < room) {
            pairs = new byte[room];
        }
        int used = Native.fill(this, resource.handle(), pairs, Math.max(room, FIRST_BYTES), isForward);
        if (used < 0) {
            int needed = -used;
            if (pairs.length < needed) {
                pairs = new byte[needed];
            }
            used = Native.fill(this, resource.handle(), pairs, needed, isForward);
        }
        filled = used;
        at = 0;
        isValid = used > 0;
        if (isValid) {
            readHead();
        }
    }

    private void readHead() {
        keyLength = (int) INT.get(pairs, at);
        valueLength = (int) INT.get(pairs, at + 4);
    }
}
