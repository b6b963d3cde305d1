package dev.esker.kafka.streams;

/** The numbers of a window store. Times are in milliseconds. */
record WindowShape(String name, long retentionMs, long windowMs, boolean retainDuplicates, boolean isTimeFirst) {
    private static final long SEGMENT_MS_MIN = 60_000;

    WindowShape {
        if (retentionMs < 0) {
            throw new IllegalArgumentException("retentionPeriod cannot be negative");
        }
        if (windowMs < 0) {
            throw new IllegalArgumentException("windowSize cannot be negative");
        }
        if (windowMs > retentionMs) {
            throw new IllegalArgumentException("The retention period of the window store " + name
                    + " must be no smaller than its window size. Got size=[" + windowMs + "], retention=["
                    + retentionMs + "]");
        }
    }

    long segmentMs() {
        return segmentMs(retentionMs);
    }

    /** Returns the length of a segment: the part of the retention that is deleted at once. */
    static long segmentMs(long retentionMs) {
        return Math.max(retentionMs / 2, SEGMENT_MS_MIN);
    }
}
