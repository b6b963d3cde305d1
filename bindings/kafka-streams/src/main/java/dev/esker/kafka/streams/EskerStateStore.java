package dev.esker.kafka.streams;

import dev.esker.EskerException;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.internals.RecordBatchingStateRestoreCallback;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.state.internals.StoreQueryUtils;

/** What all stores have in common: opening, committing, closing, offsets, Position and queries. */
abstract class EskerStateStore implements StateStore {
    private final String name;
    private final String metricsScope;
    volatile Space space;
    StateStoreContext context;
    Position position = Position.emptyPosition();
    boolean isConsistent;

    EskerStateStore(String name, String metricsScope) {
        this.name = name;
        this.metricsScope = metricsScope;
    }

    @Override
    public String name() {
        return name;
    }

    /** Opens the store below the directory of the task. */
    final void open(StateStoreContext opening) {
        context = opening;
        space = Space.open(name, opening);
        position = space.position();
        StoreQueryUtils.maybeMigrateExistingPositionFile(opening.stateDir(), name, position);
        isConsistent = Boolean.TRUE.equals(opening.appConfigs().get("__iq.consistency.offset.vector.enabled__"));
        StoreMetrics.register(this, metricsScope);
    }

    /** Opens a closed store for a restore. */
    final void reopen() {
        space = Space.open(name, context);
        space.position().merge(position);
        position = space.position();
    }

    final void register(StateStore root, RecordBatchingStateRestoreCallback restore) {
        if (root != null) {
            context.register(root, restore, () -> { });
        }
    }

    /** Writes restored pairs with the offset of their last record. */
    final void restored(Map<byte[], byte[]> pairs, ConsumerRecord<byte[], byte[]> last) {
        if (last != null) {
            TopicPartition partition = new TopicPartition(last.topic(), last.partition());
            call(() -> space.restore(pairs, partition, last.offset()));
        }
    }

    @Override
    public void commit(Map<TopicPartition, Long> offsets) {
        Space now = space;
        if (now != null && now.isOpen()) {
            call(() -> now.commit(offsets));
        }
    }

    @Override
    public boolean managesOffsets() {
        return true;
    }

    @Override
    public Long committedOffset(TopicPartition partition) {
        checkOpen();
        return result(() -> space.committedOffset(partition));
    }

    @Override
    public void close() {
        Space now = space;
        if (now != null) {
            call(now::close);
        }
    }

    @Override
    public boolean persistent() {
        return true;
    }

    @Override
    public boolean isOpen() {
        Space now = space;
        return now != null && now.isOpen();
    }

    @Override
    public <R> QueryResult<R> query(Query<R> query, PositionBound bound, QueryConfig config) {
        return StoreQueryUtils.handleBasicQueries(query, bound, config, this, position, context);
    }

    @Override
    public Position getPosition() {
        return position;
    }

    /** Returns about how many keys there are. */
    final long estimateKeys() {
        Map<String, Long> metrics = space.db().metrics();
        long memory = metrics.get("esker_memory_active_memtable_bytes")
                + metrics.get("esker_memory_frozen_memtables_bytes");
        return KeyEstimate.of(space, memory, metrics.get("esker_table_bytes"));
    }

    final void checkOpen() {
        if (!isOpen()) {
            throw new InvalidStateStoreException("Store " + name + " is currently closed");
        }
    }

    /** Calls Esker, and turns its exceptions into Kafka's. */
    final void call(Runnable body) {
        result(() -> {
            body.run();
            return null;
        });
    }

    /** Calls Esker, and turns its exceptions into Kafka's. */
    final <R> R result(Supplier<R> body) {
        try {
            return body.get();
        } catch (EskerException failed) {
            if (failed.kind() == dev.esker.ErrorKind.CLOSED) {
                throw new InvalidStateStoreException("Store " + name + " is currently closed", failed);
            }
            throw new ProcessorStateException("Error in store " + name + ": " + failed.getMessage(), failed);
        }
    }
}
