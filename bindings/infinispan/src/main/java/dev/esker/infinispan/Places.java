package dev.esker.infinispan;

import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * Where entries are: an entry after a byte 1 and the number of its segment; and for an entry that
 * expires, an empty pair after a byte 2, the time, and the segment. Numbers are big-endian.
 */
final class Places {
    private static final byte ENTRY = 1;
    private static final byte EXPIRY = 2;
    private static final int ENTRY_HEAD = 1 + Integer.BYTES;
    private static final int EXPIRY_HEAD = 1 + Long.BYTES;

    private Places() {}

    static byte[] entry(int segment, byte[] key) {
        return ByteBuffer.allocate(ENTRY_HEAD + key.length).put(ENTRY).putInt(segment).put(key).array();
    }

    /** Returns the place where a segment starts. */
    static byte[] segment(int segment) {
        return entry(segment, new byte[0]);
    }

    static byte[] expiry(long time, int segment, byte[] key) {
        return ByteBuffer.allocate(EXPIRY_HEAD + Integer.BYTES + key.length).put(EXPIRY).putLong(time).putInt(segment)
                .put(key).array();
    }

    /** Returns the place before which all expiries before a time are. */
    static byte[] expiryStart(long time) {
        return ByteBuffer.allocate(EXPIRY_HEAD).put(EXPIRY).putLong(time).array();
    }

    static byte[] keyOfEntry(byte[] place) {
        return Arrays.copyOfRange(place, ENTRY_HEAD, place.length);
    }

    /** Returns the place of the entry of an expiry. */
    static byte[] entryOfExpiry(byte[] expiry) {
        return ByteBuffer.allocate(expiry.length - Long.BYTES).put(ENTRY)
                .put(expiry, EXPIRY_HEAD, expiry.length - EXPIRY_HEAD).array();
    }

    static byte[] end() {
        return new byte[] {EXPIRY + 1};
    }

    static byte[] start() {
        return new byte[] {ENTRY};
    }
}
