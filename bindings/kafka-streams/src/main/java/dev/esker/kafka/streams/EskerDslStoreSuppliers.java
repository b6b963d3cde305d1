package dev.esker.kafka.streams;

import org.apache.kafka.streams.DslStoreFormat;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.state.DslKeyValueParams;
import org.apache.kafka.streams.state.DslSessionParams;
import org.apache.kafka.streams.state.DslStoreSuppliers;
import org.apache.kafka.streams.state.DslWindowParams;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;

/**
 * Makes the DSL keep its state in Esker. Choose it by the property {@code dsl.store.suppliers.class},
 * or for one operator by {@code Materialized.withStoreType}.
 */
public class EskerDslStoreSuppliers implements DslStoreSuppliers {
    /** Creates it; Kafka calls this. */
    public EskerDslStoreSuppliers() {}

    @Override
    public KeyValueBytesStoreSupplier keyValueStore(DslKeyValueParams params) {
        return switch (params.dslStoreFormat()) {
            case HEADERS -> EskerStores.persistentTimestampedKeyValueStoreWithHeaders(params.name());
            case TIMESTAMPED -> EskerStores.persistentTimestampedKeyValueStore(params.name());
            default -> EskerStores.persistentKeyValueStore(params.name());
        };
    }

    @Override
    public WindowBytesStoreSupplier windowStore(DslWindowParams params) {
        DslStoreFormat format = params.dslStoreFormat();
        boolean isTimeFirst = params.emitStrategy().type() == EmitStrategy.StrategyType.ON_WINDOW_CLOSE;
        WindowShape shape = EskerStores.shape(params.name(), params.retentionPeriod(), params.windowSize(),
                params.retainDuplicates(), isTimeFirst);
        if (format == DslStoreFormat.HEADERS) {
            return new Suppliers.WindowWithHeaders(shape);
        }
        if (format == DslStoreFormat.PLAIN && !isTimeFirst) {
            return new Suppliers.Window(shape, EskerWindowStore::new);
        }
        return new Suppliers.Window(shape, Formats.TimestampedWindow::new);
    }

    @Override
    public SessionBytesStoreSupplier sessionStore(DslSessionParams params) {
        boolean isTimeFirst = params.emitStrategy().type() == EmitStrategy.StrategyType.ON_WINDOW_CLOSE;
        long retentionMs = params.retentionPeriod().toMillis();
        return params.storeFormat() == DslStoreFormat.HEADERS
                ? new Suppliers.SessionWithHeaders(params.name(), retentionMs, isTimeFirst)
                : new Suppliers.Session(params.name(), retentionMs, isTimeFirst);
    }
}
