package dev.esker;

import java.lang.ref.Cleaner;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;

/**
 * The native part of an object. When the object becomes unreachable without a close, a cleaner frees
 * the native part, and {@link Leaks} reports it.
 *
 * <p>Two forms: a resource that is used under its lock is freed by {@link #free}. A resource that many
 * threads use at once is only marked as closed, and freed when nothing can use it any more.
 */
final class Resource implements Runnable {
    private static final Cleaner CLEANER = Cleaner.create(task -> {
        Thread thread = new Thread(task, "esker-cleaner");
        thread.setDaemon(true);
        return thread;
    });

    private final String what;
    private final AtomicLong handle;
    private final LongConsumer release;
    private final Throwable origin;
    private final boolean isNoticed;
    private volatile boolean isClosed;
    private Cleaner.Cleanable cleanable;

    private Resource(String what, long handle, LongConsumer release, boolean isNoticed) {
        this.isNoticed = isNoticed;
        this.what = what;
        this.handle = new AtomicLong(handle);
        this.release = release;
        this.origin = isNoticed ? Leaks.origin(what) : null;
    }

    /** Registers the native part of {@code owner}. {@code release} must not refer to the owner. */
    static Resource of(Object owner, String what, long handle, LongConsumer release) {
        return register(owner, new Resource(what, handle, release, true));
    }

    /** Does the same for an object that may be left to the garbage collector. */
    static Resource unnoticed(Object owner, String what, long handle, LongConsumer release) {
        return register(owner, new Resource(what, handle, release, false));
    }

    private static Resource register(Object owner, Resource resource) {
        resource.cleanable = CLEANER.register(owner, resource);
        return resource;
    }

    /** Returns the handle, or throws if the object was closed. */
    long handle() {
        if (isClosed) {
            throw EskerException.closed(what);
        }
        return handle.get();
    }

    boolean isClosed() {
        return isClosed;
    }

    /** Marks the object as closed. Returns the handle the first time, and then 0. */
    synchronized long close() {
        if (isClosed) {
            return 0;
        }
        isClosed = true;
        return handle.get();
    }

    /** Closes and frees. The caller holds this object's lock during each use of the handle. */
    synchronized void free() {
        isClosed = true;
        cleanable.clean();
    }

    @Override
    public synchronized void run() {
        long last = handle.getAndSet(0);
        if (last == 0) {
            return;
        }
        if (!isClosed) {
            isClosed = true;
            if (isNoticed) {
                Leaks.report(what, origin);
            }
        }
        try {
            release.accept(last);
        } catch (RuntimeException failed) {
            System.getLogger("dev.esker").log(System.Logger.Level.ERROR,
                    "Esker could not free " + what + ": " + failed.getMessage(), failed);
        }
    }
}
