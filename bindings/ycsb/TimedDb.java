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

    TimedDb(DB client, Calls calls) {
        this.client = client;
        this.calls = calls;
    }

    @Override
    public void init() throws DBException {
        client.init();
    }

    @Override
    public void cleanup() throws DBException {
        client.cleanup();
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
        return timed("READ", () -> client.read(table, key, fields, result));
    }

    @Override
    public Status scan(String table, String key, int count, Set<String> fields,
            Vector<HashMap<String, ByteIterator>> result) {
        return timed("SCAN", () -> client.scan(table, key, count, fields, result));
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
