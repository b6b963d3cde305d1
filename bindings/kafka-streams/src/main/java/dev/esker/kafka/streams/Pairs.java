package dev.esker.kafka.streams;

import dev.esker.EskerIterator;
import java.util.Arrays;
import java.util.Iterator;
import java.util.Map;
import java.util.NavigableMap;
import java.util.concurrent.atomic.LongAdder;

/**
 * The pairs of a range in one direction: those of a store, with an overlay of newer writes over them.
 * An empty array that is {@link Space#DELETED} hides the pair of the store.
 */
final class Pairs implements AutoCloseable {
    private final EskerIterator stored;
    private final Iterator<Map.Entry<byte[], byte[]>> newer;
    private final boolean forward;
    private final LongAdder readBytes;
    private Map.Entry<byte[], byte[]> nextNewer;
    private boolean isReady;
    private byte[] key;
    private byte[] value;

    Pairs(EskerIterator stored, NavigableMap<byte[], byte[]> overlay, boolean forward, LongAdder readBytes) {
        this.stored = stored;
        this.readBytes = readBytes;
        this.forward = forward;
        newer = (forward ? overlay : overlay.descendingMap()).entrySet().iterator();
        nextNewer = newer.hasNext() ? newer.next() : null;
        if (forward) {
            stored.seekToFirst();
        } else {
            stored.seekToLast();
        }
    }

    boolean hasNext() {
        while (!isReady) {
            boolean has = stored.isValid();
            if (!has && nextNewer == null) {
                return false;
            }
            int order = nextNewer == null ? -1 : has ? stored.compareKey(nextNewer.getKey()) : 1;
            if (!forward && nextNewer != null && has) {
                order = -order;
            }
            if (order < 0) {
                key = stored.key();
                value = stored.value();
                readBytes.add(key.length + value.length);
                moveStored();
                isReady = true;
                return true;
            }
            if (order == 0) {
                moveStored();
            }
            key = nextNewer.getKey();
            value = nextNewer.getValue();
            nextNewer = newer.hasNext() ? newer.next() : null;
            isReady = value != Space.DELETED;
        }
        return true;
    }

    private void moveStored() {
        if (forward) {
            stored.next();
        } else {
            stored.prev();
        }
    }

    /** Returns the next key. {@link #hasNext} was true. */
    byte[] key() {
        return key;
    }

    /** Returns the next value. {@link #hasNext} was true. */
    byte[] value() {
        return value;
    }

    void skip() {
        isReady = false;
    }

    @Override
    public void close() {
        stored.close();
    }

    static int compare(byte[] one, byte[] other) {
        return Arrays.compareUnsigned(one, other);
    }
}
