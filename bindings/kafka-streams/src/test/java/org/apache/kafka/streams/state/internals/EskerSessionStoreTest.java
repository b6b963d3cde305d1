package org.apache.kafka.streams.state.internals;

import static java.time.Duration.ofMillis;

import dev.esker.kafka.streams.EskerStores;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;

/** Kafka's tests of session stores on Esker. In Kafka's package, because its methods are. */
public class EskerSessionStoreTest extends AbstractSessionBytesStoreTest {
    /** Some tests open a second store in the directory of the first. */
    private int stores;

    @Override
    <K, V> SessionStore<K, V> buildSessionStore(long retentionMs, Serde<K> keys, Serde<V> values) {
        return Stores.sessionStoreBuilder(EskerStores.persistentSessionStore("session-store-" + ++stores, ofMillis(retentionMs)),
                keys, values).build();
    }

    @Override
    StoreType storeType() {
        return StoreType.RocksDBSessionStore;
    }
}
