package dev.esker.ycsb;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import org.HdrHistogram.ConcurrentHistogram;
import org.HdrHistogram.Histogram;

/** The operations of a phase: their latencies by kind, and how many ended in each tenth of a second of an hour. */
final class Calls {
    private static final String READ_MODIFY_WRITE = "READ-MODIFY-WRITE";
    private static final int TENTHS_MAX = 36_000;
    private static final long NANOS_OF_TENTH = 100_000_000;

    private final long began = System.nanoTime();
    private final AtomicLongArray tenths = new AtomicLongArray(TENTHS_MAX);
    private final Map<String, Kind> kinds = new TreeMap<>();

    /** Whether the calls of this thread are parts of one operation. */
    private final ThreadLocal<Boolean> isPart = ThreadLocal.withInitial(() -> false);

    private static final class Kind {
        final ConcurrentHistogram nanos = new ConcurrentHistogram(3);
        final AtomicLong good = new AtomicLong();
        final AtomicLong failed = new AtomicLong();
        final AtomicLong parts = new AtomicLong();
    }

    Calls() {
        for (String kind : List.of("READ", "UPDATE", "INSERT", "SCAN", READ_MODIFY_WRITE)) {
            kinds.put(kind, new Kind());
        }
    }

    /** Counts a call that ends now. A part of an operation is not timed by itself. */
    void add(String kind, long begun, boolean isGood, boolean isFailed) {
        long now = System.nanoTime();
        Kind own = kinds.get(kind);
        if (isGood) {
            own.good.incrementAndGet();
        }
        if (isFailed) {
            own.failed.incrementAndGet();
        }
        if (isPart.get()) {
            own.parts.incrementAndGet();
            return;
        }
        own.nanos.recordValue(now - begun);
        long tenth = (now - began) / NANOS_OF_TENTH;
        if (tenth < TENTHS_MAX) {
            tenths.incrementAndGet((int) tenth);
        }
    }

    /** Runs a read and the write that follows from it as one operation. */
    void readModifyWrite(Runnable both) {
        long begun = System.nanoTime();
        isPart.set(true);
        try {
            both.run();
        } finally {
            isPart.set(false);
        }
        add(READ_MODIFY_WRITE, begun, true, false);
    }

    double seconds() {
        return (System.nanoTime() - began) / 1e9;
    }

    long good(String kind) {
        return kinds.get(kind).good.get();
    }

    long count(String kind) {
        return kinds.get(kind).nanos.getTotalCount() + kinds.get(kind).parts.get();
    }

    long failed() {
        return kinds.values().stream().mapToLong(kind -> kind.failed.get()).sum();
    }

    Map<String, Object> latency() {
        Histogram all = new Histogram(3);
        kinds.values().forEach(kind -> all.add(kind.nanos));
        return summary(all);
    }

    List<Map<String, Object>> byKind() {
        List<Map<String, Object>> all = new ArrayList<>();
        kinds.forEach((name, kind) -> {
            if (kind.nanos.getTotalCount() > 0) {
                Map<String, Object> own = new LinkedHashMap<>();
                own.put("kind", name);
                own.put("ok", kind.good.get());
                own.put("latency", summary(kind.nanos));
                all.add(own);
            }
        });
        return all;
    }

    /** Returns the operations that ended in each tenth of a second, up to the last one with any. */
    List<Long> tenths() {
        int end = TENTHS_MAX;
        while (end > 0 && tenths.get(end - 1) == 0) {
            end--;
        }
        List<Long> counts = new ArrayList<>();
        for (int at = 0; at < end; at++) {
            counts.add(tenths.get(at));
        }
        return counts;
    }

    private static Map<String, Object> summary(Histogram nanos) {
        Map<String, Object> summary = new LinkedHashMap<>();
        summary.put("count", nanos.getTotalCount());
        summary.put("mean_micros", nanos.getMean() / 1e3);
        summary.put("deviation_micros", nanos.getStdDeviation() / 1e3);
        summary.put("min_micros", nanos.getMinValue() / 1e3);
        String[] names = {"p50", "p90", "p95", "p99", "p999", "p9999"};
        double[] percents = {50, 90, 95, 99, 99.9, 99.99};
        for (int at = 0; at < names.length; at++) {
            summary.put(names[at] + "_micros", nanos.getValueAtPercentile(percents[at]) / 1e3);
        }
        summary.put("max_micros", nanos.getMaxValue() / 1e3);
        return summary;
    }
}
