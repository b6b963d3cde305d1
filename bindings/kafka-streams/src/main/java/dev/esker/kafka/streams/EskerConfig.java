package dev.esker.kafka.streams;

import dev.esker.Options;
import dev.esker.Runtime;
import java.util.Map;
import org.apache.kafka.common.config.ConfigException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The configuration of the stores, from the properties of the application whose names start with
 * {@code esker.}; and the runtime that all stores of the process share.
 */
public final class EskerConfig {
    /** Memory of all stores of the process together, in bytes. The default is 256 MiB. */
    public static final String MEMORY_BYTES = "esker.memory.bytes";
    /** Maximum number of background threads of the process. The default is the cores plus one. */
    public static final String THREADS_MAX = "esker.threads.max";
    /** What follows this prefix is an option of each store, as {@code esker.option.compression}. */
    public static final String OPTION_PREFIX = "esker.option.";

    private static final String PREFIX = "esker.";
    private static final Logger LOG = LoggerFactory.getLogger(EskerConfig.class);
    private static final long MEMORY_BYTES_DEFAULT = 256L << 20;

    private static Runtime shared;
    private static long sharedBytes;
    private static int users;

    private EskerConfig() {}

    /** Returns the options of a store, with the shared runtime. Each call needs a {@link #release}. */
    static synchronized Options acquire(Map<String, ?> configs) {
        long bytes = number(configs, MEMORY_BYTES, MEMORY_BYTES_DEFAULT);
        if (shared == null) {
            Runtime.Builder builder = Runtime.builder().memoryBytes(bytes);
            long threads = number(configs, THREADS_MAX, 0);
            if (threads > 0) {
                builder.threadsMax((int) Math.min(threads, Integer.MAX_VALUE));
            }
            shared = builder.build();
            sharedBytes = bytes;
        } else if (configs.containsKey(MEMORY_BYTES) && bytes != sharedBytes) {
            LOG.warn("{} is {}, but the stores of this process already share {} bytes, which stays", MEMORY_BYTES,
                    bytes, sharedBytes);
        }
        users++;
        try {
            Options options = new Options().runtime(shared);
            configs.forEach((name, value) -> {
                if (name.startsWith(OPTION_PREFIX) && value != null) {
                    options.set(name.substring(OPTION_PREFIX.length()), value);
                } else if (name.startsWith(PREFIX) && !name.equals(MEMORY_BYTES) && !name.equals(THREADS_MAX)
                        && !name.startsWith(OPTION_PREFIX)) {
                    throw new ConfigException(name, value, "there is no such setting; there are " + MEMORY_BYTES + ", "
                            + THREADS_MAX + " and " + OPTION_PREFIX + "NAME");
                }
            });
            return options;
        } catch (RuntimeException failed) {
            release();
            throw failed;
        }
    }

    static synchronized void release() {
        users--;
        if (users == 0) {
            shared.close();
            shared = null;
        }
    }

    private static long number(Map<String, ?> configs, String name, long otherwise) {
        Object value = configs.get(name);
        if (value == null) {
            return otherwise;
        }
        try {
            return value instanceof Number number ? number.longValue() : Long.parseLong(value.toString().trim());
        } catch (NumberFormatException bad) {
            throw new ConfigException(name, value, "a number of bytes or threads");
        }
    }
}
