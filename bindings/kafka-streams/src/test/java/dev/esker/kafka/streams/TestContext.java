package dev.esker.kafka.streams;

import java.io.File;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.StreamsMetrics;
import org.apache.kafka.streams.processor.BatchingStateRestoreCallback;
import org.apache.kafka.streams.processor.CommitCallback;
import org.apache.kafka.streams.processor.StateRestoreCallback;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.api.RecordMetadata;
import org.apache.kafka.streams.processor.internals.RecordBatchingStateRestoreCallback;

/** The context of a task 0_0, without Kafka. */
final class TestContext implements StateStoreContext {
    private final File directory;
    final Map<String, Object> configs = new HashMap<>();
    RecordBatchingStateRestoreCallback restore;
    TaskId task = new TaskId(0, 0);

    TestContext(File directory) {
        this.directory = directory;
    }

    static TestContext exactlyOnce(File directory) {
        TestContext context = new TestContext(directory);
        context.configs.put("processing.guarantee", "exactly_once_v2");
        return context;
    }

    static TestContext transactional(File directory) {
        TestContext context = exactlyOnce(directory);
        context.configs.put("default.client.supplier", EskerClientSupplier.class.getName());
        return context;
    }

    @Override
    public String applicationId() {
        return "test";
    }

    @Override
    public TaskId taskId() {
        return task;
    }

    @Override
    public Optional<RecordMetadata> recordMetadata() {
        return Optional.empty();
    }

    @Override
    public Serde<?> keySerde() {
        return null;
    }

    @Override
    public Serde<?> valueSerde() {
        return null;
    }

    @Override
    public File stateDir() {
        return directory;
    }

    @Override
    public StreamsMetrics metrics() {
        return null;
    }

    @Override
    public void register(StateStore store, StateRestoreCallback callback) {
        register(store, callback, () -> { });
    }

    @Override
    public void register(StateStore store, StateRestoreCallback callback, CommitCallback commit) {
        if (!(callback instanceof BatchingStateRestoreCallback)) {
            throw new AssertionError("the restore is not batched");
        }
        restore = (RecordBatchingStateRestoreCallback) callback;
    }

    @Override
    public Map<String, Object> appConfigs() {
        return configs;
    }

    @Override
    public Map<String, Object> appConfigsWithPrefix(String prefix) {
        return Map.of();
    }
}
