package dev.esker;

/**
 * A key whose value, or whose time of expiry, is not the same in two compared stores.
 *
 * @param keyspace the name of the keyspace
 * @param key the key
 * @param oldValue the value in the first store; null if it does not have the key
 * @param newValue the value in the second store; null if it does not have the key
 * @param oldExpiresMs the time at which the pair of the first store expires, in milliseconds since 1970;
 *     -1 if it does not
 * @param newExpiresMs the time at which the pair of the second store expires; -1 if it does not
 */
public record Difference(String keyspace, byte[] key, byte[] oldValue, byte[] newValue, long oldExpiresMs,
        long newExpiresMs) {}
