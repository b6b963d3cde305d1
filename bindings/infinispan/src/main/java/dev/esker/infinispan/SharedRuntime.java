package dev.esker.infinispan;

import dev.esker.Options;
import dev.esker.Runtime;
import java.util.Properties;
import org.infinispan.commons.CacheConfigurationException;

/** The runtime that all stores of the process share, from the first opening to the last close. */
final class SharedRuntime {
    private static final String MEMORY_BYTES = "memory.bytes";
    private static final String OPTION_PREFIX = "option.";
    private static final long MEMORY_BYTES_DEFAULT = 256L << 20;

    private static Runtime shared;
    private static int users;

    private SharedRuntime() {}

    /** Returns the options of a store. Each call needs a {@link #release}. */
    static synchronized Options acquire(Properties properties) {
        if (shared == null) {
            shared = Runtime.builder().memoryBytes(memoryBytes(properties)).build();
        }
        users++;
        try {
            Options options = new Options().runtime(shared);
            for (String name : properties.stringPropertyNames()) {
                if (name.startsWith(OPTION_PREFIX)) {
                    options.set(name.substring(OPTION_PREFIX.length()), properties.getProperty(name));
                } else if (!name.equals(MEMORY_BYTES)) {
                    throw new CacheConfigurationException("the store has no property " + name + "; there are "
                            + MEMORY_BYTES + " and " + OPTION_PREFIX + "NAME");
                }
            }
            return options;
        } catch (RuntimeException failed) {
            release();
            throw failed;
        }
    }

    private static long memoryBytes(Properties properties) {
        String bytes = properties.getProperty(MEMORY_BYTES);
        if (bytes == null) {
            return MEMORY_BYTES_DEFAULT;
        }
        try {
            return Long.parseLong(bytes.trim());
        } catch (NumberFormatException bad) {
            throw new CacheConfigurationException(
                    "the property " + MEMORY_BYTES + " must be a number of bytes, not \"" + bytes + "\"", bad);
        }
    }

    static synchronized void release() {
        users--;
        if (users == 0) {
            shared.close();
            shared = null;
        }
    }
}
