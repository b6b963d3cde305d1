package dev.esker;

import java.time.Duration;
import java.util.Iterator;
import java.util.NoSuchElementException;

/**
 * The change feed of a store from a position on, from {@link Esker#changes} or {@link Slot#changes}.
 * Many threads may use it; each batch is returned once. It should be closed.
 *
 * <p>A loop over it ends at the present, and a later loop goes on. {@link #next} waits.
 */
public final class Changes implements AutoCloseable, Iterable<ChangeBatch> {
    /** Time after which a wait looks for an interrupt and for a close, in milliseconds. */
    private static final long LOOK_MS = 50;

    private final Resource resource;
    /** Keeps the store reachable. */
    private final Esker store;
    private volatile boolean isEnding;
    private long position;

    Changes(Esker store, long handle, long position) {
        this.store = store;
        this.position = position;
        resource = Resource.of(this, "change feed", handle, last -> Native.freeFeed(null, last));
    }

    /**
     * Returns the next batch, if there is one now.
     *
     * @return a batch, or null at the present
     * @throws EskerException {@code NOT_FOUND} if the logs with the next changes are gone, with the
     *     reason if the slot was dropped; {@code CLOSED}, {@code CORRUPTION}, {@code IO}
     */
    public ChangeBatch poll() {
        return look(0);
    }

    private synchronized ChangeBatch look(long waitMs) {
        byte[] reply = Native.nextChanges(store, resource.handle(), waitMs);
        if (reply == null) {
            return null;
        }
        ChangeBatch batch = new Reply(reply).batch();
        if (!batch.continues()) {
            position = batch.sequence();
        }
        return batch;
    }

    /**
     * Returns the next batch, and waits for it.
     *
     * @param timeout the longest wait
     * @return a batch, or null after that time
     * @throws InterruptedException if the thread is interrupted; no batch is lost
     * @throws EskerException as {@link #poll}; {@code CLOSED} also if the feed or the store is closed
     *     during the wait
     */
    public ChangeBatch next(Duration timeout) throws InterruptedException {
        long began = System.nanoTime();
        while (true) {
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
            if (isEnding) {
                throw EskerException.closed("change feed");
            }
            Duration left = timeout.minusNanos(System.nanoTime() - began);
            boolean isLast = left.isNegative() || left.isZero();
            long waitMs = isLast ? 0 : left.compareTo(Duration.ofMillis(LOOK_MS)) > 0 ? LOOK_MS : left.toMillis() + 1;
            ChangeBatch batch = look(waitMs);
            if (batch != null || isLast) {
                return batch;
            }
        }
    }

    /**
     * Returns the position.
     *
     * @return the sequence number of the last batch of which all parts were returned
     */
    public synchronized long position() {
        return position;
    }

    /**
     * Returns the batches up to the present.
     *
     * @return an iterator, which ends at the present
     */
    @Override
    public Iterator<ChangeBatch> iterator() {
        return new Iterator<>() {
            private ChangeBatch ahead;

            @Override
            public boolean hasNext() {
                if (ahead == null) {
                    ahead = poll();
                }
                return ahead != null;
            }

            @Override
            public ChangeBatch next() {
                if (!hasNext()) {
                    throw new NoSuchElementException("the feed is at the present");
                }
                ChangeBatch batch = ahead;
                ahead = null;
                return batch;
            }
        };
    }

    /** Ends the feed, and a wait of another thread. Later calls throw. Closing twice is allowed. */
    @Override
    public void close() {
        isEnding = true;
        synchronized (this) {
            resource.free();
        }
    }
}
