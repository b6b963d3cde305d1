package dev.esker;

/** What went wrong, for programs. The kinds are those of Esker in all languages. */
public enum ErrorKind {
    /** An argument or option is invalid. Nothing was changed. */
    INVALID_ARGUMENT("invalid argument"),
    /** The store, keyspace or backup does not exist. */
    NOT_FOUND("not found"),
    /** Bytes on disk differ from the bytes written. They were not returned. */
    CORRUPTION("corruption"),
    /** The operating system refused an operation. */
    IO("i/o"),
    /** The device or a quota is full. No acknowledged write is lost. */
    NO_SPACE("no space"),
    /** Another process or object has the store open. */
    LOCKED("locked"),
    /** The directory has another format, version or key order. */
    INCOMPATIBLE("incompatible"),
    /** The store refuses writes: it was opened read-only, or a sync of its log failed. */
    READ_ONLY("read-only"),
    /** The object, or the store to which it belongs, was closed. */
    CLOSED("closed"),
    /** A transaction conflicts with another commit. Nothing was written: run it again. */
    CONFLICT("conflict"),
    /** A wait for a lock or for memory ended at its deadline. Nothing was written. */
    BUSY("busy"),
    /** Transactions wait for each other. Roll back, and run it again. */
    DEADLOCK("deadlock"),
    /** A defect of Esker: its native code has panicked. */
    INTERNAL("internal");

    private final String text;

    ErrorKind(String text) {
        this.text = text;
    }

    static ErrorKind of(String text) {
        for (ErrorKind kind : values()) {
            if (kind.text.equals(text)) {
                return kind;
            }
        }
        return INTERNAL;
    }
}
