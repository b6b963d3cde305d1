package dev.esker.ycsb;

import java.nio.file.Path;
import java.util.List;
import site.ycsb.DB;

/** A running system that the phases of YCSB are sent to. */
public interface Place extends AutoCloseable {
    /** Says what runs, with its version. */
    String about();

    /** Returns a client for one thread. */
    DB client();

    /** Says why the phase of a letter cannot run; null if it can. */
    default String whyNot(char letter) {
        return null;
    }

    /** Waits until everything that was written can be read. The wait is a part of the phase. */
    default void settle() throws Exception {}

    /** Returns whether a read finds each record whose insert returned, also before {@link #settle}. */
    default boolean findsOwnWrites() {
        return true;
    }

    /** Counts the records. */
    long records() throws Exception;

    /** Returns the directory of the stores, in the directory of the round. */
    default Path data(Path directory) {
        return directory;
    }

    /** Returns the processes whose memory counts. */
    List<Long> processes();

    /** Ends all its processes. */
    @Override
    void close();
}
