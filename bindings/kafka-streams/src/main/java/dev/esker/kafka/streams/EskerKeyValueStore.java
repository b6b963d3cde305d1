package dev.esker.kafka.streams;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Objects;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.internals.ChangelogRecordDeserializationHelper;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.internals.StoreQueryUtils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A key-value store. Its iterators end with the store. */
class EskerKeyValueStore extends EskerStateStore implements KeyValueStore<Bytes, byte[]> {
    private static final Logger LOG = LoggerFactory.getLogger(EskerKeyValueStore.class);

    private final Set<Range> open = Collections.synchronizedSet(new HashSet<>());

    EskerKeyValueStore(String name) {
        super(name, "esker");
    }

    @Override
    public void init(StateStoreContext context, StateStore root) {
        open(context);
        register(root, this::restore);
    }

    private void restore(Collection<ConsumerRecord<byte[], byte[]>> records) {
        synchronized (position) {
            Map<byte[], byte[]> pairs = new LinkedHashMap<>();
            ConsumerRecord<byte[], byte[]> last = null;
            for (ConsumerRecord<byte[], byte[]> record : records) {
                ChangelogRecordDeserializationHelper.applyChecksAndUpdatePosition(record, isConsistent, position);
                pairs.put(record.key(), record.value());
                last = record;
            }
            restored(pairs, last);
        }
    }

    @Override
    public synchronized void put(Bytes key, byte[] value) {
        Objects.requireNonNull(key, "key cannot be null");
        checkOpen();
        synchronized (position) {
            call(() -> space.put(key.get(), value));
            StoreQueryUtils.updatePosition(position, context);
        }
    }

    @Override
    public synchronized byte[] putIfAbsent(Bytes key, byte[] value) {
        Objects.requireNonNull(key, "key cannot be null");
        byte[] before = get(key);
        if (before == null && value != null) {
            put(key, value);
        }
        return before;
    }

    @Override
    public synchronized void putAll(List<KeyValue<Bytes, byte[]>> entries) {
        checkOpen();
        synchronized (position) {
            Map<byte[], byte[]> pairs = new LinkedHashMap<>();
            for (KeyValue<Bytes, byte[]> entry : entries) {
                Objects.requireNonNull(entry.key, "key cannot be null");
                pairs.put(entry.key.get(), entry.value);
            }
            call(() -> space.put(pairs));
            StoreQueryUtils.updatePosition(position, context);
        }
    }

    @Override
    public synchronized byte[] delete(Bytes key) {
        Objects.requireNonNull(key, "key cannot be null");
        byte[] before = get(key);
        put(key, null);
        return before;
    }

    @Override
    public byte[] get(Bytes key) {
        Objects.requireNonNull(key, "key cannot be null");
        checkOpen();
        return result(() -> space.get(key.get()));
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> range(Bytes from, Bytes to) {
        return range(from, to, true);
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> reverseRange(Bytes from, Bytes to) {
        return range(from, to, false);
    }

    private KeyValueIterator<Bytes, byte[]> range(Bytes from, Bytes to, boolean forward) {
        if (from != null && to != null && from.compareTo(to) > 0) {
            LOG.warn("Returning empty iterator for fetch with invalid key range: from > to. "
                    + "This may be due to range arguments set in the wrong order, "
                    + "or serdes that don't preserve ordering when lexicographically comparing the serialized bytes. "
                    + "Note that the built-in numerical serdes do not follow this for negative numbers");
            return new EmptyIterator<>();
        }
        return iterate(from == null ? null : from.get(), to == null ? null : to.get(), true, forward);
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> all() {
        return iterate(null, null, true, true);
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> reverseAll() {
        return iterate(null, null, true, false);
    }

    @Override
    public <PS extends Serializer<P>, P> KeyValueIterator<Bytes, byte[]> prefixScan(P prefix, PS serializer) {
        Objects.requireNonNull(prefix, "prefix cannot be null");
        Objects.requireNonNull(serializer, "prefixKeySerializer cannot be null");
        byte[] from = serializer.serialize(null, prefix);
        return iterate(from, dev.esker.KeyRange.prefix(from).to(), false, true);
    }

    private KeyValueIterator<Bytes, byte[]> iterate(byte[] from, byte[] to, boolean toIsIn, boolean forward) {
        checkOpen();
        Range range = new Range(result(() -> space.range(from, to, toIsIn, forward)));
        open.add(range);
        return range;
    }

    @Override
    public long approximateNumEntries() {
        checkOpen();
        return result(this::estimateKeys);
    }

    @Override
    public synchronized void close() {
        if (space == null || !isOpen()) {
            return;
        }
        List<Range> left;
        synchronized (open) {
            left = new ArrayList<>(open);
        }
        if (!left.isEmpty()) {
            LOG.warn("Closing {} open iterators for store {}", left.size(), name());
            left.forEach(Range::close);
        }
        super.close();
    }

    /** The pairs of a range. A closed one throws. */
    private final class Range implements KeyValueIterator<Bytes, byte[]> {
        private final Pairs pairs;
        private volatile boolean isClosed;

        Range(Pairs pairs) {
            this.pairs = pairs;
        }

        @Override
        public synchronized boolean hasNext() {
            if (isClosed) {
                throw new InvalidStateStoreException("The iterator of store " + name() + " was closed");
            }
            return result(pairs::hasNext);
        }

        @Override
        public synchronized Bytes peekNextKey() {
            if (!hasNext()) {
                throw new NoSuchElementException();
            }
            return Bytes.wrap(pairs.key());
        }

        @Override
        public synchronized KeyValue<Bytes, byte[]> next() {
            if (!hasNext()) {
                throw new NoSuchElementException();
            }
            KeyValue<Bytes, byte[]> next = KeyValue.pair(Bytes.wrap(pairs.key()), pairs.value());
            pairs.skip();
            return next;
        }

        @Override
        public synchronized void close() {
            open.remove(this);
            isClosed = true;
            pairs.close();
        }
    }
}
