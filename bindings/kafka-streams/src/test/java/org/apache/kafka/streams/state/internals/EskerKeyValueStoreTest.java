package org.apache.kafka.streams.state.internals;

import dev.esker.kafka.streams.EskerStores;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/** Kafka's tests of key-value stores on Esker. In Kafka's package, because its methods are. */
public class EskerKeyValueStoreTest extends AbstractKeyValueStoreTest {
    @Override
    @SuppressWarnings("unchecked")
    protected <K, V> KeyValueStore<K, V> createKeyValueStore(StateStoreContext context) {
        KeyValueStore<K, V> store = Stores.keyValueStoreBuilder(EskerStores.persistentKeyValueStore("my-store"),
                (Serde<K>) context.keySerde(), (Serde<V>) context.valueSerde()).build();
        store.init(context, store);
        return store;
    }
}
