package dev.esker;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads batches and differences as bindings/shared/src/feed.rs writes them. */
final class Reply {
    private static final int MISSING = -1;
    private static final Change.Kind[] KINDS = Change.Kind.values();

    private final ByteBuffer in;

    Reply(byte[] bytes) {
        in = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }

    boolean isAtEnd() {
        return !in.hasRemaining();
    }

    private byte[] bytes() {
        int length = in.getInt();
        if (length == MISSING) {
            return null;
        }
        byte[] bytes = new byte[length];
        in.get(bytes);
        return bytes;
    }

    private String text() {
        byte[] bytes = bytes();
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    private long number() {
        return (long) in.getDouble();
    }

    private long time() {
        double time = in.getDouble();
        return Double.isInfinite(time) ? -1 : (long) time;
    }

    ChangeBatch batch() {
        long first = number();
        long sequence = number();
        long checksum = in.getLong();
        long previous = number();
        long previousChecksum = in.getLong();
        long part = number();
        boolean continues = in.get() != 0;
        int count = in.getInt();
        List<Change> changes = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            changes.add(change());
        }
        return new ChangeBatch(first, sequence, checksum, previous, previousChecksum, part, continues,
                List.copyOf(changes));
    }

    private Change change() {
        Change.Kind kind = KINDS[in.get() - 1];
        long expiresMs = time();
        String keyspace = text();
        byte[] key = bytes();
        byte[] value = bytes();
        String name = text();
        String lines = text();
        boolean isNew = kind == Change.Kind.KEYSPACE_CREATED;
        return new Change(kind, keyspace, key, value, expiresMs, isNew ? null : name, isNew ? name : null,
                lines == null ? null : options(lines));
    }

    private static Map<String, String> options(String lines) {
        Map<String, String> options = new LinkedHashMap<>();
        for (String line : lines.split("\n")) {
            int at = line.indexOf('=');
            if (at > 0) {
                options.put(line.substring(0, at), line.substring(at + 1));
            }
        }
        return options;
    }

    Difference difference() {
        String keyspace = text();
        byte[] key = bytes();
        byte[] old = bytes();
        byte[] now = bytes();
        return new Difference(keyspace, key, old, now, time(), time());
    }
}
