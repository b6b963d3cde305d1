package dev.esker;

import java.nio.charset.StandardCharsets;

/** A failure of Esker. The message is a sentence with the path and what to do. */
public final class EskerException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** What went wrong. */
    private final ErrorKind kind;
    /** The file or directory, or an empty text. */
    private final String path;
    /** The place in the file, in bytes, or -1. */
    private final long offsetBytes;

    /** Called by the native code, with texts in UTF-8. */
    EskerException(byte[] kind, byte[] message, byte[] path, long offsetBytes) {
        this(ErrorKind.of(utf8(kind)), utf8(message), utf8(path), offsetBytes);
    }

    EskerException(ErrorKind kind, String message) {
        this(kind, message, "", -1);
    }

    private EskerException(ErrorKind kind, String message, String path, long offsetBytes) {
        super(message);
        this.kind = kind;
        this.path = path;
        this.offsetBytes = offsetBytes;
    }

    static EskerException closed(String what) {
        return new EskerException(ErrorKind.CLOSED, "the " + what + " is closed");
    }

    static EskerException invalid(String message) {
        return new EskerException(ErrorKind.INVALID_ARGUMENT, message);
    }

    private static String utf8(byte[] text) {
        return new String(text, StandardCharsets.UTF_8);
    }

    /**
     * Returns what went wrong.
     *
     * @return the kind, never null
     */
    public ErrorKind kind() {
        return kind;
    }

    /**
     * Returns the file or directory that the failure concerns.
     *
     * @return the path, or null if there is none
     */
    public String path() {
        return path.isEmpty() ? null : path;
    }

    /**
     * Returns the place in the file.
     *
     * @return the offset in bytes, or -1 if there is none
     */
    public long offsetBytes() {
        return offsetBytes;
    }

    /**
     * Returns whether the transaction should run again: after a conflict, a deadlock, or a wait for
     * a lock that ended.
     *
     * @return whether running the transaction again may succeed
     */
    public boolean isRetryable() {
        return kind == ErrorKind.CONFLICT || kind == ErrorKind.DEADLOCK || kind == ErrorKind.BUSY;
    }
}
