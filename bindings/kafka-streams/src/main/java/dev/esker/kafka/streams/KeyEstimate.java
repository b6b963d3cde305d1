package dev.esker.kafka.streams;

/** An estimate of the number of keys: exact for a small store, else by the size of the first pairs. */
final class KeyEstimate {
    private static final int COUNTED_MAX = 1000;

    private KeyEstimate() {}

    static long of(Space space, long memtableBytes, long tableBytes) {
        long count = 0;
        long bytes = 0;
        try (Pairs pairs = space.range(null, null, true, true)) {
            while (pairs.hasNext()) {
                if (count == COUNTED_MAX) {
                    return Math.max(count, (memtableBytes + tableBytes) * count / Math.max(bytes, 1));
                }
                count++;
                bytes += pairs.key().length + pairs.value().length;
                pairs.skip();
            }
        }
        return count;
    }
}
