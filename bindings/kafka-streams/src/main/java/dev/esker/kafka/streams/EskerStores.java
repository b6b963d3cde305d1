package dev.esker.kafka.streams;

import java.time.Duration;
import java.util.Objects;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.VersionedBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;

/**
 * Stores on Esker, with the names of Kafka's {@code Stores}: replace {@code Stores.persistent...} by
 * {@code EskerStores.persistent...}. All stores of a process share memory and threads; see
 * {@link EskerConfig}.
 */
public final class EskerStores {
    private EskerStores() {}

    /**
     * Returns a supplier of key-value stores.
     *
     * @param name the name of the store
     * @return a supplier for {@code Stores.keyValueStoreBuilder}
     */
    public static KeyValueBytesStoreSupplier persistentKeyValueStore(String name) {
        return new Suppliers.KeyValue(named(name), EskerKeyValueStore::new);
    }

    /**
     * Returns a supplier of key-value stores whose values have a timestamp.
     *
     * @param name the name of the store
     * @return a supplier for {@code Stores.timestampedKeyValueStoreBuilder}
     */
    public static KeyValueBytesStoreSupplier persistentTimestampedKeyValueStore(String name) {
        return new Suppliers.KeyValue(named(name), Formats.TimestampedKeyValue::new);
    }

    /**
     * Returns a supplier of key-value stores whose values have a timestamp and headers.
     *
     * @param name the name of the store
     * @return a supplier
     */
    public static KeyValueBytesStoreSupplier persistentTimestampedKeyValueStoreWithHeaders(String name) {
        return new Suppliers.KeyValueWithHeaders(named(name));
    }

    /**
     * Returns a supplier of key-value stores that keep old versions of values.
     *
     * @param name the name of the store
     * @param historyRetention how long a version can be read after a newer one took its place
     * @return a supplier for {@code Stores.versionedKeyValueStoreBuilder}
     */
    public static VersionedBytesStoreSupplier persistentVersionedKeyValueStore(String name,
            Duration historyRetention) {
        long ms = historyRetention.toMillis();
        if (ms < 0) {
            throw new IllegalArgumentException("historyRetention cannot be negative");
        }
        return new Suppliers.Versioned(named(name), ms);
    }

    /**
     * Returns a supplier of window stores.
     *
     * @param name the name of the store
     * @param retention how long a window is kept, at least its length
     * @param window the length of a window
     * @param retainDuplicates whether several values of a key and a window are kept
     * @return a supplier for {@code Stores.windowStoreBuilder}
     */
    public static WindowBytesStoreSupplier persistentWindowStore(String name, Duration retention, Duration window,
            boolean retainDuplicates) {
        return new Suppliers.Window(shape(name, retention, window, retainDuplicates, false), EskerWindowStore::new);
    }

    /**
     * Returns a supplier of window stores whose values have a timestamp.
     *
     * @param name the name of the store
     * @param retention how long a window is kept, at least its length
     * @param window the length of a window
     * @param retainDuplicates whether several values of a key and a window are kept
     * @return a supplier for {@code Stores.timestampedWindowStoreBuilder}
     */
    public static WindowBytesStoreSupplier persistentTimestampedWindowStore(String name, Duration retention,
            Duration window, boolean retainDuplicates) {
        return new Suppliers.Window(shape(name, retention, window, retainDuplicates, false),
                Formats.TimestampedWindow::new);
    }

    /**
     * Returns a supplier of window stores whose values have a timestamp and headers.
     *
     * @param name the name of the store
     * @param retention how long a window is kept, at least its length
     * @param window the length of a window
     * @param retainDuplicates whether several values of a key and a window are kept
     * @return a supplier
     */
    public static WindowBytesStoreSupplier persistentTimestampedWindowStoreWithHeaders(String name,
            Duration retention, Duration window, boolean retainDuplicates) {
        return new Suppliers.WindowWithHeaders(shape(name, retention, window, retainDuplicates, false));
    }

    /**
     * Returns a supplier of session stores.
     *
     * @param name the name of the store
     * @param retention how long a session is kept after its end
     * @return a supplier for {@code Stores.sessionStoreBuilder}
     */
    public static SessionBytesStoreSupplier persistentSessionStore(String name, Duration retention) {
        return new Suppliers.Session(named(name), retention.toMillis(), false);
    }

    /**
     * Returns a supplier of session stores whose aggregates have headers.
     *
     * @param name the name of the store
     * @param retention how long a session is kept after its end
     * @return a supplier
     */
    public static SessionBytesStoreSupplier persistentSessionStoreWithHeaders(String name, Duration retention) {
        return new Suppliers.SessionWithHeaders(named(name), retention.toMillis(), false);
    }

    static WindowShape shape(String name, Duration retention, Duration window, boolean retainDuplicates,
            boolean isTimeFirst) {
        return new WindowShape(named(name), retention.toMillis(), window.toMillis(), retainDuplicates, isTimeFirst);
    }

    static String named(String name) {
        return Objects.requireNonNull(name, "name cannot be null");
    }
}
