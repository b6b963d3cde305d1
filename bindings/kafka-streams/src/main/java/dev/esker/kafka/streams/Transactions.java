package dev.esker.kafka.streams;

import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.internals.InternalProcessorContext;

/**
 * Connects the producer of a stream thread with the stores that the thread writes. Under exactly-once
 * a thread has one producer, and writes its stores only between two commits of it.
 */
final class Transactions {
    private static final ThreadLocal<Set<Space>> TOUCHED = ThreadLocal.withInitial(HashSet::new);

    private Transactions() {}

    /** Returns whether the application's producers report their transactions. */
    static boolean isReported(Map<String, ?> configs) {
        Object supplier = configs.get("default.client.supplier");
        if (supplier instanceof Class<?> type) {
            return EskerClientSupplier.class.isAssignableFrom(type);
        }
        return supplier != null && supplier.toString().equals(EskerClientSupplier.class.getName());
    }

    /** Returns the changelog of a store; null if it has none or the context does not know. */
    static TopicPartition changelogOf(String store, StateStoreContext context) {
        if (context instanceof InternalProcessorContext<?, ?> internal) {
            String topic = internal.changelogFor(store);
            return topic == null ? null : new TopicPartition(topic, context.taskId().partition());
        }
        return null;
    }

    /** Notes that this thread has written a store since the last commit. */
    static void touch(Space space) {
        TOUCHED.get().add(space);
    }

    static void forget(Space space) {
        TOUCHED.get().remove(space);
    }

    /** Moves what this thread has written to its stores, with their offsets, after a commit. */
    static void committed(Map<TopicPartition, Long> offsets) {
        Set<Space> touched = TOUCHED.get();
        for (Space space : touched) {
            if (space.isOpen()) {
                space.commitOverlay(space.changelog() == null ? null : offsets.get(space.changelog()));
            }
        }
        touched.clear();
    }

    /** Drops the writes since the last commit. */
    static void aborted() {
        Set<Space> touched = TOUCHED.get();
        touched.forEach(Space::forgetOverlay);
        touched.clear();
    }
}
