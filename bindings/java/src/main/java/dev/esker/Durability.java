package dev.esker;

/** What a write promises to keep after a crash. */
public enum Durability {
    /** No log: a crash of the process loses what was not flushed to tables. */
    NONE,
    /** The default: a crash of the process loses nothing, a power failure may lose newest writes. */
    BUFFERED,
    /** The write is on the device when the call returns. */
    SYNC;

    /** Returns the number for native code: -1 for null, which is the store's durability. */
    static int number(Durability durability) {
        return durability == null ? -1 : durability.ordinal();
    }
}
