package dev.esker;

import java.util.Objects;

/**
 * Reads and writes that take effect together, at one moment, or not at all. It reads the store as of
 * one moment, with its own writes over it. Closing a transaction that was not committed rolls it back.
 * Several threads may use it, one call at a time.
 */
public final class Transaction implements AutoCloseable {
    private final Esker store;
    private final Resource resource;

    Transaction(Esker store, long handle) {
        this.store = store;
        resource = Resource.of(this, "transaction", handle, last -> Native.freeTransaction(null, last));
    }

    /**
     * Returns the value of a key.
     *
     * @param key the key
     * @return its value, or null
     */
    public byte[] get(byte[] key) {
        return get(store, key, false);
    }

    /**
     * Returns the value of a key of a keyspace.
     *
     * @param part a keyspace of the store
     * @param key the key
     * @return its value, or null
     */
    public byte[] get(KeyValues part, byte[] key) {
        return get(part, key, false);
    }

    /**
     * Returns the value of a key, and protects the key as a write would.
     *
     * @param key the key
     * @return its value, or null
     */
    public byte[] getForUpdate(byte[] key) {
        return get(store, key, true);
    }

    /**
     * Returns the value of a key of a keyspace, and protects the key as a write would.
     *
     * @param part a keyspace of the store
     * @param key the key
     * @return its value, or null
     */
    public byte[] getForUpdate(KeyValues part, byte[] key) {
        return get(part, key, true);
    }

    /**
     * Sets a key to a value.
     *
     * @param key the key
     * @param value its value
     */
    public void put(byte[] key, byte[] value) {
        write(store, 0, key, value);
    }

    /**
     * Sets a key of a keyspace to a value.
     *
     * @param part a keyspace of the store
     * @param key the key
     * @param value its value
     */
    public void put(KeyValues part, byte[] key, byte[] value) {
        write(part, 0, key, value);
    }

    /**
     * Removes a key.
     *
     * @param key the key
     */
    public void delete(byte[] key) {
        write(store, 1, key, key);
    }

    /**
     * Removes a key of a keyspace.
     *
     * @param part a keyspace of the store
     * @param key the key
     */
    public void delete(KeyValues part, byte[] key) {
        write(part, 1, key, key);
    }

    /**
     * Removes all keys of a range.
     *
     * @param part a keyspace of the store, or the store
     * @param start the first key
     * @param end the key before which the range ends
     */
    public void deleteRange(KeyValues part, byte[] start, byte[] end) {
        write(part, 2, start, end);
    }

    /**
     * Merges an operand into the value of a key.
     *
     * @param part a keyspace of the store, or the store
     * @param key the key
     * @param operand what the merge operator combines with the value
     */
    public void merge(KeyValues part, byte[] key, byte[] operand) {
        write(part, 3, key, operand);
    }

    /**
     * Returns an iterator over a range, with the transaction's own writes.
     *
     * @param part a keyspace of the store, or the store
     * @param range the keys
     * @return a new iterator, which must be closed
     */
    public EskerIterator iterator(KeyValues part, KeyRange range) {
        KeyValues.checkSame(store, part.store());
        synchronized (resource) {
            return new EskerIterator(this, Native.iterator(part, part.handle(), 0, resource.handle(),
                    range.from(), range.fromInclusive(), range.to(), range.toInclusive(), true));
        }
    }

    /** Sets a savepoint. Savepoints nest. */
    public void savepoint() {
        savepoint(0);
    }

    /** Takes back the writes after the newest savepoint, and removes it. */
    public void rollbackToSavepoint() {
        savepoint(1);
    }

    /** Removes the newest savepoint and keeps the writes after it. */
    public void popSavepoint() {
        savepoint(2);
    }

    /**
     * Makes the writes visible and durable, all at once, and ends the transaction.
     *
     * @throws EskerException {@code CONFLICT} if another commit was faster; nothing was written
     */
    public void commit() {
        synchronized (resource) {
            long handle = resource.handle();
            try {
                Native.commit(this, handle);
            } finally {
                resource.free();
            }
        }
    }

    /**
     * Makes the transaction durable without making it visible, for a commit in two phases, and ends
     * this object. {@link Esker#commitPrepared} or {@link Esker#rollbackPrepared} decide, also after
     * a crash.
     *
     * @param name a name that no other prepared transaction has
     */
    public void prepare(String name) {
        synchronized (resource) {
            long handle = resource.handle();
            try {
                Native.prepare(this, handle, Native.utf8(name));
            } finally {
                resource.free();
            }
        }
    }

    /** Ends the transaction without its writes. Does nothing after its end. */
    public void rollback() {
        resource.free();
    }

    /** Rolls back, if the transaction has not ended. */
    @Override
    public void close() {
        resource.free();
    }

    private byte[] get(KeyValues part, byte[] key, boolean forUpdate) {
        KeyValues.checkSame(store, part.store());
        Objects.requireNonNull(key, "key");
        synchronized (resource) {
            return Native.transactionGet(this, resource.handle(), part.handle(), key, forUpdate);
        }
    }

    private void write(KeyValues part, int kind, byte[] key, byte[] value) {
        KeyValues.checkSame(store, part.store());
        Objects.requireNonNull(key, "key");
        Objects.requireNonNull(value, "value");
        synchronized (resource) {
            Native.transactionWrite(this, resource.handle(), part.handle(), kind, key, value);
        }
    }

    private void savepoint(int kind) {
        synchronized (resource) {
            Native.savepoint(this, resource.handle(), kind);
        }
    }
}
