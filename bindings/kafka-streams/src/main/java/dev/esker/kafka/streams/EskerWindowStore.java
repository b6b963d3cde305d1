package dev.esker.kafka.streams;

import java.util.function.Function;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;
import org.apache.kafka.streams.state.internals.WindowKeySchema;

/** A window store, in the order of keys or of time. */
class EskerWindowStore extends EskerSegmentedStore implements WindowStore<Bytes, byte[]> {
    private final long windowMs;
    private final boolean keepsDuplicates;
    private int sequence;

    EskerWindowStore(WindowShape shape) {
        super(shape.name(), "esker-window", new Schema(false, shape.isTimeFirst()), shape.retentionMs(),
                shape.segmentMs());
        windowMs = shape.windowMs();
        keepsDuplicates = shape.retainDuplicates();
    }

    @Override
    public void put(Bytes key, byte[] value, long start) {
        // A delete of one of several pairs with the same key and time does nothing.
        if (value == null && keepsDuplicates) {
            return;
        }
        if (keepsDuplicates) {
            sequence = (sequence + 1) & Integer.MAX_VALUE;
        }
        put(WindowKeySchema.toStoreKeyBinary(key, start, sequence), value);
    }

    @Override
    public byte[] fetch(Bytes key, long time) {
        return get(WindowKeySchema.toStoreKeyBinary(key, time, sequence));
    }

    @Override
    public WindowStoreIterator<byte[]> fetch(Bytes key, long from, long to) {
        return new Times(fetch(key, key, from, to, true), schema::time);
    }

    @Override
    public WindowStoreIterator<byte[]> backwardFetch(Bytes key, long from, long to) {
        return new Times(fetch(key, key, from, to, false), schema::time);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes keyFrom, Bytes keyTo, long from, long to) {
        return windows(fetch(keyFrom, keyTo, from, to, true));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(Bytes keyFrom, Bytes keyTo, long from, long to) {
        return windows(fetch(keyFrom, keyTo, from, to, false));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> all() {
        return fetchAll(0, Long.MAX_VALUE);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardAll() {
        return backwardFetchAll(0, Long.MAX_VALUE);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetchAll(long from, long to) {
        return windows(fetch(null, null, from, to, true));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetchAll(long from, long to) {
        return windows(fetch(null, null, from, to, false));
    }

    private KeyValueIterator<Windowed<Bytes>, byte[]> windows(KeyValueIterator<Bytes, byte[]> pairs) {
        return new MappedIterator<>(pairs, key -> WindowKeySchema.fromStoreBytesKey(key.get(), windowMs));
    }

    /** The values of one key, by the start of their windows. */
    private static final class Times extends MappedIterator<Long> implements WindowStoreIterator<byte[]> {
        Times(KeyValueIterator<Bytes, byte[]> pairs, Function<byte[], Long> time) {
            super(pairs, key -> time.apply(key.get()));
        }
    }

    /** The pairs of a store with other keys. */
    static class MappedIterator<K> implements KeyValueIterator<K, byte[]> {
        private final KeyValueIterator<Bytes, byte[]> pairs;
        private final Function<Bytes, K> map;

        MappedIterator(KeyValueIterator<Bytes, byte[]> pairs, Function<Bytes, K> map) {
            this.pairs = pairs;
            this.map = map;
        }

        @Override
        public boolean hasNext() {
            return pairs.hasNext();
        }

        @Override
        public K peekNextKey() {
            return map.apply(pairs.peekNextKey());
        }

        @Override
        public KeyValue<K, byte[]> next() {
            KeyValue<Bytes, byte[]> next = pairs.next();
            return KeyValue.pair(map.apply(next.key), next.value);
        }

        @Override
        public void close() {
            pairs.close();
        }
    }
}
