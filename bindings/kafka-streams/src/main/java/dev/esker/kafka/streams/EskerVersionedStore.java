package dev.esker.kafka.streams;

import java.nio.ByteBuffer;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Objects;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.internals.ChangelogRecordDeserializationHelper;
import org.apache.kafka.streams.processor.internals.metrics.StreamsMetricsImpl;
import org.apache.kafka.streams.processor.internals.metrics.TaskMetrics;
import org.apache.kafka.streams.query.MultiVersionedKeyQuery;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.query.ResultOrder;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.VersionedRecordIterator;
import org.apache.kafka.streams.state.internals.StoreQueryUtils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A store that keeps old versions of values for the history retention.
 *
 * <p>A version is a pair: a byte 0, the length of the key, the key, and the time from which the version
 * is valid; its value is a byte 1 and the value, or a byte 0 for a deletion. It is valid until the next
 * version. For each version that will expire there is an entry of an index by the time at which it
 * ends: a byte 1, the time, and the place of the version. Expired versions are found there.
 */
public class EskerVersionedStore extends EskerStateStore implements VersionedKeyValueStore<Bytes, byte[]> {
    private static final Logger LOG = LoggerFactory.getLogger(EskerVersionedStore.class);
    private static final byte VERSION = 0;
    private static final byte END = 1;
    /** A history is cleaned in this number of steps. */
    private static final long STEPS = 16;

    private final long historyMs;
    private final long stepMs;
    private long streamTime = ConsumerRecord.NO_TIMESTAMP;
    private long cleanedUntil = Long.MIN_VALUE;
    private Sensor dropped;

    /**
     * Creates a closed store.
     *
     * @param name the name of the store
     * @param historyMs the history retention, in milliseconds
     */
    protected EskerVersionedStore(String name, long historyMs) {
        super(name, "esker");
        this.historyMs = historyMs;
        stepMs = Math.max(historyMs / STEPS, 1);
    }

    /** A version: the time from which it is valid, and its value; null if it is a deletion. */
    private record Version(long time, byte[] value) {}

    @Override
    public void init(StateStoreContext context, StateStore root) {
        if (context.metrics() instanceof StreamsMetricsImpl metrics) {
            dropped = TaskMetrics.droppedRecordsSensor(Thread.currentThread().getName(),
                    context.taskId().toString(), metrics);
        }
        open(context);
        register(root, this::restore);
    }

    /**
     * Applies records of the changelog.
     *
     * @param records the records, in their order
     */
    protected final void restore(Collection<ConsumerRecord<byte[], byte[]>> records) {
        synchronized (position) {
            call(space::collect);
            ConsumerRecord<byte[], byte[]> last = null;
            for (ConsumerRecord<byte[], byte[]> record : records) {
                last = record;
                if (record.timestamp() >= streamTime - historyMs) {
                    streamTime = Math.max(streamTime, record.timestamp());
                    ChangelogRecordDeserializationHelper.applyChecksAndUpdatePosition(record, isConsistent, position);
                    call(() -> write(Bytes.wrap(record.key()), record.value(), record.timestamp()));
                }
            }
            TopicPartition partition = last == null ? null : new TopicPartition(last.topic(), last.partition());
            long offset = last == null ? 0 : last.offset();
            call(() -> space.restoreCollected(partition, offset));
        }
    }

    @Override
    public long put(Bytes key, byte[] value, long time) {
        Objects.requireNonNull(key, "key cannot be null");
        checkOpen();
        synchronized (position) {
            StoreQueryUtils.updatePosition(position, context);
            if (isExpired(time)) {
                LOG.warn("Skipping record for expired put.");
                return PUT_RETURN_CODE_NOT_PUT;
            }
            streamTime = Math.max(streamTime, time);
            return result(() -> write(key, value, time));
        }
    }

    @Override
    public VersionedRecord<byte[]> delete(Bytes key, long time) {
        Objects.requireNonNull(key, "key cannot be null");
        checkOpen();
        synchronized (position) {
            if (isExpired(time)) {
                LOG.warn("Skipping record for expired delete.");
                return null;
            }
            VersionedRecord<byte[]> before = get(key, time);
            streamTime = Math.max(streamTime, time);
            call(() -> write(key, null, time));
            StoreQueryUtils.updatePosition(position, context);
            return before;
        }
    }

    private boolean isExpired(long time) {
        if (time >= streamTime - historyMs) {
            return false;
        }
        if (dropped != null) {
            dropped.record(1.0, System.currentTimeMillis());
        }
        return true;
    }

    /** Writes a version, and returns the time at which it ends. */
    private long write(Bytes key, byte[] value, long time) {
        Version before = before(key, time - 1);
        Version after = after(key, time);
        byte[] place = place(key, time);
        byte[] stored = value == null ? new byte[] {0} : ByteBuffer.allocate(1 + value.length).put((byte) 1).put(value).array();
        space.put(place, stored);
        if (before != null) {
            space.put(end(time, place(key, before.time())), new byte[0]);
        }
        if (after != null) {
            space.put(end(after.time(), place), new byte[0]);
        } else if (value == null) {
            space.put(end(time, place), new byte[0]);
        }
        deleteExpired();
        return after == null ? PUT_RETURN_CODE_VALID_TO_UNDEFINED : after.time();
    }

    /** Deletes versions that ended before the history, in steps of it. */
    private void deleteExpired() {
        long until = streamTime - historyMs;
        if (until <= 0 || cleanedUntil != Long.MIN_VALUE && until - cleanedUntil < stepMs) {
            return;
        }
        cleanedUntil = until;
        byte[] from = {END};
        byte[] to = end(until, new byte[0]);
        List<byte[]> ended = new ArrayList<>();
        try (Pairs ends = space.range(from, to, false, true)) {
            while (ends.hasNext()) {
                ended.add(Arrays.copyOfRange(ends.key(), 1 + Long.BYTES, ends.key().length));
                ends.skip();
            }
        }
        for (byte[] place : ended) {
            Bytes key = keyOf(place);
            Version after = after(key, timeOf(place));
            byte[] stored = space.get(place);
            boolean isLastDeletion = after == null && stored != null && stored[0] == 0;
            if (after != null && after.time() < until || isLastDeletion) {
                space.put(place, null);
            }
        }
        space.expire(from, to);
    }

    private static byte[] place(Bytes key, long time) {
        byte[] bytes = key.get();
        return ByteBuffer.allocate(1 + Integer.BYTES + bytes.length + Long.BYTES).put(VERSION).putInt(bytes.length)
                .put(bytes).putLong(time ^ Long.MIN_VALUE).array();
    }

    private static byte[] end(long time, byte[] place) {
        return ByteBuffer.allocate(1 + Long.BYTES + place.length).put(END).putLong(time ^ Long.MIN_VALUE).put(place)
                .array();
    }

    private static Bytes keyOf(byte[] place) {
        return Bytes.wrap(Arrays.copyOfRange(place, 1 + Integer.BYTES, place.length - Long.BYTES));
    }

    private static long timeOf(byte[] place) {
        return ByteBuffer.wrap(place).getLong(place.length - Long.BYTES) ^ Long.MIN_VALUE;
    }

    /** Returns the last version that is valid from {@code time} or earlier; null if there is none. */
    private Version before(Bytes key, long time) {
        try (Pairs pairs = space.range(place(key, Long.MIN_VALUE), place(key, time), true, false)) {
            return pairs.hasNext() ? version(pairs) : null;
        }
    }

    /** Returns the first version that is valid from later than {@code time}; null if there is none. */
    private Version after(Bytes key, long time) {
        if (time == Long.MAX_VALUE) {
            return null;
        }
        try (Pairs pairs = space.range(place(key, time + 1), place(key, Long.MAX_VALUE), true, true)) {
            return pairs.hasNext() ? version(pairs) : null;
        }
    }

    private static Version version(Pairs pairs) {
        byte[] stored = pairs.value();
        return new Version(timeOf(pairs.key()), stored[0] == 0 ? null : Arrays.copyOfRange(stored, 1, stored.length));
    }

    @Override
    public VersionedRecord<byte[]> get(Bytes key) {
        Objects.requireNonNull(key, "key cannot be null");
        checkOpen();
        Version last = result(() -> before(key, Long.MAX_VALUE));
        return last == null || last.value() == null ? null : new VersionedRecord<>(last.value(), last.time());
    }

    @Override
    public VersionedRecord<byte[]> get(Bytes key, long asOf) {
        Objects.requireNonNull(key, "key cannot be null");
        checkOpen();
        Version found = result(() -> before(key, asOf));
        Version after = found == null ? null : result(() -> after(key, found.time()));
        if (asOf < streamTime - historyMs && (found == null || after != null)) {
            LOG.warn("Returning null for expired get.");
            return null;
        }
        return found == null || found.value() == null ? null : recordOf(found, after);
    }

    private static VersionedRecord<byte[]> recordOf(Version version, Version after) {
        return after == null
                ? new VersionedRecord<>(version.value(), version.time())
                : new VersionedRecord<>(version.value(), version.time(), after.time());
    }

    /**
     * Returns the versions of a key that are valid at some time of a range.
     *
     * @param key the key
     * @param from the start of the range
     * @param to the end of the range
     * @param order the order of the result
     * @return the versions
     */
    protected final VersionedRecordIterator<byte[]> versions(Bytes key, long from, long to, ResultOrder order) {
        checkOpen();
        return result(() -> {
            List<VersionedRecord<byte[]>> found = new ArrayList<>();
            Version after = after(key, to);
            boolean isOld = to < streamTime - historyMs;
            try (Pairs pairs = space.range(place(key, Long.MIN_VALUE), place(key, to), true, false)) {
                while (pairs.hasNext()) {
                    Version version = version(pairs);
                    boolean hasEnded = after != null && (after.time() <= from || after.time() < streamTime - historyMs);
                    if (hasEnded || isOld && after != null) {
                        break;
                    }
                    if (version.value() != null) {
                        found.add(recordOf(version, after));
                    }
                    after = version;
                    pairs.skip();
                }
            }
            if (order == ResultOrder.ASCENDING) {
                Collections.reverse(found);
            }
            return new Versions(found.iterator());
        });
    }

    private record Versions(Iterator<VersionedRecord<byte[]>> found) implements VersionedRecordIterator<byte[]> {
        @Override
        public boolean hasNext() {
            return found.hasNext();
        }

        @Override
        public VersionedRecord<byte[]> next() {
            return found.next();
        }

        @Override
        public void close() {}
    }

    @Override
    @SuppressWarnings("unchecked")
    public <R> QueryResult<R> query(Query<R> query, PositionBound bound, QueryConfig config) {
        if (!(query instanceof MultiVersionedKeyQuery<?, ?> of)) {
            return super.query(query, bound, config);
        }
        long began = System.nanoTime();
        QueryResult<R> answer;
        if (StoreQueryUtils.isPermitted(position, bound, context.taskId().partition())) {
            long from = of.fromTime().map(Instant::toEpochMilli).orElse(Long.MIN_VALUE);
            long to = of.toTime().map(Instant::toEpochMilli).orElse(Long.MAX_VALUE);
            answer = (QueryResult<R>) QueryResult.forResult(versions((Bytes) of.key(), from, to, of.resultOrder()));
        } else {
            answer = QueryResult.notUpToBound(position, bound, context.taskId().partition());
        }
        if (config.isCollectExecutionInfo()) {
            answer.addExecutionInfo("Handled in " + getClass() + " in " + (System.nanoTime() - began) + "ns");
        }
        answer.setPosition(position.copy());
        return answer;
    }
}
