package dev.esker.kafka.streams;

import java.util.Map;
import java.util.function.LongSupplier;
import org.apache.kafka.common.metrics.Sensor.RecordingLevel;
import org.apache.kafka.streams.processor.internals.metrics.StreamsMetricsImpl;

/**
 * The metrics of a store, under the names that RocksDB's stores have, in the group
 * {@code stream-state-metrics}. They are removed with the store's other metrics. A metric of a closed
 * store is 0.
 */
final class StoreMetrics {
    /** How long numbers of a store are kept, so that one reading of all metrics asks once. */
    private static final long KEPT_NS = 200_000_000;

    private final EskerStateStore store;
    private Map<String, Long> numbers = Map.of();
    private long readNs = System.nanoTime() - KEPT_NS;

    private StoreMetrics(EskerStateStore store) {
        this.store = store;
    }

    static void register(EskerStateStore store, String scope) {
        if (!(store.context.metrics() instanceof StreamsMetricsImpl metrics)) {
            return;
        }
        StoreMetrics of = new StoreMetrics(store);
        Adder adder = new Adder(metrics, store.context.taskId().toString(), scope, store.name());
        of.addRates(adder);
        of.addGauges(adder);
    }

    private record Adder(StreamsMetricsImpl metrics, String task, String scope, String store) {
        void add(String name, String description, RecordingLevel level, LongSupplier value) {
            metrics.addStoreLevelMutableMetric(task, scope, store, name, description, level,
                    (config, now) -> value.getAsLong());
        }

        void add(String name, String description, DoubleGauge value) {
            metrics.addStoreLevelMutableMetric(task, scope, store, name, description, RecordingLevel.DEBUG,
                    (config, now) -> value.at(now));
        }
    }

    private interface DoubleGauge {
        double at(long nowMs);
    }

    private void addRates(Adder adder) {
        rate(adder, "bytes-written", "bytes that the application wrote", "esker_user_bytes");
        rate(adder, "bytes-read", "bytes that the application read", this::readBytes);
        rate(adder, "memtable-bytes-flushed", "bytes that flushes wrote to tables", "esker_flush_bytes");
        rate(adder, "bytes-written-compaction", "bytes that compactions wrote", "esker_compaction_bytes");
        rate(adder, "bytes-read-compaction", "bytes that compactions read", "esker_compaction_read_bytes");
        rate(adder, "write-stall-duration", "milliseconds that writes waited", "esker_stalled_seconds");
        adder.add("block-cache-data-hit-ratio", "The part of the reads of blocks that the cache answered",
                now -> ratio(number("esker_cache_hits"), number("esker_cache_misses")));
    }

    private long readBytes() {
        Space space = store.space;
        return space == null ? 0 : space.readBytes();
    }

    private void rate(Adder adder, String name, String what, String metric) {
        rate(adder, name, what, () -> metric.endsWith("_seconds") ? number(metric) / 1000 : number(metric));
    }

    private static void rate(Adder adder, String name, String what, LongSupplier total) {
        adder.add(name + "-total", "The total number of " + what, RecordingLevel.DEBUG, total);
        adder.add(name + "-rate", "The number per second of " + what, new Rate(total));
    }

    private static double ratio(double hits, double misses) {
        return hits + misses == 0 ? 0 : hits / (hits + misses);
    }

    private void addGauges(Adder adder) {
        gauge(adder, "number-open-files", "open tables", "esker_table_files");
        gauge(adder, "size-all-mem-tables", "bytes of memtables", "esker_memory_active_memtable_bytes",
                "esker_memory_frozen_memtables_bytes", "esker_memory_pooled_bytes");
        gauge(adder, "cur-size-all-mem-tables", "bytes of memtables with data",
                "esker_memory_active_memtable_bytes", "esker_memory_frozen_memtables_bytes");
        gauge(adder, "cur-size-active-mem-table", "bytes of the active memtable",
                "esker_memory_active_memtable_bytes");
        gauge(adder, "num-immutable-mem-table", "memtables that wait for their flush", "esker_frozen_memtables");
        gauge(adder, "estimate-pending-compaction-bytes", "bytes that compactions have to do", "esker_debt_bytes");
        gauge(adder, "total-sst-files-size", "bytes of tables", "esker_table_bytes");
        gauge(adder, "live-sst-files-size", "bytes of tables", "esker_table_bytes");
        gauge(adder, "block-cache-capacity", "capacity of the block cache of the process, in bytes",
                "esker_memory_cache_capacity_bytes");
        gauge(adder, "block-cache-usage", "bytes in the block cache of the process", "esker_memory_cache_bytes");
        gauge(adder, "estimate-table-readers-mem", "bytes of indexes and filters", "esker_memory_tables_bytes");
        gauge(adder, "num-live-versions", "snapshots", "esker_snapshots");
        gauge(adder, "background-errors", "problems that scrubs found", "esker_scrub_problems");
        adder.add("estimate-num-keys", "About how many keys there are", RecordingLevel.INFO, () -> {
            try {
                return store.isOpen() ? store.estimateKeys() : 0;
            } catch (RuntimeException closed) {
                return 0;
            }
        });
    }

    private void gauge(Adder adder, String name, String what, String... metrics) {
        adder.add(name, "The number of " + what, RecordingLevel.INFO, () -> {
            long sum = 0;
            for (String metric : metrics) {
                sum += number(metric);
            }
            return sum;
        });
    }

    private synchronized long number(String metric) {
        Space space = store.space;
        if (space == null || !space.isOpen()) {
            return 0;
        }
        if (System.nanoTime() - readNs >= KEPT_NS) {
            try {
                numbers = space.db().metrics();
            } catch (dev.esker.EskerException closed) {
                return 0;
            }
            readNs = System.nanoTime();
        }
        return numbers.getOrDefault(metric, 0L);
    }

    /** The growth of a total per second, over at least a second. */
    private static final class Rate implements DoubleGauge {
        private final LongSupplier total;
        private long sinceMs = System.currentTimeMillis();
        private long since;
        private double rate;

        Rate(LongSupplier total) {
            this.total = total;
        }

        @Override
        public synchronized double at(long nowMs) {
            long now = System.currentTimeMillis();
            if (now - sinceMs >= 1000) {
                long value = total.getAsLong();
                rate = Math.max(0, value - since) * 1000.0 / (now - sinceMs);
                since = value;
                sinceMs = now;
            }
            return rate;
        }
    }
}
