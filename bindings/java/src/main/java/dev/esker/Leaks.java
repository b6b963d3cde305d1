package dev.esker;

import java.util.concurrent.atomic.AtomicLong;

/**
 * Objects that became unreachable before they were closed. Esker frees them, but late, when the
 * garbage collector finds them. Each is counted and logged by the logger {@code dev.esker}, with the
 * place where it was created if {@code -Desker.leaks=trace} is set.
 */
public final class Leaks {
    private static final AtomicLong COUNT = new AtomicLong();

    private Leaks() {}

    /**
     * Returns how many objects were freed because nothing could close them any more.
     *
     * @return the number since the start of the virtual machine
     */
    public static long count() {
        return COUNT.get();
    }

    static Throwable origin(String what) {
        return "trace".equals(System.getProperty("esker.leaks"))
                ? new Throwable("this is where the " + what + " was created")
                : null;
    }

    static void report(String what, Throwable origin) {
        COUNT.incrementAndGet();
        String advice = origin == null ? "; -Desker.leaks=trace shows where it was created" : "";
        System.getLogger("dev.esker").log(System.Logger.Level.WARNING,
                "An Esker " + what + " was not closed before it became unreachable" + advice, origin);
    }
}
