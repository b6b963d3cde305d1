package dev.esker;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;

/**
 * The differences of two stores, from {@link Esker#diff}: keyspace by keyspace, {@code default} first,
 * and within a keyspace in key order. It can be walked once, and should be closed.
 */
public final class Diff implements AutoCloseable, Iterable<Difference> {
    private final Resource resource;
    /** Keeps the stores reachable. */
    private final List<Object> of;
    private final String relation;
    private final long sharedFiles;
    private final Deque<Difference> ahead = new ArrayDeque<>();

    Diff(List<Object> of, long handle) {
        this.of = of;
        resource = Resource.of(this, "comparison", handle, last -> Native.freeDiff(null, last));
        List<String> facts = Native.texts(Native.diffFacts(this, handle));
        relation = facts.get(0);
        sharedFiles = Long.parseLong(facts.get(1));
    }

    /**
     * Returns how the stores descend from each other.
     *
     * @return a phrase after "the second store is", such as {@code "a fork of the first"}
     */
    public String relation() {
        return relation;
    }

    /**
     * Returns the number of tables that both stores have.
     *
     * @return a number; if it is 0, every pair is read
     */
    public long sharedFiles() {
        return sharedFiles;
    }

    private synchronized Difference next() {
        long handle = resource.handle();
        if (ahead.isEmpty()) {
            Reply reply = new Reply(Native.nextDifferences(of, handle));
            while (!reply.isAtEnd()) {
                ahead.add(reply.difference());
            }
        }
        return ahead.poll();
    }

    @Override
    public Iterator<Difference> iterator() {
        return new Iterator<>() {
            private Difference found;

            @Override
            public boolean hasNext() {
                if (found == null) {
                    found = Diff.this.next();
                }
                return found != null;
            }

            @Override
            public Difference next() {
                if (!hasNext()) {
                    throw new NoSuchElementException("there are no more differences");
                }
                Difference next = found;
                found = null;
                return next;
            }
        };
    }

    /** Releases what the comparison holds. Later calls throw. Closing twice is allowed. */
    @Override
    public synchronized void close() {
        resource.free();
    }
}
