package dev.esker;

/**
 * Threads, memory and background input and output that several stores share. Stores with the same
 * runtime ({@link Options#runtime}) have one memory budget, one block cache and one set of worker
 * threads, whatever their number. A runtime may be closed before its stores.
 */
public final class Runtime implements AutoCloseable {
    private final Resource resource;

    private Runtime(Builder builder) {
        long handle = Native.runtime(null, builder.memoryBytes, builder.cacheBytes, builder.threadsMax,
                builder.bytesPerSecond);
        resource = Resource.of(this, "runtime", handle, last -> Native.freeRuntime(null, last));
    }

    /**
     * Begins the options of a runtime.
     *
     * @return a builder with the defaults
     */
    public static Builder builder() {
        return new Builder();
    }

    /** Options of a runtime. */
    public static final class Builder {
        private long memoryBytes = -1;
        private long cacheBytes = -1;
        private long threadsMax = -1;
        private long bytesPerSecond;

        private Builder() {}

        /**
         * Sets the budget of memtables, cache, filters and indexes of all stores together.
         *
         * @param bytes 1 MiB to 1 TiB; by default a quarter of the memory, at most 1 GiB
         * @return this builder
         */
        public Builder memoryBytes(long bytes) {
            memoryBytes = bytes;
            return this;
        }

        /**
         * Sets the maximum size of the block cache.
         *
         * @param bytes 0 to the budget; by default half of it
         * @return this builder
         */
        public Builder cacheBytes(long bytes) {
            cacheBytes = bytes;
            return this;
        }

        /**
         * Sets the maximum number of worker threads.
         *
         * @param threads 3 to 256; by default the number of cores plus one, at least three
         * @return this builder
         */
        public Builder threadsMax(int threads) {
            threadsMax = threads;
            return this;
        }

        /**
         * Limits what flushes and compactions of all stores write.
         *
         * @param bytes bytes in a second, at least 64 KiB; 0, the default, is no limit
         * @return this builder
         */
        public Builder backgroundBytesPerSecond(long bytes) {
            bytesPerSecond = bytes;
            return this;
        }

        /**
         * Creates the runtime.
         *
         * @return a new runtime
         * @throws EskerException {@code INVALID_ARGUMENT} for a number out of its range
         */
        public Runtime build() {
            return new Runtime(this);
        }
    }

    /**
     * What the stores of a runtime use at a moment. All sizes are in bytes.
     *
     * @param stores number of open stores
     * @param threads number of worker threads that run
     * @param budgetBytes the budget
     * @param memtableBytes memtables
     * @param memtableLimitBytes size of memtables at which writers wait
     * @param tablesBytes indexes and filters of open tables
     * @param cacheBytes blocks in the cache
     * @param cacheCapacityBytes current capacity of the cache
     * @param backgroundBytes what flushes and compactions have written
     */
    public record Metrics(long stores, long threads, long budgetBytes, long memtableBytes,
            long memtableLimitBytes, long tablesBytes, long cacheBytes, long cacheCapacityBytes,
            long backgroundBytes) {}

    /**
     * Returns what the stores use now.
     *
     * @return the numbers
     */
    public synchronized Metrics metrics() {
        long[] n = Native.runtimeMetrics(this, resource.handle());
        return new Metrics(n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8]);
    }

    synchronized long handle() {
        return resource.handle();
    }

    /** Releases the runtime. It lives on as long as a store that was opened with it. */
    @Override
    public synchronized void close() {
        resource.free();
    }
}
