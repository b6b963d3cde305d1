package dev.esker;

import java.util.Map;

/**
 * One change of a {@link ChangeBatch}. Its kind tells which components it has; the others are null.
 *
 * @param kind what was done
 * @param keyspace the name that the keyspace had then
 * @param key the key, or the start of a range
 * @param value the value, the operand, or the end of a range (exclusive)
 * @param expiresMs the time at which the pair expires, in milliseconds since 1970; -1 if it does not
 * @param newName the new name of a keyspace
 * @param keyOrder the name of the key order of a keyspace
 * @param options the own options of a keyspace
 */
public record Change(Kind kind, String keyspace, byte[] key, byte[] value, long expiresMs, String newName,
        String keyOrder, Map<String, String> options) {
    /** What a change did. */
    public enum Kind {
        /** A key was set to a value. */
        PUT,
        /** An operand was merged into the value of a key. */
        MERGE,
        /** A key was deleted. It may not have existed. */
        DELETE,
        /** The keys of a range were deleted. */
        DELETE_RANGE,
        /** All keys of the keyspace were deleted. */
        CLEAR,
        /** The keyspace was created, with a key order and options. */
        KEYSPACE_CREATED,
        /** The keyspace got another name. */
        KEYSPACE_RENAMED,
        /** The keyspace was dropped with all its keys. */
        KEYSPACE_DROPPED
    }
}
