package dev.esker.kafka.streams;

import java.util.Objects;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.internals.SessionKeySchema;

/** A session store, in the order of keys or of time. */
class EskerSessionStore extends EskerSegmentedStore implements SessionStore<Bytes, byte[]> {
    EskerSessionStore(String name, long retentionMs, boolean isTimeFirst) {
        super(name, "esker-session", new Schema(true, isTimeFirst), retentionMs, WindowShape.segmentMs(retentionMs));
    }

    @Override
    public void put(Windowed<Bytes> session, byte[] aggregate) {
        put(SessionKeySchema.toBinary(session), aggregate);
    }

    @Override
    public void remove(Windowed<Bytes> session) {
        remove(SessionKeySchema.toBinary(session));
    }

    @Override
    public byte[] fetchSession(Bytes key, long start, long end) {
        Objects.requireNonNull(key, "key cannot be null");
        return get(SessionKeySchema.toBinary(key, start, end));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(long earliestEnd, long latestEnd) {
        if (!schema.isTimeFirst()) {
            throw new UnsupportedOperationException(
                    "This API is not supported by this implementation of SessionStore.");
        }
        return sessions(endingBetween(earliestEnd, latestEnd));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(Bytes key, long earliestEnd, long latestStart) {
        Objects.requireNonNull(key, "key cannot be null");
        return sessions(fetch(key, key, earliestEnd, latestStart, true));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFindSessions(Bytes key, long earliestEnd,
            long latestStart) {
        Objects.requireNonNull(key, "key cannot be null");
        return sessions(fetch(key, key, earliestEnd, latestStart, false));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(Bytes keyFrom, Bytes keyTo, long earliestEnd,
            long latestStart) {
        return sessions(fetch(keyFrom, keyTo, earliestEnd, latestStart, true));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFindSessions(Bytes keyFrom, Bytes keyTo,
            long earliestEnd, long latestStart) {
        return sessions(fetch(keyFrom, keyTo, earliestEnd, latestStart, false));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes key) {
        return findSessions(key, 0, Long.MAX_VALUE);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(Bytes key) {
        return backwardFindSessions(key, 0, Long.MAX_VALUE);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes keyFrom, Bytes keyTo) {
        return findSessions(keyFrom, keyTo, 0, Long.MAX_VALUE);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(Bytes keyFrom, Bytes keyTo) {
        return backwardFindSessions(keyFrom, keyTo, 0, Long.MAX_VALUE);
    }

    private static KeyValueIterator<Windowed<Bytes>, byte[]> sessions(KeyValueIterator<Bytes, byte[]> pairs) {
        return new EskerWindowStore.MappedIterator<>(pairs, SessionKeySchema::from);
    }
}
