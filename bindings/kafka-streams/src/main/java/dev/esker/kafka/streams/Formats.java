package dev.esker.kafka.streams;

import org.apache.kafka.streams.state.HeadersBytesStore;
import org.apache.kafka.streams.state.TimestampedBytesStore;

/** The stores with the marks by which Kafka knows the format of their values. */
final class Formats {
    private Formats() {}

    static final class TimestampedKeyValue extends EskerKeyValueStore implements TimestampedBytesStore {
        TimestampedKeyValue(String name) {
            super(name);
        }
    }

    static final class HeadersKeyValue extends EskerKeyValueStore implements HeadersBytesStore {
        HeadersKeyValue(String name) {
            super(name);
        }
    }

    static final class TimestampedWindow extends EskerWindowStore implements TimestampedBytesStore {
        TimestampedWindow(WindowShape shape) {
            super(shape);
        }
    }

    static final class HeadersWindow extends EskerWindowStore implements TimestampedBytesStore, HeadersBytesStore {
        HeadersWindow(WindowShape shape) {
            super(shape);
        }
    }

    static final class HeadersSession extends EskerSessionStore implements HeadersBytesStore {
        HeadersSession(String name, long retentionMs, boolean isTimeFirst) {
            super(name, retentionMs, isTimeFirst);
        }
    }
}
