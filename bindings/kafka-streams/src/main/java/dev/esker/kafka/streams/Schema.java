package dev.esker.kafka.streams;

import java.nio.ByteBuffer;
import java.util.Arrays;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.internals.SessionKeySchema;
import org.apache.kafka.streams.state.internals.WindowKeySchema;

/**
 * How the keys of windows or sessions are stored.
 *
 * <p>The key of a changelog record is Kafka's: the application's key, and then the start of the window
 * and a sequence number, or the end and the start of the session. It is stored
 *
 * <ul>
 *   <li>in the order of keys: after the number of its segment;
 *   <li>in the order of time: after a byte 0, time first and the application's key in the middle; and
 *       once more after a byte 1 and the number of its segment, as an index for reads of one key.
 * </ul>
 *
 * <p>Numbers are big-endian and not negative, so bytes and numbers have the same order.
 */
final class Schema {
    private static final int LONG = Long.BYTES;
    private static final byte BY_TIME = 0;
    private static final byte BY_KEY = 1;
    private static final WindowKeySchema WINDOWS = new WindowKeySchema();
    private static final SessionKeySchema SESSIONS = new SessionKeySchema();

    private final boolean isSession;
    private final boolean isTimeFirst;
    private final int suffix;

    Schema(boolean isSession, boolean isTimeFirst) {
        this.isSession = isSession;
        this.isTimeFirst = isTimeFirst;
        suffix = isSession ? 2 * LONG : LONG + Integer.BYTES;
    }

    boolean isSession() {
        return isSession;
    }

    boolean isTimeFirst() {
        return isTimeFirst;
    }

    /** Returns the time that decides about the segment: the start of a window, the end of a session. */
    long time(byte[] key) {
        return ByteBuffer.wrap(key).getLong(key.length - suffix);
    }

    /** Returns the start of a session. */
    long start(byte[] key) {
        return ByteBuffer.wrap(key).getLong(key.length - LONG);
    }

    /** Compares the application's key with another one. */
    int compare(byte[] key, Bytes other) {
        byte[] bytes = other.get();
        return Arrays.compareUnsigned(key, 0, key.length - suffix, bytes, 0, bytes.length);
    }

    /** Returns the place of a pair. */
    byte[] stored(byte[] key, long segment) {
        if (!isTimeFirst) {
            return ByteBuffer.allocate(LONG + key.length).putLong(segment).put(key).array();
        }
        int length = key.length - suffix;
        ByteBuffer out = ByteBuffer.allocate(1 + key.length).put(BY_TIME);
        int first = isSession ? 2 * LONG : LONG;
        return out.put(key, length, first).put(key, 0, length).put(key, length + first, suffix - first).array();
    }

    /** Returns the place of a pair in the index; null if there is none. */
    byte[] indexed(byte[] key, long segment) {
        return isTimeFirst
                ? ByteBuffer.allocate(1 + LONG + key.length).put(BY_KEY).putLong(segment).put(key).array()
                : null;
    }

    /** Returns the key of a stored pair. */
    byte[] keyOfStored(byte[] stored) {
        if (!isTimeFirst) {
            return Arrays.copyOfRange(stored, LONG, stored.length);
        }
        int first = isSession ? 2 * LONG : LONG;
        int length = stored.length - 1 - suffix;
        return ByteBuffer.allocate(stored.length - 1).put(stored, 1 + first, length).put(stored, 1, first)
                .put(stored, 1 + first + length, suffix - first).array();
    }

    /** Returns the key of an entry of the index. */
    byte[] keyOfIndexed(byte[] indexed) {
        return Arrays.copyOfRange(indexed, 1 + LONG, indexed.length);
    }

    /** Returns the start of a segment, in the order of keys or in the index. */
    byte[] segmentStart(long segment) {
        return isTimeFirst
                ? ByteBuffer.allocate(1 + LONG).put(BY_KEY).putLong(segment).array()
                : ByteBuffer.allocate(LONG).putLong(segment).array();
    }

    /** Returns the number of the segment of a place that {@link #segmentStart} begins. */
    long segmentOf(byte[] place) {
        return ByteBuffer.wrap(place).getLong(isTimeFirst ? 1 : 0);
    }

    /** Returns the first place at a time, in the order of time. */
    byte[] timeStart(long time) {
        return ByteBuffer.allocate(1 + LONG).put(BY_TIME).putLong(Math.max(0, time)).array();
    }

    /** Returns the least key of a range. Null stands for no bound. */
    byte[] lower(Bytes from, Bytes to, long earliest) {
        Bytes bound;
        if (from != null && from.equals(to)) {
            bound = isSession ? SESSIONS.lowerRangeFixedSize(from, earliest) : WINDOWS.lowerRangeFixedSize(from, earliest);
        } else {
            bound = isSession ? SESSIONS.lowerRange(from, earliest) : WINDOWS.lowerRange(from, earliest);
        }
        return bound == null ? null : bound.get();
    }

    /** Returns the greatest key of a range. Null stands for no bound. */
    byte[] upper(Bytes from, Bytes to, long latest) {
        Bytes bound;
        if (to != null && to.equals(from)) {
            bound = isSession ? SESSIONS.upperRangeFixedSize(to, latest) : WINDOWS.upperRangeFixedSize(to, latest);
        } else {
            bound = isSession ? SESSIONS.upperRange(to, latest) : WINDOWS.upperRange(to, latest);
        }
        return bound == null ? null : bound.get();
    }

    static byte[] concat(byte[] one, byte[] other) {
        byte[] both = Arrays.copyOf(one, one.length + other.length);
        System.arraycopy(other, 0, both, one.length, other.length);
        return both;
    }
}
