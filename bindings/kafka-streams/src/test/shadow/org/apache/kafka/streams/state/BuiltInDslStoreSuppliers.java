package org.apache.kafka.streams.state;

import dev.esker.kafka.streams.EskerDslStoreSuppliers;

/**
 * In the place of Kafka's class of this name, for Kafka's own tests alone: what they keep in RocksDB by
 * default is in Esker.
 */
public class BuiltInDslStoreSuppliers {
    public static final DslStoreSuppliers ROCKS_DB = new RocksDBDslStoreSuppliers();
    public static final DslStoreSuppliers IN_MEMORY = new InMemoryDslStoreSuppliers();

    public static class RocksDBDslStoreSuppliers extends EskerDslStoreSuppliers {}

    public static class InMemoryDslStoreSuppliers implements DslStoreSuppliers {
        @Override
        public KeyValueBytesStoreSupplier keyValueStore(DslKeyValueParams params) {
            return Stores.inMemoryKeyValueStore(params.name());
        }

        @Override
        public WindowBytesStoreSupplier windowStore(DslWindowParams params) {
            return Stores.inMemoryWindowStore(params.name(), params.retentionPeriod(), params.windowSize(),
                    params.retainDuplicates());
        }

        @Override
        public SessionBytesStoreSupplier sessionStore(DslSessionParams params) {
            return Stores.inMemorySessionStore(params.name(), params.retentionPeriod());
        }
    }
}
