package dev.esker;

/**
 * The state of a store, with all its keyspaces, at one moment. Many threads may read it at once. It
 * keeps old versions of pairs and should be closed.
 */
public final class Snapshot implements AutoCloseable {
    private final Esker store;
    private final Resource resource;

    Snapshot(Esker store, long handle) {
        this.store = store;
        resource = Resource.of(this, "snapshot", handle, last -> Native.freeSnapshot(null, last));
    }

    /**
     * Returns the value of a key of the keyspace {@code default}.
     *
     * @param key the key
     * @return its value then, or null
     */
    public byte[] get(byte[] key) {
        return store.get(key, this);
    }

    /**
     * Returns an iterator over a range of the keyspace {@code default}.
     *
     * @param range the keys
     * @return a new iterator, which must be closed
     */
    public EskerIterator iterator(KeyRange range) {
        return store.iterator(range, this);
    }

    long handleFor(KeyValues part) {
        KeyValues.checkSame(store, part.store());
        return resource.handle();
    }

    /** Releases the snapshot. Later reads throw. Closing twice is allowed. */
    @Override
    public void close() {
        long handle = resource.close();
        if (handle != 0) {
            Native.releaseSnapshot(this, handle);
        }
    }
}
