package dev.esker.kafka.streams;

import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.function.Consumer;
import java.util.function.Predicate;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.state.KeyValueIterator;

/** The wanted pairs of some segments, one segment after the other, with the keys of the changelog. */
final class SegmentedIterator implements KeyValueIterator<Bytes, byte[]> {
    /** Opens the pairs of a segment. */
    interface Opener {
        Pairs open(long segment);
    }

    private final EskerSegmentedStore store;
    private final Iterator<Long> segments;
    private final Predicate<byte[]> wanted;
    private final Opener opener;
    private final Consumer<SegmentedIterator> closed;
    private Pairs pairs;
    private long segment;
    private byte[] key;
    private byte[] value;

    SegmentedIterator(EskerSegmentedStore store, List<Long> segments, Predicate<byte[]> wanted, Opener opener,
            Consumer<SegmentedIterator> closed) {
        this.store = store;
        this.segments = segments.iterator();
        this.wanted = wanted;
        this.opener = opener;
        this.closed = closed;
    }

    @Override
    public synchronized boolean hasNext() {
        if (key != null && store.isLive(segment)) {
            return true;
        }
        key = null;
        while (true) {
            if (pairs == null || !store.isLive(segment) || !pairs.hasNext()) {
                if (!openNext()) {
                    return false;
                }
                continue;
            }
            take(pairs.key(), pairs.value());
            pairs.skip();
            if (key != null) {
                return true;
            }
        }
    }

    private boolean openNext() {
        closePairs();
        while (segments.hasNext()) {
            segment = segments.next();
            if (store.isLive(segment)) {
                pairs = opener.open(segment);
                return true;
            }
        }
        return false;
    }

    private void take(byte[] place, byte[] found) {
        Schema schema = store.schema;
        boolean isIndex = schema.isTimeFirst() && place[0] == 1;
        byte[] candidate = isIndex ? schema.keyOfIndexed(place) : schema.keyOfStored(place);
        if (!wanted.test(candidate)) {
            return;
        }
        value = isIndex ? store.space.get(schema.stored(candidate, segment)) : found;
        key = value == null ? null : candidate;
    }

    @Override
    public synchronized Bytes peekNextKey() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        return Bytes.wrap(key);
    }

    @Override
    public synchronized KeyValue<Bytes, byte[]> next() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        KeyValue<Bytes, byte[]> next = KeyValue.pair(Bytes.wrap(key), value);
        key = null;
        return next;
    }

    private void closePairs() {
        if (pairs != null) {
            pairs.close();
            pairs = null;
        }
    }

    @Override
    public synchronized void close() {
        closed.accept(this);
        closePairs();
        key = null;
        while (segments.hasNext()) {
            segments.next();
        }
    }
}
