package dev.esker;

/**
 * A keyspace: an ordered map of its own within a store, with options of its own. All keyspaces share
 * the log, the memory and the threads of the store, and a batch over several of them is atomic. A
 * keyspace object keeps its store reachable but not open.
 */
public final class Keyspace extends KeyValues implements AutoCloseable {
    private final Esker store;
    private final String name;

    Keyspace(Esker store, String name, long handle) {
        super("keyspace", handle, false);
        this.store = store;
        this.name = name;
    }

    @Override
    Esker store() {
        return store;
    }

    /**
     * Returns the name with which the keyspace was opened.
     *
     * @return the name
     */
    public String name() {
        return name;
    }

    /** Removes all pairs of this keyspace, in a time that does not depend on their number. */
    public void clear() {
        Native.clear(this, handle());
    }

    /** Releases the object. The keyspace stays in the store. */
    @Override
    public void close() {
        resource.close();
    }
}
