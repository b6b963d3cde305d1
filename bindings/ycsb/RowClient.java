package dev.esker.ycsb;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.Status;

/** A client of a system that keeps each record as one value. Its scans are not there unless it overrides them. */
public abstract class RowClient extends DB {
    /** Returns the value of a record; null if there is none. */
    protected abstract byte[] get(String key);

    /** Writes the value of a record. */
    protected abstract void put(String key, byte[] row);

    @Override
    public Status read(String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
        byte[] row = get(key);
        if (row == null) {
            return Status.NOT_FOUND;
        }
        Row.unpack(row, fields, result);
        return Status.OK;
    }

    @Override
    public Status insert(String table, String key, Map<String, ByteIterator> values) {
        put(key, Row.pack(values));
        return Status.OK;
    }

    @Override
    public Status update(String table, String key, Map<String, ByteIterator> values) {
        return insert(table, key, values);
    }

    /** The core workloads delete nothing. */
    @Override
    public Status delete(String table, String key) {
        return Status.NOT_IMPLEMENTED;
    }

    @Override
    public Status scan(String table, String key, int count, Set<String> fields,
            Vector<HashMap<String, ByteIterator>> result) {
        return Status.NOT_IMPLEMENTED;
    }
}
