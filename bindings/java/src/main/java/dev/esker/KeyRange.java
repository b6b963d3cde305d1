package dev.esker;

import java.util.Arrays;

/**
 * A range of keys, in the bytewise order.
 *
 * @param from the first key, or null for no bound
 * @param fromInclusive whether {@code from} belongs to the range
 * @param to the last key, or null for no bound
 * @param toInclusive whether {@code to} belongs to the range
 */
public record KeyRange(byte[] from, boolean fromInclusive, byte[] to, boolean toInclusive) {
    /** All keys. */
    public static final KeyRange ALL = new KeyRange(null, true, null, true);

    /**
     * Returns the keys from {@code from} to before {@code to}.
     *
     * @param from the first key, or null for no bound
     * @param to the key before which the range ends, or null for no bound
     * @return the range
     */
    public static KeyRange of(byte[] from, byte[] to) {
        return new KeyRange(from, true, to, false);
    }

    /**
     * Returns the keys from {@code from} to {@code to}, both included.
     *
     * @param from the first key, or null for no bound
     * @param to the last key, or null for no bound
     * @return the range
     */
    public static KeyRange closed(byte[] from, byte[] to) {
        return new KeyRange(from, true, to, true);
    }

    /**
     * Returns the keys that start with {@code prefix}.
     *
     * @param prefix the first bytes of the keys
     * @return the range
     */
    public static KeyRange prefix(byte[] prefix) {
        return new KeyRange(prefix, true, after(prefix), false);
    }

    /** Returns the least key after all keys with a prefix; null if there is none. */
    private static byte[] after(byte[] prefix) {
        for (int at = prefix.length - 1; at >= 0; at--) {
            if (prefix[at] != (byte) 0xff) {
                byte[] end = Arrays.copyOf(prefix, at + 1);
                end[at]++;
                return end;
            }
        }
        return null;
    }
}
