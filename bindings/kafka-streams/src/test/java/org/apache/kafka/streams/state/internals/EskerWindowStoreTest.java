package org.apache.kafka.streams.state.internals;

import static java.time.Duration.ofMillis;

import dev.esker.kafka.streams.EskerStores;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/** Kafka's tests of window stores on Esker. In Kafka's package, because its methods are. */
public class EskerWindowStoreTest extends AbstractWindowBytesStoreTest {
    /** Some tests open a second store in the directory of the first. */
    private int stores;

    @Override
    <K, V> WindowStore<K, V> buildWindowStore(long retentionMs, long windowMs, boolean retainDuplicates,
            Serde<K> keys, Serde<V> values) {
        return Stores.windowStoreBuilder(EskerStores.persistentWindowStore("window-store-" + ++stores, ofMillis(retentionMs),
                ofMillis(windowMs), retainDuplicates), keys, values).build();
    }
}
