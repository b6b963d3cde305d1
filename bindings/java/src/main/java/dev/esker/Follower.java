package dev.esker;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;

/**
 * A follower of a store that another process writes, from {@link Esker#follow}: a read replica on the same
 * machine that needs no copy of the data. It writes nothing, takes no lock, and never makes the writer wait.
 * Many threads may use it at once.
 *
 * <p>{@link #db} returns a view: a store open read-only that shows the followed one at one moment and never
 * changes. {@link #catchUp} makes a newer view, and {@link #catchUpEvery} lets a thread do so. A view shows
 * every write that returned before its catch-up began, and none after that.
 */
public final class Follower implements AutoCloseable {
    /** Time after which a wait looks for an interrupt and for a close, in milliseconds. */
    private static final long LOOK_MS = 50;

    private final Resource resource;
    private final Path path;

    Follower(Path path, long handle) {
        this.path = path;
        resource = Resource.of(this, "follower", handle, Follower::closeAndFree);
    }

    private static void closeAndFree(long handle) {
        try {
            Native.closeFollower(null, handle);
        } finally {
            Native.freeFollower(null, handle);
        }
    }

    /**
     * Returns the directory of the store.
     *
     * @return the path with which it is followed
     */
    public Path path() {
        return path;
    }

    /**
     * Returns the newest view. Take it once for each request, so that the reads of a request fit together. It
     * keeps what it needs, also files that the writer has removed, until it is closed. It may be closed before
     * or after the follower.
     *
     * @return a store that is open read-only, which must be closed
     */
    public Esker db() {
        return new Esker(path, Native.followerView(this, resource.handle()));
    }

    /**
     * Returns the position of the newest view.
     *
     * @return the sequence number of the last operation that it shows
     */
    public long position() {
        return Native.followerPosition(this, resource.handle());
    }

    /**
     * Makes the newest view show what the store has now. Reads only what was added since the last call.
     *
     * @return the position of the view
     * @throws EskerException {@code CORRUPTION} for a damaged file, {@code INCOMPATIBLE} if another store has
     *     taken the place of this one, {@code IO}; the newest view is then as before, and the call can be
     *     repeated
     */
    public long catchUp() {
        return Native.catchUp(this, resource.handle());
    }

    /**
     * Lets a thread catch up whenever some time has passed since its last catch-up. It ends with the follower.
     * A further call changes the time. {@link #lag} has the failure of the last catch-up.
     *
     * @param interval at least a millisecond
     * @throws EskerException {@code INVALID_ARGUMENT} for a shorter time
     */
    public void catchUpEvery(Duration interval) {
        Native.catchUpEvery(this, resource.handle(), milliseconds(interval));
    }

    private static long milliseconds(Duration time) {
        return time.compareTo(Duration.ofMillis(Long.MAX_VALUE)) >= 0 ? Long.MAX_VALUE : time.toMillis();
    }

    /**
     * Waits until the newest view shows an operation, and catches up meanwhile. So a program that has written
     * to the store in another process, and knows the position from {@link Esker#snapshotWithPosition}, reads
     * its own writes.
     *
     * @param position a sequence number
     * @param timeout the longest wait
     * @return whether the newest view shows the operation
     * @throws InterruptedException if the thread is interrupted
     * @throws EskerException as {@link #catchUp}; {@code CLOSED} also if the follower is closed during the wait
     */
    public boolean waitFor(long position, Duration timeout) throws InterruptedException {
        long began = System.nanoTime();
        while (true) {
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
            Duration left = timeout.minusNanos(System.nanoTime() - began);
            boolean isLast = left.isNegative() || left.isZero();
            long waitMs = isLast ? 0 : Math.min(LOOK_MS - 1, milliseconds(left)) + 1;
            boolean isShown = Native.waitForPosition(this, resource.handle(), position, waitMs);
            if (isShown || isLast) {
                return isShown;
            }
        }
    }

    /**
     * How far a follower is behind. Positions are sequence numbers, as in the change feed.
     *
     * @param position the last operation that the newest view shows
     * @param newest the last operation that the store has now
     * @param operations the number of sequence numbers between the two
     * @param age the time since the begin of the last catch-up that did not fail
     * @param error why the last catch-up failed, as a sentence; null if it did not
     */
    public record Lag(long position, long newest, long operations, Duration age, String error) {}

    /**
     * Returns how far the newest view is behind the store. Reads the logs from the position of the view on, and
     * takes nothing over.
     *
     * @return the lag
     */
    public Lag lag() {
        List<String> texts = Native.texts(Native.followerLag(this, resource.handle()));
        String error = texts.get(4);
        return new Lag(Long.parseLong(texts.get(0)), Long.parseLong(texts.get(1)), Long.parseLong(texts.get(2)),
                Duration.ofMillis(Long.parseLong(texts.get(3))), error.isEmpty() ? null : error);
    }

    /**
     * Opens the store for writing, when its writer has ended or was killed. Every write that the writer has
     * acknowledged is in it. The follower and its views stay readable, and follow the returned store from then
     * on.
     *
     * @return the open store, which must be closed
     * @throws EskerException {@code LOCKED} while the writer lives; {@code INCOMPATIBLE} if the directory has
     *     another store now; {@code CORRUPTION} if the opened store lacks writes that the newest view shows,
     *     because a crash of the machine lost them
     */
    public Esker promote() {
        return new Esker(path, Native.promote(this, resource.handle()));
    }

    /**
     * Ends the thread of the follower and a wait of another thread, and waits for running calls. Later calls
     * throw. Views and promoted stores stay open. Closing twice is allowed.
     */
    @Override
    public void close() {
        long handle = resource.close();
        if (handle != 0) {
            Native.closeFollower(this, handle);
        }
    }
}
