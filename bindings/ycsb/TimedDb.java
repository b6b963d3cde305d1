package dev.esker.ycsb;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import java.util.function.Supplier;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;

/** A client whose calls are counted and timed. */
final class TimedDb extends DB {
    private final DB client;
    private final Calls calls;
    private final int fields;

    /** Times the calls of a client for records of so many fields. */
    TimedDb(DB client, Calls calls, int fields) {
        this.client = client;
        this.calls = calls;
        this.fields = fields;
    }

    @Override
    public void init() throws DBException {
        client.init();
    }

    @Override
    public void cleanup() throws DBException {
        client.cleanup();
    }

    /** Returns a status, unless a record without all of its fields was found. */
    private Status whole(Status status, Set<String> wanted, Map<String, ByteIterator> found) {
        boolean isWhole = wanted != null || found.size() == fields;
        return !status.isOk() || isWhole ? status : Status.UNEXPECTED_STATE;
    }

    private Status timed(String kind, Supplier<Status> call) {
        long begun = System.nanoTime();
        Status status = Status.ERROR;
        try {
            status = call.get();
        } catch (RuntimeException failed) {
            System.err.println(kind + ": " + failed);
        }
        calls.add(kind, begun, status.isOk(), !status.isOk() && !status.equals(Status.NOT_FOUND));
        return status;
    }

    @Override
    public Status read(String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
        return timed("READ", () -> whole(client.read(table, key, fields, result), fields, result));
    }

    @Override
    public Status scan(String table, String key, int count, Set<String> fields,
            Vector<HashMap<String, ByteIterator>> result) {
        return timed("SCAN", () -> {
            Status status = client.scan(table, key, count, fields, result);
            // A scan starts at a record that is there.
            boolean isRight = !result.isEmpty() && result.size() <= count
                    && result.stream().allMatch(row -> whole(status, fields, row).isOk());
            return !status.isOk() || isRight ? status : Status.UNEXPECTED_STATE;
        });
    }

    @Override
    public Status update(String table, String key, Map<String, ByteIterator> values) {
        return timed("UPDATE", () -> client.update(table, key, values));
    }

    @Override
    public Status insert(String table, String key, Map<String, ByteIterator> values) {
        return timed("INSERT", () -> client.insert(table, key, values));
    }

    @Override
    public Status delete(String table, String key) {
        return client.delete(table, key);
    }
}
