package dev.esker.kafka.streams;

import java.util.function.Function;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.HeadersBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.VersionedBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.internals.VersionedKeyValueToBytesStoreAdapter;

/** The suppliers of stores. Those of stores with headers have Kafka's mark for them. */
final class Suppliers {
    private Suppliers() {}

    static class KeyValue implements KeyValueBytesStoreSupplier {
        private final String name;
        private final Function<String, KeyValueStore<Bytes, byte[]>> maker;

        KeyValue(String name, Function<String, KeyValueStore<Bytes, byte[]>> maker) {
            this.name = name;
            this.maker = maker;
        }

        @Override
        public String name() {
            return name;
        }

        @Override
        public KeyValueStore<Bytes, byte[]> get() {
            return maker.apply(name);
        }

        @Override
        public String metricsScope() {
            return "esker";
        }
    }

    static final class KeyValueWithHeaders extends KeyValue implements HeadersBytesStoreSupplier {
        KeyValueWithHeaders(String name) {
            super(name, Formats.HeadersKeyValue::new);
        }
    }

    static class Window implements WindowBytesStoreSupplier {
        private final WindowShape shape;
        private final Function<WindowShape, WindowStore<Bytes, byte[]>> maker;

        Window(WindowShape shape, Function<WindowShape, WindowStore<Bytes, byte[]>> maker) {
            this.shape = shape;
            this.maker = maker;
        }

        @Override
        public String name() {
            return shape.name();
        }

        @Override
        public WindowStore<Bytes, byte[]> get() {
            return maker.apply(shape);
        }

        @Override
        public String metricsScope() {
            return "esker-window";
        }

        /** The order of the iterators, which the cache merges with its own entries. */
        @Override
        public long segmentIntervalMs() {
            return shape.isTimeFirst() ? 1 : shape.segmentMs();
        }

        @Override
        public long windowSize() {
            return shape.windowMs();
        }

        @Override
        public boolean retainDuplicates() {
            return shape.retainDuplicates();
        }

        @Override
        public long retentionPeriod() {
            return shape.retentionMs();
        }
    }

    static final class WindowWithHeaders extends Window implements HeadersBytesStoreSupplier {
        WindowWithHeaders(WindowShape shape) {
            super(shape, Formats.HeadersWindow::new);
        }
    }

    static class Session implements SessionBytesStoreSupplier {
        private final String name;
        private final long retentionMs;
        private final boolean isTimeFirst;

        Session(String name, long retentionMs, boolean isTimeFirst) {
            if (retentionMs < 0) {
                throw new IllegalArgumentException("retentionPeriod cannot be negative");
            }
            this.name = name;
            this.retentionMs = retentionMs;
            this.isTimeFirst = isTimeFirst;
        }

        @Override
        public String name() {
            return name;
        }

        @Override
        public SessionStore<Bytes, byte[]> get() {
            return this instanceof HeadersBytesStoreSupplier
                    ? new Formats.HeadersSession(name, retentionMs, isTimeFirst)
                    : new EskerSessionStore(name, retentionMs, isTimeFirst);
        }

        @Override
        public String metricsScope() {
            return "esker-session";
        }

        @Override
        public long segmentIntervalMs() {
            return isTimeFirst ? 1 : WindowShape.segmentMs(retentionMs);
        }

        @Override
        public long retentionPeriod() {
            return retentionMs;
        }
    }

    static final class SessionWithHeaders extends Session implements HeadersBytesStoreSupplier {
        SessionWithHeaders(String name, long retentionMs, boolean isTimeFirst) {
            super(name, retentionMs, isTimeFirst);
        }
    }

    static final class Versioned implements VersionedBytesStoreSupplier {
        private final String name;
        private final long historyMs;

        Versioned(String name, long historyMs) {
            this.name = name;
            this.historyMs = historyMs;
        }

        @Override
        public String name() {
            return name;
        }

        @Override
        public long historyRetentionMs() {
            return historyMs;
        }

        @Override
        public KeyValueStore<Bytes, byte[]> get() {
            return new VersionedKeyValueToBytesStoreAdapter(new EskerVersionedStore(name, historyMs));
        }

        @Override
        public String metricsScope() {
            return "esker";
        }
    }
}
