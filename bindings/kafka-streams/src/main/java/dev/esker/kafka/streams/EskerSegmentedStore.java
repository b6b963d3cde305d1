package dev.esker.kafka.streams;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableSet;
import java.util.Set;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.function.Predicate;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.internals.ChangelogRecordDeserializationHelper;
import org.apache.kafka.streams.processor.internals.metrics.StreamsMetricsImpl;
import org.apache.kafka.streams.processor.internals.metrics.TaskMetrics;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.internals.StoreQueryUtils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Windows or sessions: pairs in segments of time, which are deleted as a whole when they are older than
 * the retention. All segments are in one Esker store.
 *
 * <p>A closed store is empty, and a restore opens it again. Its iterators are opened at their first
 * use and skip segments that were deleted since.
 */
abstract class EskerSegmentedStore extends EskerStateStore {
    private static final Logger LOG = LoggerFactory.getLogger(EskerSegmentedStore.class);

    final Schema schema;
    private final long retentionMs;
    private final long intervalMs;
    private final NavigableSet<Long> segments = new ConcurrentSkipListSet<>();
    private final Set<SegmentedIterator> open = Collections.synchronizedSet(new HashSet<>());
    private volatile long streamTime = ConsumerRecord.NO_TIMESTAMP;
    private Sensor dropped;
    private volatile boolean isInitialized;

    EskerSegmentedStore(String name, String scope, Schema schema, long retentionMs, long intervalMs) {
        super(name, scope);
        this.schema = schema;
        this.retentionMs = retentionMs;
        this.intervalMs = intervalMs;
    }

    @Override
    public void init(StateStoreContext context, StateStore root) {
        if (context.metrics() instanceof StreamsMetricsImpl metrics) {
            dropped = TaskMetrics.droppedRecordsSensor(Thread.currentThread().getName(),
                    context.taskId().toString(), metrics);
        }
        open(context);
        findSegments();
        isInitialized = true;
        register(root, this::restore);
    }

    /** Finds the segments of the store by a seek for each. */
    private void findSegments() {
        segments.clear();
        byte[] from = schema.segmentStart(0);
        byte[] end = schema.isTimeFirst() ? new byte[] {2} : null;
        while (true) {
            try (Pairs pairs = space.range(from, end, false, true)) {
                if (!pairs.hasNext()) {
                    return;
                }
                long segment = schema.segmentOf(pairs.key());
                segments.add(segment);
                from = schema.segmentStart(segment + 1);
            }
        }
    }

    private void restore(Collection<ConsumerRecord<byte[], byte[]>> records) {
        synchronized (position) {
            if (!space.isOpen()) {
                reopen();
                findSegments();
            }
            for (ConsumerRecord<byte[], byte[]> record : records) {
                streamTime = Math.max(streamTime, schema.time(record.key()));
            }
            Map<byte[], byte[]> pairs = new LinkedHashMap<>();
            ConsumerRecord<byte[], byte[]> last = null;
            for (ConsumerRecord<byte[], byte[]> record : records) {
                last = record;
                long segment = segmentOf(schema.time(record.key()));
                if (segment < minLiveSegment()) {
                    continue;
                }
                ChangelogRecordDeserializationHelper.applyChecksAndUpdatePosition(record, isConsistent, position);
                add(pairs, record.key(), segment, record.value());
            }
            restored(pairs, last);
            deleteExpired();
        }
    }

    private void add(Map<byte[], byte[]> pairs, byte[] key, long segment, byte[] value) {
        segments.add(segment);
        pairs.put(schema.stored(key, segment), value);
        byte[] indexed = schema.indexed(key, segment);
        if (indexed != null) {
            pairs.put(indexed, value == null ? null : new byte[0]);
        }
    }

    private long segmentOf(long time) {
        return time / intervalMs;
    }

    private long minLiveSegment() {
        return segmentOf(streamTime - retentionMs);
    }

    /** Sets the pair of a key, or deletes it if the value is null. Drops what is too old. */
    final void put(Bytes key, byte[] value) {
        byte[] bytes = key.get();
        long time = schema.time(bytes);
        streamTime = Math.max(streamTime, time);
        long segment = segmentOf(time);
        if (segment < minLiveSegment()) {
            if (dropped != null) {
                dropped.record(1.0, System.currentTimeMillis());
            }
            LOG.debug("Skipping record for expired segment.");
            return;
        }
        synchronized (position) {
            StoreQueryUtils.updatePosition(position, context);
            write(bytes, segment, value);
            deleteExpired();
        }
    }

    private void write(byte[] key, long segment, byte[] value) {
        checkOpen();
        if (!schema.isTimeFirst()) {
            segments.add(segment);
            call(() -> space.put(schema.stored(key, segment), value));
            return;
        }
        Map<byte[], byte[]> pairs = new LinkedHashMap<>();
        add(pairs, key, segment, value);
        call(() -> space.put(pairs));
    }

    /** Deletes the pair of a key, also an old one. */
    final void remove(Bytes key) {
        byte[] bytes = key.get();
        long time = schema.time(bytes);
        streamTime = Math.max(streamTime, time);
        if (segments.contains(segmentOf(time))) {
            synchronized (position) {
                write(bytes, segmentOf(time), null);
            }
        }
    }

    private void deleteExpired() {
        long live = minLiveSegment();
        if (segments.isEmpty() || segments.first() >= live) {
            return;
        }
        call(() -> {
            space.expire(schema.segmentStart(0), schema.segmentStart(live));
            if (schema.isTimeFirst()) {
                space.expire(schema.timeStart(0), schema.timeStart(live * intervalMs));
            }
        });
        segments.headSet(live).clear();
    }

    /** Returns the earliest time that a read may return. */
    private long earliest(long from) {
        boolean isInclusive = schema.isTimeFirst() && !schema.isSession();
        return Math.max(from, streamTime - retentionMs + (isInclusive ? 0 : 1));
    }

    /** Returns the value of a key; null if there is none or it is too old. */
    final byte[] get(Bytes key) {
        byte[] bytes = key.get();
        long time = schema.time(bytes);
        if (time < earliest(Long.MIN_VALUE) || !isUsable() || !segments.contains(segmentOf(time))) {
            return null;
        }
        return result(() -> space.get(schema.stored(bytes, segmentOf(time))));
    }

    private boolean isUsable() {
        Space now = space;
        return now != null && now.isOpen();
    }

    @Override
    public boolean isOpen() {
        return isInitialized && super.isOpen();
    }

    @Override
    public void close() {
        List<SegmentedIterator> left;
        synchronized (open) {
            left = new ArrayList<>(open);
        }
        left.forEach(SegmentedIterator::close);
        super.close();
    }

    /**
     * Returns the pairs of keys from {@code keyFrom} to {@code keyTo} (null is no bound): windows that
     * start from {@code from} to {@code to}, or sessions that end at {@code from} or later and start at
     * {@code to} or earlier.
     */
    final KeyValueIterator<Bytes, byte[]> fetch(Bytes keyFrom, Bytes keyTo, long from, long to, boolean forward) {
        if (keyFrom != null && keyTo != null && keyFrom.compareTo(keyTo) > 0) {
            LOG.warn("Returning empty iterator for fetch with invalid key range: from > to. "
                    + "This may be due to range arguments set in the wrong order, "
                    + "or serdes that don't preserve ordering when lexicographically comparing the serialized bytes. "
                    + "Note that the built-in numerical serdes do not follow this for negative numbers");
            return new EmptyIterator<>();
        }
        long earliest = earliest(from);
        if (!schema.isSession() && to < earliest) {
            return new EmptyIterator<>();
        }
        Predicate<byte[]> wanted = key -> (keyFrom == null || schema.compare(key, keyFrom) >= 0)
                && (keyTo == null || schema.compare(key, keyTo) <= 0)
                && schema.time(key) >= earliest
                && (schema.isSession() ? schema.start(key) : schema.time(key)) <= to;
        long latest = schema.isSession() ? Long.MAX_VALUE : to;
        boolean isOneKey = keyFrom != null && keyFrom.equals(keyTo);
        // Kafka expects windows of several keys in the order of time, but sessions in the order of keys.
        if (schema.isTimeFirst() && !schema.isSession() && !isOneKey) {
            return byTime(earliest, latest, wanted, forward);
        }
        byte[] lower = schema.lower(keyFrom, keyTo, earliest);
        byte[] upper = schema.upper(keyFrom, keyTo, to);
        return iterate(segmentsBetween(earliest, latest, forward), wanted, segment -> space.range(
                lower == null ? schema.segmentStart(segment) : Schema.concat(schema.segmentStart(segment), lower),
                upper == null ? schema.segmentStart(segment + 1) : Schema.concat(schema.segmentStart(segment), upper),
                upper != null, forward));
    }

    /** Returns the pairs of all keys in the order of time. */
    private KeyValueIterator<Bytes, byte[]> byTime(long from, long to, Predicate<byte[]> wanted, boolean forward) {
        byte[] end = to == Long.MAX_VALUE ? schema.segmentStart(0) : schema.timeStart(to + 1);
        return iterate(List.of(-1L), wanted, all -> space.range(schema.timeStart(from), end, false, forward));
    }

    /** Returns the sessions that end in a range of time, without regard to the retention. */
    final KeyValueIterator<Bytes, byte[]> endingBetween(long from, long to) {
        return byTime(from, to, key -> schema.time(key) >= from && schema.time(key) <= to, true);
    }

    private List<Long> segmentsBetween(long from, long to, boolean forward) {
        long first = segmentOf(Math.max(0, from));
        long last = segmentOf(to);
        if (first > last) {
            return List.of();
        }
        NavigableSet<Long> between = segments.subSet(first, true, last, true);
        return new ArrayList<>(forward ? between : between.descendingSet());
    }

    private KeyValueIterator<Bytes, byte[]> iterate(List<Long> within, Predicate<byte[]> wanted,
            SegmentedIterator.Opener opener) {
        if (!isUsable()) {
            return new EmptyIterator<>();
        }
        SegmentedIterator iterator = new SegmentedIterator(this, within, wanted, opener, open::remove);
        open.add(iterator);
        return iterator;
    }

    /** Returns whether a segment was not deleted since. -1 stands for all. */
    final boolean isLive(long segment) {
        return isUsable() && (segment < 0 || segments.contains(segment));
    }
}
