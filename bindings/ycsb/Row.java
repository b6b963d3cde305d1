package dev.esker.ycsb;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Set;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;

/** The fields of a record as one value: for each its name and its bytes, with their lengths before them. */
public final class Row {
    private Row() {}

    /** Packs the fields of a record. */
    public static byte[] pack(Map<String, ByteIterator> fields) {
        byte[][] parts = new byte[fields.size() * 2][];
        int at = 0;
        int bytes = 0;
        for (Map.Entry<String, ByteIterator> field : fields.entrySet()) {
            parts[at] = field.getKey().getBytes(StandardCharsets.UTF_8);
            parts[at + 1] = field.getValue().toArray();
            bytes += Integer.BYTES * 2 + parts[at].length + parts[at + 1].length;
            at += 2;
        }
        ByteBuffer row = ByteBuffer.allocate(bytes);
        for (byte[] part : parts) {
            row.putInt(part.length).put(part);
        }
        return row.array();
    }

    /** Puts the wanted fields of a record into a map; null for all. */
    public static void unpack(byte[] packed, Set<String> wanted, Map<String, ByteIterator> fields) {
        ByteBuffer row = ByteBuffer.wrap(packed);
        while (row.hasRemaining()) {
            String name = new String(part(row), StandardCharsets.UTF_8);
            byte[] value = part(row);
            if (wanted == null || wanted.contains(name)) {
                fields.put(name, new ByteArrayByteIterator(value));
            }
        }
    }

    private static byte[] part(ByteBuffer row) {
        byte[] part = new byte[row.getInt()];
        row.get(part);
        return part;
    }
}
